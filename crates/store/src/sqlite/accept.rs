//! Accepting a request: message, deliveries and charge in one transaction.

use std::sync::{Arc, LazyLock};

use restante_core::id::{Id, Key, RequestId, Tail, WorkspaceId};
use restante_core::message::{Content, MessageId, Received};
use restante_core::stats::End;
use restante_core::{Delivery, Timestamp};
use rusqlite::params;

use super::Fault;
use super::codec::{DeliveryRow, state_code};
use super::engine::Engine;
use crate::intake::Arrival;
use crate::row::ChargeReason;
use crate::tally::Counted;
use crate::{Accepted, Change, Changed, Grant, Incoming, Judgement, Lease, Parcel, Verdict};

pub(super) use crate::code::PRICE;

/// Deliveries inserted by one statement, at most.
const INSERT_ROWS_MAX: usize = 16;
/// Parameters that all rows of [`INSERT_BORN`] share.
const SHARED_PARAMETERS: usize = 5;

/// Inserts one row, two, and so on: a statement of its own for each would cost more than the row.
static INSERT_BORN: LazyLock<[String; INSERT_ROWS_MAX]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let row = |index: usize| {
            let first = SHARED_PARAMETERS + 3 * index + 1;
            format!("(?{first}, ?1, ?{}, ?2, 0, 0, ?3, 0, 0, ?4, ?5, ?{})", first + 1, first + 2)
        };
        let rows: Vec<String> = (0..=index).map(row).collect();
        format!(
            "INSERT INTO delivery (key, message, endpoint, state, claimed, ending, made, used, lost, due_at, \
             started_at, endpoint_version) VALUES {}",
            rows.join(", ")
        )
    })
});

impl Engine {
    /// See [`crate::Store::accept`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn accept(&mut self, incoming: Incoming) -> Result<Accepted, Fault> {
        let Some(source) = self.config.tokens.get(&incoming.token).copied() else {
            return Ok(Accepted::UnknownSource);
        };
        let entry = &self.config.sources[&source];
        let Incoming { received, judgement: Judgement { by, verdict }, now, tail, .. } = incoming;
        if entry.rules != by {
            return Ok(Accepted::RulesChanged(Box::new(received)));
        }
        let answer = entry.answer.clone();
        let workspace = entry.workspace;
        let value = match verdict {
            Verdict::Taken => None,
            Verdict::Marked(value) => Some(value),
            Verdict::Rejected(because) => {
                let id = self.store_message(source, received, now, tail, Arrival::Rejected(because))?;
                return Ok(Accepted::Rejected { id });
            }
        };
        if let Some(value) = &value
            && let Some(first) = self.first_with(source, value, now)?
        {
            let id = self.store_message(source, received, now, tail, Arrival::Duplicate(first))?;
            return Ok(Accepted::Duplicate { id, answer });
        }
        if !self.can_pay(workspace, PRICE) {
            return Ok(Accepted::CreditsExhausted);
        }
        self.overflowed = false;
        let id = self.store_message(source, received, now, tail, Arrival::New)?;
        if let Some(value) = &value {
            self.remember(source, value, id, now)?;
        }
        self.charge(workspace, PRICE, ChargeReason::Request, now, tail, || id.to_string())?;
        let crowded = std::mem::take(&mut self.overflowed);
        Ok(Accepted::Fresh { id, answer, crowded })
    }

    /// Stores a message of a living source with a delivery for each of its destinations, unless it came to have none.
    pub(super) fn store_message(
        &mut self,
        source: i64,
        received: Received,
        now: Timestamp,
        tail: Tail,
        arrival: Arrival,
    ) -> Result<RequestId, Fault> {
        let entry = &self.config.sources[&source];
        let workspace = entry.workspace;
        let workspace_id = self.config.workspaces.get(&workspace).map(|it| it.id);
        let endpoints = if arrival.is_delivered() { entry.endpoints.clone() } else { Vec::new() };
        let fanout = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let key = self.take_keys(now, 1 + fanout)?;
        let id = RequestId::new(key, tail);
        self.conn
            .prepare_cached(
                "INSERT INTO message (key, tail, feed, fanout, received_at, replay_of, method, path, query, remote, headers, body, \
                 duplicate_of, rejected) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                key.value(),
                tail_column(tail),
                source,
                fanout,
                now.millis(),
                arrival.replay_of().map(|id| id.uuid().to_be_bytes()),
                received.method,
                received.path,
                received.query,
                received.remote_address,
                &received.headers.packed()[..],
                &received.body[..],
                arrival.duplicate_of().map(|id| id.uuid().to_be_bytes()),
                arrival.rejected(),
            ])?;
        self.history.add(source, key.value());
        if arrival.rejected().is_none() {
            self.staged.counted.push(Counted::Accepted { workspace, source: Some(source), at: now });
        }
        if let Some(workspace) = workspace_id.filter(|_| self.watched) {
            self.staged.changes.push(Change { workspace, what: Changed::Request(id) });
        }
        self.fan_out(MessageId::Request(id), Content::Request(received), &endpoints, now)?;
        Ok(id)
    }

    /// Makes the deliveries of a message that was just stored: they have the keys right behind its own.
    pub(super) fn fan_out(
        &mut self,
        id: MessageId,
        content: Content,
        endpoints: &[i64],
        now: Timestamp,
    ) -> Result<(), Fault> {
        let (key, tail) = (id.key(), id.tail());
        let content = Arc::new(self.agenda.content_bytes.hold(content));
        let mut born = Vec::new();
        for (index, endpoint) in (1..).zip(endpoints.iter().copied()) {
            let birth = if self.skips(endpoint) {
                Birth::Skipped
            } else if self.may_be_born_leased(endpoint, now) {
                Birth::Leased
            } else {
                Birth::Due
            };
            let key_here = key.plus(index);
            let new = NewDelivery {
                key: key_here,
                message: key,
                endpoint,
                now,
                due_at: now,
                birth,
                retry_of: None,
            };
            if birth == Birth::Leased {
                let version = self.note_birth(&new, &Delivery::born_leased(now));
                born.push((new, version));
                let lease = Lease { delivery: Id::new(key_here, tail), attempt: 1 };
                self.hand_over(endpoint, lease, id, &content, None, Times::all(now));
            } else {
                self.insert_delivery(&new)?;
            }
        }
        for some in born.chunks(INSERT_ROWS_MAX) {
            self.insert_born(some)?;
        }
        Ok(())
    }

    /// Inserts deliveries of one message that are leased at birth, in one statement: they differ in their keys and in
    /// where they go.
    fn insert_born(&self, born: &[(NewDelivery, Option<u32>)]) -> Result<(), Fault> {
        let Some((first, _)) = born.first() else { return Ok(()) };
        let life = Delivery::born_leased(first.now);
        let mut statement = self.conn.prepare_cached(&INSERT_BORN[born.len() - 1])?;
        let (now, shared) = (first.now.millis(), SHARED_PARAMETERS);
        statement.raw_bind_parameter(1, first.message.value())?;
        statement.raw_bind_parameter(2, state_code(life.state))?;
        statement.raw_bind_parameter(3, life.attempts_made)?;
        statement.raw_bind_parameter(4, life.due_at.millis())?;
        statement.raw_bind_parameter(5, now)?;
        for (index, (new, version)) in born.iter().enumerate() {
            statement.raw_bind_parameter(shared + 3 * index + 1, new.key.value())?;
            statement.raw_bind_parameter(shared + 3 * index + 2, new.endpoint)?;
            statement.raw_bind_parameter(shared + 3 * index + 3, version)?;
        }
        statement.raw_execute()?;
        Ok(())
    }

    /// Inserts a new delivery, leased at birth or due now.
    pub(super) fn insert_delivery(&mut self, new: &NewDelivery) -> Result<(), Fault> {
        let standing =
            self.config.endpoints.get(&new.endpoint).map(|entry| entry.standing).unwrap_or_default();
        let leased = new.birth == Birth::Leased;
        let life = match new.birth {
            Birth::Leased => Delivery::born_leased(new.now),
            Birth::Due => Delivery::new(new.due_at),
            Birth::Refused => Delivery::refused(new.now),
            Birth::Skipped => Delivery::skipped(standing.behind_pause(new.now)),
        };
        let version = self.note_birth(new, &life);
        self.conn
            .prepare_cached(
                "INSERT INTO delivery (key, message, endpoint, state, claimed, ending, made, used, lost, due_at, \
                 started_at, endpoint_version, ended_at, created_at, retry_of) \
                 VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, 0, 0, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                new.key.value(),
                new.message.value(),
                new.endpoint,
                state_code(life.state),
                life.attempts_made,
                life.due_at.millis(),
                leased.then_some(new.now.millis()),
                version.filter(|_| leased),
                life.ended_at.map(Timestamp::millis),
                new.retry_of.map(|_| new.now.millis()),
                new.retry_of,
            ])?;
        Ok(())
    }

    /// Takes note of what is born: all but its row. Gives the version of the settings that its endpoint has.
    fn note_birth(&mut self, new: &NewDelivery, life: &Delivery) -> Option<u32> {
        let version = self.config.endpoints.get(&new.endpoint).map(|entry| entry.settings.version);
        self.history.add(new.endpoint, new.key.value());
        self.staged.counted.push(Counted::Made { endpoint: new.endpoint, at: new.now });
        match new.birth {
            Birth::Leased => self.count_lease(DeliveryRow {
                key: new.key.value(),
                mark: new.key.value(),
                message: new.message.value(),
                endpoint: new.endpoint,
                life: life.clone(),
                claimed: false,
                started_at: Some(new.now.millis()),
                endpoint_version: version,
                status: None,
                created_at: new.retry_of.map(|_| new.now.millis()),
                retry_of: new.retry_of,
                job: None,
            }),
            Birth::Due => {
                self.overflowed |= self.flows(new.endpoint);
                self.plan(new.endpoint, new.due_at.millis());
            }
            Birth::Refused => {
                let refused = Counted::Ended { endpoint: new.endpoint, end: End::Failed, at: new.now };
                self.staged.counted.push(refused);
            }
            Birth::Skipped => {}
        }
        version
    }

    /// Stages a parcel: it leaves when the transaction is durable.
    pub(super) fn hand_over(
        &mut self,
        endpoint: i64,
        lease: Lease,
        message: MessageId,
        content: &Arc<crate::Content>,
        mailbox: Option<&str>,
        times: Times,
    ) {
        let Some(entry) = self.config.endpoints.get(&endpoint) else { return };
        let Ok(retention_ms) = self.config.retention_ms(entry) else { return };
        let expires_at = retention_ms.map(|kept| times.received_at.millis().saturating_add(kept));
        self.staged.parcels.push(Parcel {
            lease,
            message,
            endpoint: Arc::clone(&entry.endpoint),
            content: Arc::clone(content),
            due_at: times.due_at,
            claimed_at: times.claimed_at,
            mailbox: mailbox.map(Arc::from),
            expires_at: expires_at.map(Timestamp::from_millis),
        });
        self.tell(endpoint, || Changed::Delivery(lease.delivery));
    }

    pub(super) fn can_pay(&self, workspace: i64, price: i64) -> bool {
        let balance = self.config.workspaces.get(&workspace).and_then(|entry| entry.balance);
        balance.is_none_or(|balance| balance >= price)
    }

    /// Charges what [`Engine::can_pay`] allowed. Costs nothing where nothing is counted.
    pub(super) fn charge(
        &mut self,
        workspace: i64,
        price: i64,
        reason: ChargeReason,
        now: Timestamp,
        tail: Tail,
        reference: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        let Some(entry) = self.config.workspaces.get_mut(&workspace) else { return Ok(()) };
        let Some(balance) = &mut entry.balance else { return Ok(()) };
        *balance -= price;
        entry.balance_changed = true;
        self.write_ledger(workspace, -price, reason, now, tail, Some(reference()))
    }

    /// See [`crate::Store::grant`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn grant(
        &mut self,
        workspace: WorkspaceId,
        grant: Grant,
        note: String,
        now: Timestamp,
    ) -> Result<Option<i64>, Fault> {
        let row = self.config.workspace_rows.get(&workspace).copied();
        let found = row.and_then(|row| Some((row, self.config.workspaces.get_mut(&row)?)));
        let Some((row, entry)) = found else { return Ok(None) };
        let before = entry.balance.unwrap_or(0);
        let balance = match grant {
            Grant::Delta(delta) => Some(before.saturating_add(delta).max(0)),
            Grant::Unlimited => None,
        };
        // What is written is what the balance changed by, so that the ledger's sum stays the balance.
        let delta = balance.unwrap_or(0) - before;
        entry.balance = balance;
        entry.balance_changed = true;
        let tail = Tail::from_bits(now.millis().unsigned_abs());
        self.write_ledger(row, delta, ChargeReason::Grant, now, tail, Some(note))?;
        Ok(balance)
    }

    fn write_ledger(
        &mut self,
        workspace: i64,
        delta: i64,
        reason: ChargeReason,
        now: Timestamp,
        tail: Tail,
        reference: Option<String>,
    ) -> Result<(), Fault> {
        let key = self.take_keys(now, 1)?;
        self.conn
            .prepare_cached(
                "INSERT INTO ledger (key, tail, workspace, at, delta, reason, reference) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                key.value(),
                tail_column(tail),
                workspace,
                now.millis(),
                delta,
                reason as i64,
                reference
            ])?;
        Ok(())
    }

    /// Writes the balances that changed in this transaction, once each.
    pub(super) fn write_balances(&mut self) -> Result<(), Fault> {
        for (row, entry) in &mut self.config.workspaces {
            if !std::mem::take(&mut entry.balance_changed) {
                continue;
            }
            match entry.balance {
                Some(balance) => self
                    .conn
                    .prepare_cached("INSERT OR REPLACE INTO credit (workspace, balance) VALUES (?1, ?2)")?
                    .execute(params![row, balance])?,
                None => {
                    self.conn.prepare_cached("DELETE FROM credit WHERE workspace = ?1")?.execute([row])?
                }
            };
        }
        Ok(())
    }
}

/// When a parcel's message came, when its attempt was to begin, and since when it is leased.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) received_at: Timestamp,
    pub(super) due_at: Timestamp,
    pub(super) claimed_at: Timestamp,
}

impl Times {
    /// Of what came and is leased at once.
    pub(super) const fn all(now: Timestamp) -> Self {
        Self { received_at: now, due_at: now, claimed_at: now }
    }
}

/// A delivery to be inserted.
pub(super) struct NewDelivery {
    pub(super) key: Key,
    pub(super) message: Key,
    pub(super) endpoint: i64,
    pub(super) now: Timestamp,
    /// Not before this; only if it is due in the table.
    pub(super) due_at: Timestamp,
    pub(super) birth: Birth,
    pub(super) retry_of: Option<i64>,
}

/// How a delivery begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// With its first attempt.
    Leased,
    /// Due now, in the table.
    Due,
    /// Ended at once: its webhook is paused.
    Skipped,
    /// Ended at once: its mailbox gets nothing.
    Refused,
}

/// A tail as it is stored. 53 bits fit into SQLite's 64 signed ones.
pub(super) fn tail_column(tail: Tail) -> i64 {
    i64::try_from(tail.value()).unwrap_or(0)
}
