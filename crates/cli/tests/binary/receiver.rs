//! A receiver that records every request with its start and its end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::patience::now;

/// One request.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) path: String,
    /// What every attempt of one delivery carries: the request's key, or the event's id.
    pub(crate) identity: String,
    pub(crate) body: Bytes,
    pub(crate) began: Instant,
    /// When the answer was ready, or the connection ended.
    pub(crate) ended: Option<Instant>,
    pub(crate) delivered: bool,
}

/// What it does is in the path: `wait-N` answers after N ms, `flaky` fails twice before each success, `hangs` never
/// answers what begins before [`Receiver::recover`]; `moody` answers a third of all identities with a 500 the first time,
/// and another third with a 429 that wishes for a second; `stalls` never answers an eighth of them the first time.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    visits: Arc<Mutex<Visits>>,
    recovered: Arc<AtomicBool>,
}

#[derive(Default)]
struct Visits {
    all: Vec<Visit>,
    /// By path and identity, which.
    of: HashMap<(String, String), Vec<usize>>,
}

/// Notes the end of a request, however it ends.
struct Stay {
    receiver: Receiver,
    index: usize,
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.receiver.lock().all[self.index].ended = Some(now());
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            visits: Arc::default(),
            recovered: Arc::default(),
        };
        let shared = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = shared.clone();
                let service = service_fn(move |request| {
                    let receiver = receiver.clone();
                    async move { Ok::<_, Infallible>(receiver.answer(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let began = now();
        let path = request.uri().path().to_owned();
        let headers = request.headers();
        let identity = headers.get("x-adal-idempotency").or_else(|| headers.get("webhook-id")).unwrap();
        let identity = identity.to_str().unwrap().to_owned();
        let hangs = path.contains("hangs") && !self.recovered.load(Ordering::Acquire);
        let (stay, times) = self.enter(&path, &identity, began);
        // A node that dies in the middle of a body does not get to say what it was.
        let Ok(body) = request.into_body().collect().await else { return Response::default() };
        self.lock().all[stay.index].body = body.to_bytes();
        if hangs || stalls(&path, &identity, times) {
            std::future::pending::<()>().await;
        }
        if let Some(wait) = path.split(['-', '/']).skip_while(|part| *part != "wait").nth(1) {
            tokio::time::sleep(Duration::from_millis(wait.parse().unwrap())).await;
        }
        let status = status(&path, &identity, times);
        self.lock().all[stay.index].delivered = status.is_success();
        let mut response = Response::default();
        *response.status_mut() = status;
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    fn enter(&self, path: &str, identity: &str, began: Instant) -> (Stay, usize) {
        let mut visits = self.lock();
        let index = visits.all.len();
        let of = visits.of.entry((path.to_owned(), identity.to_owned())).or_default();
        of.push(index);
        let times = of.len();
        let visit = Visit {
            path: path.to_owned(),
            identity: identity.to_owned(),
            body: Bytes::new(),
            began,
            ended: None,
            delivered: false,
        };
        visits.all.push(visit);
        (Stay { receiver: self.clone(), index }, times)
    }

    /// What begins from now on is answered.
    pub(crate) fn recover(&self) {
        self.recovered.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Visits> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All requests to a path so far, in the order of their starts.
    pub(crate) fn visits(&self, path: &str) -> Vec<Visit> {
        self.lock().all.iter().filter(|visit| visit.path == path).cloned().collect()
    }

    /// Requests to a path of one identity.
    pub(crate) fn times(&self, path: &str, identity: &str) -> usize {
        self.lock().of.get(&(path.to_owned(), identity.to_owned())).map_or(0, Vec::len)
    }

    /// The same, themselves.
    pub(crate) fn visits_of(&self, path: &str, identity: &str) -> Vec<Visit> {
        let visits = self.lock();
        let of = visits.of.get(&(path.to_owned(), identity.to_owned()));
        of.into_iter().flatten().map(|index| visits.all[*index].clone()).collect()
    }

    /// How many identities were delivered to a path.
    pub(crate) fn delivered(&self, path: &str) -> usize {
        let visits = self.lock();
        let delivered = visits.all.iter().filter(|visit| visit.delivered && visit.path == path);
        delivered.map(|visit| &visit.identity).collect::<std::collections::HashSet<_>>().len()
    }
}

fn stalls(path: &str, identity: &str, times: usize) -> bool {
    path.contains("stalls") && times == 1 && kind(identity, 8) == 0
}

fn status(path: &str, identity: &str, times: usize) -> StatusCode {
    match (path, kind(identity, 3)) {
        (path, _) if path.contains("flaky") && !times.is_multiple_of(3) => StatusCode::SERVICE_UNAVAILABLE,
        (path, 0) if path.contains("moody") && times == 1 => StatusCode::INTERNAL_SERVER_ERROR,
        (path, 1) if path.contains("moody") && times == 1 => StatusCode::TOO_MANY_REQUESTS,
        (_, _) => StatusCode::OK,
    }
}

/// Which of so many kinds an identity is of, always the same.
fn kind(identity: &str, kinds: u32) -> u32 {
    identity.bytes().map(u32::from).sum::<u32>() % kinds
}
