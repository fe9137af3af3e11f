//! One transaction of a node, and what takes effect with it.

use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::join;
use restante_core::Timestamp;
use restante_core::id::{DeliveryId, Id, Key, Tail};
use restante_core::message::MessageId;

use super::Fault;
use super::codec::{DELIVERY_BY_KEY, Stored, cause_code, ending_code, int, read_delivery, small, state_code};
use super::config::EndpointEntry;
use super::lane::Lane;
use super::node::Node;
use super::sql::{Params, Sql};
use super::state::State;
use crate::code::SENDING;
use crate::endpoint::{Endpoint, Settings};
use crate::tally::Counted;
use crate::{Change, Changed, Content, Lease, Parcel, Withdraw};

/// Of endpoints with the due times and keys to look at from: the endpoint, that key, and the earliest due time there is.
pub(super) const EARLIEST_DUE: &str = "SELECT endpoint, floor, (SELECT due_at FROM work \
     WHERE work.endpoint = asked.endpoint AND node IS NULL AND due_at >= asked.low AND key >= asked.floor \
     ORDER BY due_at, key LIMIT 1) \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (endpoint, low, floor)";

/// What a transaction may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Change messages, deliveries and all that is counted; the configuration stays as it is meanwhile.
    Messages,
    /// Change the configuration too, alone.
    Configuration,
}

/// See the module. Dropped without [`Tx::commit`] it never was.
pub(super) struct Tx {
    sql: Option<Sql>,
    pub(super) node: Arc<Node>,
    lane: Lane,
    pub(super) access: Access,
    /// The epoch that this transaction sees, or makes.
    pub(super) epoch: i64,
    /// The number of the node, as the transaction was begun.
    pub(super) me: i32,
    pub(super) staged: Staged,
}

/// What takes effect when the transaction has committed.
#[derive(Default)]
pub(super) struct Staged {
    /// Leases that began, each with what leaves. Their room is reserved.
    pub(super) begun: Vec<(Stored, Parcel)>,
    /// First keys of what is written.
    pub(super) building: Vec<i64>,
    /// Keys of leases of this node that ended.
    pub(super) ended: Vec<i64>,
    /// What became due, and when: (endpoint, due time).
    pub(super) planned: Vec<(i64, i64)>,
    /// Endpoints whose earliest due time was read: (endpoint, the first key that was looked at, due time).
    pub(super) looked_up: Vec<(i64, i64, Option<i64>)>,
    /// Up to where lanes were emptied: (endpoint, due time).
    pub(super) emptied: Vec<(i64, i64)>,
    /// What this node must not dial.
    pub(super) withdrawals: Vec<Withdraw>,
    /// Rows of `withdrawal` for other nodes.
    pub(super) asked: Vec<i64>,
    pub(super) changes: Vec<Change>,
    /// Endpoints that have open replays now, or have none any more.
    pub(super) replays: Vec<(i64, bool)>,
    /// Something of a replay may be begun.
    pub(super) replays_ready: bool,
    /// Endpoints that may have pending rows that are over, or have none any more.
    pub(super) unswept: Vec<(i64, bool)>,
    pub(super) counted: Vec<Counted>,
}

impl Deref for Tx {
    type Target = Sql;

    fn deref(&self) -> &Sql {
        // Taken out only where the transaction is consumed.
        self.sql.as_ref().unwrap_or_else(|| unreachable!("a transaction without a connection"))
    }
}

/// An endpoint, as the transaction sees it.
#[derive(Clone)]
pub(super) struct EndpointView {
    pub(super) row: i64,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) settings: Arc<Settings>,
    pub(super) gone: Option<restante_core::delivery::CancelReason>,
    /// As it was when the configuration was read: the run of failures may be newer in the table.
    pub(super) standing: super::config::Standing,
    /// The row of its workspace.
    pub(super) workspace: i64,
    /// How long its messages are kept from when they came; `None`: not counted from there.
    pub(super) retention_ms: Option<i64>,
}

impl EndpointView {
    pub(super) fn of(row: i64, entry: &EndpointEntry, state: &State) -> Result<Self, Fault> {
        Ok(Self {
            row,
            endpoint: Arc::clone(&entry.endpoint),
            settings: Arc::clone(&entry.settings),
            gone: entry.gone,
            standing: entry.standing,
            workspace: state.config.workspace_of(entry)?,
            retention_ms: state.config.retention_ms(entry)?,
        })
    }

    /// What a pending delivery came to by a deletion or a pause that has not marked it yet.
    pub(super) fn ended(&self, stored: &Stored, now: Timestamp) -> Option<restante_core::Delivery> {
        super::config::ended(self.gone, self.standing, &stored.row, now)
    }
}

impl Tx {
    pub(super) async fn begin(node: &Arc<Node>, access: Access) -> Result<Self, Fault> {
        let (lane, seq) = node.take_lane().await?;
        let (me, epoch) = {
            let state = node.state();
            (state.node, state.epoch)
        };
        let sql = node.connection().await?;
        let mut tx = Self {
            sql: Some(sql),
            node: Arc::clone(node),
            lane,
            access,
            epoch,
            me,
            staged: Staged::default(),
        };
        let lane = tx.lane.number();
        // Both are on their way before the first is answered.
        let begin = tx.batch("BEGIN");
        match access {
            Access::Messages => {
                let enter: Params<'_> = &[&me, &lane, &seq, &epoch];
                let enter = tx.execute("SELECT restante_enter($1, $2, $3, $4)", enter);
                let (begun, entered) = join(begin, enter).await;
                begun.and(entered)?;
            }
            Access::Configuration => {
                let change: Params<'_> = &[&me, &lane, &seq, &epoch];
                let change = tx.one("SELECT restante_change($1, $2, $3, $4)", change);
                let (begun, changed) = join(begin, change).await;
                begun?;
                let epoch = changed?.try_get(0)?;
                tx.epoch = epoch;
            }
        }
        Ok(tx)
    }

    /// Makes it durable, then real in memory.
    ///
    /// # Errors
    /// Nothing was stored, unless it is `CommitUnknown`.
    pub(super) async fn commit(mut self) -> Result<Staged, Fault> {
        let result = self.batch("COMMIT").await;
        if let Err(fault) = result {
            if let Some(sql) = self.sql.take() {
                sql.throw_away();
            }
            if !fault.is_broken_link() {
                return Err(fault);
            }
            match self.node.read_back(&self.lane, self.me).await? {
                true => {}
                false => return Err(fault),
            }
        }
        let staged = std::mem::take(&mut self.staged);
        // Nothing is left for `drop` to undo.
        if let Some(sql) = self.sql.take() {
            drop(sql);
        }
        Ok(staged)
    }

    /// An endpoint, living or not.
    pub(super) fn endpoint(&self, row: i64) -> Result<EndpointView, Fault> {
        self.node.state().view(row)
    }

    /// Consecutive new keys.
    pub(super) async fn take_keys(&mut self, now: Timestamp, count: u32) -> Result<Key, Fault> {
        let (first, lead) = {
            let mut state = self.node.state();
            let first = state.take_keys(now, count);
            state.building.insert(first.value());
            (first, state.new_key_lead(now))
        };
        self.staged.building.push(first.value());
        if let Some(lead) = lead {
            self.node.write_key_lead(lead).await?;
        }
        self.node.prepare_partitions(first).await?;
        Ok(first)
    }

    /// A delivery, not locked.
    pub(super) async fn delivery_row(&self, workspace: i64, key: i64) -> Result<Option<Stored>, Fault> {
        let row = self.first(DELIVERY_BY_KEY, &[&workspace, &key]).await?;
        row.as_ref().map(read_delivery).transpose()
    }

    /// A delivery that nobody else changes until the transaction ends. Locks are taken in the order delivery, work;
    /// claims wait for neither.
    pub(super) async fn lock_delivery(&self, workspace: i64, key: i64) -> Result<Option<Stored>, Fault> {
        let lock = "SELECT 1 FROM delivery WHERE workspace = $1 AND key = $2 FOR UPDATE";
        if self.first(lock, &[&workspace, &key]).await?.is_none() {
            return Ok(None);
        }
        // Read behind the lock: what it waited for has changed both rows.
        self.delivery_row(workspace, key).await
    }

    /// Writes what rules made of a locked delivery, with the running attempt's columns of `stored.row`, and the row
    /// of `work` that goes with it: while pending, and while `claimed`.
    pub(super) async fn write_delivery(
        &mut self,
        stored: &Stored,
        life: &restante_core::Delivery,
    ) -> Result<(), Fault> {
        let row = &stored.row;
        let sending = state_code(life.state) == SENDING;
        let wait_ms = life.wait.map(|wait| i64::try_from(wait.length.as_millis()).unwrap_or(i64::MAX));
        self.execute(
            "UPDATE delivery SET state = $3, claimed = $4, ending = $5, made = $6, used = $7, lost = $8, due_at = $9, \
             started_at = $10, endpoint_version = $11, ended_at = $12, status = $13, wait_ms = $14, wait_cause = $15, \
             back_to = $16, job = $17, node = $18 WHERE workspace = $1 AND key = $2",
            &[
                &stored.workspace,
                &row.key,
                &small(state_code(life.state)),
                &(row.claimed && sending),
                &small(ending_code(life.ending)),
                &int(life.attempts_made),
                &int(life.attempts_used),
                &int(life.lost_in_row),
                &life.due_at.millis(),
                &row.started_at,
                &row.endpoint_version.map(int),
                &life.ended_at.map(Timestamp::millis),
                &row.status.map(|status| small(i64::from(status))),
                &wait_ms,
                &life.wait.map(|wait| small(cause_code(wait.cause))),
                &life.back_to.map(|state| small(state_code(state))),
                &row.job,
                &stored.node.filter(|_| sending),
            ],
        )
        .await?;
        self.staged.counted.extend(Counted::change(row.endpoint, row.key, &row.life, life));
        self.write_work(stored, life).await?;
        self.write_skipped(stored, life).await?;
        if sending && stored.node == Some(self.me) && !self.staged_begun(row.key) {
            // What memory knows of it must be what the next settle finds.
            if let Some(held) = self.node.state().leases.get_mut(&row.key) {
                held.row.life = life.clone();
            }
        }
        if !sending && stored.node == Some(self.me) && row.life.state == restante_core::State::Sending {
            self.staged.ended.push(row.key);
        }
        Ok(())
    }

    fn staged_begun(&self, key: i64) -> bool {
        self.staged.begun.iter().any(|(stored, _)| stored.row.key == key)
    }

    async fn write_work(&mut self, stored: &Stored, life: &restante_core::Delivery) -> Result<(), Fault> {
        let row = &stored.row;
        let pending = life.state == restante_core::State::Pending;
        let claimed = row.claimed && life.state == restante_core::State::Sending;
        if !pending && !claimed {
            let delete = "DELETE FROM work WHERE workspace = $1 AND key = $2";
            self.execute(delete, &[&stored.workspace, &row.key]).await?;
            return Ok(());
        }
        let pauses = self.endpoint(row.endpoint)?.standing.pauses;
        self.execute(
            "INSERT INTO work (workspace, key, endpoint, due_at, pauses, node) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (workspace, key) DO UPDATE SET due_at = $4, pauses = $5, node = $6",
            &[
                &stored.workspace,
                &row.key,
                &row.endpoint,
                &life.due_at.millis(),
                &pauses,
                &stored.node.filter(|_| claimed),
            ],
        )
        .await?;
        if pending {
            self.staged.planned.push((row.endpoint, life.due_at.millis()));
        }
        Ok(())
    }

    async fn write_skipped(&self, stored: &Stored, life: &restante_core::Delivery) -> Result<(), Fault> {
        use restante_core::State::Skipped;
        let row = &stored.row;
        match (row.life.state == Skipped, life.state == Skipped) {
            (false, true) => {
                self.execute(
                    "INSERT INTO skipped (workspace, endpoint, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                    &[&stored.workspace, &row.endpoint, &row.key],
                )
                .await?;
            }
            (true, false) => {
                self.execute(
                    "DELETE FROM skipped WHERE workspace = $1 AND endpoint = $2 AND key = $3",
                    &[&stored.workspace, &row.endpoint, &row.key],
                )
                .await?;
            }
            (true, true) | (false, false) => {}
        }
        Ok(())
    }

    /// The random part of a message's id; deliveries of it share it.
    pub(super) async fn message_tail(&self, workspace: i64, message: i64) -> Result<Option<Tail>, Fault> {
        let statement = "SELECT tail FROM message WHERE workspace = $1 AND key = $2";
        let row = self.first(statement, &[&workspace, &message]).await?;
        let tail: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
        Ok(tail.map(|tail| Tail::from_bits(tail.unsigned_abs())))
    }

    pub(super) async fn delivery_id(&self, stored: &Stored) -> Result<Option<DeliveryId>, Fault> {
        let tail = self.message_tail(stored.workspace, stored.row.message).await?;
        Ok(tail.map(|tail| Id::new(Key::from_value(stored.row.key), tail)))
    }

    /// Stages a parcel for a lease that was just written or is about to be: it leaves when the transaction is durable.
    ///
    /// The caller has asked [`State::room`]; the room is taken here. `mailbox`: of an email.
    pub(super) fn hand_over(
        &mut self,
        stored: Stored,
        message: MessageId,
        content: &Arc<Content>,
        mailbox: Option<&str>,
        received_at: Timestamp,
        claimed_at: Timestamp,
    ) -> Result<(), Fault> {
        let view = self.endpoint(stored.row.endpoint)?;
        let delivery = Id::new(Key::from_value(stored.row.key), message.tail());
        let expires_at = view.retention_ms.map(|kept| received_at.millis().saturating_add(kept));
        let parcel = Parcel {
            lease: Lease { delivery, attempt: stored.row.life.attempts_made },
            message,
            endpoint: Arc::clone(&view.endpoint),
            content: Arc::clone(content),
            due_at: stored.row.life.attempt_due_at(claimed_at),
            claimed_at,
            mailbox: mailbox.map(Arc::from),
            expires_at: expires_at.map(Timestamp::from_millis),
        };
        self.node.state().reserve(stored.row.endpoint);
        self.tell(stored.row.endpoint, || Changed::Delivery(delivery));
        self.staged.begun.push((stored, parcel));
        Ok(())
    }

    /// Tells listeners of the live stream, if there are any.
    pub(super) fn tell(&mut self, endpoint: i64, what: impl FnOnce() -> Changed) {
        if !self.node.is_watched() {
            return;
        }
        let workspace = self.node.state().endpoint(endpoint).map(|entry| entry.endpoint.workspace);
        if let Ok(workspace) = workspace {
            self.staged.changes.push(Change { workspace, what: what() });
        }
    }

    /// Tells listeners about a delivery of which only the row is at hand.
    pub(super) async fn tell_delivery(&mut self, stored: &Stored) -> Result<(), Fault> {
        if !self.node.is_watched() {
            return Ok(());
        }
        if let Some(id) = self.delivery_id(stored).await? {
            self.tell(stored.row.endpoint, || Changed::Delivery(id));
        }
        Ok(())
    }

    /// Sees to it that whoever holds a delivery's lease does not dial it any more, before the caller is answered.
    pub(super) async fn withdraw(&mut self, stored: &Stored, id: DeliveryId) -> Result<(), Fault> {
        let endpoint = self.endpoint(stored.row.endpoint)?.endpoint.id;
        match stored.node {
            Some(node) if node != self.me => {
                let statement =
                    "INSERT INTO withdrawal (node, endpoint, delivery) VALUES ($1, $2, $3) RETURNING id";
                let uuid = uuid::Uuid::from_u128(id.uuid());
                let row = self.one(statement, &[&node, &stored.row.endpoint, &uuid]).await?;
                self.execute("SELECT pg_notify('restante', 'w')", &[]).await?;
                self.staged.asked.push(row.try_get(0)?);
            }
            Some(_) | None => {
                self.staged.withdrawals.push(Withdraw::Delivery { endpoint, delivery: id });
            }
        }
        Ok(())
    }

    /// Reads endpoints' earliest due times from the table: of what is due from `lows` on and has keys from `floors` on.
    pub(super) async fn look_up_due(
        &mut self,
        endpoints: &[i64],
        lows: &[i64],
        floors: &[i64],
    ) -> Result<(), Fault> {
        let rows = self.query(EARLIEST_DUE, &[&endpoints, &lows, &floors]).await?;
        for row in rows {
            self.staged.looked_up.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        }
        Ok(())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        if !staged.begun.is_empty() || !staged.building.is_empty() {
            let mut state = self.node.state();
            for (stored, _) in staged.begun {
                state.unreserve(stored.row.endpoint);
            }
            for key in staged.building {
                state.building.remove(&key);
            }
        }
        // A connection with an open transaction is not used again.
        if let Some(sql) = self.sql.take() {
            sql.throw_away();
        }
    }
}
