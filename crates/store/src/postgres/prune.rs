//! Leaving: what is past its retention. Whole days are dropped elsewhere.
//!
//! Several nodes prune at once: each takes what no other has locked, a little in each transaction.

use std::collections::BTreeMap;

use restante_core::{Timestamp, limits};
use rustc_hash::FxHashSet;
use tokio_postgres::Row;

use super::Fault;
use super::node::lock;
use super::read::{attempts_kept_from, expired_events};
use super::scan::{self, Range, Table};
use super::sql::sql_limit;
use super::tx::Tx;
use crate::endpoint::Feed;
use crate::receipts::messages_of;

/// How often expired events are looked for from the oldest on. Those that were delivered late stay behind each
/// time, and must not be looked at again every minute.
const EVENT_PASS_EVERY_MS: i64 = 3_600_000;
/// Sources, or webhooks, looked at in one transaction.
const LOOK_MAX: usize = 1000;
/// Deliveries erased in one transaction, unless a single message has more.
const DELIVERIES_MAX: i64 = 4096;

/// How far the walks of this node over what may be old are. Memory only.
#[derive(Debug, Default)]
pub(super) struct EventPass {
    begun_at: Option<i64>,
    /// Where the walk over events and emails is: the feed and the last key looked at; `None`: it is over.
    at: Option<(i64, i64)>,
    /// The source whose requests were looked at last; `None`: the next walk begins.
    source: Option<i64>,
    /// The webhook whose attempts were looked at last.
    webhook: Option<i64>,
}

/// A part of some rows, and where to go on; `None`: the walk is over.
struct Part {
    rows: Vec<i64>,
    next: Option<i64>,
}

impl Part {
    fn behind(last: Option<i64>, rows: impl Iterator<Item = i64>) -> Self {
        let mut rows: Vec<i64> = rows.filter(|row| last.is_none_or(|last| *row > last)).collect();
        rows.sort_unstable();
        let next = rows.get(LOOK_MAX).and_then(|_| rows.get(LOOK_MAX - 1)).copied();
        rows.truncate(LOOK_MAX);
        Self { rows, next }
    }
}

impl Tx {
    /// Erases up to `most` requests that are past their retention. Returns whether there is more to look at.
    pub(super) async fn prune_requests(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let last = lock(&self.node.event_pass).source;
        let part = Part::behind(last, self.node.state().config.sources.keys().copied());
        let found = self.expired_requests(&part.rows, now, most).await?;
        let mut erased: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        let taken = few(&found, |(_, _, fanout)| *fanout);
        for (workspace, key, _) in taken {
            erased.entry(*workspace).or_default().push(*key);
        }
        for (workspace, keys) in &erased {
            self.erase_messages(*workspace, keys).await?;
        }
        if found.len() == most || taken.len() < found.len() {
            return Ok(true);
        }
        lock(&self.node.event_pass).source = part.next;
        Ok(part.next.is_some())
    }

    /// Expired requests of some sources, locked: workspace, key and deliveries.
    async fn expired_requests(
        &self,
        sources: &[i64],
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<(i64, i64, i64)>, Fault> {
        let (mut workspaces, mut cutoffs, mut belows) = (Vec::new(), Vec::new(), Vec::new());
        {
            let state = self.node.state();
            for source in sources {
                let entry = state.config.sources.get(source);
                let cutoff = entry.map_or(0, |entry| now.millis() - entry.retention_ms);
                let until = Some(Timestamp::from_millis(cutoff));
                workspaces.push(entry.map_or(0, |entry| entry.workspace));
                cutoffs.push(cutoff);
                belows.push(Range::of_times(None, until, state.key_lead_ms).below);
            }
        }
        let statement = "SELECT found.workspace, found.key, found.fanout::bigint \
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) \
             AS source (row, workspace, cutoff, below), LATERAL \
             (SELECT workspace, key, fanout FROM message WHERE message.workspace = source.workspace \
             AND feed = source.row AND key < source.below AND received_at <= source.cutoff \
             ORDER BY key LIMIT $5 FOR UPDATE SKIP LOCKED) AS found LIMIT $5";
        let limit = sql_limit(most);
        let rows = self.query(statement, &[&sources, &workspaces, &cutoffs, &belows, &limit]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
    }

    /// Takes the walk over old events and emails one step further: up to `most` are looked at, and erased if their last
    /// delivery ended long enough ago. Returns whether the walk goes on.
    pub(super) async fn prune_events(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let Some((feed, above)) = self.event_place(now) else { return Ok(false) };
        let cutoff = self.node.policy.events_cutoff(now);
        let key_lead_ms = self.node.state().key_lead_ms;
        let below = Range::of_times(None, Some(Timestamp::from_millis(cutoff)), key_lead_ms).below;
        let range = Range { above, below, newest_first: false };
        let (workspace, scopes) = (feed.abs(), Some(&[feed][..]));
        let candidates = scan::keys(self, Table::Message, workspace, scopes, range, most).await?;
        let put_off = self.erase_expired(workspace, &candidates, cutoff).await?;
        let at = match (put_off, candidates.last()) {
            (Some(first), _) => Some((feed, first - 1)),
            (None, Some(last)) if candidates.len() == most => Some((feed, *last)),
            (None, Some(_) | None) => self.feed_behind(feed).map(|next| (next, -1)),
        };
        lock(&self.node.event_pass).at = at;
        Ok(at.is_some())
    }

    /// Erases those of some events that have expired. Returns the first one that was too much for once.
    async fn erase_expired(
        &mut self,
        workspace: i64,
        keys: &[i64],
        cutoff: i64,
    ) -> Result<Option<i64>, Fault> {
        let expired = expired_events(self, workspace, keys, cutoff).await?;
        if expired.is_empty() {
            return Ok(None);
        }
        let expired: Vec<i64> = keys.iter().copied().filter(|key| expired.contains(key)).collect();
        let free = "SELECT key, fanout::bigint FROM message WHERE workspace = $1 AND key = ANY($2) \
             ORDER BY key FOR UPDATE SKIP LOCKED";
        let rows = self.query(free, &[&workspace, &expired]).await?;
        let found = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect::<Result<Vec<(i64, i64)>, Fault>>()?;
        let taken: Vec<i64> = few(&found, |(_, fanout)| *fanout).iter().map(|(key, _)| *key).collect();
        if taken.is_empty() {
            return Ok(None);
        }
        // A replay may have begun since: asked again behind the locks.
        self.hold_deliveries_of(workspace, &taken).await?;
        let still: Vec<i64> = expired_events(self, workspace, &taken, cutoff).await?.into_iter().collect();
        self.erase_messages(workspace, &still).await?;
        Ok(found.get(taken.len()).map(|(key, _)| *key))
    }

    /// Where the walk over events goes on; `None` until the next one is due.
    fn event_place(&self, now: Timestamp) -> Option<(i64, i64)> {
        let first = self.feed_behind(i64::MIN)?;
        let mut pass = lock(&self.node.event_pass);
        let due = pass.begun_at.is_none_or(|begun| now.millis() - begun >= EVENT_PASS_EVERY_MS);
        if pass.at.is_none() && due {
            (pass.begun_at, pass.at) = (Some(now.millis()), Some((first, -1)));
        }
        pass.at
    }

    fn feed_behind(&self, feed: i64) -> Option<i64> {
        self.node.state().config.feed_behind(feed)
    }

    /// Erases up to `most` attempts to webhooks that are past their time. Returns whether there is more to look at.
    pub(super) async fn prune_attempts(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let last = lock(&self.node.event_pass).webhook;
        let (part, below, cutoff) = {
            let state = self.node.state();
            let all = state.config.endpoints.iter();
            let webhooks = all.filter(|(_, entry)| entry.endpoint.feed == Feed::Events);
            let part = Part::behind(last, webhooks.map(|(row, _)| *row));
            let cutoff = attempts_kept_from(now);
            let until = Some(Timestamp::from_millis(cutoff));
            // An attempt is younger than its delivery: later days need no look.
            (part, Range::of_times(None, until, state.key_lead_ms).below, cutoff)
        };
        let old = "SELECT found.workspace, found.delivery, found.number FROM unnest($1::bigint[]) AS hook (row), LATERAL \
             (SELECT workspace, delivery, number FROM attempt WHERE attempt.webhook = hook.row \
             AND started_at < $2 AND delivery < $3 ORDER BY started_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS found LIMIT $4";
        let rows = self.query(old, &[&part.rows, &cutoff, &below, &sql_limit(most)]).await?;
        self.erase_attempts(&rows).await?;
        if rows.len() == most {
            return Ok(true);
        }
        lock(&self.node.event_pass).webhook = part.next;
        Ok(part.next.is_some())
    }

    /// Erases locked attempts: workspaces, deliveries and numbers.
    async fn erase_attempts(&self, rows: &[Row]) -> Result<(), Fault> {
        if rows.is_empty() {
            return Ok(());
        }
        let (mut workspaces, mut deliveries, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            workspaces.push(row.try_get::<_, i64>(0)?);
            deliveries.push(row.try_get::<_, i64>(1)?);
            numbers.push(row.try_get::<_, i32>(2)?);
        }
        let delete = "DELETE FROM attempt USING unnest($1::bigint[], $2::bigint[], $3::int[]) \
             AS old (workspace, delivery, number) WHERE attempt.workspace = old.workspace \
             AND attempt.delivery = old.delivery AND attempt.number = old.number AND attempt.delivery = ANY($2)";
        self.execute(delete, &[&workspaces, &deliveries, &numbers]).await?;
        Ok(())
    }

    /// Lets go of up to `most` keys whose time is up and whose events are gone. Returns whether there is more to
    /// look at.
    pub(super) async fn prune_keys(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let due = "SELECT workspace, key, events FROM idempotency WHERE held_until <= $1 \
             ORDER BY held_until LIMIT $2 FOR UPDATE SKIP LOCKED";
        let rows = self.query(due, &[&now.millis(), &sql_limit(most)]).await?;
        let mut held = Vec::with_capacity(rows.len());
        for row in &rows {
            let events: &[u8] = row.try_get(2)?;
            held.push((row.try_get(0)?, row.try_get(1)?, message_keys(events)));
        }
        let alive = self.living_events(&held).await?;
        // An event outlives its retention while it is being delivered.
        let later = Some((now + limits::IDEMPOTENCY_KEPT_MIN).millis());
        let (kept, over): (Vec<_>, Vec<_>) = held.into_iter().partition(|(workspace, _, events)| {
            events.iter().any(|event| alive.contains(&(*workspace, *event)))
        });
        for (until, keys) in [(later, kept), (None, over)] {
            let (workspaces, keys): (Vec<i64>, Vec<&str>) =
                keys.into_iter().map(|(workspace, key, _)| (workspace, key)).unzip();
            self.hold_keys(&workspaces, &keys, until).await?;
        }
        Ok(rows.len() == most)
    }

    /// Those of the keys' events that are still there: workspaces and keys.
    async fn living_events(&self, held: &[(i64, &str, Vec<i64>)]) -> Result<FxHashSet<(i64, i64)>, Fault> {
        let all = held.iter().flat_map(|(workspace, _, events)| events.iter().map(|it| (*workspace, *it)));
        let (workspaces, keys): (Vec<i64>, Vec<i64>) = all.unzip();
        // A subquery, no join, so that it looks at these rows only, whatever the planner thinks of them.
        let statement = "SELECT asked.workspace, asked.key FROM unnest($1::bigint[], $2::bigint[]) AS asked (workspace, key) \
             WHERE (SELECT count(*) FROM message WHERE message.workspace = asked.workspace AND message.key = asked.key) > 0";
        let rows = self.query(statement, &[&workspaces, &keys]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Holds locked keys until then; `None`: no longer.
    async fn hold_keys(&self, workspaces: &[i64], keys: &[&str], until: Option<i64>) -> Result<(), Fault> {
        if keys.is_empty() {
            return Ok(());
        }
        const THESE: &str = "unnest($1::bigint[], $2::text[]) AS old (workspace, key) \
             WHERE idempotency.workspace = old.workspace AND idempotency.key = old.key";
        match until {
            Some(until) => {
                let update = format!("UPDATE idempotency SET held_until = $3 FROM {THESE}");
                self.execute(&update, &[&workspaces, &keys, &until]).await?
            }
            None => {
                let delete = format!("DELETE FROM idempotency USING {THESE}");
                self.execute(&delete, &[&workspaces, &keys]).await?
            }
        };
        Ok(())
    }
}

/// The first of some messages, as many as have few enough deliveries together, but one at least.
fn few<T>(messages: &[T], fanout: impl Fn(&T) -> i64) -> &[T] {
    let mut deliveries = 0;
    let fit = messages.iter().take_while(|message| {
        deliveries += fanout(message);
        deliveries <= DELIVERIES_MAX
    });
    let count = fit.count().max(1).min(messages.len());
    messages.get(..count).unwrap_or_default()
}

/// Keys of the messages of a call.
fn message_keys(answer: &[u8]) -> Vec<i64> {
    messages_of(answer).iter().map(|key| key.value()).collect()
}
