//! What the server takes of the machine, looked at again and again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};

use super::world::{World, sample};
use crate::hostile::status;

/// What medians may differ by between the two halves of the time in which the server is left alone.
const MEMORY_KIB_MAX: u64 = 16 * 1024;
/// Connections to the database come when they are needed, and stay.
const FILES_MAX: u64 = 64;
const THREADS_MAX: u64 = 4;
/// Of the write-ahead log, at any time.
const WAL_BYTES_MAX: u64 = 64 << 20;
/// By how much work may be late while nobody kills the server.
const LATE_MAX: Duration = Duration::from_secs(60);
/// In each half.
const LOOKS_MIN: usize = 8;

#[derive(Clone)]
struct Look {
    at: Duration,
    pid: u32,
    memory_kib: u64,
    files: u64,
    threads: u64,
    wal_bytes: u64,
    late: Duration,
}

/// A number before and after.
pub(super) type Pair = (u64, u64);

pub(super) struct Watch {
    looks: Vec<Look>,
    pub(super) memory_kib: Pair,
    pub(super) files: Pair,
    pub(super) threads: Pair,
    pub(super) wal_bytes: Pair,
    pub(super) wal_bytes_most: u64,
    pub(super) late_most: Duration,
}

impl Watch {
    /// Looks until the world stops.
    pub(super) async fn keep(world: Arc<World>) -> Self {
        let mut looks = Vec::new();
        while !world.is_stopped() {
            tokio::time::sleep(world.plan.watch_pause()).await;
            let downs = world.downs.load(Ordering::Acquire);
            let look = look(&world).await;
            // What it saw when the server went down is not what it looks for.
            if world.is_down() || world.downs.load(Ordering::Acquire) != downs {
                continue;
            }
            match look {
                Some(look) => looks.push(look),
                None => world.diary.fault(None, "/metrics does not answer"),
            }
        }
        Self::over(&world, looks)
    }

    fn over(world: &World, looks: Vec<Look>) -> Self {
        let (from, life) = (world.plan.calm_from() + world.plan.life / 20, world.plan.life);
        let calm: Vec<&Look> = looks.iter().filter(|look| look.at > from && look.at < life).collect();
        // The one that lived on.
        let pid = calm.first().map_or(0, |look| look.pid);
        let half = from + (life - from) / 2;
        let (first, second): (Vec<&Look>, Vec<&Look>) =
            calm.iter().filter(|look| look.pid == pid).partition(|look| look.at < half);
        if first.len().min(second.len()) < LOOKS_MIN {
            world.diary.fault(None, format!("{} and {} looks to compare", first.len(), second.len()));
        }
        let pair = |of: fn(&Look) -> u64| (median(&first, of), median(&second, of));
        Self {
            memory_kib: pair(|look| look.memory_kib),
            files: pair(|look| look.files),
            threads: pair(|look| look.threads),
            wal_bytes: pair(|look| look.wal_bytes),
            wal_bytes_most: looks.iter().map(|look| look.wal_bytes).max().unwrap_or(0),
            late_most: calm.iter().map(|look| look.late).max().unwrap_or_default(),
            looks,
        }
    }

    /// Nothing grows.
    pub(super) fn judge(&self, world: &World) {
        let grown = [
            ("memory in KiB", self.memory_kib, MEMORY_KIB_MAX),
            ("open files", self.files, FILES_MAX),
            ("threads", self.threads, THREADS_MAX),
        ];
        for (what, (before, after), bound) in grown {
            if after > before + bound {
                let course = self.looks.iter().map(|look| (look.at.as_secs(), look.pid, look.memory_kib));
                let course: Vec<_> = course.collect();
                let what = format!("{what} grew from {before} to {after}: (s, process, KiB) {course:?}");
                world.diary.fault(None, what);
            }
        }
        if self.wal_bytes_most > WAL_BYTES_MAX {
            world.diary.fault(None, format!("the log had {} bytes", self.wal_bytes_most));
        }
        if self.late_most > LATE_MAX {
            world.diary.fault(None, format!("work was late by {:?}", self.late_most));
        }
    }

    pub(super) fn looks(&self) -> usize {
        self.looks.len()
    }
}

async fn look(world: &World) -> Option<Look> {
    let pid = world.pid.load(Ordering::Acquire);
    let page = page(world).await?;
    Some(Look {
        at: world.diary.now(),
        pid,
        memory_kib: status(pid, "VmRSS:")?,
        files: u64::try_from(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()).unwrap(),
        threads: status(pid, "Threads:")?,
        wal_bytes: sample(&page, "restante_wal_bytes")? as u64,
        late: Duration::from_secs_f64(sample(&page, "restante_oldest_due_seconds")?),
    })
}

async fn page(world: &World) -> Option<String> {
    let (status, page) = world.ask_bytes((Method::GET, "/metrics"), &[], Bytes::new()).await?;
    (status == StatusCode::OK).then(|| String::from_utf8(page.to_vec()).unwrap())
}

fn median(looks: &[&Look], of: fn(&Look) -> u64) -> u64 {
    let mut values: Vec<u64> = looks.iter().map(|look| of(look)).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
