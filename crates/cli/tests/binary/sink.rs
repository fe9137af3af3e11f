//! Receivers that count what they saw, some of them unreliable.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// What one destination saw of one request.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) times: usize,
    pub(crate) delivered: bool,
    pub(crate) bodies: Vec<Bytes>,
}

/// By path, then by the request's key.
type Tally = HashMap<String, HashMap<String, Seen>>;

#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    tally: Arc<Mutex<Tally>>,
}

impl Sink {
    /// A path with `flaky` in it answers 503 twice before each 200; `hangs-once` does not answer a key's first request.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = Self { address: listener.local_addr().unwrap(), tally: Arc::default() };
        let shared = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sink = shared.clone();
                let service = service_fn(move |request| {
                    let sink = sink.clone();
                    async move { Ok::<_, Infallible>(sink.answer(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        sink
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let key = request.headers()["x-adal-idempotency"].to_str().unwrap().to_owned();
        let body = request.into_body().collect().await;
        let first = self.seen(&path, &key).times == 0;
        let hangs = first && path.contains("hangs-once");
        let response = self.count(&path, key, body.map(|body| body.to_bytes()).ok());
        if hangs {
            std::future::pending::<()>().await;
        }
        response
    }

    fn count(&self, path: &str, key: String, body: Option<Bytes>) -> Response<Full<Bytes>> {
        let mut tally = self.lock();
        let seen = tally.entry(path.to_owned()).or_default().entry(key).or_default();
        seen.times += 1;
        // A server that dies in the middle of a body does not get to say what it was.
        let Some(body) = body else { return Response::new(Full::default()) };
        if !seen.bodies.contains(&body) {
            seen.bodies.push(body);
        }
        let fails = path.contains("flaky") && !seen.times.is_multiple_of(3);
        seen.delivered |= !fails;
        let mut response = Response::new(Full::default());
        if fails {
            *response.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }

    pub(crate) fn seen(&self, path: &str, key: &str) -> Seen {
        self.lock().get(path).and_then(|keys| keys.get(key)).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
