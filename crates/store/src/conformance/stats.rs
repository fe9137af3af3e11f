//! Promises of [`Store::roll_up`](crate::Store::roll_up), [`Store::stats`](crate::Store::stats) and
//! [`Store::endpoint_stats`](crate::Store::endpoint_stats).

use std::time::Duration;

use restante_core::email::Role;
use restante_core::endpoint::EndpointId;
use restante_core::retry::Schedule;
use restante_core::stats::{Breadth, Span};
use restante_core::{Outcome, State, Timestamp};

use super::{World, failed, filters, ok, started};
use crate::record::Kind;
use crate::stats::{BACKLOG_MAX, Backlog, Counts, EndpointStats, Scope, Stats};
use crate::{Cancelled, Replayed, Settled};

const HOUR_MS: u64 = 3_600_000;

impl World {
    async fn stats(&self, scope: Scope, hours: u32) -> Stats {
        let span = Span::last(hours, scope.breadth(), self.now);
        self.store.stats(self.workspace, scope, span).await.unwrap().unwrap()
    }

    /// All that was counted of a scope in the last hours.
    async fn counts(&self, scope: Scope, hours: u32) -> Counts {
        let mut total = Counts::default();
        self.stats(scope, hours).await.steps.iter().for_each(|step| total.merge(step));
        total
    }

    async fn backlog(&self, scope: Scope) -> Backlog {
        self.stats(scope, 1).await.backlog
    }

    async fn endpoints(&self, hours: u32) -> Vec<EndpointStats> {
        let span = Span::last(hours, Breadth::Part, self.now);
        self.store.endpoint_stats(self.workspace, span).await.unwrap()
    }

    async fn roll_up(&self) {
        self.store.roll_up(self.now).await.unwrap();
    }
}

/// The numbers: accepted, delivered, failed, attempts, attempts failed.
fn numbers(counts: &Counts) -> [u64; 5] {
    [counts.accepted, counts.delivered, counts.failed, counts.attempts, counts.attempts_failed]
}

pub async fn what_goes_through_is_counted(mut world: World) {
    let source = world.source("s").await;
    let one_try = Schedule::Quadratic { attempts: 1 };
    let fine = world.destination(&source).await;
    let broken = world.destination_with(&source, |it| it.schedule = one_try).await;
    world.receive(&source).await;
    let begun = world.now;
    for parcel in world.tray.take() {
        let is_fine = parcel.endpoint.id == EndpointId::Destination(fine);
        world.settle(&parcel, if is_fine { ok() } else { failed() }).await;
    }
    for rolled_up in [false, true] {
        if rolled_up {
            world.roll_up().await;
        }
        let workspace = world.counts(Scope::Workspace, 1).await;
        assert_eq!(numbers(&workspace), [1, 1, 1, 2, 1], "{rolled_up}");
        assert_eq!((workspace.arrival.count(), workspace.duration.count()), (1, 0));
        assert_eq!(world.counts(Scope::Workspace, 24).await, workspace);
        assert_eq!(world.counts(Scope::Workspace, 168).await, workspace);
        assert_eq!(world.counts(Scope::Source(source.id), 48).await, workspace);
        let fine = world.counts(Scope::Destination(fine), 1).await;
        assert_eq!(numbers(&fine), [1, 1, 0, 1, 0]);
        assert_eq!((fine.arrival.count(), fine.duration.percentile(50)), (1, Some(992)));
        assert_eq!(numbers(&world.counts(Scope::Destination(broken), 48).await), [1, 0, 1, 1, 1]);
        // In the step of the moment, and in no other.
        let span = Span::last(1, Breadth::Workspace, world.now);
        let stats = world.stats(Scope::Workspace, 1).await;
        assert_eq!(stats.steps.len(), 60);
        assert_eq!(stats.steps[span.step_of(begun).unwrap()].accepted, 1);
        assert_eq!(stats.steps.iter().filter(|it| **it != Counts::default()).count(), 1);
    }
}

pub async fn a_repeated_settle_counts_nothing(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.pass(1000);
    let finished = world.finished(&parcel, failed());
    for _ in 0..3 {
        world.store.settle(vec![finished.clone(), finished.clone()]).await.unwrap();
        assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), [1, 0, 0, 1, 1]);
    }
    world.pass(240_000);
    world.claim_and_settle(ok()).await;
    assert_eq!(world.settle(&parcel, ok()).await, Settled::LeaseLost);
    assert_eq!(numbers(&world.counts(Scope::Destination(destination), 1).await), [1, 1, 0, 2, 1]);
}

pub async fn every_kind_of_message_counts(mut world: World) {
    let (source, _) = world.pair().await;
    let webhook = world.webhook().await;
    let request = world.receive(&source).await;
    let (workspace, now, tail) = (world.workspace, world.now, world.tail());
    let replayed = world.store.replay(workspace, request, now, tail).await.unwrap();
    assert!(matches!(replayed, Replayed::Fresh(_)), "{replayed:?}");
    assert_eq!(world.counts(Scope::Workspace, 1).await.accepted, 2);
    assert_eq!(world.counts(Scope::Source(source.id), 1).await.accepted, 2);
    let publishing = world.publishing(&["a.b", "a.c", "a.d"]);
    world.publish_this(publishing).await;
    assert_eq!(world.counts(Scope::Workspace, 1).await.accepted, 5);
    assert_eq!(world.counts(Scope::Webhook(webhook), 1).await.accepted, 3);
    // What is told about an email is published by nobody; it goes to the webhook all the same.
    world.suppress("none@one.example").await;
    world.mail_to(&[(Role::To, "a@one.example"), (Role::Cc, "none@one.example")]).await;
    let told = world.counts(Scope::Webhook(webhook), 1).await.accepted - 3;
    assert!(told > 0);
    let counts = world.counts(Scope::Workspace, 1).await;
    assert_eq!(numbers(&counts), [6, 0, 1, 0, 0], "one recipient is refused at once");
    assert!(world.endpoints(1).await.is_empty(), "nothing was attempted, and mailboxes are not told of");
}

pub async fn our_own_faults_and_cancels_do_not_count(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, Outcome::Lost).await;
    assert_eq!(world.claim().await.count, 1);
    let parcel = world.parcel();
    world.release(parcel.lease).await;
    let cancelled = world.store.cancel(world.workspace, parcel.lease.delivery, world.now).await.unwrap();
    assert_eq!(cancelled, Cancelled::Done);
    let paused = world.webhook_with(|it| it.paused = true).await;
    let publishing = world.publishing(&["a.b"]);
    world.publish_this(publishing).await;
    world.roll_up().await;
    assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), [2, 0, 0, 0, 0]);
    assert_eq!(numbers(&world.counts(Scope::Destination(destination), 1).await), [1, 0, 0, 0, 0]);
    assert_eq!(numbers(&world.counts(Scope::Webhook(paused), 1).await), [1, 0, 0, 0, 0]);
}

pub async fn a_replay_of_what_was_delivered_is_no_arrival(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let publishing = world.publishing(&["a.b", "a.c"]);
    world.publish_this(publishing).await;
    let mut parcels = world.tray.take();
    let (delivered, broken) = (parcels.remove(0), parcels.remove(0));
    world.settle(&delivered, ok()).await;
    world.settle(&broken, failed()).await;
    for parcel in [&delivered, &broken] {
        let (workspace, now, tail) = (world.workspace, world.now, world.tail());
        let delivery = parcel.lease.delivery;
        started(world.store.replay_delivery(workspace, webhook, delivery, now, tail).await.unwrap());
        world.claim_and_settle(ok()).await;
    }
    let counts = world.counts(Scope::Webhook(webhook), 1).await;
    assert_eq!(numbers(&counts), [2, 2, 1, 4, 1], "what had failed has arrived after all");
    assert_eq!(counts.arrival.count(), 2);
}

pub async fn what_a_pause_ends_counts_as_failed(mut world: World) {
    let webhook = world.webhook().await;
    let publishing = world.publishing(&["a.b"]);
    world.publish_this(publishing).await;
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    world.pause(webhook).await;
    world.prune().await;
    world.claim().await;
    assert!(matches!(world.state(parcel.lease.delivery).await, State::Failed(_)));
    assert_eq!(numbers(&world.counts(Scope::Webhook(webhook), 1).await), [1, 0, 1, 1, 1]);
    assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), [1, 0, 1, 1, 1]);
}

pub async fn rolling_up_twice_changes_nothing(mut world: World) {
    let (source, destination) = world.pair().await;
    for round in 1..=3 {
        let parcel = world.send(&source).await;
        world.settle(&parcel, ok()).await;
        world.roll_up().await;
        world.roll_up().await;
        let expected = [round, round, 0, round, 0];
        assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), expected);
        assert_eq!(numbers(&world.counts(Scope::Destination(destination), 1).await), expected);
        assert_eq!(numbers(&world.endpoints(1).await[0].counts), expected);
    }
}

pub async fn a_crash_loses_what_was_not_rolled_up(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    world.roll_up().await;
    world.receive(&source).await;
    let mut world = world.crash().await;
    assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), [1, 1, 0, 1, 0]);
    // In the same minute, by another series.
    world.take_over_all().await;
    assert_eq!(world.claim().await.count, 1);
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    world.receive(&source).await;
    for _ in 0..2 {
        assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), [2, 1, 0, 2, 1]);
        assert_eq!(numbers(&world.counts(Scope::Destination(destination), 24).await), [2, 1, 0, 2, 1]);
        world.roll_up().await;
    }
}

pub async fn what_comes_late_is_added(mut world: World) {
    let (source, destination) = world.pair().await;
    let (first, second) = (world.send(&source).await, world.send(&source).await);
    world.settle(&first, ok()).await;
    let late = world.finished(&second, ok());
    world.pass(HOUR_MS / 2);
    // Twice, so that what lies behind is forgotten.
    world.roll_up().await;
    world.roll_up().await;
    world.store.settle(vec![late.clone()]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(numbers(&world.counts(Scope::Workspace, 1).await), [2, 2, 0, 2, 0]);
        assert_eq!(numbers(&world.counts(Scope::Destination(destination), 1).await), [2, 2, 0, 2, 0]);
        world.roll_up().await;
    }
    let span = Span::last(1, Breadth::Workspace, world.now);
    let step = span.step_of(late.attempt.ended_at).unwrap();
    assert_eq!(world.stats(Scope::Workspace, 1).await.steps[step].delivered, 2);
}

fn waiting(pending: u64, oldest_due: Timestamp) -> Backlog {
    Backlog { pending, at_least: false, oldest_due: Some(oldest_due) }
}

pub async fn what_waits_is_counted(mut world: World) {
    let (source, destination) = world.pair().await;
    let other = world.destination_with(&source, |it| it.paused = true).await;
    assert_eq!(world.backlog(Scope::Workspace).await, Backlog::default());
    let received_at = world.now;
    let parcel = world.send(&source).await;
    assert_eq!(world.backlog(Scope::Destination(destination)).await, Backlog::default(), "it is sending");
    world.settle(&parcel, failed()).await;
    let due = world.now + Duration::from_secs(240);
    assert_eq!(world.backlog(Scope::Destination(destination)).await, waiting(1, due));
    assert_eq!(world.backlog(Scope::Destination(other)).await, waiting(1, received_at));
    assert_eq!(world.backlog(Scope::Source(source.id)).await, waiting(2, received_at));
    let scheduled_at = received_at + Duration::from_secs(24 * 3600);
    world.mail_at(scheduled_at).await;
    assert_eq!(world.backlog(Scope::Workspace).await, waiting(3, received_at));
    world.delete_destination(other).await;
    assert_eq!(world.backlog(Scope::Workspace).await, waiting(2, due));
    let endpoints = world.endpoints(1).await;
    assert_eq!(endpoints.len(), 1);
    assert_eq!((endpoints[0].source, endpoints[0].backlog), (Some(source.id), waiting(1, due)));
}

pub async fn a_pause_leaves_nothing_waiting(mut world: World) {
    let webhook = world.webhook().await;
    let publishing = world.publishing(&["a.b"]);
    world.publish_this(publishing).await;
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    assert_eq!(world.backlog(Scope::Webhook(webhook)).await.pending, 1);
    world.pause(webhook).await;
    // Whether it is marked already or not.
    for _ in 0..2 {
        assert_eq!(world.backlog(Scope::Webhook(webhook)).await, Backlog::default());
        assert_eq!(world.backlog(Scope::Workspace).await, Backlog::default());
        assert_eq!(world.endpoints(1).await[0].backlog, Backlog::default());
        world.prune().await;
    }
}

pub async fn a_long_backlog_is_not_counted_to_its_end(mut world: World) {
    let webhook = world.webhook().await;
    world.store.attach(None).await.unwrap();
    let first = world.now;
    for _ in 0..=BACKLOG_MAX / 500 {
        world.pass(1);
        let publishing = world.publishing(&["a.b"; 500]);
        world.publish_this(publishing).await;
    }
    let oldest_due = Some(first + Duration::from_millis(1));
    let most = Backlog { pending: BACKLOG_MAX as u64, at_least: true, oldest_due };
    assert_eq!(world.backlog(Scope::Webhook(webhook)).await, most);
    // What is not counted any more has a first due time too.
    let early = world.webhook_for(&["z.z"]).await;
    world.now = first;
    let publishing = world.publishing(&["z.z"]);
    world.publish_this(publishing).await;
    assert_eq!(world.backlog(Scope::Webhook(early)).await, waiting(1, first));
    assert_eq!(world.backlog(Scope::Workspace).await, Backlog { oldest_due: Some(first), ..most });
    let endpoints = world.endpoints(1).await;
    let few = Backlog { pending: 1000, at_least: true, oldest_due: Some(first) };
    assert_eq!(endpoints[0].backlog, few);
}

pub async fn the_worst_endpoints_come_first(mut world: World) {
    let mut ids = Vec::new();
    for (kind, outcomes) in [("a", vec![ok(), ok()]), ("b", vec![failed()]), ("c", vec![failed(), ok()])] {
        let webhook = world.webhook_for(&[&format!("{kind}.*")]).await;
        for outcome in outcomes {
            let publishing = world.publishing(&[&format!("{kind}.a")]);
            world.publish_this(publishing).await;
            let parcel = world.parcel();
            world.settle(&parcel, outcome).await;
        }
        ids.push(EndpointId::Webhook(webhook));
    }
    world.webhook_for(&["never.*"]).await;
    world.roll_up().await;
    let endpoints = world.endpoints(1).await;
    let told: Vec<_> = endpoints.iter().map(|it| (it.id, numbers(&it.counts))).collect();
    let expected = [(ids[1], [1, 0, 0, 1, 1]), (ids[2], [2, 1, 0, 2, 1]), (ids[0], [2, 2, 0, 2, 0])];
    assert_eq!(told, expected);
    assert!(endpoints.iter().all(|it| it.source.is_none() && it.counts.duration.percentile(95) == Some(992)));
}

pub async fn what_is_gone_is_not_told_of(mut world: World) {
    let (source, destination) = world.pair().await;
    let webhook = world.webhook_with(|it| it.events = filters(&["a.b"])).await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    let scopes = [Scope::Source(source.id), Scope::Destination(destination), Scope::Webhook(webhook)];
    let span = Span::last(1, Breadth::Part, world.now);
    let other = world.new_workspace("other").await;
    for scope in scopes {
        assert!(world.store.stats(world.workspace, scope, span).await.unwrap().is_some());
        assert_eq!(world.store.stats(other, scope, span).await.unwrap(), None);
    }
    let elsewhere = world.store.stats(other, Scope::Workspace, span).await.unwrap().unwrap();
    assert!(elsewhere.steps.iter().all(|step| *step == Counts::default()));
    assert!(world.store.endpoint_stats(other, span).await.unwrap().is_empty());
    world.delete_source(source.id).await;
    world.store.delete(Kind::Webhook, world.workspace, webhook.uuid(), world.now).await.unwrap();
    for scope in scopes {
        assert_eq!(world.store.stats(world.workspace, scope, span).await.unwrap(), None);
    }
    assert!(world.endpoints(1).await.is_empty());
    assert_eq!(world.counts(Scope::Workspace, 1).await.delivered, 1, "the workspace did it");
}

pub async fn counts_leave_when_their_time_is_over(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    world.roll_up().await;
    let begun = world.now;
    // What is kept of it after so many hours: minutes, ten minutes of the destination, ten minutes of the workspace.
    for (hours, kept) in
        [(2, [1, 1, 1]), (4, [0, 1, 1]), (47, [0, 1, 1]), (50, [0, 0, 1]), (167, [0, 0, 1]), (170, [0; 3])]
    {
        world.now = begun + Duration::from_millis(hours * HOUR_MS);
        world.roll_up().await;
        world.prune().await;
        // As it was then, whatever may be asked for now.
        let then = |hours, breadth| Span::last(hours, breadth, begun);
        let read = async |scope: Scope, span| {
            let stats = world.store.stats(world.workspace, scope, span).await.unwrap().unwrap();
            stats.steps.iter().map(|step| step.delivered).sum::<u64>()
        };
        let told = [
            read(Scope::Workspace, then(1, Breadth::Workspace)).await,
            read(Scope::Destination(destination), then(1, Breadth::Part)).await,
            read(Scope::Workspace, then(24, Breadth::Workspace)).await,
        ];
        assert_eq!(told, kept, "after {hours} h");
    }
}
