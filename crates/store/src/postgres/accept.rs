//! Making messages and deliveries, one at a time. What comes in masses is written by `batch.rs`.

use std::sync::Arc;

use restante_core::id::{Key, RequestId, Tail};
use restante_core::message::{Content, MessageId, Received};
use restante_core::stats::End;
use restante_core::{Delivery, Timestamp};

use super::Fault;
use super::codec::{DeliveryRow, REQUEST, Stored, int, small, state_code, tail_column};
use super::columns::{Deliveries, Waiting};
use super::tx::Tx;
use crate::Changed;
use crate::intake::Arrival;
use crate::tally::Counted;

pub(super) use crate::code::PRICE;

/// A delivery to be inserted.
pub(super) struct NewDelivery {
    pub(super) workspace: i64,
    pub(super) key: Key,
    pub(super) message: Key,
    pub(super) endpoint: i64,
    pub(super) now: Timestamp,
    /// Not before this; only if it is due in the table.
    pub(super) due_at: Timestamp,
    pub(super) birth: Birth,
    pub(super) retry_of: Option<i64>,
}

/// Rows of deliveries that begin, to be written at once.
#[derive(Default)]
pub(super) struct Births {
    pub(super) deliveries: Deliveries,
    pub(super) work: Waiting,
    pub(super) skipped: Waiting,
}

impl Births {
    pub(super) fn push(&mut self, stored: &Stored, birth: Birth, pauses: i64) {
        self.deliveries.push(stored);
        self.enlist(stored, birth, pauses);
    }

    fn enlist(&mut self, stored: &Stored, birth: Birth, pauses: i64) {
        match birth {
            Birth::Leased | Birth::Refused => {}
            Birth::Due => self.work.push(stored, pauses),
            Birth::Skipped => self.skipped.push(stored, pauses),
        }
    }
}

/// How a delivery begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// With its first attempt.
    Leased,
    /// Due now or later, in the table.
    Due,
    /// Ended at once: its webhook is paused.
    Skipped,
    /// Ended at once: its mailbox gets nothing.
    Refused,
}

impl NewDelivery {
    /// The row it begins with. `version`: that of the endpoint's settings; `skipped_at`: when it ends if it is
    /// skipped; `me`: who holds it if it is leased.
    pub(super) fn stored(&self, version: u32, skipped_at: Timestamp, me: i32) -> Stored {
        let leased = self.birth == Birth::Leased;
        let life = match self.birth {
            Birth::Leased => Delivery::born_leased(self.now),
            Birth::Due => Delivery::new(self.due_at),
            Birth::Skipped => Delivery::skipped(skipped_at),
            Birth::Refused => Delivery::refused(self.now),
        };
        let row = DeliveryRow {
            key: self.key.value(),
            mark: i64::MAX,
            message: self.message.value(),
            endpoint: self.endpoint,
            life,
            claimed: false,
            started_at: leased.then_some(self.now.millis()),
            endpoint_version: Some(version).filter(|_| leased),
            status: None,
            created_at: self.retry_of.map(|_| self.now.millis()),
            retry_of: self.retry_of,
            job: None,
        };
        Stored { workspace: self.workspace, node: leased.then_some(me), row }
    }
}

impl Tx {
    /// A key for a message of a source, with room for its deliveries behind it.
    pub(super) async fn key_for(&mut self, source: i64, now: Timestamp) -> Result<Key, Fault> {
        let endpoints = self.node.state().config.sources.get(&source).map_or(0, |it| it.endpoints.len());
        self.take_keys(now, 1 + u32::try_from(endpoints).unwrap_or(u32::MAX - 1)).await
    }

    /// Stores a message of a living source with a delivery for each of its destinations, unless it came to have none.
    /// `key`: as [`Tx::key_for`] gave it in this transaction.
    pub(super) async fn store_message(
        &mut self,
        source: i64,
        received: Received,
        now: Timestamp,
        (key, tail): (Key, Tail),
        arrival: Arrival,
    ) -> Result<RequestId, Fault> {
        let (workspace, mut endpoints) = {
            let state = self.node.state();
            let entry = state.config.sources.get(&source);
            let entry = entry.ok_or_else(|| Fault::Damaged(format!("no source {source}")))?;
            (entry.workspace, entry.endpoints.clone())
        };
        if !arrival.is_delivered() {
            endpoints.clear();
        }
        let fanout = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let id = RequestId::new(key, tail);
        let uuid = |id: RequestId| uuid::Uuid::from_u128(id.uuid());
        self.execute(
            "INSERT INTO message (workspace, key, tail, feed, fanout, received_at, replay_of, method, path, query, remote, \
             headers, body, kind, duplicate_of, rejected) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
            &[
                &workspace,
                &key.value(),
                &tail_column(tail),
                &source,
                &int(fanout),
                &now.millis(),
                &arrival.replay_of().map(uuid),
                &received.method,
                &received.path,
                &received.query,
                &received.remote_address,
                &&received.headers.packed()[..],
                &&received.body[..],
                &small(REQUEST),
                &arrival.duplicate_of().map(uuid),
                &arrival.rejected(),
            ],
        )
        .await?;
        if arrival.rejected().is_none() {
            self.staged.counted.push(Counted::Accepted { workspace, source: Some(source), at: now });
        }
        self.tell_workspace(workspace, Changed::Request(id));
        self.fan_out(workspace, MessageId::Request(id), Content::Request(received), &endpoints, now).await?;
        Ok(id)
    }

    /// Makes the deliveries of a message that was just stored: they have the keys right behind its own.
    async fn fan_out(
        &mut self,
        workspace: i64,
        id: MessageId,
        content: Content,
        endpoints: &[i64],
        now: Timestamp,
    ) -> Result<(), Fault> {
        let content = {
            let state = self.node.state();
            Arc::new(state.agenda.content_bytes.hold(content))
        };
        let mut births = Births::default();
        for (index, endpoint) in (1..).zip(endpoints.iter().copied()) {
            let birth = self.birth(endpoint, now);
            let (key, message) = (id.key().plus(index), id.key());
            let new =
                NewDelivery { workspace, key, message, endpoint, now, due_at: now, birth, retry_of: None };
            let stored = self.begin_delivery(&new, &mut births)?;
            if birth == Birth::Leased {
                self.hand_over(stored, id, &content, None, now, now)?;
            }
        }
        self.write_births(&births).await
    }

    /// How a delivery to an endpoint begins now.
    pub(super) fn birth(&self, endpoint: i64, now: Timestamp) -> Birth {
        let may_dial = self.node.may_dial();
        let state = self.node.state();
        if state.skips(endpoint) {
            Birth::Skipped
        } else if may_dial && state.may_be_born_leased(endpoint, now) {
            Birth::Leased
        } else {
            Birth::Due
        }
    }

    /// Begins a delivery with its message: its rows are written with the others of `births`. One that is born leased is
    /// to be handed over before the next begins, for that takes its room.
    pub(super) fn begin_delivery(&mut self, new: &NewDelivery, births: &mut Births) -> Result<Stored, Fault> {
        let (stored, pauses) = self.new_delivery(new)?;
        births.push(&stored, new.birth, pauses);
        Ok(stored)
    }

    /// The row of a new delivery, and how often its webhook has been paused.
    fn new_delivery(&mut self, new: &NewDelivery) -> Result<(Stored, i64), Fault> {
        let view = self.endpoint(new.endpoint)?;
        let stored = new.stored(view.settings.version, view.standing.behind_pause(new.now), self.me);
        let (endpoint, at) = (new.endpoint, new.now);
        self.staged.counted.push(Counted::Made { endpoint, at });
        if new.birth == Birth::Refused {
            self.staged.counted.push(Counted::Ended { endpoint, end: End::Failed, at });
        }
        if new.birth == Birth::Due {
            self.staged.planned.push((new.endpoint, stored.row.life.due_at.millis()));
        }
        Ok((stored, view.standing.pauses))
    }

    pub(super) async fn write_births(&self, births: &Births) -> Result<(), Fault> {
        let Births { deliveries, work, skipped } = births;
        if !deliveries.key.is_empty() {
            self.execute(Deliveries::INSERT, &deliveries.params()).await?;
        }
        if !work.key.is_empty() {
            self.execute(Waiting::INSERT_WORK, &work.work_params()).await?;
        }
        if !skipped.key.is_empty() {
            self.execute(Waiting::INSERT_SKIPPED, &skipped.skipped_params()).await?;
        }
        Ok(())
    }

    /// Inserts a delivery of a message that was stored before. One that is born leased is to be handed over.
    pub(super) async fn insert_delivery(&mut self, new: &NewDelivery) -> Result<Stored, Fault> {
        let (stored, pauses) = self.new_delivery(new)?;
        let row = &stored.row;
        self.execute(
            "INSERT INTO delivery (workspace, key, message, endpoint, state, claimed, ending, made, used, lost, due_at, \
             started_at, endpoint_version, ended_at, created_at, retry_of, node) \
             VALUES ($1, $2, $3, $4, $5, false, 0, $6, 0, 0, $7, $8, $9, $10, $11, $12, $13)",
            &[
                &stored.workspace,
                &row.key,
                &row.message,
                &row.endpoint,
                &small(state_code(row.life.state)),
                &int(row.life.attempts_made),
                &row.life.due_at.millis(),
                &row.started_at,
                &row.endpoint_version.map(int),
                &row.life.ended_at.map(Timestamp::millis),
                &row.created_at,
                &row.retry_of,
                &stored.node,
            ],
        )
        .await?;
        let mut births = Births::default();
        births.enlist(&stored, new.birth, pauses);
        self.write_births(&births).await?;
        Ok(stored)
    }
}
