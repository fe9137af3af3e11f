//! Many callers, one commit.

use std::sync::{Arc, mpsc};

use restante_core::Timestamp;
use tokio::task::JoinSet;

use super::{Rig, count};
use crate::conformance::Tray;
use crate::sqlite::writer::Task;
use crate::sqlite::{DATABASE_FILE, Fault, Sqlite};
use crate::{Accepted, Error, Policy, Store};

/// A store on the files of a rig with one source and one destination, and the rig, to make requests.
fn store() -> (Sqlite, Rig) {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    (Sqlite::open(rig.directory.path(), Policy::default()).unwrap(), rig)
}

#[tokio::test]
async fn a_thousand_callers_are_all_answered() {
    let (store, mut rig) = store();
    let store = Arc::new(store);
    let mut calls = JoinSet::new();
    for _ in 0..1000 {
        let (store, incoming) = (Arc::clone(&store), rig.incoming("token", b"hello"));
        calls.spawn(async move { store.accept(incoming).await.unwrap() });
    }
    let mut ids: Vec<_> = calls
        .join_all()
        .await
        .into_iter()
        .map(|answer| {
            let Accepted::Fresh { id, .. } = answer else { panic!("{answer:?}") };
            id.key().value()
        })
        .collect();
    ids.sort_unstable();
    let stored: Vec<i64> = store
        .read(|conn| {
            let mut statement = conn.prepare("SELECT key FROM message ORDER BY key")?;
            let keys = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            crate::sqlite::plans::excuse();
            Ok(keys)
        })
        .await
        .unwrap();
    assert_eq!(stored, ids);
}

/// Holds the writer until the sender is dropped, so that what is sent meanwhile comes into one commit.
fn hold(store: &Arc<Sqlite>) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel::<()>();
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let job = move |_: &mut _| {
            let _ = receiver.recv();
            Ok(())
        };
        store.write(Task::Grouped, job).await
    });
    sender
}

#[tokio::test]
async fn a_failure_that_is_alone_harms_nobody_in_its_commit() {
    let (store, mut rig) = store();
    let (store, tray) = (Arc::new(store), Arc::new(Tray::default()));
    store.attach(Some(Arc::clone(&tray) as _)).await.unwrap();
    let held = hold(&store);
    let mut calls = Vec::new();
    for fails in [false, true, false, true, false] {
        let (store, incoming) = (Arc::clone(&store), rig.incoming("token", b"hello"));
        calls.push(tokio::spawn(async move {
            let job = move |engine: &mut crate::sqlite::engine::Engine| {
                let accepted = engine.accept(incoming)?;
                if fails { Err(Fault::Damaged("planted".into())) } else { Ok(accepted) }
            };
            store.write(Task::Alone, job).await.is_ok()
        }));
        tokio::task::yield_now().await;
    }
    drop(held);
    let mut stored = Vec::new();
    for call in calls {
        stored.push(call.await.unwrap());
    }
    assert_eq!(stored, [true, false, true, false, true]);
    assert_eq!(tray.take().len(), 3);
    assert_eq!(store.health().await.unwrap().leased, 3);
    assert_eq!(store.read(|conn| Ok(count(conn, "delivery"))).await.unwrap(), 3);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_accept() {
    let (store, mut rig) = store();
    let store = Arc::new(store);
    store.accept(rig.incoming("token", b"hello")).await.unwrap();
    store.write(Task::Grouped, |engine| Ok(engine.conn.execute("DELETE FROM message", [])?)).await.unwrap();
    store.attach(Some(Arc::new(Tray::default()))).await.unwrap();
    let held = hold(&store);
    let (claiming, now) = (Arc::clone(&store), rig.now);
    let claim = tokio::spawn(async move { claiming.claim(now, 10).await });
    let (accepting, incoming) = (Arc::clone(&store), rig.incoming("token", b"hello"));
    let accept = tokio::spawn(async move { accepting.accept(incoming).await });
    tokio::task::yield_now().await;
    drop(held);
    assert!(claim.await.unwrap().is_err());
    assert!(matches!(accept.await.unwrap(), Ok(Accepted::Fresh { .. })));
}

#[tokio::test]
async fn a_full_disk_is_told_and_ends() {
    let (store, mut rig) = store();
    let limit = |pages: &'static str| {
        move |engine: &mut crate::sqlite::engine::Engine| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok(engine.conn.query_row(&sql, [], |_| Ok(()))?)
        }
    };
    store.write(Task::Grouped, limit("1")).await.unwrap();
    let refused = store.accept(rig.incoming("token", &vec![7; 1_000_000])).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    store.write(Task::Grouped, limit("1000000")).await.unwrap();
    // What was accepted goes on at once; what is new, once it was looked for room, which is done every second.
    store.shared.room.look();
    store.accept(rig.incoming("token", &vec![7; 1_000_000])).await.unwrap();
    assert_eq!(store.read(|conn| Ok(count(conn, "message"))).await.unwrap(), 1);
    store.health().await.unwrap();
}

#[tokio::test]
async fn health_finds_out_that_a_fault_is_over() {
    let (store, _rig) = store();
    let failed = store.write(Task::Grouped, |_| Err::<(), _>(Fault::Io("planted".into()))).await;
    assert!(failed.is_err());
    // Nobody writes any more: the question itself must.
    store.health().await.unwrap();
}

#[tokio::test]
async fn a_closed_store_is_not_healthy() {
    let (store, rig) = store();
    store.close();
    assert!(matches!(store.health().await, Err(Error::Unavailable(_))));
    assert!(matches!(store.claim(rig.now, 1).await, Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn what_was_queued_when_it_closed_is_done() {
    let (store, mut rig) = store();
    let store = Arc::new(store);
    let held = hold(&store);
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let (store, incoming) = (Arc::clone(&store), rig.incoming("token", b"hello"));
        calls.spawn(async move { store.accept(incoming).await.is_ok() });
    }
    tokio::task::yield_now().await;
    drop(held);
    store.close();
    assert_eq!(calls.join_all().await, [true; 10]);
    drop(store);
    let conn = rusqlite::Connection::open(rig.directory.path().join(DATABASE_FILE)).unwrap();
    assert_eq!(count(&conn, "message"), 10);
    assert!(rig.now > Timestamp::from_millis(0));
}
