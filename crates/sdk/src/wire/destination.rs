//! The receivers of a source.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::word::words;
use super::{Change, Schedule, Secret};
use crate::Timestamp;

words! {
    /// How a destination is reached.
    DestinationKind {
        /// By HTTP.
        Http = "http",
        /// Through a connected command-line client.
        Cli = "cli",
    }
}

/// A receiver of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Destination {
    /// `destination`.
    pub object: String,
    /// `dst_…`.
    pub id: String,
    /// `src_…`.
    pub source_id: String,
    /// How it is reached.
    pub kind: DestinationKind,
    /// Where to send; the path and the query of what was received are added.
    pub url: String,
    /// Most attempts of a delivery that count.
    pub attempts: u32,
    /// When attempts are made.
    pub schedule: Schedule,
    /// Whether attempts carry the request's key.
    pub idempotency_header: IdempotencyHeader,
    /// Whether deliveries stay pending until it is resumed.
    pub paused: bool,
    /// Names of the static headers. Their values are never read back and `None`.
    pub headers: BTreeMap<String, Option<Secret>>,
    /// Attempts at the same time, 1 to 1,000.
    pub max_in_flight: u32,
    /// Attempts per second, 0.1 to 10,000; `None`: as many as there are.
    pub rate_per_second: Option<f64>,
    /// From name lookup to the end of the response head, 1 to 60.
    pub timeout_seconds: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether attempts carry the request's key, and in which header. On the wire `false`, `true` or a name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum IdempotencyHeader {
    /// In none.
    #[default]
    Off,
    /// In `X-Adal-Idempotency`.
    Standard,
    /// In this one; not Host, Content-Length, `webhook-*` or hop-by-hop.
    Named(String),
}

impl Serialize for IdempotencyHeader {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Standard => serializer.serialize_bool(true),
            Self::Named(name) => serializer.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for IdempotencyHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;
        impl Visitor<'_> for Choice {
            type Value = IdempotencyHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("false, true or the name of a header")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<Self::Value, E> {
                Ok(if on { IdempotencyHeader::Standard } else { IdempotencyHeader::Off })
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(IdempotencyHeader::Named(name.to_owned()))
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

/// A destination to be made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewDestination {
    /// How it is reached. Cannot be changed later.
    pub kind: DestinationKind,
    /// Where to send. For `http` https and public unless the operator allows more; for `cli` any http or https URL,
    /// which the client may replace. At most 2,048 characters.
    pub url: String,
    /// Short for a quadratic schedule with so many attempts, 1 to 10. Not together with `schedule`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// When attempts are made; quadratic with 5 attempts unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Whether attempts carry the request's key; off unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_header: Option<IdempotencyHeader>,
    /// Whether deliveries stay pending until it is resumed; false unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Static headers, at most 20.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Attempts at the same time, 1 to 1,000; 64 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Attempts per second, 0.1 to 10,000; as many as there are unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// From name lookup to the end of the response head, 1 to 60; 30 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

impl NewDestination {
    /// One that is reached by HTTP; the rest has its defaults.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(DestinationKind::Http, url)
    }

    /// One behind a command-line client that connects; the rest has its defaults.
    pub fn cli(url: impl Into<String>) -> Self {
        Self::new(DestinationKind::Cli, url)
    }

    /// One of this kind; the rest has its defaults.
    pub fn new(kind: DestinationKind, url: impl Into<String>) -> Self {
        Self {
            kind,
            url: url.into(),
            attempts: None,
            schedule: None,
            idempotency_header: None,
            paused: None,
            headers: BTreeMap::new(),
            max_in_flight: None,
            rate_per_second: None,
            timeout_seconds: None,
        }
    }
}

/// What is to change in a destination. Its kind cannot.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct DestinationChange {
    /// Counts from the next attempt's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Short for a quadratic schedule with so many attempts, 1 to 10. Not together with `schedule`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Counts from the next failure; reset: quadratic with 5 attempts.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub schedule: Change<Schedule>,
    /// Reset: off.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub idempotency_header: Change<IdempotencyHeader>,
    /// Reset: false.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub paused: Change<bool>,
    /// Replaces all static headers; `None` for a value keeps the one that is set, and those of [`Destination`] can be
    /// given back as they are. Reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub headers: Change<BTreeMap<String, Option<Secret>>>,
    /// Reset: 64.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub max_in_flight: Change<u32>,
    /// Reset: as many as there are.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub rate_per_second: Change<f64>,
    /// Reset: 30.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub timeout_seconds: Change<u32>,
}
