//! Rows of deliveries and messages, read.

use std::time::Duration;

use bytes::Bytes;
use restante_core::event::EventType;
use restante_core::id::{Id, Key, Tail};
use restante_core::message::{Content, Headers, Mail, MessageId, Published, Received};
use restante_core::retry::Wait;
use restante_core::{Delivery, Timestamp};
use tokio_postgres::Row;

use super::Fault;
pub(super) use crate::code::*;

impl From<Damaged> for Fault {
    fn from(Damaged(what): Damaged) -> Self {
        Self::Damaged(what)
    }
}

/// A delivery as it is stored, with what only this database knows of it.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// The row of its workspace: the first half of its key.
    pub(super) workspace: i64,
    /// Who holds the lease, while it is `Sending`.
    pub(super) node: Option<i32>,
    pub(super) row: DeliveryRow,
}

macro_rules! delivery_columns {
    () => {
        "delivery.workspace, delivery.node, delivery.key, delivery.message, delivery.endpoint, delivery.state, \
         delivery.claimed, delivery.ending, delivery.made, delivery.used, delivery.lost, delivery.due_at, \
         delivery.started_at, delivery.endpoint_version, delivery.ended_at, delivery.status, delivery.wait_ms, \
         delivery.wait_cause, delivery.created_at, delivery.retry_of, delivery.back_to, delivery.job, work.pauses"
    };
}

// Looked up on its own for each delivery: of a table that is nearly empty the planner may think that it can as well be
// gone through, and it fills up within a minute of an outage.
macro_rules! work_of_delivery {
    () => {
        "LEFT JOIN LATERAL (SELECT pauses FROM work WHERE work.workspace = delivery.workspace AND work.key = delivery.key \
         OFFSET 0) AS work ON true"
    };
}

macro_rules! delivery_tables {
    () => {
        concat!("delivery ", work_of_delivery!())
    };
}

/// The columns [`read_delivery`] wants, in its order. They come from `delivery` and `work`.
pub(super) const DELIVERY_COLUMNS: &str = delivery_columns!();
/// How many they are.
pub(super) const DELIVERY_WIDTH: usize = 23;
/// What joins `work` to `delivery`.
pub(super) const WORK_OF_DELIVERY: &str = work_of_delivery!();
/// Where they come from, unless the statement joins the two itself.
pub(super) const DELIVERY_TABLES: &str = delivery_tables!();
/// One delivery by its workspace and key, for [`read_delivery`].
pub(super) const DELIVERY_BY_KEY: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM ",
    delivery_tables!(),
    " WHERE delivery.workspace = $1 AND delivery.key = $2"
);
/// Reads a delivery.
pub(super) fn read_delivery(row: &Row) -> Result<Stored, Fault> {
    let small = |index: usize| Ok::<_, Fault>(i64::from(row.try_get::<_, i16>(index)?));
    let small_or_none = |index: usize| Ok::<_, Fault>(row.try_get::<_, Option<i16>>(index)?.map(i64::from));
    let count = |index: usize| Ok::<_, Fault>(row.try_get::<_, i32>(index)?.unsigned_abs());
    let wait = match (row.try_get::<_, Option<i64>>(16)?, small_or_none(17)?) {
        (Some(millis), Some(code)) => {
            Some(Wait { length: Duration::from_millis(millis.unsigned_abs()), cause: cause(code)? })
        }
        _ => None,
    };
    let read = DeliveryRow {
        key: row.try_get(2)?,
        mark: row.try_get::<_, Option<i64>>(22)?.unwrap_or(i64::MAX),
        message: row.try_get(3)?,
        endpoint: row.try_get(4)?,
        life: Delivery {
            state: state(small(5)?)?,
            ending: ending(small(7)?)?,
            back_to: small_or_none(20)?.map(state).transpose()?,
            attempts_made: count(8)?,
            attempts_used: count(9)?,
            lost_in_row: count(10)?,
            due_at: Timestamp::from_millis(row.try_get(11)?),
            wait,
            ended_at: row.try_get::<_, Option<i64>>(14)?.map(Timestamp::from_millis),
        },
        claimed: row.try_get(6)?,
        started_at: row.try_get(12)?,
        endpoint_version: row.try_get::<_, Option<i32>>(13)?.map(i32::unsigned_abs),
        status: small_or_none(15)?.map(|status| u16::try_from(status).unwrap_or(0)),
        created_at: row.try_get(18)?,
        retry_of: row.try_get(19)?,
        job: row.try_get(21)?,
    };
    Ok(Stored { workspace: row.try_get(0)?, node: row.try_get(1)?, row: read })
}

/// A stored message, as far as a delivery needs it.
pub(super) struct MessageRow {
    pub(super) id: MessageId,
    /// The row of its source, or of its workspace; of an email, the latter negated.
    pub(super) feed: i64,
    pub(super) received_at: i64,
    pub(super) content: Content,
}

/// The columns [`read_message`] wants, in its order.
pub(super) const MESSAGE_COLUMNS: &str = "message.key, message.tail, message.feed, message.received_at, message.kind, \
     message.type, message.method, message.path, message.query, message.remote, message.headers, message.body";

/// Reads a message whose columns begin at `first`.
pub(super) fn read_message(row: &Row, first: usize) -> Result<MessageRow, Fault> {
    let key: i64 = row.try_get(first)?;
    let tail = Tail::from_bits(row.try_get::<_, i64>(first + 1)?.unsigned_abs());
    let body = Bytes::from(row.try_get::<_, Vec<u8>>(first + 11)?);
    let (id, content) = match i64::from(row.try_get::<_, i16>(first + 4)?) {
        REQUEST => {
            let headers = Headers::from_packed(Bytes::from(row.try_get::<_, Vec<u8>>(first + 10)?))
                .map_err(|fault| Fault::Damaged(format!("message {key}: {fault}")))?;
            let received = Received {
                method: row.try_get(first + 6)?,
                path: row.try_get(first + 7)?,
                query: row.try_get(first + 8)?,
                headers,
                body,
                remote_address: row.try_get(first + 9)?,
            };
            (MessageId::Request(Id::new(Key::from_value(key), tail)), Content::Request(received))
        }
        EVENT => {
            let event_type = event_type(row.try_get(first + 5)?)?;
            let published = Published { event_type, body };
            (MessageId::Event(Id::new(Key::from_value(key), tail)), Content::Event(published))
        }
        EMAIL => {
            let test = row.try_get::<_, &str>(first + 6)? == TEST_MODE;
            let mail = Mail { sender: row.try_get(first + 9)?, test, mime: body };
            (MessageId::Email(Id::new(Key::from_value(key), tail)), Content::Email(mail))
        }
        other => return Err(Fault::Damaged(format!("message {key} is of kind {other}"))),
    };
    Ok(MessageRow { id, feed: row.try_get(first + 2)?, received_at: row.try_get(first + 3)?, content })
}

pub(super) fn event_type(text: &str) -> Result<EventType, Fault> {
    EventType::parse(text).map_err(|fault| Fault::Damaged(format!("event type {text}: {fault}")))
}

/// A tail as it is stored. 53 bits fit into 64 signed ones.
pub(super) fn tail_column(tail: Tail) -> i64 {
    i64::try_from(tail.value()).unwrap_or(0)
}

/// A small code as it is stored.
pub(super) fn small(code: i64) -> i16 {
    i16::try_from(code).unwrap_or(i16::MAX)
}

/// A count as it is stored.
pub(super) fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
