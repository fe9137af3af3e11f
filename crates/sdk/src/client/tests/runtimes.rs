//! Calls work where there is a runtime, and where there is none.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use http::Method;

use super::script::Does;
use super::*;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future in this thread, without any runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}

#[test]
fn a_call_without_a_runtime() {
    // By the machine's time: its waits must work without a runtime, too.
    let server = Scripted::new([Does::wishes(503, "0.01"), Does::answers(200)]);
    let client = Client::new(&server.url, KEY).unwrap();
    let answer = block_on(client.request(Method::GET, "/v1/events").into_future()).unwrap();
    assert_eq!(answer.attempts, 2);
}

#[test]
fn a_call_dropped_without_a_runtime_hangs_up() {
    let (server, client, _) = setting([Does::Hangs]);
    let mut call = client.request(Method::GET, "/v1/events").into_future();
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    server.await_seen(1);
    drop(call);
    // The connection is closed, so the next call needs another, and gets its answer.
    block_on(client.request(Method::GET, "/v1/other").into_future()).unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_thread_that_runs_tasks_may_wait() {
    let (_server, client, time) = setting([Does::answers(503), Does::answers(200)]);
    assert_eq!(client.blocking().request(Method::GET, "/v1/events").wait().unwrap().attempts, 2);
    assert_eq!(time.waits().len(), 1);
}

#[test]
fn threads_wait_asleep() {
    let server = Scripted::new([Does::wishes(503, "0.05"), Does::answers(200)]);
    let client = crate::blocking::Client::new(&server.url, KEY).unwrap();
    assert_eq!(client.request(Method::GET, "/v1/events").wait().unwrap().attempts, 2);
}

#[test]
fn a_client_outlives_the_runtimes_it_is_used_in() {
    let (server, client, _) = setting([]);
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { client.request(Method::GET, "/v1/events").await }).unwrap();
    }
    client.blocking().request(Method::GET, "/v1/events").wait().unwrap();
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_thread_that_waits_does_not_wait_for_a_connection_that_its_tasks_would_drive() {
    let (server, client, _) = setting([]);
    client.request(Method::GET, "/v1/events").await.unwrap();
    client.blocking().request(Method::POST, "/v1/sources").timeout(Duration::from_secs(5)).wait().unwrap();
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_runtime_that_nobody_runs_holds_up_no_other() {
    let (server, client, _) = setting([]);
    let build = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtimes = [build(), build(), build()];
    for _ in 0..2 {
        for runtime in &runtimes {
            let call = client.request(Method::POST, "/v1/sources").timeout(Duration::from_secs(5));
            runtime.block_on(async { call.await }).unwrap();
        }
    }
    assert_eq!(server.seen().len(), 6);
}

#[test]
fn a_runtime_needs_neither_timers_nor_sockets() {
    let (_server, client, _) = setting([]);
    let builders: [fn(&mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder; 3] =
        [|it| it, |it| it.enable_io(), |it| it.enable_time()];
    for drivers in builders {
        let runtime = drivers(&mut tokio::runtime::Builder::new_current_thread()).build().unwrap();
        runtime.block_on(async { client.request(Method::GET, "/v1/events").await }).unwrap();
    }
}
