//! Promises of [`Store::cancel`](crate::Store::cancel), [`Store::retry`](crate::Store::retry) and bulk retries.

use restante_core::delivery::CancelReason;
use restante_core::endpoint::EndpointId;
use restante_core::id::{DeliveryId, DestinationId, ReplayId};
use restante_core::retry::Schedule;
use restante_core::{State, Timestamp};

use super::{World, failed, ok};
use crate::record::{BulkRetryJob, BulkRetryState, Written};
use crate::row::{ChargeReason, Trigger};
use crate::{BulkRetry, Cancelled, Grant, Page, Retried, Withdraw};

const FOUR_MINUTES_MS: u64 = 240_000;

async fn cancel(world: &World, id: DeliveryId) -> Cancelled {
    world.store.cancel(world.workspace, id, world.now).await.unwrap()
}

async fn retry(world: &World, id: DeliveryId) -> Retried {
    world.store.retry(world.workspace, id, world.now).await.unwrap()
}

pub async fn a_pending_delivery_is_cancelled_at_once(mut world: World) {
    let (source, _) = world.pair().await;
    let other = world.destination(&source).await;
    world.receive(&source).await;
    let parcels = world.tray.take();
    for parcel in &parcels {
        world.settle(parcel, failed()).await;
    }
    let pending = parcels
        .iter()
        .find(|parcel| parcel.endpoint.id != EndpointId::Destination(other))
        .unwrap()
        .lease
        .delivery;
    assert_eq!(cancel(&world, pending).await, Cancelled::Done);
    let life = world.delivery(pending).await.life;
    assert_eq!((life.state, life.ended_at), (State::Cancelled(CancelReason::Requested), Some(world.now)));
    assert_eq!(cancel(&world, pending).await, Cancelled::Done, "as it was");
    assert_eq!(world.delivery(pending).await.life, life);
    world.pass(FOUR_MINUTES_MS);
    world.claim().await;
    assert_eq!(world.parcel().endpoint.id, EndpointId::Destination(other));
}

pub async fn a_cancel_withdraws_before_it_returns(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    let delivery = parcel.lease.delivery;
    assert_eq!(cancel(&world, delivery).await, Cancelled::Done);
    assert_eq!(
        world.tray.take_withdrawals(),
        [Withdraw::Delivery { endpoint: EndpointId::Destination(destination), delivery }]
    );
    let life = world.delivery(delivery).await.life;
    assert_eq!((life.state, life.cancel_requested()), (State::Sending, true));
    assert_eq!(cancel(&world, delivery).await, Cancelled::Done);
}

pub async fn what_ended_otherwise_cannot_be_cancelled(mut world: World) {
    let source = world.source("one try").await;
    world.destination_with(&source, |it| it.schedule = Schedule::Quadratic { attempts: 1 }).await;
    for outcome in [ok(), failed()] {
        let parcel = world.send(&source).await;
        world.settle(&parcel, outcome).await;
        let state = world.state(parcel.lease.delivery).await;
        assert!(state.is_final());
        assert_eq!(cancel(&world, parcel.lease.delivery).await, Cancelled::Conflict(state));
        let other = world.new_workspace("other").await;
        let theirs = world.store.cancel(other, parcel.lease.delivery, world.now).await.unwrap();
        assert_eq!(theirs, Cancelled::NotFound);
    }
}

pub async fn what_ended_can_be_retried(mut world: World) {
    let source = world.source("one try").await;
    world.destination_with(&source, |it| it.schedule = Schedule::Quadratic { attempts: 1 }).await;
    let delivered = world.send(&source).await;
    world.settle(&delivered, ok()).await;
    let exhausted = world.send(&source).await;
    world.settle(&exhausted, failed()).await;
    let cancelled = world.send(&source).await;
    cancel(&world, cancelled.lease.delivery).await;
    world.settle(&cancelled, failed()).await;

    for old in [delivered, exhausted, cancelled] {
        let before = world.delivery(old.lease.delivery).await;
        world.pass(10);
        let Retried::Fresh(new) = retry(&world, old.lease.delivery).await else { panic!("it was refused") };
        let parcel = world.parcel();
        assert_eq!((parcel.lease.delivery, parcel.lease.attempt), (new, 1));
        assert_eq!((parcel.request(), &parcel.content.message), (old.request(), &old.content.message));
        let delivery = world.delivery(new).await;
        assert_eq!((delivery.retry_of, delivery.created_at), (Some(old.lease.delivery), world.now));
        assert_eq!((delivery.attempts.len(), delivery.attempts[0].trigger), (1, Trigger::Manual));
        world.settle(&parcel, ok()).await;
        let attempt = world.delivery(new).await.attempts.remove(0);
        assert_eq!((attempt.trigger, attempt.result.unwrap().status), (Trigger::Manual, Some(200)));
        assert_eq!(world.delivery(old.lease.delivery).await, before, "the old one is as it was");
        let of_request: Vec<_> =
            world.request(old.request()).await.deliveries.iter().map(|it| it.id).collect();
        assert_eq!(of_request, [old.lease.delivery, new]);
    }
}

pub async fn what_has_not_ended_cannot_be_retried(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    assert_eq!(retry(&world, parcel.lease.delivery).await, Retried::Conflict(State::Sending));
    world.settle(&parcel, failed()).await;
    assert_eq!(retry(&world, parcel.lease.delivery).await, Retried::Conflict(State::Pending));
    let other = world.new_workspace("other").await;
    let theirs = world.store.retry(other, parcel.lease.delivery, world.now).await.unwrap();
    assert_eq!(theirs, Retried::NotFound);
}

pub async fn a_retry_is_paid_for_or_does_not_happen(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    grant(&world, 1).await;
    let Retried::Fresh(new) = retry(&world, parcel.lease.delivery).await else { panic!("it was refused") };
    let line = world.store.ledger(world.workspace, Page::newest(1)).await.unwrap().items.remove(0);
    assert_eq!((line.delta, line.reason, line.reference), (-1, ChargeReason::Retry, Some(new.to_string())));

    world.parcel();
    assert_eq!(retry(&world, parcel.lease.delivery).await, Retried::CreditsExhausted);
    assert!(world.tray.take().is_empty());
    assert_eq!(world.request(parcel.request()).await.deliveries.len(), 2);
}

async fn grant(world: &World, delta: i64) {
    world.store.grant(world.workspace, Grant::Delta(delta), String::new(), world.now).await.unwrap();
}

pub async fn a_retry_has_a_fresh_budget_and_the_same_request(mut world: World) {
    let source = world.source("two tries").await;
    world.destination_with(&source, |it| it.schedule = Schedule::Quadratic { attempts: 2 }).await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    world.pass(FOUR_MINUTES_MS);
    world.claim_and_settle(failed()).await;
    let Retried::Fresh(new) = retry(&world, parcel.lease.delivery).await else { panic!("it was refused") };
    let first = world.parcel();
    world.settle(&first, failed()).await;
    world.pass(FOUR_MINUTES_MS);
    world.claim().await;
    let second = world.parcel();
    assert_eq!((second.lease.delivery, second.lease.attempt, second.request()), (new, 2, parcel.request()));
    world.settle(&second, failed()).await;
    let delivery = world.delivery(new).await;
    assert_eq!(delivery.life.attempts_used, 2);
    let triggers: Vec<_> = delivery.attempts.iter().map(|attempt| attempt.trigger).collect();
    assert_eq!(triggers, [Trigger::Manual, Trigger::Automatic]);
}

pub async fn nothing_is_retried_to_a_deleted_destination(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    let waits = world.send(&source).await;
    world.settle(&waits, failed()).await;
    grant(&world, 5).await;
    world.delete_destination(destination).await;
    for delivery in [parcel.lease.delivery, waits.lease.delivery] {
        assert_eq!(retry(&world, delivery).await, Retried::DestinationDeleted);
    }
    assert_eq!(world.store.balance(world.workspace).await.unwrap(), Some(5));
}

pub async fn a_retry_to_a_paused_destination_waits(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    world.change_destination(destination, |it| it.paused = true).await;
    let Retried::Fresh(new) = retry(&world, parcel.lease.delivery).await else { panic!("it was refused") };
    assert_eq!(world.state(new).await, State::Pending);
    world.change_destination(destination, |it| it.paused = false).await;
    world.claim().await;
    assert_eq!(world.parcel().lease.delivery, new);
}

/// Sends `count` requests that use their only attempt up, a millisecond apart.
async fn exhaust(world: &mut World, count: usize) -> (super::Origin, DestinationId) {
    let source = world.source("bulk").await;
    let destination =
        world.destination_with(&source, |it| it.schedule = Schedule::Quadratic { attempts: 1 }).await;
    for _ in 0..count {
        let parcel = world.send(&source).await;
        world.settle(&parcel, failed()).await;
    }
    (source, destination)
}

fn all_failed(until: Timestamp) -> BulkRetry {
    BulkRetry { since: Timestamp::from_millis(0), until, state: "failed".into() }
}

async fn start(world: &mut World, destination: DestinationId, bulk: BulkRetry) -> ReplayId {
    let total = world.store.count_bulk_retry(world.workspace, destination, bulk.clone()).await.unwrap();
    let state = BulkRetryState::Running;
    let job = BulkRetryJob { bulk, cursor: -1, end: i64::MAX, total, created: 0, state };
    let (tail, parent) = (world.tail(), Some(destination.uuid()));
    match world.store.make(Some(world.workspace), parent, job, tail, world.now).await.unwrap() {
        Written::Done(record) => record.id,
        Written::NotFound | Written::NameTaken | Written::TooMany | Written::Stale => {
            panic!("it was refused")
        }
    }
}

async fn job(world: &World, id: ReplayId) -> BulkRetryJob {
    world.store.get::<BulkRetryJob>(world.workspace, id).await.unwrap().unwrap().body
}

async fn advance(world: &World, id: ReplayId, most: usize) -> bool {
    world.store.advance_bulk_retry(id, world.now, most).await.unwrap()
}

pub async fn a_bulk_retry_creates_what_it_counted(mut world: World) {
    let (_, destination) = exhaust(&mut world, 7).await;
    let bulk = all_failed(world.now);
    let id = start(&mut world, destination, bulk).await;
    assert_eq!(job(&world, id).await.total, 7);
    let mut sent = 0;
    loop {
        let more = advance(&world, id, 3).await;
        for parcel in world.tray.take() {
            sent += 1;
            // They fail again: that is no reason to take them once more.
            world.settle(&parcel, failed()).await;
        }
        if !more {
            break;
        }
    }
    assert_eq!(sent, 7);
    let job = job(&world, id).await;
    assert_eq!((job.created, job.state), (7, BulkRetryState::Done));
    assert!(!advance(&world, id, 3).await);
    assert!(world.tray.take().is_empty());
}

pub async fn a_bulk_retry_goes_on_after_a_crash(mut world: World) {
    let (_, destination) = exhaust(&mut world, 5).await;
    let bulk = all_failed(world.now);
    let id = start(&mut world, destination, bulk.clone()).await;
    assert!(advance(&world, id, 2).await);
    let mut world = world.crash().await;
    world.store.take_over(world.now).await.unwrap();
    assert_eq!(job(&world, id).await.created, 2);
    while advance(&world, id, 2).await {}
    assert_eq!(job(&world, id).await.created, 5);
    world.claim().await;
    let mut requests: Vec<_> = world.tray.take().iter().map(|parcel| parcel.request()).collect();
    requests.sort_unstable();
    requests.dedup();
    assert_eq!(requests.len(), 5, "each once");
    let left = world.store.count_bulk_retry(world.workspace, destination, bulk).await.unwrap();
    assert_eq!(left, 0, "what was retried is not the latest any more");
    world.pass(1);
}

pub async fn a_bulk_retry_ends_with_the_credits(mut world: World) {
    let (_, destination) = exhaust(&mut world, 4).await;
    grant(&world, 3).await;
    let bulk = all_failed(world.now);
    let id = start(&mut world, destination, bulk).await;
    while advance(&world, id, 2).await {}
    let job = job(&world, id).await;
    assert_eq!((job.created, job.state), (3, BulkRetryState::Ended));
    assert_eq!(world.store.balance(world.workspace).await.unwrap(), Some(0));
    grant(&world, 3).await;
    assert!(!advance(&world, id, 2).await, "it does not come back to life");
}

pub async fn a_bulk_retry_takes_only_what_matches(mut world: World) {
    let (source, destination) = exhaust(&mut world, 1).await;
    world.pass(1);
    let since = world.now;
    let in_time = world.send(&source).await;
    world.settle(&in_time, failed()).await;
    let retried = world.send(&source).await;
    world.settle(&retried, failed()).await;
    let delivered = world.send(&source).await;
    world.settle(&delivered, ok()).await;
    let Retried::Fresh(_) = retry(&world, retried.lease.delivery).await else { panic!("it was refused") };
    let again = world.parcel();
    world.settle(&again, ok()).await;
    let until = world.now;
    let last = world.send(&source).await;
    world.settle(&last, failed()).await;
    let late = world.send(&source).await;
    world.settle(&late, failed()).await;

    let bulk = BulkRetry { since, until, state: "failed".into() };
    let other = world.new_workspace("other").await;
    assert_eq!(world.store.count_bulk_retry(other, destination, bulk.clone()).await.unwrap(), 0);
    let id = start(&mut world, destination, bulk).await;
    assert_eq!(job(&world, id).await.total, 2);
    while advance(&world, id, 10).await {}
    let taken: Vec<_> = world.tray.take().iter().map(|parcel| parcel.request()).collect();
    assert_eq!(taken, [in_time.request(), last.request()], "both bounds are inclusive");
}
