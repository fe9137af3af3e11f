//! What the server tells about itself in numbers.
//!
//! Counters are plain atomics: the hot path adds, `/metrics` reads. Labels have few values, all known here: no id, URL or
//! workspace is one.

mod attempted;
mod page;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use restante_core::endpoint::{DestinationKind, Receiver};
use restante_core::{FailureKind, Outcome, Timestamp};
use restante_store::meter::Histogram;
use restante_store::{Commits, Connections, Settled, Vitals};

pub(crate) use attempted::Attempted;
use page::{Page, Unit};

/// Upper bounds of durations, in microseconds.
const DURATIONS_US: [u64; 11] =
    [1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 30_000_000];
/// Upper bounds of how late attempts begin, in microseconds: up to six hours.
const LAGS_US: [u64; 13] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    21_600_000_000,
];

/// Lines that the log could not take. The log is the process's, so this is too.
static LOG_LINES_DROPPED: AtomicU64 = AtomicU64::new(0);

/// A line did not get into the log.
pub fn log_line_dropped() {
    LOG_LINES_DROPPED.fetch_add(1, Ordering::Relaxed);
}

/// All counters of the process.
#[derive(Debug)]
pub struct Metrics {
    accepted: AtomicU64,
    duplicates: AtomicU64,
    published: AtomicU64,
    sent: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    calls_rate_limited: AtomicU64,
    attempts: [Attempts; Channel::ALL.len()],
    leases_lost: AtomicU64,
    spans_dropped: AtomicU64,
    clock: ClockJumps,
    attempt_us: Histogram,
    accept_us: Histogram,
}

/// The attempts that go one way.
#[derive(Debug)]
struct Attempts {
    delivered: AtomicU64,
    failed: [AtomicU64; FailureKind::ALL.len()],
    uncertain: AtomicU64,
    lost: AtomicU64,
    lag_us: Histogram,
}

#[derive(Debug, Default)]
struct ClockJumps {
    back: AtomicU64,
    forward: AtomicU64,
    back_ms: AtomicU64,
    /// Negative: back; 0: there was none.
    last_ms: AtomicI64,
}

/// The way that an attempt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Destination,
    Cli,
    Webhook,
    Email,
}

impl Channel {
    const ALL: [Self; 4] = [Self::Destination, Self::Cli, Self::Webhook, Self::Email];

    /// The way to a receiver.
    pub const fn to(receiver: &Receiver) -> Self {
        match receiver {
            Receiver::Destination(it) => match it.kind {
                DestinationKind::Http => Self::Destination,
                DestinationKind::Cli => Self::Cli,
            },
            Receiver::Webhook(_) => Self::Webhook,
            Receiver::Mailboxes(_) => Self::Email,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Destination => "destination",
            Self::Cli => "cli",
            Self::Webhook => "webhook",
            Self::Email => "email",
        }
    }
}

/// Why intake turned a request away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    UnknownToken,
    TooLarge,
    Credits,
    Malformed,
    TooSlow,
    RateLimited,
    /// Its signature was wrong: it is stored all the same.
    Unverified,
    Unavailable,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::UnknownToken,
        Self::TooLarge,
        Self::Credits,
        Self::Malformed,
        Self::TooSlow,
        Self::RateLimited,
        Self::Unverified,
        Self::Unavailable,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::UnknownToken => "unknown_token",
            Self::TooLarge => "too_large",
            Self::Credits => "credits",
            Self::Malformed => "malformed",
            Self::TooSlow => "too_slow",
            Self::RateLimited => "rate_limited",
            Self::Unverified => "unverified",
            Self::Unavailable => "unavailable",
        }
    }
}

/// By how much the time of day left what a steady clock makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockJump {
    Back(Duration),
    Forward(Duration),
}

/// What is read when the page is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// `None`: the store does not answer.
    pub vitals: Option<Vitals>,
    pub connections: Connections,
    /// `None`: nothing is kept on this machine.
    pub disk: Option<Disk>,
    /// Attempts begun and not ended.
    pub in_flight: u32,
    /// Results and released leases that the store does not have yet.
    pub unsettled: usize,
    /// Command-line clients.
    pub clients: usize,
    /// Open connections of callers.
    pub callers: usize,
    pub now: Timestamp,
    pub uptime: Duration,
}

/// The data directory's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    pub free_bytes: u64,
    /// With less the server is not ready.
    pub free_bytes_min: u64,
    /// Held for when the disk is full; 0: nothing, or it is in use.
    pub reserve_bytes: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            accepted: AtomicU64::default(),
            duplicates: AtomicU64::default(),
            published: AtomicU64::default(),
            sent: AtomicU64::default(),
            refused: Default::default(),
            calls_rate_limited: AtomicU64::default(),
            attempts: Default::default(),
            leases_lost: AtomicU64::default(),
            spans_dropped: AtomicU64::default(),
            clock: ClockJumps::default(),
            attempt_us: Histogram::new(&DURATIONS_US),
            accept_us: Histogram::new(&DURATIONS_US),
        }
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            delivered: AtomicU64::default(),
            failed: Default::default(),
            uncertain: AtomicU64::default(),
            lost: AtomicU64::default(),
            lag_us: Histogram::new(&LAGS_US),
        }
    }
}

impl Metrics {
    /// A request was stored and is acknowledged.
    pub fn accepted(&self, took: Duration) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.accept_us.observe_us(took);
    }

    /// A request that was accepted is a repeat.
    pub fn duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    /// Events of one call were stored and are acknowledged.
    pub fn published(&self, events: usize, took: Duration) {
        self.published.fetch_add(events as u64, Ordering::Relaxed);
        self.accept_us.observe_us(took);
    }

    /// Emails of one call were stored and are acknowledged.
    pub fn sent(&self, emails: usize, took: Duration) {
        self.sent.fetch_add(emails as u64, Ordering::Relaxed);
        self.accept_us.observe_us(took);
    }

    /// Intake turned a request away.
    pub fn refused(&self, why: Refusal) {
        if let Some(index) = Refusal::ALL.iter().position(|known| *known == why) {
            self.refused[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The API turned a call away, or a login of a client: there were too many.
    pub fn call_rate_limited(&self) {
        self.calls_rate_limited.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt began, so long after it was due.
    pub fn begun(&self, channel: Channel, lag: Duration) {
        self.attempts[channel as usize].lag_us.observe_us(lag);
    }

    /// An attempt ended.
    pub fn attempted(&self, channel: Channel, outcome: &Outcome, took: Duration) {
        let attempts = &self.attempts[channel as usize];
        let counter = match outcome {
            Outcome::Delivered { .. } => &attempts.delivered,
            Outcome::Lost => &attempts.lost,
            Outcome::Uncertain(_) => &attempts.uncertain,
            Outcome::Failed(failure) | Outcome::Refused(failure) => {
                let index = FailureKind::ALL.iter().position(|kind| *kind == failure.kind).unwrap_or(0);
                &attempts.failed[index]
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.attempt_us.observe_us(took);
    }

    /// An attempt's result was recorded.
    pub fn settled(&self, settled: &Settled) {
        if *settled == Settled::LeaseLost {
            self.leases_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many spans of traces are not exported.
    pub fn spans_dropped(&self, count: u64) {
        self.spans_dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// The clock jumped.
    pub fn clock_jumped(&self, jump: ClockJump) {
        let millis = |by: Duration| i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let last_ms = match jump {
            ClockJump::Back(by) => {
                self.clock.back.fetch_add(1, Ordering::Relaxed);
                self.clock.back_ms.fetch_add(millis(by).unsigned_abs(), Ordering::Relaxed);
                -millis(by)
            }
            ClockJump::Forward(by) => {
                self.clock.forward.fetch_add(1, Ordering::Relaxed);
                millis(by)
            }
        };
        self.clock.last_ms.store(last_ms, Ordering::Relaxed);
    }

    /// The page for Prometheus, in its text format.
    pub fn render(&self, commits: &Commits, moment: &Moment) -> String {
        let mut page = Page::default();
        render_process(&mut page, moment);
        page.counter(
            "restante_spans_dropped_total",
            "Spans of traces dropped because the collector did not take them, or not fast enough.",
            get(&self.spans_dropped),
        );
        self.render_intake(&mut page);
        render_store(&mut page, commits, moment);
        self.render_attempts(&mut page, moment);
        self.render_clock(&mut page);
        page.into_text()
    }

    fn render_intake(&self, page: &mut Page) {
        page.counter(
            "restante_requests_accepted_total",
            "Requests stored and acknowledged.",
            get(&self.accepted),
        );
        page.counter(
            "restante_requests_duplicate_total",
            "Those of them that are repeats, and are not delivered.",
            get(&self.duplicates),
        );
        page.counter(
            "restante_events_published_total",
            "Events stored and acknowledged.",
            get(&self.published),
        );
        page.counter("restante_emails_accepted_total", "Emails stored and acknowledged.", get(&self.sent));
        let name = "restante_requests_refused_total";
        page.head(
            name,
            "counter",
            "Requests that intake turned away; `unavailable`: could not be stored, or stopping; `unverified`: stored as rejected.",
        );
        for (why, counter) in Refusal::ALL.iter().zip(&self.refused) {
            page.sample(name, &format!("reason=\"{}\"", why.name()), get(counter));
        }
        page.counter(
            "restante_calls_rate_limited_total",
            "Calls of the API, and logins of clients, that came too often.",
            get(&self.calls_rate_limited),
        );
        let name = "restante_accept_seconds";
        page.head(
            name,
            "histogram",
            "From when a request, or a call with events or emails, was read and judged to its durable commit.",
        );
        page.histogram(name, "", Unit::Microseconds, &self.accept_us);
    }

    fn render_attempts(&self, page: &mut Page, moment: &Moment) {
        let name = "restante_attempts_total";
        page.head(name, "counter", "Finished attempts, by the way they went, their result and what failed.");
        for (channel, attempts) in Channel::ALL.iter().zip(&self.attempts) {
            let channel = channel.name();
            let results = [
                ("delivered", &attempts.delivered),
                ("uncertain", &attempts.uncertain),
                ("lost", &attempts.lost),
            ];
            for (result, counter) in results {
                page.sample(name, &format!("channel=\"{channel}\",result=\"{result}\""), get(counter));
            }
            for (kind, counter) in FailureKind::ALL.iter().zip(&attempts.failed) {
                let kind = kind.name();
                let labels = format!("channel=\"{channel}\",result=\"failed\",error_kind=\"{kind}\"");
                page.sample(name, &labels, get(counter));
            }
        }
        let name = "restante_delivery_lag_seconds";
        page.head(
            name,
            "histogram",
            "From when an attempt was due to its beginning, by the clock of this node.",
        );
        for (channel, attempts) in Channel::ALL.iter().zip(&self.attempts) {
            let labels = format!("channel=\"{}\"", channel.name());
            page.histogram(name, &labels, Unit::Microseconds, &attempts.lag_us);
        }
        let name = "restante_attempt_seconds";
        page.head(name, "histogram", "Duration of attempts.");
        page.histogram(name, "", Unit::Microseconds, &self.attempt_us);
        page.gauge("restante_attempts_in_flight", "Attempts begun and not ended.", moment.in_flight);
        page.gauge(
            "restante_attempts_unsettled",
            "Results of attempts, and leases given back, that the store does not have yet.",
            moment.unsettled,
        );
        page.counter(
            "restante_leases_lost_total",
            "Results that came too late to count.",
            get(&self.leases_lost),
        );
    }

    fn render_clock(&self, page: &mut Page) {
        let name = "restante_clock_jumps_total";
        page.head(name, "counter", "Jumps of the time of day by a second or more.");
        page.sample(name, "direction=\"back\"", get(&self.clock.back));
        page.sample(name, "direction=\"forward\"", get(&self.clock.forward));
        page.gauge(
            "restante_clock_jump_last_seconds",
            "Size of the latest jump, negative: back; 0: there was none.",
            self.clock.last_ms.load(Ordering::Relaxed) as f64 / 1e3,
        );
        page.counter(
            "restante_clock_back_ms_total",
            "By how much the clock went back, in all, in milliseconds.",
            get(&self.clock.back_ms),
        );
    }
}

fn render_process(page: &mut Page, moment: &Moment) {
    let name = "restante_build_info";
    page.head(name, "gauge", "Always 1; the version is a label.");
    page.sample(name, concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1);
    page.gauge("restante_uptime_seconds", "Since the server started.", moment.uptime.as_secs_f64());
    page.gauge("restante_callers_connected", "Open connections to this node.", moment.callers);
    page.gauge("restante_clients_connected", "Command-line clients connected to this node.", moment.clients);
    page.counter(
        "restante_log_lines_dropped_total",
        "Log lines dropped because nobody took them.",
        get(&LOG_LINES_DROPPED),
    );
}

fn render_store(page: &mut Page, commits: &Commits, moment: &Moment) {
    page.gauge(
        "restante_store_up",
        "Whether the store answers; 0: what is only known with it is missing.",
        u8::from(moment.vitals.is_some()),
    );
    if let Some(vitals) = moment.vitals {
        render_vitals(page, vitals, moment.now);
    }
    let name = "restante_commit_items";
    page.head(
        name,
        "histogram",
        "Calls that one commit of the writer, or one batch to PostgreSQL, made durable.",
    );
    page.histogram(name, "", Unit::Items, &commits.items);
    let name = "restante_commit_seconds";
    page.head(name, "histogram", "Duration of such a commit.");
    page.histogram(name, "", Unit::Microseconds, &commits.duration_us);
    page.counter(
        "restante_commits_refused_total",
        "Such commits that the database refused; nothing of them was acknowledged.",
        commits.refused(),
    );
    let Connections { in_use, idle, waiting, max } = moment.connections;
    let name = "restante_database_connections";
    page.head(name, "gauge", "Connections to the database for reads and single changes.");
    page.sample(name, "state=\"in_use\"", in_use);
    page.sample(name, "state=\"idle\"", idle);
    page.gauge("restante_database_connections_waiting", "Callers that wait for such a connection.", waiting);
    if let Some(max) = max {
        page.gauge("restante_database_connections_max", "As many there may be; PostgreSQL only.", max);
    }
    if let Some(disk) = moment.disk {
        page.gauge(
            "restante_disk_free_bytes",
            "Free on the data directory's disk; embedded database only.",
            disk.free_bytes,
        );
        page.gauge(
            "restante_disk_free_min_bytes",
            "With less free nothing new is accepted (`disk_free_bytes`); embedded database only.",
            disk.free_bytes_min,
        );
        page.gauge(
            "restante_disk_reserve_bytes",
            "Held for when the disk is full; 0 while that is in use, or none is wished for; embedded database only.",
            disk.reserve_bytes,
        );
    }
}

fn render_vitals(page: &mut Page, vitals: Vitals, now: Timestamp) {
    let late = vitals.oldest_due.map_or(Duration::ZERO, |due| now.since(due));
    page.gauge(
        "restante_oldest_due_seconds",
        "By how much the earliest delivery is late that lacks nothing but room to begin; 0: none is.",
        late.as_secs_f64(),
    );
    page.gauge("restante_leases", "Deliveries leased to this node.", vitals.leased);
    page.gauge(
        "restante_content_bytes",
        "Bytes of content in memory for leased deliveries.",
        vitals.content_bytes,
    );
    page.gauge(
        "restante_wal_bytes",
        "Size of the write-ahead log; 0 with PostgreSQL, which keeps its own.",
        vitals.wal_bytes,
    );
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
