//! Promises of [`Store::take_over`](crate::Store::take_over).

use restante_core::delivery::CancelReason;
use restante_core::{Outcome, State};

use super::{World, failed, ok};
use crate::Settled;

const FOUR_MINUTES_MS: u64 = 240_000;

async fn take_over(world: &World) -> usize {
    world.store.take_over(world.now).await.unwrap()
}

pub async fn leases_of_a_dead_process_are_settled_as_lost(mut world: World) {
    let (source, _) = world.pair().await;
    let settled = world.send(&source).await;
    world.settle(&settled, ok()).await;
    let born = world.send(&source).await;
    let claimed = world.send(&source).await;
    world.settle(&claimed, failed()).await;
    world.pass(FOUR_MINUTES_MS);
    world.claim().await;

    let mut world = world.crash().await;
    assert_eq!(world.store.health().await.unwrap().leased, 2);
    world.pass(5000);
    assert_eq!(take_over(&world).await, 2);
    for (lease, made, used) in [(born.lease, 1, 0), (claimed.lease, 2, 1)] {
        let delivery = world.delivery(lease.delivery).await;
        assert_eq!((delivery.life.state, delivery.life.due_at), (State::Pending, world.now));
        assert_eq!((delivery.life.attempts_made, delivery.life.attempts_used), (made, used));
        assert!(delivery.attempts.last().unwrap().result.as_ref().unwrap().lost);
    }
    assert_eq!(world.state(settled.lease.delivery).await, State::Delivered);
    assert_eq!(world.settle(&born, ok()).await, Settled::LeaseLost, "its process is dead");
    assert_eq!((take_over(&world).await, world.store.health().await.unwrap().leased), (0, 0));
}

pub async fn orphans_go_on_where_they_were(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    for made in 2..=3 {
        world = world.crash().await;
        take_over(&world).await;
        assert_eq!(world.claim().await.count, 1);
        assert_eq!(world.parcel().lease.attempt, made);
    }
    world = world.crash().await;
    take_over(&world).await;
    let life = world.delivery(parcel.lease.delivery).await.life;
    assert_eq!((life.attempts_made, life.attempts_used), (3, 1), "the third in a row uses one");
    world.pass(FOUR_MINUTES_MS);
    world.claim_and_settle(ok()).await;
    let delivery = world.delivery(parcel.lease.delivery).await;
    let numbers: Vec<u32> = delivery.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!((delivery.life.state, numbers), (State::Delivered, vec![1, 2, 3, 4]));
}

pub async fn a_cancel_before_the_crash_still_counts(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.store.cancel(world.workspace, parcel.lease.delivery, world.now).await.unwrap();
    let world = world.crash().await;
    take_over(&world).await;
    assert_eq!(world.state(parcel.lease.delivery).await, State::Cancelled(CancelReason::Requested));
}

pub async fn todays_leases_are_left_alone(mut world: World) {
    let (source, _) = world.pair().await;
    let orphan = world.send(&source).await;
    let mut world = world.crash().await;
    let ours = world.send(&source).await;
    assert_eq!(take_over(&world).await, 1);
    assert_eq!(world.state(ours.lease.delivery).await, State::Sending);
    assert!(matches!(world.settle(&ours, ok()).await, Settled::Done(_)));

    assert_eq!(world.claim().await.count, 1);
    let again = world.parcel();
    assert_eq!((again.lease.delivery, again.lease.attempt), (orphan.lease.delivery, 2));
    assert_eq!(take_over(&world).await, 0);
    assert!(matches!(world.settle(&again, Outcome::Lost).await, Settled::Done(_)));
}

pub async fn an_expired_orphan_ends(mut world: World) {
    let source = world.source_with("short", |source| source.retention_days = 1).await;
    world.destination(&source).await;
    let parcel = world.send(&source).await;
    let mut world = world.crash().await;
    world.pass(24 * 3_600_000);
    assert_eq!(take_over(&world).await, 1);
    assert_eq!((take_over(&world).await, world.store.health().await.unwrap().leased), (0, 0));
    assert!(world.find(parcel.lease.delivery).await.is_none());
    assert_eq!(world.claim().await.count, 0);
}
