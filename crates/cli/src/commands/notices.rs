//! `restante notices`: what the owners were told about webhooks.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Notice, Paging};

use super::{Act, Session};
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column};
use crate::times::relative;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List notices, newest first
    List {
        #[command(flatten)]
        paged: Paged,
    },
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        match self {
            Self::List { paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, client.notices().list(&wanted))
            }
        }
    }
}

impl Shown for Notice {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("kind"), column("happened"), column("mailed"), column("webhook")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(self.kind.as_str()),
            Cell::new(relative(self.created_at, now)),
            Cell::maybe(self.mailed_at.map(|at| relative(at, now))),
            Cell::new(&self.webhook_id),
        ]
    }
}
