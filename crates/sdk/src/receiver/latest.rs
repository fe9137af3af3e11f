//! The newest of values that arrive in any order.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Keeps the value of the newest event, so that a late retry cannot overwrite newer data.
///
/// What counts is when the event happened, its `timestamp`, not when it arrived; of events of the same millisecond the
/// one with the greater `webhook-id` is the newer. Whatever the order, and however often each is offered, the same value
/// remains.
///
/// Serialised, it is a record to be stored with the value. In SQL the same rule is a condition of the write:
///
/// ```sql
/// INSERT INTO emails (id, state, event_at, event_id) VALUES ($1, $2, $3, $4)
/// ON CONFLICT (id) DO UPDATE SET state = excluded.state, event_at = excluded.event_at, event_id = excluded.event_id
/// WHERE (emails.event_at, emails.event_id) < (excluded.event_at, excluded.event_id);
/// -- `event_id text COLLATE "C"`: ids are compared byte by byte.
/// ```
///
/// ```
/// use restante_sdk::Timestamp;
/// use restante_sdk::receiver::{Latest, Offered};
///
/// let mut state = Latest::new();
/// state.offer(Timestamp::from_millis(2_000), "whe_2", "delivered");
/// let late = state.offer(Timestamp::from_millis(1_000), "whe_1", "accepted");
/// assert_eq!((late, state.get()), (Offered::Late, Some(&"delivered")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest<T> {
    newest: Option<Dated<T>>,
}

/// A value, and the event that it came with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dated<T> {
    pub(super) timestamp: Timestamp,
    pub(super) id: String,
    pub(super) value: T,
}

impl<T> Dated<T> {
    /// Whether the event of this time and id comes after this one's.
    pub(super) fn is_older_than(&self, timestamp: Timestamp, id: &str) -> bool {
        (self.timestamp, self.id.as_str()) < (timestamp, id)
    }
}

/// What became of a value that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is the newest so far and is kept.
    Newest,
    /// A newer event's value is kept, or the same event's.
    Late,
}

impl<T> Latest<T> {
    /// Without a value.
    pub const fn new() -> Self {
        Self { newest: None }
    }

    /// Keeps the value if its event is newer than the one whose value is kept.
    ///
    /// `timestamp` is the body's, and `id` the `webhook-id`.
    pub fn offer(&mut self, timestamp: Timestamp, id: &str, value: T) -> Offered {
        if self.newest.as_ref().is_some_and(|newest| !newest.is_older_than(timestamp, id)) {
            return Offered::Late;
        }
        self.newest = Some(Dated { timestamp, id: id.to_owned(), value });
        Offered::Newest
    }

    /// The newest event's value; `None` before the first.
    pub fn get(&self) -> Option<&T> {
        self.newest.as_ref().map(|newest| &newest.value)
    }

    /// The newest event's value; `None` before the first.
    pub fn into_inner(self) -> Option<T> {
        self.newest.map(|newest| newest.value)
    }

    /// When the newest event happened; `None` before the first.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.newest.as_ref().map(|newest| newest.timestamp)
    }

    /// The `webhook-id` of the newest event; `None` before the first.
    pub fn id(&self) -> Option<&str> {
        self.newest.as_ref().map(|newest| newest.id.as_str())
    }
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
