//! What is counted, against what is committed; and how it is found.

use restante_core::Outcome;
use restante_core::id::WebhookId;
use restante_core::stats::{Breadth, Span};

use super::{Rig, id};
use crate::Policy;
use crate::sqlite::Fault;
use crate::sqlite::read::{BACKLOG, parts_sql, stats, waiting_sql};
use crate::stats::Scope;

impl Rig {
    fn accepted(&self) -> u64 {
        let span = Span::last(1, Breadth::Workspace, self.now);
        let told = stats(&self.engine.conn, &self.engine.tally, self.workspace, Scope::Workspace, span);
        told.unwrap().unwrap().steps.iter().map(|step| step.accepted).sum()
    }

    /// Whether anything was left to be written.
    fn roll_up(&mut self) -> bool {
        let changed = self.engine.tally.lock().begin_round(self.now);
        while self.run(|engine| engine.roll_up(1)) {}
        changed
    }
}

#[test]
fn what_was_rolled_back_was_not_counted() {
    let mut rig = Rig::new();
    rig.source("token");
    rig.accept("token");
    let incoming = rig.incoming("token", b"");
    let undone = rig.engine.transaction(|engine| {
        engine.accept(incoming)?;
        Err::<(), _>(Fault::Damaged("on purpose".into()))
    });
    assert!(undone.is_err());
    assert_eq!(rig.accepted(), 1);
    let (first, second) = (rig.incoming("token", b""), rig.incoming("token", b""));
    rig.engine
        .transaction(|engine| {
            engine.accept(first)?;
            let before = engine.savepoint()?;
            engine.accept(second)?;
            engine.roll_back_to_savepoint(before)
        })
        .unwrap();
    assert_eq!(rig.accepted(), 2);
}

#[test]
fn what_was_not_written_is_written_again() {
    let mut rig = Rig::new();
    rig.source("token");
    rig.accept("token");
    rig.engine.tally.lock().begin_round(rig.now);
    let undone = rig.engine.transaction(|engine| {
        engine.roll_up(100)?;
        Err::<(), _>(Fault::Damaged("on purpose".into()))
    });
    assert!(undone.is_err());
    assert!(rig.roll_up());
    assert!(!rig.roll_up());
    assert_eq!(rig.accepted(), 1);
    rig.crash();
    rig.accept("token");
    assert!(rig.roll_up());
    assert_eq!(rig.accepted(), 2, "a number that was given is not given again");
}

/// How SQLite looks for what a statement asks for.
fn plan(rig: &Rig, sql: &str) -> Vec<String> {
    let mut statement = rig.engine.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![1; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

#[test]
fn reads_go_by_their_keys() {
    let rig = Rig::new();
    let parts = plan(&rig, &parts_sql());
    assert_eq!(
        parts,
        ["SEARCH tally USING PRIMARY KEY (workspace=? AND scope=? AND step=? AND at>? AND at<?)"]
    );
    let due = "USING COVERING INDEX delivery_due (endpoint=?)";
    for (of, index) in [
        ("workspace", "record_scope (workspace=? AND kind=?)"),
        ("parent", "record_child (kind=? AND parent=?)"),
    ] {
        let waiting = plan(&rig, &waiting_sql(of)).join("\n");
        assert!(waiting.contains(&format!("INDEX {index}")), "{waiting}");
        assert!(waiting.contains(&format!("SEARCH delivery {due}")), "{waiting}");
        assert!(!waiting.contains("SCAN"), "{waiting}");
    }
    let backlog = plan(&rig, BACKLOG).join("\n");
    assert!(
        backlog.contains(&format!("SEARCH delivery {due}")) && !backlog.contains("TEMP B-TREE"),
        "{backlog}"
    );
    let prune = "SELECT workspace, scope, step, at, series FROM tally WHERE kept_until <= ?1 LIMIT ?2";
    assert_eq!(plan(&rig, prune), ["SEARCH tally USING COVERING INDEX tally_kept (kept_until<?)"]);
}

#[test]
fn endpoints_are_told_of_from_memory_and_table_together() {
    let mut rig = Rig::with(Policy::default());
    let webhook: WebhookId = id(&rig.webhook());
    rig.publish(2);
    let parcels = rig.tray.take();
    rig.settle(&parcels[0], Outcome::of_status(200, None));
    rig.roll_up();
    rig.settle(&parcels[1], Outcome::of_status(500, None));
    let span = Span::last(1, Breadth::Part, rig.now);
    let told = crate::sqlite::read::endpoint_stats(&rig.engine.conn, &rig.engine.tally, rig.workspace, span)
        .unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].id.uuid(), webhook.uuid());
    assert_eq!((told[0].counts.attempts, told[0].counts.attempts_failed), (2, 1));
}
