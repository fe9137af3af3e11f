//! What pausing a webhook ends, by hand or automatically, and what starts afterwards.

use std::time::Duration;

use restante_core::delivery::{CancelReason, FailReason};
use restante_core::endpoint::EndpointId;
use restante_core::id::DeliveryId;
use restante_core::{Outcome, State, health};

use super::{World, failed, ok};
use crate::row::DeliveryFilter;
use crate::{Cancelled, Page, Policy, Settled};

const ENDPOINT_PAUSED: State = State::Failed(FailReason::EndpointPaused);

/// Two pending deliveries of the only webhook: one that was attempted and one that was not.
async fn pending(world: &mut World) -> [DeliveryId; 2] {
    let tried = world.emit_and_settle(failed()).await;
    let event = world.emit_unattempted().await;
    [tried.lease.delivery, world.event(event).await.deliveries[0].id]
}

/// The deliveries in a state, newest first, as the list says.
async fn listed(world: &World, state: &str) -> Vec<DeliveryId> {
    let filter = DeliveryFilter { state: Some(state.into()), ..DeliveryFilter::default() };
    let found = world.store.deliveries(world.workspace, filter, Page::newest(100), world.now).await.unwrap();
    found.items.iter().map(|it| it.id).collect()
}

pub async fn what_is_pending_ends_at_once(mut world: World) {
    let webhook = world.webhook().await;
    let [tried, untried] = pending(&mut world).await;
    world.pass(10);
    world.pause(webhook).await;
    let at = Some(world.now);
    world.pass(10);
    for round in ["unswept", "claimed", "pruned"] {
        let [tried, untried] = [world.delivery(tried).await, world.delivery(untried).await];
        assert_eq!((tried.life.state, tried.life.ended_at), (ENDPOINT_PAUSED, at), "{round}");
        assert_eq!((untried.life.state, untried.life.ended_at), (State::Skipped, at), "{round}");
        assert_eq!((tried.attempts.len(), untried.attempts.len()), (1, 0), "{round}");
        assert_eq!(listed(&world, "failed").await, [tried.id], "{round}");
        assert_eq!(listed(&world, "skipped").await, [untried.id], "{round}");
        assert!(listed(&world, "pending").await.is_empty(), "{round}");
        if round == "unswept" {
            world.claim().await;
        } else {
            world.prune().await;
        }
    }
    assert!(world.tray.take().is_empty());
}

pub async fn an_automatic_pause_ends_what_is_pending(mut world: World) {
    let [degraded_after, paused_after] = [Duration::ZERO; 2];
    let health = health::Limits { degraded_failures: 2, degraded_after, paused_after };
    world = world.restart(Policy { health, ..Policy::default() }).await;
    let webhook = world.webhook().await;
    let [tried, untried] = pending(&mut world).await;
    let last = world.emit().await;
    let in_flight = world.emit().await;
    world.settle(&last, failed()).await;
    assert!(world.is_paused(webhook).await);
    assert_eq!(world.state(tried).await, ENDPOINT_PAUSED);
    assert_eq!(world.state(untried).await, State::Skipped);
    assert_eq!(world.state(last.lease.delivery).await, ENDPOINT_PAUSED);
    world.settle(&in_flight, ok()).await;
    assert_eq!(world.state(in_flight.lease.delivery).await, State::Delivered);
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty());
}

pub async fn what_is_in_flight_ends_by_its_result(mut world: World) {
    let webhook = world.webhook().await;
    let again = world.emit_and_settle(failed()).await;
    world.pass(5000);
    world.claim().await;
    let again = {
        let parcel = world.parcel();
        assert_eq!(parcel.lease.delivery, again.lease.delivery);
        parcel
    };
    let [delivers, fails, lost, unsent] =
        [world.emit().await, world.emit().await, world.emit().await, world.emit().await];
    world.pause(webhook).await;
    assert!(world.withdrew(webhook));
    // All that was pending is marked; these are told by themselves.
    world.prune().await;
    assert_eq!(world.state(fails.lease.delivery).await, State::Sending);
    for (parcel, outcome) in [(&delivers, ok()), (&fails, failed()), (&lost, Outcome::Lost)] {
        assert!(matches!(world.settle(parcel, outcome).await, Settled::Done(_)));
    }
    world.release(unsent.lease).await;
    world.release(again.lease).await;
    let table = [
        (&delivers, State::Delivered, 1),
        (&fails, ENDPOINT_PAUSED, 1),
        (&lost, ENDPOINT_PAUSED, 1),
        (&unsent, State::Skipped, 0),
        (&again, ENDPOINT_PAUSED, 1),
    ];
    for (parcel, state, attempts) in table {
        let delivery = world.delivery(parcel.lease.delivery).await;
        assert_eq!((delivery.life.state, delivery.attempts.len()), (state, attempts));
        assert!(!delivery.life.cancel_requested());
    }
    assert!(world.is_paused(webhook).await);
    assert_eq!(world.store.health().await.unwrap().leased, 0);
}

pub async fn what_was_in_flight_ends_also_if_the_webhook_was_resumed_meanwhile(mut world: World) {
    let webhook = world.webhook().await;
    let [fails, delivers, unsent] = [world.emit().await, world.emit().await, world.emit().await];
    world.pause(webhook).await;
    world.activate(webhook).await;
    world.settle(&fails, failed()).await;
    world.settle(&delivers, ok()).await;
    world.release(unsent.lease).await;
    assert_eq!(world.state(fails.lease.delivery).await, ENDPOINT_PAUSED);
    assert_eq!(world.state(delivers.lease.delivery).await, State::Delivered);
    assert_eq!(world.state(unsent.lease.delivery).await, State::Skipped);
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty());
}

pub async fn what_a_dead_process_had_in_flight_ends_too(mut world: World) {
    let webhook = world.webhook().await;
    let parcel = world.emit().await;
    world.pause(webhook).await;
    let world = world.crash().await;
    world.store.take_over(world.now).await.unwrap();
    assert_eq!(world.state(parcel.lease.delivery).await, ENDPOINT_PAUSED);
    let mut world = world.crash().await;
    world.activate(webhook).await;
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty());
}

pub async fn nothing_of_it_starts_once_the_pause_was_acknowledged(mut world: World) {
    let webhook = world.webhook().await;
    let ended = pending(&mut world).await;
    world.pass(100_000);
    world.pause(webhook).await;
    assert!(world.claim_all().await.is_empty());
    assert_eq!(world.publish("order.paid").await.deliveries, 1);
    assert!(world.tray.take().is_empty());

    world.activate(webhook).await;
    assert!(world.claim_all().await.is_empty());
    let new = world.emit().await;
    world.settle(&new, ok()).await;
    world.prune().await;
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty());
    let states = [world.state(ended[0]).await, world.state(ended[1]).await];
    assert_eq!(states, [ENDPOINT_PAUSED, State::Skipped]);
}

pub async fn a_resumed_webhook_gets_only_what_comes_from_then_on(mut world: World) {
    let webhook = world.webhook().await;
    world.store.attach(None).await.unwrap();
    let publishing = world.publishing(&vec!["order.paid"; 1500]);
    let old = world.publish_this(publishing).await;
    world.attach().await;
    world.pass(1);
    world.pause(webhook).await;
    world.pass(1);
    world.activate(webhook).await;
    // Nothing of the old is marked yet; the new comes in between.
    let mut new = Vec::new();
    let mut sent = Vec::new();
    for _ in 0..100 {
        new.push(world.publish("order.paid").await.id);
        world.claim().await;
        sent.extend(world.tray.take());
    }
    let finished = sent.iter().map(|parcel| world.finished(parcel, ok())).collect();
    world.store.settle(finished).await.unwrap();
    sent.extend(world.run(ok()).await);
    let mut sent: Vec<_> = sent.iter().map(|it| it.event()).collect();
    sent.sort_unstable();
    assert_eq!(sent, new);
    for receipt in old.iter().step_by(97).chain(old.last()) {
        assert_eq!(world.event(receipt.id).await.deliveries[0].life.state, State::Skipped);
    }
}

pub async fn what_a_pause_ended_stays_ended_after_a_crash(mut world: World) {
    let webhook = world.webhook().await;
    let [tried, untried] = pending(&mut world).await;
    world.pause(webhook).await;
    let at = Some(world.now);
    let mut world = world.crash().await;
    world.activate(webhook).await;
    let world = {
        world.pass(100_000_000);
        world.crash().await
    };
    assert!(world.claim_all().await.is_empty());
    let [tried, untried] = [world.delivery(tried).await.life, world.delivery(untried).await.life];
    assert_eq!((tried.state, tried.ended_at), (ENDPOINT_PAUSED, at));
    assert_eq!((untried.state, untried.ended_at), (State::Skipped, at));
}

pub async fn what_a_pause_ended_looks_the_same_whoever_marks_it(mut world: World) {
    let webhook = world.webhook().await;
    let [tried, untried] = pending(&mut world).await;
    world.pass(100_000);
    world.pause(webhook).await;
    let before = [world.delivery(tried).await.life, world.delivery(untried).await.life];
    world.pass(100_000);
    // They are due: the claim meets them before anybody else does.
    world.activate(webhook).await;
    world.claim().await;
    assert_eq!([world.delivery(tried).await.life, world.delivery(untried).await.life], before);
}

pub async fn what_a_pause_ended_cannot_be_cancelled(mut world: World) {
    let webhook = world.webhook().await;
    let [tried, untried] = pending(&mut world).await;
    world.pause(webhook).await;
    for _ in 0..2 {
        for (delivery, state) in [(tried, ENDPOINT_PAUSED), (untried, State::Skipped)] {
            let cancelled = world.store.cancel(world.workspace, delivery, world.now).await.unwrap();
            assert_eq!(cancelled, Cancelled::Conflict(state));
            assert_eq!(world.state(delivery).await, state);
        }
        world.prune().await;
    }
}

pub async fn what_a_pause_ended_is_not_cancelled_by_a_deletion(mut world: World) {
    let webhook = world.webhook().await;
    let [tried, untried] = pending(&mut world).await;
    world.pause(webhook).await;
    world.delete_webhook(webhook).await;
    for _ in 0..2 {
        assert_eq!(world.state(tried).await, ENDPOINT_PAUSED);
        assert_eq!(world.state(untried).await, State::Skipped);
        world.prune().await;
    }
}

pub async fn a_second_pause_ends_what_came_in_between(mut world: World) {
    let webhook = world.webhook().await;
    world.pause(webhook).await;
    world.activate(webhook).await;
    let [tried, untried] = pending(&mut world).await;
    world.pass(10);
    world.pause(webhook).await;
    let mut world = world.crash().await;
    for _ in 0..2 {
        assert_eq!(world.state(tried).await, ENDPOINT_PAUSED);
        assert_eq!(world.state(untried).await, State::Skipped);
        world.pass(100_000);
        assert!(world.claim_all().await.is_empty());
    }
}

pub async fn a_cancelled_delivery_in_flight_stays_cancelled(mut world: World) {
    let webhook = world.webhook().await;
    let [first, second] = [world.emit().await, world.emit().await];
    world.store.cancel(world.workspace, first.lease.delivery, world.now).await.unwrap();
    world.pause(webhook).await;
    let cancelled = world.store.cancel(world.workspace, second.lease.delivery, world.now).await.unwrap();
    assert_eq!(cancelled, Cancelled::Done);
    for parcel in [first, second] {
        world.settle(&parcel, failed()).await;
        let state = world.state(parcel.lease.delivery).await;
        assert_eq!(state, State::Cancelled(CancelReason::Requested));
    }
}

pub async fn a_pause_leaves_other_webhooks_alone(mut world: World) {
    let paused = world.webhook_for(&["order.*"]).await;
    let other = world.webhook_for(&["order.*"]).await;
    world.publish("order.paid").await;
    for parcel in world.tray.take() {
        world.settle(&parcel, failed()).await;
    }
    world.pause(paused).await;
    world.pass(5000);
    let sent = world.claim_all().await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].endpoint.id, EndpointId::Webhook(other));
}
