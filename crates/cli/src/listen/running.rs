//! How many attempts are on their way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Counts attempts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running(Arc<watch::Sender<usize>>);

/// One attempt. Dropping it ends the count of it.
#[derive(Debug)]
pub(crate) struct Counted(Arc<watch::Sender<usize>>);

impl Running {
    pub(crate) fn begin(&self) -> Counted {
        self.0.send_modify(|count| *count += 1);
        Counted(Arc::clone(&self.0))
    }

    pub(crate) fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until all have ended, at most for so long.
    pub(crate) async fn end(&self, time: Duration) {
        let mut count = self.0.subscribe();
        // Whether they ended or not: the caller goes on.
        let _ = timeout(time, count.wait_for(|count| *count == 0)).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
