//! Reads by cursor.
//!
//! Each is one read-only transaction of the caller, so all its statements see one state of the database. A list looks
//! at a bounded number of rows and says where to go on. Whatever belongs to several rows is fetched for all of them
//! at once: each statement is a round trip.

mod attempts;
mod bulk;
mod healths;
mod ledger;
mod lists;
mod log;
mod mail;
mod records;
mod resend;
mod skipped;
mod stats;
mod views;

use std::collections::{HashMap, HashSet};

use restante_core::Timestamp;
use restante_core::id::{DeliveryId, EventId, Key, RequestId, WorkspaceId};
use restante_core::message::Headers;
use tokio_postgres::Row;

use super::Fault;
use super::codec::{
    DELIVERY_BY_KEY, DELIVERY_COLUMNS, EMAIL, EVENT, REQUEST, Stored, WORK_OF_DELIVERY, read_delivery,
};
use super::config::{ended, workspace_row};
use super::scan::{by_keys, deliveries_by_keys};
use super::sql::Sql;
use crate::{Policy, row};

pub(super) use bulk::{bulk_range, count_bulk_retry, matches};
pub(super) use healths::healths;
pub(super) use ledger::{balance, ledger};
pub(super) use mail::known_send;
pub(super) use records::{record, record_by_lookup, records};
pub(super) use resend::{attempts_kept_from, count_replay, failed_in, find_webhook};
pub(super) use skipped::Skipped;
pub(super) use stats::{endpoint_stats, stats};

use views::{EndpointView, FeedView, MessageView};

/// One read: a connection and the configuration it has met so far.
pub(super) struct Reader<'a> {
    sql: &'a Sql,
    now: Timestamp,
    policy: Policy,
    endpoints: HashMap<i64, EndpointView>,
    feeds: HashMap<i64, FeedView>,
    /// By endpoint and version.
    urls: HashMap<(i64, u32), String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sql: &'a Sql, policy: Policy, now: Timestamp) -> Self {
        let (endpoints, feeds, urls) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { sql, now, policy, endpoints, feeds, urls }
    }

    pub(super) async fn request(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<row::Request>, Fault> {
        let Some((owner, view)) = self.visible_request(workspace, id).await? else { return Ok(None) };
        Ok(self.request_rows(owner, &[view], true).await?.pop())
    }

    pub(super) async fn event(
        &mut self,
        workspace: WorkspaceId,
        id: EventId,
    ) -> Result<Option<row::Event>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(None) };
        let view = self.visible_one(owner, id.key().value()).await?;
        let Some(view) = view.filter(|it| it.kind == EVENT && it.tail == id.tail()) else { return Ok(None) };
        let Some(mut event) = self.event_rows(owner, std::slice::from_ref(&view)).await?.pop() else {
            return Ok(None);
        };
        let mut deliveries = self.deliveries_of(owner, &[view], true).await?;
        event.deliveries = deliveries.remove(&event.id.key().value()).unwrap_or_default();
        Ok(Some(event))
    }

    pub(super) async fn request_body(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let Some((owner, view)) = self.visible_request(workspace, id).await? else { return Ok(None) };
        let statement = "SELECT body FROM message WHERE workspace = $1 AND key = $2";
        let row = self.sql.first(statement, &[&owner, &view.key]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn visible_request(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<(i64, MessageView)>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(None) };
        let view = self.visible_one(owner, id.key().value()).await?;
        Ok(view.filter(|it| it.kind == REQUEST && it.tail == id.tail()).map(|view| (owner, view)))
    }

    pub(super) async fn delivery(
        &mut self,
        workspace: WorkspaceId,
        id: DeliveryId,
    ) -> Result<Option<row::Delivery>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(None) };
        let row = self.sql.first(DELIVERY_BY_KEY, &[&owner, &id.key().value()]).await?;
        let Some(stored) = row.as_ref().map(read_delivery).transpose()? else { return Ok(None) };
        let view = self.visible_one(owner, stored.row.message).await?;
        let Some(view) = view.filter(|view| view.tail == id.tail()) else { return Ok(None) };
        Ok(self.delivery_rows(owner, &[stored], &[view], true).await?.pop())
    }

    /// Requests with their deliveries, with attempts or without, in the order of the views.
    async fn request_rows(
        &mut self,
        owner: i64,
        views: &[MessageView],
        attempts: bool,
    ) -> Result<Vec<row::Request>, Fault> {
        let mut deliveries = self.deliveries_of(owner, views, attempts).await?;
        let statement = format!(
            "SELECT message.key, message.replay_of, message.remote, message.headers, octet_length(message.body), \
             message.duplicate_of, message.rejected FROM {}",
            by_keys("message", "key")
        );
        let rows = self.sql.query(&statement, &[&owner, &keys_of(views)]).await?;
        let rows = by_key(&rows)?;
        let mut requests = Vec::with_capacity(views.len());
        for view in views {
            let row = rows.get(&view.key).ok_or_else(vanished)?;
            let mut request = self.bare_request(view)?;
            let id = |uuid: uuid::Uuid| RequestId::from_uuid(uuid.as_u128());
            request.replay_of = row.try_get::<_, Option<_>>(1)?.map(id);
            request.duplicate_of = row.try_get::<_, Option<_>>(5)?.map(id);
            request.rejected_because = row.try_get(6)?;
            request.remote_address = row.try_get(2)?;
            request.headers = Headers::from_packed(row.try_get::<_, Vec<u8>>(3)?.into())
                .map_err(|fault| Fault::Damaged(format!("message {}: {fault}", view.key)))?;
            request.body_bytes = u64::from(row.try_get::<_, i32>(4)?.unsigned_abs());
            request.deliveries = deliveries.remove(&view.key).unwrap_or_default();
            requests.push(request);
        }
        Ok(requests)
    }

    /// What a view tells of a request.
    fn bare_request(&self, view: &MessageView) -> Result<row::Request, Fault> {
        let source = self.feed(view.feed)?;
        Ok(row::Request {
            id: RequestId::new(Key::from_value(view.key), view.tail),
            source: source.id,
            method: view.method.clone(),
            path: view.path.clone(),
            query: view.query.clone(),
            headers: Headers::default(),
            body_bytes: 0,
            remote_address: String::new(),
            received_at: Timestamp::from_millis(view.received_at),
            expires_at: Timestamp::from_millis(view.received_at + source.retention_ms),
            replay_of: None,
            duplicate_of: None,
            rejected_because: None,
            deliveries: Vec::new(),
        })
    }

    /// Events without deliveries, in the order of the views.
    async fn event_rows(&self, owner: i64, views: &[MessageView]) -> Result<Vec<row::Event>, Fault> {
        let statement = format!("SELECT message.key, message.body FROM {}", by_keys("message", "key"));
        let rows = self.sql.query(&statement, &[&owner, &keys_of(views)]).await?;
        let rows = by_key(&rows)?;
        let mut events = Vec::with_capacity(views.len());
        for view in views {
            let body: Vec<u8> = rows.get(&view.key).ok_or_else(vanished)?.try_get(1)?;
            events.push(row::Event {
                id: EventId::new(Key::from_value(view.key), view.tail),
                event_type: view.event_type()?,
                body: body.into(),
                created_at: Timestamp::from_millis(view.received_at),
                fanout: u32::try_from(view.fanout).unwrap_or(u32::MAX),
                deliveries: Vec::new(),
            });
        }
        Ok(events)
    }

    /// All deliveries of messages, by their keys: those a message was accepted with, then manual retries.
    async fn deliveries_of(
        &mut self,
        owner: i64,
        views: &[MessageView],
        attempts: bool,
    ) -> Result<HashMap<i64, Vec<row::Delivery>>, Fault> {
        let first: Vec<i64> = views.iter().flat_map(|view| view.key + 1..=view.key + view.fanout).collect();
        let statement = format!(
            "{} UNION ALL SELECT {DELIVERY_COLUMNS} FROM unnest($3::bigint[]) AS retried(message) CROSS JOIN LATERAL \
             (SELECT * FROM delivery WHERE delivery.workspace = $1 AND delivery.message = retried.message \
             AND delivery.retry_of IS NOT NULL OFFSET 0) AS delivery {WORK_OF_DELIVERY}",
            deliveries_by_keys()
        );
        let rows = self.sql.query(&statement, &[&owner, &first, &keys_of(views)]).await?;
        let mut stored = rows.iter().map(read_delivery).collect::<Result<Vec<_>, _>>()?;
        stored.sort_unstable_by_key(|it| (it.row.retry_of.is_some(), it.row.key));
        let mut found: HashMap<i64, Vec<row::Delivery>> = HashMap::new();
        for shown in self.delivery_rows(owner, &stored, views, attempts).await? {
            found.entry(shown.message.key().value()).or_default().push(shown);
        }
        Ok(found)
    }

    /// Deliveries whose message is among the views, in their order.
    async fn delivery_rows(
        &mut self,
        owner: i64,
        stored: &[Stored],
        views: &[MessageView],
        attempts: bool,
    ) -> Result<Vec<row::Delivery>, Fault> {
        let views: HashMap<i64, &MessageView> = views.iter().map(|view| (view.key, view)).collect();
        let known: Vec<_> =
            stored.iter().filter_map(|it| views.get(&it.row.message).map(|view| (it, *view))).collect();
        self.learn_endpoints(known.iter().map(|(it, _)| it.row.endpoint).collect()).await?;
        let mut attempts = if attempts { self.attempts_of(owner, &known).await? } else { HashMap::new() };
        let of_emails = known.iter().filter(|(_, view)| view.kind == EMAIL).map(|(it, _)| it.row.key);
        let mut mailboxes = self.mailboxes_of(owner, &of_emails.collect::<Vec<_>>()).await?;
        let mut shown = Vec::with_capacity(known.len());
        for (it, view) in known {
            let mut delivery = self.bare_delivery(it, view)?;
            delivery.attempts = attempts.remove(&it.row.key).unwrap_or_default();
            delivery.mailbox = mailboxes.remove(&it.row.key);
            shown.push(delivery);
        }
        Ok(shown)
    }

    /// A delivery without attempts and mailbox.
    fn bare_delivery(&self, stored: &Stored, view: &MessageView) -> Result<row::Delivery, Fault> {
        let row = &stored.row;
        let endpoint = self.endpoint(row.endpoint)?;
        // What a deletion or a pause has not swept yet counts as ended.
        let life = ended(endpoint.gone, endpoint.standing, row, self.now);
        Ok(row::Delivery {
            id: DeliveryId::new(Key::from_value(row.key), view.tail),
            message: view.id(),
            endpoint: endpoint.id,
            mailbox: None,
            receiver: endpoint.receiver.clone(),
            held_back: endpoint.receiver.holds_back(),
            life: life.unwrap_or_else(|| row.life.clone()),
            retry_of: row.retry_of.map(|key| DeliveryId::new(Key::from_value(key), view.tail)),
            created_at: Timestamp::from_millis(row.created_at.unwrap_or(view.received_at)),
            attempts: Vec::new(),
        })
    }
}

/// Whether an event's last delivery ended at or before `cutoff`: it is kept from then on. What is not there has not
/// expired.
pub(super) async fn event_expired(sql: &Sql, workspace: i64, key: i64, cutoff: i64) -> Result<bool, Fault> {
    Ok(!expired_events(sql, workspace, &[key], cutoff).await?.is_empty())
}

/// Those of some events that have expired; see [`event_expired`].
pub(super) async fn expired_events(
    sql: &Sql,
    workspace: i64,
    keys: &[i64],
    cutoff: i64,
) -> Result<HashSet<i64>, Fault> {
    let statement =
        format!("SELECT message.key FROM {} WHERE {}", by_keys("message", "key"), has_expired("$3"));
    let rows = sql.query(&statement, &[&workspace, &keys, &cutoff]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The condition on an event's `message` that it has expired. `cutoff` is the parameter; see [`event_expired`].
fn has_expired(cutoff: &str) -> String {
    // The subquery is no join, so that it looks at the event's own rows only, whatever the planner thinks of them.
    format!(
        "message.received_at <= {cutoff} AND (SELECT count(*) FROM delivery AS own \
         WHERE own.workspace = message.workspace AND own.key > message.key \
         AND own.key <= message.key + message.fanout AND (own.state IN (0, 1) OR own.ended_at > {cutoff})) = 0"
    )
}

/// Keys of all deliveries of a message: those it was accepted with, then manual retries.
pub(super) async fn delivery_keys(
    sql: &Sql,
    workspace: i64,
    message: i64,
    fanout: i64,
) -> Result<Vec<i64>, Fault> {
    let statement = "SELECT key FROM delivery WHERE workspace = $1 AND message = $2 AND retry_of IS NOT NULL \
         ORDER BY key";
    let mut keys: Vec<i64> = (message + 1..=message + fanout).collect();
    for row in sql.query(statement, &[&workspace, &message]).await? {
        keys.push(row.try_get(0)?);
    }
    Ok(keys)
}

fn keys_of(views: &[MessageView]) -> Vec<i64> {
    views.iter().map(|view| view.key).collect()
}

/// Rows by their first column.
fn by_key(rows: &[Row]) -> Result<HashMap<i64, &Row>, Fault> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row))).collect()
}

fn vanished() -> Fault {
    Fault::Damaged("a message vanished while read".into())
}
