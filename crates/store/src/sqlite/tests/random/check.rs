//! What must hold after each step.

use std::collections::{BTreeMap, HashSet};

use restante_core::State;
use restante_core::id::Key;
use restante_core::limits::ATTEMPTS_KEPT;

use super::super::{count, history};
use super::{Run, recorded, rows};
use crate::endpoint::Feed;
use crate::record::{ReplayJob, ReplayKind, ReplayState};
use crate::sqlite::agenda::Room;
use crate::sqlite::codec::DeliveryRow;
use crate::sqlite::config::{ended, standing};

type Rows = BTreeMap<i64, DeliveryRow>;

impl Run {
    pub(super) fn check(&mut self) {
        let rows = rows(&self.rig);
        self.check_leases(&rows);
        self.check_attempts(&rows);
        self.check_ends(&rows);
        self.check_agenda(&rows);
        self.check_webhooks(&rows);
        self.check_jobs(&rows);
        let engine = &self.rig.engine;
        let sum: i64 = engine
            .conn
            .query_row("SELECT coalesce(sum(delta), 0) FROM ledger", [], |row| row.get(0))
            .unwrap();
        let balance = engine.config.workspaces.values().next().unwrap().balance;
        assert_eq!(balance.unwrap_or(0), sum);
        assert!(sum >= 0);
        history::check(engine);
    }

    fn check_leases(&self, rows: &Rows) {
        let engine = &self.rig.engine;
        let sending: Vec<_> = rows.values().filter(|row| row.life.state == State::Sending).collect();
        assert_eq!(engine.agenda.leased as usize, sending.len(), "leases are counted");
        let held: HashSet<i64> = self.held.iter().map(|it| it.lease.delivery.key().value()).collect();
        for row in &sending {
            assert!(held.contains(&row.key), "a lease that nobody holds");
            assert_eq!(engine.born.contains(&row.key), !row.claimed);
        }
    }

    fn check_attempts(&self, rows: &Rows) {
        for row in rows.values() {
            let life = &row.life;
            assert!(life.attempts_used <= life.attempts_made && life.attempts_used <= 3, "{life:?}");
            let numbers = recorded(&self.rig, row);
            if self.may_be_pruned(row) {
                assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?} of {row:?}");
                assert!(numbers.iter().all(|number| (1..=life.attempts_made).contains(number)), "{row:?}");
            } else {
                assert_eq!(numbers, (1..=life.attempts_made).collect::<Vec<_>>(), "{row:?}");
            }
        }
    }

    /// Whether attempts of a delivery may be past their time: it is to a webhook and was made early enough.
    fn may_be_pruned(&self, row: &DeliveryRow) -> bool {
        let feed = self.rig.engine.config.endpoints[&row.endpoint].endpoint.feed;
        let lead_ms = self.rig.engine.key_lead_ms;
        let made_at = Key::from_value(row.key).at().millis() - lead_ms;
        feed == Feed::Events && made_at <= (self.pruned_at - ATTEMPTS_KEPT).millis()
    }

    /// What ended stays ended as it did, unless a replay delivers it or a recovery puts it on its schedule.
    fn check_ends(&mut self, rows: &Rows) {
        self.ends.retain(|key, _| rows.contains_key(key));
        for row in rows.values() {
            let entry = &self.rig.engine.config.endpoints[&row.endpoint];
            let life = ended(entry.gone, entry.standing, row, self.rig.now).unwrap_or(row.life.clone());
            let state = life.back_to.unwrap_or(life.state);
            match self.ends.insert(row.key, state) {
                None | Some(State::Pending | State::Sending | State::Skipped) => {}
                Some(before) => {
                    assert!(state == before || state == State::Delivered, "{before:?}, then {row:?}")
                }
            }
        }
    }

    fn check_agenda(&self, rows: &Rows) {
        let engine = &self.rig.engine;
        for (endpoint, entry) in &engine.config.endpoints {
            let of_it = || rows.values().filter(|row| row.endpoint == *endpoint);
            let leased = of_it().filter(|row| row.life.state == State::Sending).count();
            assert_eq!(entry.leased as usize, leased);
            let pending = of_it().filter(|row| row.life.state == State::Pending);
            let Some(due) = pending.map(|row| row.life.due_at.millis()).min() else { continue };
            assert!(entry.next_due <= due, "a due time in memory is never too late");
            if entry.gone.is_some() {
                assert!(engine.unswept.contains(endpoint), "somebody must end it");
                continue;
            }
            let listed = entry.listed_at.is_some_and(|at| engine.agenda.listed.contains(&(at, *endpoint)));
            match engine.room(*endpoint) {
                Room::Free(_) => {
                    // A lane that was just widened is found by the next claim.
                    assert!(listed || engine.agenda.crowded.contains(endpoint), "due work is forgotten");
                }
                Room::Squeezed => assert!(listed),
                Room::Full => assert!(listed || engine.agenda.crowded.contains(endpoint)),
                Room::Closed => {}
            }
        }
    }

    fn check_webhooks(&self, rows: &Rows) {
        let engine = &self.rig.engine;
        for (endpoint, entry) in &engine.config.endpoints {
            assert_eq!(entry.standing, standing(&engine.conn, *endpoint).unwrap(), "memory is the table's");
            let health = entry.standing.health;
            assert!(health.run.is_some() || !health.degraded);
            if entry.endpoint.feed != Feed::Events || entry.gone.is_some() {
                continue;
            }
            let pending =
                rows.values().filter(|row| row.endpoint == *endpoint && row.life.state == State::Pending);
            for row in pending {
                let over = ended(None, entry.standing, row, self.rig.now).is_some();
                assert!(!over || engine.unswept.contains(endpoint), "somebody must end it: {row:?}");
                assert!(
                    over || !entry.settings.receiver.is_paused(),
                    "pending, and its webhook is paused: {row:?}"
                );
            }
        }
    }

    fn check_jobs(&self, rows: &Rows) {
        let engine = &self.rig.engine;
        let (open, running) = engine.jobs.seen();
        let mut in_flight = BTreeMap::new();
        for row in rows.values().filter(|row| row.life.back_to.is_some()) {
            assert_eq!(row.life.state, State::Sending, "{row:?}");
            *in_flight.entry(row.job.expect("a replay has a job")).or_insert(0) += 1;
        }
        assert_eq!(running, in_flight, "attempts of replays are counted");
        let open: HashSet<i64> = open.into_values().flatten().collect();
        assert_eq!(open.len() as i64, count(&engine.conn, "open_job"));
        let mut items_of_open = 0;
        for (row, job) in self.jobs() {
            assert_eq!(open.contains(&row), !job.state.is_over(), "{job:?}");
            let items = items(self, row);
            items_of_open += items;
            let running = running.get(&row).copied().unwrap_or(0);
            let ended = job.delivered + job.failed + job.skipped;
            match (job.kind, job.state) {
                // What was in flight when it was asked for and then skipped is recovered too.
                (ReplayKind::Recover, _) => assert_eq!(items, 0, "{job:?}"),
                (_, ReplayState::Ended) => assert!(items == 0 && ended <= job.total, "{job:?}"),
                (_, ReplayState::Queued | ReplayState::Running | ReplayState::Done) => {
                    assert_eq!(ended + items as u64 + u64::from(running), job.total, "{job:?}");
                    assert!(job.state != ReplayState::Done || ended == job.total, "{job:?}");
                }
            }
        }
        assert_eq!(items_of_open, count(&engine.conn, "replay_item"));
    }

    /// All replays and recoveries with their records' rows.
    pub(super) fn jobs(&self) -> Vec<(i64, ReplayJob)> {
        let conn = &self.rig.engine.conn;
        let mut statement = conn.prepare_cached("SELECT row, body FROM record WHERE kind = 7").unwrap();
        let jobs = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).unwrap();
        jobs.map(|job| job.map(|(row, body)| (row, serde_json::from_str(&body).unwrap())).unwrap()).collect()
    }
}

/// What a replay has not begun.
fn items(run: &Run, job: i64) -> i64 {
    let conn = &run.rig.engine.conn;
    let mut statement = conn.prepare_cached("SELECT count(*) FROM replay_item WHERE job = ?1").unwrap();
    statement.query_row([job], |row| row.get(0)).unwrap()
}
