use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::runtime;
use crate::{Timestamp, clock};

pub(super) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a client gets time and chance from.
pub(super) trait Time: Debug + Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;
    /// Runs evenly, from some start.
    fn elapsed(&self) -> Duration;
    /// Random bytes; `None` when the machine has none.
    fn draw(&self) -> Option<[u8; 16]>;
    /// A wait of a task.
    fn sleep(&self, time: Duration) -> Sleep;
    /// A wait of the calling thread.
    fn sleep_blocking(&self, time: Duration);
}

/// The machine's.
#[derive(Debug)]
pub(super) struct Machine {
    start: tokio::time::Instant,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

impl Time for Machine {
    fn now(&self) -> Timestamp {
        clock::now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn draw(&self) -> Option<[u8; 16]> {
        clock::draw()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        Box::pin(async move {
            // A runtime that cannot be started has failed the try before; the wait is all that is left to skip.
            let _ = runtime::within(async move { tokio::time::sleep(time).await }).await;
        })
    }

    fn sleep_blocking(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
