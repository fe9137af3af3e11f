//! Promises of [`Store::replay_delivery`](crate::Store::replay_delivery).

use restante_core::delivery::{CancelReason, FailReason};
use restante_core::id::{DeliveryId, Tail, WebhookId};
use restante_core::retry::Schedule;
use restante_core::{Outcome, State};

use super::{World, failed, ok, started};
use crate::Resent;
use crate::record::{ReplayKind, ReplayState};
use crate::row::{LogFilter, Trigger};

/// Deliveries of a webhook, one in each state that a replay can meet, and that state.
async fn in_every_state(world: &mut World) -> (WebhookId, Vec<(DeliveryId, State)>) {
    let webhook = world.webhook_with(|it| it.schedule = schedule(&[90_000.0])).await;
    let ended_by_pause = world.emit_and_settle(failed()).await.lease.delivery;
    world.pause(webhook).await;
    let skipped = world.publish("order.paid").await.id;
    let skipped = world.event(skipped).await.deliveries[0].id;
    world.activate(webhook).await;
    world.claim_all().await;
    let delivered = world.emit_and_settle(ok()).await.lease.delivery;
    let cancelled = world.emit_and_settle(failed()).await.lease.delivery;
    world.store.cancel(world.workspace, cancelled, world.now).await.unwrap();
    let pending = world.emit_and_settle(failed()).await.lease.delivery;
    let exhausted = world.emit().await;
    world.change_webhook(webhook, |it| it.schedule = schedule(&[])).await;
    world.settle(&exhausted, failed()).await;
    world.change_webhook(webhook, |it| it.schedule = schedule(&[90_000.0])).await;
    let table = vec![
        (ended_by_pause, State::Failed(FailReason::EndpointPaused)),
        (skipped, State::Skipped),
        (delivered, State::Delivered),
        (cancelled, State::Cancelled(CancelReason::Requested)),
        (pending, State::Pending),
        (exhausted.lease.delivery, State::Failed(FailReason::Exhausted)),
    ];
    for (delivery, state) in &table {
        assert_eq!(world.state(*delivery).await, *state);
    }
    (webhook, table)
}

fn schedule(waits_seconds: &[f64]) -> Schedule {
    Schedule::Custom { waits_seconds: waits_seconds.to_vec(), jitter: 0.0 }
}

pub async fn it_is_sent_again_from_every_state(mut world: World) {
    let (webhook, table) = in_every_state(&mut world).await;
    for (delivery, state) in table {
        for outcome in [failed(), Outcome::Lost] {
            let before = world.delivery(delivery).await.life;
            let (id, events) = started(world.replay_one(webhook, delivery).await);
            assert_eq!((events, world.job(id).await.kind), (1, ReplayKind::Single));
            assert!(world.woken(), "it begins by itself");
            let parcel = world.claim_all().await.remove(0);
            assert_eq!((parcel.lease.delivery, parcel.lease.attempt), (delivery, before.attempts_made + 1));
            assert_eq!(world.state(delivery).await, State::Sending);
            world.settle(&parcel, outcome).await;
            let after = world.delivery(delivery).await.life;
            assert_eq!((after.state, after.due_at, after.wait), (state, before.due_at, before.wait));
            assert_eq!(after.attempts_used, before.attempts_used);
            let job = world.job(id).await;
            assert_eq!((job.state, job.delivered, job.failed), (ReplayState::Done, 0, 1));
        }
        let (id, _) = started(world.replay_one(webhook, delivery).await);
        let parcel = world.claim_all().await.remove(0);
        world.settle(&parcel, ok()).await;
        assert_eq!(world.state(delivery).await, State::Delivered);
        let job = world.job(id).await;
        assert_eq!((job.state, job.delivered, job.failed), (ReplayState::Done, 1, 0));
        let numbers: Vec<u32> = world.delivery(delivery).await.attempts.iter().map(|it| it.number).collect();
        assert_eq!(numbers, (1..=parcel.lease.attempt).collect::<Vec<_>>());
    }
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty(), "all of them are delivered");
}

pub async fn the_attempt_that_delivered_first_is_still_listed(mut world: World) {
    let webhook = world.webhook().await;
    let parcel = world.emit_and_settle(Outcome::of_status(204, None)).await;
    let delivery = parcel.lease.delivery;
    world.change_webhook(webhook, |it| it.url = "https://new.example".into()).await;
    let first = world.delivery(delivery).await.attempts;
    assert_eq!(first.len(), 1);
    started(world.replay_one(webhook, delivery).await);
    world.pass(1000);
    let begun = world.claim_all().await.remove(0);
    let with_running = world.delivery(delivery).await.attempts;
    assert_eq!((with_running.len(), &with_running[0]), (2, &first[0]));
    assert_eq!((with_running[1].trigger, &with_running[1].result), (Trigger::Replay, &None));

    // Taken back, it is gone; the first stays.
    world.release(begun.lease).await;
    assert_eq!(world.delivery(delivery).await.attempts, first);
    let begun = world.claim_all().await.remove(0);
    world.settle(&begun, failed()).await;
    let world = world.crash().await;
    let shown = world.delivery(delivery).await;
    assert_eq!((shown.life.state, shown.attempts.len()), (State::Delivered, 2));
    assert_eq!(shown.attempts[0], first[0]);
    assert_eq!(shown.attempts[1].url, "https://new.example");
    let filter = LogFilter::default();
    let log = world.store.attempts(world.workspace, webhook, filter, None, 9, world.now).await.unwrap();
    let lines: Vec<_> = log.unwrap().0.into_iter().map(|line| line.attempt).collect();
    assert_eq!(lines, [shown.attempts[1].clone(), shown.attempts[0].clone()]);
}

pub async fn it_waits_for_what_is_in_flight_and_is_sent_whatever_that_came_to(mut world: World) {
    let webhook = world.webhook().await;
    for outcome in [failed(), ok()] {
        let parcel = world.emit().await;
        started(world.replay_one(webhook, parcel.lease.delivery).await);
        assert!(world.claim_all().await.is_empty());
        world.settle(&parcel, outcome).await;
        assert!(world.woken());
        let again = world.claim_all().await.remove(0);
        assert_eq!((again.lease.delivery, again.lease.attempt), (parcel.lease.delivery, 2));
        world.settle(&again, ok()).await;
    }
    // Asked for twice, it is sent twice, one after the other.
    let parcel = world.emit_and_settle(ok()).await;
    for _ in 0..2 {
        started(world.replay_one(webhook, parcel.lease.delivery).await);
    }
    let first = world.claim_all().await;
    assert_eq!(first.len(), 1);
    world.settle(&first[0], ok()).await;
    assert_eq!(world.run(ok()).await[0].lease.attempt, 3);
}

pub async fn it_does_not_wait_for_other_replays(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let failure = world.emit_and_settle(failed()).await;
    let delivered = world.emit_and_settle(ok()).await;
    started(world.replay_all(webhook).await);
    started(world.replay_all(webhook).await);
    assert_eq!(world.claim_all().await[0].lease.delivery, failure.lease.delivery);
    started(world.replay_one(webhook, delivered.lease.delivery).await);
    assert_eq!(world.claim_all().await[0].lease.delivery, delivered.lease.delivery);
}

pub async fn it_uses_no_quota(mut world: World) {
    let webhook = world.webhook().await;
    let delivery = world.emit_and_settle(ok()).await.lease.delivery;
    for _ in 0..25 {
        started(world.replay_one(webhook, delivery).await);
        assert_eq!(world.run(ok()).await.len(), 1);
    }
    started(world.replay_all(webhook).await);
}

pub async fn nothing_is_sent_to_a_paused_webhook(mut world: World) {
    let webhook = world.webhook().await;
    let delivery = world.emit_and_settle(ok()).await.lease.delivery;
    started(world.replay_one(webhook, delivery).await);
    world.pause(webhook).await;
    assert_eq!(world.replay_one(webhook, delivery).await, Resent::Paused);
    world.activate(webhook).await;
    assert!(world.claim_all().await.is_empty(), "the pause ended the first");
}

pub async fn what_is_not_the_webhooks_is_not_found(mut world: World) {
    let webhook = world.webhook_for(&["order.*"]).await;
    let other = world.webhook_for(&["invoice.*"]).await;
    let ours = world.emit_and_settle(ok()).await.lease.delivery;
    let (source, _) = world.pair().await;
    let request = world.send(&source).await.lease.delivery;
    let made_up = DeliveryId::new(ours.key(), Tail::from_bits(ours.tail().value() ^ 1));
    for (webhook, delivery) in
        [(other, ours), (webhook, request), (webhook, made_up), (WebhookId::from_uuid(7), ours)]
    {
        assert_eq!(world.replay_one(webhook, delivery).await, Resent::NotFound);
    }
    world.delete_webhook(webhook).await;
    assert_eq!(world.replay_one(webhook, ours).await, Resent::NotFound);
}

pub async fn it_outlives_the_process(mut world: World) {
    let webhook = world.webhook().await;
    let delivery = world.emit_and_settle(ok()).await.lease.delivery;
    let (id, _) = started(world.replay_one(webhook, delivery).await);
    let mut world = world.crash().await;
    assert!(world.woken());
    let sent = world.run(ok()).await;
    assert_eq!((sent.len(), sent[0].lease.delivery), (1, delivery));
    assert_eq!(world.job(id).await.state, ReplayState::Done);
}
