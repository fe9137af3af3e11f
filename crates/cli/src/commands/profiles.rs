//! `restante profiles`: servers and keys by name.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_server::clock::SystemClock;
use serde::Serialize;

use super::now;
use crate::confirm::Yes;
use crate::connection::{self, Profile};
use crate::exit;
use crate::input;
use crate::nearest::nearest;
use crate::output::{self, hinted};
use crate::show::{self, Show, Shown};
use crate::table::{Cell, Column, column, text};

#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Profiles {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    show: show::Flags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List profiles
    List,
    /// Use one where nothing else says which
    Use {
        /// Its name
        name: String,
    },
    /// Make one, or change it
    Set {
        /// Its name
        name: String,
        /// The server's URL
        #[arg(long)]
        url: Option<String>,
        /// The API key, @FILE, or - for standard input: so no other process sees it
        #[arg(long, value_name = "KEY")]
        api_key: Option<String>,
        /// The workspace to act in, for keys with the scope admin
        #[arg(long, value_name = "ID")]
        workspace: Option<String>,
    },
    /// Remove one, with its key
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        yes: Yes,
    },
}

/// A profile as it is shown: its key only by its end.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    in_use: bool,
    url: Option<&'a str>,
    api_key_ends: Option<String>,
    workspace: Option<&'a str>,
}

impl Profiles {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let show = Show::new(self.show, now(&SystemClock::start()));
        let mut profiles = connection::Profiles::read()?;
        match self.action {
            Action::List => return list(&show, &profiles),
            Action::Use { name } => {
                find(&profiles, &name)?;
                profiles.profile = Some(name);
            }
            Action::Set { name, url, api_key, workspace } => {
                let api_key = api_key.map(|given| input::text(&given)).transpose()?;
                let first = profiles.profiles.is_empty();
                let profile = profiles.profiles.entry(name.clone()).or_default();
                profile.url = url.or(profile.url.take());
                profile.api_key = api_key.map(|key| key.trim().to_owned()).or(profile.api_key.take());
                profile.workspace = workspace.or(profile.workspace.take());
                if first {
                    profiles.profile = Some(name);
                }
            }
            Action::Remove { name, yes } => {
                find(&profiles, &name)?;
                yes.confirm(&format!("remove the profile {name}, with its key"))?;
                profiles.profiles.remove(&name);
                profiles.profile = profiles.profile.filter(|used| *used != name);
            }
        }
        let path = profiles.write()?;
        show.say(&format!("written to {}", path.display()));
        Ok(())
    }
}

fn find<'a>(profiles: &'a connection::Profiles, name: &str) -> anyhow::Result<&'a Profile> {
    profiles.profiles.get(name).ok_or_else(|| {
        let hint = match nearest(name, profiles.profiles.keys().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("restante profiles set {name} --url URL --api-key - makes it"),
        };
        hinted(format!("there is no profile {name:?}"), &hint, exit::NOT_FOUND)
    })
}

fn list(show: &Show, profiles: &connection::Profiles) -> anyhow::Result<()> {
    let named: Vec<Named<'_>> = profiles
        .profiles
        .iter()
        .map(|(name, profile)| {
            let ends = profile.api_key.as_deref().map(key_end);
            Named {
                name,
                in_use: profiles.profile.as_deref() == Some(name),
                url: profile.url.as_deref(),
                api_key_ends: ends,
                workspace: profile.workspace.as_deref(),
            }
        })
        .collect();
    if !show.for_people() {
        return named.iter().try_for_each(|profile| show.one(profile));
    }
    if named.is_empty() {
        show.say("none");
        return Ok(());
    }
    let rows: Vec<_> = named.iter().map(|profile| profile.row(show.now)).collect();
    output::line(&show.table::<Named<'_>>().lines(&rows).join("\n"))
}

/// So much of a key may be shown as the API shows.
pub(super) fn key_end(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    match chars.len() {
        0..12 => "…".to_owned(),
        len => ['…'].iter().chain(&chars[len - 4..]).collect(),
    }
}

impl Shown for Named<'_> {
    const COLUMNS: &'static [Column] =
        &[column("name"), column("used"), column("key"), column("workspace"), text("url")];

    fn id(&self) -> &str {
        self.name
    }

    fn row(&self, _: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(self.name),
            Cell::new(if self.in_use { "yes" } else { "-" }),
            Cell::maybe(self.api_key_ends.as_deref()),
            Cell::maybe(self.workspace),
            Cell::maybe(self.url),
        ]
    }
}
