//! What a run has met: a world in which a thing never happens says nothing about it.

use std::collections::BTreeMap;

use restante_core::delivery::FailReason;
use restante_core::endpoint::Receiver as Setting;
use restante_core::{Outcome, State};
use restante_store::Resent;
use restante_store::record::NoticeKind;
use restante_store::row::Trigger;

use crate::story::outbound::{Answered, Taken, What};
use crate::world::Witness;

/// How often each thing happened.
pub type Met = BTreeMap<&'static str, usize>;

/// Counts what happened to events and webhooks, and to clients.
pub fn count(witness: &Witness<'_>) -> Met {
    let mut met = Met::new();
    let mut add = |what: &'static str, times: usize| *met.entry(what).or_default() += times;
    for call in &witness.story.calls {
        match call.told {
            Answered::Nothing => add("call without an answer", usize::from(call.asked.is_some())),
            Answered::Refused => add("call refused", 1),
            Answered::Fresh(_) => add("call accepted", 1),
            Answered::Replayed(_) => add("key repeated", 1),
            Answered::KeyReused => add("key reused", 1),
        }
    }
    for (_, taken) in &witness.story.taken {
        if let Taken::Resend { resend, resent, .. } = taken {
            let what = witness.story.resends[*resend].what;
            match (what, resent) {
                (What::Failures(_), Resent::Started { events, .. }) => {
                    add("replay of failures", usize::from(*events > 0));
                }
                (What::One(_), Resent::Started { .. }) => add("replay of one", 1),
                (What::Skipped(_), Resent::Started { events, .. }) => {
                    add("recovery", usize::from(*events > 0));
                }
                (_, Resent::NotFound) => add("resend of what is not there", 1),
                (_, Resent::Paused) => add("resend while paused", 1),
                (_, Resent::QuotaExceeded) => add("replay beyond the quota", 1),
            }
        }
        if let Taken::Attempt { outcome, .. } = taken {
            match outcome {
                Outcome::Delivered { .. } => add("attempt delivered", 1),
                Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) => add("attempt failed", 1),
                Outcome::Lost => add("attempt given up", 1),
            }
        }
    }
    for (kind, _) in witness.reads.notices.values().flatten() {
        match kind {
            NoticeKind::WebhookDegraded => add("notice of degradation", 1),
            NoticeKind::WebhookPaused => add("notice of a pause", 1),
        }
    }
    for job in witness.reads.replays.values() {
        add("acknowledged before its replay", usize::try_from(job.skipped).unwrap_or(0));
    }
    for delivery in witness.reads.visible_events().flat_map(|event| &event.deliveries) {
        match delivery.life.state {
            State::Skipped => add("event skipped", 1),
            State::Failed(FailReason::EndpointPaused) => add("event ended by a pause", 1),
            State::Failed(FailReason::Exhausted | FailReason::Refused | FailReason::Uncertain) => {
                add("event exhausted", 1);
            }
            State::Cancelled(_) => add("event cancelled", 1),
            State::Delivered => add("event delivered", 1),
            State::Pending | State::Sending => {}
        }
        for attempt in &delivery.attempts {
            let lost = attempt.result.as_ref().is_some_and(|result| result.lost);
            add("replay lost", usize::from(lost && attempt.trigger == Trigger::Replay));
        }
    }
    add("event past its time", witness.reads.gone.len());
    count_clients(witness, &mut add);
    met
}

/// What went through command-line clients, and what did not.
fn count_clients(witness: &Witness<'_>, add: &mut impl FnMut(&'static str, usize)) {
    let is_theirs = |endpoint: usize| {
        let mut settings = witness.cast.endpoints[endpoint].setting.ever().flatten();
        settings.any(Setting::needs_client)
    };
    let dialled = witness.story.dialled.iter().filter(|dialled| is_theirs(dialled.endpoint));
    add("attempt by a client", dialled.count());
    for delivery in witness.reads.deliveries().filter(|it| !it.life.state.is_final()) {
        let kept = witness.cast.find(delivery.endpoint).is_some_and(is_theirs);
        add("delivery kept from clients that came later", usize::from(kept));
    }
}
