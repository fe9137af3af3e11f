//! A receiver of webhooks that fails as often as it is told to.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(super) struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    failures_left: u32,
    requests: usize,
    keys: HashSet<String>,
    bodies: HashSet<Bytes>,
}

impl Receiver {
    /// Answers 503 to the first `failures` requests.
    pub(super) async fn start(failures: u32) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { failures_left: failures, ..State::default() }));
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
        Ok(Self { address, state })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// From now on it answers 200.
    pub(super) fn mend(&self) {
        lock(&self.state).failures_left = 0;
    }

    /// What it saw, in one line.
    pub(super) fn summary(&self, name: &str) -> String {
        let state = lock(&self.state);
        format!(
            "{name:<7} {} requests, {} idempotency keys, {} different bodies",
            state.requests,
            state.keys.len(),
            state.bodies.len()
        )
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let key =
        request.headers().get("x-adal-idempotency").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut state = lock(&state);
    state.requests += 1;
    state.keys.extend(key);
    state.bodies.insert(body);
    let mut response = Response::new(Full::default());
    if state.failures_left > 0 {
        state.failures_left -= 1;
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
