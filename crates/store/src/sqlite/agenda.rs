//! What is due where, and how much of it may be leased.
//!
//! Memory only: the agenda says which endpoint to look at next, the table says what there is. A due time in memory
//! may be too early, never too late.

use rusqlite::OptionalExtension;

use restante_core::Timestamp;

use super::Fault;
use super::codec::DeliveryRow;
use super::config::EndpointEntry;
use super::engine::Engine;

/// Most deliveries leased at once, over all lanes.
const LEASES_MAX: u32 = 16_384;
/// Most bytes of content in memory for leased deliveries.
const CONTENT_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// A lane may hold one of so many free leases: however many lanes are stuck, the others find room.
const LANE_SHARE: u32 = 8;
/// While a lane has due work in the table, or a replay to begin, one of so many of its leases is kept for that: who comes now must not
/// overtake for ever who came before.
const DUE_SHARE: u32 = 4;
/// When a lane that the node has no room for is looked at again. Content leaves memory without telling.
pub(super) const SQUEEZED_PAUSE_MS: i64 = 100;

/// A lane that the dispatcher wants so many leases for has shown that it can use them.
const FLOWING_LEASES: u32 = 192;

/// How many more deliveries of an endpoint may be leased now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// At least one.
    Free(u32),
    /// None: the node as a whole holds as much as it may.
    Squeezed,
    /// None: the lane holds as much as it may.
    Full,
    /// None: nothing of it may begin.
    Closed,
}

impl Engine {
    pub(super) fn room(&self, endpoint: i64) -> Room {
        let Some(entry) = self.config.endpoints.get(&endpoint) else { return Room::Closed };
        let held_back = entry.gone.is_some() || entry.settings.receiver.holds_back().is_some();
        if !self.is_attached() || held_back {
            return Room::Closed;
        }
        let wanted = entry.endpoint.leases_max().saturating_sub(entry.leased);
        if wanted == 0 {
            return Room::Full;
        }
        let free = LEASES_MAX.saturating_sub(self.leased());
        if free == 0 || self.content_bytes.get() >= CONTENT_BYTES_MAX {
            return Room::Squeezed;
        }
        match wanted.min((1 + free / LANE_SHARE).saturating_sub(entry.leased)) {
            0 => Room::Squeezed,
            room => Room::Free(room),
        }
    }

    /// Whether a delivery that is made now is leased at birth.
    pub(super) fn may_be_born_leased(&self, endpoint: i64, now: Timestamp) -> bool {
        let (Room::Free(room), Some(entry)) = (self.room(endpoint), self.config.endpoints.get(&endpoint))
        else {
            return false;
        };
        let nothing_waits = entry.next_due > now.millis() && !self.jobs.is_open(endpoint);
        nothing_waits || room > entry.endpoint.leases_max().div_ceil(DUE_SHARE)
    }

    /// Whether a lane is busy and works well: the dispatcher lets it hold many leases.
    pub(super) fn flows(&self, endpoint: i64) -> bool {
        let open =
            |entry: &EndpointEntry| entry.gone.is_none() && entry.settings.receiver.holds_back().is_none();
        self.is_attached()
            && self
                .config
                .endpoints
                .get(&endpoint)
                .is_some_and(|entry| open(entry) && entry.endpoint.leases_max() >= FLOWING_LEASES)
    }

    /// Counts a new lease. `row` is as it was written.
    pub(super) fn count_lease(&mut self, row: DeliveryRow) {
        if let Some(entry) = self.config.endpoints.get_mut(&row.endpoint) {
            entry.leased += 1;
        }
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
        let Some(entry) = self.config.endpoints.get_mut(&row.endpoint) else { return };
        entry.leased = entry.leased.saturating_sub(1);
        if entry.next_due != i64::MAX && entry.listed_at.is_none() {
            self.relist(row.endpoint);
        }
    }

    /// Deliveries leased now.
    pub(super) fn leased(&self) -> u32 {
        u32::try_from(self.leases.len()).unwrap_or(u32::MAX)
    }

    /// Notes that something of an endpoint is due at `due`.
    pub(super) fn plan(&mut self, endpoint: i64, due: i64) {
        let Some(entry) = self.config.endpoints.get_mut(&endpoint) else { return };
        if due < entry.next_due {
            entry.next_due = due;
            self.relist(endpoint);
        }
    }

    /// Puts an endpoint where it belongs in the agenda.
    pub(super) fn relist(&mut self, endpoint: i64) {
        let room = self.room(endpoint);
        let Some(entry) = self.config.endpoints.get_mut(&endpoint) else { return };
        if let Some(at) = entry.listed_at.take() {
            self.agenda.remove(&(at, endpoint));
        }
        self.crowded.remove(&endpoint);
        if entry.next_due == i64::MAX {
            return;
        }
        let at = match room {
            Room::Free(_) => entry.next_due,
            Room::Squeezed => entry.next_due.max(self.claimed_at.saturating_add(SQUEEZED_PAUSE_MS)),
            // The end of one of its own leases puts it back.
            Room::Full => {
                self.crowded.insert(endpoint);
                return;
            }
            Room::Closed => return,
        };
        entry.listed_at = Some(at);
        self.agenda.insert((at, endpoint));
    }

    /// Reads an endpoint's earliest due time from the table.
    pub(super) fn look_up_due(&mut self, endpoint: i64) -> Result<(), Fault> {
        let due: Option<i64> = self
            .conn
            .prepare_cached("SELECT min(due_at) FROM delivery WHERE endpoint = ?1 AND state = 0")?
            .query_row([endpoint], |row| row.get(0))
            .optional()?
            .flatten();
        if let Some(entry) = self.config.endpoints.get_mut(&endpoint) {
            entry.next_due = due.unwrap_or(i64::MAX);
        }
        self.relist(endpoint);
        Ok(())
    }

    /// Whether there is something to claim earlier than the dispatcher knows. Asked after each commit.
    pub fn should_wake(&mut self) -> bool {
        let due = self.agenda.first().map_or(i64::MAX, |(due, _)| *due);
        let wake = due < self.announced || self.jobs.ready;
        self.announced = self.announced.min(due);
        wake
    }
}
