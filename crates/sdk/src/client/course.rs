//! The course of a call: its tries, and the waits between them. The same for tasks and threads, which only differ in
//! how they wait.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{AsHeaderName, DATE, RETRY_AFTER};
use tracing::{Instrument, Span, field};

use super::draft::Prepared;
use super::{Answer, Client, Draft, runtime};
use crate::retry::{Decision, GaveUp, Jitter, Outcome, Try, date, decide, retry_after};
use crate::{Error, ErrorKind, Timestamp};

/// A call under way.
pub(super) struct Course {
    client: Client,
    prepared: Prepared,
    tries: u32,
    /// By the client's even clock.
    ends_at: Option<Duration>,
    span: Span,
    /// Of the try under way.
    try_span: Span,
}

/// What comes next.
#[expect(clippy::large_enum_variant, reason = "there is one, on the stack, for the length of a match")]
pub(super) enum Next {
    Wait(Duration),
    Done(Result<(Head, Content), Error>),
}

/// How a try ended.
pub(super) enum Tried {
    Answered(Head, Content),
    Failed(ErrorKind, String, Option<Source>),
}

type Source = Box<dyn StdError + Send + Sync>;

/// How an answer begins.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
}

/// The body of an answer.
pub(super) enum Content {
    Whole(Bytes),
    /// Still coming. Only of a success.
    Open(reqwest::Response),
}

/// Whether a body is read to its end, or left to the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Whole,
    Open,
}

impl Head {
    fn text(&self, name: impl AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Course {
    /// # Errors
    /// The call cannot be made as it was described.
    pub(super) fn start(client: &Client, draft: Draft) -> Result<Self, Error> {
        let prepared = draft.prepare(client)?;
        let span = tracing::debug_span!(
            "restante.call",
            call.name = prepared.name.as_ref(),
            call.class = prepared.class.name(),
            call.key = prepared.key,
            call.tries = field::Empty,
            http.response.status_code = field::Empty,
        );
        let ends_at =
            prepared.options.deadline.map(|deadline| client.shared.time.elapsed().saturating_add(deadline));
        Ok(Self { client: client.clone(), prepared, tries: 0, ends_at, span, try_span: Span::none() })
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Time until the deadline.
    fn left(&self) -> Option<Duration> {
        self.ends_at.map(|ends_at| ends_at.saturating_sub(self.client.shared.time.elapsed()))
    }

    /// The next try.
    pub(super) fn attempt(
        &mut self,
        http: reqwest::Client,
        reading: Reading,
    ) -> impl Future<Output = Tried> + Send + 'static + use<> {
        self.tries += 1;
        let span = tracing::debug_span!(
            parent: &self.span,
            "restante.try",
            try.number = self.tries,
            http.response.status_code = field::Empty,
            error.message = field::Empty,
        );
        self.try_span = span.clone();
        let timeout = self.prepared.options.timeout;
        let limit = match self.left() {
            Some(left) if left < timeout => Limit { time: left, of: "of the call's deadline" },
            Some(_) | None => Limit { time: timeout, of: "of a try" },
        };
        attempt(http, self.prepared.request(&self.client), limit, reading).instrument(span)
    }

    /// What follows from how a try ended.
    pub(super) fn next(&mut self, tried: Tried) -> Next {
        let mut now = self.client.shared.time.now();
        let (outcome, asked) = match &tried {
            Tried::Answered(head, _) => {
                self.try_span.record("http.response.status_code", head.status);
                self.span.record("http.response.status_code", head.status);
                let asked = head.text(RETRY_AFTER);
                // A date is the server's, and is read by its clock.
                if asked.is_some() {
                    now = head.text(DATE).and_then(date).unwrap_or(now);
                }
                (Outcome::Status { status: head.status, retry_after: asked }, asked)
            }
            Tried::Failed(kind, message, _) => {
                self.try_span.record("error.message", message.as_str());
                (if *kind == ErrorKind::Timeout { Outcome::Timeout } else { Outcome::Network }, None)
            }
        };
        let gave_up = match self.decide(outcome, now) {
            Decision::Wait(wait) => {
                tracing::debug!(parent: &self.span, wait_seconds = wait.as_secs_f64(), "will be tried again");
                return Next::Wait(wait);
            }
            Decision::Return => None,
            Decision::GiveUp(gave_up) => Some(gave_up),
        };
        self.span.record("call.tries", self.tries);
        let asked_seconds = asked.and_then(|text| retry_after(text, now)).map(|wait| wait.as_secs_f64());
        let name = || self.prepared.name.clone().into_owned();
        let error = match tried {
            Tried::Answered(head, content) if head.is_success() => {
                self.client.shared.budget.give_back();
                return Next::Done(Ok((head, content)));
            }
            Tried::Answered(head, content) => {
                let body = match &content {
                    Content::Whole(body) => body.as_ref(),
                    Content::Open(_) => b"",
                };
                Error::answered(name(), head.status, head.text("x-request-id"), body)
            }
            Tried::Failed(kind, message, source) => Error::broken(kind, name(), message, source),
        };
        Next::Done(Err(self.told(error.with_retry_after(asked_seconds), gave_up)))
    }

    fn decide(&self, outcome: Outcome<'_>, now: Timestamp) -> Decision {
        let shared = &self.client.shared;
        let made = Try { number: self.tries, max_retries: self.prepared.options.max_retries };
        // Without random bytes the wait is as long as it can be.
        let draw =
            || shared.time.draw().map_or(u32::MAX, |[a, b, c, d, ..]| u32::from_le_bytes([a, b, c, d]));
        let fine = matches!(outcome, Outcome::Status { status: 200..=299, .. });
        let jitter = Jitter::from_bits(if fine { 0 } else { draw() });
        loop {
            let budget = shared.budget.level();
            let decision = decide(self.prepared.class, made, outcome, now, jitter, budget, self.left());
            // Another call may have taken the tokens meanwhile: then it is decided again.
            if !matches!(decision, Decision::Wait(_)) || shared.budget.take(outcome.tokens()) {
                return decision;
            }
        }
    }

    /// An error of this call.
    pub(super) fn told(&self, error: Error, gave_up: Option<GaveUp>) -> Error {
        error.with_course(self.tries, self.prepared.key.as_deref(), gave_up)
    }

    /// A success that was read to its end.
    fn answer(&mut self, head: Head, content: Content) -> Answer {
        let body = match content {
            Content::Whole(body) => body,
            Content::Open(_) => Bytes::new(),
        };
        let Head { status, headers } = head;
        let idempotency_key = self.prepared.key.take();
        Answer { status, headers, body, attempts: self.tries, idempotency_key }
    }
}

/// Makes a call in a task. Dropping it sends nothing more.
pub(super) async fn run(client: Client, draft: Draft) -> Result<Answer, Error> {
    let mut course = Course::start(&client, draft)?;
    let (head, content) = course.opened(Reading::Whole).await?;
    Ok(course.answer(head, content))
}

/// Makes a call while the calling thread waits.
pub(super) fn run_blocking(client: &Client, draft: Draft) -> Result<Answer, Error> {
    let mut course = Course::start(client, draft)?;
    let (head, content) = course.opened_blocking(Reading::Whole)?;
    Ok(course.answer(head, content))
}

impl Course {
    /// All tries, in a task.
    pub(super) async fn opened(&mut self, reading: Reading) -> Result<(Head, Content), Error> {
        let span = self.span();
        let tries = async {
            loop {
                let tried = match self.client.shared.pools.here().await {
                    Some(http) => Ok(Box::pin(self.attempt(http, reading)).await),
                    None => runtime::within(self.attempt(self.client.shared.pools.ours(), reading)).await,
                };
                match self.next(tried.unwrap_or_else(no_runtime)) {
                    Next::Wait(wait) => self.client.shared.time.sleep(wait).await,
                    Next::Done(result) => return result,
                }
            }
        };
        tries.instrument(span).await
    }

    /// All tries, in a thread.
    pub(super) fn opened_blocking(&mut self, reading: Reading) -> Result<(Head, Content), Error> {
        let span = self.span();
        let _entered = span.enter();
        loop {
            let tried = runtime::block_on(self.attempt(self.client.shared.pools.ours(), reading));
            match self.next(tried.unwrap_or_else(no_runtime)) {
                Next::Wait(wait) => self.client.shared.time.sleep_blocking(wait),
                Next::Done(result) => return result,
            }
        }
    }
}

fn no_runtime(fault: runtime::NoRuntime) -> Tried {
    Tried::Failed(ErrorKind::Network, fault.to_string(), Some(fault.into()))
}

/// How long a try may take, and why.
struct Limit {
    time: Duration,
    of: &'static str,
}

/// One request, and its answer within a time.
async fn attempt(http: reqwest::Client, request: reqwest::Request, limit: Limit, reading: Reading) -> Tried {
    let exchange = async {
        let mut response = http.execute(request).await?;
        let status = response.status().as_u16();
        let head = Head { status, headers: std::mem::take(response.headers_mut()) };
        if reading == Reading::Open && head.is_success() {
            return Ok((head, Content::Open(response)));
        }
        Ok((head, Content::Whole(response.bytes().await?)))
    };
    // Without any time nothing is sent.
    let in_time = async {
        if limit.time.is_zero() { None } else { tokio::time::timeout(limit.time, exchange).await.ok() }
    };
    match in_time.await {
        Some(Ok((head, content))) => Tried::Answered(head, content),
        Some(Err(error)) => {
            let (message, source) = broken(error);
            Tried::Failed(ErrorKind::Network, message, Some(source))
        }
        None => {
            let message = format!("no answer within the {} ms {}", limit.time.as_millis(), limit.of);
            Tried::Failed(ErrorKind::Timeout, message, None)
        }
    }
}

/// What broke, in one line: the innermost cause says most.
pub(super) fn broken(error: reqwest::Error) -> (String, Source) {
    let error = error.without_url();
    let mut cause: &dyn StdError = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let what = if error.is_connect() { "no connection" } else { "the connection broke" };
    (format!("{what}: {cause}"), error.into())
}
