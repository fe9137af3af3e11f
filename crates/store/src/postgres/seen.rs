//! Values that sources know, and the requests that first brought them.

use restante_core::Timestamp;
use restante_core::id::{Key, RequestId, Tail};
use restante_core::intake::{Dedupe, Value};

use super::Fault;
use super::codec::tail_column;
use super::sql::sql_limit;
use super::tx::Tx;

impl Tx {
    /// The request that first brought a value to a source, if the value is known still. If it is not, `new` becomes the
    /// first; with `may` false nothing changes. Of several transactions with one value the others wait here.
    pub(super) async fn claim_value(
        &self,
        source: i64,
        value: &Value,
        new: (Key, Tail),
        now: Timestamp,
        may: bool,
    ) -> Result<Option<RequestId>, Fault> {
        let Some((workspace, dedupe, retention_ms)) = self.dedupe_of(source) else { return Ok(None) };
        let forgotten_at = dedupe.forgotten_at(now, retention_ms).millis();
        let value = &value.as_bytes()[..];
        if may {
            // A row that is known is locked by this, and stays until the transaction ends.
            let claim = "INSERT INTO seen (workspace, source, value, message, tail, received_at, held_until) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (workspace, source, value) DO UPDATE \
                 SET message = excluded.message, tail = excluded.tail, received_at = excluded.received_at, \
                 held_until = excluded.held_until WHERE seen.received_at <= $8";
            let (key, tail) = (new.0.value(), tail_column(new.1));
            let held_until = dedupe.held_until(now).millis();
            let params: super::sql::Params<'_> =
                &[&workspace, &source, &value, &key, &tail, &now.millis(), &held_until, &forgotten_at];
            if self.execute(claim, params).await? == 1 {
                return Ok(None);
            }
        }
        let known = "SELECT message, tail FROM seen WHERE workspace = $1 AND source = $2 AND value = $3 \
             AND received_at > $4";
        let Some(row) = self.first(known, &[&workspace, &source, &value, &forgotten_at]).await? else {
            return Ok(None);
        };
        let tail = Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs());
        Ok(Some(RequestId::new(Key::from_value(row.try_get(0)?), tail)))
    }

    /// Forgets up to `most` values whose time is up. Returns whether there is more to look at.
    pub(super) async fn prune_seen(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let due = "SELECT workspace, source, value FROM seen WHERE held_until <= $1 \
             ORDER BY held_until LIMIT $2 FOR UPDATE SKIP LOCKED";
        let rows = self.query(due, &[&now.millis(), &sql_limit(most)]).await?;
        if rows.is_empty() {
            return Ok(false);
        }
        let (mut workspaces, mut sources, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            workspaces.push(row.try_get::<_, i64>(0)?);
            sources.push(row.try_get::<_, i64>(1)?);
            values.push(row.try_get::<_, &[u8]>(2)?);
        }
        let forget = "DELETE FROM seen USING unnest($1::bigint[], $2::bigint[], $3::bytea[]) \
             AS old (workspace, source, value) WHERE seen.workspace = old.workspace \
             AND seen.source = old.source AND seen.value = old.value";
        self.execute(forget, &[&workspaces, &sources, &values]).await?;
        Ok(rows.len() == most)
    }

    /// The row of a source's workspace, how it knows repeats, and how long it keeps requests.
    fn dedupe_of(&self, source: i64) -> Option<(i64, Dedupe, i64)> {
        let state = self.node.state();
        let entry = state.config.sources.get(&source)?;
        let dedupe = entry.rules.as_ref()?.dedupe.clone()?;
        Some((entry.workspace, dedupe, entry.retention_ms))
    }
}
