//! What is shown of things: tables and details for people, lines of JSON for programs, ids for scripts.

use std::io::IsTerminal;

use restante_sdk::Timestamp;
use restante_sdk::blocking::Client;
use restante_sdk::client::Listing;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::detail::Detail;
use crate::output;
use crate::paint::{Paint, When};
use crate::table::{Cell, Column, Table};

/// Items a list shows unless told otherwise.
const ITEMS_DEFAULT: u32 = 25;
/// Items the API gives at once.
const PAGE_ITEMS_MAX: u32 = 100;
/// What a terminal that does not tell is taken for.
const CHARS_DEFAULT: usize = 80;

/// How things are shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Flags {
    /// One line of JSON for each thing, as the API gives it
    #[arg(long, global = true, conflicts_with = "quiet", help_heading = "Output")]
    pub(crate) json: bool,
    /// Only ids
    #[arg(long, short, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    pub(crate) color: When,
}

/// How much of a list is shown.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Paged {
    /// Show at most so many
    #[arg(long, value_name = "N", default_value_t = ITEMS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show all
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Paged {
    /// Items that one page is to have.
    pub(crate) fn page_items(self) -> Option<u32> {
        Some(if self.all { PAGE_ITEMS_MAX } else { self.limit.min(PAGE_ITEMS_MAX) })
    }

    /// Items that are shown.
    pub(crate) fn items_max(self) -> usize {
        if self.all { usize::MAX } else { usize::try_from(self.limit).unwrap_or(usize::MAX) }
    }
}

/// Something of the API that is shown.
pub(crate) trait Shown: Serialize {
    /// Of tables.
    const COLUMNS: &'static [Column];

    fn id(&self) -> &str;

    /// As many cells as there are columns.
    fn row(&self, now: Timestamp) -> Vec<Cell>;

    /// All there is to it. The fields as the API names them, unless said otherwise.
    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        detail.fields(self, &[])
    }
}

/// Where and how things are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Show {
    pub(crate) flags: Flags,
    pub(crate) paint: Paint,
    /// Width of the terminal; `None`: standard output is none.
    chars_max: Option<usize>,
    pub(crate) now: Timestamp,
}

impl Show {
    pub(crate) fn new(flags: Flags, now: Timestamp) -> Self {
        let chars_max = std::io::stdout().is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
            size.map(|size| usize::from(size.ws_col)).filter(|chars| *chars > 0).unwrap_or(CHARS_DEFAULT)
        });
        Self { flags, paint: Paint::chosen(flags.color), chars_max, now }
    }

    /// Whether people read it.
    pub(crate) fn for_people(&self) -> bool {
        !self.flags.json && !self.flags.quiet
    }

    /// All there is to one thing.
    ///
    /// # Errors
    /// Whoever reads is gone.
    pub(crate) fn one<T: Shown>(&self, thing: &T) -> anyhow::Result<()> {
        if !self.for_people() {
            return self.item(thing);
        }
        let mut detail = Detail::new(self.paint, self.now);
        thing.detail(&mut detail)?;
        output::line(&detail.finish())
    }

    /// What a call has done to a thing, in a line for people.
    ///
    /// # Errors
    /// Whoever reads is gone.
    pub(crate) fn did<T: Shown>(&self, what: &str, thing: &T) -> anyhow::Result<()> {
        if !self.for_people() {
            return self.item(thing);
        }
        output::line(&format!("{what} {}", thing.id()))
    }

    /// That a thing is gone. There is nothing to show but its id.
    ///
    /// # Errors
    /// Whoever reads is gone.
    pub(crate) fn gone(&self, what: &str, id: &str) -> anyhow::Result<()> {
        match (self.flags.json, self.flags.quiet) {
            (true, _) => Ok(()),
            (false, true) => output::line(id),
            (false, false) => output::line(&format!("{what} {id}")),
        }
    }

    /// For programs: a line of JSON, or the id.
    fn item<T: Shown>(&self, thing: &T) -> anyhow::Result<()> {
        match self.flags.quiet {
            true => output::line(thing.id()),
            false => self.json(thing),
        }
    }

    /// A line of JSON.
    ///
    /// # Errors
    /// Whoever reads is gone.
    pub(crate) fn json(&self, thing: &impl Serialize) -> anyhow::Result<()> {
        output::line(&serde_json::to_string(thing)?)
    }

    /// A table of such things.
    pub(crate) fn table<T: Shown>(&self) -> Table {
        Table::new(T::COLUMNS, self.chars_max, self.paint)
    }

    /// A list, page by page.
    ///
    /// # Errors
    /// A page cannot be read, or whoever reads is gone.
    pub(crate) fn list<T: Shown + DeserializeOwned>(
        &self,
        paged: Paged,
        listing: Listing<Client, T>,
    ) -> anyhow::Result<()> {
        let mut table = self.table::<T>();
        let (mut left, mut shown) = (paged.items_max(), 0);
        for page in listing.pages() {
            let page = page?;
            let wanted = &page.data[..page.data.len().min(left)];
            shown += wanted.len();
            left -= wanted.len();
            if !self.for_people() {
                wanted.iter().try_for_each(|thing| self.item(thing))?;
            } else if !wanted.is_empty() {
                let rows: Vec<_> = wanted.iter().map(|thing| thing.row(self.now)).collect();
                output::line(&table.lines(&rows).join("\n"))?;
            }
            if left == 0 {
                if page.has_more || wanted.len() < page.data.len() {
                    self.say(&format!(
                        "{shown} shown; there are more: --all, or --limit with a greater number"
                    ));
                }
                return Ok(());
            }
        }
        if shown == 0 {
            self.say("none");
        }
        Ok(())
    }

    /// Says something to people that is no data.
    pub(crate) fn say(&self, text: &str) {
        if self.for_people() {
            output::talk(text);
        }
    }
}
