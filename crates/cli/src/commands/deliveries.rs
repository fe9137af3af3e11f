//! `restante deliveries`: messages on their way, with each attempt.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Attempt, AttemptResult, Delivery, DeliveryState, ListDeliveries, Paging};

use super::lookup::source_id_of;
use super::timeline::timeline;
use super::{Act, Session, words};
use crate::detail::Detail;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, number, text};
use crate::times::{Moment, relative, took};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List deliveries, newest first
    List {
        /// Of this request, req_…
        #[arg(long, value_name = "ID")]
        request: Option<String>,
        /// Of this event, whe_…
        #[arg(long, value_name = "ID")]
        event: Option<String>,
        /// Of requests to this source: its name or id
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// To this destination, dst_…
        #[arg(long, value_name = "ID")]
        destination: Option<String>,
        /// To this webhook, whk_…
        #[arg(long, value_name = "ID")]
        webhook: Option<String>,
        /// In this state
        #[arg(long, value_parser = words::delivery_state())]
        state: Option<DeliveryState>,
        /// Created at this time or later: a time, or 15m, 2h, 7d ago
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        since: Option<Moment>,
        /// Created at this time or earlier
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        until: Option<Moment>,
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one: what happened, what comes next and when, and why then
    Get {
        /// Its id, dlv_…
        delivery: String,
    },
    /// List its attempts, newest first
    Attempts {
        /// Its id, dlv_…
        delivery: String,
        #[command(flatten)]
        paged: Paged,
    },
    /// Cancel one; an attempt in flight cannot be called back
    Cancel {
        /// Its id, dlv_…
        delivery: String,
    },
    /// Retry a delivery of a request: a new one to the same destination, for one credit
    Retry {
        /// Its id, dlv_…
        delivery: String,
    },
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let deliveries = client.deliveries();
        match self {
            Self::List { request, event, source, destination, webhook, state, since, until, paged } => {
                let wanted = ListDeliveries {
                    request,
                    event,
                    source: source_id_of(client, source.as_deref())?,
                    destination,
                    webhook,
                    state,
                    since: since.map(|since| since.on(show.now)),
                    until: until.map(|until| until.on(show.now)),
                    limit: paged.page_items(),
                    ..ListDeliveries::default()
                };
                show.list(paged, deliveries.list(&wanted))
            }
            Self::Get { delivery } => show.one(&deliveries.get(&delivery).wait()?),
            Self::Attempts { delivery, paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, deliveries.list_attempts(&delivery, &wanted))
            }
            Self::Cancel { delivery } => {
                let delivery = deliveries.cancel(&delivery).wait()?;
                let what =
                    if delivery.cancel_requested { "cancelled once its attempt ends:" } else { "cancelled" };
                show.did(what, &delivery)
            }
            Self::Retry { delivery } => show.did("delivering as", &deliveries.retry(&delivery).wait()?),
        }
    }
}

impl Shown for Delivery {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("state"),
        number("attempts"),
        column("next"),
        column("created"),
        text("message"),
        text("endpoint"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let message = self.request_id.as_deref().or(self.event_id.as_deref()).or(self.email_id.as_deref());
        let endpoint = self.destination_id.as_deref().or(self.webhook_id.as_deref());
        let endpoint = endpoint.or(self.recipient.as_deref());
        vec![
            Cell::new(&self.id),
            Cell::state(self.state.as_str()),
            Cell::new(format!("{}/{}", self.attempts_used, self.attempts_max)),
            Cell::maybe(self.next_attempt_at.map(|at| relative(at, now))),
            Cell::new(relative(self.created_at, now)),
            Cell::maybe(message),
            Cell::maybe(endpoint),
        ]
    }

    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        let told = ["attempts", "next_attempt_at", "wait_because", "ended_at"];
        detail.fields(self, &told)?;
        detail.heading("Attempts");
        timeline(detail, self);
        Ok(())
    }
}

impl Shown for Attempt {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        number("number"),
        column("result"),
        column("answer"),
        number("took"),
        column("started"),
        column("trigger"),
        text("error"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let status = self.response_status_code.map(|code| code.to_string());
        let kind = self.error_kind.as_ref().map(|kind| kind.as_str().to_owned());
        vec![
            Cell::new(&self.id),
            Cell::new(self.number.to_string()),
            Cell::state(self.result.as_ref().map_or("in flight", AttemptResult::as_str)),
            Cell::maybe(status.or(kind)),
            Cell::maybe(self.duration_ms.map(took)),
            Cell::new(relative(self.started_at, now)),
            Cell::new(self.trigger.as_str()),
            Cell::maybe(self.error_message.as_deref()),
        ]
    }
}
