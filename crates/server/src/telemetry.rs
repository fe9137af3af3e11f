//! What the server tells about itself in numbers.
//!
//! Counters are plain atomics: the hot path adds, `/metrics` reads.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use restante_core::{FailureKind, Outcome};
use restante_store::{Settled, Vitals};

/// Upper bounds of the duration buckets, in seconds.
const BUCKETS_SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// All counters of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    accepted: AtomicU64,
    published: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    calls_rate_limited: AtomicU64,
    delivered: AtomicU64,
    failed: [AtomicU64; FailureKind::ALL.len()],
    lost: AtomicU64,
    leases_lost: AtomicU64,
    clock_back_ms: AtomicU64,
    attempt_seconds: Histogram,
    accept_seconds: Histogram,
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
    Unavailable,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::UnknownToken,
        Self::TooLarge,
        Self::Credits,
        Self::Malformed,
        Self::TooSlow,
        Self::RateLimited,
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
            Self::Unavailable => "unavailable",
        }
    }
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS_SECONDS.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(index) = BUCKETS_SECONDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[index].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn render(&self, page: &mut String, name: &str, help: &str) {
        head(page, name, "histogram", help);
        let mut below = 0;
        for (bound, bucket) in BUCKETS_SECONDS.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            let _ = writeln!(page, "{name}_bucket{{le=\"{bound}\"}} {below}");
        }
        let count = self.count.load(Ordering::Relaxed);
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed)).as_secs_f64();
        let _ =
            writeln!(page, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
    }
}

impl Metrics {
    /// Events of one call were stored and acknowledged.
    pub fn published(&self, events: usize, took: Duration) {
        self.published.fetch_add(events as u64, Ordering::Relaxed);
        self.accept_seconds.observe(took);
    }

    /// A request was stored and acknowledged.
    pub fn accepted(&self, took: Duration) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.accept_seconds.observe(took);
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

    /// An attempt ended.
    pub fn attempted(&self, outcome: &Outcome, took: Duration) {
        match outcome {
            Outcome::Delivered { .. } => self.delivered.fetch_add(1, Ordering::Relaxed),
            Outcome::Lost => self.lost.fetch_add(1, Ordering::Relaxed),
            Outcome::Failed(failure) | Outcome::Refused(failure) | Outcome::Uncertain(failure) => {
                let index = FailureKind::ALL.iter().position(|kind| *kind == failure.kind).unwrap_or(0);
                self.failed[index].fetch_add(1, Ordering::Relaxed)
            }
        };
        self.attempt_seconds.observe(took);
    }

    /// An attempt's result was recorded.
    pub fn settled(&self, settled: &Settled) {
        if *settled == Settled::LeaseLost {
            self.leases_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The clock was found to have gone back by this much.
    pub fn clock_went_back(&self, by: Duration) {
        self.clock_back_ms.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The page for Prometheus, in its text format.
    pub fn render(&self, vitals: Option<Vitals>, in_flight: u32, clients: usize, now_ms: i64) -> String {
        let mut page = String::new();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        head(&mut page, "restante_requests_accepted_total", "counter", "Requests stored and acknowledged.");
        let _ = writeln!(page, "restante_requests_accepted_total {}", get(&self.accepted));
        head(&mut page, "restante_events_published_total", "counter", "Events stored and acknowledged.");
        let _ = writeln!(page, "restante_events_published_total {}", get(&self.published));
        head(&mut page, "restante_requests_refused_total", "counter", "Requests that intake turned away.");
        for (why, counter) in Refusal::ALL.iter().zip(&self.refused) {
            let _ = writeln!(
                page,
                "restante_requests_refused_total{{reason=\"{}\"}} {}",
                why.name(),
                get(counter)
            );
        }
        let help = "Calls of the API, and logins of clients, that came too often.";
        head(&mut page, "restante_calls_rate_limited_total", "counter", help);
        let _ = writeln!(page, "restante_calls_rate_limited_total {}", get(&self.calls_rate_limited));
        head(&mut page, "restante_attempts_total", "counter", "Finished attempts by result.");
        let _ = writeln!(page, "restante_attempts_total{{result=\"delivered\"}} {}", get(&self.delivered));
        let _ = writeln!(page, "restante_attempts_total{{result=\"lost\"}} {}", get(&self.lost));
        for (kind, counter) in FailureKind::ALL.iter().zip(&self.failed) {
            let _ = writeln!(
                page,
                "restante_attempts_total{{result=\"failed\",error_kind=\"{}\"}} {}",
                kind.name(),
                get(counter)
            );
        }
        head(&mut page, "restante_leases_lost_total", "counter", "Results that came too late to count.");
        let _ = writeln!(page, "restante_leases_lost_total {}", get(&self.leases_lost));
        head(
            &mut page,
            "restante_clock_back_ms_total",
            "counter",
            "By how much the clock went back, in all.",
        );
        let _ = writeln!(page, "restante_clock_back_ms_total {}", get(&self.clock_back_ms));
        head(&mut page, "restante_attempts_in_flight", "gauge", "Attempts begun and not ended.");
        let _ = writeln!(page, "restante_attempts_in_flight {in_flight}");
        head(
            &mut page,
            "restante_clients_connected",
            "gauge",
            "Command-line clients connected to this node.",
        );
        let _ = writeln!(page, "restante_clients_connected {clients}");
        self.accept_seconds.render(
            &mut page,
            "restante_accept_seconds",
            "From the end of a request's body to its durable commit.",
        );
        self.attempt_seconds.render(&mut page, "restante_attempt_seconds", "Duration of attempts.");
        if let Some(vitals) = vitals {
            render_vitals(&mut page, vitals, now_ms);
        }
        page
    }
}

fn render_vitals(page: &mut String, vitals: Vitals, now_ms: i64) {
    let late_ms = vitals.oldest_due.map_or(0, |due| (now_ms - due.millis()).max(0));
    #[expect(clippy::cast_precision_loss, reason = "a lateness of centuries is not met")]
    let late_seconds = late_ms as f64 / 1000.0;
    let gauges: [(&str, &str, f64); 4] = [
        ("restante_leases", "Deliveries leased to this node.", vitals.leased as f64),
        (
            "restante_content_bytes",
            "Bytes of content in memory for leased deliveries.",
            vitals.content_bytes as f64,
        ),
        ("restante_oldest_due_seconds", "By how much the earliest due delivery is late.", late_seconds),
        ("restante_wal_bytes", "Size of the write-ahead log.", vitals.wal_bytes as f64),
    ];
    for (name, help, value) in gauges {
        head(page, name, "gauge", help);
        let _ = writeln!(page, "{name} {value}");
    }
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
