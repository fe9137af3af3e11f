//! `restante sources`: permanent URLs that receive webhooks.

mod rules;

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Change, NewSource, Paging, Source, SourceAnswer, SourceChange};

use rules::Rules;

use super::lookup::source_id;
use super::{Act, Session};
use crate::confirm::Yes;
use crate::input;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, number, text};
use crate::times::relative;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List sources, newest first
    List {
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one
    Get {
        /// Its name or id
        source: String,
    },
    /// Make one
    Create {
        /// Unique in the workspace
        name: String,
        #[command(flatten)]
        terms: Terms,
    },
    /// Change one
    Update {
        /// Its name or id
        source: String,
        /// A new name
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        terms: Terms,
        /// Take back to its default
        #[arg(long, value_name = "SETTING")]
        reset: Vec<Reset>,
    },
    /// Delete one: its URL stops working, and what is pending is cancelled
    Delete {
        /// Its name or id
        source: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Give one a new URL: the old one stops working at once
    RotateToken {
        /// Its name or id
        source: String,
        #[command(flatten)]
        yes: Yes,
    },
}

/// What a source is like.
#[derive(Debug, clap::Args)]
pub(crate) struct Terms {
    /// Days until a request is gone, 1 to 365 [default: 30]
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<u32>,
    /// Whether a client that connects is given what was pending before [default: true]
    #[arg(long, value_name = "BOOL")]
    deliver_pending_on_connect: Option<bool>,
    /// What it answers: the status [default: 200 and the request's id]
    #[arg(long, value_name = "STATUS")]
    response_status: Option<u16>,
    /// What it answers: the content type
    #[arg(long, value_name = "TYPE", requires = "response_status", default_value = "text/plain")]
    response_content_type: String,
    /// What it answers: the body, or @FILE
    #[arg(long, value_name = "TEXT", requires = "response_status", default_value = "")]
    response_body: String,
    #[command(flatten)]
    rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reset {
    RetentionDays,
    DeliverPendingOnConnect,
    Response,
    Dedupe,
    Verification,
}

impl Terms {
    fn response(&self) -> anyhow::Result<Option<SourceAnswer>> {
        let Some(status) = self.response_status else { return Ok(None) };
        let (content_type, body) = (self.response_content_type.clone(), input::text(&self.response_body)?);
        Ok(Some(SourceAnswer { status, content_type, body }))
    }
}

/// What a change says: the flag's value, or the default again.
pub(super) fn change<T>(value: Option<T>, reset: bool) -> Change<T> {
    match (value, reset) {
        (Some(value), _) => Change::Set(value),
        (None, true) => Change::Reset,
        (None, false) => Change::Keep,
    }
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let sources = client.sources();
        match self {
            Self::List { paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, sources.list(&wanted))
            }
            Self::Get { source } => show.one(&sources.get(&source_id(client, &source)?).wait()?),
            Self::Create { name, terms } => {
                let source = NewSource {
                    name,
                    response: terms.response()?,
                    deliver_pending_on_connect: terms.deliver_pending_on_connect,
                    retention_days: terms.retention_days,
                    dedupe: terms.rules.dedupe(),
                    verification: terms.rules.verification()?,
                };
                show.one(&sources.create(&source).wait()?)
            }
            Self::Update { source, name, terms, reset } => {
                let reset = |setting| reset.contains(&setting);
                let wanted = SourceChange {
                    name,
                    response: change(terms.response()?, reset(Reset::Response)),
                    deliver_pending_on_connect: change(
                        terms.deliver_pending_on_connect,
                        reset(Reset::DeliverPendingOnConnect),
                    ),
                    retention_days: change(terms.retention_days, reset(Reset::RetentionDays)),
                    dedupe: change(terms.rules.dedupe(), reset(Reset::Dedupe)),
                    verification: change(terms.rules.verification()?, reset(Reset::Verification)),
                };
                show.one(&sources.update(&source_id(client, &source)?, &wanted).wait()?)
            }
            Self::Delete { source, yes } => {
                let id = source_id(client, &source)?;
                yes.confirm(&format!("delete the source {source}, with its destinations"))?;
                sources.delete(&id).wait()?;
                show.gone("deleted", &id)
            }
            Self::RotateToken { source, yes } => {
                let id = source_id(client, &source)?;
                yes.confirm(&format!("give the source {source} a new URL; the old one stops working"))?;
                show.one(&sources.rotate_token(&id).wait()?)
            }
        }
    }
}

impl Shown for Source {
    const COLUMNS: &'static [Column] =
        &[column("id"), text("name"), number("clients"), number("keeps"), column("created"), text("url")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.name),
            Cell::new(self.clients_connected.to_string()),
            Cell::new(format!("{} d", self.retention_days)),
            Cell::new(relative(self.created_at, now)),
            Cell::new(&self.url),
        ]
    }
}
