//! Planted bugs of the outbound side, as far as they take more than a line where they lie.

use std::collections::BTreeSet;

use restante_core::endpoint::EndpointId;
use restante_core::id::{DeliveryId, Tail, WebhookId};
use restante_core::{Outcome, Timestamp};
use restante_store::Finished;
use restante_store::record::{Kind, Notice, NoticeKind};
use restante_store::row::Trigger;
use restante_store::sqlite::Fault;
use restante_store::sqlite::engine::Engine;

use crate::plant::Plant;
use crate::story::outbound::{Answered, Taken};
use crate::world::job::{Owned, Within, draft, json};
use crate::world::{Event, World, note};

/// So long after a message its key is kept.
const KEPT_LATER_MS: u64 = 5;

/// [`Plant::AcknowledgedReplayed`].
pub(super) fn replay_acknowledged(
    engine: &mut Engine,
    at: Owned<WebhookId>,
    now: Timestamp,
    world: Within<'_>,
) -> Result<(), Fault> {
    let (mut failed, mut delivered) = (BTreeSet::new(), BTreeSet::new());
    for (_, taken) in &world.story.taken {
        let Taken::Attempt { endpoint, lease, outcome, .. } = taken else { continue };
        if world.cast.endpoints[*endpoint].id != Some(EndpointId::Webhook(at.id)) {
            continue;
        }
        match outcome {
            Outcome::Delivered { .. } => delivered.insert(lease.delivery),
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) | Outcome::Lost => {
                failed.insert(lease.delivery)
            }
        };
    }
    for delivery in failed.intersection(&delivered) {
        engine.replay_delivery(at.workspace, at.id, *delivery, now, Tail::from_bits(0))?;
    }
    Ok(())
}

/// [`Plant::NoticeRepeated`].
pub(in crate::world) fn repeat_notice(
    engine: &mut Engine,
    finished: &Finished,
    world: Within<'_>,
) -> Result<(), Fault> {
    let dialled = world.story.dialled.iter().rev().find(|it| it.lease == finished.lease);
    let Some(dialled) = dialled.filter(|_| matches!(finished.attempt.outcome, Outcome::Failed(_))) else {
        return Ok(());
    };
    let Some(EndpointId::Webhook(id)) = world.cast.endpoints[dialled.endpoint].id else { return Ok(()) };
    let degraded = engine.healths(&[id])?.iter().any(|health| health.degraded);
    if degraded {
        let workspace = world.cast.workspace_of(dialled.endpoint);
        let notice = Notice { kind: NoticeKind::WebhookDegraded, mailed_at: None };
        let draft = draft(Kind::Notice, workspace, id.uuid(), json(&notice), Tail::from_bits(0));
        engine.create(&draft, finished.attempt.ended_at)?;
    }
    Ok(())
}

impl World {
    /// [`Plant::KeyKeptLater`]: some time after the message its key is kept, unless the node dies before.
    pub(super) fn plan_late_key(&mut self, call: usize) {
        if self.plant == Some(Plant::KeyKeptLater) {
            self.plan_in(KEPT_LATER_MS, Event::KeepKey { life: self.life, call });
        }
    }

    pub(in crate::world) fn keep_key(&mut self, place: usize) {
        let call = &self.story.calls[place];
        if let (Some(key), Answered::Fresh(events)) = (&call.key, &call.told) {
            let kept = (call.content, events.clone());
            self.late_keys.insert((call.workspace, key.as_str().to_owned()), kept);
        }
    }

    /// [`Plant::KeyKeptLater`]: keys are looked up before the store is asked. Returns whether that was the answer.
    pub(super) fn answer_from_late_keys(&mut self, place: usize) -> bool {
        let call = &self.story.calls[place];
        let Some(key) = call.key.as_ref().filter(|_| self.plant == Some(Plant::KeyKeptLater)) else {
            return false;
        };
        let Some((content, events)) = self.late_keys.get(&(call.workspace, key.as_str().to_owned())) else {
            return false;
        };
        let told =
            if *content == call.content { Answered::Replayed(events.clone()) } else { Answered::KeyReused };
        note!(self, "call {place}: {told:?}");
        self.story.calls[place].told = told;
        true
    }

    /// What goes wrong when a node begins.
    pub(in crate::world) fn spoil_start(&mut self) {
        if self.plant == Some(Plant::RunForgotten) {
            self.forget_runs();
        }
        if self.plant == Some(Plant::ReplayRepeated) {
            self.repeat_replays();
        }
    }

    fn forget_runs(&mut self) {
        for endpoint in 0..self.cast.endpoints.len() {
            let Some(at) = self.owned(endpoint) else { continue };
            let Some(node) = &mut self.node else { return };
            let cleared = node.engine.transaction(|engine| engine.clear_run(at.workspace, at.id));
            cleared.expect("clearing works");
        }
    }

    /// [`Plant::ReplayRepeated`]: what replays had on the wire when the node died is tried again.
    fn repeat_replays(&mut self) {
        let died = |life: u32| life + 1 == self.life;
        let dead = self.story.dialled.iter().filter(|it| died(it.life) && it.settled.is_none());
        let dead: Vec<(usize, DeliveryId, u32)> =
            dead.map(|it| (it.endpoint, it.lease.delivery, it.lease.attempt)).collect();
        let now = self.wall();
        for (endpoint, delivery, number) in dead {
            let (Some(at), Some(node)) = (self.owned(endpoint), &mut self.node) else { continue };
            let shown = node.engine.delivery(at.workspace, delivery, now).expect("reads work");
            let attempts = shown.map(|shown| shown.attempts).unwrap_or_default();
            let is_replay =
                attempts.iter().any(|it| it.number == number && it.trigger == Trigger::Replay && is_lost(it));
            if is_replay {
                let again = node.engine.transaction(|engine| {
                    engine.replay_delivery(at.workspace, at.id, delivery, now, Tail::from_bits(0))
                });
                again.expect("a replay can be asked for");
            }
        }
    }
}

fn is_lost(attempt: &restante_store::row::Attempt) -> bool {
    attempt.result.as_ref().is_some_and(|result| result.lost)
}
