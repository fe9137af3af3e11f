//! Lanes: each carries a node's transactions one after the other, and remembers the latest in the table `mark`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Fault;
use super::node::{Node, lock};

/// Transactions that a node may have open at once.
pub(super) const LANES: i32 = 24;
/// How long it may take to learn what became of a COMMIT: an orphaned transaction ends by itself before that.
const READ_BACK_TIME: Duration = Duration::from_secs(40);
const READ_BACK_PAUSE: Duration = Duration::from_millis(100);

/// Lanes that no transaction uses, taken in turn so that each row of `mark` is updated seldom; each with the number of its latest one.
pub(super) struct FreeLanes {
    numbers: Mutex<VecDeque<(i32, i64)>>,
    permits: Arc<Semaphore>,
}

/// A lane in use. Transactions on it come one after the other.
pub(super) struct Lane {
    number: i32,
    seq: i64,
    lanes: Arc<FreeLanes>,
    _permit: OwnedSemaphorePermit,
}

impl FreeLanes {
    pub(super) fn new() -> Self {
        Self {
            numbers: Mutex::new((0..LANES).map(|number| (number, 0)).collect()),
            permits: Arc::new(Semaphore::new(LANES.unsigned_abs() as usize)),
        }
    }
}

impl Lane {
    pub(super) fn number(&self) -> i32 {
        self.number
    }

    /// The number of the next transaction.
    pub(super) fn advance(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        lock(&self.lanes.numbers).push_back((self.number, self.seq));
    }
}

impl Node {
    pub(super) async fn take_lane(&self) -> Result<(Lane, i64), Fault> {
        let permit = Arc::clone(&self.lanes.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Fault::NoConnection("closed".into()))?;
        let free = lock(&self.lanes.numbers).pop_front();
        let Some((number, seq)) = free else { return Err(Fault::NoConnection("no lane is free".into())) };
        let mut lane = Lane { number, seq, lanes: Arc::clone(&self.lanes), _permit: permit };
        let seq = lane.advance();
        Ok((lane, seq))
    }

    /// Whether the latest transaction of a lane took effect, when the answer to its COMMIT did not come. Waits until
    /// it has ended one way or the other.
    pub(super) async fn read_back(&self, lane: &Lane, me: i32) -> Result<bool, Fault> {
        let asked = async {
            loop {
                match self.read_mark(lane, me).await {
                    Ok(Some(seq)) => return Ok(seq == lane.seq),
                    Ok(None) => return Err(Fault::CommitUnknown("the node counted as dead".into())),
                    Err(fault) => tracing::warn!(error.message = %fault, "a commit cannot be read back yet"),
                }
                tokio::time::sleep(READ_BACK_PAUSE).await;
            }
        };
        let unknown = || Fault::CommitUnknown("the database does not answer".into());
        let result = tokio::time::timeout(READ_BACK_TIME, asked).await.unwrap_or_else(|_| Err(unknown()));
        if result.is_err() {
            // Something may be leased to this number that nobody here knows of: under another one it is a lapsed
            // node's, and taken over.
            self.state().node = 0;
        }
        result
    }

    /// The number of the latest transaction of a lane that took effect. The lock waits for one that still runs.
    async fn read_mark(&self, lane: &Lane, me: i32) -> Result<Option<i64>, Fault> {
        let sql = self.connection().await?;
        let statement = "SELECT seq FROM mark WHERE node = $1 AND lane = $2 FOR UPDATE";
        let row = match sql.first(statement, &[&me, &lane.number]).await {
            Ok(row) => row,
            Err(fault) => {
                sql.throw_away();
                return Err(fault);
            }
        };
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}
