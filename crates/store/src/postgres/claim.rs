//! Claiming what is due, and giving claims back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use restante_core::delivery::{self, CancelReason, Claim, Over, Terms};
use restante_core::{Delivery, State as Stage, Timestamp};
use rustc_hash::FxHashMap;

use super::Fault;
use super::codec::{
    DELIVERY_COLUMNS, DELIVERY_WIDTH, MESSAGE_COLUMNS, MessageRow, Stored, int, read_delivery, read_message,
    small, state_code,
};
use super::config::EndpointEntry;
use super::node::Node;
use super::settle::holds;
use super::sql::Params;
use super::tx::{Access, Tx};
use crate::agenda::Room;
use crate::{Changed, Claimed, Error, Lease};

/// Most deliveries of one endpoint in one claim.
const CLAIM_PER_ENDPOINT: u32 = 64;
/// Lanes that one statement of a claim names. It stops at the lane that fills it.
const LANES_MAX: usize = 200;
/// Pending deliveries that a deletion or a pause ended and that one claim marks.
const SWEEP_MAX: usize = 512;
/// Statements that one claim makes before it tells the caller what it has.
const ROUNDS_MAX: usize = 8;

/// When a node that may not dial asks again.
const NO_DIAL_PAUSE: Duration = Duration::from_millis(500);

/// A lane that has something due and room for it.
struct Ready {
    endpoint: i64,
    room: u32,
    low: i64,
    floor: i64,
}

/// The lanes of a claim, column by column.
struct Lanes {
    endpoints: Vec<i64>,
    rooms: Vec<i32>,
    lows: Vec<i64>,
    floors: Vec<i64>,
}

impl Node {
    /// See [`crate::Store::claim`].
    pub(super) async fn claim(self: &Arc<Self>, now: Timestamp, most: usize) -> Result<Claimed, Error> {
        if !self.may_dial() {
            // Others would take it over as lost, again and again.
            let next_due = Some(now + NO_DIAL_PAUSE);
            return Ok(Claimed { count: 0, next_due });
        }
        let asleep = {
            let mut guard = self.state();
            let state = &mut *guard;
            state.agenda.begin_claim(&mut state.config, now);
            let slotless =
                |row: &i64| state.config.endpoints.get(row).is_some_and(EndpointEntry::wants_slots);
            let waiting = state.agenda.crowded.iter().chain(&state.replays.open);
            waiting.copied().filter(slotless).collect::<Vec<_>>()
        };
        self.ask_once_for_slots(asleep).await?;
        let mut count = 0;
        for _ in 0..ROUNDS_MAX {
            let left = most.saturating_sub(count);
            let lanes = self.ready_lanes(now, left);
            if lanes.is_empty() {
                break;
            }
            count += self.claim_from(&lanes, left, now).await?;
        }
        count += self.advance_replays(now, most.saturating_sub(count)).await?;
        self.sweep_pause(now).await?;
        let mut state = self.state();
        let squeezed = state.replays.squeezed;
        Ok(Claimed { count, next_due: state.agenda.announce(now, squeezed) })
    }

    /// Lanes in the order of their due times, each with the most that it may give. Together they may have more than
    /// `most`: how many rows a lane has is not known.
    fn ready_lanes(&self, now: Timestamp, most: usize) -> Vec<Ready> {
        if most == 0 {
            return Vec::new();
        }
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let state = self.state();
        let ready = |endpoint| {
            // A squeezed lane is listed for later; whoever is listed now has room.
            let room = match state.room(endpoint) {
                Room::Free(room) => room.min(CLAIM_PER_ENDPOINT).min(most),
                Room::Squeezed | Room::Full | Room::Closed => 0,
            };
            let entry = state.config.endpoints.get(&endpoint);
            let low = entry.map_or(0, |it| it.low.max(it.due_floor(state.key_lead_ms)));
            Ready { endpoint, room, low, floor: entry.map_or(0, EndpointEntry::floor) }
        };
        state.agenda.due(now).take(LANES_MAX).map(ready).collect()
    }

    async fn claim_from(
        self: &Arc<Self>,
        lanes: &[Ready],
        most: usize,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let lanes = Arc::new(Lanes {
            endpoints: lanes.iter().map(|lane| lane.endpoint).collect(),
            rooms: lanes.iter().map(|lane| int(lane.room)).collect(),
            lows: lanes.iter().map(|lane| lane.low).collect(),
            floors: lanes.iter().map(|lane| lane.floor).collect(),
        });
        self.write(Access::Messages, move |tx| {
            let lanes = Arc::clone(&lanes);
            Box::pin(async move { tx.claim(&lanes, most, now).await })
        })
        .await
    }

    /// Takes open replays one step further. Returns how many attempts began.
    async fn advance_replays(self: &Arc<Self>, now: Timestamp, most: usize) -> Result<usize, Error> {
        let endpoints: Vec<i64> = {
            let mut state = self.state();
            (state.replays.ready, state.replays.squeezed) = (false, false);
            let turn = state.replays.turn;
            let open = &state.replays.open;
            open.range(turn.saturating_add(1)..).chain(open.range(..=turn)).copied().collect()
        };
        let mut begun = 0;
        for endpoint in endpoints {
            if begun >= most {
                self.state().replays.ready = true;
                break;
            }
            self.state().replays.turn = endpoint;
            let most = most - begun;
            begun += self
                .write(Access::Messages, move |tx| Box::pin(tx.advance_jobs(endpoint, now, most)))
                .await?;
        }
        Ok(begun)
    }

    /// Marks some of what a pause ended. A recovery waits for it.
    async fn sweep_pause(self: &Arc<Self>, now: Timestamp) -> Result<(), Error> {
        let paused = {
            let state = self.state();
            let is_cut = |row: &&i64| {
                let entry = state.config.endpoints.get(*row);
                entry.is_some_and(|it| it.gone.is_none() && it.standing.cut.is_some())
            };
            state.unswept.iter().find(is_cut).copied()
        };
        let Some(endpoint) = paused else { return Ok(()) };
        self.sweep(endpoint, now, SWEEP_MAX).await.map(drop)
    }

    /// Ends up to `most` pending deliveries of a deleted or paused endpoint. Returns whether more is left.
    pub(super) async fn sweep(
        self: &Arc<Self>,
        endpoint: i64,
        now: Timestamp,
        most: usize,
    ) -> Result<bool, Error> {
        self.write(Access::Messages, move |tx| Box::pin(tx.sweep(endpoint, now, most))).await
    }

    /// See [`crate::Store::release`].
    pub(super) async fn release(self: &Arc<Self>, leases: Vec<Lease>, now: Timestamp) -> Result<(), Fault> {
        let held: Arc<[(Lease, i64)]> = {
            let state = self.state();
            let workspace = |lease: &Lease| Some((*lease, state.held(*lease)?.workspace));
            leases.iter().filter_map(workspace).collect()
        };
        if held.is_empty() {
            return Ok(());
        }
        let released = self
            .write(Access::Messages, move |tx| {
                let held = Arc::clone(&held);
                Box::pin(async move {
                    for (lease, workspace) in held.iter() {
                        tx.release(*workspace, *lease, now).await?;
                    }
                    Ok(())
                })
            })
            .await;
        released.map_err(|error| Fault::NoConnection(error.to_string()))
    }
}

impl Tx {
    /// Leases due deliveries of lanes, one lane after the other, up to the room of each and `most` together.
    async fn claim(&mut self, lanes: &Lanes, most: usize, now: Timestamp) -> Result<usize, Fault> {
        let Lanes { endpoints, rooms, lows, floors } = lanes;
        // Rows that others hold are passed over: neither a claim elsewhere nor a cancel is waited for. What is behind
        // the limit is not locked: rows are locked as they are taken from the lanes.
        let statement = format!(
            "SELECT {DELIVERY_COLUMNS}, {MESSAGE_COLUMNS} \
             FROM unnest($1::bigint[], $2::int[], $4::bigint[], $6::bigint[]) AS lane (endpoint, room, low, floor) \
             CROSS JOIN LATERAL (SELECT workspace, key, pauses FROM work WHERE work.endpoint = lane.endpoint \
             AND node IS NULL AND due_at >= lane.low AND due_at <= $3 AND key >= lane.floor ORDER BY due_at, key LIMIT lane.room FOR UPDATE SKIP LOCKED) AS work \
             JOIN delivery ON delivery.workspace = work.workspace AND delivery.key = work.key \
             JOIN message ON message.workspace = delivery.workspace AND message.key = delivery.message \
             LIMIT $5 FOR UPDATE OF delivery SKIP LOCKED"
        );
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.query(&statement, &[endpoints, rooms, &now.millis(), lows, &limit, floors]).await?;
        let mut due = Vec::with_capacity(rows.len());
        for row in &rows {
            due.push((read_delivery(row)?, read_message(row, DELIVERY_WIDTH)?));
        }
        // Lanes behind the one that filled the claim were not looked at.
        let looked_at = match due.last() {
            Some((last, _)) if due.len() == most => endpoints
                .iter()
                .position(|row| *row == last.row.endpoint)
                .map_or(endpoints.len(), |at| at + 1),
            Some(_) | None => endpoints.len(),
        };
        let (endpoints, lows, floors) = (&endpoints[..looked_at], &lows[..looked_at], &floors[..looked_at]);
        due.sort_by_key(|(stored, _)| (stored.row.life.due_at, stored.row.key));
        let mut lows: FxHashMap<i64, i64> = endpoints.iter().copied().zip(lows.iter().copied()).collect();
        for (stored, _) in &due {
            lows.insert(stored.row.endpoint, stored.row.life.due_at.millis());
        }
        let letters = self.letters(&mut due).await?;
        let (mut leased, mut rejected) = (Vec::new(), Vec::new());
        for (stored, message) in due {
            let letter = letters.get(&stored.row.key);
            if stored.row.life.state != Stage::Pending {
                continue;
            }
            let view = self.endpoint(stored.row.endpoint)?;
            let expires = view.retention_ms.map(|kept| message.received_at.saturating_add(kept));
            let expired = expires.is_some_and(|at| at <= now.millis());
            let over = expired.then_some(Over::Gone(CancelReason::Expired));
            let terms = Terms { schedule: view.settings.receiver.schedule(), over, watch: None };
            let ended = view.ended(&stored, now).filter(|_| !expired).map(Claim::End);
            match ended.unwrap_or_else(|| delivery::claim(&stored.row.life, terms, now)) {
                Claim::End(life) => {
                    self.write_delivery(&stored, &life).await?;
                    self.tell_delivery(&stored).await?;
                }
                Claim::Begin(_) if letter.is_some_and(|it| it.suppressed) => rejected.push(stored),
                // A few large bodies may take all the memory there is.
                Claim::Begin(life) => {
                    if matches!(self.node.state().room(stored.row.endpoint), Room::Free(_)) {
                        let stored = self.begun(stored, life, now, view.settings.version);
                        self.stage(&stored, message, letter.map(|it| it.mailbox.as_str()))?;
                        leased.push(stored);
                    } else if let Some(low) = lows.get_mut(&stored.row.endpoint) {
                        *low = (*low).min(stored.row.life.due_at.millis());
                    }
                }
            }
        }
        self.write_leases(&leased).await?;
        self.reject(&rejected, now).await?;
        let lows: Vec<i64> = endpoints.iter().map(|row| lows.get(row).copied().unwrap_or(0)).collect();
        self.staged.emptied.extend(endpoints.iter().copied().zip(lows.iter().copied()));
        self.look_up_due(endpoints, &lows, floors).await?;
        Ok(leased.len())
    }

    /// The row of a delivery whose attempt this node begins.
    pub(super) fn begun(&self, mut stored: Stored, life: Delivery, now: Timestamp, version: u32) -> Stored {
        // An attempt never starts before the end of the one before, even if the clock went back.
        let start = stored.row.life.ended_at.map_or(now, |ended| ended.max(now));
        stored.row.claimed = true;
        stored.row.started_at = Some(start.millis());
        stored.row.endpoint_version = Some(version);
        stored.row.life = life;
        stored.node = Some(self.me);
        stored
    }

    /// Stages what leaves for a lease that is about to be written.
    pub(super) fn stage(
        &mut self,
        stored: &Stored,
        message: MessageRow,
        mailbox: Option<&str>,
    ) -> Result<(), Fault> {
        let content = {
            let state = self.node.state();
            Arc::new(state.agenda.content_bytes.hold(message.content))
        };
        let received_at = Timestamp::from_millis(message.received_at);
        let claimed_at = Timestamp::from_millis(stored.row.started_at.unwrap_or_default());
        self.hand_over(stored.clone(), message.id, &content, mailbox, received_at, claimed_at)
    }

    /// Writes the rows of [`Tx::begun`], all at once.
    pub(super) async fn write_leases(&self, leased: &[Stored]) -> Result<(), Fault> {
        if leased.is_empty() {
            return Ok(());
        }
        let column = |read: fn(&Stored) -> i64| leased.iter().map(read).collect::<Vec<i64>>();
        let (workspaces, keys) = (column(|it| it.workspace), column(|it| it.row.key));
        let started_at = column(|it| it.row.started_at.unwrap_or_default());
        let made: Vec<i32> = leased.iter().map(|it| int(it.row.life.attempts_made)).collect();
        let versions: Vec<Option<i32>> = leased.iter().map(|it| it.row.endpoint_version.map(int)).collect();
        let ends: Vec<Option<i64>> =
            leased.iter().map(|it| it.row.life.ended_at.map(Timestamp::millis)).collect();
        let back_to: Vec<Option<i16>> =
            leased.iter().map(|it| it.row.life.back_to.map(|state| small(state_code(state)))).collect();
        let jobs: Vec<Option<i64>> = leased.iter().map(|it| it.row.job).collect();
        let pauses = {
            let state = self.node.state();
            let pauses = |it: &Stored| Ok(state.endpoint(it.row.endpoint)?.standing.pauses);
            leased.iter().map(pauses).collect::<Result<Vec<i64>, Fault>>()?
        };
        let (endpoints, dues) = (column(|it| it.row.endpoint), column(|it| it.row.life.due_at.millis()));
        let begun: Params<'_> =
            &[&workspaces, &keys, &made, &started_at, &versions, &ends, &back_to, &jobs, &self.me];
        let begun = self.execute(
            "UPDATE delivery SET state = 1, claimed = true, made = it.made, started_at = it.started_at, \
             endpoint_version = it.version, ended_at = it.ended_at, back_to = it.back_to, job = it.job, node = $9 \
             FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::bigint[], $7::smallint[], \
             $8::bigint[]) AS it (workspace, key, made, started_at, version, ended_at, back_to, job) \
             WHERE delivery.workspace = it.workspace AND delivery.key = it.key",
            begun,
        );
        let held: Params<'_> = &[&workspaces, &keys, &endpoints, &dues, &pauses, &self.me];
        let held = self.execute(
            "INSERT INTO work (workspace, key, endpoint, due_at, pauses, node) \
             SELECT *, $6::int FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
             ON CONFLICT (workspace, key) DO UPDATE SET due_at = excluded.due_at, pauses = excluded.pauses, \
             node = excluded.node",
            held,
        );
        // In one round trip.
        let (begun, held) = join(begun, held).await;
        begun.and(held)?;
        let skipped = leased.iter().filter(|it| it.row.life.back_to == Some(Stage::Skipped));
        self.delete_skipped(skipped).await
    }

    pub(super) async fn load_message(
        &self,
        workspace: i64,
        message: i64,
    ) -> Result<Option<MessageRow>, Fault> {
        let statement = format!("SELECT {MESSAGE_COLUMNS} FROM message WHERE workspace = $1 AND key = $2");
        let row = self.first(&statement, &[&workspace, &message]).await?;
        row.map(|row| read_message(&row, 0)).transpose()
    }

    /// Takes back a claim of this node that never dialled.
    async fn release(&mut self, workspace: i64, lease: Lease, now: Timestamp) -> Result<(), Fault> {
        let key = lease.delivery.key().value();
        let stored = self.lock_delivery(workspace, key).await?;
        let Some(mut stored) = stored.filter(|stored| holds(stored, lease, self.me)) else {
            self.staged.ended.push(key);
            return Ok(());
        };
        let view = self.endpoint(stored.row.endpoint)?;
        let over = view.gone.map(Over::Gone);
        let terms = Terms { schedule: view.settings.receiver.schedule(), over, watch: None };
        let released = delivery::release(&stored.row.life, terms, view.standing.behind_pause(now));
        self.unbegin(&stored, now).await?;
        stored.row.claimed = false;
        stored.row.started_at = None;
        self.write_delivery(&stored, &released).await?;
        self.staged.ended.push(key);
        self.tell(view.row, || Changed::Delivery(lease.delivery));
        Ok(())
    }
}
