//! Makes attempts: one request each to the local service, byte for byte as it came.

pub(crate) mod head;
mod spelled;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};

use super::dial::{Dialer, reason};
use super::target::{Place, Target};
use head::Line;
use spelled::{NextHead, Spelled};

/// How long a connection without a request is used again. Services close such connections, mostly after 5 s or more,
/// some at once; what is sent just then would be lost, and cannot be repeated: it may have arrived.
const IDLE_TIME: Duration = Duration::from_secs(2);
/// Most bytes of an answer that are read: they are shown.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long the rest of an answer is waited for.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// A request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) target: Target,
    /// Without `Host`.
    pub(crate) lines: Vec<Line>,
    pub(crate) body: Bytes,
}

/// Why there was no answer, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the request cannot be written as HTTP/1.1")]
    Unwritable,
    #[error("{0}")]
    Dial(#[from] super::dial::DialFault),
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("{0}")]
    Broken(String),
}

/// The head of an answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) lines: Vec<Line>,
    pub(crate) rest: Rest,
}

/// The rest of an answer, and its connection.
pub(crate) struct Rest {
    body: Incoming,
    connection: Connection,
    place: Place,
    pool: Arc<Pool>,
}

/// Sends requests, and keeps connections for the next.
pub(crate) struct Forwarder {
    dialer: Arc<Dialer>,
    pool: Arc<Pool>,
}

/// Connections without a request, the newest last.
#[derive(Default)]
struct Pool(Mutex<HashMap<Place, Vec<(Connection, Instant)>>>);

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    next: NextHead,
}

impl Forwarder {
    pub(crate) fn new(dialer: Arc<Dialer>) -> Self {
        Self { dialer, pool: Arc::default() }
    }

    /// Sends once, and returns when the head of the answer is there. Redirects are answers.
    ///
    /// # Errors
    /// `Fault`, at the latest after `time`.
    pub(crate) async fn send(&self, outgoing: &Outgoing, time: Duration) -> Result<Answer, Fault> {
        timeout(time, self.exchange(outgoing)).await.map_err(|_| Fault::Timeout(time))?
    }

    async fn exchange(&self, outgoing: &Outgoing) -> Result<Answer, Fault> {
        let Outgoing { method, target, lines, body } = outgoing;
        let head = head::written(method, &target.path, &target.authority, lines).ok_or(Fault::Unwritable)?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| Fault::Unwritable)?;
        // A connection that was closed meanwhile is known as such once its own task has been at work.
        tokio::task::yield_now().await;
        while let Some(mut connection) = self.pool.take(&target.place) {
            match connection.exchange(method.clone(), body.clone(), head.clone()).await {
                Ok(response) => return Ok(self.answer(response, connection, target)),
                // Not a byte of it was sent: the connection had been closed.
                Err(error) if error.is_canceled() || error.is_closed() || !connection.next.is_begun() => {}
                Err(error) => return Err(Fault::Broken(told(&error))),
            }
        }
        let mut connection = self.connect(&target.place).await?;
        let response = connection.exchange(method, body.clone(), head).await;
        let response = response.map_err(|error| Fault::Broken(told(&error)))?;
        Ok(self.answer(response, connection, target))
    }

    fn answer(&self, response: Response<Incoming>, connection: Connection, target: &Target) -> Answer {
        let (head, body) = response.into_parts();
        let line = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        let lines = head.headers.iter().map(line).collect();
        let rest = Rest { body, connection, place: target.place.clone(), pool: Arc::clone(&self.pool) };
        Answer { status: head.status.as_u16(), lines, rest }
    }

    async fn connect(&self, place: &Place) -> Result<Connection, Fault> {
        let (io, next) = Spelled::new(self.dialer.local(place).await?);
        let made = http1::Builder::new().handshake(TokioIo::new(io)).await;
        let (sender, connection) = made.map_err(|error| Fault::Broken(told(&error)))?;
        // Ends with the sender, or when the service closes. What breaks is told to the one who waits for an answer.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, next })
    }
}

impl Connection {
    async fn exchange(
        &mut self,
        method: Method,
        body: Bytes,
        head: Bytes,
    ) -> hyper::Result<Response<Incoming>> {
        self.sender.ready().await?;
        // The library needs a head of its own for framing; it is exchanged for ours.
        let length = body.len();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        if length > 0 {
            request.headers_mut().insert(hyper::header::CONTENT_LENGTH, length.into());
        }
        self.next.put(head);
        self.sender.send_request(request).await
    }
}

impl Rest {
    /// The answer's body, at most 64 KiB of it, and whether that is all. When it is, the connection may be kept.
    pub(crate) async fn read(self) -> (Bytes, bool) {
        let Self { mut body, connection, place, pool } = self;
        let mut read = BytesMut::new();
        let reading = async {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                if let Some(data) = frame.data_ref() {
                    read.extend_from_slice(&data[..data.len().min(ANSWER_BYTES_MAX - read.len())]);
                    if read.len() == ANSWER_BYTES_MAX {
                        return false;
                    }
                }
            }
            true
        };
        let whole = timeout(ANSWER_TIME, reading).await.unwrap_or(false);
        if whole && is_worth_keeping(&place) {
            pool.keep(place, connection);
        }
        (read.freeze(), whole)
    }
}

impl Pool {
    fn take(&self, place: &Place) -> Option<Connection> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = places.get_mut(place)?;
        idle.retain(|(connection, since)| !connection.sender.is_closed() && since.elapsed() < IDLE_TIME);
        idle.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, place: Place, connection: Connection) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(place).or_default().push((connection, Instant::now()));
    }
}

/// A connection to this machine costs next to nothing, and its services may close theirs after any answer.
fn is_worth_keeping(place: &Place) -> bool {
    place.tls || !place.is_this_machine()
}

/// What broke, by its innermost cause.
fn told(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "the connection ended before there was an answer".to_owned();
    }
    if error.is_parse() {
        return "the answer is no HTTP/1.1".to_owned();
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.map_or_else(|| error.to_string(), reason)
}
