//! Lists of requests, events and deliveries.

pub(super) mod walk;

use std::collections::{HashMap, HashSet};

use restante_core::endpoint::EndpointId;
use restante_core::id::{Key, WorkspaceId};

use super::views::MessageView;
use super::{Reader, delivery_keys};
use crate::postgres::Fault;
use crate::postgres::codec::{
    self, DELIVERED_STATE, EVENT, PENDING, REQUEST, SENDING, Stored, mail_feed, read_delivery,
};
use crate::postgres::config::{find_record, over, workspace_row};
use crate::postgres::scan::{self, Range, Table, by_keys, deliveries_by_keys};
use crate::record::Kind;
use crate::row::{self, DeliveryFilter, EventFilter, RequestFilter};
use crate::{Page, Paged};
use walk::{Among, Keyed, List, Walk};

/// Scopes that are walked through one by one; beyond that the whole workspace is cheaper.
const SCOPES_MAX: usize = 256;

impl Reader<'_> {
    pub(in crate::postgres) async fn requests(
        &mut self,
        workspace: WorkspaceId,
        filter: &RequestFilter,
        page: Page,
    ) -> Result<Paged<row::Request>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(empty(page)) };
        let among = match filter.source {
            Some(source) => self.scope(Kind::Source, workspace, source.uuid()).await?,
            None => self.sources(owner).await?,
        };
        let walk = Walk::new(self.sql, Table::Message, owner, among, filter.since, filter.until).await?;
        let found = self.walk(&walk, filter, page).await?;
        let items = self.request_rows(owner, &found.items, false).await?;
        Ok(Paged { items, next: found.next, prev: found.prev, total: found.total })
    }

    pub(in crate::postgres) async fn events(
        &mut self,
        workspace: WorkspaceId,
        filter: &EventFilter,
        page: Page,
    ) -> Result<Paged<row::Event>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(empty(page)) };
        let among = Among::Scopes(vec![owner]);
        let walk = Walk::new(self.sql, Table::Message, owner, among, filter.since, filter.until).await?;
        let found = self.walk(&walk, filter, page).await?;
        let items = self.event_rows(owner, &found.items).await?;
        Ok(Paged { items, next: found.next, prev: found.prev, total: found.total })
    }

    pub(in crate::postgres) async fn deliveries(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeliveryFilter,
        page: Page,
    ) -> Result<Paged<row::Delivery>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(empty(page)) };
        let among = self.deliveries_among(workspace, owner, filter).await?;
        let walk = Walk::new(self.sql, Table::Delivery, owner, among, filter.since, filter.until).await?;
        self.walk(&walk, filter, page).await
    }

    /// The narrowest set of deliveries that the filter's matches are in.
    async fn deliveries_among(
        &mut self,
        workspace: WorkspaceId,
        owner: i64,
        filter: &DeliveryFilter,
    ) -> Result<Among, Fault> {
        if let Some(message) = filter.message() {
            let view = self.visible_one(owner, message.key().value()).await?;
            let Some(view) = view else { return Ok(Among::Keys(Vec::new())) };
            return Ok(Among::Keys(delivery_keys(self.sql, owner, view.key, view.fanout).await?));
        }
        if let Some(webhook) = filter.webhook {
            return self.scope(Kind::Webhook, workspace, webhook.uuid()).await;
        }
        if let Some(destination) = filter.destination {
            return self.scope(Kind::Destination, workspace, destination.uuid()).await;
        }
        let Some(source) = filter.source else { return Ok(Among::All) };
        let record = find_record(self.sql, Kind::Source, source.uuid()).await?;
        let Some(record) = record.filter(|it| it.workspace == owner) else {
            return Ok(Among::Keys(Vec::new()));
        };
        let statement = "SELECT row FROM record WHERE kind = 3 AND workspace = $1 AND parent = $2";
        let rows = self.sql.query(statement, &[&owner, &record.row]).await?;
        Ok(Among::Scopes(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?))
    }

    /// What belongs to one source or endpoint, living or not.
    async fn scope(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Among, Fault> {
        let record = find_record(self.sql, kind, uuid).await?;
        let ours = record.filter(|it| it.raw.workspace == workspace);
        Ok(ours.map_or(Among::Keys(Vec::new()), |it| Among::Scopes(vec![it.row])))
    }

    /// The sources of a workspace, the deleted included, if they are few and there are events or emails: requests may be
    /// few among many of them.
    async fn sources(&self, owner: i64) -> Result<Among, Fault> {
        let (others, all) = ([owner, mail_feed(owner)], Range::of_times(None, None, 0));
        if scan::keys(self.sql, Table::Message, owner, Some(&others), all, 1).await?.is_empty() {
            return Ok(Among::All);
        }
        let statement = "SELECT row FROM record WHERE kind = 2 AND workspace = $1 LIMIT $2";
        let rows = self.sql.query(statement, &[&owner, &(SCOPES_MAX as i64 + 1)]).await?;
        if rows.len() > SCOPES_MAX {
            return Ok(Among::All);
        }
        Ok(Among::Scopes(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?))
    }

    /// Those of some messages whose body contains a text, byte for byte.
    async fn containing(&self, owner: i64, keys: &[i64], text: &str) -> Result<HashSet<i64>, Fault> {
        let statement = format!(
            "SELECT message.key FROM {} WHERE position($3::bytea IN message.body) > 0",
            by_keys("message", "key")
        );
        let rows = self.sql.query(&statement, &[&owner, &keys, &text.as_bytes()]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Those of some requests that may be in a state, by little of their deliveries: of a rare state nearly all are passed
    /// over.
    async fn maybe_in_state(
        &mut self,
        owner: i64,
        views: &[MessageView],
        state: row::RequestState,
    ) -> Result<HashSet<i64>, Fault> {
        let (first, last) = match state {
            row::RequestState::None => {
                return Ok(views.iter().filter(|view| view.fanout == 0).map(|view| view.key).collect());
            }
            row::RequestState::Pending => (PENDING, SENDING),
            row::RequestState::Delivered => (DELIVERED_STATE, DELIVERED_STATE),
            row::RequestState::Failed => codec::state_range("failed").unwrap_or_default(),
            row::RequestState::Cancelled => codec::state_range("cancelled").unwrap_or_default(),
        };
        let statement = format!(
            "SELECT delivery.message, delivery.endpoint, delivery.state FROM {} \
             WHERE delivery.state BETWEEN $4 AND $5 OR delivery.state IN (0, 1) \
             UNION ALL SELECT delivery.message, delivery.endpoint, delivery.state \
             FROM unnest($3::bigint[]) AS retried(message) CROSS JOIN LATERAL \
             (SELECT * FROM delivery WHERE delivery.workspace = $1 AND delivery.message = retried.message \
             AND delivery.retry_of IS NOT NULL OFFSET 0) AS delivery \
             WHERE delivery.state BETWEEN $4 AND $5 OR delivery.state IN (0, 1)",
            by_keys("delivery", "key")
        );
        let keys: Vec<i64> = views.iter().map(|view| view.key).collect();
        let born: Vec<i64> = views.iter().flat_map(|view| view.key + 1..=view.key + view.fanout).collect();
        let (first, last) = (codec::small(first), codec::small(last));
        let rows = self.sql.query(&statement, &[&owner, &born, &keys, &first, &last]).await?;
        let (mut maybe, mut open) = (HashSet::new(), Vec::new());
        for row in rows {
            let (message, endpoint, state): (i64, i64, i16) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if (first..=last).contains(&state) {
                maybe.insert(message);
            } else {
                open.push((message, endpoint));
            }
        }
        // What a deletion or a pause has not swept yet is shown in another state than its own.
        self.learn_endpoints(open.iter().map(|(_, endpoint)| *endpoint).collect()).await?;
        for (message, endpoint) in open {
            let endpoint = self.endpoint(endpoint)?;
            if endpoint.gone.is_some() || endpoint.standing.cut.is_some() {
                maybe.insert(message);
            }
        }
        Ok(maybe)
    }

    /// Leaves those requests that are in a state.
    async fn retain_in_state(
        &mut self,
        owner: i64,
        views: &mut Vec<MessageView>,
        state: row::RequestState,
    ) -> Result<(), Fault> {
        let maybe = self.maybe_in_state(owner, views, state).await?;
        views.retain(|view| maybe.contains(&view.key));
        if views.is_empty() {
            return Ok(());
        }
        let mut deliveries = self.deliveries_of(owner, views, false).await?;
        let mut kept = HashSet::new();
        for view in views.iter() {
            let deliveries = deliveries.remove(&view.key).unwrap_or_default();
            let request = row::Request { deliveries, ..self.bare_request(view)? };
            if request.state() == state {
                kept.insert(view.key);
            }
        }
        views.retain(|view| kept.contains(&view.key));
        Ok(())
    }
}

impl List for RequestFilter {
    type Match = MessageView;

    async fn matches(
        &self,
        reader: &mut Reader<'_>,
        owner: i64,
        keys: &[i64],
    ) -> Result<Vec<MessageView>, Fault> {
        let mut views = reader.visible(owner, keys).await?;
        views.retain(|view| {
            view.kind == REQUEST
                && view.came_within(self.since, self.until)
                && self.path.as_ref().is_none_or(|part| view.path.contains(part.as_str()))
                && self.method.as_ref().is_none_or(|method| view.method == *method)
        });
        if let Some(text) = &self.text {
            let keys: Vec<i64> = views.iter().map(|view| view.key).collect();
            let containing = reader.containing(owner, &keys, text).await?;
            views.retain(|view| containing.contains(&view.key));
        }
        if let Some(state) = self.state {
            reader.retain_in_state(owner, &mut views, state).await?;
        }
        Ok(views)
    }
}

impl List for EventFilter {
    type Match = MessageView;

    async fn matches(
        &self,
        reader: &mut Reader<'_>,
        owner: i64,
        keys: &[i64],
    ) -> Result<Vec<MessageView>, Fault> {
        let mut found = Vec::new();
        for view in reader.visible(owner, keys).await? {
            let wanted = view.kind == EVENT && view.came_within(self.since, self.until);
            if wanted && self.event_type.as_ref().is_none_or(|wanted| view.is_of_type(wanted)) {
                found.push(view);
            }
        }
        Ok(found)
    }
}

impl List for DeliveryFilter {
    type Match = row::Delivery;

    async fn matches(
        &self,
        reader: &mut Reader<'_>,
        owner: i64,
        keys: &[i64],
    ) -> Result<Vec<row::Delivery>, Fault> {
        let rows = reader.sql.query(&deliveries_by_keys(), &[&owner, &keys]).await?;
        let stored = rows.iter().map(read_delivery).collect::<Result<Vec<_>, _>>()?;
        reader.learn_endpoints(stored.iter().map(|it| it.row.endpoint).collect()).await?;
        let mut candidates: HashMap<i64, Stored> = HashMap::with_capacity(stored.len());
        for it in stored {
            if self.may_match(reader, &it)? {
                candidates.insert(it.row.key, it);
            }
        }
        let stored: Vec<Stored> = keys.iter().filter_map(|key| candidates.remove(key)).collect();
        let mut messages: Vec<i64> = stored.iter().map(|it| it.row.message).collect();
        messages.sort_unstable();
        messages.dedup();
        let mut views = reader.visible(owner, &messages).await?;
        if let Some(wanted) = self.source {
            let mut kept = Vec::with_capacity(views.len());
            for view in views {
                if view.kind == REQUEST && reader.feed(view.feed)?.id == wanted {
                    kept.push(view);
                }
            }
            views = kept;
        }
        let mut shown = reader.delivery_rows(owner, &stored, &views, false).await?;
        shown.retain(|it| self.matches_shown(it));
        Ok(shown)
    }
}

impl DeliveryFilter {
    /// `false` when a delivery's state tells that it is none of these.
    fn may_match(&self, reader: &Reader<'_>, stored: &Stored) -> Result<bool, Fault> {
        let Some((first, last)) = self.state.as_deref().and_then(codec::state_range) else { return Ok(true) };
        let code = codec::state_code(stored.row.life.state);
        let endpoint = reader.endpoint(stored.row.endpoint)?;
        let swept_later = over(endpoint.gone, endpoint.standing, stored.row.mark).is_some();
        Ok(swept_later || (first..=last).contains(&code))
    }

    /// Whether all but the source is as wanted.
    fn matches_shown(&self, shown: &row::Delivery) -> bool {
        self.state.as_ref().is_none_or(|state| shown.life.state.name() == state)
            && self.is_met_by(shown.message)
            && self.destination.is_none_or(|id| shown.endpoint == EndpointId::Destination(id))
            && self.webhook.is_none_or(|id| shown.endpoint == EndpointId::Webhook(id))
            && self.since.is_none_or(|since| shown.created_at >= since)
            && self.until.is_none_or(|until| shown.created_at <= until)
    }
}

impl Keyed for MessageView {
    fn key(&self) -> Key {
        Key::from_value(self.key)
    }
}

impl Keyed for row::Delivery {
    fn key(&self) -> Key {
        self.id.key()
    }
}

pub(super) fn empty<T>(page: Page) -> Paged<T> {
    // As if nothing had been found: nobody asks for the keys of nothing.
    let cut = Paged::cut(Vec::new(), page, |_: &T| Key::from_value(0));
    Paged { total: page.total.then_some(0), ..cut }
}
