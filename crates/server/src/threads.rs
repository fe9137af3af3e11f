//! Runtime threads: one single-threaded runtime on each, so that a connection, its task and its timers stay on one
//! core.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Threads for reads of the database, for each runtime: further reads wait. Each has a connection with its cache.
const BLOCKING_THREADS: usize = 8;

/// Runtimes on threads of their own, until dropped.
pub struct Threads {
    handles: Vec<Handle>,
    stops: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Threads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// What the system says when it has no more threads or descriptors.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut threads = Self { handles: Vec::new(), stops: Vec::new() };
        for index in 0..count {
            let runtime =
                Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
            threads.handles.push(runtime.handle().clone());
            let (stop, stopped) = oneshot::channel::<()>();
            let thread = std::thread::Builder::new().name(format!("restante-{index}")).spawn(move || {
                // Ends when the sender is dropped.
                let _ = runtime.block_on(stopped);
                // Tasks that still block must not hold the process up.
                runtime.shutdown_background();
            })?;
            threads.stops.push((stop, thread));
        }
        Ok(threads)
    }

    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for (stop, thread) in self.stops.drain(..) {
            drop(stop);
            // A thread that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }
}
