//! Promises of [`Store::listen`](crate::Store::listen): what is leased for command-line clients, and when.

use std::time::Duration;

use restante_core::delivery::{CancelReason, WaitingFor, waiting_for};
use restante_core::endpoint::{DestinationKind, EndpointId};
use restante_core::id::{DeliveryId, DestinationId, RequestId};
use restante_core::{Outcome, State};

use super::world::SEATS;
use super::{Origin, World, failed, ok};
use crate::{Cancelled, Claimed, Lease, Listening, Parcel, Replayed, Retried, Withdraw};

const FOUR_MINUTES_MS: u64 = 240_000;
const HALF_AN_HOUR: Duration = Duration::from_secs(1800);

/// A source with one destination for clients. `pending`: its `deliver_pending_on_connect`.
async fn tunnel(world: &mut World, pending: bool) -> (Origin, DestinationId) {
    let name = format!("tunnel {}", world.tail().value());
    let source = world.source_with(&name, |it| it.deliver_pending_on_connect = pending).await;
    let destination = world.destination_with(&source, |it| it.kind = DestinationKind::Cli).await;
    (source, destination)
}

/// What a claim leases, in its order.
async fn claimed(world: &World) -> Vec<DeliveryId> {
    world.claim().await;
    leased(world).iter().map(|parcel| parcel.lease.delivery).collect()
}

fn leased(world: &World) -> Vec<Parcel> {
    world.tray.take()
}

/// A request comes that nobody takes; its delivery.
async fn receive_unleased(world: &mut World, source: &Origin) -> DeliveryId {
    let request = world.receive(source).await;
    assert!(leased(world).is_empty());
    delivery_of(world, request).await
}

async fn delivery_of(world: &World, request: RequestId) -> DeliveryId {
    world.request(request).await.deliveries[0].id
}

async fn waits_for(world: &World, delivery: DeliveryId) -> Option<WaitingFor> {
    let shown = world.delivery(delivery).await;
    waiting_for(&shown.life, shown.held_back, world.now)
}

pub async fn nothing_is_leased_while_nobody_listens(mut world: World) {
    let (source, _) = tunnel(&mut world, true).await;
    let (elsewhere, _) = tunnel(&mut world, true).await;
    world.connect(&elsewhere).await;
    let delivery = receive_unleased(&mut world, &source).await;
    for _ in 0..3 {
        world.pass(FOUR_MINUTES_MS);
        assert_eq!(world.claim().await, Claimed::default());
    }
    let shown = world.delivery(delivery).await;
    assert_eq!((shown.life.state, shown.attempts.len()), (State::Pending, 0));
    assert_eq!((shown.life.attempts_made, shown.life.attempts_used), (0, 0));
    assert_eq!(waits_for(&world, delivery).await, Some(WaitingFor::Client));
}

pub async fn who_listens_is_given_what_is_due_oldest_first(mut world: World) {
    let (source, _) = tunnel(&mut world, true).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(receive_unleased(&mut world, &source).await);
        world.pass(1000);
    }
    world.claim().await;
    world.woken();
    world.connect(&source).await;
    assert!(world.woken(), "the dispatcher is told at once");
    assert_eq!(claimed(&world).await, waiting);
}

pub async fn a_connection_makes_nothing_late_that_did_not_wait(mut world: World) {
    let (idle, _) = tunnel(&mut world, true).await;
    world.connect(&idle).await;
    assert_eq!(world.store.health().await.unwrap().oldest_due, None);
    let (source, _) = tunnel(&mut world, true).await;
    let since = world.now;
    receive_unleased(&mut world, &source).await;
    world.pass(1000);
    world.connect(&source).await;
    // Before a claim has looked it need not be known since when.
    let late = world.store.health().await.unwrap().oldest_due;
    assert!(late.is_none_or(|due| due == since), "{late:?} {since:?}");
    world.claim().await;
    assert_eq!(world.store.health().await.unwrap().oldest_due, None);
}

pub async fn what_comes_while_somebody_listens_is_leased_at_birth(mut world: World) {
    for pending in [true, false] {
        let (source, destination) = tunnel(&mut world, pending).await;
        world.connect(&source).await;
        let parcel = world.send(&source).await;
        assert_eq!(parcel.endpoint.id, EndpointId::Destination(destination));
        assert_eq!((parcel.endpoint.seats(), parcel.endpoint.takes_pending()), (SEATS, pending));
        assert_eq!(parcel.endpoint.holds_back(), None);
        world.settle(&parcel, failed()).await;
        let delivery = parcel.lease.delivery;
        assert_eq!(waits_for(&world, delivery).await, Some(WaitingFor::Time));
        world.pass(FOUR_MINUTES_MS);
        assert_eq!(waits_for(&world, delivery).await, Some(WaitingFor::Slot));
        world.claim_and_settle(ok()).await;
        assert_eq!(world.state(delivery).await, State::Delivered);
    }
}

pub async fn without_pending_only_what_was_created_since_is_leased(mut world: World) {
    let (source, _) = tunnel(&mut world, false).await;
    let old = receive_unleased(&mut world, &source).await;
    world.pass(1);
    world.connect(&source).await;
    let told = world.claim().await;
    assert_eq!(told, Claimed::default(), "nothing is to be looked at again");
    assert_eq!(waits_for(&world, old).await, Some(WaitingFor::Client));
    let new = world.send(&source).await;
    world.settle(&new, failed()).await;
    // The other is due earlier, and stays where it is.
    let told = world.claim().await;
    assert_eq!((told.count, told.next_due), (0, Some(world.delivery(new.lease.delivery).await.life.due_at)));
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(claimed(&world).await, [new.lease.delivery]);

    // A connection that comes later is another: what this one had is old to it.
    world.leave(&source).await;
    world.release(Lease { attempt: 2, ..new.lease }).await;
    world.pass(1);
    world.connect(&source).await;
    assert_eq!(world.claim().await, Claimed::default());
    let newer = world.send(&source).await;
    assert_eq!(newer.lease.attempt, 1);
    assert_eq!(world.delivery(old).await.life.attempts_made, 0);
}

pub async fn what_was_created_since_is_told_also_when_the_clock_went_back(mut world: World) {
    let (source, _) = tunnel(&mut world, false).await;
    world.pass(3_600_000);
    receive_unleased(&mut world, &source).await;
    world.now = world.now - HALF_AN_HOUR;
    let old = receive_unleased(&mut world, &source).await;
    world.pass(1000);
    world.connect(&source).await;
    assert_eq!(claimed(&world).await, [], "{old} came before");
    let new = world.send(&source).await;
    world.settle(&new, failed()).await;
    world.now = world.now - HALF_AN_HOUR;
    let newer = world.send(&source).await;
    world.settle(&newer, failed()).await;
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(claimed(&world).await, [newer.lease.delivery]);
    world.pass(3_600_000);
    assert_eq!(claimed(&world).await, [new.lease.delivery]);
}

pub async fn switching_pending_on_acts_at_once(mut world: World) {
    let (source, _) = tunnel(&mut world, false).await;
    let old = [receive_unleased(&mut world, &source).await, receive_unleased(&mut world, &source).await];
    world.pass(1000);
    world.connect(&source).await;
    assert_eq!(claimed(&world).await, []);
    world.woken();
    world.change_source(source.id, |it| it.deliver_pending_on_connect = true).await;
    assert!(world.woken());
    assert_eq!(waits_for(&world, old[0]).await, Some(WaitingFor::Slot));
    assert_eq!(claimed(&world).await, old);
}

pub async fn switching_pending_off_gives_back_what_is_older(mut world: World) {
    let (source, destination) = tunnel(&mut world, true).await;
    receive_unleased(&mut world, &source).await;
    world.pass(1000);
    world.connect(&source).await;
    world.claim().await;
    let (old, new) = (world.parcel(), world.send(&source).await);
    world.change_source(source.id, |it| it.deliver_pending_on_connect = false).await;
    assert!(!new.endpoint.takes_pending());
    assert_eq!(withdrawn(&world), [destination]);
    world.release(old.lease).await;
    world.release(new.lease).await;
    assert_eq!(claimed(&world).await, [new.lease.delivery]);
    assert_eq!(world.delivery(old.lease.delivery).await.life.attempts_made, 0);
}

/// Which destinations were to give back what has not dialled, each once.
fn withdrawn(world: &World) -> Vec<DestinationId> {
    let mut found = Vec::new();
    for what in world.tray.take_withdrawals() {
        let Withdraw::Endpoint(EndpointId::Destination(id)) = what else { panic!("{what:?}") };
        found.push(id);
    }
    found.dedup();
    found
}

pub async fn a_manual_retry_and_a_replay_are_new(mut world: World) {
    let (source, _) = tunnel(&mut world, false).await;
    let request = world.receive(&source).await;
    let old = delivery_of(&world, request).await;
    let cancelled = world.store.cancel(world.workspace, old, world.now).await.unwrap();
    assert_eq!(cancelled, Cancelled::Done);
    world.pass(1000);
    world.connect(&source).await;
    assert_eq!(claimed(&world).await, []);

    let Retried::Fresh(again) = world.store.retry(world.workspace, old, world.now).await.unwrap() else {
        panic!("it was refused")
    };
    let tail = world.tail();
    let Replayed::Fresh(copy) = world.store.replay(world.workspace, request, world.now, tail).await.unwrap()
    else {
        panic!("it was refused")
    };
    world.claim().await;
    let mut sent: Vec<DeliveryId> = leased(&world).iter().map(|parcel| parcel.lease.delivery).collect();
    sent.sort();
    let mut wanted = [again, delivery_of(&world, copy).await];
    wanted.sort();
    assert_eq!(sent, wanted);
}

pub async fn what_has_not_dialled_is_given_back_when_nobody_listens_any_more(mut world: World) {
    let (source, destination) = tunnel(&mut world, true).await;
    world.connect(&source).await;
    let (dialled, undialled) = (world.send(&source).await, world.send(&source).await);
    world.leave(&source).await;
    assert_eq!(withdrawn(&world), [destination]);
    assert!(dialled.endpoint.holds_back().is_some());
    assert_eq!((dialled.endpoint.slots(), dialled.endpoint.leases_max()), (0, 0));
    world.release(undialled.lease).await;
    world.settle(&dialled, Outcome::Lost).await;
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(claimed(&world).await, []);
    for parcel in [&dialled, &undialled] {
        let delivery = world.delivery(parcel.lease.delivery).await;
        assert_eq!((delivery.life.state, delivery.life.attempts_used), (State::Pending, 0));
        assert_eq!(waits_for(&world, delivery.id).await, Some(WaitingFor::Client));
    }
    world.connect(&source).await;
    assert_eq!(world.claim().await.count, 2);
}

pub async fn a_pause_holds_back_also_while_somebody_listens(mut world: World) {
    let (source, destination) = tunnel(&mut world, true).await;
    world.connect(&source).await;
    world.change_destination(destination, |it| it.paused = true).await;
    let delivery = receive_unleased(&mut world, &source).await;
    assert_eq!(world.claim().await, Claimed::default());
    assert_eq!(waits_for(&world, delivery).await, Some(WaitingFor::Resume));
    world.woken();
    world.change_destination(destination, |it| it.paused = false).await;
    assert!(world.woken());
    assert_eq!(claimed(&world).await, [delivery]);
}

pub async fn seats_bound_what_is_leased(mut world: World) {
    let (source, destination) = tunnel(&mut world, true).await;
    for _ in 0..10 {
        receive_unleased(&mut world, &source).await;
    }
    world.connect_with(&source, 1).await;
    assert_eq!(world.claim().await.count, 2, "one in flight, one that follows");
    let mut parcels = leased(&world);
    assert_eq!((parcels[0].endpoint.slots(), parcels[0].endpoint.leases_max()), (1, 2));
    assert_eq!(world.claim().await.count, 0);
    let since = world.now;
    world.store.listen(source.id, Some(Listening { since, seats: 3 })).await.unwrap();
    assert!(world.woken());
    assert_eq!(world.claim().await.count, 4);
    assert!(withdrawn(&world).is_empty());
    parcels.extend(leased(&world));
    // Two of three go.
    world.store.listen(source.id, Some(Listening { since, seats: 1 })).await.unwrap();
    assert_eq!(withdrawn(&world), [destination]);
    for parcel in &parcels {
        world.release(parcel.lease).await;
    }
    assert_eq!(world.claim().await.count, 2);
}

pub async fn a_source_without_destinations_for_clients_goes_on_as_it_was(mut world: World) {
    let (source, _) = world.pair().await;
    world.connect_with(&source, 1).await;
    let parcels = [world.send(&source).await, world.send(&source).await, world.send(&source).await];
    assert_eq!(parcels[0].endpoint.seats(), u32::MAX);
    world.leave(&source).await;
    assert!(withdrawn(&world).is_empty());
    world.send(&source).await;
}

pub async fn a_new_destination_of_a_source_that_is_listened_to_is_served(mut world: World) {
    let source = world.source_with("bare", |it| it.deliver_pending_on_connect = false).await;
    world.connect(&source).await;
    let destination = world.destination_with(&source, |it| it.kind = DestinationKind::Cli).await;
    let parcel = world.send(&source).await;
    assert_eq!(parcel.endpoint.id, EndpointId::Destination(destination));
    world.leave(&source).await;
    assert_eq!(withdrawn(&world), [destination]);
    world.destination_with(&source, |it| it.kind = DestinationKind::Cli).await;
    world.receive(&source).await;
    assert!(leased(&world).is_empty(), "nobody listens any more");
}

pub async fn a_destination_may_turn_to_clients_and_back(mut world: World) {
    let (source, destination) = world.pair().await;
    world.change_source(source.id, |it| it.deliver_pending_on_connect = false).await;
    let old = world.send(&source).await;
    world.settle(&old, failed()).await;
    world.pass(1000);
    world.connect(&source).await;
    world.change_destination(destination, |it| it.kind = DestinationKind::Cli).await;
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(claimed(&world).await, [], "it was made before the client came");
    let new = world.send(&source).await;
    assert_eq!(new.endpoint.seats(), SEATS);
    world.woken();
    world.change_destination(destination, |it| it.kind = DestinationKind::Http).await;
    assert!(world.woken());
    assert_eq!(claimed(&world).await, [old.lease.delivery]);
}

pub async fn a_deletion_ends_what_waits_for_a_client(mut world: World) {
    let (source, destination) = tunnel(&mut world, false).await;
    let old = receive_unleased(&mut world, &source).await;
    world.pass(1000);
    world.connect(&source).await;
    let leased = world.send(&source).await;
    world.delete_destination(destination).await;
    assert_eq!(withdrawn(&world), [destination]);
    world.release(leased.lease).await;
    world.prune().await;
    for delivery in [old, leased.lease.delivery] {
        assert_eq!(world.state(delivery).await, State::Cancelled(CancelReason::EndpointDeleted));
    }
    world.leave(&source).await;

    let (source, _) = tunnel(&mut world, false).await;
    let old = receive_unleased(&mut world, &source).await;
    world.pass(1000);
    world.connect(&source).await;
    world.delete_source(source.id).await;
    world.prune().await;
    assert_eq!(world.state(old).await, State::Cancelled(CancelReason::SourceDeleted));
    world.leave(&source).await;
}

pub async fn nobody_listens_after_a_restart(mut world: World) {
    let (source, _) = tunnel(&mut world, true).await;
    world.connect(&source).await;
    let delivery = world.send(&source).await.lease.delivery;
    let mut world = world.crash().await;
    world.pass(1000);
    world.store.take_over(world.now).await.unwrap();
    world.receive(&source).await;
    world.pass(FOUR_MINUTES_MS);
    assert_eq!(claimed(&world).await, []);
    assert_eq!(waits_for(&world, delivery).await, Some(WaitingFor::Client));
    world.connect(&source).await;
    assert_eq!(world.claim().await.count, 2);
}
