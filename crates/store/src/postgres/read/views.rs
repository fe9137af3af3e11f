//! Messages, and what sources and endpoints are, as the tables say now.

use std::collections::HashMap;

use restante_core::Timestamp;
use restante_core::delivery::CancelReason;
use restante_core::endpoint::{EndpointId, Mailboxes, Receiver, Source};
use restante_core::event::EventType;
use restante_core::id::{
    DestinationId, EmailId, EventId, Key, MailboxesId, RequestId, SourceId, Tail, WebhookId,
};
use restante_core::message::MessageId;
use tokio_postgres::Row;

use super::{Reader, expired_events};
use crate::Policy;
use crate::postgres::Fault;
use crate::postgres::codec::{EMAIL, EVENT, REQUEST, event_type};
use crate::postgres::config::{
    RECORD_COLUMNS, RECORD_TABLES, STANDING_COLUMNS, Standing, gone_reason, parse, read_record, read_standing,
};
use crate::postgres::scan::by_keys;
use crate::record::{Kind, MailboxesRow};

/// What a delivery's endpoint is.
pub(super) struct EndpointView {
    pub(super) id: EndpointId,
    pub(super) receiver: Receiver,
    pub(super) gone: Option<CancelReason>,
    pub(super) standing: Standing,
}

/// Where messages come from: a source, or the events or emails of a workspace.
pub(super) struct FeedView {
    /// Of a source.
    pub(super) id: SourceId,
    pub(super) retention_ms: i64,
}

/// A message's columns, without what is large.
pub(super) struct MessageView {
    pub(super) key: i64,
    pub(super) tail: Tail,
    pub(super) kind: i64,
    pub(super) feed: i64,
    pub(super) fanout: i64,
    pub(super) received_at: i64,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    /// Of an event.
    type_name: Option<String>,
}

impl MessageView {
    pub(super) fn id(&self) -> MessageId {
        let key = Key::from_value(self.key);
        match self.kind {
            EVENT => MessageId::Event(EventId::new(key, self.tail)),
            EMAIL => MessageId::Email(EmailId::new(key, self.tail)),
            _ => MessageId::Request(RequestId::new(key, self.tail)),
        }
    }

    pub(super) fn event_type(&self) -> Result<EventType, Fault> {
        event_type(self.type_name.as_deref().unwrap_or_default())
    }

    pub(super) fn is_of_type(&self, wanted: &EventType) -> bool {
        self.type_name.as_deref() == Some(wanted.as_str())
    }

    /// Whether it came within both bounds, inclusive.
    pub(super) fn came_within(&self, since: Option<Timestamp>, until: Option<Timestamp>) -> bool {
        let at = Timestamp::from_millis(self.received_at);
        since.is_none_or(|since| at >= since) && until.is_none_or(|until| at <= until)
    }
}

fn read_view(row: &Row) -> Result<MessageView, Fault> {
    Ok(MessageView {
        key: row.try_get(0)?,
        tail: Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs()),
        kind: i64::from(row.try_get::<_, i16>(2)?),
        feed: row.try_get(3)?,
        fanout: i64::from(row.try_get::<_, i32>(4)?),
        received_at: row.try_get(5)?,
        method: row.try_get(6)?,
        path: row.try_get(7)?,
        query: row.try_get(8)?,
        type_name: row.try_get(9)?,
    })
}

impl Reader<'_> {
    /// Messages of a workspace, in the order of `keys`, expired ones too.
    pub(super) async fn messages(&self, owner: i64, keys: &[i64]) -> Result<Vec<MessageView>, Fault> {
        let statement = format!(
            "SELECT message.key, message.tail, message.kind, message.feed, message.fanout, message.received_at, \
             message.method, message.path, message.query, message.type FROM {}",
            by_keys("message", "key")
        );
        let rows = self.sql.query(&statement, &[&owner, &keys]).await?;
        let mut views = HashMap::with_capacity(rows.len());
        for row in &rows {
            let view = read_view(row)?;
            views.insert(view.key, view);
        }
        Ok(keys.iter().filter_map(|key| views.remove(key)).collect())
    }

    /// Messages of a workspace that have not expired, in the order of `keys`.
    pub(super) async fn visible(&mut self, owner: i64, keys: &[i64]) -> Result<Vec<MessageView>, Fault> {
        let mut views = self.messages(owner, keys).await?;
        self.learn_feeds(views.iter().map(|view| view.feed).collect()).await?;
        let mut old = HashMap::new();
        for view in &views {
            let cutoff = self.now.millis() - self.feed(view.feed)?.retention_ms;
            if view.received_at <= cutoff {
                old.insert(view.key, cutoff);
            }
        }
        let old_events: Vec<&MessageView> =
            views.iter().filter(|view| view.kind != REQUEST && old.contains_key(&view.key)).collect();
        // All events and emails of a workspace are kept equally long.
        if let Some(cutoff) = old_events.first().and_then(|view| old.get(&view.key)).copied() {
            let keys: Vec<i64> = old_events.iter().map(|view| view.key).collect();
            let expired = expired_events(self.sql, owner, &keys, cutoff).await?;
            for key in keys {
                if !expired.contains(&key) {
                    old.remove(&key);
                }
            }
        }
        views.retain(|view| !old.contains_key(&view.key));
        Ok(views)
    }

    pub(super) async fn visible_one(&mut self, owner: i64, key: i64) -> Result<Option<MessageView>, Fault> {
        Ok(self.visible(owner, &[key]).await?.pop())
    }

    /// Reads those of some feeds that are not known yet.
    async fn learn_feeds(&mut self, feeds: Vec<i64>) -> Result<(), Fault> {
        // The feed of a workspace's emails has its row, negated.
        let mut rows: Vec<i64> = feeds.into_iter().map(i64::abs).collect();
        rows.retain(|row| !self.feeds.contains_key(row));
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() {
            return Ok(());
        }
        let statement = format!("SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.row = ANY($1)");
        for row in self.sql.query(&statement, &[&rows]).await? {
            let record = read_record(&row)?;
            let retention = if record.kind == Kind::Source as i64 {
                parse::<Source>(&record.raw.body)?.retention()
            } else {
                self.policy.event_retention
            };
            let view = FeedView {
                id: SourceId::from_uuid(record.raw.uuid),
                retention_ms: i64::try_from(retention.as_millis()).unwrap_or(i64::MAX),
            };
            self.feeds.insert(record.row, view);
        }
        Ok(())
    }

    /// A feed that was learned.
    pub(super) fn feed(&self, row: i64) -> Result<&FeedView, Fault> {
        self.feeds.get(&row.abs()).ok_or_else(|| Fault::Damaged(format!("no record {row}")))
    }

    /// Reads those of some endpoints that are not known yet.
    pub(super) async fn learn_endpoints(&mut self, mut rows: Vec<i64>) -> Result<(), Fault> {
        rows.retain(|row| !self.endpoints.contains_key(row));
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() {
            return Ok(());
        }
        let statement = format!(
            "SELECT {RECORD_COLUMNS}, parent.deleted_at, health.endpoint, {STANDING_COLUMNS} FROM {RECORD_TABLES} \
             LEFT JOIN health ON health.endpoint = record.row WHERE record.row = ANY($1)"
        );
        for row in self.sql.query(&statement, &[&rows]).await? {
            let (key, view) = read_endpoint(&row, self.policy)?;
            self.endpoints.insert(key, view);
        }
        Ok(())
    }

    /// An endpoint that was learned.
    pub(super) fn endpoint(&self, row: i64) -> Result<&EndpointView, Fault> {
        self.endpoints.get(&row).ok_or_else(|| Fault::Damaged(format!("no record {row}")))
    }
}

/// An endpoint's row, and what it is.
fn read_endpoint(row: &Row, policy: Policy) -> Result<(i64, EndpointView), Fault> {
    let record = read_record(row)?;
    let parent_deleted_at: Option<i64> = row.try_get(14)?;
    let view = if record.kind == Kind::Webhook as i64 {
        let has_health = row.try_get::<_, Option<i64>>(15)?.is_some();
        EndpointView {
            id: EndpointId::Webhook(WebhookId::from_uuid(record.raw.uuid)),
            receiver: Receiver::Webhook(parse(&record.raw.body)?),
            gone: gone_reason(record.deleted_at, None),
            standing: if has_health { read_standing(row, 16)? } else { Standing::default() },
        }
    } else if record.kind == Kind::Mailboxes as i64 {
        let MailboxesRow { domain } = parse(&record.raw.body)?;
        EndpointView {
            id: EndpointId::Mailboxes(MailboxesId::from_uuid(record.raw.uuid)),
            receiver: Receiver::Mailboxes(Mailboxes { domain, terms: policy.mail.clone() }),
            gone: None,
            standing: Standing::default(),
        }
    } else {
        EndpointView {
            id: EndpointId::Destination(DestinationId::from_uuid(record.raw.uuid)),
            receiver: Receiver::Destination(parse(&record.raw.body)?),
            gone: gone_reason(record.deleted_at, parent_deleted_at),
            standing: Standing::default(),
        }
    };
    Ok((record.row, view))
}
