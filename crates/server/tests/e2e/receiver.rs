//! A receiver of webhooks that does what it is told and remembers what it saw.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::harness::eventually;

/// A request as a receiver saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    /// The only value under a name.
    pub(crate) fn header(&self, name: &str) -> &str {
        let values: Vec<_> = self.headers.get_all(name).iter().collect();
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0].to_str().unwrap()
    }
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    seen: Mutex<Vec<Seen>>,
    status: Mutex<(StatusCode, Vec<(&'static str, String)>)>,
    body: Mutex<Bytes>,
    /// While true, requests are not answered.
    holding: watch::Sender<bool>,
    /// Requests being held, now and at most.
    held: Mutex<(usize, usize)>,
}

impl Receiver {
    /// Answers 200 until told otherwise.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            seen: Mutex::default(),
            status: Mutex::new((StatusCode::OK, Vec::new())),
            body: Mutex::default(),
            holding: watch::channel(false).0,
            held: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// From now on it answers this.
    pub(crate) fn answer(&self, status: u16) {
        self.answer_with(status, &[]);
    }

    pub(crate) fn answer_with(&self, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        *lock(&self.state.status) = (StatusCode::from_u16(status).unwrap(), headers);
    }

    /// From now on it answers this, with a body.
    pub(crate) fn answer_body(&self, status: u16, body: &str) {
        self.answer(status);
        *lock(&self.state.body) = Bytes::copy_from_slice(body.as_bytes());
    }

    /// From now on it does not answer, until let go.
    pub(crate) fn hold(&self) {
        self.state.holding.send_replace(true);
    }

    pub(crate) fn let_go(&self) {
        self.state.holding.send_replace(false);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.state.seen).clone()
    }

    /// The most requests it held at the same time.
    pub(crate) fn held_at_most(&self) -> usize {
        lock(&self.state.held).1
    }

    pub(crate) async fn until_seen(&self, count: usize) {
        eventually("the receiver sees its requests", || lock(&self.state.seen).len() >= count).await;
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let seen = Seen { method: parts.method.to_string(), target, headers: parts.headers, body };
    lock(&state.seen).push(seen);
    let mut holding = state.holding.subscribe();
    if *holding.borrow() {
        {
            let mut held = lock(&state.held);
            held.0 += 1;
            held.1 = held.1.max(held.0);
        }
        // The sender lives in `state`.
        let _ = holding.wait_for(|hold| !hold).await;
        lock(&state.held).0 -= 1;
    }
    let (status, headers) = lock(&state.status).clone();
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let body = lock(&state.body).clone();
    Ok(response.body(Full::new(body)).unwrap_or_default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
