//! What the filters of lists let through.

use std::time::Duration;

use restante_core::Timestamp;
use restante_core::email::Role;
use restante_core::endpoint::EndpointId;
use restante_core::id::{DeliveryId, EmailId, RequestId, Tail};
use restante_core::retry::Schedule;

use super::{World, failed, ok};
use crate::row::{DeliveryFilter, RequestFilter, RequestState};
use crate::{Page, Retried};

async fn requests(world: &World, filter: RequestFilter) -> Vec<RequestId> {
    let page = Page { total: true, ..Page::newest(100) };
    let found = world.store.requests(world.workspace, filter, page, world.now).await.unwrap();
    assert_eq!(found.total, Some(found.items.len() as u64));
    found.items.iter().map(|it| it.id).collect()
}

async fn deliveries(world: &World, filter: DeliveryFilter) -> Vec<DeliveryId> {
    let page = Page { total: true, ..Page::newest(100) };
    let found = world.store.deliveries(world.workspace, filter, page, world.now).await.unwrap();
    assert_eq!(found.total, Some(found.items.len() as u64));
    found.items.iter().map(|it| it.id).collect()
}

pub async fn requests_by_source(mut world: World) {
    let (one, two) = (world.source("one").await, world.source("two").await);
    let [a, b, c] = [world.receive(&one).await, world.receive(&two).await, world.receive(&one).await];
    let of = |source| RequestFilter { source: Some(source), ..RequestFilter::default() };
    assert_eq!(requests(&world, of(one.id)).await, [c, a]);
    assert_eq!(requests(&world, of(two.id)).await, [b]);
    assert_eq!(requests(&world, RequestFilter::default()).await, [c, b, a]);
    // Also while other workspaces have sources, when not all of a table is looked at.
    world.new_workspace("second").await;
    assert_eq!(requests(&world, RequestFilter::default()).await, [c, b, a]);
}

pub async fn requests_by_time_to_the_millisecond(mut world: World) {
    let source = world.source("times").await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.receive(&source).await);
        world.pass(1);
    }
    let at = |index: usize| Some(world.now - Duration::from_millis(5 - index as u64));
    let between = |since, until| RequestFilter { since, until, ..RequestFilter::default() };
    for source in [None, Some(source.id)] {
        let filter = |since, until| RequestFilter { source, ..between(since, until) };
        assert_eq!(requests(&world, filter(at(1), at(3))).await, [ids[3], ids[2], ids[1]]);
        assert_eq!(requests(&world, filter(at(2), at(2))).await, [ids[2]]);
        assert_eq!(requests(&world, filter(at(3), None)).await, [ids[4], ids[3]]);
        assert_eq!(requests(&world, filter(None, at(0))).await, [ids[0]]);
        assert!(requests(&world, filter(at(3), at(2))).await.is_empty());
    }
}

pub async fn requests_by_state(mut world: World) {
    let source = world.source("states").await;
    let none = world.receive(&source).await;
    world.destination_with(&source, |it| it.schedule = Schedule::Quadratic { attempts: 1 }).await;
    let delivered = world.send(&source).await;
    world.settle(&delivered, ok()).await;
    let lost = world.send(&source).await;
    world.settle(&lost, failed()).await;
    let cancelled = world.send(&source).await;
    world.store.cancel(world.workspace, cancelled.lease.delivery, world.now).await.unwrap();
    world.settle(&cancelled, failed()).await;
    let retried = world.send(&source).await;
    world.settle(&retried, failed()).await;
    let Retried::Fresh(_) =
        world.store.retry(world.workspace, retried.lease.delivery, world.now).await.unwrap()
    else {
        panic!("it was refused");
    };
    let again = world.parcel();
    world.settle(&again, ok()).await;
    let pending = world.receive(&source).await;

    let of = |state| RequestFilter { state: Some(state), ..RequestFilter::default() };
    assert_eq!(requests(&world, of(RequestState::None)).await, [none]);
    assert_eq!(requests(&world, of(RequestState::Delivered)).await, [retried.request(), delivered.request()]);
    assert_eq!(requests(&world, of(RequestState::Failed)).await, [lost.request()]);
    assert_eq!(requests(&world, of(RequestState::Cancelled)).await, [cancelled.request()]);
    assert_eq!(requests(&world, of(RequestState::Pending)).await, [pending]);
}

pub async fn requests_by_method_path_and_text(mut world: World) {
    let source = world.source("texts").await;
    let mut ids = Vec::new();
    for (method, path, body) in [("POST", "/a/orders", "äöü % _ one"), ("GET", "", ""), ("POST", "/b", "two")]
    {
        let mut incoming = world.incoming(&source.token, body);
        (incoming.received.method, incoming.received.path) = (method.into(), path.into());
        ids.push(world.receive_this(incoming).await);
    }
    let all = RequestFilter::default;
    let method = |method: &str| RequestFilter { method: Some(method.into()), ..all() };
    assert_eq!(requests(&world, method("POST")).await, [ids[2], ids[0]]);
    assert!(requests(&world, method("post")).await.is_empty(), "methods are case-sensitive");
    let path = |path: &str| RequestFilter { path: Some(path.into()), ..all() };
    assert_eq!(requests(&world, path("/a/")).await, [ids[0]]);
    assert!(requests(&world, path("%")).await.is_empty());
    let text = |text: &str| RequestFilter { text: Some(text.into()), ..all() };
    for (part, expected) in
        [("öü % _", vec![ids[0]]), ("%", vec![ids[0]]), ("o", vec![ids[2], ids[0]]), ("x", vec![])]
    {
        assert_eq!(requests(&world, text(part)).await, expected, "{part}");
    }
    let both = RequestFilter { text: Some("o".into()), path: Some("/b".into()), ..method("POST") };
    assert_eq!(requests(&world, both).await, [ids[2]]);
}

pub async fn requests_of_a_clock_that_went_back(mut world: World) {
    let source = world.source("times").await;
    world.receive(&source).await;
    world.now = world.now - Duration::from_secs(90 * 3600);
    let late = world.receive(&source).await;
    let until = Some(world.now);
    for source in [None, Some(source.id)] {
        let filter = RequestFilter { source, since: until, until, ..RequestFilter::default() };
        assert_eq!(requests(&world, filter).await, [late]);
    }
}

pub async fn deliveries_by_what_they_belong_to(mut world: World) {
    let (source, first) = world.pair().await;
    let second = world.destination(&source).await;
    let (other, third) = world.pair().await;
    let request = world.receive(&source).await;
    world.receive(&source).await;
    world.receive(&other).await;
    let parcels = world.tray.take();
    let of = |wanted: &dyn Fn(&crate::Parcel) -> bool| -> Vec<DeliveryId> {
        parcels.iter().rev().filter(|it| wanted(it)).map(|it| it.lease.delivery).collect()
    };
    let all = DeliveryFilter::default;
    let by_destination = DeliveryFilter { destination: Some(second), ..all() };
    assert_eq!(
        deliveries(&world, by_destination.clone()).await,
        of(&|it| it.endpoint.id == EndpointId::Destination(second))
    );
    let by_source = DeliveryFilter { source: Some(source.id), ..all() };
    assert_eq!(
        deliveries(&world, by_source).await,
        of(&|it| it.endpoint.id != EndpointId::Destination(third))
    );
    let by_request = DeliveryFilter { request: Some(request), ..all() };
    assert_eq!(deliveries(&world, by_request).await, of(&|it| it.request() == request));
    let by_both = DeliveryFilter { request: Some(request), destination: Some(first), ..all() };
    assert_eq!(deliveries(&world, by_both).await.len(), 1);
    let contradiction = DeliveryFilter { source: Some(other.id), ..by_destination };
    assert!(deliveries(&world, contradiction).await.is_empty());
    assert_eq!(deliveries(&world, all()).await, of(&|_| true));
}

pub async fn deliveries_by_email(mut world: World) {
    let (source, destination) = world.pair().await;
    let request = world.receive(&source).await;
    world.tray.take();
    let email = world.mail_to(&[(Role::To, "a@one.example"), (Role::Cc, "b@two.example")]).await;
    let mut own: Vec<DeliveryId> = world.tray.take().iter().map(|it| it.lease.delivery).collect();
    own.sort_unstable_by_key(|id| std::cmp::Reverse(id.key()));
    world.mail_to(&[(Role::To, "a@one.example")]).await;
    let of = |email| DeliveryFilter { email: Some(email), ..DeliveryFilter::default() };
    assert_eq!(own.len(), 2);
    assert_eq!(deliveries(&world, of(email)).await, own);
    let in_state = |state: &str| DeliveryFilter { state: Some(state.into()), ..of(email) };
    assert_eq!(deliveries(&world, in_state("sending")).await, own);
    let unknown = EmailId::new(email.key(), Tail::from_bits(email.tail().value() ^ 1));
    for nothing in [
        in_state("delivered"),
        DeliveryFilter { request: Some(request), ..of(email) },
        DeliveryFilter { source: Some(source.id), ..of(email) },
        DeliveryFilter { destination: Some(destination), ..of(email) },
        of(unknown),
    ] {
        assert!(deliveries(&world, nothing.clone()).await.is_empty(), "{nothing:?}");
    }
    world.workspace = world.new_workspace("second").await;
    assert!(deliveries(&world, of(email)).await.is_empty());
}

pub async fn deliveries_by_state_and_time(mut world: World) {
    let (source, _) = world.pair().await;
    let delivered = world.send(&source).await;
    world.settle(&delivered, ok()).await;
    let pending = world.send(&source).await;
    let at = world.now;
    world.settle(&pending, failed()).await;
    let sending = world.send(&source).await;
    for (state, expected) in [("delivered", &delivered), ("pending", &pending), ("sending", &sending)] {
        let filter = DeliveryFilter { state: Some(state.into()), ..DeliveryFilter::default() };
        assert_eq!(deliveries(&world, filter).await, [expected.lease.delivery], "{state}");
    }
    for state in ["failed", "cancelled", "unheard of"] {
        let filter = DeliveryFilter { state: Some(state.into()), ..DeliveryFilter::default() };
        assert!(deliveries(&world, filter).await.is_empty(), "{state}");
    }
    let then = DeliveryFilter { since: Some(at), until: Some(at), ..DeliveryFilter::default() };
    assert_eq!(deliveries(&world, then).await, [pending.lease.delivery]);
    // A manual retry has a time of its own.
    world.pass(5);
    world.store.retry(world.workspace, delivered.lease.delivery, world.now).await.unwrap();
    let retry = world.parcel().lease.delivery;
    let now = DeliveryFilter { since: Some(world.now), ..DeliveryFilter::default() };
    assert_eq!(deliveries(&world, now).await, [retry]);
}

pub async fn times_without_end(mut world: World) {
    let (source, _) = world.pair().await;
    let id = world.receive(&source).await;
    let (first, last) = (Timestamp::from_millis(0), Timestamp::parse("9999-12-31T23:59:59.999Z").unwrap());
    let always = RequestFilter { since: Some(first), until: Some(last), ..RequestFilter::default() };
    assert_eq!(requests(&world, always).await, [id]);
    let never = RequestFilter { since: Some(last), ..RequestFilter::default() };
    assert!(requests(&world, never).await.is_empty());
    let always = DeliveryFilter { since: Some(first), until: Some(last), ..DeliveryFilter::default() };
    assert_eq!(deliveries(&world, always).await.len(), 1);
}
