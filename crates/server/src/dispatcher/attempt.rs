//! From a parcel to a request on the wire.

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use restante_core::message::target;
use restante_store::Parcel;
use restante_store::endpoint::Settings;

use crate::channel::http::Outgoing;

/// The request an attempt makes: as received, less what belongs to one hop, plus what the destination adds.
pub(super) fn outgoing(parcel: &Parcel, settings: &Settings) -> Outgoing {
    let destination = &settings.destination;
    let received = &parcel.content.received;
    let key_header = destination.idempotency_header.name();
    let ours = |name: &str| {
        key_header.is_some_and(|key| name.eq_ignore_ascii_case(key))
            || name.eq_ignore_ascii_case(restante_core::endpoint::IDEMPOTENCY_HEADER)
            || destination.headers.iter().any(|(set, _)| name.eq_ignore_ascii_case(set))
    };
    let mut headers: Vec<(HeaderName, HeaderValue)> = received
        .headers
        .iter()
        // An outsider's header of the key's name would pass for ours.
        .filter(|(name, _)| !ours(name))
        .filter_map(|(name, value)| header(name, value))
        .collect();
    headers.extend(destination.headers.iter().filter_map(|(name, value)| header(name, value.as_bytes())));
    headers.extend(key_header.and_then(|name| header(name, parcel.request.hyphenated().as_bytes())));
    Outgoing {
        url: target(&destination.url, &received.path, received.query.as_deref()),
        // What the door took as a method is a token.
        method: Method::from_bytes(received.method.as_bytes()).unwrap_or(Method::POST),
        headers,
        body: received.body.clone(),
        timeout: destination.timeout(),
    }
}

/// What the door took as a header line is one.
fn header(name: &str, value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
}
