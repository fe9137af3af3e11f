//! Waiting until something is so.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "the test's own clock judges the server's")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Looks again and again until it sees what it wants.
///
/// # Panics
/// The time is up; `what` says what was wanted.
pub(crate) async fn until<T>(what: &str, time: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(time, waiting).await {
        Ok(seen) => seen,
        Err(_) => panic!("not within {time:?}: {what}"),
    }
}
