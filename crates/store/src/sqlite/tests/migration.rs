//! A data directory of the first version, opened by this one.

use std::path::Path;

use restante_core::delivery::{CancelReason, FailReason};
use restante_core::endpoint::{Destination, Receiver};
use restante_core::id::{DeliveryId, Id, Key, RequestId, SourceId, Tail, WorkspaceId};
use restante_core::message::MessageId;
use restante_core::retry::{Schedule, WaitCause};
use restante_core::{Outcome, State, Timestamp};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{Rig, open};
use crate::code::hex;
use crate::row::{DeliveryFilter, RequestFilter, Trigger};
use crate::sqlite::read::Reader;
use crate::sqlite::{DATABASE_FILE, set_meta};
use crate::{Page, Policy, Settled};

const FIRST: &str = include_str!("../../../migrations/sqlite/0001_inbound.sql");
const THEN_MS: i64 = 1_800_000_000_000;
const TAIL: i64 = 77;

/// The key of the only message; its deliveries have those behind it.
const KEY: i64 = THEN_MS << 21;

fn uuid(row: i64) -> u128 {
    Id::<restante_core::id::kind::Source>::new(Key::from_value(row), Tail::from_bits(9)).uuid()
}

/// What the first version left when it died: a workspace, a source, two destinations, and one message with a delivery
/// in each state.
fn first_version(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    conn.execute_batch(
        "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)",
    )
    .unwrap();
    conn.execute_batch(FIRST).unwrap();
    conn.execute("INSERT INTO migration VALUES (1, 'inbound', ?1)", [hex(&Sha256::digest(FIRST))]).unwrap();
    let destination = |deleted: &str| {
        format!(
            r#"{{"kind":"http","url":"https://{deleted}.example/hook","schedule":{{"kind":"quadratic","attempts":5}},
                "idempotency_header":"X-Key","paused":false,"headers":[["X-Token","plain"]],"max_in_flight":64,
                "rate_per_second":0.5,"timeout_seconds":30}}"#
        )
    };
    let source = r#"{"name":"orders","token":"secret","response":null,"deliver_pending_on_connect":true,"retention_days":30}"#;
    let workspace = r#"{"name":"first","owners":["a@b.example"],"retention_days_max":365}"#;
    let (living, deleted) = (destination("living"), destination("deleted"));
    for (kind, parent, name, lookup, body) in [
        (1, None, None, None, workspace),
        (2, None, Some("orders"), Some("secret"), source),
        (3, Some(2), None, None, &living[..]),
        (3, Some(2), None, None, &deleted),
    ] {
        conn.execute(
            "INSERT INTO record (kind, uuid, key, workspace, parent, name, lookup, version, created_at, updated_at, body) \
             VALUES (?1, x'', 0, 1, ?2, ?3, ?4, 1, ?5, ?5, ?6)",
            params![kind, parent, name, lookup, THEN_MS, body],
        )
        .unwrap();
        let row = conn.last_insert_rowid();
        let id = uuid(row).to_be_bytes();
        conn.execute("UPDATE record SET uuid = ?2, key = ?1 WHERE row = ?1", params![row, id]).unwrap();
    }
    conn.execute("UPDATE record SET deleted_at = ?1 WHERE row = 4", [THEN_MS]).unwrap();
    conn.execute_batch("INSERT INTO endpoint_url VALUES (3, 1, 'https://living.example/hook'), (4, 1, 'https://deleted.example/hook')")
        .unwrap();
    conn.execute("INSERT INTO credit VALUES (1, 5)", []).unwrap();
    fill(&conn);
    set_meta(&conn, "lease_floor", KEY).unwrap();
}

/// The message, its deliveries and their attempts.
fn fill(conn: &Connection) {
    conn.execute(
        "INSERT INTO message (key, tail, source, fanout, received_at, replay_of, method, path, query, remote, headers, body) \
         VALUES (?1, ?2, 2, 8, ?3, NULL, 'POST', '/a', 'q=1', '192.0.2.1', x'', x'00ff')",
        params![KEY, TAIL, THEN_MS],
    )
    .unwrap();
    // State, claimed, cancel requested; made, used, lost; started, version, ended; status; wait and its cause.
    for (offset, columns) in [
        (1, "2, 0, 0, 1, 1, 0, :then, :then, 1, :then + 40, 204, NULL, NULL"),
        (2, "0, 0, 0, 2, 1, 1, :then + 50, NULL, 1, :then + 50, NULL, 0, 3"),
        (3, "1, 1, 0, 2, 1, 0, :then + 60, :then + 70, 1, :then + 10, NULL, 240000, 0"),
        (4, "1, 0, 1, 1, 0, 0, :then, :then, 1, NULL, NULL, NULL, NULL"),
        (5, "30, 0, 0, 5, 5, 0, :then, NULL, 1, :then + 90, NULL, 1500000, 0"),
        (6, "40, 0, 0, 0, 0, 0, :then, NULL, NULL, :then + 5, NULL, NULL, NULL"),
        (7, "0, 0, 0, 0, 0, 0, :then, NULL, NULL, NULL, NULL, NULL, NULL"),
        (8, "0, 0, 0, 1, 1, 0, :then + 240010, NULL, 1, :then + 10, NULL, 240000, 0"),
    ] {
        let endpoint = if offset == 7 { 4 } else { 3 };
        let columns = columns.replace(":then", &THEN_MS.to_string());
        conn.execute_batch(&format!(
            "INSERT INTO delivery (key, message, endpoint, state, claimed, cancel_requested, made, used, lost, due_at, \
             started_at, endpoint_version, ended_at, status, wait_ms, wait_cause, created_at, retry_of) \
             VALUES ({KEY} + {offset}, {KEY}, {endpoint}, {columns}, NULL, NULL)"
        ))
        .unwrap();
    }
    // Delivery, number, and when it started; result, failure, used.
    for (offset, number, at, rest) in [
        (2, 1, 0, "1, 500, 6, NULL, 1"),
        (2, 2, 40, "2, NULL, NULL, NULL, 0"),
        (3, 1, 0, "1, NULL, 1, 'refused', 1"),
        (5, 1, 0, "1, 500, 6, NULL, 1"),
        (5, 2, 10, "1, 500, 6, NULL, 1"),
        (5, 3, 20, "1, 500, 6, NULL, 1"),
        (5, 4, 30, "1, 500, 6, NULL, 1"),
        (5, 5, 80, "1, 500, 6, NULL, 1"),
        (8, 1, 0, "1, 429, 6, NULL, 1"),
    ] {
        conn.execute_batch(&format!(
            "INSERT INTO attempt (delivery, number, endpoint_version, started_at, duration_ms, result, status, failure, \
             message, uses_budget) VALUES ({KEY} + {offset}, {number}, 1, {THEN_MS} + {at}, 10, {rest})"
        ))
        .unwrap();
    }
    // The index holds the first few of them.
    for (scope, offset) in [(2, 0), (3, 1), (3, 2), (3, 3)] {
        conn.execute("INSERT INTO history VALUES (?1, ?2)", params![scope, KEY + offset]).unwrap();
    }
    set_meta(conn, "history_watermark", KEY + 3).unwrap();
}

fn id(offset: i64) -> DeliveryId {
    DeliveryId::new(Key::from_value(KEY + offset), Tail::from_bits(TAIL as u64))
}

#[test]
fn the_deliveries_of_the_first_version_go_on_where_they_were() {
    let directory = tempfile::tempdir().unwrap();
    first_version(&directory.path().join(DATABASE_FILE));
    let mut rig = adopt(directory);
    let exhausted = State::Failed(FailReason::Exhausted);
    let cancelled = State::Cancelled(CancelReason::Requested);
    let deleted = State::Cancelled(CancelReason::EndpointDeleted);
    let states = [
        State::Delivered,
        State::Pending,
        State::Sending,
        State::Sending,
        exhausted,
        cancelled,
        deleted,
        State::Pending,
    ];
    let request = RequestId::new(Key::from_value(KEY), Tail::from_bits(TAIL as u64));
    let shown = rig.engine.request(rig.workspace, request, rig.now).unwrap().unwrap();
    assert_eq!(
        (shown.method.as_str(), shown.body_bytes, shown.source),
        ("POST", 2, SourceId::from_uuid(uuid(2)))
    );
    assert_eq!(shown.deliveries.iter().map(|it| it.life.state).collect::<Vec<_>>(), states);
    let attempts: Vec<_> = shown.deliveries.iter().map(|it| it.attempts.len()).collect();
    assert_eq!(attempts, [1, 2, 2, 1, 5, 0, 0, 1]);
    let first = &shown.deliveries[0];
    assert_eq!((first.id, first.message), (id(1), MessageId::Request(request)));
    assert_eq!(first.attempts[0].url, "https://living.example/hook/a?q=1");
    assert_eq!(first.attempts[0].result.as_ref().unwrap().status, Some(204));
    let waits = &shown.deliveries[7].life;
    assert_eq!(waits.due_at, Timestamp::from_millis(THEN_MS + 240_010));
    assert_eq!(waits.wait.map(|wait| wait.cause), Some(WaitCause::Schedule));
    assert!(shown.deliveries[3].life.cancel_requested() && !shown.deliveries[2].life.cancel_requested());
    let all = shown.deliveries.iter().flat_map(|it| &it.attempts);
    assert!(all.clone().all(|attempt| attempt.trigger == Trigger::Automatic));

    // What was leased is lost, what was cancelled ends, what is due is sent.
    let now = rig.now;
    assert_eq!(rig.run(|engine| engine.take_over(now, 10)), 2);
    rig.run(|engine| engine.claim(now, 10));
    let mut sent: Vec<_> = rig.tray.take();
    sent.sort_by_key(|parcel| parcel.lease.delivery);
    let leases: Vec<_> = sent.iter().map(|it| (it.lease.delivery, it.lease.attempt)).collect();
    assert_eq!(leases, [(id(2), 3), (id(3), 3)]);
    for parcel in &sent {
        assert!(matches!(rig.settle(parcel, Outcome::of_status(200, None)), Settled::Done(_)));
    }
    let state = |rig: &Rig, offset| {
        rig.engine.delivery(rig.workspace, id(offset), rig.now).unwrap().unwrap().life.state
    };
    for (offset, expected) in [(2, State::Delivered), (3, State::Delivered), (4, cancelled), (7, deleted)] {
        assert_eq!(state(&rig, offset), expected, "delivery {offset}");
    }
}

#[test]
fn the_records_and_lists_of_the_first_version_are_there() {
    let directory = tempfile::tempdir().unwrap();
    first_version(&directory.path().join(DATABASE_FILE));
    let mut rig = adopt(directory);
    assert_eq!(rig.engine.balance(rig.workspace).unwrap(), Some(5));
    let mut reader = Reader::new(&rig.engine.conn, Policy::default(), rig.now);
    let page = Page { total: true, ..Page::newest(100) };
    let requests = reader.requests(rig.workspace, &RequestFilter::default(), page).unwrap();
    assert_eq!((requests.items.len(), requests.total), (1, Some(1)));
    let destination = Id::from_uuid(uuid(3));
    let of_it = DeliveryFilter { destination: Some(destination), ..DeliveryFilter::default() };
    let deliveries = reader.deliveries(rig.workspace, &of_it, page).unwrap();
    let keys: Vec<_> = deliveries.items.iter().map(|it| it.id).collect();
    assert_eq!(keys, [8, 6, 5, 4, 3, 2, 1].map(id));
    let Receiver::Destination(Destination { schedule, headers, .. }) = &deliveries.items[0].receiver else {
        panic!("it is a destination")
    };
    assert_eq!((schedule, headers.len()), (&Schedule::Quadratic { attempts: 5 }, 1));

    // Old and new live side by side.
    let parcel = rig.send("secret");
    assert!(parcel.lease.delivery.key() > Key::from_value(KEY + 8));
    rig.webhook();
    assert_eq!(rig.publish(1)[0].deliveries, 1);
    rig.crash();
    assert_eq!(rig.engine.agenda.leased, 4);
    super::history::check(&rig.engine);
}

/// A rig on what is there.
fn adopt(directory: TempDir) -> Rig {
    let policy = Policy::default();
    let mut engine = open(&directory.path().join(DATABASE_FILE), policy);
    let tray = std::sync::Arc::<crate::conformance::Tray>::default();
    engine.attach(Some(std::sync::Arc::clone(&tray) as _));
    let (now, workspace) = (Timestamp::from_millis(THEN_MS + 1000), WorkspaceId::from_uuid(uuid(1)));
    Rig { engine, tray, now, workspace, policy, tails: 0, directory }
}
