//! What rules made of many deliveries, written at once.

use restante_core::{Delivery, State, Timestamp};
use rustc_hash::FxHashMap;

use crate::postgres::Fault;
use crate::postgres::codec::{Stored, cause_code, int, small, state_code};
use crate::postgres::tx::Tx;
use crate::tally::Counted;

/// A locked delivery as it was, with the columns of its first attempt and the job as they are to be, and what rules
/// made of it.
type Life = (Stored, Delivery);

fn column<T>(lives: &[Life], read: impl Fn(&Stored, &Delivery) -> T) -> Vec<T> {
    lives.iter().map(|(stored, life)| read(stored, life)).collect()
}

fn is_pending(life: &Delivery) -> bool {
    life.state == State::Pending
}

impl Tx {
    /// Writes what rules made of locked deliveries, none of which is in flight any more, as [`Tx::write_delivery`]
    /// does.
    pub(in crate::postgres) async fn write_lives(&mut self, lives: &[Life]) -> Result<(), Fault> {
        if lives.is_empty() {
            return Ok(());
        }
        debug_assert!(lives.iter().all(|(_, life)| {
            life.state != State::Sending && life.ending.is_none() && life.back_to.is_none()
        }));
        self.execute(
            "UPDATE delivery SET state = it.state, claimed = false, ending = 0, used = it.used, lost = it.lost, \
             due_at = it.due_at, started_at = it.started_at, endpoint_version = it.version, ended_at = it.ended_at, \
             status = it.status, wait_ms = it.wait_ms, wait_cause = it.wait_cause, back_to = NULL, job = it.job, node = NULL \
             FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::int[], $5::int[], $6::bigint[], $7::bigint[], \
             $8::int[], $9::bigint[], $10::smallint[], $11::bigint[], $12::smallint[], $13::bigint[]) \
             AS it (workspace, key, state, used, lost, due_at, started_at, version, ended_at, status, wait_ms, wait_cause, job) \
             WHERE delivery.workspace = it.workspace AND delivery.key = it.key AND delivery.key = ANY($2)",
            &[
                &column(lives, |stored, _| stored.workspace),
                &column(lives, |stored, _| stored.row.key),
                &column(lives, |_, life| small(state_code(life.state))),
                &column(lives, |_, life| int(life.attempts_used)),
                &column(lives, |_, life| int(life.lost_in_row)),
                &column(lives, |_, life| life.due_at.millis()),
                &column(lives, |stored, _| stored.row.started_at),
                &column(lives, |stored, _| stored.row.endpoint_version.map(int)),
                &column(lives, |_, life| life.ended_at.map(Timestamp::millis)),
                &column(lives, |stored, _| stored.row.status.map(|status| small(i64::from(status)))),
                &column(lives, |_, life| {
                    life.wait.map(|wait| i64::try_from(wait.length.as_millis()).unwrap_or(i64::MAX))
                }),
                &column(lives, |_, life| life.wait.map(|wait| small(cause_code(wait.cause)))),
                &column(lives, |stored, _| stored.row.job),
            ],
        )
        .await?;
        let changes = lives.iter().filter_map(|(stored, life)| {
            Counted::change(stored.row.endpoint, stored.row.key, &stored.row.life, life)
        });
        self.staged.counted.extend(changes);
        self.write_works(lives).await?;
        self.write_skippeds(lives).await
    }

    async fn write_works(&mut self, lives: &[Life]) -> Result<(), Fault> {
        let over = lives.iter().filter(|(_, life)| !is_pending(life));
        let (workspaces, keys): (Vec<i64>, Vec<i64>) =
            over.map(|(stored, _)| (stored.workspace, stored.row.key)).unzip();
        if !keys.is_empty() {
            let delete = "DELETE FROM work USING unnest($1::bigint[], $2::bigint[]) AS it (workspace, key) \
                 WHERE work.workspace = it.workspace AND work.key = it.key";
            self.execute(delete, &[&workspaces, &keys]).await?;
        }
        let pending: Vec<&Life> = lives.iter().filter(|(_, life)| is_pending(life)).collect();
        if pending.is_empty() {
            return Ok(());
        }
        let mut earliest: FxHashMap<i64, i64> = FxHashMap::default();
        let mut pauses: Vec<i64> = Vec::with_capacity(pending.len());
        for (stored, life) in &pending {
            let (endpoint, due) = (stored.row.endpoint, life.due_at.millis());
            earliest.entry(endpoint).and_modify(|it| *it = due.min(*it)).or_insert(due);
            pauses.push(self.node.state().endpoint(endpoint)?.standing.pauses);
        }
        let read = |read: fn(&Life) -> i64| pending.iter().map(|life| read(life)).collect::<Vec<i64>>();
        self.execute(
            "INSERT INTO work (workspace, key, endpoint, due_at, pauses) \
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
             ON CONFLICT (workspace, key) DO UPDATE SET due_at = excluded.due_at, pauses = excluded.pauses, node = NULL",
            &[
                &read(|(stored, _)| stored.workspace),
                &read(|(stored, _)| stored.row.key),
                &read(|(stored, _)| stored.row.endpoint),
                &read(|(_, life)| life.due_at.millis()),
                &pauses,
            ],
        )
        .await?;
        self.staged.planned.extend(earliest);
        Ok(())
    }

    async fn write_skippeds(&self, lives: &[Life]) -> Result<(), Fault> {
        let skipped = |state: State| state == State::Skipped;
        let new = lives.iter().filter(|(old, life)| !skipped(old.row.life.state) && skipped(life.state));
        let insert = "INSERT INTO skipped (workspace, endpoint, key) \
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING";
        self.change_skipped(insert, new.map(|(stored, _)| stored)).await?;
        let old = lives.iter().filter(|(old, life)| skipped(old.row.life.state) && !skipped(life.state));
        self.delete_skipped(old.map(|(stored, _)| stored)).await
    }

    /// Takes deliveries out of what a pause skipped.
    pub(in crate::postgres) async fn delete_skipped<'a>(
        &self,
        deliveries: impl Iterator<Item = &'a Stored> + Send,
    ) -> Result<(), Fault> {
        let delete = "DELETE FROM skipped USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) \
             AS it (workspace, endpoint, key) WHERE skipped.workspace = it.workspace \
             AND skipped.endpoint = it.endpoint AND skipped.key = it.key";
        self.change_skipped(delete, deliveries).await
    }

    async fn change_skipped<'a>(
        &self,
        statement: &str,
        deliveries: impl Iterator<Item = &'a Stored> + Send,
    ) -> Result<(), Fault> {
        let (mut workspaces, mut endpoints, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for stored in deliveries {
            workspaces.push(stored.workspace);
            endpoints.push(stored.row.endpoint);
            keys.push(stored.row.key);
        }
        if !keys.is_empty() {
            self.execute(statement, &[&workspaces, &endpoints, &keys]).await?;
        }
        Ok(())
    }
}
