//! Promises of [`Store::claim`](crate::Store::claim) and [`Store::due`](crate::Store::due).

use std::collections::HashSet;
use std::time::Duration;

use restante_core::State;
use restante_core::delivery::{CancelReason, FailReason};
use restante_core::endpoint::DestinationKind;
use restante_core::retry::Schedule;

use super::{World, failed, ok};
use crate::Claimed;

const FOUR_MINUTES_MS: u64 = 240_000;

pub async fn nothing_is_claimed_before_its_time(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    let due_at = world.delivery(parcel.lease.delivery).await.life.due_at;
    assert_eq!(due_at, world.now + Duration::from_millis(FOUR_MINUTES_MS));

    world.pass(FOUR_MINUTES_MS - 1);
    assert_eq!(world.claim().await, Claimed { count: 0, next_due: Some(due_at) });
    world.pass(1);
    assert_eq!(world.claim().await, Claimed { count: 1, next_due: None });
    assert_eq!(world.parcel().lease.attempt, 2);
}

pub async fn a_claim_takes_no_more_than_was_asked_for(mut world: World) {
    let (first, _) = world.pair().await;
    let (second, _) = world.pair().await;
    world.store.attach(None).await.unwrap();
    for _ in 0..5 {
        world.receive(&first).await;
        world.receive(&second).await;
    }
    world.attach().await;
    let mut seen = HashSet::new();
    for expected in [3, 3, 3, 1, 0] {
        assert_eq!(world.claim_up_to(3).await.count, expected);
        for parcel in world.tray.take() {
            assert!(seen.insert(parcel.lease.delivery), "leased twice");
        }
    }
    assert_eq!(seen.len(), 10);
}

pub async fn a_claim_is_an_attempt_begun(mut world: World) {
    let (source, _) = world.pair().await;
    world.store.attach(None).await.unwrap();
    let id = world.receive(&source).await;
    world.attach().await;
    world.pass(50);
    world.claim().await;
    let parcel = world.parcel();
    assert_eq!((parcel.request(), parcel.claimed_at), (id, world.now));
    assert_eq!(&parcel.content.message.body()[..], b"hello");

    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!((delivery.life.state, delivery.life.attempts_made), (State::Sending, 1));
    let attempt = &delivery.attempts[0];
    assert_eq!((attempt.number, attempt.started_at, &attempt.result), (1, world.now, &None));
    assert_eq!(attempt.url, "https://a.example/hook/orders");
}

pub async fn one_full_lane_does_not_hold_up_another(mut world: World) {
    let (stuck, _) = world.pair().await;
    let (free, _) = world.pair().await;
    let parcel = world.send(&stuck).await;
    parcel.endpoint.set_leases_max(1);
    for _ in 0..100 {
        world.receive(&stuck).await;
    }
    let other = world.send(&free).await;
    world.settle(&other, failed()).await;
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(world.claim_up_to(10).await.count, 1);
    assert_eq!(world.parcel().lease.delivery, other.lease.delivery);
}

pub async fn a_widened_lane_claims_more(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    parcel.endpoint.set_leases_max(1);
    for _ in 0..5 {
        world.receive(&source).await;
    }
    assert_eq!(world.claim().await.count, 0);
    parcel.endpoint.set_leases_max(4);
    assert_eq!(world.claim().await.count, 3);
    parcel.endpoint.set_leases_max(2);
    world.settle(&parcel, ok()).await;
    assert_eq!(world.claim().await.count, 0, "a narrowed lane has no room until enough of it ended");
}

pub async fn a_pause_holds_back_what_is_due_until_it_ends(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    world.change_destination(destination, |it| it.paused = true).await;
    world.pass(2 * FOUR_MINUTES_MS);
    assert_eq!(world.claim().await, Claimed::default());
    assert_eq!(world.delivery(parcel.lease.delivery).await.life.attempts_used, 1);

    world.change_destination(destination, |it| it.kind = DestinationKind::Cli).await;
    world.change_destination(destination, |it| it.paused = false).await;
    assert_eq!(world.claim().await, Claimed::default());
    world.woken();
    world.change_destination(destination, |it| it.kind = DestinationKind::Http).await;
    assert!(world.woken());
    assert_eq!(world.claim().await.count, 1);
}

pub async fn what_becomes_due_earlier_wakes_the_dispatcher(mut world: World) {
    let (source, _) = world.pair().await;
    let (hasty, destination) = world.pair().await;
    let schedule = Schedule::Custom { waits_seconds: vec![10.0], jitter: 0.0 };
    world.change_destination(destination, |it| it.schedule = schedule).await;
    let (slow, quick) = (world.send(&source).await, world.send(&hasty).await);
    world.settle(&slow, failed()).await;
    assert!(world.claim().await.next_due.is_some());
    world.woken();
    world.settle(&quick, failed()).await;
    assert!(world.woken(), "it is due in ten seconds, not in four minutes");

    let told = world.claim().await.next_due;
    assert_eq!(told, Some(world.delivery(quick.lease.delivery).await.life.due_at));
    let delivered = world.send(&source).await;
    world.settle(&delivered, ok()).await;
    assert!(!world.woken(), "nothing is due earlier than was told");
}

pub async fn a_shortened_schedule_ends_without_another_attempt(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    world.change_destination(destination, |it| it.schedule = Schedule::Quadratic { attempts: 1 }).await;
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(world.claim().await, Claimed::default());
    assert_eq!(world.state(parcel.lease.delivery).await, State::Failed(FailReason::Exhausted));
    assert_eq!(world.delivery(parcel.lease.delivery).await.attempts.len(), 1);
}

pub async fn an_expired_request_is_not_sent(mut world: World) {
    let source = world.source_with("short", |source| source.retention_days = 1).await;
    world.destination(&source).await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    world.pass(24 * 3_600_000);
    assert_eq!(world.claim().await, Claimed::default());
    assert!(world.tray.take().is_empty());
    // Who gives it a longer life later finds it ended.
    world.change_source(source.id, |source| source.retention_days = 9).await;
    assert_eq!(world.state(parcel.lease.delivery).await, State::Cancelled(CancelReason::Expired));
}
