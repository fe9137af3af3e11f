//! Promises of the methods that read.

use std::sync::Arc;

use restante_core::id::{DeliveryId, RequestId, Tail};
use restante_core::message::MessageId;
use tokio::task::JoinSet;

use super::{World, ok};
use crate::row::{DeliveryFilter, Request, RequestFilter};
use crate::{Accepted, Grant, Page, Paged, Start, Store};

async fn page(world: &World, filter: RequestFilter, page: Page) -> Paged<Request> {
    world.store.requests(world.workspace, filter, page, world.now).await.unwrap()
}

async fn all_pages(world: &World, filter: RequestFilter, limit: usize) -> Vec<RequestId> {
    let (mut ids, mut wanted) = (Vec::new(), Page::newest(limit));
    loop {
        let found = page(world, filter.clone(), wanted).await;
        ids.extend(found.items.iter().map(|it| it.id));
        match found.next {
            Some(next) => wanted.start = Start::After(next),
            None => return ids,
        }
    }
}

pub async fn pages_are_newest_first_and_stay_put(mut world: World) {
    let source = world.source("list").await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.insert(0, world.receive(&source).await);
    }
    let first = page(&world, RequestFilter::default(), Page::newest(3)).await;
    assert_eq!(first.items.iter().map(|it| it.id).collect::<Vec<_>>(), ids[..3]);
    assert_eq!((first.prev, first.total), (None, None));
    let newer = world.receive(&source).await;
    let start = Start::After(first.next.unwrap());
    let second = page(&world, RequestFilter::default(), Page { start, ..Page::newest(3) }).await;
    assert_eq!(second.items.iter().map(|it| it.id).collect::<Vec<_>>(), ids[3..6]);
    ids.insert(0, newer);
    for limit in [1, 2, 8, 100] {
        assert_eq!(all_pages(&world, RequestFilter::default(), limit).await, ids, "{limit} on a page");
    }
}

pub async fn pages_go_back_and_forth(mut world: World) {
    let source = world.source("list").await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, world.receive(&source).await);
    }
    let at = |start| Page { start, ..Page::newest(2) };
    let last = page(&world, RequestFilter::default(), at(Start::After(ids[3].key()))).await;
    assert_eq!((last.items.len(), last.items[0].id, last.next), (1, ids[4], None));
    let middle = page(&world, RequestFilter::default(), at(Start::Before(last.prev.unwrap()))).await;
    assert_eq!(middle.items.iter().map(|it| it.id).collect::<Vec<_>>(), ids[2..4]);
    assert_eq!(middle.next, Some(ids[3].key()));
    let first = page(&world, RequestFilter::default(), at(Start::Before(middle.prev.unwrap()))).await;
    assert_eq!(first.items.iter().map(|it| it.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(first.prev, None, "there is nothing newer");
    let beyond = page(&world, RequestFilter::default(), at(Start::After(ids[4].key()))).await;
    assert_eq!((beyond.items.len(), beyond.next), (0, None));
}

pub async fn a_total_counts_all_matches(mut world: World) {
    let (source, other) = (world.source("one").await, world.source("two").await);
    for _ in 0..3 {
        world.receive(&source).await;
        world.receive(&other).await;
    }
    let counted = Page { total: true, ..Page::newest(2) };
    assert_eq!(page(&world, RequestFilter::default(), counted).await.total, Some(6));
    let filter = RequestFilter { source: Some(source.id), ..RequestFilter::default() };
    assert_eq!(page(&world, filter, counted).await.total, Some(3));
}

pub async fn both_sides_of_the_index_are_read(mut world: World) {
    let (source, destination) = world.pair().await;
    let (other, _) = world.pair().await;
    let mut ids = Vec::new();
    for round in 0..3 {
        ids.extend(receive_many(&mut world, &source.token, 3000).await);
        receive_many(&mut world, &other.token, 300).await;
        if round == 1 {
            // Writes out what waits for the index; the last round lies behind it.
            world.prune().await;
        }
    }
    world.tray.take();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let filter = RequestFilter { source: Some(source.id), ..RequestFilter::default() };
    assert_eq!(all_pages(&world, filter.clone(), 100).await, ids);
    let world = world.crash().await;
    assert_eq!(all_pages(&world, filter, 100).await, ids, "also after a crash");
    let filter = DeliveryFilter { destination: Some(destination), ..DeliveryFilter::default() };
    let counted = Page { total: true, ..Page::newest(5) };
    let deliveries = world.store.deliveries(world.workspace, filter, counted, world.now).await.unwrap();
    let newest = ids[..5].iter().copied().map(MessageId::Request);
    assert!(deliveries.items.iter().map(|it| it.message).eq(newest));
    assert_eq!(deliveries.total, Some(9000));
}

async fn receive_many(world: &mut World, token: &str, count: usize) -> Vec<RequestId> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let (store, incoming): (Arc<dyn Store>, _) = (Arc::clone(&world.store), world.incoming(token, ""));
        calls.spawn(async move { store.accept(incoming).await.unwrap() });
    }
    // The clock stands: what comes next has the very next key.
    calls
        .join_all()
        .await
        .into_iter()
        .map(|answer| {
            let Accepted::Fresh { id, .. } = answer else { panic!("{answer:?}") };
            id
        })
        .collect()
}

pub async fn workspaces_do_not_see_each_others_messages(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    let other = world.new_workspace("second").await;
    let (store, now, id) = (&world.store, world.now, parcel.request());
    assert!(store.request(other, id, now).await.unwrap().is_none());
    assert!(store.request_body(other, id, now).await.unwrap().is_none());
    assert!(store.delivery(other, parcel.lease.delivery, now).await.unwrap().is_none());
    assert!(!store.erase(other, id, now).await.unwrap());
    let counted = Page { total: true, ..Page::newest(9) };
    for source in [None, Some(source.id)] {
        let filter = RequestFilter { source, ..RequestFilter::default() };
        let found = store.requests(other, filter, counted, now).await.unwrap();
        assert_eq!((found.items.len(), found.total), (0, Some(0)));
    }
    let filters = [
        DeliveryFilter::default(),
        DeliveryFilter { request: Some(id), ..DeliveryFilter::default() },
        DeliveryFilter { source: Some(source.id), ..DeliveryFilter::default() },
        DeliveryFilter { destination: Some(destination), ..DeliveryFilter::default() },
    ];
    for filter in filters {
        let found = store.deliveries(other, filter.clone(), counted, now).await.unwrap();
        assert_eq!((found.items.len(), found.total), (0, Some(0)));
        let ours = store.deliveries(world.workspace, filter, counted, now).await.unwrap();
        assert_eq!((ours.items.len(), ours.total), (1, Some(1)));
    }
    let nobody = store.ledger(other, Page::newest(9)).await.unwrap();
    assert!(nobody.items.is_empty());
}

pub async fn an_id_with_another_random_part_is_not_found(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    let tail = Tail::from_bits(parcel.request().tail().value() ^ 1);
    let (request, delivery) =
        (RequestId::new(parcel.request().key(), tail), DeliveryId::new(parcel.lease.delivery.key(), tail));
    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    assert!(store.request(workspace, request, now).await.unwrap().is_none());
    assert!(store.request_body(workspace, request, now).await.unwrap().is_none());
    assert!(store.delivery(workspace, delivery, now).await.unwrap().is_none());
    assert!(!store.erase(workspace, request, now).await.unwrap());
    // The key of the one is no key of the other.
    let crossed = RequestId::new(parcel.lease.delivery.key(), parcel.request().tail());
    assert!(store.request(workspace, crossed, now).await.unwrap().is_none());
}

pub async fn a_ledger_is_read_by_pages(mut world: World) {
    for delta in 1..=5 {
        world.store.grant(world.workspace, Grant::Delta(delta), String::new(), world.now).await.unwrap();
        world.pass(1);
    }
    let counted = Page { total: true, ..Page::newest(2) };
    let first = world.store.ledger(world.workspace, counted).await.unwrap();
    assert_eq!(first.items.iter().map(|it| it.delta).collect::<Vec<_>>(), [5, 4]);
    assert_eq!((first.total, first.prev), (Some(5), None));
    let start = Start::After(first.next.unwrap());
    let second = world.store.ledger(world.workspace, Page { start, ..counted }).await.unwrap();
    assert_eq!(second.items.iter().map(|it| it.delta).collect::<Vec<_>>(), [3, 2]);
    let start = Start::Before(second.prev.unwrap());
    let back = world.store.ledger(world.workspace, Page { start, ..counted }).await.unwrap();
    assert_eq!(back.items, first.items);
}

pub async fn vitals_count_leases(mut world: World) {
    let (source, _) = world.pair().await;
    let parcels = [world.send(&source).await, world.send(&source).await];
    let vitals = world.store.health().await.unwrap();
    assert_eq!((vitals.leased, vitals.oldest_due), (2, None));
    assert!(vitals.content_bytes > 0);
    for parcel in &parcels {
        world.settle(parcel, super::failed()).await;
    }
    let oldest = world.delivery(parcels[0].lease.delivery).await.life.due_at;
    drop(parcels);
    // A commit, for the numbers to follow.
    let last = world.send(&source).await;
    world.settle(&last, ok()).await;
    drop(last);
    world.claim().await;
    let vitals = world.store.health().await.unwrap();
    assert_eq!((vitals.leased, vitals.oldest_due, vitals.content_bytes), (0, Some(oldest), 0));
}

/// How many commits hold at most one item, and how many there are.
fn commits(world: &World) -> (u64, u64) {
    let items = world.store.commits().items.cumulative();
    let durations = world.store.commits().duration_us.cumulative();
    let (single, all) = (items[0].1, items[items.len() - 1].1);
    assert_eq!(durations[durations.len() - 1].1, all, "each has a duration");
    (single, all)
}

pub async fn commits_are_counted(mut world: World) {
    let (source, _) = world.pair().await;
    let (single, all) = commits(&world);
    world.send(&source).await;
    assert_eq!(commits(&world), (single + 1, all + 1));
    let requests: Vec<_> = (0..20).map(|_| world.incoming(&source.token, "together")).collect();
    let sum = world.store.commits().items.sum();
    let mut calls = JoinSet::new();
    for incoming in requests {
        let store = Arc::clone(&world.store);
        calls.spawn(async move { store.accept(incoming).await.unwrap() });
    }
    assert_eq!(calls.join_all().await.len(), 20);
    assert_eq!(world.store.commits().items.sum() - sum, 20, "whoever was answered was counted before");
    assert_eq!(world.store.commits().refused(), 0);
}

pub async fn connections_that_read_are_counted(world: World) {
    world.store.health().await.unwrap();
    let connections = world.store.connections();
    assert!(connections.in_use + connections.idle > 0, "{connections:?}");
    assert_eq!(connections.waiting, 0);
    assert!(
        connections.max.is_none_or(|max| connections.in_use + connections.idle <= max),
        "{connections:?}"
    );
}

pub async fn a_parcel_knows_when_its_attempt_was_due(mut world: World) {
    let (source, _) = world.pair().await;
    let first = world.send(&source).await;
    assert_eq!(first.due_at, world.now, "when it came");
    world.settle(&first, super::failed()).await;
    let planned = world.delivery(first.lease.delivery).await.life.due_at;
    assert!(planned > world.now);
    world.pass(100_000_000);
    world.claim().await;
    let second = world.parcel();
    assert_eq!((second.due_at, second.claimed_at), (planned, world.now));
}

pub async fn what_finds_no_room_is_late_too(mut world: World) {
    let (source, destination) = world.pair().await;
    for _ in 0..200 {
        world.receive(&source).await;
    }
    let leased = world.tray.take();
    assert!(!leased.is_empty() && leased.len() < 200, "{} leased", leased.len());
    let since = world.now;
    world.pass(60_000);
    world.claim().await;
    assert_eq!(world.store.health().await.unwrap().oldest_due, Some(since));

    world.change_destination(destination, |it| it.paused = true).await;
    world.claim().await;
    assert_eq!(world.store.health().await.unwrap().oldest_due, None, "a pause is no delay");
}
