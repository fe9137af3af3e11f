//! Memory is what the tables say, whatever failed.

use std::sync::Arc;
use std::time::Duration;

use restante_core::Outcome;
use restante_core::health::Limits;
use restante_core::id::ReplayId;
use restante_core::idempotency::{Fingerprint, IdempotencyKey};

use super::{Memory, Rig};
use crate::record::{BulkRetryJob, BulkRetryState, Kind, Raw};
use crate::sqlite::Fault;
use crate::sqlite::engine::Engine;
use crate::{BulkRetry, Grant, KeyClaim, Policy, Publishing, Window};

type Job = Box<dyn FnOnce(&mut Engine) -> Result<(), Fault>>;

/// A rig in the middle of things: something leased, due, waiting, failed and delivered, credits counted.
fn busy() -> (Rig, Vec<Job>) {
    let zero = Duration::ZERO;
    let health = Limits { degraded_failures: 3, degraded_after: zero, paused_after: zero };
    let mut rig = Rig::with(Policy { health, ..Policy::default() });
    let source = rig.source("token");
    let mut destination = rig.destination(&source);
    let (now, workspace) = (rig.now, rig.workspace);
    rig.run(|engine| engine.grant(workspace, Grant::Delta(50), String::new(), now));
    let [leased, fails, claimed, delivered] =
        [rig.send("token"), rig.send("token"), rig.send("token"), rig.send("token")];
    rig.settle(&delivered, Outcome::of_status(200, None));
    rig.settle(&claimed, Outcome::Lost);
    rig.run(|engine| engine.claim(now, 10));
    rig.settle(&fails, Outcome::of_status(500, None));
    let claimed = rig.tray.take().remove(0);
    let outbound = outbound(&mut rig);
    let bulk = BulkRetry { since: now, until: now, state: "delivered".into() };
    let job = BulkRetryJob {
        bulk,
        cursor: -1,
        end: i64::MAX,
        total: 1,
        created: 0,
        state: BulkRetryState::Running,
    };
    let job = serde_json::to_string(&job).unwrap();
    let bulk: ReplayId = super::id(&rig.create(Kind::BulkRetry, Some(destination.uuid), None, None, job));

    let later = rig.now + Duration::from_secs(3600);
    let expired = rig.now + Duration::from_secs(24 * 3600);
    let (incoming, tail) = (rig.incoming("token", b"another"), rig.tail());
    let settled = rig.finished(&leased, Outcome::of_status(200, None));
    let lost = rig.finished(&claimed, Outcome::Lost);
    let (request, delivery) = (delivered.request(), delivered.lease.delivery);
    let pending = fails.lease.delivery;
    destination.body = destination.body.replace("a.example", "b.example");
    let mut paused = destination.clone();
    paused.body = paused.body.replace("\"paused\":false", "\"paused\":true");
    let inbound: Vec<Job> = vec![
        Box::new(|engine| engine.accept(incoming).map(drop)),
        Box::new(move |engine| engine.claim(later, 100).map(drop)),
        Box::new(move |engine| engine.settle(&settled).map(drop)),
        Box::new(move |engine| engine.settle(&lost).map(drop)),
        Box::new(move |engine| engine.release(&[leased.lease, claimed.lease], now)),
        Box::new(move |engine| engine.take_over(now, 10).map(drop)),
        Box::new(move |engine| engine.cancel(workspace, pending, now).map(drop)),
        Box::new(move |engine| engine.retry(workspace, delivery, now).map(drop)),
        Box::new(move |engine| engine.replay(workspace, request, now, tail).map(drop)),
        Box::new(move |engine| engine.advance_bulk_retry(bulk, now, 10).map(drop)),
        Box::new(move |engine| engine.erase(workspace, claimed.request(), now).map(drop)),
        Box::new(move |engine| engine.update(Kind::Destination, &destination, now).map(drop)),
        Box::new(move |engine| engine.update(Kind::Destination, &paused, now).map(drop)),
        Box::new(move |engine| {
            engine.delete(Kind::Destination, workspace, paused_uuid(&fails), now).map(drop)
        }),
        Box::new(move |engine| engine.delete(Kind::Source, workspace, source.uuid, now).map(drop)),
        Box::new(move |engine| engine.grant(workspace, Grant::Delta(-20), String::new(), now).map(drop)),
        Box::new(move |engine| engine.grant(workspace, Grant::Unlimited, String::new(), now).map(drop)),
        Box::new(move |engine| engine.prune(expired, 100).map(drop)),
    ];
    // In memory a due time may be too early: a reload knows better.
    rig.engine.roll_back().unwrap();
    (rig, inbound.into_iter().chain(outbound).collect())
}

/// Two webhooks in the middle of things, the second of them paused. The first has failed twice: the next failure
/// pauses it. A replay is under way, with one attempt in flight and one to come; another one waits for it.
fn outbound(rig: &mut Rig) -> Vec<Job> {
    let (first, mut second) = (rig.webhook(), rig.webhook());
    rig.change_webhook(&mut second, |it| it.paused = true);
    assert_eq!(rig.tray.take_withdrawals().len(), 1);
    rig.publish(5);
    let [delivered, fails, waits, leased, lost] = rig.tray.take().try_into().expect("the second is paused");
    rig.settle(&delivered, Outcome::of_status(200, None));
    for parcel in [&fails, &waits] {
        rig.settle(parcel, Outcome::of_status(500, None));
    }
    rig.settle(&lost, Outcome::Lost);
    let (now, workspace, webhook) = (rig.now, rig.workspace, super::id(&first));
    let window = Window { since: now, until: now };
    for _ in 0..2 {
        let tail = rig.tail();
        rig.run(|engine| engine.replay_webhook(workspace, webhook, window, now, tail));
    }
    for _ in 0..2 {
        rig.run(|engine| engine.claim(now, 1));
    }
    let [again, replayed] = rig.tray.take().try_into().expect("what was lost is due, then the replay begins");
    assert_eq!(replayed.lease.delivery, fails.lease.delivery);

    let later = now + Duration::from_secs(3600);
    let claim = KeyClaim {
        key: IdempotencyKey::parse(b"key").unwrap(),
        fingerprint: Fingerprint::builder("events.publish").finish(),
    };
    let (publishing, keyed) = (rig.publishing(3), Publishing { claim: Some(claim), ..rig.publishing(1) });
    let settles = [
        rig.finished(&leased, Outcome::of_status(200, None)),
        rig.finished(&leased, Outcome::of_status(500, None)),
        rig.finished(&replayed, Outcome::of_status(200, None)),
        rig.finished(&replayed, Outcome::of_status(500, None)),
        rig.finished(&again, Outcome::of_status(200, None)),
    ];
    let changed = |raw: &Raw, from: &str, to: &str| {
        assert!(raw.body.contains(from), "{from}");
        Raw { body: raw.body.replace(from, to), ..raw.clone() }
    };
    let updates = [
        changed(&first, "\"paused\":false", "\"paused\":true"),
        changed(&first, "hooks.example", "new.example"),
        changed(&first, "[\"*\"]", "[\"invoice.*\"]"),
        changed(&second, "\"paused\":true", "\"paused\":false"),
    ];
    let (tails, leases) = ([rig.tail(), rig.tail(), rig.tail()], [leased.lease, replayed.lease]);
    let other = super::id(&second);
    let mut jobs: Vec<Job> = vec![
        Box::new(|engine| engine.publish(publishing).map(drop)),
        Box::new(|engine| engine.publish(keyed).map(drop)),
        Box::new(move |engine| engine.claim(later, 100).map(drop)),
        Box::new(move |engine| engine.release(&leases, now)),
        Box::new(move |engine| engine.replay_webhook(workspace, webhook, window, now, tails[0]).map(drop)),
        Box::new(move |engine| {
            engine.replay_delivery(workspace, webhook, delivered.lease.delivery, now, tails[1]).map(drop)
        }),
        Box::new(move |engine| engine.recover(workspace, other, None, now, tails[2]).map(drop)),
        Box::new(move |engine| engine.clear_run(workspace, webhook).map(drop)),
        Box::new(move |engine| engine.delete(Kind::Webhook, workspace, first.uuid, now).map(drop)),
        Box::new(move |engine| engine.prune(now + Duration::from_secs(4 * 24 * 3600), 100).map(drop)),
        Box::new(move |engine| engine.prune(now + Duration::from_secs(40 * 24 * 3600), 100).map(drop)),
    ];
    for parcel in [fails, waits] {
        jobs.push(Box::new(move |engine| engine.cancel(workspace, parcel.lease.delivery, now).map(drop)));
    }
    for finished in settles {
        jobs.push(Box::new(move |engine| engine.settle(&finished).map(drop)));
    }
    for raw in updates {
        jobs.push(Box::new(move |engine| engine.update(Kind::Webhook, &raw, now).map(drop)));
    }
    jobs
}

fn paused_uuid(parcel: &crate::Parcel) -> u128 {
    parcel.endpoint.id.uuid()
}

#[test]
fn a_failed_transaction_leaves_memory_as_it_was() {
    let (mut rig, jobs) = busy();
    let before = Memory::of(&rig.engine);
    assert_eq!(before, Memory::of(&rig.fresh()));
    let rows = rig.rows();
    for (index, job) in jobs.into_iter().enumerate() {
        let failed: Result<(), Fault> = rig.engine.transaction(|engine| {
            job(engine)?;
            Err(Fault::Io("planted".into()))
        });
        assert!(matches!(failed, Err(Fault::Io(_))), "{index}: {failed:?}");
        assert_eq!(Memory::of(&rig.engine), before, "job {index}");
        assert_eq!(rig.rows(), rows, "job {index}");
        assert!(rig.tray.take().is_empty() && rig.tray.take_withdrawals().is_empty(), "job {index}");
    }
}

#[test]
fn a_job_that_fails_alone_leaves_the_others_effects() {
    for index in 0..busy().1.len() {
        let (mut rig, mut jobs) = busy();
        let job = jobs.swap_remove(index);
        let (first, last) = (rig.incoming("token", b"first"), rig.incoming("token", b"last"));
        rig.run(|engine| {
            engine.accept(first)?;
            let before = engine.savepoint()?;
            job(engine)?;
            engine.roll_back_to_savepoint(before)?;
            engine.accept(last)
        });
        let bodies: Vec<_> = rig.tray.take().iter().map(|it| it.content.message.body().clone()).collect();
        assert_eq!(bodies, ["first", "last"], "job {index}");
        assert!(rig.tray.take_withdrawals().is_empty(), "job {index}");
        assert_eq!(Memory::of(&rig.engine), Memory::of(&rig.fresh()), "job {index}");
        assert_eq!(rig.engine.config.workspaces.values().next().unwrap().balance, Some(44), "job {index}");
    }
}

#[test]
fn every_committed_job_leaves_memory_like_the_tables() {
    for index in 0..busy().1.len() {
        let (mut rig, mut jobs) = busy();
        let job = jobs.swap_remove(index);
        rig.run(job);
        let (mut memory, mut fresh) = (Memory::of(&rig.engine), Memory::of(&rig.fresh()));
        // In memory a due time may be too early, and a deletion may be thought to have left something.
        for memory in [&mut memory, &mut fresh] {
            memory.agenda.clear();
            memory.unswept.clear();
            memory.endpoints.values_mut().for_each(|(_, next_due, ..)| *next_due = 0);
        }
        assert_eq!(memory, fresh, "job {index}");
    }
}

#[test]
fn settings_are_published_with_the_commit_that_changed_them() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    let mut destination = rig.destination(&source);
    let endpoint = Arc::clone(&rig.send("token").endpoint);
    let mut changed = destination.clone();
    changed.body = changed.body.replace("a.example", "b.example");
    let now = rig.now;
    let failed: Result<(), Fault> = rig.engine.transaction(|engine| {
        engine.update(Kind::Destination, &changed, now)?;
        Err(Fault::Io("planted".into()))
    });
    assert!(failed.is_err());
    assert_eq!(endpoint.settings().receiver.url(), "https://a.example/hook");
    rig.change_destination(&mut destination, |it| it.url = "https://c.example".into());
    assert_eq!((endpoint.settings().receiver.url(), endpoint.settings().version), ("https://c.example", 2));
}

#[test]
fn a_rolled_back_deletion_sweeps_nothing() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    let destination = rig.destination(&source);
    let parcel = rig.send("token");
    rig.settle(&parcel, Outcome::of_status(500, None));
    let (now, workspace) = (rig.now, rig.workspace);
    let failed: Result<(), Fault> = rig.engine.transaction(|engine| {
        engine.delete(Kind::Destination, workspace, destination.uuid, now)?;
        Err(Fault::Io("planted".into()))
    });
    assert!(failed.is_err());
    rig.run(|engine| engine.prune(now, 100));
    rig.pass(3_600_000);
    let later = rig.now;
    assert_eq!(rig.run(|engine| engine.claim(later, 10)).count, 1);
}

#[test]
fn a_full_database_fails_one_transaction_and_no_more() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    rig.send("token");
    let before = Memory::of(&rig.engine);
    let pages: i64 = rig.engine.conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    rig.engine.conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    let large = rig.incoming("token", &vec![7; 1_000_000]);
    let failed = rig.engine.transaction(|engine| engine.accept(large));
    assert!(matches!(failed, Err(Fault::Sqlite(_))), "{failed:?}");
    assert_eq!(Memory::of(&rig.engine), before);
    rig.engine.conn.query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(())).unwrap();
    rig.send("token");
}
