//! Making messages and deliveries, one at a time. What comes in masses is written by `batch.rs`.

use std::sync::Arc;

use restante_core::id::{Key, RequestId, Tail};
use restante_core::message::{Content, MessageId, Received};
use restante_core::{Delivery, Timestamp};

use super::Fault;
use super::codec::{DeliveryRow, REQUEST, Stored, int, small, state_code, tail_column};
use super::tx::Tx;
use crate::{Change, Changed};

pub(super) use crate::code::PRICE;

/// A delivery to be inserted.
pub(super) struct NewDelivery {
    pub(super) workspace: i64,
    pub(super) key: Key,
    pub(super) message: Key,
    pub(super) endpoint: i64,
    pub(super) now: Timestamp,
    pub(super) birth: Birth,
    pub(super) retry_of: Option<i64>,
}

/// How a delivery begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// With its first attempt.
    Leased,
    /// Due now, in the table.
    Due,
    /// Ended at once: its webhook is paused.
    Skipped,
}

impl NewDelivery {
    /// The row it begins with. `version`: that of the endpoint's settings; `skipped_at`: when it ends if it is
    /// skipped; `me`: who holds it if it is leased.
    pub(super) fn stored(&self, version: u32, skipped_at: Timestamp, me: i32) -> Stored {
        let leased = self.birth == Birth::Leased;
        let life = match self.birth {
            Birth::Leased => Delivery::born_leased(self.now),
            Birth::Due => Delivery::new(self.now),
            Birth::Skipped => Delivery::skipped(skipped_at),
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
    /// Stores a message of a living source with a delivery for each of its destinations.
    pub(super) async fn store_message(
        &mut self,
        source: i64,
        received: Received,
        now: Timestamp,
        tail: Tail,
        replay_of: Option<RequestId>,
    ) -> Result<RequestId, Fault> {
        let (workspace, workspace_id, endpoints) = {
            let state = self.node.state();
            let entry = state.config.sources.get(&source);
            let entry = entry.ok_or_else(|| Fault::Damaged(format!("no source {source}")))?;
            let id = state.config.workspaces.get(&entry.workspace).map(|it| it.id);
            (entry.workspace, id, entry.endpoints.clone())
        };
        let fanout = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let key = self.take_keys(now, 1 + fanout).await?;
        let id = RequestId::new(key, tail);
        self.execute(
            "INSERT INTO message (workspace, key, tail, feed, fanout, received_at, replay_of, method, path, query, remote, \
             headers, body, kind) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
            &[
                &workspace,
                &key.value(),
                &tail_column(tail),
                &source,
                &int(fanout),
                &now.millis(),
                &replay_of.map(|id| uuid::Uuid::from_u128(id.uuid())),
                &received.method,
                &received.path,
                &received.query,
                &received.remote_address,
                &&received.headers.packed()[..],
                &&received.body[..],
                &small(REQUEST),
            ],
        )
        .await?;
        if let Some(workspace) = workspace_id.filter(|_| self.node.is_watched()) {
            self.staged.changes.push(Change { workspace, what: Changed::Request(id) });
        }
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
        for (index, endpoint) in (1..).zip(endpoints.iter().copied()) {
            let birth = self.birth(endpoint, now);
            let (key, message) = (id.key().plus(index), id.key());
            let stored = self
                .insert_delivery(NewDelivery {
                    workspace,
                    key,
                    message,
                    endpoint,
                    now,
                    birth,
                    retry_of: None,
                })
                .await?;
            if birth == Birth::Leased {
                self.hand_over(stored, id, &content, now, now)?;
            }
        }
        Ok(())
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

    /// Inserts a new delivery. One that is born leased is to be handed over.
    pub(super) async fn insert_delivery(&mut self, new: NewDelivery) -> Result<Stored, Fault> {
        let view = self.endpoint(new.endpoint)?;
        let skipped_at = view.standing.behind_pause(new.now);
        let stored = new.stored(view.settings.version, skipped_at, self.me);
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
        match new.birth {
            Birth::Leased => {}
            Birth::Due => {
                self.execute(
                    "INSERT INTO work (workspace, key, endpoint, due_at, pauses) VALUES ($1, $2, $3, $4, $5)",
                    &[&stored.workspace, &row.key, &row.endpoint, &new.now.millis(), &view.standing.pauses],
                )
                .await?;
                self.staged.planned.push((new.endpoint, new.now.millis()));
            }
            Birth::Skipped => {
                self.execute(
                    "INSERT INTO skipped (workspace, endpoint, key) VALUES ($1, $2, $3)",
                    &[&stored.workspace, &row.endpoint, &row.key],
                )
                .await?;
            }
        }
        Ok(stored)
    }
}
