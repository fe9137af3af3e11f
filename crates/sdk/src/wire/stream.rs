//! What happens in a workspace, as it happens.

use serde::{Deserialize, Serialize};

use super::{Delivery, Email, Event, Json, Request};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A source received something; as in lists.
    Request(Box<Request>),
    /// Something was published; as in lists. Only for keys with `events:read`.
    Event(Box<Event>),
    /// An email was sent or has changed. Only for keys with `emails:read`.
    Email(Box<Email>),
    /// A delivery was made or has changed; with its attempts.
    Delivery(Box<Delivery>),
    /// Changes came faster than they could be sent.
    Lagged(Lagged),
    /// One of a newer server.
    Other {
        /// What stands behind `event:`.
        name: String,
        /// What stands behind `data:`.
        data: Json,
    },
}

/// How much a stream has left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lagged {
    /// How many changes were not sent.
    pub missed: u64,
}

impl StreamEvent {
    /// Reads a server-sent event: `name` is what stands behind `event:`, `data` what stands behind `data:`.
    ///
    /// # Errors
    /// When `data` is no JSON, or not of the shape that its name promises.
    pub fn read(name: &str, data: &str) -> Result<Self, serde_json::Error> {
        match name {
            "request" => serde_json::from_str(data).map(Self::Request),
            "event" => serde_json::from_str(data).map(Self::Event),
            "email" => serde_json::from_str(data).map(Self::Email),
            "delivery" => serde_json::from_str(data).map(Self::Delivery),
            "lagged" => serde_json::from_str(data).map(Self::Lagged),
            other => Ok(Self::Other { name: other.to_owned(), data: Json::parse(data)? }),
        }
    }

    /// What stands behind `event:`.
    pub fn name(&self) -> &str {
        match self {
            Self::Request(_) => "request",
            Self::Event(_) => "event",
            Self::Email(_) => "email",
            Self::Delivery(_) => "delivery",
            Self::Lagged(_) => "lagged",
            Self::Other { name, .. } => name,
        }
    }
}

/// What is wanted of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct FollowStream {
    /// Only what concerns this source, `src_…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_by_their_names() {
        let lagged = StreamEvent::read("lagged", r#"{"missed":3}"#).unwrap();
        assert_eq!(lagged, StreamEvent::Lagged(Lagged { missed: 3 }));
        let newer = StreamEvent::read("weather", r#"{"rain": true}"#).unwrap();
        assert_eq!(newer.name(), "weather");
        assert!(StreamEvent::read("weather", "{").is_err());
        assert!(StreamEvent::read("request", "{}").is_err());
    }
}
