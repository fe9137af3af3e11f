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
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::now;

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
/// answers what begins before [`Receiver::recover`].
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    visits: Arc<Mutex<Visits>>,
    recovered: Arc<AtomicBool>,
}

#[derive(Default)]
struct Visits {
    all: Vec<Visit>,
    /// By path and identity, how often.
    times: HashMap<(String, String), usize>,
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
        let hangs = request.uri().path().contains("hangs") && !self.recovered.load(Ordering::Acquire);
        let path = request.uri().path().to_owned();
        let headers = request.headers();
        let identity = headers.get("x-adal-idempotency").or_else(|| headers.get("webhook-id")).unwrap();
        let identity = identity.to_str().unwrap().to_owned();
        let (stay, times) = self.enter(&path, &identity, began);
        // A node that dies in the middle of a body does not get to say what it was.
        let Ok(body) = request.into_body().collect().await else { return Response::default() };
        self.lock().all[stay.index].body = body.to_bytes();
        if hangs {
            std::future::pending::<()>().await;
        }
        if let Some(wait) = path.split(['-', '/']).skip_while(|part| *part != "wait").nth(1) {
            tokio::time::sleep(Duration::from_millis(wait.parse().unwrap())).await;
        }
        let fails = path.contains("flaky") && !times.is_multiple_of(3);
        self.lock().all[stay.index].delivered = !fails;
        let mut response = Response::default();
        if fails {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }

    fn enter(&self, path: &str, identity: &str, began: Instant) -> (Stay, usize) {
        let mut visits = self.lock();
        let times = visits.times.entry((path.to_owned(), identity.to_owned())).or_default();
        *times += 1;
        let times = *times;
        let visit = Visit {
            path: path.to_owned(),
            identity: identity.to_owned(),
            body: Bytes::new(),
            began,
            ended: None,
            delivered: false,
        };
        visits.all.push(visit);
        (Stay { receiver: self.clone(), index: visits.all.len() - 1 }, times)
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
        self.lock().times.get(&(path.to_owned(), identity.to_owned())).copied().unwrap_or(0)
    }

    /// How many identities were delivered to a path.
    pub(crate) fn delivered(&self, path: &str) -> usize {
        let visits = self.lock();
        let delivered = visits.all.iter().filter(|visit| visit.delivered && visit.path == path);
        delivered.map(|visit| &visit.identity).collect::<std::collections::HashSet<_>>().len()
    }
}
