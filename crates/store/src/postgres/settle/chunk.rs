//! Results settled in one transaction: their deliveries and webhooks are locked and read at once, the results judged in
//! memory one after the other, and what they come to is written at once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use restante_core::endpoint::Receiver;
use restante_core::health::{Health, Turn};
use restante_core::id::Tail;
use restante_core::{Delivery, Outcome, State as Stage, Timestamp};
use rustc_hash::FxHashMap;

use super::record::Row;
use super::{Judged, holds, judge};
use crate::email::lost_behind_data;
use crate::endpoint::Feed;
use crate::postgres::Fault;
use crate::postgres::codec::{DELIVERY_COLUMNS, DELIVERY_WIDTH, Stored, read_delivery};
use crate::postgres::columns::Healths;
use crate::postgres::config::{STANDING_COLUMNS, read_standing};
use crate::postgres::jobs::Tallies;
use crate::postgres::mail::Mailed;
use crate::postgres::tx::{EndpointView, Tx};
use crate::tally::Counted;
use crate::{Changed, Finished, Policy, Settled};

/// What became of a result.
pub(in crate::postgres) enum Verdict {
    /// It was recorded just now. `None`: its request was gone for whoever asks, and it changed nothing.
    Recorded(Option<Delivery>),
    /// Its delivery was not what its holder was given.
    Stale(Settled),
}

impl From<Verdict> for Settled {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Recorded(Some(life)) => Self::Done(life),
            Verdict::Recorded(None) => Self::LeaseLost,
            Verdict::Stale(settled) => settled,
        }
    }
}

/// What results are judged by. All of it is locked.
struct Chunk {
    holder: i32,
    policy: Policy,
    key_lead_ms: i64,
    /// Deliveries, as the results so far make them.
    deliveries: FxHashMap<i64, Stored>,
    views: FxHashMap<i64, EndpointView>,
    /// Deliveries of emails whose running attempt had sent the whole message.
    behind_data: BTreeSet<i64>,
    /// When requests came that are kept for a time counted from there.
    received_at: FxHashMap<i64, i64>,
    /// How webhooks stand, as the results so far make them.
    healths: FxHashMap<i64, Health>,
    /// Webhooks that one of the results paused. Failures of a paused webhook are not counted.
    paused: BTreeSet<i64>,
}

impl Chunk {
    /// Results as they count: an email that may have arrived before its attempt was lost is not lost.
    fn as_they_count<'a>(&self, finished: &'a [(i64, Finished)]) -> Cow<'a, [(i64, Finished)]> {
        let mut counted = Cow::Borrowed(finished);
        for (index, (_, one)) in finished.iter().enumerate() {
            let behind_data = self.behind_data.contains(&one.lease.delivery.key().value());
            if behind_data && one.attempt.outcome == Outcome::Lost {
                counted.to_mut()[index].1.attempt.outcome = lost_behind_data(&self.policy);
            }
        }
        counted
    }

    fn is_mail(&self, endpoint: i64) -> bool {
        self.views.get(&endpoint).is_some_and(|view| view.endpoint.feed == Feed::Mail)
    }

    /// Decides what a result changes; `None` if its delivery is not what its holder was given. Also returns whether
    /// its request is past its retention.
    fn judge(&mut self, finished: &Finished) -> Option<(Judged, bool)> {
        let key = finished.lease.delivery.key().value();
        let stored = self.deliveries.get(&key).filter(|it| holds(it, finished.lease, self.holder))?;
        let view = self.views.get(&stored.row.endpoint)?;
        let ended_at = finished.attempt.behind(stored.row.life.ended_at).ended_at;
        let expired = view.retention_ms.is_some_and(|kept| {
            let received_at = self.received_at.get(&stored.row.message);
            received_at.is_none_or(|at| at + kept <= ended_at.millis())
        });
        let health = self.healths.get(&view.row).copied().unwrap_or_default();
        let mut judged = judge(stored, finished, view, health, &self.policy, expired, self.key_lead_ms);
        let endpoint = view.row;
        let repeats = |turn: &Turn| turn.pause && self.paused.contains(&endpoint);
        judged.health = judged.health.filter(|turn| !repeats(turn));
        if let Some(turn) = &judged.health {
            self.healths.insert(endpoint, turn.health);
        }
        let mut now = judged.stored.clone();
        (now.row.life, now.node) = (judged.life.clone(), None);
        self.deliveries.insert(key, now);
        Some((judged, expired))
    }
}

/// What is written at once.
#[derive(Default)]
struct Batch {
    attempts: Vec<Row>,
    lives: Vec<(Stored, Delivery)>,
    turns: Vec<(i64, Turn, Timestamp)>,
    tallies: Tallies,
    mailed: Vec<Mailed>,
}

impl Batch {
    fn push(&mut self, judged: Judged, is_mail: bool) {
        let Judged { stored, life, record, health, attempt } = judged;
        self.attempts.extend(record.map(|record| Row::new(&stored, record)));
        self.turns.extend(health.map(|turn| (stored.row.endpoint, turn, attempt.ended_at)));
        self.tallies.push(&stored, &attempt, &life);
        if is_mail {
            self.mailed.push(Mailed { stored: stored.clone(), attempt, life: life.clone() });
        }
        self.lives.push((stored, life));
    }
}

impl Tx {
    /// Records finished attempts of deliveries that `holder` leased, whatever it takes: each with the row of its
    /// workspace, in the order in which they count. What was recorded before is left as it is.
    ///
    /// Locks are taken in the order delivery, work, health, `open_job`, `record`, and of each in that of the keys.
    pub(in crate::postgres) async fn settle_all(
        &mut self,
        finished: &[(i64, Finished)],
        holder: i32,
    ) -> Result<Vec<Verdict>, Fault> {
        if finished.is_empty() {
            return Ok(Vec::new());
        }
        let keys: BTreeMap<i64, i64> =
            finished.iter().map(|(workspace, one)| (one.lease.delivery.key().value(), *workspace)).collect();
        let mut chunk = self.lock_chunk(&keys, holder).await?;
        let finished = &*chunk.as_they_count(finished);
        let mut batch = Batch::default();
        let mut verdicts = Vec::with_capacity(finished.len());
        for (_, one) in finished {
            let key = one.lease.delivery.key().value();
            let Some((judged, expired)) = chunk.judge(one) else {
                if holder == self.me {
                    self.staged.ended.push(key);
                }
                verdicts.push(None);
                continue;
            };
            let endpoint = judged.stored.row.endpoint;
            let is_mail = chunk.is_mail(endpoint);
            self.staged.counted.extend(Counted::attempt(endpoint, &judged.attempt));
            if judged.stored.node == Some(self.me) {
                self.staged.ended.push(key);
            }
            if !expired {
                self.tell(endpoint, || Changed::Delivery(one.lease.delivery));
            }
            verdicts.push(Some(Verdict::Recorded((!expired).then(|| judged.life.clone()))));
            if judged.health.as_ref().is_some_and(|turn| turn.pause) {
                // A pause ends jobs, and the attempts in flight are the last of their deliveries: what is before it
                // is written before it, and what comes after it finds what it did.
                self.write_batch(std::mem::take(&mut batch)).await?;
                batch.push(judged, is_mail);
                self.write_batch(std::mem::take(&mut batch)).await?;
                chunk.paused.insert(endpoint);
                self.read_chunk(&mut chunk, &keys).await?;
            } else {
                batch.push(judged, is_mail);
            }
        }
        self.write_batch(batch).await?;
        self.answer(finished, verdicts, &chunk).await
    }

    async fn lock_chunk(&self, keys: &BTreeMap<i64, i64>, holder: i32) -> Result<Chunk, Fault> {
        let mut chunk = Chunk {
            holder,
            policy: self.node.policy,
            key_lead_ms: self.node.state().key_lead_ms,
            deliveries: FxHashMap::default(),
            views: FxHashMap::default(),
            behind_data: BTreeSet::new(),
            received_at: FxHashMap::default(),
            healths: FxHashMap::default(),
            paused: BTreeSet::new(),
        };
        let (keys_column, workspaces): (Vec<i64>, Vec<i64>) =
            keys.iter().map(|(key, row)| (*key, *row)).unzip();
        let lock = "SELECT 1 FROM unnest($1::bigint[], $2::bigint[]) AS it (workspace, key) \
             JOIN delivery ON delivery.workspace = it.workspace AND delivery.key = it.key AND delivery.key = ANY($2) \
             ORDER BY delivery.key FOR UPDATE OF delivery";
        self.execute(lock, &[&workspaces, &keys_column]).await?;
        self.read_chunk(&mut chunk, keys).await?;
        let kept = |stored: &&Stored| {
            chunk.views.get(&stored.row.endpoint).is_some_and(|view| view.retention_ms.is_some())
        };
        let kept = chunk.deliveries.values().filter(kept);
        let messages = self.messages_of(kept).await?;
        chunk.received_at = messages.into_iter().map(|(key, (_, at))| (key, at)).collect();
        Ok(chunk)
    }

    /// Reads locked deliveries, and how their webhooks stand, which nobody else changes either from then on.
    async fn read_chunk(&self, chunk: &mut Chunk, keys: &BTreeMap<i64, i64>) -> Result<(), Fault> {
        let (keys, workspaces): (Vec<i64>, Vec<i64>) = keys.iter().map(|(key, row)| (*key, *row)).unzip();
        // Read behind the lock: what it waited for has changed the rows of `work` too.
        let statement = format!(
            "SELECT {DELIVERY_COLUMNS}, delivery.data_sent IS NOT DISTINCT FROM delivery.made \
             FROM unnest($1::bigint[], $2::bigint[]) AS it (workspace, key) \
             JOIN delivery ON delivery.workspace = it.workspace AND delivery.key = it.key AND delivery.key = ANY($2) \
             LEFT JOIN work ON work.workspace = delivery.workspace AND work.key = delivery.key"
        );
        let mut webhooks = BTreeSet::new();
        for row in self.query(&statement, &[&workspaces, &keys]).await? {
            let stored = read_delivery(&row)?;
            let endpoint = stored.row.endpoint;
            if let std::collections::hash_map::Entry::Vacant(place) = chunk.views.entry(endpoint) {
                place.insert(self.endpoint(endpoint)?);
            }
            let is_held = stored.row.life.state == Stage::Sending && stored.node == Some(chunk.holder);
            let receiver = chunk.views.get(&endpoint).map(|view| &view.settings.receiver);
            if is_held && matches!(receiver, Some(Receiver::Webhook(_))) {
                webhooks.insert(endpoint);
            }
            if chunk.is_mail(endpoint) && row.try_get(DELIVERY_WIDTH)? {
                chunk.behind_data.insert(stored.row.key);
            }
            chunk.deliveries.insert(stored.row.key, stored);
        }
        chunk.healths.extend(self.lock_healths(webhooks).await?);
        Ok(())
    }

    async fn lock_healths(&self, webhooks: BTreeSet<i64>) -> Result<Vec<(i64, Health)>, Fault> {
        if webhooks.is_empty() {
            return Ok(Vec::new());
        }
        let webhooks: Vec<i64> = webhooks.into_iter().collect();
        // A row to lock, for a webhook that only succeeded so far.
        let insert = "INSERT INTO health (endpoint, run_failures, degraded, pauses, epoch) \
             SELECT endpoint, 0, false, 0, 0 FROM unnest($1::bigint[]) AS it (endpoint) ON CONFLICT DO NOTHING";
        self.execute(insert, &[&webhooks]).await?;
        let lock = format!(
            "SELECT endpoint, {STANDING_COLUMNS} FROM health WHERE endpoint = ANY($1) ORDER BY endpoint FOR UPDATE"
        );
        let rows = self.query(&lock, &[&webhooks]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, read_standing(row, 1)?.health))).collect()
    }

    /// The random parts of the ids of some deliveries' messages, and when they came, by the messages' keys.
    pub(in crate::postgres) async fn messages_of<'a>(
        &self,
        deliveries: impl Iterator<Item = &'a Stored> + Send,
    ) -> Result<FxHashMap<i64, (Tail, i64)>, Fault> {
        let keys: BTreeMap<i64, i64> =
            deliveries.map(|stored| (stored.row.message, stored.workspace)).collect();
        if keys.is_empty() {
            return Ok(FxHashMap::default());
        }
        let (keys, workspaces): (Vec<i64>, Vec<i64>) = keys.into_iter().unzip();
        let statement = "SELECT message.key, tail, received_at FROM unnest($1::bigint[], $2::bigint[]) AS it (workspace, key) \
             JOIN message ON message.workspace = it.workspace AND message.key = it.key AND message.key = ANY($2)";
        let rows = self.query(statement, &[&workspaces, &keys]).await?;
        let read = |row: &tokio_postgres::Row| {
            let tail = Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs());
            Ok((row.try_get(0)?, (tail, row.try_get(2)?)))
        };
        rows.iter().map(read).collect()
    }

    async fn write_batch(&mut self, batch: Batch) -> Result<(), Fault> {
        self.insert_attempts(&batch.attempts).await?;
        self.write_lives(&batch.lives).await?;
        self.turn_healths(batch.turns).await?;
        self.note_results(&batch.tallies).await?;
        self.tell_attempts(&batch.mailed).await
    }

    /// Takes over what attempts changed of webhooks that are locked, the last of each in the end.
    async fn turn_healths(&mut self, turns: Vec<(i64, Turn, Timestamp)>) -> Result<(), Fault> {
        let mut plain = BTreeMap::new();
        for (endpoint, turn, at) in turns {
            if turn.pause || !turn.notices.is_empty() {
                self.turn_health(endpoint, &turn, at).await?;
                plain.remove(&endpoint);
            } else {
                plain.insert(endpoint, turn.health);
            }
        }
        if plain.is_empty() {
            return Ok(());
        }
        let mut new = Healths::default();
        for (endpoint, health) in plain {
            new.push(endpoint, health);
        }
        self.execute(Healths::UPDATE, &[&new.endpoint, &new.since, &new.failures, &new.degraded]).await?;
        Ok(())
    }

    /// Answers what was not recorded now: a settle whose answer was lost is answered again.
    async fn answer(
        &self,
        finished: &[(i64, Finished)],
        verdicts: Vec<Option<Verdict>>,
        chunk: &Chunk,
    ) -> Result<Vec<Verdict>, Fault> {
        let asked: Vec<Option<(&Stored, &Finished)>> = finished
            .iter()
            .zip(&verdicts)
            .map(|((_, one), verdict)| {
                let stored = chunk.deliveries.get(&one.lease.delivery.key().value());
                let stored = stored.filter(|_| verdict.is_none())?;
                let life = &stored.row.life;
                let may_be = life.attempts_made == one.lease.attempt && life.state != Stage::Sending;
                may_be.then_some((stored, one))
            })
            .collect();
        let recorded = self.are_recorded(&asked).await?;
        let stale = |asked: Option<(&Stored, &Finished)>, recorded: bool| match asked {
            Some((stored, _)) if recorded => Settled::Done(stored.row.life.clone()),
            Some(_) | None => Settled::LeaseLost,
        };
        let answered = verdicts.into_iter().zip(asked).zip(recorded);
        let answers = answered.map(|((verdict, asked), recorded)| {
            verdict.unwrap_or_else(|| Verdict::Stale(stale(asked, recorded)))
        });
        Ok(answers.collect())
    }
}
