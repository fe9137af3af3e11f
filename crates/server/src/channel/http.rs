//! The HTTP channel: one request, one response head, an outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use restante_core::limits::MAX_IN_FLIGHT;
use restante_core::{FailureKind, Outcome, Timestamp};
use tokio::time::{Instant, timeout_at};

use super::ChannelConfig;
use super::guard::{DialFault, Dialer, Resolve, SystemResolver};
use body::Tail;
use connect::Connector;
use fault::Fault;
use pool::{Carrier, Origin, Pool};

mod body;
mod connect;
mod fault;
mod headers;
mod line;
mod pool;
mod retry_after;
#[cfg(test)]
mod tests;
mod tls;

pub use headers::forwardable;
pub use retry_after::retry_after;
pub use tls::{SetupFault, client_config};

/// Largest response head that is read, in bytes.
const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long a connection is kept for the next request.
///
/// Just under the five seconds after which Node.js, Apache and uvicorn hang up: a request that crosses with the
/// peer's close is a failed attempt.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle connections kept per origin: as many as one endpoint uses at once at most. Several endpoints may share an
/// origin; closing what is needed again in a millisecond costs more than the attempt.
const IDLE_CONNECTIONS_MAX: usize = *MAX_IN_FLIGHT.end() as usize;
/// How often an HTTP/2 connection with a request on it is asked whether it is still there, and how long it may
/// take to answer. Without it a dead connection would fail every delivery to its origin for many minutes.
const HTTP2_PING: Duration = Duration::from_secs(5);
/// What a receiver may send on one HTTP/2 stream before it is read; the body is worth no more than this.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// One request to be made.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The absolute target, joined already. Path and query are sent byte for byte.
    pub url: String,
    pub method: Method,
    /// What is not [`forwardable`] is left out; `Host` and `Content-Length` are made from `url` and `body`.
    ///
    /// Values of one name keep their order. On the wire a repeated name stands beside its first occurrence, and
    /// names are in lower case: the client library has no public way to spell them otherwise in HTTP/1, and
    /// HTTP/2 does not allow it.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// From name lookup to the end of the response head.
    pub timeout: Duration,
}

/// Sends requests and keeps connections for the next ones, by origin.
///
/// Cheap to clone; clones share the connections. One per runtime: connections live on the runtime that opened them.
#[derive(Clone)]
pub struct HttpChannel {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
}

impl HttpChannel {
    /// A channel that uses the machine's resolver.
    ///
    /// # Errors
    /// `SetupFault` when the file of extra certificates cannot be used: the operator has to mend it.
    pub fn new(config: &ChannelConfig) -> Result<Self, SetupFault> {
        Self::with_resolver(config, Arc::new(SystemResolver::new()))
    }

    /// A channel that asks `resolver` for addresses; they are judged all the same.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_resolver(config: &ChannelConfig, resolver: Arc<dyn Resolve>) -> Result<Self, SetupFault> {
        let tls = client_config(config.extra_ca_file.as_deref())?;
        let connector = Connector::new(Dialer::new(config.rules.clone(), resolver), tls);
        Ok(Self { connector: Arc::new(connector), pool: Arc::default() })
    }

    /// Makes the attempt; returns as soon as the response head is read.
    ///
    /// The rest of the body is read in the background, to an end, so that the connection can be used again. A
    /// request that cannot be written in HTTP (a target that is no URI, `CONNECT`) fails as `connect`. `now` is
    /// asked for the time of a response with `Retry-After`. Await it in a spawned task: only there is an idle
    /// connection that the peer has closed noticed before it is used.
    pub async fn send(&self, out: Outgoing, now: impl FnOnce() -> Timestamp) -> Outcome {
        let until = Instant::now() + out.timeout;
        match self.exchange(out, until).await {
            Ok((response, tail)) => {
                body::discard(tail);
                outcome_of(&response, now)
            }
            Err(outcome) => outcome,
        }
    }

    /// Makes the attempt and gives the first `bytes_max` bytes of the body, as they came.
    ///
    /// Returns at the latest when the attempt's time is up, with as much of the body as came by then; the outcome
    /// does not depend on it.
    pub async fn send_and_read(
        &self,
        out: Outgoing,
        now: impl FnOnce() -> Timestamp,
        bytes_max: usize,
    ) -> (Outcome, Bytes) {
        let until = Instant::now() + out.timeout;
        match self.exchange(out, until).await {
            Ok((response, tail)) => {
                let outcome = outcome_of(&response, now);
                (outcome, body::read_then_discard(tail, bytes_max, until).await)
            }
            Err(outcome) => (outcome, Bytes::new()),
        }
    }

    async fn exchange(&self, out: Outgoing, until: Instant) -> Result<(Response<()>, Tail), Outcome> {
        let time = out.timeout;
        let request = request(out).map_err(|message| Outcome::failed(FailureKind::Connect, message))?;
        match timeout_at(until, self.carry(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(fault)) => Err(fault::outcome(&fault)),
            Err(_) => Err(Outcome::failed(FailureKind::Timeout, format!("no response within {time:?}"))),
        }
    }

    /// Brings a request to its receiver, over a free connection if there is one.
    async fn carry(&self, mut request: Request<Full<Bytes>>) -> Result<(Response<()>, Tail), Fault> {
        // Lets the runtime look at its sockets first. A peer may have closed a free connection while this thread was
        // busy, and writing to it would be a failed attempt.
        tokio::task::yield_now().await;
        let target = request.uri().clone();
        let origin = Origin::of(&target).ok_or(DialFault::Host)?;
        while let Some(carrier) = self.pool.take(&origin) {
            let is_shared = matches!(carrier, Carrier::Shared(_));
            match send_on(carrier, request, &target).await {
                Ok(answer) => return Ok(answer),
                Err(mut error) => match error.take_message() {
                    // It had ended before anything was written.
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
            if is_shared {
                self.pool.forget_shared(&origin);
            }
        }
        // What few attempts need is kept out of the task that all have.
        let carrier = Box::pin(self.connector.connect(&target, &origin, &self.pool)).await?;
        send_on(carrier, request, &target).await.map_err(|error| error.into_error().into())
    }
}

async fn send_on(
    carrier: Carrier,
    mut request: Request<Full<Bytes>>,
    target: &Uri,
) -> Result<(Response<()>, Tail), TrySendError<Request<Full<Bytes>>>> {
    let (response, lent): (Response<Incoming>, _) = match carrier {
        Carrier::Line(mut lent) => {
            *request.uri_mut() = target.path_and_query().cloned().map(Uri::from).unwrap_or_default();
            if let Some(host) = host(target) {
                request.headers_mut().insert(HOST, host);
            }
            (lent.line.send(request).await?, Some(lent))
        }
        Carrier::Shared(mut shared) => {
            // It has the host in its target.
            *request.uri_mut() = target.clone();
            request.headers_mut().remove(HOST);
            (shared.try_send_request(request).await?, None)
        }
    };
    let (head, body) = response.into_parts();
    Ok((Response::from_parts(head, ()), Tail::new(body, lent)))
}

/// The `Host` header: the authority, without the port that the scheme implies.
fn host(target: &Uri) -> Option<HeaderValue> {
    let authority = target.authority()?;
    let implied = if target.scheme_str() == Some("http") { 80 } else { 443 };
    let text = match authority.as_str().rsplit_once('@') {
        _ if authority.port_u16() == Some(implied) => authority.host(),
        Some((_, host)) => host,
        None => authority.as_str(),
    };
    HeaderValue::from_str(text).ok()
}

fn outcome_of(response: &Response<()>, now: impl FnOnce() -> Timestamp) -> Outcome {
    let wish = response.headers().get(RETRY_AFTER);
    let wish = wish.filter(|_| !response.status().is_success());
    Outcome::of_status(response.status().as_u16(), wish.and_then(|wish| retry_after(wish.as_bytes(), now())))
}

/// The request as the client library takes it; the message says what cannot be written.
pub(crate) fn request(out: Outgoing) -> Result<Request<Full<Bytes>>, String> {
    let uri = Uri::from_maybe_shared(Bytes::from(out.url))
        .map_err(|error| format!("the target cannot be sent as a URI: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("the target is not an absolute http or https URL".to_owned());
    }
    if out.method == Method::CONNECT {
        return Err("CONNECT asks for a tunnel and cannot be delivered".to_owned());
    }
    let mut headers = HeaderMap::with_capacity(out.headers.len() + 2);
    for (name, value) in forwardable(out.headers) {
        headers.try_append(name, value).map_err(|error| format!("too many headers: {error}"))?;
    }
    if out.body.is_empty() && !rarely_has_a_body(&out.method) {
        // Left to itself the library says nothing about an empty body, and some receivers answer 411.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut request = Request::new(Full::new(out.body));
    *request.method_mut() = out.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Whether no `Content-Length` is expected with a request that has no body (RFC 9110, 8.6).
fn rarely_has_a_body(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::DELETE)
}
