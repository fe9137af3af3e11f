//! Promises of [`Store::erase`](crate::Store::erase).

use restante_core::State;
use restante_core::endpoint::EndpointId;
use restante_core::message::MessageId;

use super::{World, failed, ok};
use crate::row::{DeliveryFilter, RequestFilter};
use crate::{Cancelled, Page, Replayed, Retried, Settled, Withdraw};

pub async fn nothing_finds_an_erased_request(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    let (id, delivery) = (parcel.request(), parcel.lease.delivery);
    assert!(world.store.erase(world.workspace, id, world.now).await.unwrap());

    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    assert!(store.request(workspace, id, now).await.unwrap().is_none());
    assert!(store.request_body(workspace, id, now).await.unwrap().is_none());
    assert!(store.delivery(workspace, delivery, now).await.unwrap().is_none());
    let page = Page { total: true, ..Page::newest(10) };
    let requests = store.requests(workspace, RequestFilter::default(), page, now).await.unwrap();
    assert_eq!((requests.items.len(), requests.total), (0, Some(0)));
    let deliveries = store.deliveries(workspace, DeliveryFilter::default(), page, now).await.unwrap();
    assert_eq!((deliveries.items.len(), deliveries.total), (0, Some(0)));
    assert_eq!(store.cancel(workspace, delivery, now).await.unwrap(), Cancelled::NotFound);
    assert_eq!(store.retry(workspace, delivery, now).await.unwrap(), Retried::NotFound);
    let tail = world.tail();
    assert_eq!(world.store.replay(workspace, id, now, tail).await.unwrap(), Replayed::NotFound);
    assert!(!world.store.erase(workspace, id, now).await.unwrap());
    world.pass(3_600_000);
    assert_eq!(world.claim().await.count, 0);
}

pub async fn a_late_settle_of_an_erased_request_changes_nothing(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.store.erase(world.workspace, parcel.request(), world.now).await.unwrap();
    assert_eq!(world.settle(&parcel, ok()).await, Settled::LeaseLost);
    world.release(parcel.lease).await;
    assert!(world.find(parcel.lease.delivery).await.is_none());
    let mut world = world.crash().await;
    assert_eq!(world.store.take_over(world.now).await.unwrap(), 0);
    assert_eq!(world.settle(&parcel, ok()).await, Settled::LeaseLost);
}

pub async fn an_erased_lease_is_withdrawn_and_gives_its_room_back(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    parcel.endpoint.set_leases_max(2);
    world.send(&source).await;
    let waits = world.receive(&source).await;
    world.store.erase(world.workspace, parcel.request(), world.now).await.unwrap();
    let withdrawn = Withdraw::Delivery {
        endpoint: EndpointId::Destination(destination),
        delivery: parcel.lease.delivery,
    };
    assert_eq!(world.tray.take_withdrawals(), [withdrawn]);

    // Neither its release nor a late result gives the room back a second time.
    world.release(parcel.lease).await;
    world.settle(&parcel, ok()).await;
    assert_eq!(world.store.health().await.unwrap().leased, 1);
    assert_eq!(world.claim().await.count, 1);
    assert_eq!(world.parcel().request(), waits);
    world.receive(&source).await;
    assert!(world.tray.take().is_empty(), "the lane is full");
}

pub async fn erasing_touches_no_other_request(mut world: World) {
    let (source, destination) = world.pair().await;
    world.destination(&source).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.receive(&source).await);
    }
    world.prune().await;
    for parcel in world.tray.take() {
        world.settle(&parcel, ok()).await;
    }
    world.store.erase(world.workspace, ids[1], world.now).await.unwrap();
    let filter = RequestFilter { source: Some(source.id), ..RequestFilter::default() };
    let left = world.store.requests(world.workspace, filter, Page::newest(9), world.now).await.unwrap();
    assert_eq!(left.items.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[2], ids[0]]);
    assert!(left.items.iter().all(|it| it.deliveries.iter().all(|it| it.life.state == State::Delivered)));
    let filter = DeliveryFilter { destination: Some(destination), ..DeliveryFilter::default() };
    let left = world.store.deliveries(world.workspace, filter, Page::newest(9), world.now).await.unwrap();
    assert_eq!(
        left.items.iter().map(|it| it.message).collect::<Vec<_>>(),
        [ids[2], ids[0]].map(MessageId::Request)
    );
}
