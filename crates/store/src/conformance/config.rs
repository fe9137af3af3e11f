//! Promises of the methods for records.

use std::sync::Arc;

use restante_core::State;
use restante_core::delivery::CancelReason;
use restante_core::endpoint::{Destination, EndpointId, Sealed, Source, Webhook};
use restante_core::id::DeliveryId;
use restante_core::limits::WEBHOOKS_PER_WORKSPACE_MAX;
use tokio::task::JoinSet;

use super::{Origin, World, failed, ok};
use crate::record::{ApiKey, Kept, Kind, Mode, Quotas, Record, Template, TemplateText, Workspace, Written};
use crate::row::{DeliveryFilter, RequestFilter};
use crate::{Accepted, Page, Settled, Start, Withdraw};

async fn make<T: Kept>(world: &mut World, parent: Option<u128>, body: T) -> Written<T> {
    let tail = world.tail();
    world.store.make(Some(world.workspace), parent, body, tail, world.now).await.unwrap()
}

async fn source_record(world: &World, source: &Origin) -> Record<Source> {
    world.store.get::<Source>(world.workspace, source.id).await.unwrap().unwrap()
}

pub async fn names_are_unique_among_the_living_of_a_workspace(mut world: World) {
    let first = world.source("orders").await;
    let second = world.source("invoices").await;
    let mut taken = source_record(&world, &first).await.body;
    taken.token = "another".into();
    assert_eq!(make(&mut world, None, taken.clone()).await, Written::NameTaken);
    let mut record = source_record(&world, &second).await;
    record.body.name = "orders".into();
    assert_eq!(world.store.put(record, world.now).await.unwrap(), Written::NameTaken);
    // To keep one's own name is no clash.
    world.change_source(first.id, |source| source.retention_days = 7).await;

    let other = world.new_workspace("second").await;
    let tail = world.tail();
    let theirs = world.store.make(Some(other), None, taken.clone(), tail, world.now).await.unwrap();
    assert!(matches!(theirs, Written::Done(_)));
    world.delete_source(first.id).await;
    taken.token = "a third".into();
    assert!(matches!(make(&mut world, None, taken).await, Written::Done(_)), "the name is free again");
}

pub async fn a_lookup_is_unique_among_the_living(mut world: World) {
    let key = ApiKey {
        name: "key".into(),
        mode: Mode::Live,
        scopes: Vec::new(),
        hash: "abc".into(),
        last4: "wxyz".into(),
        revoked_at: None,
        last_used_at: None,
    };
    let Written::Done(first) = make(&mut world, None, key.clone()).await else { panic!("it was refused") };
    assert_eq!(make(&mut world, None, key.clone()).await, Written::NameTaken);
    assert_eq!(world.store.find::<ApiKey>("abc").await.unwrap().unwrap().id, first.id);
    world.store.delete(Kind::ApiKey, world.workspace, first.id.uuid(), world.now).await.unwrap();
    assert!(world.store.find::<ApiKey>("abc").await.unwrap().is_none());
    assert!(matches!(make(&mut world, None, key).await, Written::Done(_)));
}

pub async fn an_old_version_does_not_overwrite(mut world: World) {
    let source = world.source("orders").await;
    let read = source_record(&world, &source).await;
    let (mut one, mut other) = (read.clone(), read);
    one.body.retention_days = 1;
    other.body.retention_days = 2;
    world.pass(5);
    let Written::Done(written) = world.store.put(one, world.now).await.unwrap() else {
        panic!("it was refused")
    };
    assert_eq!((written.version, written.updated_at), (2, world.now));
    assert_eq!(world.store.put(other, world.now).await.unwrap(), Written::Stale);
    assert_eq!(source_record(&world, &source).await.body.retention_days, 1);
    world.delete_source(source.id).await;
    assert_eq!(world.store.put(written, world.now).await.unwrap(), Written::NotFound);
}

pub async fn a_parent_must_be_living_and_of_the_same_workspace(mut world: World) {
    let (source, destination) = world.pair().await;
    let body = world.store.get::<Destination>(world.workspace, destination).await.unwrap().unwrap().body;
    let parent = Some(source.id.uuid());
    let (other, tail) = (world.new_workspace("second").await, world.tail());
    let theirs = world.store.make(Some(other), parent, body.clone(), tail, world.now).await.unwrap();
    assert_eq!(theirs, Written::NotFound);
    let of_a_destination = make(&mut world, Some(destination.uuid()), body.clone()).await;
    assert_eq!(of_a_destination, Written::NotFound);
    world.delete_source(source.id).await;
    assert_eq!(make(&mut world, parent, body).await, Written::NotFound);
}

pub async fn records_are_listed_newest_first_by_parent(mut world: World) {
    let (source, _) = world.pair().await;
    let (other, _) = world.pair().await;
    let mut ids = vec![];
    for _ in 0..4 {
        world.destination(&other).await;
        ids.insert(0, world.destination(&source).await);
    }
    world.delete_destination(ids.remove(1)).await;
    let parent = Some(source.id.uuid());
    let mut page = Page { total: true, ..Page::newest(2) };
    let first = world.store.list::<Destination>(Some(world.workspace), parent, page).await.unwrap();
    assert_eq!(first.items.iter().map(|it| it.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!((first.total, first.prev), (Some(4), None));
    page.start = Start::After(first.next.unwrap());
    let second = world.store.list::<Destination>(Some(world.workspace), parent, page).await.unwrap();
    assert_eq!((second.items.len(), second.items[0].id, second.next), (2, ids[2], None));
    page.start = Start::Before(second.prev.unwrap());
    let back = world.store.list::<Destination>(Some(world.workspace), parent, page).await.unwrap();
    assert_eq!((back.items, back.prev), (first.items, None));
}

pub async fn a_changed_source_keeps_its_destinations(mut world: World) {
    let (source, destination) = world.pair().await;
    world.change_source(source.id, |source| source.retention_days = 3).await;
    assert_eq!(world.send(&source).await.endpoint.id, EndpointId::Destination(destination));
    let mut world = world.crash().await;
    assert_eq!(world.send(&source).await.endpoint.id, EndpointId::Destination(destination));
}

pub async fn a_rotated_token_lets_in_only_the_new_one(mut world: World) {
    let (mut source, _) = world.pair().await;
    world.change_source(source.id, |source| source.token = "new".into()).await;
    let old = world.incoming(&source.token, "hello");
    assert_eq!(world.store.accept(old).await.unwrap(), Accepted::UnknownSource);
    source.token = "new".into();
    world.send(&source).await;
    assert_eq!(world.store.find::<Source>("new").await.unwrap().unwrap().id, source.id);
}

/// A pending delivery of the only destination of `source`.
async fn pending(world: &mut World, source: &Origin) -> DeliveryId {
    let parcel = world.send(source).await;
    world.settle(&parcel, failed()).await;
    parcel.lease.delivery
}

async fn is_cancelled(world: &World, delivery: DeliveryId, reason: CancelReason) {
    assert_eq!(world.state(delivery).await, State::Cancelled(reason));
    let filter = DeliveryFilter { state: Some("cancelled".into()), ..DeliveryFilter::default() };
    let listed = world.store.deliveries(world.workspace, filter, Page::newest(9), world.now).await.unwrap();
    assert!(listed.items.iter().any(|it| it.id == delivery), "{reason:?}");
    let filter = DeliveryFilter { state: Some("pending".into()), ..DeliveryFilter::default() };
    let listed = world.store.deliveries(world.workspace, filter, Page::newest(9), world.now).await.unwrap();
    assert!(listed.items.is_empty(), "{reason:?}");
}

pub async fn deleting_a_destination_cancels_what_is_pending(mut world: World) {
    let (source, destination) = world.pair().await;
    let delivery = pending(&mut world, &source).await;
    world.delete_destination(destination).await;
    assert_eq!(world.tray.take_withdrawals(), [Withdraw::Endpoint(EndpointId::Destination(destination))]);
    is_cancelled(&world, delivery, CancelReason::EndpointDeleted).await;
    world.pass(3_600_000);
    assert_eq!(world.claim().await.count, 0);
    let world = world.crash().await;
    is_cancelled(&world, delivery, CancelReason::EndpointDeleted).await;
    world.prune().await;
    is_cancelled(&world, delivery, CancelReason::EndpointDeleted).await;
    let mut world = world.crash().await;
    is_cancelled(&world, delivery, CancelReason::EndpointDeleted).await;
    let id = world.receive(&source).await;
    assert!(world.request(id).await.deliveries.is_empty());
    assert!(
        !world.store.delete(Kind::Destination, world.workspace, destination.uuid(), world.now).await.unwrap()
    );
}

pub async fn deleting_a_source_takes_everything_along(mut world: World) {
    let (source, destination) = world.pair().await;
    let delivery = pending(&mut world, &source).await;
    world.delete_source(source.id).await;
    let incoming = world.incoming(&source.token, "hello");
    assert_eq!(world.store.accept(incoming).await.unwrap(), Accepted::UnknownSource);
    assert!(world.store.get::<Destination>(world.workspace, destination).await.unwrap().is_none());
    is_cancelled(&world, delivery, CancelReason::SourceDeleted).await;
    let world = world.crash().await;
    is_cancelled(&world, delivery, CancelReason::SourceDeleted).await;
    world.prune().await;
    is_cancelled(&world, delivery, CancelReason::SourceDeleted).await;
    let filter = RequestFilter { source: Some(source.id), ..RequestFilter::default() };
    let requests = world.store.requests(world.workspace, filter, Page::newest(9), world.now).await.unwrap();
    assert_eq!(requests.items.len(), 1, "its requests stay readable");
}

pub async fn a_destination_that_died_first_keeps_its_reason(mut world: World) {
    let (source, first) = world.pair().await;
    let delivery = pending(&mut world, &source).await;
    world.destination(&source).await;
    world.receive(&source).await;
    let with_source = world
        .tray
        .take()
        .iter()
        .find(|it| it.endpoint.id != EndpointId::Destination(first))
        .unwrap()
        .lease
        .delivery;
    world.store.cancel(world.workspace, with_source, world.now).await.unwrap();
    // In the same millisecond.
    world.delete_destination(first).await;
    world.delete_source(source.id).await;
    assert_eq!(world.state(delivery).await, State::Cancelled(CancelReason::EndpointDeleted));
    let world = world.crash().await;
    assert_eq!(world.state(delivery).await, State::Cancelled(CancelReason::EndpointDeleted));
    world.prune().await;
    assert_eq!(world.state(delivery).await, State::Cancelled(CancelReason::EndpointDeleted));
}

pub async fn an_attempt_in_flight_outlives_its_destination(mut world: World) {
    let (source, destination) = world.pair().await;
    let [delivers, fails, released] =
        [world.send(&source).await, world.send(&source).await, world.send(&source).await];
    world.delete_destination(destination).await;
    assert!(delivers.endpoint.settings().gone);
    assert!(matches!(world.settle(&delivers, ok()).await, Settled::Done(_)));
    world.settle(&fails, failed()).await;
    world.release(released.lease).await;
    assert_eq!(world.state(delivers.lease.delivery).await, State::Delivered);
    for parcel in [fails, released] {
        let state = world.state(parcel.lease.delivery).await;
        assert_eq!(state, State::Cancelled(CancelReason::EndpointDeleted));
    }
    assert_eq!(world.store.health().await.unwrap().leased, 0);
}

pub async fn workspaces_do_not_see_each_others_records(mut world: World) {
    let (source, destination) = world.pair().await;
    let other = world.new_workspace("second").await;
    assert!(world.store.get::<Source>(other, source.id).await.unwrap().is_none());
    assert!(world.store.get::<Destination>(other, destination).await.unwrap().is_none());
    let page = Page { total: true, ..Page::newest(9) };
    let theirs = world.store.list::<Source>(Some(other), None, page).await.unwrap();
    assert_eq!((theirs.items.len(), theirs.total), (0, Some(0)));
    let theirs = world.store.list::<Destination>(Some(other), Some(source.id.uuid()), page).await.unwrap();
    assert_eq!((theirs.items.len(), theirs.total), (0, Some(0)));
    assert_eq!(world.store.list::<Source>(None, None, page).await.unwrap().total, Some(1), "of all");

    let mut record = source_record(&world, &source).await;
    record.workspace = other;
    assert_eq!(world.store.put(record, world.now).await.unwrap(), Written::NotFound);
    for (kind, uuid) in [(Kind::Source, source.id.uuid()), (Kind::Destination, destination.uuid())] {
        assert!(!world.store.delete(kind, other, uuid, world.now).await.unwrap());
    }
    world.send(&source).await;
}

pub async fn endpoints_follow_a_change_at_once(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.change_destination(destination, |it| it.url = "https://b.example".into()).await;
    let settings = parcel.endpoint.settings();
    assert_eq!((settings.receiver.url(), settings.version), ("https://b.example", 2));
    assert!(world.tray.take_withdrawals().is_empty());
    world.change_destination(destination, |it| it.paused = true).await;
    assert_eq!(world.tray.take_withdrawals(), [Withdraw::Endpoint(EndpointId::Destination(destination))]);
    assert!(parcel.endpoint.settings().receiver.is_paused());
    world.release(parcel.lease).await;
    assert_eq!(world.state(parcel.lease.delivery).await, State::Pending);
    world.change_destination(destination, |it| it.paused = false).await;
    world.claim().await;
    assert!(Arc::ptr_eq(&world.parcel().endpoint, &parcel.endpoint), "there is one of each");
}

pub async fn a_workspace_has_at_most_a_thousand_webhooks(mut world: World) {
    let first = world.webhook().await;
    let body = world.store.get::<Webhook>(world.workspace, first).await.unwrap().unwrap().body;
    let mut calls = JoinSet::new();
    for _ in 0..WEBHOOKS_PER_WORKSPACE_MAX + 10 {
        let (store, body, tail) = (Arc::clone(&world.store), body.clone(), world.tail());
        let (workspace, now) = (world.workspace, world.now);
        calls.spawn(async move { store.make(Some(workspace), None, body, tail, now).await.unwrap() });
    }
    let made = calls.join_all().await;
    let refused = made.iter().filter(|it| matches!(it, Written::TooMany)).count();
    assert_eq!((refused, made.len()), (11, 1010));
    world.delete_webhook(first).await;
    assert!(matches!(make(&mut world, None, body.clone()).await, Written::Done(_)), "there is room again");
    assert_eq!(make(&mut world, None, body.clone()).await, Written::TooMany);
    world.workspace = world.new_workspace("second").await;
    assert!(matches!(make(&mut world, None, body).await, Written::Done(_)), "the limit is each one's own");
}

fn template(number: usize) -> Template {
    let draft = TemplateText { subject: "s".into(), html: None, text: None, props: serde_json::Map::new() };
    let (name, slug) = (format!("template {number}"), format!("template-{number}"));
    Template { name, slug, description: None, draft, published: None }
}

async fn set_quotas(world: &World, quotas: Quotas) {
    let mut workspace =
        world.store.get::<Workspace>(world.workspace, world.workspace).await.unwrap().unwrap();
    workspace.body.quotas = quotas;
    assert!(matches!(world.store.put(workspace, world.now).await.unwrap(), Written::Done(_)));
}

pub async fn a_quota_holds_also_for_calls_at_the_same_time(mut world: World) {
    set_quotas(&world, Quotas { webhooks: Some(3), templates: Some(5), ..Quotas::default() }).await;
    let mut calls = JoinSet::new();
    for number in 0..20 {
        let (store, body, tail) = (Arc::clone(&world.store), template(number), world.tail());
        let (workspace, now) = (world.workspace, world.now);
        calls.spawn(async move { store.make(Some(workspace), None, body, tail, now).await.unwrap() });
    }
    let made = calls.join_all().await;
    let refused = made.iter().filter(|it| matches!(it, Written::TooMany)).count();
    assert_eq!((made.len(), refused), (20, 15));

    let first = world.webhook().await;
    let body = world.store.get::<Webhook>(world.workspace, first).await.unwrap().unwrap().body;
    for _ in 0..2 {
        assert!(matches!(make(&mut world, None, body.clone()).await, Written::Done(_)));
    }
    assert_eq!(make(&mut world, None, body.clone()).await, Written::TooMany);
    world.source("without a quota").await;
    world.workspace = world.new_workspace("second").await;
    assert!(matches!(make(&mut world, None, body).await, Written::Done(_)), "quotas are each one's own");
}

pub async fn a_lowered_quota_takes_nothing_away(mut world: World) {
    let sources = [world.source("a").await, world.source("b").await];
    set_quotas(&world, Quotas { sources: Some(1), ..Quotas::default() }).await;
    let body = source_record(&world, &sources[0]).await.body;
    let another = |name: &str| Source { name: name.into(), token: format!("token-{name}"), ..body.clone() };
    assert_eq!(make(&mut world, None, another("c")).await, Written::TooMany);
    for source in &sources {
        world.receive(source).await;
    }
    set_quotas(&world, Quotas::default()).await;
    assert!(matches!(make(&mut world, None, another("c")).await, Written::Done(_)));
}

pub async fn the_first_word_for_secrets_is_kept(world: World) {
    let word = |text: &str| Some(Sealed(text.into()));
    assert_eq!(world.store.secret_check(None).await.unwrap(), None);
    assert_eq!(world.store.secret_check(word("first")).await.unwrap(), word("first"));
    assert_eq!(world.store.secret_check(word("second")).await.unwrap(), word("first"));
    let world = world.crash().await;
    assert_eq!(world.store.secret_check(None).await.unwrap(), word("first"));
}
