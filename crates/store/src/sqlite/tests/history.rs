//! The index written behind, while rows come and go.

use std::collections::BTreeSet;

use restante_core::Outcome;
use rusqlite::Connection;

use super::Rig;
use crate::sqlite::engine::Engine;
use crate::sqlite::history::watermark;

/// Pairs that belong in the index: (scope, key) of each row, and whether it lies behind the watermark.
pub(super) fn check(engine: &Engine) {
    let rows =
        pairs(&engine.conn, "SELECT feed, key FROM message UNION ALL SELECT endpoint, key FROM delivery");
    let written = pairs(&engine.conn, "SELECT scope, key FROM history");
    let waiting: BTreeSet<_> = engine.history.pairs().into_iter().collect();
    let until = watermark(&engine.conn).unwrap();
    assert!(written.is_subset(&rows), "the index has rows of nothing: {:?}", written.difference(&rows));
    assert!(waiting.is_subset(&rows), "rows of nothing wait: {:?}", waiting.difference(&rows));
    let known: BTreeSet<_> = written.union(&waiting).copied().collect();
    assert_eq!(known, rows, "each row is in the index or waits for it");
    let unwritten: Vec<_> = rows.difference(&written).filter(|(_, key)| *key <= until).collect();
    assert!(unwritten.is_empty(), "readers take the index for complete up to {until}: {unwritten:?}");
}

fn pairs(conn: &Connection, sql: &str) -> BTreeSet<(i64, i64)> {
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Erases every second request at different stages of the index, and prunes the rest.
fn erase_at_every_stage(crash: bool) {
    let mut rig = Rig::new();
    let source = rig.source("token");
    rig.destination(&source);
    rig.destination(&source);
    let (now, workspace) = (rig.now, rig.workspace);
    let mut requests = Vec::new();
    for flushed in [0, 50, 150, 100, 1000] {
        for _ in 0..50 {
            rig.accept("token");
            let parcels = rig.tray.take();
            requests.push(parcels[0].request());
            rig.settle(&parcels[0], Outcome::of_status(500, None));
        }
        let last = rig.engine.last_key;
        rig.run(|engine| engine.history.flush(&engine.conn, last, flushed));
        if crash {
            rig.crash();
        }
        check(&rig.engine);
        for request in requests.iter().skip(flushed / 50).step_by(2) {
            rig.run(|engine| engine.erase(workspace, *request, now));
        }
        check(&rig.engine);
    }
    rig.pass(24 * 3_600_000);
    let now = rig.now;
    while rig.run(|engine| engine.prune(now, 7)) {}
    assert_eq!(rig.rows(), [0; 4], "messages, deliveries, attempts, index");
    assert!(rig.engine.history.pairs().is_empty());
}

#[test]
fn no_row_is_left_behind() {
    erase_at_every_stage(false);
}

#[test]
fn no_row_is_left_behind_after_crashes() {
    erase_at_every_stage(true);
}
