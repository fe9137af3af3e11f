//! Intake: whatever is sent to a source's URL, kept as it came, acknowledged when it is durable.

mod body;
mod judge;
mod mark;
mod remote;
pub(crate) mod verify;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::{Request, StatusCode};
use restante_core::endpoint::Answer;
use restante_core::id::{RequestId, Tail};
use restante_core::message::{Headers, Received};
use restante_store::{Accepted, Error, Judgement, Store, Verdict};
use tokio::sync::watch;

use crate::api::error::ApiError;
use crate::api::frame;
use crate::clock::Clock;
use crate::door::closing;
use crate::rate_limit::RateLimits;
use crate::telemetry::{Metrics, Refusal};
use crate::trace::{Intake, Tracer};
use crate::vault::Vault;
use body::{Bodies, BodyFault};
pub(crate) use remote::{NotANetwork, TrustedProxies};

/// For the whole body to arrive.
const BODY_TIME: Duration = Duration::from_secs(25);

/// By how much an answer is held back whose deliveries did not fit into memory although their lanes work well. It
/// slows down who sends faster than can be delivered, and nobody else.
const CROWDED_PAUSE: Duration = Duration::from_millis(10);

/// How often one request is judged.
const JUDGED_MAX: u32 = 5;

/// The door for webhooks.
pub(crate) struct Ingress {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    vault: Arc<Vault>,
    bodies: Bodies,
    proxies: TrustedProxies,
    limits: Arc<RateLimits>,
    stopping: watch::Receiver<bool>,
    tracer: Option<Arc<Tracer>>,
}

impl Ingress {
    /// `body_bytes_max`: largest body taken.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        (metrics, vault): (Arc<Metrics>, Arc<Vault>),
        body_bytes_max: usize,
        proxies: TrustedProxies,
        limits: Arc<RateLimits>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            store,
            clock,
            metrics,
            vault,
            bodies: Bodies::new(body_bytes_max),
            proxies,
            limits,
            stopping,
            tracer: None,
        }
    }

    /// Tells of each request, if there is somebody to tell.
    pub(crate) fn traced(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self { tracer, ..self }
    }

    /// Takes one webhook. `headers` are its header lines as they were sent.
    pub(crate) async fn receive(
        &self,
        request: Request<Incoming>,
        headers: Headers,
        remote: SocketAddr,
    ) -> Response {
        let Some(tracer) = &self.tracer else { return self.take(request, headers, remote, None).await };
        let mut intake = tracer.intake(request.method().as_str(), &headers);
        let response = self.take(request, headers, remote, Some(&mut intake)).await;
        tracer.taken_in(intake, response.status());
        response
    }

    async fn take(
        &self,
        request: Request<Incoming>,
        headers: Headers,
        remote: SocketAddr,
        intake: Option<&mut Intake>,
    ) -> Response {
        if *self.stopping.borrow() {
            return closing(self.refuse(Refusal::Unavailable, unavailable("the server is stopping")));
        }
        let (parts, mut incoming) = request.into_parts();
        let Some((token, path)) = token_and_path(parts.uri.path()) else {
            return closing(self.unknown_token());
        };
        if let Some(refusal) = self.rate_limited(token) {
            if parts.headers.contains_key(EXPECT) {
                // It asks before it sends, and need not.
                return closing(refusal);
            }
            body::drain(incoming).await;
            return refusal;
        }
        let body = match tokio::time::timeout(BODY_TIME, self.bodies.read(&mut incoming)).await {
            Ok(Ok(body)) => body,
            Ok(Err(BodyFault::TooLarge)) => {
                body::drain(incoming).await;
                return closing(self.too_large());
            }
            Ok(Err(BodyFault::Broken)) => {
                return closing(self.malformed("the body ended early or is broken"));
            }
            Err(_) => return closing(self.too_slow()),
        };
        let arrived = self.clock.monotonic();
        let received = Received {
            method: parts.method.as_str().to_owned(),
            path: path.to_owned(),
            query: parts.uri.query().map(str::to_owned),
            remote_address: self.sender(remote, &headers).to_string(),
            headers,
            body: body.bytes.clone(),
        };
        let accepted = self.accept(token, received).await;
        let stored = self.clock.monotonic();
        if let (Some(intake), Some(id)) = (intake, accepted.as_ref().ok().and_then(Accepted::request)) {
            intake.stored(id, (arrived, stored), body.bytes.len());
        }
        self.answer(token, accepted, stored.saturating_sub(arrived)).await
    }

    /// What the sender is told, after `took`.
    async fn answer(&self, token: &str, accepted: Result<Accepted, Error>, took: Duration) -> Response {
        match accepted {
            Ok(Accepted::Fresh { id, answer, crowded }) => {
                self.metrics.accepted(took);
                if crowded {
                    tokio::time::sleep(CROWDED_PAUSE).await;
                }
                acknowledge(id, answer.as_deref())
            }
            Ok(Accepted::Duplicate { id, answer }) => {
                self.metrics.accepted(took);
                self.metrics.duplicate();
                acknowledge(id, answer.as_deref())
            }
            Ok(Accepted::Rejected { id }) => self.unverified(id),
            Ok(Accepted::RulesChanged(_)) => self.refuse(
                Refusal::Unavailable,
                unavailable("the source was changed again and again; send the request again"),
            ),
            Ok(Accepted::UnknownSource) => {
                // Tokens that are made up take no room from sources.
                if let Some(limit) = &self.limits.sources {
                    limit.forget(token);
                }
                self.unknown_token()
            }
            Ok(Accepted::CreditsExhausted) => self.refuse(Refusal::Credits, ApiError::credits_exhausted()),
            Err(error) => {
                tracing::warn!(error.message = %error, "a request could not be stored and was not acknowledged");
                self.refuse(
                    Refusal::Unavailable,
                    unavailable("the request could not be stored; send it again"),
                )
            }
        }
    }

    /// Judges a request by the rules of its source and stores it. It is judged anew if these have changed meanwhile,
    /// but not for ever.
    async fn accept(&self, token: &str, mut received: Received) -> Result<Accepted, Error> {
        let (now, tail) = (self.clock.now(), Tail::from_bits(self.clock.draw()));
        let mut tries = 0;
        loop {
            let by = self.store.rules(token);
            let verdict = match &by {
                None => Verdict::Taken,
                Some(rules) => judge::judge(rules, &received, &self.vault, now)
                    .map_err(|fault| Error::Damaged(format!("a verification secret: {fault}")))?,
            };
            let (token, judgement) = (token.to_owned(), Judgement { by, verdict });
            let incoming = restante_store::Incoming { token, received, judgement, now, tail };
            let accepted = self.store.accept(incoming).await?;
            let Accepted::RulesChanged(back) = accepted else { return Ok(accepted) };
            tries += 1;
            if tries == JUDGED_MAX {
                return Ok(Accepted::RulesChanged(back));
            }
            received = *back;
        }
    }

    /// The address a request comes from, through trusted proxies.
    pub(crate) fn sender(&self, remote: SocketAddr, headers: &Headers) -> IpAddr {
        self.proxies.sender(remote.ip(), headers)
    }

    /// The answer to what is not proper HTTP.
    pub(crate) fn malformed(&self, what: &str) -> Response {
        self.refuse(Refusal::Malformed, ApiError::malformed("malformed_request", what))
    }

    /// The answer to a request that took too long to arrive.
    pub(crate) fn too_slow(&self) -> Response {
        self.refuse(
            Refusal::TooSlow,
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                "the request took too long to arrive",
            ),
        )
    }

    /// The answer when the API takes too long.
    pub(crate) fn no_answer(&self) -> Response {
        let message = "the server did not answer in time; whether a change was made is not known";
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", message);
        frame::answer(error, self.clock.as_ref())
    }

    /// Counts a request by the rate of its source; the answer to one that comes too often.
    ///
    /// The source is known by its token: whether there is one the store knows, and a look there is what this saves.
    fn rate_limited(&self, token: &str) -> Option<Response> {
        let standing = self.limits.sources.as_ref()?.take(token, self.clock.monotonic());
        if standing.admitted {
            return None;
        }
        let error = ApiError::rate_limited("this source", &standing);
        let mut response = self.refuse(Refusal::RateLimited, error);
        standing.tell(response.headers_mut());
        Some(response)
    }

    fn unknown_token(&self) -> Response {
        self.refuse(
            Refusal::UnknownToken,
            ApiError::new(StatusCode::NOT_FOUND, "source_not_found", "no source has this URL"),
        )
    }

    /// Says nothing of what was wrong: that is for who owns the source, and is shown with the request.
    fn unverified(&self, id: RequestId) -> Response {
        self.metrics.refused(Refusal::Unverified);
        let message = "the request is not signed as this source asks for";
        frame::answer_as(ApiError::unauthorized("invalid_signature", message), &id.to_string())
    }

    fn too_large(&self) -> Response {
        let max = self.bodies.bytes_max();
        let message =
            format!("the body is larger than {max} bytes; RESTANTE_INTAKE_BODY_BYTES sets the limit");
        self.refuse(
            Refusal::TooLarge,
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message),
        )
    }

    fn refuse(&self, why: Refusal, error: ApiError) -> Response {
        self.metrics.refused(why);
        frame::answer(error, self.clock.as_ref())
    }
}

fn unavailable(message: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
}

/// A body as intake reads it, when nobody else's is being read; `None` when it is refused.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) async fn read_alone(body: &mut Incoming, bytes_max: usize) -> Option<Bytes> {
    Bodies::new(bytes_max).read(body).await.ok().map(|body| body.bytes)
}

/// Splits `/in/{token}/suffix`. The suffix begins with its slash or is empty.
fn token_and_path(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/in/")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (token, suffix) = rest.split_at(end);
    (!token.is_empty()).then_some((token, suffix))
}

fn acknowledge(id: RequestId, answer: Option<&Answer>) -> Response {
    let mut response = match answer {
        None => {
            let mut response = Response::new(Body::from(format!("{{\"id\":\"{id}\"}}")));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Some(answer) => own_answer(answer),
    };
    if let Ok(id) = HeaderValue::from_maybe_shared(Bytes::from(id.to_string())) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

fn own_answer(answer: &Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    // These have no body, and the HTTP library refuses to send one.
    let empty =
        matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED);
    let body = if empty { Body::empty() } else { Body::from(answer.body.clone()) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Ok(content_type) = HeaderValue::from_str(&answer.content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_ends_at_the_first_slash_and_the_suffix_is_not_touched() {
        let table = [
            ("/in/abc", Some(("abc", ""))),
            ("/in/abc/", Some(("abc", "/"))),
            ("/in/abc/x/../y%2F/", Some(("abc", "/x/../y%2F/"))),
            ("/in/abc//x", Some(("abc", "//x"))),
            ("/in/", None),
            ("/in//x", None),
            ("/inx", None),
        ];
        for (path, expected) in table {
            assert_eq!(token_and_path(path), expected, "{path}");
        }
    }
}
