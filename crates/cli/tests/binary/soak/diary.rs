//! What happened when, and what was wrong.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::patience::now;

/// Of all faults, so many are shown.
const FAULTS_SHOWN: usize = 20;
/// Happenings shown before a fault, and after it.
const BEFORE: usize = 8;
const AFTER: usize = 4;

pub(super) struct Diary {
    began: Instant,
    happenings: Mutex<Vec<(Duration, String)>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    faults: Mutex<Vec<String>>,
    fault_count: AtomicUsize,
}

impl Diary {
    pub(super) fn begin() -> Self {
        Self {
            began: now(),
            happenings: Mutex::default(),
            counts: Mutex::default(),
            faults: Mutex::default(),
            fault_count: AtomicUsize::new(0),
        }
    }

    /// Since it began.
    pub(super) fn now(&self) -> Duration {
        now() - self.began
    }

    /// Something that may explain a fault later.
    pub(super) fn note(&self, what: impl Into<String>) {
        self.happenings.lock().unwrap().push((self.now(), what.into()));
    }

    /// Something of which the table tells how often.
    pub(super) fn count(&self, name: &'static str) {
        self.add(name, 1);
    }

    pub(super) fn add(&self, name: &'static str, more: u64) {
        *self.counts.lock().unwrap().entry(name).or_default() += more;
    }

    /// The larger of both is told.
    pub(super) fn at_most(&self, name: &'static str, value: u64) {
        let mut counts = self.counts.lock().unwrap();
        let known = counts.entry(name).or_default();
        *known = (*known).max(value);
    }

    pub(super) fn counted(&self, name: &str) -> u64 {
        self.counts.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    /// A broken promise to somebody, who was promised at that time; `None`: now.
    pub(super) fn fault(&self, at: Option<Duration>, what: impl AsRef<str>) {
        if self.fault_count.fetch_add(1, Ordering::AcqRel) >= FAULTS_SHOWN {
            return;
        }
        let at = at.unwrap_or_else(|| self.now());
        let happenings = self.happenings.lock().unwrap();
        let middle = happenings.partition_point(|(time, _)| *time <= at);
        let around = &happenings[middle.saturating_sub(BEFORE)..(middle + AFTER).min(happenings.len())];
        let mut text = format!("{:.3} s: {}\n  around it:", at.as_secs_f64(), what.as_ref());
        for (time, happening) in around {
            let _ = write!(text, "\n    {:.3} s: {happening}", time.as_secs_f64());
        }
        self.faults.lock().unwrap().push(text);
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.fault_count.load(Ordering::Acquire) > 0
    }

    /// Each error in the server's log is a fault, and so is a panic.
    pub(super) fn check_log(&self, file: &Path) {
        for line in BufReader::new(std::fs::File::open(file).unwrap()).lines() {
            let line = line.unwrap();
            self.count("log lines");
            if line.contains(r#""level":"ERROR""#) || line.contains("panicked at") {
                self.fault(None, format!("in the log: {line}"));
            }
        }
    }

    /// # Panics
    /// There was a fault.
    pub(super) fn conclude(&self) {
        let count = self.fault_count.load(Ordering::Acquire);
        let faults = self.faults.lock().unwrap().join("\n\n");
        assert_eq!(count, 0, "{count} faults\n\n{faults}");
    }
}
