//! What goes into each table, and how it is read out of the data directory.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use tokio_postgres::types::{IsNull, ToSql, Type};
use uuid::Uuid;

use super::Fault;
use crate::sqlite;

/// A table of the database.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its columns, in the order of `select`.
    pub(super) columns: &'static [(&'static str, Type)],
    /// Its rows, read from the data directory. `:epoch` is that of the transfer, `:node` holds the leases.
    pub(super) select: &'static str,
    /// The same rows, to be counted.
    pub(super) counted: &'static str,
}

const SMALL: Type = Type::INT2;
const INT: Type = Type::INT4;
const BIG: Type = Type::INT8;
const BOOL: Type = Type::BOOL;
const TEXT: Type = Type::TEXT;
const BYTES: Type = Type::BYTEA;
const UUID: Type = Type::UUID;

/// All that is moved, what is referred to first.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "record",
        columns: &[
            ("row", BIG),
            ("kind", SMALL),
            ("uuid", UUID),
            ("key", BIG),
            ("workspace", BIG),
            ("parent", BIG),
            ("name", TEXT),
            ("lookup", TEXT),
            ("version", INT),
            ("created_at", BIG),
            ("updated_at", BIG),
            ("deleted_at", BIG),
            ("body", TEXT),
            ("epoch", BIG),
        ],
        select: "SELECT row, kind, uuid, key, workspace, parent, name, lookup, version, created_at, updated_at, deleted_at, \
             body, :epoch FROM record ORDER BY row",
        counted: "record",
    },
    Table {
        name: "endpoint_url",
        columns: &[("endpoint", BIG), ("version", INT), ("url", TEXT)],
        select: "SELECT endpoint, version, url FROM endpoint_url",
        counted: "endpoint_url",
    },
    Table {
        name: "message",
        columns: &[
            ("workspace", BIG),
            ("key", BIG),
            ("tail", BIG),
            ("feed", BIG),
            ("fanout", INT),
            ("received_at", BIG),
            ("replay_of", UUID),
            ("method", TEXT),
            ("path", TEXT),
            ("query", TEXT),
            ("remote", TEXT),
            ("headers", BYTES),
            ("body", BYTES),
            ("kind", SMALL),
            ("type", TEXT),
            ("duplicate_of", UUID),
            ("rejected", TEXT),
        ],
        select: "SELECT record.workspace, message.key, tail, feed, fanout, received_at, replay_of, method, path, query, \
             remote, headers, message.body, message.kind, type, duplicate_of, rejected \
             FROM message LEFT JOIN record ON record.row = abs(message.feed) ORDER BY message.key",
        counted: "message",
    },
    Table {
        name: "seen",
        columns: &[
            ("workspace", BIG),
            ("source", BIG),
            ("value", BYTES),
            ("message", BIG),
            ("tail", BIG),
            ("received_at", BIG),
            ("held_until", BIG),
        ],
        select: "SELECT record.workspace, source, value, message, tail, received_at, held_until \
             FROM seen LEFT JOIN record ON record.row = seen.source ORDER BY source, value",
        counted: "seen",
    },
    Table {
        name: "delivery",
        columns: &[
            ("workspace", BIG),
            ("key", BIG),
            ("message", BIG),
            ("endpoint", BIG),
            ("state", SMALL),
            ("claimed", BOOL),
            ("ending", SMALL),
            ("made", INT),
            ("used", INT),
            ("lost", INT),
            ("due_at", BIG),
            ("started_at", BIG),
            ("endpoint_version", INT),
            ("ended_at", BIG),
            ("status", SMALL),
            ("wait_ms", BIG),
            ("wait_cause", SMALL),
            ("created_at", BIG),
            ("retry_of", BIG),
            ("node", INT),
            ("back_to", SMALL),
            ("job", BIG),
            ("data_sent", INT),
        ],
        select: "SELECT record.workspace, delivery.key, message, endpoint, state, claimed AND state = 1, ending, made, \
             used, lost, due_at, started_at, endpoint_version, ended_at, status, wait_ms, wait_cause, \
             delivery.created_at, retry_of, CASE WHEN state = 1 THEN :node END, back_to, job, data_sent \
             FROM delivery LEFT JOIN record ON record.row = delivery.endpoint ORDER BY delivery.key",
        counted: "delivery",
    },
    // What a pause ended and nobody has marked yet was planned before it; all else counts as planned since.
    Table {
        name: "work",
        columns: &[
            ("workspace", BIG),
            ("key", BIG),
            ("endpoint", BIG),
            ("due_at", BIG),
            ("pauses", BIG),
            ("node", INT),
        ],
        select: "SELECT record.workspace, delivery.key, delivery.endpoint, due_at, \
             cut IS NOT NULL AND NOT (state = 0 AND delivery.key <= cut), CASE WHEN state = 1 THEN :node END \
             FROM delivery LEFT JOIN record ON record.row = delivery.endpoint \
             LEFT JOIN health ON health.endpoint = delivery.endpoint \
             WHERE state = 0 OR (state = 1 AND claimed = 1) ORDER BY delivery.key",
        counted: "delivery WHERE state = 0 OR (state = 1 AND claimed = 1)",
    },
    Table {
        name: "skipped",
        columns: &[("workspace", BIG), ("endpoint", BIG), ("key", BIG)],
        select: "SELECT record.workspace, endpoint, delivery.key \
             FROM delivery LEFT JOIN record ON record.row = delivery.endpoint WHERE state = 50",
        counted: "delivery WHERE state = 50",
    },
    Table {
        name: "attempt",
        columns: &[
            ("workspace", BIG),
            ("delivery", BIG),
            ("number", INT),
            ("endpoint_version", INT),
            ("started_at", BIG),
            ("duration_ms", BIG),
            ("result", SMALL),
            ("status", SMALL),
            ("failure", SMALL),
            ("message", TEXT),
            ("uses_budget", BOOL),
            ("webhook", BIG),
            ("replay", BOOL),
        ],
        select: "SELECT record.workspace, attempt.delivery, number, attempt.endpoint_version, attempt.started_at, \
             duration_ms, result, attempt.status, failure, attempt.message, uses_budget, webhook, replay \
             FROM attempt LEFT JOIN delivery ON delivery.key = attempt.delivery \
             LEFT JOIN record ON record.row = delivery.endpoint ORDER BY attempt.delivery, number",
        counted: "attempt",
    },
    Table {
        name: "email",
        columns: &[
            ("workspace", BIG),
            ("message", BIG),
            ("test", BOOL),
            ("sender", TEXT),
            ("scheduled_at", BIG),
            ("cancelled_at", BIG),
            ("key", TEXT),
        ],
        select: "SELECT workspace, message, test, sender, scheduled_at, cancelled_at, key FROM email",
        counted: "email",
    },
    Table {
        name: "recipient",
        columns: &[
            ("workspace", BIG),
            ("delivery", BIG),
            ("role", SMALL),
            ("email", TEXT),
            ("name", TEXT),
            ("suppressed", BOOL),
        ],
        select: "SELECT record.workspace, recipient.delivery, role, email, recipient.name, suppressed \
             FROM recipient LEFT JOIN delivery ON delivery.key = recipient.delivery \
             LEFT JOIN record ON record.row = delivery.endpoint ORDER BY recipient.delivery",
        counted: "recipient",
    },
    Table {
        name: "email_event",
        columns: &[("workspace", BIG), ("email", BIG), ("event", BIG)],
        select: "SELECT email.workspace, email_event.email, event \
             FROM email_event LEFT JOIN email ON email.message = email_event.email",
        counted: "email_event",
    },
    Table {
        name: "credit",
        columns: &[("workspace", BIG), ("balance", BIG)],
        select: "SELECT workspace, balance FROM credit",
        counted: "credit",
    },
    Table {
        name: "ledger",
        columns: &[
            ("workspace", BIG),
            ("key", BIG),
            ("tail", BIG),
            ("at", BIG),
            ("delta", BIG),
            ("reason", SMALL),
            ("reference", TEXT),
        ],
        select: "SELECT workspace, key, tail, at, delta, reason, reference FROM ledger",
        counted: "ledger",
    },
    // A cut is a key in the data directory, and a number of pauses in the database: with one, this is the first pause.
    Table {
        name: "health",
        columns: &[
            ("endpoint", BIG),
            ("run_since", BIG),
            ("run_failures", INT),
            ("degraded", BOOL),
            ("paused_at", BIG),
            ("cut", BIG),
            ("pauses", BIG),
            ("epoch", BIG),
        ],
        select: "SELECT endpoint, run_since, run_failures, degraded, paused_at, CASE WHEN cut IS NOT NULL THEN 0 END, \
             cut IS NOT NULL, :epoch FROM health",
        counted: "health",
    },
    Table {
        name: "idempotency",
        columns: &[
            ("workspace", BIG),
            ("key", TEXT),
            ("fingerprint", BYTES),
            ("events", BYTES),
            ("held_until", BIG),
        ],
        select: "SELECT workspace, key, fingerprint, events, held_until FROM idempotency",
        counted: "idempotency",
    },
    Table {
        name: "open_job",
        columns: &[("record", BIG), ("endpoint", BIG), ("kind", TEXT), ("running", INT)],
        select: "SELECT open_job.record, record.parent, json_extract(record.body, '$.kind'), \
             (SELECT count(*) FROM delivery WHERE state = 1 AND claimed = 1 AND delivery.endpoint = record.parent \
             AND back_to IS NOT NULL AND job = open_job.record) \
             FROM open_job LEFT JOIN record ON record.row = open_job.record",
        counted: "open_job",
    },
    Table {
        name: "replay_item",
        columns: &[("job", BIG), ("position", BIG), ("delivery", BIG)],
        select: "SELECT job, position, delivery FROM replay_item",
        counted: "replay_item",
    },
    Table {
        name: "replay_quota",
        columns: &[("workspace", BIG), ("day", BIG), ("used", INT)],
        select: "SELECT workspace, day, used FROM replay_quota",
        counted: "replay_quota",
    },
    // Turned round, so that the numbers that nodes are given are others.
    Table {
        name: "tally",
        columns: &[
            ("workspace", BIG),
            ("scope", BIG),
            ("step", INT),
            ("at", BIG),
            ("series", BIG),
            ("kept_until", BIG),
            ("accepted", BIG),
            ("delivered", BIG),
            ("failed", BIG),
            ("attempts", BIG),
            ("attempts_failed", BIG),
            ("arrival", BYTES),
            ("duration", BYTES),
        ],
        select: "SELECT workspace, scope, step, at, -series, kept_until, accepted, delivered, failed, attempts, \
             attempts_failed, arrival, duration FROM tally",
        counted: "tally",
    },
    Table {
        name: "secret_check",
        columns: &[("id", INT), ("sealed", TEXT)],
        select: "SELECT id, sealed FROM secret_check",
        counted: "secret_check",
    },
];

impl Table {
    /// A row as the database takes it.
    ///
    /// # Errors
    /// A value is not what its column holds.
    pub(super) fn cells<'row>(&self, row: &'row Row<'_>) -> Result<Vec<Cell<'row>>, Fault> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for (index, (column, kind)) in self.columns.iter().enumerate() {
            let value = row.get_ref(index)?;
            let cell = cell(value, kind).ok_or_else(|| {
                let what = format!("{}.{column} is not of type {kind}", self.name);
                sqlite::Fault::Damaged(what)
            })?;
            cells.push(cell);
        }
        Ok(cells)
    }
}

/// A value of a column.
#[derive(Debug)]
pub(super) enum Cell<'row> {
    Null,
    Small(i16),
    Int(i32),
    Big(i64),
    Bool(bool),
    Text(Cow<'row, str>),
    Bytes(&'row [u8]),
    Uuid(Uuid),
}

fn cell<'row>(value: ValueRef<'row>, kind: &Type) -> Option<Cell<'row>> {
    match value {
        ValueRef::Null => Some(Cell::Null),
        ValueRef::Integer(number) if *kind == BIG => Some(Cell::Big(number)),
        ValueRef::Integer(number) if *kind == INT => number.try_into().ok().map(Cell::Int),
        ValueRef::Integer(number) if *kind == SMALL => number.try_into().ok().map(Cell::Small),
        ValueRef::Integer(number) if *kind == BOOL => Some(Cell::Bool(number != 0)),
        ValueRef::Text(text) if *kind == TEXT => std::str::from_utf8(text).ok().map(plain).map(Cell::Text),
        ValueRef::Blob(bytes) if *kind == BYTES => Some(Cell::Bytes(bytes)),
        ValueRef::Blob(bytes) if *kind == UUID => Uuid::from_slice(bytes).ok().map(Cell::Uuid),
        ValueRef::Integer(_) | ValueRef::Text(_) | ValueRef::Blob(_) | ValueRef::Real(_) => None,
    }
}

/// A text as PostgreSQL takes it: it has no character 0.
fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Small(number) => number.to_sql(kind, out),
            Self::Int(number) => number.to_sql(kind, out),
            Self::Big(number) => number.to_sql(kind, out),
            Self::Bool(value) => value.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
            Self::Uuid(uuid) => uuid.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // `cell` has made it for this type.
        self.to_sql(kind, out)
    }
}
