//! Promises of [`Store::publish`](crate::Store::publish) and of reading what it stored.

use bytes::Bytes;
use restante_core::State;
use restante_core::endpoint::EndpointId;
use restante_core::event::EventType;
use restante_core::id::{DeliveryId, EventId, RequestId, WebhookId, WorkspaceId};
use restante_core::message::MessageId;

use super::{World, failed, filters, ok};
use crate::row::{self, DeliveryFilter, EventFilter, LogFilter, RequestFilter, Trigger};
use crate::{Changed, NewEvent, Page, Published, Retried, Start};

/// The webhooks that an event has deliveries to, oldest first.
fn receivers(event: &row::Event) -> Vec<EndpointId> {
    event.deliveries.iter().map(|delivery| delivery.endpoint).collect()
}

async fn events(world: &World, filter: EventFilter) -> Vec<EventId> {
    let page = Page { total: true, ..Page::newest(100) };
    let found = world.store.events(world.workspace, filter, page, world.now).await.unwrap();
    assert_eq!(found.total, Some(found.items.len() as u64));
    found.items.iter().map(|it| it.id).collect()
}

async fn deliveries(world: &World, filter: DeliveryFilter) -> Vec<DeliveryId> {
    let page = Page { total: true, ..Page::newest(100) };
    let found = world.store.deliveries(world.workspace, filter, page, world.now).await.unwrap();
    assert_eq!(found.total, Some(found.items.len() as u64));
    found.items.iter().map(|it| it.id).collect()
}

pub async fn an_event_goes_to_every_webhook_that_wants_its_type(mut world: World) {
    let exact = world.webhook_for(&["order.paid"]).await;
    let below = world.webhook_for(&["order.*"]).await;
    let deeper = world.webhook_for(&["order.paid.late"]).await;
    let all = world.webhook_for(&["*"]).await;
    let twice = world.webhook_for(&["invoice.sent", "order.paid", "order.*"]).await;
    let other = world.webhook_for(&["orders.*", "invoice.*"]).await;
    let table: [(&str, &[WebhookId]); 4] = [
        ("order.paid", &[exact, below, all, twice]),
        ("order.paid.late", &[below, deeper, all, twice]),
        ("orders.paid", &[all, other]),
        ("invoice.sent", &[all, twice, other]),
    ];
    for (event_type, wanted) in table {
        let wanted: Vec<_> = wanted.iter().copied().map(EndpointId::Webhook).collect();
        let receipt = world.publish(event_type).await;
        assert_eq!(receipt.deliveries as usize, wanted.len(), "{event_type}");
        let parcels = world.tray.take();
        assert!(parcels.iter().all(|it| it.event() == receipt.id && it.lease.attempt == 1));
        assert_eq!(parcels.iter().map(|it| it.endpoint.id).collect::<Vec<_>>(), wanted, "{event_type}");
        let event = world.event(receipt.id).await;
        assert_eq!((receivers(&event), event.fanout as usize), (wanted.clone(), wanted.len()));
        assert!(event.deliveries.iter().all(|it| it.life.state == State::Sending));
        assert!(event.deliveries.iter().all(|it| it.attempts[0].trigger == Trigger::Automatic));
    }
}

pub async fn an_event_that_nobody_wants_is_stored(mut world: World) {
    world.webhook_for(&["invoice.*"]).await;
    let receipt = world.publish("order.paid").await;
    assert_eq!(receipt.deliveries, 0);
    let event = world.event(receipt.id).await;
    assert_eq!((event.fanout, event.deliveries.len(), event.created_at), (0, 0, world.now));
    assert!(world.tray.take().is_empty());
}

pub async fn every_receiver_gets_the_same_bytes_at_every_attempt(mut world: World) {
    let body = Bytes::from_static("{\"data\":1.0e+2,\"ä\\u00e4\":\" \"}".as_bytes());
    for _ in 0..3 {
        world.webhook().await;
    }
    let mut publishing = world.publishing(&["order.paid"]);
    publishing.events[0].body = body.clone();
    let id = world.publish_this(publishing).await[0].id;
    let first = world.tray.take();
    for parcel in &first {
        world.settle(parcel, failed()).await;
    }
    let mut world = world.crash().await;
    world.pass(5000);
    let second = world.claim_all().await;
    assert_eq!((first.len(), second.len()), (3, 3));
    for parcel in first.iter().chain(&second) {
        assert_eq!((parcel.event(), parcel.content.message.body()), (id, &body));
        assert_eq!(parcel.expires_at, None, "an event does not end while it is being delivered");
    }
    let event = world.event(id).await;
    assert_eq!((event.body, event.event_type.as_str()), (body, "order.paid"));
}

pub async fn a_batch_is_stored_whole_and_in_order(mut world: World) {
    world.webhook_for(&["order.*"]).await;
    world.webhook_for(&["order.paid"]).await;
    let publishing = world.publishing(&["order.paid", "invoice.sent", "order.late", "order.paid"]);
    let receipts = world.publish_this(publishing).await;
    assert_eq!(receipts.iter().map(|it| it.deliveries).collect::<Vec<_>>(), [2, 0, 1, 2]);
    let mut ids: Vec<_> = receipts.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted());
    let sent: Vec<_> = world.tray.take().iter().map(|it| it.event()).collect();
    assert_eq!(sent, [ids[0], ids[0], ids[2], ids[3], ids[3]]);
    ids.reverse();
    assert_eq!(events(&world, EventFilter::default()).await, ids);
    let world = world.crash().await;
    assert_eq!(events(&world, EventFilter::default()).await, ids);
}

pub async fn an_unknown_workspace_stores_nothing(mut world: World) {
    world.webhook().await;
    let mut publishing = world.publishing(&["order.paid"]);
    publishing.workspace = WorkspaceId::from_uuid(7);
    assert_eq!(world.store.publish(publishing).await.unwrap(), Published::NoWorkspace);
    assert!(world.tray.take().is_empty());
    assert!(events(&world, EventFilter::default()).await.is_empty());
}

pub async fn a_paused_webhook_gets_a_delivery_that_is_skipped(mut world: World) {
    let paused = world.webhook_with(|it| it.paused = true).await;
    let active = world.webhook().await;
    let receipt = world.publish("order.paid").await;
    assert_eq!(receipt.deliveries, 2, "who is paused wants it too");
    assert_eq!(world.parcel().endpoint.id, EndpointId::Webhook(active));
    let event = world.event(receipt.id).await;
    assert_eq!(receivers(&event), [paused, active].map(EndpointId::Webhook));
    let skipped = &event.deliveries[0];
    assert_eq!((skipped.life.state, skipped.life.ended_at), (State::Skipped, Some(world.now)));
    assert_eq!((skipped.life.attempts_made, skipped.attempts.len()), (0, 0));
    let filter = DeliveryFilter { state: Some("skipped".into()), ..DeliveryFilter::default() };
    assert_eq!(deliveries(&world, filter).await, [skipped.id]);
    world.activate(paused).await;
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty(), "it never resumes by itself");
}

pub async fn subscriptions_count_from_the_next_event(mut world: World) {
    world.publish("order.paid").await;
    let first = world.webhook_for(&["order.paid"]).await;
    assert_eq!(world.publish("order.paid").await.deliveries, 1);
    let second = world.webhook_for(&["order.*"]).await;
    assert_eq!(world.publish("order.paid").await.deliveries, 2);
    world.change_webhook(first, |it| it.events = filters(&["invoice.*"])).await;
    assert_eq!(world.publish("order.paid").await.deliveries, 1);
    assert_eq!(world.publish("invoice.sent").await.deliveries, 1);
    world.delete_webhook(second).await;
    let after = world.publish("order.paid").await;
    assert_eq!((after.deliveries, receivers(&world.event(after.id).await)), (0, vec![]));
    world.tray.take();
    let mut world = world.crash().await;
    assert_eq!(world.publish("order.paid").await.deliveries, 0);
    assert_eq!(world.publish("invoice.sent").await.deliveries, 1);
    assert_eq!(world.parcel().endpoint.id, EndpointId::Webhook(first));
}

pub async fn webhooks_of_other_workspaces_see_nothing(mut world: World) {
    let ours = world.webhook().await;
    let parcel = world.emit_and_settle(failed()).await;
    let (workspace, other) = (world.workspace, world.new_workspace("second").await);
    world.workspace = other;
    let theirs = world.webhook().await;
    let receipt = world.publish("order.paid").await;
    assert_eq!(receipt.deliveries, 1);
    assert_eq!(world.parcel().endpoint.id, EndpointId::Webhook(theirs));

    let (store, now) = (&world.store, world.now);
    assert!(store.event(other, parcel.event(), now).await.unwrap().is_none());
    assert!(store.event(workspace, receipt.id, now).await.unwrap().is_none());
    assert!(store.delivery(other, parcel.lease.delivery, now).await.unwrap().is_none());
    let log = store.attempts(other, ours, LogFilter::default(), None, 9, now).await.unwrap();
    assert!(log.is_none());
    assert_eq!(events(&world, EventFilter::default()).await, [receipt.id]);
    for filter in [
        DeliveryFilter { event: Some(parcel.event()), ..DeliveryFilter::default() },
        DeliveryFilter { webhook: Some(ours), ..DeliveryFilter::default() },
    ] {
        assert!(deliveries(&world, filter).await.is_empty());
    }
    assert_eq!(deliveries(&world, DeliveryFilter::default()).await.len(), 1);
    world.workspace = workspace;
    assert_eq!(events(&world, EventFilter::default()).await, [parcel.event()]);
    assert_eq!(deliveries(&world, DeliveryFilter::default()).await, [parcel.lease.delivery]);
}

pub async fn events_are_listed_newest_first_by_type_and_time(mut world: World) {
    let mut ids = Vec::new();
    for event_type in ["order.paid", "order.late", "order.paid", "order.paid", "invoice.sent"] {
        ids.push(world.publish(event_type).await.id);
        world.pass(1);
    }
    let at = |index: usize| Some(world.now - std::time::Duration::from_millis(5 - index as u64));
    let paid = EventType::parse("order.paid").ok();
    let all = EventFilter::default;
    assert_eq!(events(&world, all()).await, [ids[4], ids[3], ids[2], ids[1], ids[0]]);
    let of_type = EventFilter { event_type: paid.clone(), ..all() };
    assert_eq!(events(&world, of_type.clone()).await, [ids[3], ids[2], ids[0]]);
    let between = EventFilter { since: at(1), until: at(3), ..all() };
    assert_eq!(events(&world, between.clone()).await, [ids[3], ids[2], ids[1]]);
    assert_eq!(events(&world, EventFilter { event_type: paid, ..between }).await, [ids[3], ids[2]]);

    let at = |start| Page { start, ..Page::newest(2) };
    let page = |page| world.store.events(world.workspace, of_type.clone(), page, world.now);
    let first = page(Page::newest(2)).await.unwrap();
    assert_eq!(first.items.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[3], ids[2]]);
    assert!(first.items.iter().all(|it| it.deliveries.is_empty()));
    let second = page(at(Start::After(first.next.unwrap()))).await.unwrap();
    assert_eq!((second.items.len(), second.items[0].id, second.next), (1, ids[0], None));
    let back = page(at(Start::Before(second.prev.unwrap()))).await.unwrap();
    assert_eq!(back.items, first.items);
}

pub async fn requests_and_events_are_kept_apart(mut world: World) {
    let (source, destination) = world.pair().await;
    let webhook = world.webhook().await;
    let (received, published) = (world.send(&source).await, world.emit().await);
    let (request, event) = (received.request(), published.event());
    assert_eq!(events(&world, EventFilter::default()).await, [event]);
    let page = Page { total: true, ..Page::newest(9) };
    let requests = world.store.requests(world.workspace, RequestFilter::default(), page, world.now).await;
    let requests = requests.unwrap();
    assert_eq!((requests.items.len(), requests.items[0].id, requests.total), (1, request, Some(1)));

    let crossed = EventId::new(request.key(), request.tail());
    assert!(world.store.event(world.workspace, crossed, world.now).await.unwrap().is_none());
    let crossed = RequestId::new(event.key(), event.tail());
    assert!(world.store.request(world.workspace, crossed, world.now).await.unwrap().is_none());
    assert!(world.store.request_body(world.workspace, crossed, world.now).await.unwrap().is_none());
    assert!(!world.store.erase(world.workspace, crossed, world.now).await.unwrap());

    let all = DeliveryFilter::default;
    let (to_webhook, to_destination) = (published.lease.delivery, received.lease.delivery);
    let table = [
        (all(), vec![to_webhook, to_destination]),
        (DeliveryFilter { event: Some(event), ..all() }, vec![to_webhook]),
        (DeliveryFilter { webhook: Some(webhook), ..all() }, vec![to_webhook]),
        (DeliveryFilter { request: Some(request), ..all() }, vec![to_destination]),
        (DeliveryFilter { destination: Some(destination), ..all() }, vec![to_destination]),
        (DeliveryFilter { source: Some(source.id), ..all() }, vec![to_destination]),
        (DeliveryFilter { source: Some(source.id), webhook: Some(webhook), ..all() }, vec![]),
        (DeliveryFilter { request: Some(request), webhook: Some(webhook), ..all() }, vec![]),
    ];
    for (filter, expected) in table {
        assert_eq!(deliveries(&world, filter.clone()).await, expected, "{filter:?}");
    }
    let shown = world.delivery(to_webhook).await;
    assert_eq!((shown.message, shown.endpoint), (MessageId::Event(event), EndpointId::Webhook(webhook)));
}

pub async fn a_delivery_of_an_event_is_not_retried_by_hand(mut world: World) {
    world.one_try_webhook().await;
    let parcel = world.emit_and_settle(failed()).await;
    let retried = world.store.retry(world.workspace, parcel.lease.delivery, world.now).await.unwrap();
    assert_eq!(retried, Retried::OfAnEvent);
    assert!(world.claim_all().await.is_empty());
}

pub async fn deleting_a_webhook_cancels_what_is_pending(mut world: World) {
    let webhook = world.webhook().await;
    let pending = world.emit_and_settle(failed()).await;
    let in_flight = [world.emit().await, world.emit().await];
    world.delete_webhook(webhook).await;
    assert!(world.withdrew(webhook) && in_flight[0].endpoint.settings().gone);
    let deleted = State::Cancelled(restante_core::delivery::CancelReason::EndpointDeleted);
    assert_eq!(world.state(pending.lease.delivery).await, deleted);
    world.settle(&in_flight[0], failed()).await;
    world.settle(&in_flight[1], ok()).await;
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty());
    world.prune().await;
    for (parcel, expected) in
        [(&pending, deleted), (&in_flight[0], deleted), (&in_flight[1], State::Delivered)]
    {
        assert_eq!(world.state(parcel.lease.delivery).await, expected);
    }
    assert_eq!(events(&world, EventFilter::default()).await.len(), 3, "its events stay readable");
}

pub async fn listeners_are_told_of_events_and_their_deliveries(mut world: World) {
    world.webhook().await;
    let mut changes = world.store.changes();
    let parcel = world.emit_and_settle(ok()).await;
    let mut told = Vec::new();
    while let Ok(change) = changes.try_recv() {
        assert_eq!(change.workspace, world.workspace);
        told.push(change.what);
    }
    assert!(told.contains(&Changed::Event(parcel.event())));
    let delivery = Changed::Delivery(parcel.lease.delivery);
    assert_eq!(told.iter().filter(|what| **what == delivery).count(), 2, "begun and ended");
}

pub async fn one_slow_webhook_does_not_hold_up_another(mut world: World) {
    let slow = world.webhook().await;
    let quick = world.webhook().await;
    world.publish("order.paid").await;
    for parcel in world.tray.take() {
        if parcel.endpoint.id == EndpointId::Webhook(slow) {
            parcel.endpoint.set_leases_max(1);
        }
    }
    for _ in 0..20 {
        world.publish("order.paid").await;
    }
    let sent = world.tray.take();
    assert_eq!(sent.len(), 20);
    assert!(sent.iter().all(|it| it.endpoint.id == EndpointId::Webhook(quick)));
}

pub async fn a_large_batch_is_delivered_bit_by_bit(mut world: World) {
    world.webhook().await;
    let types = vec!["order.paid"; 500];
    let mut publishing = world.publishing(&types);
    for event in &mut publishing.events {
        *event =
            NewEvent { body: Bytes::from(vec![b'x'; 1000]), event_type: event.event_type.clone(), ..*event };
    }
    let receipts = world.publish_this(publishing).await;
    assert_eq!(receipts.len(), 500);
    let born = world.tray.take();
    assert!(!born.is_empty() && born.len() < 500, "a lane has room for some: {}", born.len());
    let finished = born.iter().map(|parcel| world.finished(parcel, ok())).collect();
    world.store.settle(finished).await.unwrap();
    let rest = world.run(ok()).await;
    let mut sent: Vec<_> = born.iter().chain(&rest).map(|it| it.event()).collect();
    sent.sort_unstable();
    assert_eq!(sent, receipts.iter().map(|it| it.id).collect::<Vec<_>>(), "each once");
}
