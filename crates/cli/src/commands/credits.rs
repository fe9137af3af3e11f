//! `restante credits`: the balance, and what changed it.

use restante_sdk::Timestamp;
use restante_sdk::wire::{Charge, Paging};

use super::{Act, Session};
use crate::output;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, number, text};
use crate::times::relative;

/// How much of the ledger is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Ledger {
    #[command(flatten)]
    paged: Paged,
}

impl Act for Ledger {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let mut wanted = Paging { limit: self.paged.page_items(), ..Paging::default() };
        let mut left = self.paged.items_max();
        let mut table = show.table::<Charge>();
        loop {
            let credits = client.workspace().get_credits(&wanted).wait()?;
            if show.flags.json {
                // Balance and ledger are one thing of the API: a line for each page.
                show.json(&credits)?;
            } else if show.for_people() && wanted.cursor.is_none() {
                let balance = credits.balance.map_or("not counted".to_owned(), |balance| balance.to_string());
                output::line(&format!("balance  {balance}"))?;
            }
            let page = credits.ledger;
            let charges = &page.data[..page.data.len().min(left)];
            left -= charges.len();
            if show.flags.quiet {
                charges.iter().try_for_each(|charge| output::line(&charge.id))?;
            } else if show.for_people() && !charges.is_empty() {
                let rows: Vec<_> = charges.iter().map(|charge| charge.row(show.now)).collect();
                output::line(&table.lines(&rows).join("\n"))?;
            }
            match page.next_cursor.filter(|_| page.has_more && left > 0) {
                Some(cursor) => wanted.cursor = Some(cursor),
                None if page.has_more => {
                    show.say("there is more: --all, or --limit with a greater number");
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }
}

impl Shown for Charge {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("when"), number("credits"), column("reason"), text("for")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(relative(self.at, now)),
            Cell::new(format!("{:+}", self.delta)),
            Cell::new(self.reason.as_str()),
            Cell::maybe(self.reference.as_deref()),
        ]
    }
}
