//! `restante webhooks`: customers' endpoints, subscribed to event types.

mod shown;

use clap::Subcommand;
use restante_sdk::wire::{
    AttemptResult, AttemptStatus, DeliveryState, ListAttempts, ListWebhookDeliveries, ListWebhooks,
    NewWebhook, Order, Paging, TestWebhook, WebhookChange, WebhookSort, WebhookStatus, Window,
};

use super::endpoint::Terms;
use super::sources::change;
use super::{Act, Session, words};
use crate::confirm::Yes;
use crate::exit;
use crate::output::{self, Ended};
use crate::show::Paged;
use crate::times::{Moment, took};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List webhooks, newest first
    List {
        /// With exactly this URL
        #[arg(long)]
        url: Option<String>,
        /// By what they are sorted [default: created_at]
        #[arg(long, value_parser = words::webhook_sort())]
        sort: Option<WebhookSort>,
        /// In which direction [default: desc]
        #[arg(long, value_parser = words::order())]
        order: Option<Order>,
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one
    Get(One),
    /// Make one; its signing secret is shown only now
    Create {
        /// Where to send: https and public, unless the server allows more
        url: String,
        /// Types it is subscribed to: order.paid, order.* or *
        #[arg(long = "event", value_name = "TYPE", required = true)]
        events: Vec<String>,
        /// For people
        #[arg(long)]
        description: Option<String>,
        /// It receives nothing until it is resumed
        #[arg(long)]
        paused: bool,
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
        /// Types it is subscribed to; replaces all
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// For people
        #[arg(long)]
        description: Option<String>,
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
    /// Pause one: what is pending ends, and what comes meanwhile is skipped
    Pause {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        yes: Yes,
    },
    /// Let one receive again
    Resume(One),
    /// Give one a new signing secret; the old one signs beside it for 24 hours
    RotateSecret {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        yes: Yes,
    },
    /// Send a test event now and see what comes of it
    Test {
        #[command(flatten)]
        one: One,
        /// Its type [default: the first it is subscribed to]
        #[arg(long, value_name = "TYPE")]
        event_type: Option<String>,
    },
    /// List the attempts of the last three days, newest first
    Attempts {
        #[command(flatten)]
        one: One,
        /// Begun before this time
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        before: Option<Moment>,
        /// Begun after this time
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        after: Option<Moment>,
        /// Which stand so
        #[arg(long, value_parser = words::attempt_status())]
        status: Option<AttemptStatus>,
        #[command(flatten)]
        paged: Paged,
    },
    /// List its deliveries, newest first
    Deliveries {
        #[command(flatten)]
        one: One,
        /// In this state
        #[arg(long, value_parser = words::delivery_state())]
        state: Option<DeliveryState>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        paged: Paged,
    },
    /// Send again what failed: one attempt for each event with a failed one in the span [since: 24h]
    Replay {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        span: Span,
        /// Send only this delivery again, dlv_…
        #[arg(long, value_name = "ID", conflicts_with_all = ["since", "until", "dry_run"])]
        delivery: Option<String>,
        /// Only count them; free of the quota
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        yes: Yes,
    },
    /// List its replays and recoveries and how far they are
    Replays {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        paged: Paged,
    },
    /// Deliver what was skipped while it was paused [since: the last pause]
    Recover {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        yes: Yes,
    },
}

/// What goes back to its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reset {
    Description,
    Schedule,
    Headers,
    MaxInFlight,
    RatePerSecond,
    TimeoutSeconds,
}

/// Which one.
#[derive(Debug, clap::Args)]
pub(crate) struct One {
    /// Its id, whk_…
    webhook: String,
}

/// From when to when.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Span {
    /// At this time or later: a time, or 15m, 2h, 7d ago
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// At this time or earlier [default: now]
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,
}

impl Act for Action {
    fn act(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, show } = session;
        let webhooks = client.webhooks();
        let on = |moment: Option<Moment>| moment.map(|moment| moment.on(show.now));
        match self {
            Self::List { url, sort, order, paged } => {
                let wanted =
                    ListWebhooks { url, sort, order, limit: paged.page_items(), ..ListWebhooks::default() };
                show.list(paged, webhooks.list(&wanted))
            }
            Self::Get(one) => show.one(&webhooks.get(&one.webhook).wait()?),
            Self::Create { url, events, description, paused, terms } => {
                let status = paused.then_some(WebhookStatus::Paused);
                create(session, NewWebhook { description, status, ..NewWebhook::new(url, events) }, &terms)
            }
            Self::Update { one, url, events, description, terms, reset } => {
                let change = changed(url, events, description, &terms, &reset);
                show.one(&webhooks.update(&one.webhook, &change).wait()?)
            }
            Self::Delete { one: One { webhook }, yes } => {
                yes.confirm(&format!("delete the webhook {webhook}; what is pending is cancelled"))?;
                webhooks.delete(&webhook).wait()?;
                show.gone("deleted", &webhook)
            }
            Self::Pause { one, yes } => {
                yes.confirm(&format!("pause the webhook {}; what is pending ends", one.webhook))?;
                set(session, &one, WebhookStatus::Paused)
            }
            Self::Resume(one) => {
                set(session, &one, WebhookStatus::Active)?;
                show.say(&format!(
                    "restante webhooks recover {} delivers what was skipped meanwhile",
                    one.webhook
                ));
                Ok(())
            }
            Self::RotateSecret { one, yes } => rotate_secret(session, &one, yes),
            Self::Test { one, event_type } => test(session, &one, event_type),
            Self::Attempts { one, before, after, status, paged } => {
                let (before, after, limit) = (on(before), on(after), paged.page_items());
                let wanted = ListAttempts { before, after, status, limit, cursor: None };
                show.list(paged, webhooks.list_attempts(&one.webhook, &wanted))
            }
            Self::Deliveries { one, state, span, paged } => {
                let wanted = ListWebhookDeliveries {
                    state,
                    since: on(span.since),
                    until: on(span.until),
                    limit: paged.page_items(),
                    ..ListWebhookDeliveries::default()
                };
                show.list(paged, webhooks.list_deliveries(&one.webhook, &wanted))
            }
            Self::Replay { one, delivery: Some(delivery), .. } => {
                show.did("sending again", &webhooks.replay_delivery(&one.webhook, &delivery).wait()?)
            }
            Self::Replay { one, span, delivery: None, dry_run, yes } => {
                let window = Window { since: on(span.since), until: on(span.until) };
                replay(session, &one, window, dry_run, yes)
            }
            Self::Replays { one, paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, webhooks.list_replays(&one.webhook, &wanted))
            }
            Self::Recover { one, span, yes } => {
                let window = Window { since: on(span.since), until: on(span.until) };
                recover(session, &one, window, yes)
            }
        }
    }
}

fn create(session: &Session, webhook: NewWebhook, terms: &Terms) -> anyhow::Result<()> {
    let Session { client, show } = session;
    let webhook = NewWebhook {
        schedule: terms.schedule(),
        headers: terms.headers(),
        max_in_flight: terms.max_in_flight,
        rate_per_second: terms.rate_per_second,
        timeout_seconds: terms.timeout_seconds,
        ..webhook
    };
    show.one(&client.webhooks().create(&webhook).wait()?)?;
    show.say("its secret is shown only now: keep it where its deliveries are verified");
    Ok(())
}

fn changed(
    url: Option<String>,
    events: Vec<String>,
    description: Option<String>,
    terms: &Terms,
    reset: &[Reset],
) -> WebhookChange {
    let reset = |setting| reset.contains(&setting);
    WebhookChange {
        url,
        events: (!events.is_empty()).then_some(events),
        description: change(description, reset(Reset::Description)),
        status: None,
        schedule: change(terms.schedule(), reset(Reset::Schedule)),
        headers: change(terms.changed_headers(), reset(Reset::Headers)),
        max_in_flight: change(terms.max_in_flight, reset(Reset::MaxInFlight)),
        rate_per_second: change(terms.rate_per_second, reset(Reset::RatePerSecond)),
        timeout_seconds: change(terms.timeout_seconds, reset(Reset::TimeoutSeconds)),
    }
}

fn rotate_secret(Session { client, show }: &Session, one: &One, yes: Yes) -> anyhow::Result<()> {
    yes.confirm(&format!("give the webhook {} a new secret; the old one ends in 24 hours", one.webhook))?;
    let fresh = client.webhooks().rotate_secret(&one.webhook).wait()?;
    if show.flags.json { show.json(&fresh) } else { output::line(fresh.secret.expose()) }
}

fn recover(session: &Session, one: &One, window: Window, yes: Yes) -> anyhow::Result<()> {
    let Session { client, show } = session;
    yes.confirm(&format!("deliver what the webhook {} has skipped", one.webhook))?;
    let recovery = client.webhooks().recover(&one.webhook, &window).wait()?;
    match (show.flags.json, show.flags.quiet) {
        (true, _) => show.json(&recovery),
        (false, true) => output::line(&recovery.id),
        (false, false) => output::line(&format!("delivering {} events as {}", recovery.events, recovery.id)),
    }
}

fn set(Session { client, show }: &Session, one: &One, status: WebhookStatus) -> anyhow::Result<()> {
    let change = WebhookChange { status: Some(status), ..WebhookChange::default() };
    show.one(&client.webhooks().update(&one.webhook, &change).wait()?)
}

/// A receiver that refuses is no fault of ours, and yet the command has not come to what it is for.
fn test(Session { client, show }: &Session, one: &One, event_type: Option<String>) -> anyhow::Result<()> {
    let test = client.webhooks().test(&one.webhook, &TestWebhook { event_type }).wait()?;
    if show.flags.json {
        show.json(&test)?;
    } else {
        let answer = match (test.response_status_code, &test.error) {
            (Some(code), _) => format!("its receiver answered {code}"),
            (None, Some(error)) => error.clone(),
            (None, None) => "no answer came".to_owned(),
        };
        let took = took(test.response_duration_ms);
        output::line(&crate::table::harmless(&format!("{}: {answer} after {took}", test.status)))?;
    }
    if test.status == AttemptResult::Delivered {
        return Ok(());
    }
    Err(Ended { code: exit::RUNTIME }.into())
}

/// Counts first: the number is what people decide by.
fn replay(session: &Session, one: &One, window: Window, dry_run: bool, yes: Yes) -> anyhow::Result<()> {
    let Session { client, show } = session;
    let preview = client.webhooks().replay_preview(&one.webhook, &window).wait()?;
    let what = format!("send {} events again to {}", preview.events, one.webhook);
    if dry_run {
        return match (show.flags.json, show.flags.quiet) {
            (true, _) => show.json(&preview),
            (false, true) => Ok(()),
            (false, false) => output::line(&format!("would {what}")),
        };
    }
    yes.confirm(&what)?;
    client.webhooks().replay(&one.webhook, &window).wait()?;
    show.say(&format!("replaying; restante webhooks replays {} shows how far it is", one.webhook));
    Ok(())
}
