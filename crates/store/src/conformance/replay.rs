//! Promises of [`Store::replay`](crate::Store::replay).

use restante_core::State;
use restante_core::endpoint::EndpointId;
use restante_core::id::{RequestId, Tail};

use super::{World, ok};
use crate::row::ChargeReason;
use crate::{Grant, Page, Replayed};

async fn replay(world: &mut World, id: RequestId) -> Replayed {
    let tail = world.tail();
    world.store.replay(world.workspace, id, world.now, tail).await.unwrap()
}

pub async fn a_replay_copies_to_the_destinations_of_now(mut world: World) {
    let (source, old) = world.pair().await;
    let mut incoming = world.incoming(&source.token, "body \0 of bytes");
    incoming.received.query = Some("a=1".into());
    let id = world.receive_this(incoming).await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    let original = world.request(id).await;
    world.delete_destination(old).await;
    let today = [world.destination(&source).await, world.destination(&source).await];
    let today = today.map(EndpointId::Destination);

    world.pass(5000);
    let Replayed::Fresh(new) = replay(&mut world, id).await else { panic!("it was refused") };
    assert_ne!(new, id);
    let copy = world.request(new).await;
    assert_eq!((copy.replay_of, copy.received_at), (Some(id), world.now));
    let destinations: Vec<_> = copy.deliveries.iter().map(|delivery| delivery.endpoint).collect();
    assert_eq!(destinations, today);
    assert!(copy.deliveries.iter().all(|delivery| delivery.life.state == State::Sending));
    for parcel in world.tray.take() {
        assert_eq!((parcel.request(), &parcel.content.message.body()[..]), (new, &b"body \0 of bytes"[..]));
    }
    assert_eq!(
        (&copy.method, &copy.path, &copy.query, &copy.headers, &copy.remote_address),
        (&original.method, &original.path, &original.query, &original.headers, &original.remote_address)
    );
    assert_eq!(world.request(id).await.deliveries.len(), 1, "the original is unchanged");
    let Replayed::Fresh(copy_of_copy) = replay(&mut world, new).await else { panic!("it was refused") };
    assert_eq!(world.request(copy_of_copy).await.replay_of, Some(new));
}

pub async fn a_replay_is_paid_for_once_or_does_not_happen(mut world: World) {
    let (source, _) = world.pair().await;
    world.destination(&source).await;
    let id = world.receive(&source).await;
    world.tray.take();
    world.store.grant(world.workspace, Grant::Delta(1), String::new(), world.now).await.unwrap();
    let Replayed::Fresh(new) = replay(&mut world, id).await else { panic!("it was refused") };
    let ledger = world.store.ledger(world.workspace, Page::newest(1)).await.unwrap().items;
    assert_eq!((ledger[0].delta, ledger[0].reason), (-1, ChargeReason::Replay));
    assert_eq!(ledger[0].reference, Some(new.to_string()));

    world.tray.take();
    assert_eq!(replay(&mut world, id).await, Replayed::CreditsExhausted);
    assert!(world.tray.take().is_empty());
}

pub async fn a_replay_to_a_deleted_source_is_refused(mut world: World) {
    let (source, _) = world.pair().await;
    let id = world.receive(&source).await;
    world.delete_source(source.id).await;
    assert_eq!(replay(&mut world, id).await, Replayed::SourceDeleted);
}

pub async fn what_is_not_there_is_not_replayed(mut world: World) {
    let (source, _) = world.pair().await;
    let id = world.receive(&source).await;
    let made_up = RequestId::new(id.key(), Tail::from_bits(id.tail().value() + 1));
    assert_eq!(replay(&mut world, made_up).await, Replayed::NotFound);
    let theirs = world.new_workspace("second").await;
    let tail = world.tail();
    assert_eq!(world.store.replay(theirs, id, world.now, tail).await.unwrap(), Replayed::NotFound);
    world.pass(30 * 24 * 3_600_000);
    assert_eq!(replay(&mut world, id).await, Replayed::NotFound);
}
