//! Promises of [`Store::accept`](crate::Store::accept).

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use restante_core::State;
use restante_core::endpoint::{Answer, DestinationKind, EndpointId};
use restante_core::id::{DeliveryId, WorkspaceId};
use restante_core::message::{Headers, Received};
use tokio::task::JoinSet;

use super::{World, ok};
use crate::row::{ChargeReason, RequestFilter, RequestState};
use crate::{Accepted, Changed, Claimed, Grant, Incoming, Judgement, Page, Settled};

pub async fn a_request_goes_to_every_destination_of_its_source(mut world: World) {
    let source = world.source("orders").await;
    let destinations = [world.destination(&source).await, world.destination(&source).await];
    let destinations = destinations.map(EndpointId::Destination);
    world.pair().await;
    let id = world.receive(&source).await;

    let parcels = world.tray.take();
    let sent: HashSet<_> = parcels.iter().map(|parcel| parcel.endpoint.id).collect();
    assert_eq!(sent, HashSet::from(destinations));
    assert!(parcels.iter().all(|parcel| parcel.request() == id && parcel.lease.attempt == 1));
    let request = world.request(id).await;
    let stored: Vec<_> = request.deliveries.iter().map(|delivery| delivery.endpoint).collect();
    assert_eq!(stored, destinations);
    assert!(request.deliveries.iter().all(|delivery| delivery.life.state == State::Sending));
}

pub async fn what_is_leased_at_birth_leaves_after_the_commit(mut world: World) {
    let (source, _) = world.pair().await;
    let (store, workspace, now) = (Arc::clone(&world.store), world.workspace, world.now);
    world.tray.watch(move |parcels| {
        for parcel in parcels {
            let (store, lease) = (Arc::clone(&store), parcel.lease);
            // A thread of its own: this one is the store's.
            let look = async move { store.delivery(workspace, lease.delivery, now).await };
            let seen = thread::spawn(|| runtime().block_on(look)).join().unwrap().unwrap();
            let seen = seen.expect("what is dispatched is durable");
            assert_eq!((seen.life.state, seen.life.attempts_made), (State::Sending, 1));
        }
    });
    world.receive(&source).await;
    world.parcel();
    world.tray.watch(|_| {});
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub async fn an_unknown_token_stores_nothing(mut world: World) {
    world.pair().await;
    let incoming = world.incoming("nobody", "hello");
    assert_eq!(world.store.accept(incoming).await.unwrap(), Accepted::UnknownSource);
    assert!(world.tray.take().is_empty());
    assert_eq!(stored(&world).await, 0);
}

async fn stored(world: &World) -> u64 {
    let page = Page { total: true, ..Page::newest(1) };
    let requests = world.store.requests(world.workspace, RequestFilter::default(), page, world.now).await;
    requests.unwrap().total.unwrap()
}

pub async fn a_source_without_destinations_is_an_inbox(mut world: World) {
    let source = world.source("inbox").await;
    let id = world.receive(&source).await;
    let request = world.request(id).await;
    assert_eq!((request.state(), request.deliveries.len()), (RequestState::None, 0));
    assert!(world.tray.take().is_empty());
}

pub async fn headers_and_body_come_back_byte_for_byte(mut world: World) {
    let source = world.source("bytes").await;
    let body = Bytes::from((0..=255u8).cycle().take(100_000).collect::<Vec<u8>>());
    let lines: [(&str, &[u8]); 3] = [("X-B", &[0xff, 0x80]), ("x-b", b""), ("X-B", b"2")];
    let received = Received {
        method: "PROPFIND".into(),
        path: "/a%2Fb//c".into(),
        query: Some("q=%20&q".into()),
        headers: lines.into_iter().collect::<Headers>(),
        body: body.clone(),
        remote_address: "2001:db8::1".into(),
    };
    let incoming = Incoming {
        token: source.token,
        received: received.clone(),
        judgement: Judgement::default(),
        now: world.now,
        tail: world.tail(),
    };
    let id = world.receive_this(incoming).await;

    let request = world.request(id).await;
    assert_eq!(request.headers, received.headers);
    assert_eq!(
        (request.method, request.path, request.query),
        ("PROPFIND".into(), "/a%2Fb//c".into(), received.query)
    );
    assert_eq!((request.body_bytes, request.remote_address), (100_000, "2001:db8::1".into()));
    assert_eq!(world.store.request_body(world.workspace, id, world.now).await.unwrap(), Some(body));
}

pub async fn the_answer_of_the_source_comes_with_the_request(mut world: World) {
    let answer = Answer { status: 201, content_type: "text/plain".into(), body: "thanks".into() };
    let own = answer.clone();
    let source = world.source_with("own answer", |source| source.response = Some(own)).await;
    let incoming = world.incoming(&source.token, "hello");
    let Accepted::Fresh { answer: given, .. } = world.store.accept(incoming).await.unwrap() else {
        panic!("it was refused");
    };
    assert_eq!(given.as_deref(), Some(&answer));
}

pub async fn credits_run_down_to_nothing_and_no_further(mut world: World) {
    let (source, _) = world.pair().await;
    grant(&world, world.workspace, Grant::Delta(2)).await;
    let paid = [world.receive(&source).await, world.receive(&source).await];
    let incoming = world.incoming(&source.token, "one too many");
    assert_eq!(world.store.accept(incoming).await.unwrap(), Accepted::CreditsExhausted);

    assert_eq!(world.store.balance(world.workspace).await.unwrap(), Some(0));
    assert_eq!((world.tray.take().len(), stored(&world).await), (2, 2));
    let ledger = world.store.ledger(world.workspace, Page::newest(10)).await.unwrap().items;
    let lines: Vec<_> = ledger.iter().map(|line| (line.delta, line.reason, line.reference.clone())).collect();
    assert_eq!(
        lines,
        [
            (-1, ChargeReason::Request, Some(paid[1].to_string())),
            (-1, ChargeReason::Request, Some(paid[0].to_string())),
            (2, ChargeReason::Grant, Some("note".into())),
        ]
    );
}

async fn grant(world: &World, workspace: WorkspaceId, grant: Grant) -> Option<i64> {
    world.store.grant(workspace, grant, "note".into(), world.now).await.unwrap()
}

pub async fn credits_are_not_overdrawn_by_calls_at_the_same_time(mut world: World) {
    let (source, _) = world.pair().await;
    grant(&world, world.workspace, Grant::Delta(5)).await;
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let incoming = world.incoming(&source.token, "hello");
        let store = Arc::clone(&world.store);
        calls.spawn(async move { store.accept(incoming).await.unwrap() });
    }
    let answers = calls.join_all().await;
    let fresh = answers.iter().filter(|answer| matches!(answer, Accepted::Fresh { .. })).count();
    assert_eq!((fresh, answers.len()), (5, 40));
    assert_eq!((world.store.balance(world.workspace).await.unwrap(), stored(&world).await), (Some(0), 5));
}

pub async fn the_ledger_adds_up_to_the_balance(mut world: World) {
    let (source, _) = world.pair().await;
    let (ours, other) = (world.workspace, world.new_workspace("second").await);
    assert_eq!(world.store.balance(ours).await.unwrap(), None);
    assert_eq!(grant(&world, ours, Grant::Delta(3)).await, Some(3));
    world.receive(&source).await;
    // More than there is: the balance stops at nothing, and the ledger says what that took.
    assert_eq!(grant(&world, ours, Grant::Delta(-10)).await, Some(0));
    assert_eq!(grant(&world, ours, Grant::Delta(7)).await, Some(7));
    assert_eq!(sum(&world, ours).await, 7);
    assert_eq!(grant(&world, ours, Grant::Unlimited).await, None);
    world.receive(&source).await;
    assert_eq!(grant(&world, ours, Grant::Delta(4)).await, Some(4));
    assert_eq!((sum(&world, ours).await, sum(&world, other).await), (4, 0));
    assert_eq!(world.store.balance(other).await.unwrap(), None);
}

async fn sum(world: &World, workspace: WorkspaceId) -> i64 {
    let ledger = world.store.ledger(workspace, Page::newest(100)).await.unwrap();
    ledger.items.iter().map(|line| line.delta).sum()
}

pub async fn without_a_dispatcher_everything_is_due_and_nothing_leased(mut world: World) {
    let (source, _) = world.pair().await;
    world.store.attach(None).await.unwrap();
    let id = world.receive(&source).await;
    assert_eq!(world.claim().await.count, 0);
    let life = world.request(id).await.deliveries[0].life.clone();
    assert_eq!((life.state, life.due_at, life.attempts_made), (State::Pending, world.now, 0));

    world.woken();
    world.attach().await;
    assert!(world.woken(), "there is something to claim now");
    assert_eq!(world.claim().await.count, 1);
    assert_eq!(world.parcel().request(), id);
}

pub async fn what_a_lane_has_no_room_for_follows_in_order(mut world: World) {
    let (source, _) = world.pair().await;
    let first = world.send(&source).await;
    first.endpoint.set_leases_max(2);
    let second = world.send(&source).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(world.receive(&source).await);
    }
    assert!(world.tray.take().is_empty(), "the lane is full");
    assert_eq!(world.claim().await, Claimed::default());
    world.woken();

    let mut order = Vec::new();
    for parcel in [first, second] {
        assert!(matches!(world.settle(&parcel, ok()).await, Settled::Done(_)));
    }
    assert!(world.woken(), "the lane has room again");
    while world.claim().await.count > 0 {
        for parcel in world.tray.take() {
            order.push(parcel.request());
            world.settle(&parcel, ok()).await;
        }
    }
    assert_eq!(order, waiting);
}

pub async fn who_comes_later_leaves_room_for_what_is_due(mut world: World) {
    let (source, _) = world.pair().await;
    let mut running = vec![world.send(&source).await];
    running[0].endpoint.set_leases_max(4);
    for _ in 0..3 {
        running.push(world.send(&source).await);
    }
    let waits = world.receive(&source).await;
    // Each freed lease meets a new request before the claim comes round: the last one is not theirs to take.
    for parcel in running {
        world.settle(&parcel, ok()).await;
        for _ in 0..4 {
            world.receive(&source).await;
        }
    }
    world.tray.take();
    world.claim().await;
    assert!(world.tray.take().iter().any(|parcel| parcel.request() == waits), "it was overtaken for ever");
}

pub async fn a_paused_destination_is_not_sent_to(mut world: World) {
    let source = world.source("paused").await;
    world.destination_with(&source, |destination| destination.paused = true).await;
    only_stored(world, &source).await;
}

pub async fn a_client_destination_is_not_sent_to(mut world: World) {
    let source = world.source("client").await;
    world.destination_with(&source, |destination| destination.kind = DestinationKind::Cli).await;
    only_stored(world, &source).await;
}

async fn only_stored(mut world: World, source: &super::Origin) {
    let id = world.receive(source).await;
    world.pass(1_000_000);
    let claimed = world.claim().await;
    assert_eq!((claimed.count, claimed.next_due), (0, None));
    assert!(world.tray.take().is_empty());
    let life = world.request(id).await.deliveries[0].life.clone();
    assert_eq!((life.state, life.attempts_made), (State::Pending, 0));
}

pub async fn ids_rise_when_the_clock_goes_back(mut world: World) {
    let (source, _) = world.pair().await;
    let mut ids = vec![world.receive(&source).await];
    world.now = world.now - Duration::from_secs(3600);
    ids.push(world.receive(&source).await);
    let mut world = world.crash().await;
    ids.push(world.receive(&source).await);
    assert!(ids.is_sorted() && ids[1] != ids[2], "{ids:?}");
    let deliveries: Vec<DeliveryId> = world.tray.take().iter().map(|parcel| parcel.lease.delivery).collect();
    assert!(deliveries[0].key() > ids[2].key());
    assert_eq!(world.request(ids[2]).await.received_at, world.now);
}

pub async fn listeners_are_told_of_requests_and_deliveries(mut world: World) {
    let (source, _) = world.pair().await;
    let mut changes = world.store.changes();
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    let mut told = Vec::new();
    while let Ok(change) = changes.try_recv() {
        assert_eq!(change.workspace, world.workspace);
        told.push(change.what);
    }
    assert!(told.contains(&Changed::Request(parcel.request())));
    let delivery = Changed::Delivery(parcel.lease.delivery);
    assert_eq!(told.iter().filter(|what| **what == delivery).count(), 2, "begun and ended");
}
