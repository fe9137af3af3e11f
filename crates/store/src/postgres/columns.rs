//! What a batch writes, column by column.

use super::codec::{Stored, ending_code, int, small, state_code, tail_column};
use super::settle::Judged;
use crate::Content;
use crate::code::{EMAIL, EVENT, LIVE_MODE, REQUEST, TEST_MODE, cause_code};
use restante_core::Timestamp;
use restante_core::health::Health;
use restante_core::id::{Key, Tail};
use restante_core::message;
use tokio_postgres::types::ToSql;

/// Rows of `message`.
#[derive(Default)]
pub(super) struct Messages<'a> {
    pub(super) workspace: Vec<i64>,
    pub(super) key: Vec<i64>,
    pub(super) tail: Vec<i64>,
    pub(super) feed: Vec<i64>,
    pub(super) fanout: Vec<i32>,
    pub(super) received_at: Vec<i64>,
    pub(super) kind: Vec<i16>,
    pub(super) event_type: Vec<Option<&'a str>>,
    pub(super) method: Vec<&'a str>,
    pub(super) path: Vec<&'a str>,
    pub(super) query: Vec<Option<&'a str>>,
    pub(super) remote: Vec<&'a str>,
    pub(super) headers: Vec<&'a [u8]>,
    pub(super) body: Vec<&'a [u8]>,
    pub(super) rejected: Vec<Option<&'a str>>,
}

impl<'a> Messages<'a> {
    pub(super) const INSERT: &'static str = "INSERT INTO message (workspace, key, tail, feed, fanout, received_at, kind, \
         type, method, path, query, remote, headers, body, rejected) \
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::bigint[], \
         $7::smallint[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bytea[], $14::bytea[], $15::text[])";

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 15] {
        [
            &self.workspace,
            &self.key,
            &self.tail,
            &self.feed,
            &self.fanout,
            &self.received_at,
            &self.kind,
            &self.event_type,
            &self.method,
            &self.path,
            &self.query,
            &self.remote,
            &self.headers,
            &self.body,
            &self.rejected,
        ]
    }

    /// A request that is rejected.
    pub(super) fn push_rejected(&mut self, at: Place, content: &'a Content, because: &'a str) {
        self.push(at, content);
        if let Some(rejected) = self.rejected.last_mut() {
            *rejected = Some(because);
        }
    }

    /// An email, with what is shown of it.
    pub(super) fn push_email(&mut self, at: Place, content: &'a Content, details: &'a [u8]) {
        self.push(at, content);
        if let Some(headers) = self.headers.last_mut() {
            *headers = details;
        }
    }

    pub(super) fn push(&mut self, at: Place, content: &'a Content) {
        self.workspace.push(at.workspace);
        self.key.push(at.key.value());
        self.tail.push(tail_column(at.tail));
        self.feed.push(at.feed);
        self.fanout.push(int(at.fanout));
        self.received_at.push(at.now.millis());
        self.body.push(&content.message.body()[..]);
        self.rejected.push(None);
        match &content.message {
            message::Content::Request(received) => {
                self.kind.push(small(REQUEST));
                self.event_type.push(None);
                self.method.push(&received.method);
                self.path.push(&received.path);
                self.query.push(received.query.as_deref());
                self.remote.push(&received.remote_address);
                self.headers.push(&received.headers.packed()[..]);
            }
            message::Content::Email(mail) => {
                self.kind.push(small(EMAIL));
                self.event_type.push(None);
                self.method.push(if mail.test { TEST_MODE } else { LIVE_MODE });
                self.path.push("");
                self.query.push(None);
                self.remote.push(&mail.sender);
                self.headers.push(&[]);
            }
            message::Content::Event(published) => {
                self.kind.push(small(EVENT));
                self.event_type.push(Some(published.event_type.as_str()));
                self.method.push("");
                self.path.push("");
                self.query.push(None);
                self.remote.push("");
                self.headers.push(&[]);
            }
        }
    }
}

/// Where a message belongs.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) workspace: i64,
    pub(super) key: Key,
    pub(super) tail: Tail,
    pub(super) feed: i64,
    pub(super) fanout: u32,
    pub(super) now: Timestamp,
}

/// New rows of `delivery`.
#[derive(Default)]
pub(super) struct Deliveries {
    pub(super) workspace: Vec<i64>,
    pub(super) key: Vec<i64>,
    pub(super) message: Vec<i64>,
    pub(super) endpoint: Vec<i64>,
    pub(super) state: Vec<i16>,
    pub(super) made: Vec<i32>,
    pub(super) due_at: Vec<i64>,
    pub(super) started_at: Vec<Option<i64>>,
    pub(super) version: Vec<Option<i32>>,
    pub(super) ended_at: Vec<Option<i64>>,
    pub(super) node: Vec<Option<i32>>,
}

impl Deliveries {
    pub(super) const INSERT: &'static str = "INSERT INTO delivery (workspace, key, message, endpoint, state, made, due_at, \
         started_at, endpoint_version, ended_at, node, claimed, ending, used, lost) \
         SELECT *, false, 0, 0, 0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], \
         $6::int[], $7::bigint[], $8::bigint[], $9::int[], $10::bigint[], $11::int[])";

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 11] {
        [
            &self.workspace,
            &self.key,
            &self.message,
            &self.endpoint,
            &self.state,
            &self.made,
            &self.due_at,
            &self.started_at,
            &self.version,
            &self.ended_at,
            &self.node,
        ]
    }

    pub(super) fn push(&mut self, stored: &Stored) {
        let row = &stored.row;
        self.workspace.push(stored.workspace);
        self.key.push(row.key);
        self.message.push(row.message);
        self.endpoint.push(row.endpoint);
        self.state.push(small(state_code(row.life.state)));
        self.made.push(int(row.life.attempts_made));
        self.due_at.push(row.life.due_at.millis());
        self.started_at.push(row.started_at);
        self.version.push(row.endpoint_version.map(int));
        self.ended_at.push(row.life.ended_at.map(Timestamp::millis));
        self.node.push(stored.node);
    }
}

/// New rows of `work`, and of `skipped`, which takes the first three.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) workspace: Vec<i64>,
    pub(super) key: Vec<i64>,
    pub(super) endpoint: Vec<i64>,
    pub(super) due_at: Vec<i64>,
    pub(super) pauses: Vec<i64>,
}

impl Waiting {
    pub(super) const INSERT_WORK: &'static str = "INSERT INTO work (workspace, key, endpoint, due_at, pauses) \
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])";
    pub(super) const INSERT_SKIPPED: &'static str = "INSERT INTO skipped (workspace, key, endpoint) \
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])";

    pub(super) fn work_params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.workspace, &self.key, &self.endpoint, &self.due_at, &self.pauses]
    }

    pub(super) fn skipped_params(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.workspace, &self.key, &self.endpoint]
    }

    pub(super) fn push(&mut self, stored: &Stored, pauses: i64) {
        self.workspace.push(stored.workspace);
        self.key.push(stored.row.key);
        self.endpoint.push(stored.row.endpoint);
        self.due_at.push(stored.row.life.due_at.millis());
        self.pauses.push(pauses);
    }
}

/// Failing runs of webhooks that are locked.
#[derive(Default)]
pub(super) struct Healths {
    pub(super) endpoint: Vec<i64>,
    pub(super) since: Vec<Option<i64>>,
    pub(super) failures: Vec<i32>,
    pub(super) degraded: Vec<bool>,
}

impl Healths {
    pub(super) const UPDATE: &'static str = "UPDATE health SET run_since = it.since, run_failures = it.failures, \
         degraded = it.degraded FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::boolean[]) \
         AS it (endpoint, since, failures, degraded) WHERE health.endpoint = it.endpoint";

    pub(super) fn push(&mut self, endpoint: i64, health: Health) {
        self.endpoint.push(endpoint);
        self.since.push(health.run.map(|run| run.since.millis()));
        self.failures.push(health.run.map_or(0, |run| int(run.failures)));
        self.degraded.push(health.degraded);
    }
}

/// Deliveries that their first attempt delivered, and of which nothing else is to be told.
#[derive(Default)]
pub(super) struct Delivered {
    pub(super) workspace: Vec<i64>,
    pub(super) key: Vec<i64>,
    pub(super) started_at: Vec<Option<i64>>,
    pub(super) version: Vec<Option<i32>>,
    pub(super) ended_at: Vec<Option<i64>>,
    pub(super) status: Vec<Option<i16>>,
}

impl Delivered {
    pub(super) const UPDATE: &'static str = "UPDATE delivery SET state = 2, used = 1, started_at = it.started_at, \
         endpoint_version = it.version, ended_at = it.ended_at, status = it.status, node = NULL \
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::bigint[], $6::smallint[]) \
         AS it (workspace, key, started_at, version, ended_at, status) \
         WHERE delivery.workspace = it.workspace AND delivery.key = it.key AND delivery.state = 1 AND delivery.node = $7 \
         AND delivery.made = 1 AND delivery.ending = 0 AND delivery.back_to IS NULL AND NOT delivery.claimed \
         RETURNING delivery.key";

    pub(super) fn push(&mut self, judged: &Judged) {
        let row = &judged.stored.row;
        self.workspace.push(judged.stored.workspace);
        self.key.push(row.key);
        self.started_at.push(row.started_at);
        self.version.push(row.endpoint_version.map(int));
        self.ended_at.push(judged.life.ended_at.map(Timestamp::millis));
        self.status.push(row.status.map(|status| small(i64::from(status))));
    }
}

/// All other deliveries that a batch settles, with the records of their attempts.
#[derive(Default)]
pub(super) struct Settled<'a> {
    pub(super) workspace: Vec<i64>,
    pub(super) key: Vec<i64>,
    pub(super) endpoint: Vec<i64>,
    pub(super) made: Vec<i32>,
    pub(super) ending_before: Vec<i16>,
    pub(super) state: Vec<i16>,
    pub(super) used: Vec<i32>,
    pub(super) lost: Vec<i32>,
    pub(super) due_at: Vec<i64>,
    pub(super) started_at: Vec<Option<i64>>,
    pub(super) version: Vec<Option<i32>>,
    pub(super) ended_at: Vec<Option<i64>>,
    pub(super) status: Vec<Option<i16>>,
    pub(super) wait_ms: Vec<Option<i64>>,
    pub(super) wait_cause: Vec<Option<i16>>,
    pub(super) pauses: Vec<i64>,
    // The attempt's own row; `attempt_started_at` is null when there is none.
    pub(super) attempt_started_at: Vec<Option<i64>>,
    pub(super) attempt_version: Vec<i32>,
    pub(super) duration_ms: Vec<i64>,
    pub(super) result: Vec<i16>,
    pub(super) attempt_status: Vec<Option<i16>>,
    pub(super) failure: Vec<Option<i16>>,
    pub(super) message: Vec<Option<&'a str>>,
    pub(super) uses_budget: Vec<bool>,
    pub(super) webhook: Vec<Option<i64>>,
}

impl<'a> Settled<'a> {
    // Everything reads what was updated: to join one part with another would take the square of the rows.
    pub(super) const UPDATE: &'static str = "WITH done AS (UPDATE delivery SET state = it.state, claimed = false, ending = 0, \
         used = it.used, lost = it.lost, due_at = it.due_at, started_at = it.started_at, endpoint_version = it.version, \
         ended_at = it.ended_at, status = it.status, wait_ms = it.wait_ms, wait_cause = it.wait_cause, node = NULL \
         FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::smallint[], $7::smallint[], $8::int[], \
         $9::int[], $10::bigint[], $11::bigint[], $12::int[], $13::bigint[], $14::smallint[], $15::bigint[], \
         $16::smallint[], $17::bigint[], $18::bigint[], $19::int[], $20::bigint[], $21::smallint[], $22::smallint[], \
         $23::smallint[], $24::text[], $25::boolean[], $26::bigint[]) AS it (workspace, key, endpoint, made, \
         ending_before, state, used, lost, due_at, started_at, version, ended_at, status, wait_ms, wait_cause, pauses, \
         attempt_started_at, attempt_version, duration_ms, result, attempt_status, failure, message, uses_budget, webhook) \
         WHERE delivery.workspace = it.workspace AND delivery.key = it.key AND delivery.state = 1 AND delivery.node = $1 \
         AND delivery.made = it.made AND delivery.ending = it.ending_before AND delivery.back_to IS NULL \
         RETURNING it.*), \
         logged AS (INSERT INTO attempt (workspace, delivery, number, endpoint_version, started_at, duration_ms, result, \
         status, failure, message, uses_budget, webhook) \
         SELECT workspace, key, made, attempt_version, attempt_started_at, duration_ms, result, attempt_status, failure, \
         message, uses_budget, webhook FROM done WHERE attempt_started_at IS NOT NULL), \
         planned AS (INSERT INTO work (workspace, key, endpoint, due_at, pauses) \
         SELECT workspace, key, endpoint, due_at, pauses FROM done WHERE state = 0 \
         ON CONFLICT (workspace, key) DO UPDATE SET due_at = excluded.due_at, pauses = excluded.pauses, node = NULL), \
         over AS (DELETE FROM work USING done WHERE done.state <> 0 \
         AND work.workspace = done.workspace AND work.key = done.key) \
         SELECT key FROM done";

    pub(super) fn push(&mut self, judged: &'a Judged, pauses: i64) {
        let (row, life) = (&judged.stored.row, &judged.life);
        self.workspace.push(judged.stored.workspace);
        self.key.push(row.key);
        self.endpoint.push(row.endpoint);
        self.made.push(int(life.attempts_made));
        self.ending_before.push(small(ending_code(row.life.ending)));
        self.state.push(small(state_code(life.state)));
        self.used.push(int(life.attempts_used));
        self.lost.push(int(life.lost_in_row));
        self.due_at.push(life.due_at.millis());
        self.started_at.push(row.started_at);
        self.version.push(row.endpoint_version.map(int));
        self.ended_at.push(life.ended_at.map(Timestamp::millis));
        self.status.push(row.status.map(|status| small(i64::from(status))));
        let wait_ms =
            |wait: restante_core::retry::Wait| i64::try_from(wait.length.as_millis()).unwrap_or(i64::MAX);
        self.wait_ms.push(life.wait.map(wait_ms));
        self.wait_cause.push(life.wait.map(|wait| small(cause_code(wait.cause))));
        self.pauses.push(pauses);
        let record = judged.record.as_ref();
        self.attempt_started_at.push(record.map(|record| record.started_at));
        self.attempt_version.push(record.map_or(0, |record| int(record.endpoint_version)));
        self.duration_ms.push(record.map_or(0, |record| record.duration_ms));
        self.result.push(record.map_or(0, |record| record.result));
        self.attempt_status.push(record.and_then(|record| record.status));
        self.failure.push(record.and_then(|record| record.failure));
        self.message.push(record.and_then(|record| record.message.as_deref()));
        self.uses_budget.push(record.is_some_and(|record| record.uses_budget));
        self.webhook.push(record.and_then(|record| record.webhook));
    }
}
