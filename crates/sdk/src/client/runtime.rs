//! The client's own runtime, for what is called where there is none, and by threads that wait.

use std::future::{Future, pending};
use std::pin::Pin;
use std::process;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

/// Why a future did not come to its end.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NoRuntime {
    #[error("the thread that makes the client's calls cannot be started: {0}")]
    Start(String),
    /// It panicked, in a library or in what traces it.
    #[error("the task that makes the call has ended before it")]
    Ended,
    /// Threads do not survive a fork.
    #[error(
        "this process was forked from the one that makes the client's calls: use clients only in one of them"
    )]
    Forked,
}

/// Runs a future. Dropping this ends it.
pub(super) async fn within<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, NoRuntime> {
    Task(own()?.spawn(future)).await
}

/// Runs a future while the calling thread waits. May be called anywhere, also within a runtime.
pub(crate) fn block_on<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, NoRuntime> {
    let (done, result) = mpsc::sync_channel(1);
    own()?.spawn(async move {
        // Who waits does not go away before the result is there.
        let _ = done.send(future.await);
    });
    result.recv().map_err(|_| NoRuntime::Ended)
}

/// One thread for all clients of the process.
fn own() -> Result<&'static Handle, NoRuntime> {
    static OWN: OnceLock<(u32, Result<Handle, String>)> = OnceLock::new();
    let (process, handle) = OWN.get_or_init(|| (process::id(), start().map_err(|error| error.to_string())));
    if *process != process::id() {
        return Err(NoRuntime::Forked);
    }
    handle.as_ref().map_err(|fault| NoRuntime::Start(fault.clone()))
}

fn start() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let drive = move || runtime.block_on(pending::<()>());
    thread::Builder::new().name("restante-sdk".to_owned()).spawn(drive)?;
    Ok(handle)
}

/// A spawned future that ends when it is no longer waited for.
struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = Result<T, NoRuntime>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(|_| NoRuntime::Ended)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
