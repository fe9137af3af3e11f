//! What is known of events and webhooks: who published what, what was sent again, what the store took when.

use bytes::Bytes;
use restante_core::event::{self, EventType};
use restante_core::health::Health;
use restante_core::id::{DeliveryId, EventId};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_core::{Outcome, Timestamp};
use restante_store::{EventReceipt, Lease, Resent, Window};

use super::Origin;
use crate::timeline::Moment;

/// Something that a workspace means to publish, however often it says so. Its place among all is in its bytes.
#[derive(Clone, Debug)]
pub struct Content {
    pub items: Vec<Item>,
    pub is_batch: bool,
}

/// An event of a [`Content`].
#[derive(Clone, Debug)]
pub struct Item {
    pub event_type: EventType,
    /// When it happened; `None`: when the call is made.
    pub timestamp: Option<Timestamp>,
    pub padding: usize,
}

/// A publishing call.
#[derive(Clone, Debug)]
pub struct Call {
    /// A place in the cast.
    pub workspace: usize,
    pub key: Option<IdempotencyKey>,
    /// A place among all.
    pub content: usize,
    pub asked: Option<Moment>,
    /// What receivers would get by this call: it fills in the time, and spells the same JSON in another way.
    pub bodies: Vec<Bytes>,
    pub told: Answered,
    /// How often its publisher has made it before without an answer.
    pub tries: u32,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// No answer came: it may be stored or not.
    Nothing,
    /// Nobody listened, or nothing was stored.
    Refused,
    Fresh(Vec<EventReceipt>),
    Replayed(Vec<EventReceipt>),
    /// The key was used for something else.
    KeyReused,
}

/// An event that somebody was told of.
#[derive(Clone, Debug)]
pub struct KnownEvent {
    pub id: EventId,
    /// The place of the call that was told of it first.
    pub call: usize,
    /// Which of the call's events.
    pub item: usize,
    pub deliveries: u32,
    pub accepted_at: Timestamp,
    pub told: Moment,
}

/// Somebody asked for a replay or a recovery.
#[derive(Clone, Copy, Debug)]
pub struct Resend {
    /// A place among all endpoints.
    pub endpoint: usize,
    pub what: What,
    pub asked: Moment,
    pub asked_at: Timestamp,
    pub told: Option<Moment>,
}

/// What is to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// What failed in the window.
    Failures(Window),
    One(DeliveryId),
    /// What was skipped and accepted in the window; without one: skipped since the last pause.
    Skipped(Option<Window>),
}

/// One caller's share of a commit that was made, whether or not anybody lived to hear of it. Endpoints are places.
#[derive(Clone, Debug)]
pub enum Taken {
    /// A call stored these events.
    Call {
        call: usize,
        events: Vec<EventReceipt>,
    },
    /// An attempt of a webhook ended so.
    Attempt {
        endpoint: usize,
        lease: Lease,
        outcome: Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    },
    /// Somebody changed a webhook.
    Change {
        endpoint: usize,
        new_url: bool,
        paused: bool,
    },
    /// Somebody's test of a webhook was delivered.
    Test {
        endpoint: usize,
    },
    Deletion {
        endpoint: usize,
    },
    /// `resend` is a place among all; `counted` is what a dry run would have said.
    Resend {
        resend: usize,
        resent: Resent,
        counted: Option<u64>,
    },
    Cancel {
        delivery: DeliveryId,
    },
    /// Not taken but shown: how a webhook stands.
    Look {
        endpoint: usize,
        paused: bool,
        health: Health,
    },
}

impl Content {
    /// What receivers would get by a call made at `now`. `turned`: fields in another order, and white space.
    pub fn bodies(&self, place: usize, now: Timestamp, turned: bool) -> Vec<Bytes> {
        let body = |(index, item): (usize, &Item)| {
            let at = item.timestamp.unwrap_or(now);
            Bytes::from(event::body(&item.event_type, at, &item.data(place, index, turned)))
        };
        self.items.iter().enumerate().map(body).collect()
    }

    /// What makes two calls the same.
    pub fn fingerprint(&self, place: usize) -> Fingerprint {
        let operation = if self.is_batch { "events.publish_batch" } else { "events.publish" };
        let mut builder = Fingerprint::builder(operation);
        for (index, item) in self.items.iter().enumerate() {
            let timestamp = item.timestamp.map(|at| at.to_string());
            builder = builder.item("event").field("type", Some(item.event_type.as_str()));
            builder = builder.field("timestamp", timestamp.as_deref());
            let with_data = builder.json("data", Some(&item.data(place, index, false)));
            builder = with_data.expect("our own JSON can be read");
        }
        builder.finish()
    }
}

impl Item {
    fn data(&self, content: usize, item: usize, turned: bool) -> String {
        let padding = "x".repeat(self.padding);
        if turned {
            format!(r#"{{"item":{item},"padding":"{padding}","content":{content}}}"#)
        } else {
            format!(r#"{{"content":{content},"item":{item},"padding":"{padding}"}}"#)
        }
    }
}

/// What the body of an event says it came from.
pub(super) fn origin(body: &[u8]) -> Option<Origin> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let data = body.get("data")?;
    Some(Origin::Content(data.get("content")?.as_u64()?, data.get("item")?.as_u64()?))
}
