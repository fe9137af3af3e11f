//! What attempts make of a webhook's health: runs, notices, automatic pauses.

use std::time::Duration;

use restante_core::delivery::FailReason;
use restante_core::endpoint::Webhook;
use restante_core::health::{self, Health, Run};
use restante_core::id::WebhookId;
use restante_core::retry::Schedule;
use restante_core::{Outcome, State};

use super::{World, failed, filters, ok};
use crate::record::{NoticeKind, Record};
use crate::{Parcel, Policy, Resent};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DEGRADED: NoticeKind = NoticeKind::WebhookDegraded;
const PAUSED: NoticeKind = NoticeKind::WebhookPaused;

/// Publishes an event for one webhook; its first attempt comes to `outcome` at this very moment.
async fn attempt(world: &mut World, outcome: Outcome) -> Parcel {
    let parcel = world.emit().await;
    end(world, &parcel, outcome).await;
    parcel
}

async fn end(world: &World, parcel: &Parcel, outcome: Outcome) {
    let finished = world.finished(parcel, outcome);
    world.store.settle(vec![finished]).await.unwrap();
}

/// Makes a webhook degraded that was well: five failures in five minutes.
async fn degrade(world: &mut World) {
    for _ in 0..4 {
        attempt(world, failed()).await;
    }
    world.pass(5 * MINUTE_MS);
    attempt(world, failed()).await;
}

async fn failures(world: &World, webhook: WebhookId) -> u32 {
    world.health(webhook).await.run.map_or(0, |run| run.failures)
}

/// A policy under which a webhook is degraded and paused by so many failures, however soon they come.
fn impatient(degraded_failures: u32, paused_after: Duration) -> Policy {
    let health = health::Limits { degraded_failures, degraded_after: Duration::ZERO, paused_after };
    Policy { health, ..Policy::default() }
}

pub async fn five_failures_over_five_minutes_degrade_once(mut world: World) {
    let webhook = world.webhook().await;
    assert_eq!(world.health(webhook).await, Health::default());
    let since = world.now;
    for count in 1..=5 {
        attempt(&mut world, failed()).await;
        let run = Some(Run { since, failures: count });
        assert_eq!(world.health(webhook).await, Health { run, degraded: false }, "at once");
    }
    world.pass(5 * MINUTE_MS - 1);
    attempt(&mut world, failed()).await;
    assert!(!world.health(webhook).await.degraded);
    assert_eq!(world.notices(webhook).await, []);
    world.pass(1);
    attempt(&mut world, failed()).await;
    let run = Some(Run { since, failures: 7 });
    assert_eq!(world.health(webhook).await, Health { run, degraded: true });
    assert_eq!(world.notices(webhook).await, [DEGRADED]);
    for _ in 0..10 {
        world.pass(HOUR_MS);
        attempt(&mut world, failed()).await;
    }
    assert_eq!(world.notices(webhook).await, [DEGRADED], "one an episode");
    assert!(!world.is_paused(webhook).await);
    assert_eq!(world.publish("order.paid").await.deliveries, 1);
    world.parcel();
}

pub async fn the_next_episode_has_its_own_notice(mut world: World) {
    let webhook = world.webhook().await;
    degrade(&mut world).await;
    attempt(&mut world, ok()).await;
    assert_eq!(world.health(webhook).await, Health::default());
    // The run begins anew: what failed before the recovery is forgotten.
    world.pass(200 * HOUR_MS);
    degrade(&mut world).await;
    assert_eq!(world.notices(webhook).await, [DEGRADED, DEGRADED]);
    assert_eq!(failures(&world, webhook).await, 5);
    assert!(!world.is_paused(webhook).await);
}

pub async fn a_failure_after_120_hours_pauses(mut world: World) {
    let webhook = world.webhook().await;
    let since = world.now;
    degrade(&mut world).await;
    world.now = since + Duration::from_millis(120 * HOUR_MS - 1);
    attempt(&mut world, failed()).await;
    let in_flight = world.emit().await;
    world.pass(1);
    assert!(!world.is_paused(webhook).await, "time alone changes nothing");
    let last = attempt(&mut world, failed()).await;
    assert!(world.is_paused(webhook).await);
    assert_eq!(world.notices(webhook).await, [DEGRADED, PAUSED]);
    assert!(world.withdrew(webhook) && last.endpoint.settings().receiver.is_paused());
    assert_eq!(world.state(last.lease.delivery).await, State::Failed(FailReason::EndpointPaused));

    end(&world, &in_flight, failed()).await;
    assert_eq!(world.notices(webhook).await, [DEGRADED, PAUSED], "a paused webhook is past being watched");
    let mut world = world.crash().await;
    assert!(world.is_paused(webhook).await);
    world.pass(1000 * HOUR_MS);
    assert!(world.claim_all().await.is_empty(), "it never resumes by itself");
    assert!(world.is_paused(webhook).await);
}

pub async fn a_settlement_that_does_both_tells_both_in_order(mut world: World) {
    let webhook = world.webhook().await;
    for _ in 0..4 {
        attempt(&mut world, failed()).await;
    }
    world.pass(120 * HOUR_MS);
    attempt(&mut world, failed()).await;
    assert_eq!(world.notices(webhook).await, [DEGRADED, PAUSED]);
    assert!(world.is_paused(webhook).await);

    let mut world = world.restart(impatient(1, Duration::ZERO)).await;
    world.delete_webhook(webhook).await;
    let webhook = world.webhook().await;
    attempt(&mut world, failed()).await;
    assert_eq!(world.notices(webhook).await, [DEGRADED, PAUSED]);
    assert!(world.is_paused(webhook).await);
}

pub async fn the_failures_of_one_settle_count_one_after_another(world: World) {
    let mut world = world.restart(impatient(3, Duration::ZERO)).await;
    let webhook = world.webhook().await;
    let parcels = [world.emit().await, world.emit().await, world.emit().await, world.emit().await];
    let finished = parcels.iter().map(|parcel| world.finished(parcel, failed())).collect();
    world.store.settle(finished).await.unwrap();
    assert_eq!(world.notices(webhook).await, [DEGRADED, PAUSED]);
    assert_eq!(failures(&world, webhook).await, 3, "the fourth came to a paused webhook");
    for parcel in parcels {
        assert_eq!(world.state(parcel.lease.delivery).await, State::Failed(FailReason::EndpointPaused));
    }
}

pub async fn lost_attempts_never_count(world: World) {
    let mut world = world.restart(impatient(1, Duration::ZERO)).await;
    let webhook = world.webhook().await;
    world.emit_and_settle(Outcome::Lost).await;
    world.claim_and_settle(Outcome::Lost).await;
    // The third in a row uses an attempt, and still it is our own fault.
    world.claim_and_settle(Outcome::Lost).await;
    world.emit().await;
    let world = world.crash().await;
    world.store.take_over(world.now).await.unwrap();
    assert_eq!(world.health(webhook).await, Health::default());
    assert_eq!(world.notices(webhook).await, []);
    assert!(!world.is_paused(webhook).await);
}

pub async fn replays_that_fail_never_count(world: World) {
    let mut world = world.restart(impatient(2, Duration::ZERO)).await;
    let webhook = world.one_try_webhook().await;
    let parcel = attempt(&mut world, failed()).await;
    let before = world.health(webhook).await;
    for outcome in [failed(), Outcome::Lost, failed()] {
        replay(&mut world, webhook, &parcel).await;
        world.claim_and_settle(outcome).await;
        assert_eq!(world.health(webhook).await, before);
    }
    assert_eq!(world.notices(webhook).await, []);
    replay(&mut world, webhook, &parcel).await;
    world.claim_and_settle(ok()).await;
    assert_eq!(world.health(webhook).await, Health::default(), "but one that delivers clears");
}

async fn replay(world: &mut World, webhook: WebhookId, parcel: &Parcel) {
    let (tail, delivery) = (world.tail(), parcel.lease.delivery);
    let resent = world.store.replay_delivery(world.workspace, webhook, delivery, world.now, tail).await;
    assert!(matches!(resent.unwrap(), Resent::Started { .. }));
}

pub async fn a_delivered_attempt_clears(mut world: World) {
    let webhook = world.webhook().await;
    degrade(&mut world).await;
    let in_flight = world.emit().await;
    attempt(&mut world, ok()).await;
    assert_eq!(world.health(webhook).await, Health::default());
    end(&world, &in_flight, failed()).await;
    let run = Some(Run { since: world.now, failures: 1 });
    assert_eq!(world.health(webhook).await, Health { run, degraded: false }, "a new run");

    // Also one that is paused meanwhile; and it stays paused.
    let in_flight = world.emit().await;
    world.pause(webhook).await;
    end(&world, &in_flight, ok()).await;
    assert_eq!(world.health(webhook).await, Health::default());
    assert!(world.is_paused(webhook).await);
}

pub async fn failures_of_a_paused_webhook_do_not_count(mut world: World) {
    let webhook = world.webhook().await;
    attempt(&mut world, failed()).await;
    let in_flight = world.emit().await;
    world.pause(webhook).await;
    end(&world, &in_flight, failed()).await;
    assert_eq!(failures(&world, webhook).await, 1);
}

pub async fn a_changed_url_clears_and_other_changes_do_not(mut world: World) {
    let webhook = world.webhook().await;
    degrade(&mut world).await;
    let degraded = world.health(webhook).await;
    let changes: [fn(&mut Webhook); 5] = [
        |it| it.description = Some("new".into()),
        |it| it.events = filters(&["order.*"]),
        |it| it.schedule = Schedule::Quadratic { attempts: 2 },
        |it| it.timeout_seconds = 9,
        // Writing `active` on a degraded one.
        |it| it.paused = false,
    ];
    for change in changes {
        world.change_webhook(webhook, change).await;
        assert_eq!(world.health(webhook).await, degraded);
    }
    world.change_webhook(webhook, |it| it.url = "https://new.example".into()).await;
    assert_eq!(world.health(webhook).await, Health::default());
    degrade(&mut world).await;
    world.pause(webhook).await;
    assert_eq!(failures(&world, webhook).await, 5, "a pause by hand forgets nothing");
    world.change_webhook(webhook, |it| it.url = "https://newer.example".into()).await;
    assert_eq!(world.health(webhook).await, Health::default());
    assert!(world.is_paused(webhook).await, "a paused one stays paused");
    assert_eq!(world.notices(webhook).await, [DEGRADED, DEGRADED]);
}

pub async fn a_resumed_webhook_starts_without_a_run(mut world: World) {
    let webhook = world.webhook().await;
    for _ in 0..5 {
        attempt(&mut world, failed()).await;
    }
    world.pass(120 * HOUR_MS);
    attempt(&mut world, failed()).await;
    assert!(world.is_paused(webhook).await);
    world.activate(webhook).await;
    assert_eq!(world.health(webhook).await, Health::default());
    attempt(&mut world, failed()).await;
    assert!(!world.is_paused(webhook).await, "the run begins anew");
    assert_eq!(failures(&world, webhook).await, 1);
}

pub async fn a_delivered_test_clears(mut world: World) {
    let webhook = world.webhook().await;
    degrade(&mut world).await;
    let other = world.new_workspace("second").await;
    assert!(!world.store.clear_run(other, webhook).await.unwrap());
    assert!(!world.store.clear_run(world.workspace, WebhookId::from_uuid(7)).await.unwrap());
    assert!(world.health(webhook).await.degraded);
    for _ in 0..2 {
        assert!(world.store.clear_run(world.workspace, webhook).await.unwrap());
        assert_eq!(world.health(webhook).await, Health::default());
    }
    world.pause(webhook).await;
    assert!(world.store.clear_run(world.workspace, webhook).await.unwrap());
    assert!(world.is_paused(webhook).await, "a paused one stays paused");
    world.delete_webhook(webhook).await;
    assert!(!world.store.clear_run(world.workspace, webhook).await.unwrap());
}

pub async fn a_failing_run_outlives_the_process(mut world: World) {
    let webhook = world.webhook().await;
    degrade(&mut world).await;
    let before = world.health(webhook).await;
    let mut world = world.crash().await;
    assert_eq!(world.health(webhook).await, before);
    world.pass(120 * HOUR_MS);
    attempt(&mut world, failed()).await;
    assert_eq!(world.notices(webhook).await, [DEGRADED, PAUSED]);
    assert!(world.is_paused(webhook).await);
}

pub async fn webhooks_stand_each_for_itself(mut world: World) {
    let fails = world.webhook_for(&["order.*"]).await;
    let works = world.webhook_for(&["invoice.*"]).await;
    attempt(&mut world, failed()).await;
    let unknown = WebhookId::from_uuid(7);
    let healths = world.store.healths(vec![works, fails, unknown, fails]).await.unwrap();
    let run = Some(Run { since: world.now, failures: 1 });
    let failing = Health { run, degraded: false };
    assert_eq!(healths, [Health::default(), failing, Health::default(), failing], "in their order");
    let record: Record<Webhook> = world.store.get(world.workspace, fails).await.unwrap().unwrap();
    assert_eq!(record.version, 1, "how it stands is no change of its settings");
}
