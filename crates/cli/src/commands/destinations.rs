//! `restante destinations`: receivers of a source.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{
    BulkRetry, Change, DeliveryState, Destination, DestinationChange, DestinationKind, IdempotencyHeader,
    NewBulkRetry, NewDestination, Paging,
};

use super::endpoint::{Terms, in_words};
use super::lookup::source_id;
use super::sources::change;
use super::{Act, Session, words};
use crate::confirm::Yes;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, number, text};
use crate::times::{Moment, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List a source's destinations, newest first
    List {
        /// The source's name or id
        #[arg(long, value_name = "NAME")]
        source: String,
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one
    Get(One),
    /// Make one: it receives what the source takes in from now on
    Create {
        /// The source's name or id
        #[arg(long, value_name = "NAME")]
        source: String,
        /// Where to send: https and public, unless the server allows more
        #[arg(long)]
        url: String,
        /// It is reached through `restante listen`
        #[arg(long)]
        cli: bool,
        /// Deliveries stay pending until it is resumed
        #[arg(long)]
        paused: bool,
        #[command(flatten)]
        own: Own,
        #[command(flatten)]
        terms: Terms,
    },
    /// Change one
    Update {
        #[command(flatten)]
        one: One,
        /// Where to send, from the next attempt on
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        own: Own,
        #[command(flatten)]
        terms: Terms,
        /// Take back to its default
        #[arg(long, value_name = "SETTING")]
        reset: Vec<Reset>,
    },
    /// Delete one: its pending deliveries are cancelled
    Delete {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        yes: Yes,
    },
    /// Hold its deliveries: they stay pending and use no attempt
    Pause(One),
    /// Let its deliveries go on
    Resume(One),
    /// Retry many deliveries of it, each for one credit
    Retry {
        #[command(flatten)]
        one: One,
        /// Created at this time or later: a time, or 15m, 2h, 7d ago
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        since: Moment,
        /// Created at this time or earlier [default: now]
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        until: Option<Moment>,
        /// In this state: failed, cancelled or delivered [default: failed]
        #[arg(long, value_parser = words::delivery_state())]
        state: Option<DeliveryState>,
        /// Only count them
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        yes: Yes,
    },
    /// List its bulk retries and how far they are
    Retries {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        paged: Paged,
    },
}

/// What goes back to its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reset {
    IdempotencyHeader,
    Schedule,
    Headers,
    MaxInFlight,
    RatePerSecond,
    TimeoutSeconds,
}

/// Which one.
#[derive(Debug, clap::Args)]
pub(crate) struct One {
    /// Its id, dst_…
    destination: String,
    /// The source's name or id
    #[arg(long, value_name = "NAME")]
    source: String,
}

/// What only destinations have.
#[derive(Debug, clap::Args)]
pub(crate) struct Own {
    /// Short for --schedule quadratic:N, 1 to 10
    #[arg(long, value_name = "N", conflicts_with = "schedule")]
    attempts: Option<u32>,
    /// Send the request's key with each attempt, in X-Adal-Idempotency or this header
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    idempotency_header: Option<String>,
}

impl Own {
    fn idempotency_header(&self) -> Option<IdempotencyHeader> {
        match self.idempotency_header.as_deref()? {
            "" => Some(IdempotencyHeader::Standard),
            name => Some(IdempotencyHeader::Named(name.to_owned())),
        }
    }
}

impl Act for Action {
    fn act(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, show } = session;
        let destinations = client.destinations();
        match self {
            Self::List { source, paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, destinations.list(&source_id(client, &source)?, &wanted))
            }
            Self::Get(One { destination, source }) => {
                show.one(&destinations.get(&source_id(client, &source)?, &destination).wait()?)
            }
            Self::Create { source, url, cli, paused, own, terms } => {
                let kind = if cli { DestinationKind::Cli } else { DestinationKind::Http };
                let destination = NewDestination {
                    attempts: own.attempts,
                    schedule: terms.schedule(),
                    idempotency_header: own.idempotency_header(),
                    paused: paused.then_some(true),
                    headers: terms.headers(),
                    max_in_flight: terms.max_in_flight,
                    rate_per_second: terms.rate_per_second,
                    timeout_seconds: terms.timeout_seconds,
                    ..NewDestination::new(kind, url)
                };
                show.one(&destinations.create(&source_id(client, &source)?, &destination).wait()?)
            }
            Self::Update { one, url, own, terms, reset } => {
                update(session, &one, &changed(url, &own, &terms, &reset))
            }
            Self::Delete { one: One { destination, source }, yes } => {
                let source = source_id(client, &source)?;
                yes.confirm(&format!("delete the destination {destination}"))?;
                destinations.delete(&source, &destination).wait()?;
                show.gone("deleted", &destination)
            }
            Self::Pause(one) => {
                update(session, &one, &DestinationChange { paused: true.into(), ..Default::default() })
            }
            Self::Resume(one) => {
                update(session, &one, &DestinationChange { paused: false.into(), ..Default::default() })
            }
            Self::Retry { one, since, until, state, dry_run, yes } => {
                let (since, until) = (since.on(show.now), until.map(|until| until.on(show.now)));
                retry(session, &one, &NewBulkRetry { since, until, state }, dry_run, yes)
            }
            Self::Retries { one: One { destination, source }, paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(
                    paged,
                    destinations.list_retries(&source_id(client, &source)?, &destination, &wanted),
                )
            }
        }
    }
}

fn changed(url: Option<String>, own: &Own, terms: &Terms, reset: &[Reset]) -> DestinationChange {
    let reset = |setting| reset.contains(&setting);
    DestinationChange {
        url,
        attempts: own.attempts,
        schedule: change(terms.schedule(), reset(Reset::Schedule)),
        idempotency_header: change(own.idempotency_header(), reset(Reset::IdempotencyHeader)),
        paused: Change::Keep,
        headers: change(terms.changed_headers(), reset(Reset::Headers)),
        max_in_flight: change(terms.max_in_flight, reset(Reset::MaxInFlight)),
        rate_per_second: change(terms.rate_per_second, reset(Reset::RatePerSecond)),
        timeout_seconds: change(terms.timeout_seconds, reset(Reset::TimeoutSeconds)),
    }
}

fn update(Session { client, show }: &Session, one: &One, change: &DestinationChange) -> anyhow::Result<()> {
    let source = source_id(client, &one.source)?;
    show.one(&client.destinations().update(&source, &one.destination, change).wait()?)
}

/// Counts first: people see what it will cost.
fn retry(session: &Session, one: &One, wanted: &NewBulkRetry, dry_run: bool, yes: Yes) -> anyhow::Result<()> {
    let Session { client, show } = session;
    let source = source_id(client, &one.source)?;
    let preview = client.destinations().retry_preview(&source, &one.destination, wanted).wait()?;
    let what = format!("retry {} deliveries for {} credits", preview.deliveries, preview.credits);
    if dry_run {
        return match (show.flags.json, show.flags.quiet) {
            (true, _) => show.json(&preview),
            (false, true) => Ok(()),
            (false, false) => crate::output::line(&format!("would {what}")),
        };
    }
    yes.confirm(&what)?;
    show.did("retrying:", &client.destinations().retry(&source, &one.destination, wanted).wait()?)
}

impl Shown for Destination {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("kind"), column("state"), column("schedule"), column("created"), text("url")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(self.kind.as_str()),
            Cell::state(if self.paused { "paused" } else { "active" }),
            Cell::new(in_words(&self.schedule)),
            Cell::new(relative(self.created_at, now)),
            Cell::new(&self.url),
        ]
    }
}

impl Shown for BulkRetry {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("state"), number("created"), number("total"), column("asked")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::state(self.state.as_str()),
            Cell::new(self.created.to_string()),
            Cell::new(self.total.to_string()),
            Cell::new(relative(self.created_at, now)),
        ]
    }
}
