//! What the engine does with its [`Agenda`](crate::agenda::Agenda).

use restante_core::Timestamp;
use rusqlite::OptionalExtension;

use super::Fault;
use super::codec::DeliveryRow;
use super::engine::Engine;
pub(super) use crate::agenda::Room;

impl Engine {
    pub(super) fn room(&self, endpoint: i64) -> Room {
        self.agenda.room(&self.config, endpoint)
    }

    /// Whether a delivery that is made now is leased at birth.
    pub(super) fn may_be_born_leased(&self, endpoint: i64, now: Timestamp) -> bool {
        self.agenda.may_be_born_leased(&self.config, endpoint, now, self.jobs.is_open(endpoint))
    }

    /// Whether a lane is busy and works well.
    pub(super) fn flows(&self, endpoint: i64) -> bool {
        self.agenda.flows(&self.config, endpoint)
    }

    /// Counts a new lease. `row` is as it was written.
    pub(super) fn count_lease(&mut self, row: DeliveryRow) {
        self.agenda.count_lease(&mut self.config, row.endpoint);
        if !row.claimed {
            self.born.insert(row.key);
        }
        self.jobs.count(&row);
        self.leases.insert(row.key, row);
    }

    /// Counts a lease that ended, whatever the way.
    pub(super) fn end_lease(&mut self, row: &DeliveryRow) {
        self.leases.remove(&row.key);
        self.born.remove(&row.key);
        self.jobs.end(row);
        self.agenda.end_lease(&mut self.config, row.endpoint);
    }

    /// Notes that something of an endpoint is due at `due`.
    pub(super) fn plan(&mut self, endpoint: i64, due: i64) {
        self.agenda.plan(&mut self.config, endpoint, due);
    }

    /// Puts an endpoint where it belongs in the agenda.
    pub(super) fn relist(&mut self, endpoint: i64) {
        self.agenda.relist(&mut self.config, endpoint);
    }

    /// Reads an endpoint's earliest due time from the table.
    pub(super) fn look_up_due(&mut self, endpoint: i64) -> Result<(), Fault> {
        let (floor, due_floor) = match self.config.endpoints.get(&endpoint) {
            Some(entry) => (entry.floor(), entry.due_floor(self.key_lead_ms)),
            None => (0, 0),
        };
        let due: Option<i64> = if floor == 0 {
            self.conn
                .prepare_cached("SELECT min(due_at) FROM delivery WHERE endpoint = ?1 AND state = 0")?
                .query_row([endpoint], |row| row.get(0))
                .optional()?
                .flatten()
        } else {
            self.conn
                .prepare_cached(
                    "SELECT due_at FROM delivery WHERE endpoint = ?1 AND state = 0 AND due_at >= ?2 AND key >= ?3 \
                     ORDER BY due_at, key LIMIT 1",
                )?
                .query_row([endpoint, due_floor, floor], |row| row.get(0))
                .optional()?
        };
        self.agenda.set_due(&mut self.config, endpoint, due);
        Ok(())
    }

    /// Whether there is something to claim earlier than the dispatcher knows. Asked after each commit.
    pub fn should_wake(&mut self) -> bool {
        self.agenda.is_news() || self.jobs.ready
    }
}
