//! What an endpoint may have in flight over all nodes, shared out.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::Fault;
use super::node::{Node, lock, monotonic_ms};
use super::tx::{Access, Tx};

/// Held while slots are shared out: any number that nobody else takes.
const LOCK: i64 = 7_310_306_454;
/// Looks without work for an endpoint after which its slots are given back. One a second.
const IDLE_LOOKS_MAX: u32 = 5;
/// Endpoints asked for in one transaction.
const ASK_MAX: usize = 500;
/// How often slots of one endpoint are asked for that were refused.
const ASK_EVERY_MS: u64 = 300;

/// What a node wants of an endpoint's slots.
#[derive(Debug, Clone, Copy)]
struct Wish {
    endpoint: i64,
    /// The endpoint's `max_in_flight`.
    most: i32,
    /// Its rate is kept by one node alone.
    alone: bool,
    /// There is something to do for it here.
    busy: bool,
}

impl Node {
    /// Asks for slots of endpoints that this node has none of, unless it was refused a moment ago.
    pub(super) async fn ask_once_for_slots(self: &Arc<Self>, mut endpoints: Vec<i64>) -> Result<(), Fault> {
        if endpoints.is_empty() {
            return Ok(());
        }
        // Whoever comes while others ask gets what they got.
        let _turn = self.asking.lock().await;
        {
            let state = self.state();
            endpoints
                .retain(|row| state.endpoint(*row).is_ok_and(|entry| entry.endpoint.shared_slots() == 0));
        }
        let now = monotonic_ms();
        {
            let mut asked = lock(&self.asked);
            endpoints.retain(|row| {
                let ask = asked.get(row).is_none_or(|at| now.saturating_sub(*at) >= ASK_EVERY_MS);
                if ask {
                    asked.insert(*row, now);
                }
                ask
            });
        }
        self.ask_for_slots(&endpoints).await
    }

    /// Leaves the slots of endpoints to other nodes: nothing of them begins here.
    pub(super) async fn give_slots_up(self: &Arc<Self>, endpoints: &[i64]) -> Result<(), Fault> {
        let wishes: Vec<Wish> = {
            let state = self.state();
            endpoints.iter().filter_map(|row| Wish::of(*row, &state.config, false)).collect()
        };
        if wishes.is_empty() {
            return Ok(());
        }
        // Whoever wants them back asks, however soon that is.
        lock(&self.asked).retain(|row, _| !endpoints.contains(row));
        self.settle_slots(&wishes).await
    }

    /// Asks for slots of endpoints that this node has none of.
    async fn ask_for_slots(self: &Arc<Self>, endpoints: &[i64]) -> Result<(), Fault> {
        let wishes: Vec<Wish> = {
            let state = self.state();
            endpoints.iter().filter_map(|row| Wish::of(*row, &state.config, true)).collect()
        };
        for wishes in wishes.chunks(ASK_MAX) {
            self.settle_slots(wishes).await?;
        }
        Ok(())
    }

    /// Brings the slots that this node has towards its fair share. Once a second.
    pub(super) async fn share_slots(self: Arc<Self>) -> Result<(), Fault> {
        let wishes = {
            let mut guard = self.state();
            let state = &mut *guard;
            let mut wishes = Vec::new();
            for (row, entry) in &mut state.config.endpoints {
                let due = entry.next_due != i64::MAX || state.replays.open.contains(row);
                // A node without clients leaves the slots to those that have some, and at once.
                let waits = due && entry.gone.is_none() && !entry.lacks_clients();
                let busy = entry.leased > 0 || entry.endpoint.in_flight() > 0 || waits;
                let has = entry.endpoint.shared_slots() > 0;
                entry.idle_looks = if busy { 0 } else { entry.idle_looks.saturating_add(1) };
                if busy || has {
                    // Whoever has the rate next begins no sooner than it allows after the last attempt here.
                    let rate = entry.settings.receiver.rate_per_second();
                    let pace = rate.map_or(0, |rate| (1.0 / rate).ceil() as u32);
                    let recent = entry.idle_looks <= IDLE_LOOKS_MAX.max(pace + 1) && !entry.leaves_slots();
                    wishes.push((*row, busy || recent));
                }
            }
            wishes.iter().filter_map(|(row, busy)| Wish::of(*row, &state.config, *busy)).collect::<Vec<_>>()
        };
        let wishes = self.unmet(wishes).await?;
        for wishes in wishes.chunks(ASK_MAX) {
            self.settle_slots(wishes).await?;
        }
        Ok(())
    }

    /// Without those that are met and that no other node wants anything of.
    async fn unmet(&self, mut wishes: Vec<Wish>) -> Result<Vec<Wish>, Fault> {
        if wishes.is_empty() {
            return Ok(wishes);
        }
        let me = self.state().node;
        let sql = self.connection().await?;
        let rows = sql.query("SELECT DISTINCT endpoint FROM slots WHERE node <> $1", &[&me]).await?;
        let shared: FxHashSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let state = self.state();
        wishes.retain(|wish| {
            let slots =
                state.config.endpoints.get(&wish.endpoint).map_or(0, |entry| entry.endpoint.shared_slots());
            !wish.busy || shared.contains(&wish.endpoint) || slots != wish.most.unsigned_abs()
        });
        Ok(wishes)
    }

    async fn settle_slots(self: &Arc<Self>, wishes: &[Wish]) -> Result<(), Fault> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_settle_slots(wishes).await {
                Err(fault) if tries < 5 => self.mend(fault, tries).await?,
                other => return other,
            }
        }
    }

    async fn try_settle_slots(self: &Arc<Self>, wishes: &[Wish]) -> Result<(), Fault> {
        let tenure = self.state().tenure;
        let tx = Tx::begin(self, Access::Messages).await?;
        tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
        let endpoints: Vec<i64> = wishes.iter().map(|wish| wish.endpoint).collect();
        tx.execute(
            "DELETE FROM slots USING node WHERE slots.endpoint = ANY($1) AND node.id = slots.node AND node.id <> $2 \
             AND node.seen_at < clock_timestamp() - interval '75 seconds'",
            &[&endpoints, &tx.me],
        )
        .await?;
        let rows = tx
            .query(
                "SELECT endpoint, node, slots FROM slots WHERE endpoint = ANY($1) ORDER BY node",
                &[&endpoints],
            )
            .await?;
        let mut held: Vec<(i64, i32, i32)> = Vec::with_capacity(rows.len());
        for row in rows {
            held.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        }
        let mut granted = Vec::new();
        let (mut changed, mut counts, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        for wish in wishes {
            let of_it = || held.iter().filter(|(endpoint, ..)| *endpoint == wish.endpoint);
            let others: Vec<(i32, i32)> = of_it()
                .filter(|(_, node, _)| *node != tx.me)
                .map(|(_, node, slots)| (*node, *slots))
                .collect();
            let mine = of_it().find(|(_, node, _)| *node == tx.me).map(|(_, _, slots)| *slots);
            let target = wish.target(tx.me, mine.unwrap_or(0), &others);
            // From now on no more begin than that; what is in flight still counts.
            let in_flight = self.limit(wish.endpoint, target, mine.unwrap_or(0));
            let counted = target.max(in_flight);
            if counted == 0 && !wish.busy {
                if mine.is_some() {
                    dropped.push(wish.endpoint);
                }
            } else if mine != Some(counted) {
                changed.push(wish.endpoint);
                counts.push(counted);
            }
            granted.push((wish.endpoint, target));
        }
        if !changed.is_empty() {
            tx.execute(
                "INSERT INTO slots (endpoint, node, slots) SELECT endpoint, $1, slots \
                 FROM unnest($2::bigint[], $3::int[]) AS granted (endpoint, slots) \
                 ON CONFLICT (endpoint, node) DO UPDATE SET slots = excluded.slots",
                &[&tx.me, &changed, &counts],
            )
            .await?;
        }
        if !dropped.is_empty() {
            tx.execute("DELETE FROM slots WHERE node = $1 AND endpoint = ANY($2)", &[&tx.me, &dropped])
                .await?;
        }
        tx.commit().await?;
        self.grant(&granted, tenure);
        Ok(())
    }

    /// Lowers what may be in flight to `target` at once, if it is more; returns what is in flight.
    fn limit(&self, endpoint: i64, target: i32, mine: i32) -> i32 {
        let state = self.state();
        let Some(entry) = state.config.endpoints.get(&endpoint) else { return 0 };
        let target = target.unsigned_abs();
        // A node that lapsed has none in memory, but what it dialled before may be in flight.
        if entry.endpoint.shared_slots() > target {
            entry.endpoint.set_slots(target);
        }
        i32::try_from(entry.endpoint.in_flight()).unwrap_or(i32::MAX).min(mine.max(0))
    }

    /// Raises what may be in flight: the table counts it.
    fn grant(self: &Arc<Self>, granted: &[(i64, i32)], tenure: u64) {
        let mut widened = Vec::new();
        {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.tenure != tenure {
                // They may be another's by now.
                return;
            }
            for (endpoint, slots) in granted {
                let Some(entry) = state.config.endpoints.get(endpoint) else { continue };
                let slots = slots.unsigned_abs();
                if slots > entry.endpoint.shared_slots() {
                    entry.endpoint.set_slots(slots);
                    widened.push(entry.endpoint.id);
                    state.agenda.relist(&mut state.config, *endpoint);
                }
            }
            if let Some(dispatch) = state.dispatch.as_ref() {
                for endpoint in widened {
                    dispatch.widen(endpoint);
                }
            }
        }
        self.wake();
    }
}

impl Wish {
    fn of(endpoint: i64, config: &super::config::Config, busy: bool) -> Option<Self> {
        let entry = config.endpoints.get(&endpoint)?;
        let receiver = &entry.settings.receiver;
        Some(Self {
            endpoint,
            most: i32::try_from(receiver.max_in_flight()).unwrap_or(i32::MAX),
            alone: receiver.rate_per_second().is_some(),
            busy,
        })
    }

    /// How many this node should have, of those that are free or its own. `others`: node and slots of each.
    fn target(&self, me: i32, mine: i32, others: &[(i32, i32)]) -> i32 {
        let taken: i32 = others.iter().map(|(_, slots)| slots).sum();
        let free = (self.most - taken).max(0);
        if !self.busy {
            return 0;
        }
        if self.alone {
            return if taken == 0 { self.most } else { 0 };
        }
        let nodes = i32::try_from(others.len()).unwrap_or(i32::MAX).saturating_add(1);
        let rank = others.iter().filter(|(node, _)| *node < me).count();
        let extra = i32::from(i32::try_from(rank).unwrap_or(i32::MAX) < self.most % nodes);
        // Whoever has one keeps one while it has something to do: handing it around would help nobody.
        let fair = (self.most / nodes + extra).max(i32::from(mine > 0));
        fair.min(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(most: i32, alone: bool) -> Wish {
        Wish { endpoint: 1, most, alone, busy: true }
    }

    #[test]
    fn one_node_has_all_and_several_share() {
        assert_eq!(wish(64, false).target(7, 0, &[]), 64);
        assert_eq!(wish(64, false).target(7, 64, &[(9, 0)]), 32, "somebody asks");
        assert_eq!(wish(64, false).target(9, 0, &[(7, 64)]), 0, "nothing is free yet");
        assert_eq!(wish(64, false).target(9, 0, &[(7, 32)]), 32);
        assert_eq!(wish(5, false).target(1, 3, &[(2, 2)]), 3);
        assert_eq!(wish(5, false).target(2, 2, &[(1, 3)]), 2);
        assert_eq!(wish(1, false).target(2, 1, &[(1, 0)]), 1, "it stays where it is");
        assert_eq!(wish(1, false).target(1, 0, &[(2, 1)]), 0);
    }

    #[test]
    fn a_rate_belongs_to_one_node() {
        assert_eq!(wish(64, true).target(1, 64, &[(2, 0)]), 64);
        assert_eq!(wish(64, true).target(2, 0, &[(1, 64)]), 0);
        assert_eq!(wish(64, true).target(2, 0, &[(1, 0)]), 64);
    }

    #[test]
    fn who_has_nothing_to_do_wants_nothing() {
        let idle = Wish { busy: false, ..wish(64, false) };
        assert_eq!(idle.target(1, 64, &[]), 0);
    }
}
