//! `restante keys`: who may call, and what they may do.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{ApiKey, Mode, NewKey, Paging, Scope};

use super::{Act, Session, words};
use crate::confirm::Yes;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, text};
use crate::times::relative;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List keys, newest first
    List {
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one
    Get {
        /// Its id, key_…
        key: String,
    },
    /// Make one; its token is shown only now
    Create {
        /// For people
        name: String,
        /// What its holder may do; several with commas between
        #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = words::scope())]
        scopes: Vec<Scope>,
        /// What its holder's emails do [default: live]
        #[arg(long, value_parser = words::mode())]
        mode: Option<Mode>,
    },
    /// Give one a new token; the old one stops working at once
    Rotate {
        /// Its id, key_…
        key: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Revoke one: it stops working at once and stays listed
    Revoke {
        /// Its id, key_…
        key: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Delete one
    Delete {
        /// Its id, key_…
        key: String,
        #[command(flatten)]
        yes: Yes,
    },
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let keys = client.keys();
        match self {
            Self::List { paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, keys.list(&wanted))
            }
            Self::Get { key } => show.one(&keys.get(&key).wait()?),
            Self::Create { name, scopes, mode } => {
                show.one(&keys.create(&NewKey { name, scopes, mode }).wait()?)?;
                show.say("its token is shown only now");
                Ok(())
            }
            Self::Rotate { key, yes } => {
                yes.confirm(&format!("give the key {key} a new token; the old one stops working"))?;
                show.one(&keys.rotate(&key).wait()?)?;
                show.say("its token is shown only now");
                Ok(())
            }
            Self::Revoke { key, yes } => {
                yes.confirm(&format!("revoke the key {key}"))?;
                show.did("revoked", &keys.revoke(&key).wait()?)
            }
            Self::Delete { key, yes } => {
                yes.confirm(&format!("delete the key {key}"))?;
                keys.delete(&key).wait()?;
                show.gone("deleted", &key)
            }
        }
    }
}

impl Shown for ApiKey {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("state"),
        column("mode"),
        column("ends"),
        column("created"),
        column("used"),
        column("name"),
        text("scopes"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let scopes: Vec<&str> = self.scopes.iter().map(Scope::as_str).collect();
        vec![
            Cell::new(&self.id),
            Cell::state(if self.revoked_at.is_some() { "revoked" } else { "active" }),
            Cell::state(self.mode.as_str()),
            Cell::new(format!("…{}", self.last4)),
            Cell::new(relative(self.created_at, now)),
            Cell::maybe(self.last_used_at.map(|at| relative(at, now))),
            Cell::new(&self.name),
            Cell::new(scopes.join(",")),
        ]
    }
}
