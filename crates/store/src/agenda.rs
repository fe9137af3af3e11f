//! What is due where, and how much of it may be leased.
//!
//! Memory only: the agenda says which endpoint to look at next, the table says what there is. A due time in memory
//! may be too early, never too late.

use std::collections::BTreeSet;

use restante_core::Timestamp;
use restante_core::shares::Shares;

use crate::Vitals;
use crate::config::Config;
use crate::endpoint::ContentBytes;

/// Most deliveries leased at once, over all lanes.
const LEASES_MAX: u32 = 16_384;
/// Most bytes of content in memory for leased deliveries.
const CONTENT_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// However many lanes are stuck, the others find room.
const LEASES: Shares = Shares::of(LEASES_MAX);
/// While a lane has due work in the table, or a replay to begin, one of so many of its leases is kept for that: who comes now must not
/// overtake for ever who came before.
const DUE_SHARE: u32 = 4;
/// When a lane that the node has no room for is looked at again. Content leaves memory without telling.
pub(crate) const SQUEEZED_PAUSE_MS: i64 = 100;
/// How often full lanes are looked through for what was widened, while there are more of them than ...
const WIDENED_EVERY_MS: i64 = 20;
/// ... so many: each claim would look at all of them.
const CROWD: usize = 256;
/// The due time of an endpoint of which something may be due, nobody knows since when: the next claim looks.
pub(crate) const UNKNOWN_DUE: i64 = 0;
/// A lane that the dispatcher wants so many leases for has shown that it can use them.
const FLOWING_LEASES: u32 = 192;

/// How many more deliveries of an endpoint may be leased now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// At least one.
    Free(u32),
    /// None: the node as a whole holds as much as it may.
    Squeezed,
    /// None: the lane holds as much as it may.
    Full,
    /// None: nothing of it may begin.
    Closed,
}

/// See the module. Endpoints are named by their rows.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Endpoints that have something due and room for it: (due time, row).
    pub(crate) listed: BTreeSet<(i64, i64)>,
    /// Endpoints whose lanes are full although something is due.
    pub(crate) crowded: BTreeSet<i64>,
    /// When they were last looked through for those that may have more by now, and whether that is put off.
    looked_through_at: i64,
    to_look_through: bool,
    /// Endpoints that have something planned and may be attempted here, room or not: (due time, row).
    planned: BTreeSet<(i64, i64)>,
    /// The due time the dispatcher was last told.
    announced: i64,
    /// When the dispatcher last asked for work.
    claimed_at: i64,
    /// Whether somebody takes what is leased.
    pub(crate) attached: bool,
    /// Deliveries leased now.
    pub(crate) leased: u32,
    pub(crate) content_bytes: ContentBytes,
}

impl Agenda {
    pub(crate) fn new() -> Self {
        Self {
            listed: BTreeSet::new(),
            crowded: BTreeSet::new(),
            looked_through_at: 0,
            to_look_through: false,
            planned: BTreeSet::new(),
            announced: i64::MAX,
            claimed_at: 0,
            attached: false,
            leased: 0,
            content_bytes: ContentBytes::default(),
        }
    }

    /// Forgets what is due and leased: both are about to be read again.
    pub(crate) fn clear(&mut self) {
        self.listed.clear();
        self.crowded.clear();
        self.planned.clear();
        self.announced = i64::MAX;
        self.leased = 0;
    }

    pub(crate) fn room(&self, config: &Config, endpoint: i64) -> Room {
        let Some(entry) = config.endpoints.get(&endpoint) else { return Room::Closed };
        if !self.attached || !entry.is_open() {
            return Room::Closed;
        }
        let wanted = entry.endpoint.leases_max().saturating_sub(entry.leased);
        if wanted == 0 {
            return Room::Full;
        }
        let delivers = entry.endpoint.delivers();
        let content_max = if delivers { CONTENT_BYTES_MAX } else { CONTENT_BYTES_MAX / 8 * 7 };
        if self.content_bytes.get() >= content_max {
            return Room::Squeezed;
        }
        match wanted.min(LEASES.of_lane(self.leased, delivers).saturating_sub(entry.leased)) {
            // The end of its own lease is when it may have another.
            0 if entry.leased > 0 && !delivers => Room::Full,
            0 => Room::Squeezed,
            room => Room::Free(room),
        }
    }

    /// Whether a delivery that is made now is leased at birth. `replays`: something of the endpoint is to be sent
    /// again.
    pub(crate) fn may_be_born_leased(
        &self,
        config: &Config,
        endpoint: i64,
        now: Timestamp,
        replays: bool,
    ) -> bool {
        let (Room::Free(room), Some(entry)) = (self.room(config, endpoint), config.endpoints.get(&endpoint))
        else {
            return false;
        };
        let nothing_waits = entry.next_due > now.millis() && !replays;
        nothing_waits || room > entry.endpoint.leases_max().div_ceil(DUE_SHARE)
    }

    /// Whether a lane is busy and works well: the dispatcher lets it hold many leases.
    pub(crate) fn flows(&self, config: &Config, endpoint: i64) -> bool {
        let entry = config.endpoints.get(&endpoint);
        self.attached && entry.is_some_and(|it| it.is_open() && it.endpoint.leases_max() >= FLOWING_LEASES)
    }

    /// Counts a new lease.
    pub(crate) fn count_lease(&mut self, config: &mut Config, endpoint: i64) {
        self.leased += 1;
        if let Some(entry) = config.endpoints.get_mut(&endpoint) {
            entry.leased += 1;
        }
    }

    /// Counts a lease that ended, whatever the way.
    pub(crate) fn end_lease(&mut self, config: &mut Config, endpoint: i64) {
        self.leased = self.leased.saturating_sub(1);
        let Some(entry) = config.endpoints.get_mut(&endpoint) else { return };
        entry.leased = entry.leased.saturating_sub(1);
        if entry.next_due != i64::MAX && entry.listed_at.is_none() {
            self.relist(config, endpoint);
        }
    }

    /// Notes that something of an endpoint is due at `due`.
    pub(crate) fn plan(&mut self, config: &mut Config, endpoint: i64, due: i64) {
        let Some(entry) = config.endpoints.get_mut(&endpoint) else { return };
        entry.low = entry.low.min(due);
        if due < entry.next_due {
            entry.next_due = due;
            self.relist(config, endpoint);
        }
    }

    /// Takes over what the table says is the earliest due time of an endpoint.
    pub(crate) fn set_due(&mut self, config: &mut Config, endpoint: i64, due: Option<i64>) {
        if let Some(entry) = config.endpoints.get_mut(&endpoint) {
            entry.next_due = due.unwrap_or(i64::MAX);
        }
        self.relist(config, endpoint);
    }

    /// Puts an endpoint where it belongs.
    pub(crate) fn relist(&mut self, config: &mut Config, endpoint: i64) {
        let room = self.room(config, endpoint);
        let Some(entry) = config.endpoints.get_mut(&endpoint) else { return };
        if let Some(at) = entry.listed_at.take() {
            self.listed.remove(&(at, endpoint));
        }
        let planned_at = entry.planned_at.take();
        if let Some(at) = planned_at {
            self.planned.remove(&(at, endpoint));
        }
        self.crowded.remove(&endpoint);
        if entry.next_due == i64::MAX {
            return;
        }
        // Without slots it is another node's, or waits for a client: nobody here is late.
        if room != Room::Closed && entry.endpoint.slots() > 0 {
            // Until it was looked, what was known before is what is known: it would seem late by decades.
            let known = if entry.next_due == UNKNOWN_DUE { planned_at } else { Some(entry.next_due) };
            entry.planned_at = known;
            self.planned.extend(known.map(|due| (due, endpoint)));
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
        self.listed.insert((at, endpoint));
    }

    /// Puts all endpoints where they belong: somebody is there to take leases, or nobody any more.
    pub(crate) fn attach(&mut self, config: &mut Config, attached: bool) {
        self.attached = attached;
        let endpoints: Vec<i64> = config.endpoints.keys().copied().collect();
        for endpoint in endpoints {
            self.relist(config, endpoint);
        }
    }

    /// The dispatcher asks for work: lanes that were full may have been widened since.
    pub(crate) fn begin_claim(&mut self, config: &mut Config, now: Timestamp) {
        self.claimed_at = now.millis();
        let since_ms = now.millis() - self.looked_through_at;
        self.to_look_through = self.crowded.len() > CROWD && (0..WIDENED_EVERY_MS).contains(&since_ms);
        if self.to_look_through {
            return;
        }
        self.looked_through_at = now.millis();
        let widened = |row: &i64| {
            let entry = config.endpoints.get(row);
            entry.is_none_or(|entry| entry.gone.is_some() || self.room(config, *row) != Room::Full)
        };
        let widened: Vec<i64> = self.crowded.iter().copied().filter(widened).collect();
        for endpoint in widened {
            self.relist(config, endpoint);
        }
    }

    /// The earliest due time and its endpoint.
    pub(crate) fn first(&self) -> Option<(i64, i64)> {
        self.listed.first().copied()
    }

    /// Endpoints in the order of their due times, those due at `now` only.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = i64> {
        self.listed.iter().take_while(move |(due, _)| *due <= now.millis()).map(|(_, endpoint)| *endpoint)
    }

    /// What the dispatcher is told at the end of a claim: when to ask again. `squeezed`: a replay found no room
    /// because the node as a whole has none.
    pub(crate) fn announce(&mut self, now: Timestamp, squeezed: bool) -> Option<Timestamp> {
        let squeezed = squeezed.then_some(now.millis() + SQUEEZED_PAUSE_MS);
        let put_off = self.to_look_through.then_some(now.millis() + WIDENED_EVERY_MS);
        let next_due = self.first().map(|(due, _)| due).into_iter().chain(squeezed).chain(put_off).min();
        self.announced = next_due.unwrap_or(i64::MAX);
        next_due.map(Timestamp::from_millis)
    }

    /// Whether there is something to claim earlier than the dispatcher knows. Asked after each commit.
    pub(crate) fn is_news(&mut self) -> bool {
        let due = self.first().map_or(i64::MAX, |(due, _)| due);
        let news = due < self.announced;
        self.announced = self.announced.min(due);
        news
    }

    /// Numbers for metrics and health.
    pub(crate) fn vitals(&self) -> Vitals {
        Vitals {
            leased: self.leased.into(),
            content_bytes: self.content_bytes.get(),
            oldest_due: self.planned.first().map(|(due, _)| Timestamp::from_millis(*due)),
            wal_bytes: 0,
        }
    }
}
