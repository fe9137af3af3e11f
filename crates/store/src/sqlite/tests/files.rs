//! One process to a directory, and no schema but ours.

use std::path::Path;

use bytes::Bytes;
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_core::{FailureKind, Outcome};
use rusqlite::Connection;

use super::Rig;
use crate::sqlite::engine::Engine;
use crate::sqlite::{DATABASE_FILE, Fault, Sqlite};
use crate::{Accepted, KeyClaim, Policy, Publishing};

const DAY_MS: u64 = 24 * 3_600_000;

#[test]
fn a_directory_belongs_to_one_store_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path(), Policy::default()).unwrap();
    assert!(matches!(Sqlite::open(directory.path(), Policy::default()), Err(Fault::InUse(_))));
    drop(store);
    // At once: nothing of the first one is still at work.
    for _ in 0..20 {
        drop(Sqlite::open(directory.path(), Policy::default()).unwrap());
    }
}

#[cfg(unix)]
#[test]
fn a_new_directory_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("a/b");
    drop(Sqlite::open(&directory, Policy::default()).unwrap());
    let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

fn opened_after(change: &str) -> Result<(), Fault> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(DATABASE_FILE);
    drop(Engine::open(&path, Policy::default()).unwrap());
    execute(&path, change);
    Engine::open(&path, Policy::default()).map(drop)
}

fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn a_migration_that_ran_must_not_differ() {
    let opened = opened_after("UPDATE migration SET checksum = 'another' WHERE number = 1");
    assert!(matches!(&opened, Err(Fault::Damaged(what)) if what.contains("migration 1")), "{opened:?}");
    opened_after("SELECT 1").unwrap();
}

#[test]
fn a_newer_schema_is_refused() {
    let opened = opened_after("INSERT INTO migration VALUES (999, 'future', 'x')");
    assert!(matches!(&opened, Err(Fault::Damaged(what)) if what.contains("newer")), "{opened:?}");
}

#[test]
fn erased_bytes_are_not_in_the_file() {
    let mut rig = Rig::new();
    rig.source("token");
    let canary = b"a canary that nobody else sings";
    let incoming = rig.incoming("token", canary);
    rig.run(|engine| engine.accept(incoming));
    rig.pass(24 * 3_600_000);
    let now = rig.now;
    while rig.run(|engine| engine.prune(now, 100)) {}
    rig.engine.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let file = std::fs::read(rig.path()).unwrap();
    assert!(!file.windows(canary.len()).any(|bytes| bytes == canary));
}

/// Whether the database or its log holds these bytes.
fn on_disk(directory: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|file| {
        let held = std::fs::read(file.unwrap().path()).unwrap();
        held.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn what_was_erased_leaves_the_disk_with_the_next_wipe() {
    let secret = b"a body that nobody may ever read again".repeat(300);
    let mark = &secret[..64];
    let mut rig = Rig::new();
    rig.source("token");
    let incoming = rig.incoming("token", &secret);
    let workspace = rig.workspace;
    let Accepted::Fresh { id, .. } = rig.run(|engine| engine.accept(incoming)) else {
        panic!("it was refused")
    };
    let directory = rig.path().parent().unwrap().to_owned();
    assert!(on_disk(&directory, mark));
    let now = rig.now;
    assert!(rig.run(|engine| engine.erase(workspace, id, now)));
    while rig.run(|engine| engine.prune(now, 100)) {}
    rig.engine.wipe_log();
    assert!(!on_disk(&directory, mark));
}

#[test]
fn what_was_published_leaves_the_disk_with_the_next_wipe() {
    let [body, said, key] = ["a body", "what a receiver said", "a-key"].map(|it| it.repeat(60));
    let marks = [&body, &said, &key].map(|text| text[..48].to_owned());
    let mut rig = Rig::new();
    rig.webhook();
    // What the log holds from before is not what this is about.
    let now = rig.now;
    while rig.run(|engine| engine.prune(now, 100)) {}
    rig.engine.wipe_log();
    let claim = KeyClaim {
        key: IdempotencyKey::parse(&key.as_bytes()[..255]).unwrap(),
        fingerprint: Fingerprint::builder("events.publish").finish(),
    };
    let mut publishing = Publishing { claim: Some(claim), ..rig.publishing(1) };
    publishing.events[0].body = Bytes::from(body);
    rig.run(|engine| engine.publish(publishing));
    let parcel = rig.tray.take().remove(0);
    rig.settle(&parcel, Outcome::failed(FailureKind::Network, &said[..300]));
    let directory = rig.path().parent().unwrap().to_owned();
    let on_disk = || marks.iter().map(|mark| on_disk(&directory, mark.as_bytes())).collect::<Vec<_>>();
    assert_eq!(on_disk(), [true; 3]);

    rig.pass(3 * DAY_MS);
    prune(&mut rig);
    assert_eq!(on_disk(), [true, false, true], "attempts go first");
    // The delivery ends: from then on its event is kept for its time.
    for _ in 0..2 {
        let now = rig.now;
        rig.run(|engine| engine.claim(now, 10));
        let parcel = rig.tray.take().remove(0);
        rig.settle(&parcel, Outcome::of_status(500, None));
        rig.pass(600_000);
    }
    rig.pass(30 * DAY_MS);
    prune(&mut rig);
    rig.pass(DAY_MS);
    prune(&mut rig);
    assert_eq!(on_disk(), [false; 3]);
}

fn prune(rig: &mut Rig) {
    let now = rig.now;
    while rig.run(|engine| engine.prune(now, 100)) {}
    rig.engine.wipe_log();
}
