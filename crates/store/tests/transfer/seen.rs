//! All that a store shows, as lines that can be compared.

use std::fmt::Debug;

use restante_core::event::EventType;
use restante_core::id::{Key, WorkspaceId};
use restante_core::stats::{Breadth, Span};
use restante_store::conformance::World;
use restante_store::record::Kind;
use restante_store::row::{DeliveryFilter, EmailFilter, EventFilter, LogFilter, LogStatus, RequestFilter};
use restante_store::stats::Scope;
use restante_store::{BulkRetry, Page, Paged, Start};

use crate::fill::Filled;

const KINDS: [Kind; 10] = [
    Kind::Workspace,
    Kind::Source,
    Kind::Destination,
    Kind::ApiKey,
    Kind::BulkRetry,
    Kind::Webhook,
    Kind::Replay,
    Kind::Notice,
    Kind::Mailboxes,
    Kind::Suppression,
];
const STATES: [&str; 6] = ["pending", "sending", "delivered", "failed", "cancelled", "skipped"];
/// Small, so that lists have several.
const PAGE: usize = 7;

/// Everything that reads give.
pub(crate) async fn all(world: &World, filled: &Filled) -> Vec<String> {
    let mut told = Vec::new();
    for workspace in filled.workspaces {
        let (store, now) = (&world.store, world.now);
        for kind in KINDS {
            let name = format!("{kind:?}");
            list(&mut told, &name, async |page| {
                store.records(kind, Some(workspace), None, page).await.unwrap()
            })
            .await;
        }
        told.push(format!("balance: {:?}", store.balance(workspace).await.unwrap()));
        list(&mut told, "charge", async |page| store.ledger(workspace, page).await.unwrap()).await;

        let requests = list(&mut told, "request", async |page| {
            store.requests(workspace, RequestFilter::default(), page, now).await.unwrap()
        })
        .await;
        for request in requests {
            told.push(format!("{:?}", store.request(workspace, request.id, now).await.unwrap().unwrap()));
            told.push(format!("{:?}", store.request_body(workspace, request.id, now).await.unwrap()));
            let filter = RequestFilter { source: Some(request.source), ..RequestFilter::default() };
            list(&mut told, "of a source", async |page| {
                store.requests(workspace, filter.clone(), page, now).await.unwrap()
            })
            .await;
        }
        let events = list(&mut told, "event", async |page| {
            store.events(workspace, EventFilter::default(), page, now).await.unwrap()
        })
        .await;
        for event in events {
            told.push(format!("{:?}", store.event(workspace, event.id, now).await.unwrap().unwrap()));
        }
        let event_type = Some(EventType::parse("four.a").unwrap());
        let filter = EventFilter { event_type, ..EventFilter::default() };
        list(&mut told, "of a type", async |page| {
            store.events(workspace, filter.clone(), page, now).await.unwrap()
        })
        .await;
        deliveries(&mut told, world, filled, workspace).await;
        emails(&mut told, world, workspace).await;
        stats(&mut told, world, workspace).await;
    }
    logs(&mut told, world, filled).await;
    told.push(format!("{:?}", world.store.healths(filled.webhooks.clone()).await.unwrap()));
    told.push(format!("{:?}", world.store.secret_check(None).await.unwrap()));
    told
}

async fn stats(told: &mut Vec<String>, world: &World, workspace: WorkspaceId) {
    let (store, now) = (&world.store, world.now);
    for hours in [1, 24, 168] {
        let span = Span::last(hours, Breadth::Workspace, now);
        let stats = store.stats(workspace, Scope::Workspace, span).await.unwrap().unwrap();
        told.push(format!("stats of {hours} h: {stats:?}"));
    }
    let span = Span::last(48, Breadth::Part, now);
    let endpoints = store.endpoint_stats(workspace, span).await.unwrap();
    told.extend(endpoints.iter().map(|it| format!("stats: {it:?}")));
}

async fn emails(told: &mut Vec<String>, world: &World, workspace: WorkspaceId) {
    let (store, now) = (&world.store, world.now);
    let emails = list(told, "email", async |page| {
        store.emails(workspace, EmailFilter::default(), page, now).await.unwrap()
    })
    .await;
    for email in emails {
        told.push(format!("{:?}", store.email(workspace, email.id, now).await.unwrap().unwrap()));
        told.push(format!("{:?}", store.email_mime(workspace, email.id, now).await.unwrap().unwrap()));
        told.push(format!("{:?}", store.email_events(workspace, email.id, now).await.unwrap().unwrap()));
    }
}

async fn deliveries(told: &mut Vec<String>, world: &World, filled: &Filled, workspace: WorkspaceId) {
    let plain = DeliveryFilter::default;
    let mut filters = vec![plain()];
    filters.extend(STATES.map(|state| DeliveryFilter { state: Some(state.into()), ..plain() }));
    filters.extend(filled.webhooks.iter().map(|id| DeliveryFilter { webhook: Some(*id), ..plain() }));
    filters.extend(filled.destinations.iter().map(|id| DeliveryFilter { destination: Some(*id), ..plain() }));
    for filter in filters {
        let found = list(told, &format!("{filter:?}"), async |page| {
            world.store.deliveries(workspace, filter.clone(), page, world.now).await.unwrap()
        })
        .await;
        for delivery in found.iter().filter(|_| filter == plain()) {
            let whole = world.store.delivery(workspace, delivery.id, world.now).await.unwrap().unwrap();
            told.push(format!("{whole:?}"));
        }
    }
}

/// Attempts logs, and what replays and bulk retries would take.
async fn logs(told: &mut Vec<String>, world: &World, filled: &Filled) {
    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    let statuses = [None, Some(LogStatus::Pending), Some(LogStatus::Delivered), Some(LogStatus::Failed)];
    for webhook in &filled.webhooks {
        for status in statuses {
            let filter = LogFilter { status, ..LogFilter::default() };
            let log = store.attempts(workspace, *webhook, filter, None, 100, now).await.unwrap().unwrap();
            told.extend(log.0.iter().map(|line| format!("{status:?} {line:?}")));
        }
        let count = store.count_replay(workspace, *webhook, world.always(), now).await.unwrap();
        told.push(format!("to replay: {count:?}"));
    }
    for destination in &filled.destinations {
        let always = world.always();
        let bulk = BulkRetry { since: always.since, until: always.until, state: "failed".into() };
        let count = store.count_bulk_retry(workspace, *destination, bulk).await.unwrap();
        told.push(format!("to retry: {count}"));
    }
}

/// All pages of a list, and how many there are in all.
async fn list<T: Debug>(told: &mut Vec<String>, name: &str, read: impl AsyncFn(Page) -> Paged<T>) -> Vec<T> {
    let (mut found, mut next): (Vec<T>, Option<Key>) = (Vec::new(), None);
    loop {
        let start = next.map_or(Start::Newest, Start::After);
        let page = read(Page { limit: PAGE, start, total: true }).await;
        told.push(format!("{name}: {:?} in all", page.total));
        found.extend(page.items);
        next = page.next;
        if next.is_none() {
            told.extend(found.iter().map(|item| format!("{name}: {item:?}")));
            return found;
        }
    }
}
