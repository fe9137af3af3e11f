//! A connection that somebody speaks any bytes on, and what the door and intake take of them. See [`crate::fuzzing`].

use std::convert::Infallible;
use std::sync::Mutex;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use restante_core::message::{Headers, Received};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tap::{Head, Heads, Tapped};
use super::{closing, examine, length, reader};
use crate::ingress::read_alone;

/// Largest body that is taken.
const BODY_BYTES_MAX: usize = 4096;

/// A request as it was taken.
pub(crate) struct Taken {
    pub(crate) received: Received,
    /// The header lines are the HTTP library's, see [`Head::NotCopied`]: names in lower case, values by name.
    pub(crate) by_library: bool,
}

/// Says all of it in pieces, and gives what was taken.
pub(crate) async fn converse(sent: &[u8], piece: usize) -> Vec<Taken> {
    let (ours, mut theirs) = tokio::io::duplex(4096);
    let (stream, heads) = Tapped::new(ours);
    let taken = Mutex::new(Vec::new());
    let service = service_fn(|request| {
        let (heads, taken) = (heads.clone(), &taken);
        async move {
            let (answer, request) = take(request, &heads).await;
            taken.lock().expect("nobody panics with it").extend(request);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = async {
        // How a connection ends is the peer's business.
        let _ = reader().serve_connection(TokioIo::new(stream), service).await;
    };
    let peer = async {
        let (mut answers, mut questions) = tokio::io::split(&mut theirs);
        let speaking = async {
            for piece in sent.chunks(piece) {
                if questions.write_all(piece).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let _ = questions.shutdown().await;
        };
        let mut heard = Vec::new();
        let (_, _) = tokio::join!(speaking, answers.read_to_end(&mut heard));
    };
    tokio::join!(connection, peer);
    taken.into_inner().expect("nobody panics with it")
}

/// The door's part and intake's, up to the store.
async fn take(mut request: Request<Incoming>, heads: &Heads) -> (Response, Option<Taken>) {
    let head = heads.take();
    let by_library = head == Head::NotCopied;
    let Ok(headers) = examine(&request, head) else { return (closing(Response::default()), None) };
    // The lines as they are kept.
    let headers = Headers::from_packed(headers.packed().clone()).expect("what is packed is unpacked");
    heads.body_follows(length(&request));
    let Some(body) = read_alone(request.body_mut(), BODY_BYTES_MAX).await else {
        return (closing(Response::default()), None);
    };
    let taken = Taken { received: received(&request, headers, body), by_library };
    let mut answer = Response::new(Body::empty());
    if request.method() == Method::CONNECT {
        // A success would make a tunnel of the connection.
        *answer.status_mut() = StatusCode::NOT_FOUND;
    }
    heads.body_ended();
    (answer, Some(taken))
}

fn received(request: &Request<Incoming>, headers: Headers, body: Bytes) -> Received {
    Received {
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(str::to_owned),
        remote_address: "192.0.2.1".to_owned(),
        headers,
        body,
    }
}
