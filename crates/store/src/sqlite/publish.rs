//! Publishing events: the caller's key, messages and deliveries in one transaction.

use restante_core::id::EventId;
use restante_core::idempotency::Fingerprint;
use restante_core::message::{self, Content, MessageId};
use restante_core::{Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::accept::tail_column;
use super::codec::EVENT;
use super::engine::Engine;
use crate::endpoint::Feed;
use crate::receipts::{messages_of, read_receipts, write_receipts};
use crate::tally::Counted;
use crate::{Change, Changed, EventReceipt, KeyClaim, NewEvent, Published, Publishing};

impl Engine {
    /// See [`crate::Store::publish`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn publish(&mut self, publishing: Publishing) -> Result<Published, Fault> {
        let Some(workspace) = self.config.workspace_rows.get(&publishing.workspace).copied() else {
            return Ok(Published::NoWorkspace);
        };
        if let Some(claim) = &publishing.claim
            && let Some(known) = self.known_key(workspace, claim)?
        {
            return Ok(known);
        }
        self.overflowed = false;
        let now = publishing.now;
        let mut events = Vec::with_capacity(publishing.events.len());
        for event in publishing.events {
            events.push(self.store_event(workspace, event, now)?);
            self.staged.counted.push(Counted::Accepted { workspace, source: None, at: now });
        }
        if let Some(claim) = &publishing.claim {
            self.hold_key(workspace, claim, &events, now)?;
        }
        Ok(Published::Fresh { events, crowded: std::mem::take(&mut self.overflowed) })
    }

    pub(super) fn store_event(
        &mut self,
        workspace: i64,
        event: NewEvent,
        now: Timestamp,
    ) -> Result<EventReceipt, Fault> {
        let endpoints = self.config.subscribers(workspace, &event.event_type);
        let deliveries = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let key = self.take_keys(now, 1 + deliveries)?;
        let id = EventId::new(key, event.tail);
        self.conn
            .prepare_cached(
                "INSERT INTO message (key, tail, feed, fanout, received_at, method, path, remote, headers, body, kind, type) \
                 VALUES (?1, ?2, ?3, ?4, ?5, '', '', '', x'', ?6, ?7, ?8)",
            )?
            .execute(params![
                key.value(),
                tail_column(event.tail),
                workspace,
                deliveries,
                now.millis(),
                &event.body[..],
                EVENT,
                event.event_type.as_str(),
            ])?;
        self.history.add(workspace, key.value());
        if let Some(entry) = self.config.workspaces.get(&workspace).filter(|_| self.watched) {
            self.staged.changes.push(Change { workspace: entry.id, what: Changed::Event(id) });
        }
        let NewEvent { event_type, body, .. } = event;
        let content = Content::Event(message::Published { event_type, body });
        self.fan_out(MessageId::Event(id), content, &endpoints, now)?;
        Ok(EventReceipt { id, deliveries })
    }

    /// What an earlier call with this key came to, if there was one.
    fn known_key(&self, workspace: i64, claim: &KeyClaim) -> Result<Option<Published>, Fault> {
        let Some((same, events)) = held(&self.conn, workspace, claim.key.as_str(), claim)? else {
            return Ok(None);
        };
        if !same {
            return Ok(Some(Published::KeyReused));
        }
        let damaged = || Fault::Damaged(format!("idempotency key {}", claim.key.as_str()));
        read_receipts(&events).map(|events| Some(Published::Replayed(events))).ok_or_else(damaged)
    }

    fn hold_key(
        &self,
        workspace: i64,
        claim: &KeyClaim,
        events: &[EventReceipt],
        now: Timestamp,
    ) -> Result<(), Fault> {
        let kept = self.policy.event_retention.max(limits::IDEMPOTENCY_KEPT_MIN);
        self.hold(workspace, claim.key.as_str(), claim, &write_receipts(events), now + kept)
    }

    /// Remembers what a call with a key was answered, at least until `until`. `key`: as it is kept.
    pub(super) fn hold(
        &self,
        workspace: i64,
        key: &str,
        claim: &KeyClaim,
        answer: &[u8],
        until: Timestamp,
    ) -> Result<(), Fault> {
        self.conn
            .prepare_cached(
                "INSERT INTO idempotency (workspace, key, fingerprint, events, held_until) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![workspace, key, &claim.fingerprint.as_bytes()[..], answer, until.millis()])?;
        Ok(())
    }

    /// Lets go of up to `most` keys whose time is up and whose events are gone. Returns how many it looked at.
    pub(super) fn prune_keys(&self, now: Timestamp, most: usize) -> Result<usize, Fault> {
        let due: Vec<(i64, String, Vec<u8>)> = {
            let mut statement = self.conn.prepare_cached(
                "SELECT workspace, key, events FROM idempotency WHERE held_until <= ?1 ORDER BY held_until LIMIT ?2",
            )?;
            let rows = statement.query_map(params![now.millis(), super::scan::sql_limit(most)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            rows.collect::<Result<_, _>>()?
        };
        for (workspace, key, events) in &due {
            let mut alive = false;
            for message in messages_of(events) {
                let sql = "SELECT 1 FROM message WHERE key = ?1";
                alive |= self.conn.prepare_cached(sql)?.exists([message.value()])?;
            }
            if alive {
                // An event outlives its retention while it is being delivered.
                let later = now + limits::IDEMPOTENCY_KEPT_MIN;
                self.conn
                    .prepare_cached(
                        "UPDATE idempotency SET held_until = ?3 WHERE workspace = ?1 AND key = ?2",
                    )?
                    .execute(params![workspace, key, later.millis()])?;
            } else {
                self.conn
                    .prepare_cached("DELETE FROM idempotency WHERE workspace = ?1 AND key = ?2")?
                    .execute(params![workspace, key])?;
            }
        }
        Ok(due.len())
    }

    /// Whether a new delivery to an endpoint is skipped: it is a paused webhook.
    pub(super) fn skips(&self, endpoint: i64) -> bool {
        self.config
            .endpoints
            .get(&endpoint)
            .is_some_and(|entry| entry.endpoint.feed == Feed::Events && entry.settings.receiver.is_paused())
    }
}

/// What a key that is held stands for: whether the same was asked for, and what was answered.
pub(super) fn held(
    conn: &Connection,
    workspace: i64,
    key: &str,
    claim: &KeyClaim,
) -> Result<Option<(bool, Vec<u8>)>, Fault> {
    let found: Option<(Vec<u8>, Vec<u8>)> = conn
        .prepare_cached("SELECT fingerprint, events FROM idempotency WHERE workspace = ?1 AND key = ?2")?
        .query_row(params![workspace, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.map(|(fingerprint, answer)| {
        (Fingerprint::from_bytes(&fingerprint).as_ref() == Some(&claim.fingerprint), answer)
    }))
}
