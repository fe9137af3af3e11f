//! `restante suppressions`: mailboxes that get no mail.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{NewSuppression, Paging, Suppression};

use super::{Act, Session};
use crate::confirm::Yes;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, text};
use crate::times::relative;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List suppressions, newest first
    List {
        #[command(flatten)]
        paged: Paged,
    },
    /// Send no mail to an address any more
    Add {
        /// As ada@example.com
        email: String,
    },
    /// Send mail to an address again
    Delete {
        /// The id of the suppression, sup_…
        suppression: String,
        #[command(flatten)]
        yes: Yes,
    },
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let suppressions = client.suppressions();
        match self {
            Self::List { paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, suppressions.list(&wanted))
            }
            Self::Add { email } => {
                show.did("suppressed as", &suppressions.add(&NewSuppression::new(email)).wait()?)
            }
            Self::Delete { suppression, yes } => {
                yes.confirm(&format!("delete {suppression}: its address gets mail again"))?;
                suppressions.delete(&suppression).wait()?;
                show.gone("deleted", &suppression)
            }
        }
    }
}

impl Shown for Suppression {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("reason"), column("created"), column("email"), text("detail")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(self.reason.as_str()),
            Cell::new(relative(self.created_at, now)),
            Cell::new(&self.email),
            Cell::maybe(self.detail.as_deref()),
        ]
    }
}
