//! The body of a delivery.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Timestamp;
use crate::signature::Verified;

/// An event as a receiver gets it.
///
/// `T` is what the receiver expects in `data`. A test delivery has an empty object there, whatever its type; a receiver
/// of several types takes `Box<serde_json::value::RawValue>` and reads it by [`Event::event_type`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<T> {
    /// `webhook-id`: the same for every attempt at this event.
    pub id: String,
    /// `type`, such as `email.delivered`.
    pub event_type: String,
    /// When it happened. Deliveries come in any order: compare this before overwriting anything.
    pub timestamp: Timestamp,
    /// What happened.
    pub data: T,
}

/// A body that is signed but no event, or whose data are not what the receiver expects.
#[derive(Debug, thiserror::Error)]
#[error("the body is not the event that is expected here: {0}")]
pub struct NotAnEvent(#[source] serde_json::Error);

/// The body as it is written.
#[derive(Deserialize)]
#[serde(expecting = "an object with `type`, `timestamp` and `data`")]
struct Written<T> {
    r#type: String,
    timestamp: Timestamp,
    data: T,
}

impl<T: DeserializeOwned> Event<T> {
    /// Reads a body whose signature was found right. Fields beyond the three of an event are passed over.
    ///
    /// # Errors
    /// `NotAnEvent`, saying what and where. Answer an error status, so that the event can be had again once the receiver
    /// understands it.
    ///
    /// ```
    /// # use restante_sdk::Timestamp;
    /// # use restante_sdk::signature::{SignatureHeaders, SigningKey, Verifier, sign};
    /// use restante_sdk::receiver::Event;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Delivered { email_id: String }
    ///
    /// # let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    /// # let verifier = Verifier::new(secret)?;
    /// # let body: &[u8] =
    /// #     br#"{"type":"email.delivered","timestamp":"2026-11-29T23:19:41.000Z","data":{"email_id":"em_1"}}"#;
    /// # let keys: [SigningKey; 1] = [secret.parse()?];
    /// # let signature = sign("whe_1", 1_795_994_400, body, &keys);
    /// # let headers = SignatureHeaders { id: "whe_1", timestamp: "1795994400", signature: &signature };
    /// # let now = Timestamp::from_millis(1_795_994_400_000);
    /// let event: Event<Delivered> = Event::read(&verifier.verify(headers, body, now)?)?;
    /// assert_eq!((event.id.as_str(), event.event_type.as_str()), ("whe_1", "email.delivered"));
    /// assert_eq!(event.data.email_id, "em_1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(verified: &Verified<'_>) -> Result<Self, NotAnEvent> {
        let Written { r#type, timestamp, data } =
            serde_json::from_slice(verified.body()).map_err(NotAnEvent)?;
        Ok(Self { id: verified.id().to_owned(), event_type: r#type, timestamp, data })
    }
}

#[cfg(test)]
mod tests;
