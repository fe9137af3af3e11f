//! `restante events`: what is published to webhooks.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Event, EventDeliveries, ListEvents};

use super::send::Publish;
use super::timeline::delivery;
use super::{Act, Session};
use crate::detail::Detail;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, number, text};
use crate::times::{Moment, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List events, newest first
    List {
        /// Of exactly this type
        #[arg(long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Accepted at this time or later: a time, or 15m, 2h, 7d ago
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        since: Option<Moment>,
        /// Accepted at this time or earlier
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        until: Option<Moment>,
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one: its data, and each delivery with its attempts
    Get {
        /// Its id, whe_…
        event: String,
    },
    /// Publish one (also: restante send event)
    Publish(Publish),
}

impl Act for Action {
    fn act(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, show } = session;
        match self {
            Self::List { event_type, since, until, paged } => {
                let wanted = ListEvents {
                    event_type,
                    since: since.map(|since| since.on(show.now)),
                    until: until.map(|until| until.on(show.now)),
                    limit: paged.page_items(),
                    ..ListEvents::default()
                };
                show.list(paged, client.events().list(&wanted))
            }
            Self::Get { event } => show.one(&client.events().get(&event).wait()?),
            Self::Publish(publish) => publish.publish(session),
        }
    }
}

impl Shown for Event {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("created"), number("deliveries"), column("type"), text("data")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(relative(self.created_at, now)),
            Cell::new(self.deliveries.count().to_string()),
            Cell::new(&self.event_type),
            Cell::new(crate::table::cut(self.data.as_str(), 120)),
        ]
    }

    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        detail.fields(self, &["deliveries"])?;
        if let EventDeliveries::All(all) = &self.deliveries {
            all.iter().for_each(|one| delivery(detail, one));
        }
        if self.deliveries.count() == 0 {
            detail.heading("No deliveries: no webhook was subscribed to its type");
        }
        Ok(())
    }
}
