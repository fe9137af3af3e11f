//! Errands: what publishers and owners of webhooks want from the store, each their share of a commit.

use restante_core::Timestamp;
use restante_core::endpoint::Webhook;
use restante_core::event::Filter;
use restante_core::id::{Tail, WebhookId, WorkspaceId};
use restante_core::retry::Schedule;
use restante_store::record::{Draft, Kind};
use restante_store::sqlite::Fault;
use restante_store::sqlite::engine::Engine;
use restante_store::{Created, KeyClaim, NewEvent, Published, Publishing, Resent, Updated, Window};

use super::plants;
use crate::plant::Plant;
use crate::story::outbound::What;
use crate::world::job::{Owned, Within, json};

/// See the module. Places are those in the story or the cast.
#[derive(Clone, Debug)]
pub(in crate::world) enum Errand {
    Publish {
        call: usize,
        now: Timestamp,
        tails: Vec<Tail>,
    },
    Patch {
        endpoint: usize,
        entry: usize,
        at: Owned<WebhookId>,
        patch: Patch,
        now: Timestamp,
    },
    Delete {
        endpoint: usize,
        entry: usize,
        at: Owned<WebhookId>,
        now: Timestamp,
    },
    Create {
        endpoint: usize,
        entry: usize,
        workspace: WorkspaceId,
        setting: Webhook,
        tail: Tail,
        now: Timestamp,
    },
    /// Takes note of a test that was delivered.
    Test {
        endpoint: usize,
        at: Owned<WebhookId>,
    },
    Resend {
        resend: usize,
        at: Owned<WebhookId>,
        now: Timestamp,
        tail: Tail,
    },
}

/// What somebody changes of a webhook. The rest stays as it is, whatever that is.
#[derive(Clone, Debug)]
pub(in crate::world) enum Patch {
    Url(String),
    Paused(bool),
    Events(Vec<Filter>),
    Schedule(Schedule),
    Pace(u32, Option<f64>),
    Description(String),
    /// All that keeps it from being delivered to at full speed.
    Mend {
        url: Option<String>,
    },
}

/// What came of an errand.
#[derive(Debug)]
pub(in crate::world) enum Report {
    Published(Published),
    /// What it was and what it is; `None`: there is no such webhook.
    Patched(Option<Box<(Webhook, Webhook)>>),
    /// Whether it was there.
    Done(bool),
    Created(Created),
    Resent {
        resent: Resent,
        counted: Option<u64>,
    },
}

impl Patch {
    pub(in crate::world) fn apply(&self, webhook: &mut Webhook) {
        match self {
            Self::Url(url) => webhook.url.clone_from(url),
            Self::Paused(paused) => webhook.paused = *paused,
            Self::Events(events) => webhook.events.clone_from(events),
            Self::Schedule(schedule) => webhook.schedule = schedule.clone(),
            Self::Pace(max_in_flight, rate_per_second) => {
                (webhook.max_in_flight, webhook.rate_per_second) = (*max_in_flight, *rate_per_second);
            }
            Self::Description(text) => webhook.description = Some(text.clone()),
            Self::Mend { url } => {
                webhook.paused = false;
                webhook.rate_per_second = None;
                webhook.max_in_flight = webhook.max_in_flight.max(8);
                webhook.url = url.clone().unwrap_or_else(|| webhook.url.clone());
            }
        }
    }
}

impl Errand {
    pub(in crate::world) fn run(&self, engine: &mut Engine, world: Within<'_>) -> Result<Report, Fault> {
        Ok(match self {
            Self::Publish { call, now, tails } => {
                Report::Published(engine.publish(publishing(*call, *now, tails, world))?)
            }
            Self::Patch { at, patch, now, .. } => self::patch(engine, *at, patch, *now, world.plant)?,
            Self::Delete { at, now, .. } => {
                Report::Done(engine.delete(Kind::Webhook, at.workspace, at.id.uuid(), *now)?)
            }
            Self::Create { workspace, setting, tail, now, .. } => {
                let draft = Draft {
                    kind: Kind::Webhook,
                    workspace: Some(*workspace),
                    parent: None,
                    name: None,
                    lookup: None,
                    body: json(setting),
                    tail: *tail,
                };
                Report::Created(engine.create(&draft, *now)?)
            }
            Self::Test { at, .. } => Report::Done(engine.clear_run(at.workspace, at.id)?),
            Self::Resend { resend, at, now, tail } => {
                let what = world.story.resends[*resend].what;
                self::resend(engine, *at, what, *now, *tail, world)?
            }
        })
    }
}

fn publishing(call: usize, now: Timestamp, tails: &[Tail], world: Within<'_>) -> Publishing {
    let call = &world.story.calls[call];
    let content = &world.story.contents[call.content];
    let items = content.items.iter().zip(&call.bodies).zip(tails);
    let events = items.map(|((item, body), tail)| NewEvent {
        event_type: item.event_type.clone(),
        body: body.clone(),
        tail: *tail,
    });
    // The plant: the key is kept later.
    let key = call.key.clone().filter(|_| world.plant != Some(Plant::KeyKeptLater));
    Publishing {
        workspace: world.cast.workspaces[call.workspace],
        events: events.collect(),
        claim: key.map(|key| KeyClaim { key, fingerprint: content.fingerprint(call.content) }),
        now,
    }
}

fn patch(
    engine: &mut Engine,
    at: Owned<WebhookId>,
    patch: &Patch,
    now: Timestamp,
    plant: Option<Plant>,
) -> Result<Report, Fault> {
    let Some(mut raw) = engine.record(Kind::Webhook, at.workspace, at.id.uuid())? else {
        return Ok(Report::Patched(None));
    };
    let before: Webhook = serde_json::from_str(&raw.body).expect("a record can be read");
    let mut after = before.clone();
    patch.apply(&mut after);
    if after != before {
        raw.body = json(&after);
        if !matches!(engine.update(Kind::Webhook, &raw, now)?, Updated::Done(_)) {
            return Ok(Report::Patched(None));
        }
    }
    // The plant: what was pending goes on by itself.
    if plant == Some(Plant::ResumeRecovers) && before.paused && !after.paused {
        engine.recover(at.workspace, at.id, None, now, Tail::from_bits(0))?;
    }
    Ok(Report::Patched(Some(Box::new((before, after)))))
}

fn resend(
    engine: &mut Engine,
    at: Owned<WebhookId>,
    what: What,
    now: Timestamp,
    tail: Tail,
    world: Within<'_>,
) -> Result<Report, Fault> {
    let Owned { workspace, id } = at;
    let mut counted = None;
    let resent = match what {
        What::Failures(window) => {
            counted = engine.count_replay(workspace, id, window, now)?;
            // The plant: the last moment is left out.
            let until = if world.plant == Some(Plant::WindowOpenAtEnd) { 1 } else { 0 };
            let until = Timestamp::from_millis(window.until.millis() - until);
            let resent = engine.replay_webhook(workspace, id, Window { until, ..window }, now, tail)?;
            if world.plant == Some(Plant::AcknowledgedReplayed) && matches!(resent, Resent::Started { .. }) {
                plants::replay_acknowledged(engine, at, now, world)?;
            }
            resent
        }
        What::One(delivery) => engine.replay_delivery(workspace, id, delivery, now, tail)?,
        What::Skipped(window) => engine.recover(workspace, id, window, now, tail)?,
    };
    Ok(Report::Resent { resent, counted })
}
