//! The HTTP channel: one request, one response head, an outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use restante_core::limits::{MAX_IN_FLIGHT, TIMEOUT_SECONDS};
use restante_core::{FailureKind, Outcome, Timestamp};
use tokio::time::{Instant, timeout_at};

use super::ChannelConfig;
use super::guard::{Dialer, Resolve, SystemResolver};
use limit::Limited;

mod body;
mod fault;
mod headers;
mod limit;
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
/// How long a connection may take to be made once no attempt waits for it any more: as long as any attempt.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(*TIMEOUT_SECONDS.end() as u64);
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

/// Sends requests and keeps connections for the next ones, a pool per origin.
///
/// Cheap to clone; clones share the pool. One per runtime: connections live on the runtime that opened them.
#[derive(Clone)]
pub struct HttpChannel {
    client: Client<Limited<HttpsConnector<Dialer>>, Full<Bytes>>,
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
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(client_config(config.extra_ca_file.as_deref())?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(Dialer::new(config.rules.clone(), resolver));
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(RESPONSE_HEAD_BYTES_MAX)
            .http2_max_header_list_size(RESPONSE_HEAD_BYTES_MAX as u32)
            .http2_initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
            .http2_keep_alive_interval(HTTP2_PING)
            .http2_keep_alive_timeout(HTTP2_PING)
            // Only for requests of which nothing was written: the pool gave out a connection that had ended.
            .retry_canceled_requests(true)
            .build(Limited { connector, time: CONNECT_TIME_MAX });
        Ok(Self { client })
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
            Ok(response) => {
                let outcome = outcome_of(&response, now);
                body::discard(response.into_body());
                outcome
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
            Ok(response) => {
                let outcome = outcome_of(&response, now);
                (outcome, body::read_then_discard(response.into_body(), bytes_max, until).await)
            }
            Err(outcome) => (outcome, Bytes::new()),
        }
    }

    async fn exchange(&self, out: Outgoing, until: Instant) -> Result<Response<Incoming>, Outcome> {
        let time = out.timeout;
        let request = request(out).map_err(|message| Outcome::failed(FailureKind::Connect, message))?;
        let exchange = async {
            // Lets the runtime look at its sockets first. A peer may have closed the connection that waits in the
            // pool while this thread was busy, and writing to it would be a failed attempt. After this the closed
            // ones are out of the pool, for their tasks run before this one, provided that this one is a task too.
            tokio::task::yield_now().await;
            self.client.request(request).await
        };
        match timeout_at(until, exchange).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(fault::outcome(&error)),
            Err(_) => Err(Outcome::failed(FailureKind::Timeout, format!("no response within {time:?}"))),
        }
    }
}

fn outcome_of(response: &Response<Incoming>, now: impl FnOnce() -> Timestamp) -> Outcome {
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
