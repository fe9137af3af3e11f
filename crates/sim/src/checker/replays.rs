//! 11: a replay takes what failed in its window and nothing else, one attempt each, 20 replays a day.

use std::collections::BTreeMap;

use restante_core::id::DeliveryId;
use restante_core::{Outcome, State, Timestamp};
use restante_store::record::{ReplayJob, ReplayState};
use restante_store::row::{self, Trigger};
use restante_store::{Resent, Window};

use super::Violation;
use super::health::{Turn, turns};
use crate::plan::SHORT_RETENTION;
use crate::story::outbound::{Resend, Taken, What};
use crate::world::Witness;

/// Replays of a workspace in a UTC day.
const A_DAY: u32 = 20;
const DAY_MS: i64 = 24 * 3_600_000;
/// What started earlier than this before a call is forgotten.
const REMEMBERED_MS: i64 = 3 * DAY_MS;

/// A call that was answered.
struct Asked<'a> {
    /// How much the store had taken before.
    place: usize,
    resend: &'a Resend,
    resent: Resent,
    counted: Option<u64>,
}

/// How many replays of a delivery there may be, and must be.
#[derive(Default)]
struct Due {
    most: usize,
    /// Those of them that do not mind whether it was delivered.
    single: usize,
    least: usize,
}

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let asked: Vec<Asked<'_>> = asked(witness);
    check_quota(witness, &asked, found);
    let mut due: BTreeMap<DeliveryId, Due> = BTreeMap::new();
    let webhooks = (0..witness.cast.endpoints.len()).filter(|endpoint| witness.cast.is_webhook(*endpoint));
    for endpoint in webhooks {
        // Without all attempts it is not known how it stood.
        let Some(turns) = turns(witness, endpoint) else { return };
        for asked in asked.iter().filter(|asked| asked.resend.endpoint == endpoint) {
            if let Err(what) = check_asked(witness, asked, &turns, &mut due) {
                let what = format!("replay of e{endpoint} at {:?}: {what}", asked.resend.asked);
                found.push(Violation::new(
                    11,
                    what,
                    &[&format!("of e{endpoint}:"), &format!("/e{endpoint},")],
                ));
            }
        }
    }
    let deliveries = witness.reads.visible_events().flat_map(|event| &event.deliveries);
    for delivery in deliveries.filter(|delivery| witness.remembers(delivery)) {
        let due = due.remove(&delivery.id).unwrap_or_default();
        if let Err(what) = check_replays(witness, delivery, &due) {
            found.push(Violation::new(11, format!("{}: {what}", delivery.id), &[&delivery.id]));
        }
    }
}

fn asked<'a>(witness: &'a Witness<'_>) -> Vec<Asked<'a>> {
    let taken = witness.story.taken.iter().enumerate();
    let asked = taken.filter_map(|(place, (_, taken))| match taken {
        Taken::Resend { resend, resent, counted } => {
            let resend = &witness.story.resends[*resend];
            Some(Asked { place, resend, resent: *resent, counted: *counted })
        }
        Taken::Call { .. }
        | Taken::Attempt { .. }
        | Taken::Change { .. }
        | Taken::Test { .. }
        | Taken::Deletion { .. }
        | Taken::Cancel { .. }
        | Taken::Look { .. } => None,
    });
    asked.collect()
}

fn check_quota(witness: &Witness<'_>, asked: &[Asked<'_>], found: &mut Vec<Violation>) {
    let mut used: BTreeMap<(String, i64), u32> = BTreeMap::new();
    for asked in asked.iter().filter(|asked| matches!(asked.resend.what, What::Failures(_))) {
        let workspace = witness.cast.workspace_of(asked.resend.endpoint).to_string();
        let day = asked.resend.asked_at.millis().div_euclid(DAY_MS);
        let used = used.entry((workspace, day)).or_default();
        let refused = asked.resent == Resent::QuotaExceeded;
        if asked.resent == Resent::NotFound {
            continue;
        }
        if refused != (*used >= A_DAY) {
            let what = format!("{:?} at {:?}, after {used} of this day", asked.resent, asked.resend.asked);
            found.push(Violation::new(11, what, &[&"asks for resend"]));
        }
        *used += u32::from(!refused);
    }
}

fn check_asked(
    witness: &Witness<'_>,
    asked: &Asked<'_>,
    turns: &[Turn],
    due: &mut BTreeMap<DeliveryId, Due>,
) -> Result<(), String> {
    let deleted = |place: usize| {
        let mut taken = witness.story.taken[..place].iter();
        taken.any(|(_, it)| matches!(it, Taken::Deletion { endpoint } if *endpoint == asked.resend.endpoint))
    };
    let paused = turns.iter().rfind(|turn| turn.place < asked.place).is_some_and(|turn| turn.paused);
    let (id, events) = match asked.resent {
        Resent::Started { id, events } => (id, events),
        Resent::NotFound if deleted(asked.place) => return Ok(()),
        // Its event may be past its time.
        Resent::NotFound if matches!(asked.resend.what, What::One(_)) && is_short(witness) => return Ok(()),
        Resent::NotFound => return Err("a webhook that is there is not found".into()),
        Resent::Paused if paused && !matches!(asked.resend.what, What::Failures(_)) => return Ok(()),
        Resent::Paused => return Err("is refused as if it were paused".into()),
        Resent::QuotaExceeded => return Ok(()),
    };
    if deleted(asked.place) {
        return Err("goes on for a deleted webhook".into());
    }
    let listed = match asked.resend.what {
        What::Failures(_) if paused => Vec::new(),
        What::Failures(window) => failed_in(witness, asked, window),
        What::One(_) if paused => return Err("goes on for a paused webhook".into()),
        What::One(delivery) => vec![delivery],
        What::Skipped(_) if paused => return Err("goes on for a paused webhook".into()),
        What::Skipped(_) => Vec::new(),
    };
    if let What::Failures(_) = asked.resend.what {
        check_count(witness, asked, &listed, events, paused)?;
    }
    let Some(job) = witness.reads.replays.get(&id.uuid()) else { return Err("is not listed".into()) };
    let ends = turns.iter().any(|turn| turn.paused && turn.place > asked.place);
    let may_end = ends || paused || deleted(witness.story.taken.len());
    check_job(job, asked, may_end)?;
    for delivery in listed {
        let due = due.entry(delivery).or_default();
        due.most += 1;
        due.single += usize::from(matches!(asked.resend.what, What::One(_)));
        // Where its event is gone, that may have been so before its turn, or before the call.
        due.least += usize::from(job.state == ReplayState::Done && witness.keeps(delivery));
    }
    Ok(())
}

fn is_short(witness: &Witness<'_>) -> bool {
    witness.policy.event_retention == SHORT_RETENTION
}

/// The deliveries with a failed attempt in the window and no delivered one, when the store took the call.
fn failed_in(witness: &Witness<'_>, asked: &Asked<'_>, window: Window) -> Vec<DeliveryId> {
    let since = window.since.max(Timestamp::from_millis(asked.resend.asked_at.millis() - REMEMBERED_MS + 1));
    let (mut failed, mut delivered) = (Vec::new(), Vec::new());
    for (_, taken) in &witness.story.taken[..asked.place] {
        let Taken::Attempt { endpoint, lease, outcome, started_at, .. } = taken else { continue };
        if *endpoint != asked.resend.endpoint {
            continue;
        }
        match outcome {
            Outcome::Delivered { .. } => delivered.push(lease.delivery),
            Outcome::Failed(_) if since <= *started_at && *started_at <= window.until => {
                failed.push(lease.delivery);
            }
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) | Outcome::Lost => {}
        }
    }
    failed.retain(|delivery| !delivered.contains(delivery));
    failed.sort_unstable();
    failed.dedup();
    failed
}

fn check_count(
    witness: &Witness<'_>,
    asked: &Asked<'_>,
    listed: &[DeliveryId],
    events: u64,
    paused: bool,
) -> Result<(), String> {
    // Events that are not kept for long may be gone by then.
    let least = listed.iter().filter(|delivery| witness.keeps(**delivery)).count();
    let fits = |told: u64| (least as u64..=listed.len() as u64).contains(&told);
    let failed = format!("{} failed in its window, {least} of them are still there", listed.len());
    if !fits(events) {
        return Err(format!("{events} events, {failed}"));
    }
    match asked.counted {
        Some(counted) if !paused && !fits(counted) => {
            Err(format!("{counted} events if it were dry, {failed}"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a replay came to its end, and how.
fn check_job(job: &ReplayJob, asked: &Asked<'_>, may_end: bool) -> Result<(), String> {
    match job.state {
        ReplayState::Queued | ReplayState::Running => Err(format!("is {:?} for ever", job.state)),
        ReplayState::Ended if !may_end => Err("ended early without a reason".into()),
        ReplayState::Done if matches!(asked.resend.what, What::Failures(_) | What::One(_)) => {
            let sum = job.delivered + job.failed + job.skipped;
            if sum == job.total { Ok(()) } else { Err(format!("{sum} of {} are told", job.total)) }
        }
        ReplayState::Ended | ReplayState::Done => Ok(()),
    }
}

/// Whether a delivery was replayed as often as it was asked for.
fn check_replays(witness: &Witness<'_>, delivery: &row::Delivery, due: &Due) -> Result<(), String> {
    let replays = || delivery.attempts.iter().filter(|attempt| attempt.trigger == Trigger::Replay);
    let count = replays().count();
    if count > due.most {
        return Err(format!("{count} replays, asked for {}", due.most));
    }
    let delivered = delivery.attempts.iter().find(|it| it.result.as_ref().is_some_and(|it| it.delivered));
    let after = delivered.map_or(0, |first| replays().filter(|it| it.number > first.number).count());
    if after > due.single {
        return Err(format!("{after} replays after it was delivered, asked for {}", due.single));
    }
    let was_cancelled = witness.story.cancels.iter().any(|order| order.what == delivery.id);
    if delivery.life.state != State::Delivered && count < due.least && !was_cancelled {
        return Err(format!("{count} replays, {} were told done", due.least));
    }
    Ok(())
}
