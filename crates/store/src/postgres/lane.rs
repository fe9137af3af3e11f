//! Lanes: each carries a node's transactions one after the other, and remembers the latest in the table `mark`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Fault;
use super::node::{Node, lock};
use super::sql::Params;

/// Transactions that a node may have open at once.
pub(super) const LANES: i32 = 24;
/// How long it may take to learn what became of a COMMIT: an orphaned transaction ends by itself before that.
const READ_BACK_TIME: Duration = Duration::from_secs(40);
const READ_BACK_PAUSE: Duration = Duration::from_millis(100);

/// Lanes that no transaction uses, each with the number of its latest one.
pub(super) struct FreeLanes {
    numbers: Mutex<VecDeque<(i32, i64)>>,
    permits: Arc<Semaphore>,
    /// Of each lane, the number up to which its rows of `mark` have been deleted.
    trimmed: Mutex<[i64; LANES as usize]>,
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
            trimmed: Mutex::new([0; LANES as usize]),
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
                    Ok(Some(took_effect)) => return Ok(took_effect),
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

    /// Whether the latest transaction of a lane took effect; `None` if nobody can tell. Takes its place in `mark` if
    /// that is free: what is still on its way to the database fails when it gets there. Waits for one that runs.
    async fn read_mark(&self, lane: &Lane, me: i32) -> Result<Option<bool>, Fault> {
        let sql = self.connection().await?;
        let read = async {
            sql.batch("BEGIN").await?;
            // As long as the row is there, nobody deletes its marks.
            let mut took_effect = None;
            if sql.first("SELECT FROM node WHERE id = $1 FOR KEY SHARE", &[&me]).await?.is_some() {
                let place: Params<'_> = &[&me, &lane.number, &lane.seq];
                let take = "INSERT INTO mark (node, lane, seq, void) VALUES ($1, $2, $3, true) ON CONFLICT DO NOTHING";
                sql.execute(take, place).await?;
                let read = "SELECT NOT void FROM mark WHERE node = $1 AND lane = $2 AND seq = $3";
                took_effect = Some(sql.one(read, place).await?.try_get(0)?);
            }
            sql.batch("COMMIT").await?;
            Ok(took_effect)
        };
        let read: Result<_, Fault> = read.await;
        if read.is_err() {
            sql.throw_away();
        }
        read
    }

    /// Deletes marks of transactions whose ends are known.
    pub(super) async fn trim_marks(self: Arc<Self>) -> Result<(), Fault> {
        let me = self.state().node;
        let (mut lanes, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
        {
            let (free, trimmed) = (lock(&self.lanes.numbers), lock(&self.lanes.trimmed));
            for (lane, seq) in free.iter() {
                let Some(done) = trimmed.get(lane.unsigned_abs() as usize) else { continue };
                if seq > done {
                    lanes.push(*lane);
                    from.push(*done);
                    to.push(*seq);
                }
            }
        }
        // Between two numbers: what was deleted before, and cannot leave the index yet, is not looked through.
        let delete = "DELETE FROM mark USING unnest($2::int[], $3::bigint[], $4::bigint[]) AS done (lane, after, last) \
             WHERE node = $1 AND mark.lane = done.lane AND seq > done.after AND seq <= done.last AND NOT void";
        self.connection().await?.execute(delete, &[&me, &lanes, &from, &to]).await?;
        let mut trimmed = lock(&self.lanes.trimmed);
        for (lane, last) in lanes.into_iter().zip(to) {
            if let Some(done) = trimmed.get_mut(usize::try_from(lane).unwrap_or(usize::MAX)) {
                *done = last;
            }
        }
        Ok(())
    }
}
