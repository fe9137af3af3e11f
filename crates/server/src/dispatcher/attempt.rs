//! From a message and an endpoint's settings to a request on the wire.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use restante_core::Timestamp;
use restante_core::endpoint::{Destination, EndpointId, IDEMPOTENCY_HEADER, IdempotencyHeader, Receiver};
use restante_core::id::RequestId;
use restante_core::message::{Content, MessageId, Published, Received, target};
use restante_sdk::signature::{ID_HEADER, SIGNATURE_HEADER, SigningKey, TIMESTAMP_HEADER, sign};

use restante_store::Parcel;

use crate::channel::http::{Outgoing, forwardable};
use crate::tunnel::Handover;
use crate::vault::{OpenFault, Purpose, Vault};

const WEBHOOK_ID: HeaderName = HeaderName::from_static(ID_HEADER);
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static(TIMESTAMP_HEADER);
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static(SIGNATURE_HEADER);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("Restante/", env!("CARGO_PKG_VERSION")));

/// What an endpoint's attempts carry that is kept sealed, opened.
pub(crate) struct Opened {
    /// Static headers.
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Keys that sign, the current one first, and until when.
    signing: Vec<(SigningKey, Option<Timestamp>)>,
}

impl Opened {
    /// # Errors
    /// `OpenFault`: the stored text is damaged; no attempt can be made.
    pub(crate) fn new(receiver: &Receiver, vault: &Vault) -> Result<Self, OpenFault> {
        let mut headers = Vec::new();
        for (name, value) in receiver.headers() {
            let value = vault.open(Purpose::HeaderValue, value)?;
            headers.extend(header(name, value.expose().as_bytes()));
        }
        let secrets = match receiver {
            Receiver::Destination(_) | Receiver::Mailboxes(_) => &[][..],
            Receiver::Webhook(webhook) => &webhook.secrets[..],
        };
        let mut signing = Vec::new();
        for secret in secrets {
            let opened = vault.open(Purpose::SigningSecret, &secret.secret)?;
            signing.push((opened.expose().parse().map_err(|_| OpenFault)?, secret.until));
        }
        Ok(Self { headers, signing })
    }

    /// The keys that are valid at `now`.
    fn keys(&self, now: Timestamp) -> Vec<SigningKey> {
        let valid = self.signing.iter().filter(|(_, until)| until.is_none_or(|until| now < until));
        valid.map(|(key, _)| key.clone()).collect()
    }
}

/// The request an attempt makes that starts at `now`.
pub(crate) fn outgoing(
    message: MessageId,
    content: &Content,
    receiver: &Receiver,
    opened: &Opened,
    now: Timestamp,
) -> Outgoing {
    let (method, url, headers) = match (content, receiver) {
        (Content::Request(received), Receiver::Destination(destination)) => (
            // What the door took as a method is a token.
            Method::from_bytes(received.method.as_bytes()).unwrap_or(Method::POST),
            target(&destination.url, &received.path, received.query.as_deref()),
            forwarded(message, received, destination, opened),
        ),
        (Content::Event(published), _) => {
            (Method::POST, receiver.url().to_owned(), signed(message, published, opened, now))
        }
        // Requests go to destinations only, and emails not this way; whatever else came out of the store would be sent
        // as it is.
        (Content::Request(_), Receiver::Webhook(_) | Receiver::Mailboxes(_)) | (Content::Email(_), _) => {
            (Method::POST, receiver.url().to_owned(), opened.headers.clone())
        }
    };
    Outgoing { url, method, headers, body: content.body().clone(), timeout: receiver.timeout() }
}

/// What a client is handed for an attempt; `None` for what is no request to a destination.
pub(crate) fn handover<'a>(
    parcel: &'a Parcel,
    receiver: &'a Receiver,
    opened: &Opened,
) -> Option<Handover<'a>> {
    let (Content::Request(received), MessageId::Request(request), Receiver::Destination(destination)) =
        (&parcel.content.message, parcel.message, receiver)
    else {
        return None;
    };
    let EndpointId::Destination(id) = parcel.endpoint.id else { return None };
    Some(Handover {
        lease: parcel.lease,
        request,
        received,
        destination,
        destination_id: id,
        headers: lines(request, received, destination, opened),
        timeout: receiver.timeout(),
    })
}

/// The header lines that a client sends on: as received, less what belongs to one connection and what the destination
/// sets, plus that. The standard header of the key is left to the client.
fn lines(
    request: RequestId,
    received: &Received,
    destination: &Destination,
    opened: &Opened,
) -> Vec<(String, Bytes)> {
    let forwarded = forwardable(forwarded(MessageId::Request(request), received, destination, opened));
    let by_client = destination.idempotency_header == IdempotencyHeader::Standard;
    let mut case: Vec<&str> = received.headers.iter().map(|(name, _)| name).collect();
    let mut lines = Vec::with_capacity(forwarded.len());
    for (name, value) in forwarded {
        if by_client && name.as_str().eq_ignore_ascii_case(IDEMPOTENCY_HEADER) {
            continue;
        }
        // Names as they were received, each used once: the lines are in their order.
        let known = case.iter().position(|it| it.eq_ignore_ascii_case(name.as_str()));
        let name = known.map_or_else(|| name.as_str().to_owned(), |at| case.remove(at).to_owned());
        lines.push((name, Bytes::copy_from_slice(value.as_bytes())));
    }
    lines
}

/// The headers as received, less what the destination sets, plus that.
fn forwarded(
    message: MessageId,
    received: &Received,
    destination: &Destination,
    opened: &Opened,
) -> Vec<(HeaderName, HeaderValue)> {
    let key_header = destination.idempotency_header.name();
    let ours = |name: &str| {
        key_header.is_some_and(|key| name.eq_ignore_ascii_case(key))
            || name.eq_ignore_ascii_case(IDEMPOTENCY_HEADER)
            || destination.headers.iter().any(|(set, _)| name.eq_ignore_ascii_case(set))
    };
    let mut headers: Vec<(HeaderName, HeaderValue)> = received
        .headers
        .iter()
        // An outsider's header of the key's name would pass for ours.
        .filter(|(name, _)| !ours(name))
        .filter_map(|(name, value)| header(name, value))
        .collect();
    headers.extend(opened.headers.iter().cloned());
    if let (Some(name), MessageId::Request(request)) = (key_header, message) {
        headers.extend(header(name, request.hyphenated().as_bytes()));
    }
    headers
}

/// The headers of a signed event (Standard Webhooks), and those the webhook sets.
fn signed(
    message: MessageId,
    published: &Published,
    opened: &Opened,
    now: Timestamp,
) -> Vec<(HeaderName, HeaderValue)> {
    let (id, seconds) = (message.to_string(), now.millis().div_euclid(1000));
    let signature = sign(&id, seconds, &published.body, &opened.keys(now));
    let set = |name: &HeaderName| opened.headers.iter().any(|(set, _)| set == name);
    let mut headers = Vec::with_capacity(5 + opened.headers.len());
    headers.extend([(CONTENT_TYPE, JSON), (USER_AGENT, PRODUCT)].into_iter().filter(|(name, _)| !set(name)));
    headers.push((WEBHOOK_TIMESTAMP, HeaderValue::from(seconds)));
    let ours = [(WEBHOOK_ID, id), (WEBHOOK_SIGNATURE, signature)];
    headers.extend(
        ours.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))),
    );
    headers.extend(opened.headers.iter().cloned());
    headers
}

/// What the door took as a header line is one.
fn header(name: &str, value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
}

#[cfg(test)]
mod tests;
