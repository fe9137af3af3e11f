//! Everything that can be read, and something of everything to read.

use std::collections::BTreeMap;

use restante_core::Timestamp;
use restante_core::email::{EmailStatus, Role};
use restante_core::id::{DeliveryId, DestinationId, EmailId, EventId, Key, RequestId, WebhookId};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_core::stats::{Breadth, Span};

use super::{Origin, World, failed, ok};
use crate::record::{Kind, Mode};
use crate::row::{
    DeliveryFilter, EmailFilter, EventFilter, LogFilter, LogStatus, RequestFilter, RequestState,
};
use crate::stats::Scope;
use crate::{BulkRetry, Grant, KeyClaim, Page, Start, Window};

/// One of each.
pub struct Subjects {
    source: Origin,
    destination: DestinationId,
    webhook: WebhookId,
    request: RequestId,
    event: EventId,
    email: EmailId,
    deliveries: BTreeMap<&'static str, DeliveryId>,
}

impl World {
    /// Stores `count` of each thing, delivered, failed and pending.
    pub async fn fill(&mut self, count: usize) -> Subjects {
        self.store.grant(self.workspace, Grant::Delta(1_000_000), "note".into(), self.now).await.unwrap();
        let (source, destination) = self.pair().await;
        let webhook = self.webhook().await;
        let (mut request, mut event, mut email) = (None, None, None);
        for index in 0..count {
            request = Some(self.receive(&source).await);
            event = Some(self.publish("order.paid").await.id);
            email = Some(self.mail_to(&[(Role::To, "a@one.example"), (Role::Cc, "b@two.example")]).await);
            self.pass(1_000);
            let outcome = || if index % 3 == 1 { failed() } else { ok() };
            let parcels = self.tray.take();
            let finished = parcels.iter().map(|parcel| self.finished(parcel, outcome())).collect();
            if index % 3 != 2 {
                self.store.settle(finished).await.unwrap();
            }
        }
        let (request, event, email) = (request.unwrap(), event.unwrap(), email.unwrap());
        let now = self.now;
        let of_request = self.request(request).await.deliveries[0].id;
        let of_event = self.store.event(self.workspace, event, now).await.unwrap().unwrap().deliveries[0].id;
        let filter = DeliveryFilter { email: Some(email), ..DeliveryFilter::default() };
        let of_email =
            self.store.deliveries(self.workspace, filter, Page::newest(10), now).await.unwrap().items[0].id;
        let deliveries = [("request", of_request), ("event", of_event), ("email", of_email)].into();
        Subjects { source, destination, webhook, request, event, email, deliveries }
    }

    /// Makes every read of the trait, with each filter and some together, from each side.
    pub async fn read_everything(&self, subjects: &Subjects) {
        single(self, subjects).await;
        records(self, subjects).await;
        stats(self, subjects).await;
        for page in pages() {
            requests(self, subjects, page).await;
            deliveries(self, subjects, page).await;
            outbound(self, subjects, page).await;
            self.store.ledger(self.workspace, page).await.unwrap();
        }
    }
}

fn pages() -> Vec<Page> {
    let (low, high) = (Key::from_value(1), Key::from_value(i64::MAX));
    let starts = [Start::Newest, Start::After(high), Start::Before(low)];
    let page = |start| [false, true].map(|total| Page { limit: 2, start, total });
    starts.into_iter().flat_map(page).collect()
}

async fn single(world: &World, it: &Subjects) {
    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    store.request(workspace, it.request, now).await.unwrap().unwrap();
    store.request_body(workspace, it.request, now).await.unwrap().unwrap();
    store.event(workspace, it.event, now).await.unwrap().unwrap();
    store.email(workspace, it.email, now).await.unwrap().unwrap();
    store.email_mime(workspace, it.email, now).await.unwrap().unwrap();
    store.email_events(workspace, it.email, now).await.unwrap().unwrap();
    for delivery in it.deliveries.values() {
        store.delivery(workspace, *delivery, now).await.unwrap().unwrap();
    }
    store.balance(workspace).await.unwrap().unwrap();
    store.healths(vec![it.webhook]).await.unwrap();
    store.health().await.unwrap();
    let window = Window { since: Timestamp::from_millis(0), until: now };
    store.count_replay(workspace, it.webhook, window, now).await.unwrap().unwrap();
    for state in ["failed", "delivered", "cancelled"] {
        let bulk = BulkRetry { since: window.since, until: now, state: state.into() };
        store.count_bulk_retry(workspace, it.destination, bulk).await.unwrap();
    }
    let key = IdempotencyKey::parse(b"order-1042").unwrap();
    let claim = KeyClaim { key, fingerprint: Fingerprint::builder("emails.send").finish() };
    store.known_send(workspace, Mode::Live, claim).await.unwrap();
}

async fn records(world: &World, it: &Subjects) {
    let (store, workspace) = (&world.store, world.workspace);
    store.record(Kind::Source, workspace, it.source.id.uuid()).await.unwrap().unwrap();
    store.record_by_lookup(Kind::Source, &it.source.token).await.unwrap().unwrap();
    for page in pages() {
        for kind in [Kind::Source, Kind::Webhook, Kind::Suppression, Kind::Notice] {
            store.records(kind, Some(workspace), None, page).await.unwrap();
            store.records(kind, None, None, page).await.unwrap();
        }
        let (source, webhook) = (Some(it.source.id.uuid()), Some(it.webhook.uuid()));
        store.records(Kind::Destination, Some(workspace), source, page).await.unwrap();
        store.records(Kind::Replay, Some(workspace), webhook, page).await.unwrap();
        store.records(Kind::Notice, None, webhook, page).await.unwrap();
    }
}

async fn stats(world: &World, it: &Subjects) {
    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    store.roll_up(now).await.unwrap();
    let scopes = [
        Scope::Workspace,
        Scope::Source(it.source.id),
        Scope::Destination(it.destination),
        Scope::Webhook(it.webhook),
    ];
    for scope in scopes {
        for hours in [1, 24, 48] {
            let span = Span::last(hours, scope.breadth(), now);
            store.stats(workspace, scope, span).await.unwrap().unwrap();
        }
    }
    store.endpoint_stats(workspace, Span::last(24, Breadth::Part, now)).await.unwrap();
}

async fn requests(world: &World, it: &Subjects, page: Page) {
    let none = RequestFilter::default();
    let since = RequestFilter { since: Some(Timestamp::from_millis(1)), ..none.clone() };
    let until = RequestFilter { until: Some(world.now), ..none.clone() };
    let of_source = RequestFilter { source: Some(it.source.id), ..none.clone() };
    let method = RequestFilter { method: Some("POST".into()), ..none.clone() };
    let path = RequestFilter { path: Some("ord".into()), ..none.clone() };
    let text = RequestFilter { text: Some("ell".into()), ..none.clone() };
    let state = |state| RequestFilter { state: Some(state), ..RequestFilter::default() };
    let all = RequestFilter {
        source: Some(it.source.id),
        since: since.since,
        until: until.until,
        state: Some(RequestState::Failed),
        method: method.method.clone(),
        path: path.path.clone(),
        text: text.text.clone(),
    };
    let mut filters = vec![none, since, until, of_source, method, path, text, all];
    filters.extend([
        state(RequestState::Pending),
        state(RequestState::Delivered),
        state(RequestState::Failed),
        state(RequestState::Cancelled),
        state(RequestState::None),
    ]);
    for filter in filters {
        world.store.requests(world.workspace, filter, page, world.now).await.unwrap();
    }
}

async fn deliveries(world: &World, it: &Subjects, page: Page) {
    let none = DeliveryFilter::default();
    let mut filters = vec![
        none.clone(),
        DeliveryFilter { request: Some(it.request), ..none.clone() },
        DeliveryFilter { event: Some(it.event), ..none.clone() },
        DeliveryFilter { email: Some(it.email), ..none.clone() },
        DeliveryFilter { source: Some(it.source.id), ..none.clone() },
        DeliveryFilter { destination: Some(it.destination), ..none.clone() },
        DeliveryFilter { webhook: Some(it.webhook), ..none.clone() },
        DeliveryFilter { since: Some(Timestamp::from_millis(1)), until: Some(world.now), ..none.clone() },
    ];
    for state in ["pending", "sending", "delivered", "failed", "cancelled", "skipped"] {
        let state = Some(state.to_owned());
        filters.push(DeliveryFilter { state: state.clone(), ..none.clone() });
        filters.push(DeliveryFilter { state: state.clone(), source: Some(it.source.id), ..none.clone() });
        filters.push(DeliveryFilter { state, webhook: Some(it.webhook), ..none.clone() });
    }
    for filter in filters {
        world.store.deliveries(world.workspace, filter, page, world.now).await.unwrap();
    }
}

async fn outbound(world: &World, it: &Subjects, page: Page) {
    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    let event_type = restante_core::event::EventType::parse("order.paid").ok();
    for filter in [
        EventFilter::default(),
        EventFilter { event_type, ..EventFilter::default() },
        EventFilter { since: Some(Timestamp::from_millis(1)), until: Some(now), event_type: None },
    ] {
        store.events(workspace, filter, page, now).await.unwrap();
    }
    for filter in [
        EmailFilter::default(),
        EmailFilter { from: Some("s@from.example".into()), ..EmailFilter::default() },
        EmailFilter { statuses: vec![EmailStatus::Sent], ..EmailFilter::default() },
        EmailFilter { scheduled_from: Some(now), scheduled_to: Some(now), ..EmailFilter::default() },
    ] {
        store.emails(workspace, filter, page, now).await.unwrap();
    }
    let bounds = [(None, None), (Some(now), Some(Timestamp::from_millis(1)))];
    for status in [None, Some(LogStatus::Pending), Some(LogStatus::Delivered), Some(LogStatus::Failed)] {
        for (before, after) in bounds {
            let filter = LogFilter { before, after, status };
            let log = store.attempts(workspace, it.webhook, filter, None, page.limit, now).await;
            let (_, next) = log.unwrap().unwrap();
            store.attempts(workspace, it.webhook, filter, next, page.limit, now).await.unwrap().unwrap();
        }
    }
}
