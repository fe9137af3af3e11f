//! Leases that no index knows, and room for them.

use std::collections::BTreeSet;

use restante_core::Outcome;
use restante_core::id::Key;

use super::{Memory, Rig, id};
use crate::{Accepted, Window};

#[test]
fn orphans_are_found_wherever_the_floor_was_written() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    let (mut open, mut held) = (BTreeSet::new(), Vec::new());
    // The floor is written with every 64th commit; leases of all ages are open when it is.
    for step in 0..400 {
        let parcel = rig.send("token");
        open.insert(parcel.lease.delivery.key().value());
        held.push(parcel);
        if step % 3 != 0 || held.len() > 30 {
            let settled = held.remove((step * 7) % held.len());
            rig.settle(&settled, Outcome::of_status(200, None));
            open.remove(&settled.lease.delivery.key().value());
        }
        if step % 5 == 0 {
            rig.pass(1);
        }
        if step % 9 == 0 {
            let found: BTreeSet<i64> = rig.fresh().orphans.keys().copied().collect();
            assert_eq!(found, open, "after step {step}");
        }
    }
    assert_eq!(rig.engine.born, open, "memory holds no more than what is open");
}

#[test]
fn a_key_is_never_handed_out_twice() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    let mut highest = Key::from_value(0);
    let first = rig.send("token");
    first.endpoint.set_leases_max(1000);
    for _ in 0..70 {
        highest = rig.send("token").lease.delivery.key();
    }
    // All that came after the floor and the index were written goes; the clock stands.
    let (now, workspace) = (rig.now, rig.workspace);
    while rig.run(|engine| engine.prune(now, 1000)) {}
    let last = rig.send("token");
    highest = highest.max(last.lease.delivery.key());
    for parcel in rig.tray.take().iter().chain([&last]) {
        rig.run(|engine| engine.erase(workspace, parcel.request(), now));
    }
    let failed: Result<(), _> =
        rig.engine.transaction(|_| Err(crate::sqlite::Fault::Io("a reload forgets nothing".into())));
    assert!(failed.is_err());
    assert!(rig.send("token").lease.delivery.key() > highest);
}

#[test]
fn new_keys_lie_above_the_floor_and_the_index_after_a_restart() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    let (now, workspace) = (rig.now, rig.workspace);
    let mut requests = Vec::new();
    for _ in 0..100 {
        let parcel = rig.send("token");
        rig.settle(&parcel, Outcome::of_status(200, None));
        requests.push(parcel.request());
    }
    while rig.run(|engine| engine.prune(now, 1000)) {}
    rig.run(|engine| engine.write_lease_floor());
    for request in requests {
        rig.run(|engine| engine.erase(workspace, request, now));
    }
    // The clock stands, and no row tells how far the keys were.
    rig.crash();
    let Accepted::Fresh { id, .. } = rig.accept("token") else { panic!("it was refused") };
    let fresh = rig.fresh();
    assert_eq!(fresh.orphans.len(), 1, "the new lease is found after a crash");
    assert_eq!(fresh.history.pairs().len(), 2, "and so is what the index does not hold");
    assert!(id.key().value() > crate::sqlite::history::watermark(&rig.engine.conn).unwrap());
}

/// Four bodies of this length are more than content may take in memory, three are less.
const LARGE_BYTES: usize = 9 * 1024 * 1024;

#[test]
fn a_node_full_of_content_claims_again_when_that_left_memory() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    let other = rig.source("other");
    rig.destination(&other);
    let body = vec![7; LARGE_BYTES];
    for _ in 0..4 {
        let incoming = rig.incoming("token", &body);
        rig.run(|engine| engine.accept(incoming));
    }
    let now = rig.now;
    rig.run(|engine| engine.claim(now, 10));
    let held = rig.tray.take();
    assert_eq!(held.len(), 4);
    for token in ["token", "other"] {
        rig.accept(token);
    }
    assert!(rig.tray.take().is_empty(), "there is no memory for it");
    let claimed = rig.run(|engine| engine.claim(now, 10));
    assert_eq!(claimed.count, 0);
    let again = claimed.next_due.expect("content leaves memory without telling: ask again");
    assert!(again > now && again < now + std::time::Duration::from_secs(1));
    // Settled while the bytes are still held, and let go of afterwards: no transaction follows.
    for parcel in &held {
        rig.settle(parcel, Outcome::of_status(200, None));
    }
    drop(held);
    rig.now = again;
    assert_eq!(rig.run(|engine| engine.claim(again, 10)).count, 2);
}

#[test]
fn a_replay_that_finds_no_memory_is_looked_at_again() {
    let mut rig = Rig::new();
    let webhook = id(&rig.webhook());
    rig.publish(1);
    let failed = rig.tray.take().remove(0);
    rig.settle(&failed, Outcome::of_status(500, None));
    let source = rig.source("token");
    rig.destination(&source);
    for _ in 0..4 {
        let incoming = rig.incoming("token", &vec![7; LARGE_BYTES]);
        rig.run(|engine| engine.accept(incoming));
    }
    let now = rig.now;
    rig.run(|engine| engine.claim(now, 10));
    let held = rig.tray.take();
    assert_eq!(held.len(), 4);
    let (workspace, tail) = (rig.workspace, rig.tail());
    let window = Window { since: now, until: now };
    rig.run(|engine| engine.replay_webhook(workspace, webhook, window, now, tail));
    let claimed = rig.run(|engine| engine.claim(now, 10));
    assert_eq!(claimed.count, 0);
    let again = claimed.next_due.expect("content leaves memory without telling: ask again");
    assert!(again > now && again < now + std::time::Duration::from_secs(1));
    drop(held);
    assert_eq!(rig.run(|engine| engine.claim(again, 10)).count, 1);
    assert_eq!(rig.tray.take()[0].lease.delivery, failed.lease.delivery);
}

#[test]
fn one_claim_takes_no_more_content_than_there_is_room_for() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    rig.engine.attach(None);
    let body = vec![7; LARGE_BYTES];
    for _ in 0..10 {
        let incoming = rig.incoming("token", &body);
        rig.run(|engine| engine.accept(incoming));
    }
    let tray = std::sync::Arc::clone(&rig.tray);
    rig.engine.attach(Some(tray as _));
    let now = rig.now;
    assert_eq!(rig.run(|engine| engine.claim(now, 100)).count, 4);
    rig.tray.take();
    rig.pass(100);
    let now = rig.now;
    assert_eq!(rig.run(|engine| engine.claim(now, 100)).count, 4);
}

#[test]
fn stuck_lanes_leave_room_for_others() {
    let mut rig = Rig::new();
    let mut stuck = Vec::new();
    for lane in 0..20 {
        let token = format!("stuck {lane}");
        let source = rig.source(&token);
        rig.destination(&source);
        let parcel = rig.send(&token);
        parcel.endpoint.set_leases_max(1000);
        stuck.push(token);
    }
    let incoming: Vec<_> = stuck
        .iter()
        .flat_map(|token| std::iter::repeat_n(token.clone(), 1100))
        .map(|token| rig.incoming(&token, b""))
        .collect();
    rig.run(|engine| incoming.into_iter().try_for_each(|one| engine.accept(one).map(drop)));
    assert!(rig.engine.agenda.leased < 16_384);
    let healthy = rig.source("healthy");
    rig.destination(&healthy);
    rig.tray.take();
    rig.send("healthy");
    assert_eq!(Memory::of(&rig.engine).leased, rig.engine.agenda.leased);
}
