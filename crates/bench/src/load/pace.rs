//! When the next request is due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as SyncMutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Plan, Until};
use crate::clock;

/// How long before a due time the timer stops sleeping and spins: what a sleep usually wakes up late.
const SPIN: Duration = Duration::from_micros(80);

/// One request to send.
pub(super) struct Turn {
    /// The number of the request in its run, from 0.
    pub(super) n: u64,
    /// When it was due: now in a closed loop, by the rate in an open one. Latency counts from here.
    pub(super) due: Instant,
    /// The same for other processes, in microseconds of the steady clock.
    pub(super) due_us: u64,
}

/// Deals out turns to the connections of a run.
pub(super) struct Pace {
    until: Until,
    taken: AtomicU64,
    ends: OnceLock<Option<Instant>>,
    open: Option<Open>,
}

/// The turns of an open loop, made by a timer thread and taken by whichever connection is free.
struct Open {
    rate: f64,
    turns: Mutex<UnboundedReceiver<Turn>>,
    timer: SyncMutex<Option<UnboundedSender<Turn>>>,
}

impl Pace {
    pub(super) fn new(plan: &Plan) -> Self {
        let open = plan.rate.map(|rate| {
            let (timer, turns) = unbounded_channel();
            Open { rate, turns: Mutex::new(turns), timer: SyncMutex::new(Some(timer)) }
        });
        Self { until: plan.until, taken: AtomicU64::new(0), ends: OnceLock::new(), open }
    }

    /// Starts the run; the first of several threads decides.
    pub(super) fn start(&self) {
        let start = clock::now();
        self.ends.get_or_init(|| self.until.after.map(|after| start + after));
        let Some(open) = &self.open else { return };
        if let Some(timer) = open.timer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let (rate, until) = (open.rate, self.until);
            thread::spawn(move || tick(start, rate, until, &timer));
        }
    }

    /// The next turn, when it is due; `None` when the run is over.
    pub(super) async fn next(&self) -> Option<Turn> {
        if let Some(open) = &self.open {
            let turn = open.turns.lock().await.recv().await?;
            self.taken.fetch_add(1, Ordering::Relaxed);
            return Some(turn);
        }
        let due = clock::now();
        if self.ends.get().copied().flatten().is_some_and(|end| due >= end) {
            return None;
        }
        let wanted = self.until.count.unwrap_or(u64::MAX);
        let n = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < wanted).then_some(n + 1))
            .ok()?;
        Some(Turn { n, due, due_us: clock::steady_us() })
    }

    /// Turns dealt out so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Sends each turn at its due time until the run is over or nobody listens.
fn tick(start: Instant, rate: f64, until: Until, turns: &UnboundedSender<Turn>) {
    // The thread began later than the run.
    let start_us = clock::steady_us().saturating_sub(clock::micros_since(start));
    for n in 0..until.count.unwrap_or(u64::MAX) {
        let offset = due_offset(n, rate);
        if until.after.is_some_and(|after| offset >= after) {
            return;
        }
        let due = start + offset;
        sleep_until(due);
        if turns.send(Turn { n, due, due_us: start_us + clock::micros(offset) }).is_err() {
            return;
        }
    }
}

/// From the start to the due time of request `n`, counted from 0, at `rate` requests per second.
#[expect(clippy::cast_precision_loss, reason = "request numbers stay far below 2^53")]
fn due_offset(n: u64, rate: f64) -> Duration {
    Duration::from_secs_f64(n as f64 / rate)
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(clock::now());
    if left > SPIN {
        thread::sleep(left - SPIN);
    }
    while clock::now() < due {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_follow_the_rate_without_drift() {
        assert_eq!(due_offset(0, 100.0), Duration::ZERO);
        assert_eq!(due_offset(1, 100.0), Duration::from_millis(10));
        assert_eq!(due_offset(6_000, 100.0), Duration::from_secs(60));
        assert_eq!(due_offset(1, 1_000.0), Duration::from_millis(1));
    }

    #[test]
    fn both_due_times_are_one_moment_however_late_the_first_is_dealt_out() {
        let (turns, mut dealt) = unbounded_channel();
        let start = clock::now();
        thread::sleep(Duration::from_millis(20));
        tick(start, 1_000.0, Until { count: Some(1), after: None }, &turns);
        let turn = dealt.try_recv().unwrap();
        let late_us = clock::steady_us() - turn.due_us;
        assert!(late_us >= 20_000, "{late_us}");
    }
}
