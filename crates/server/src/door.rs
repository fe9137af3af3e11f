//! The front door: connections, what every request must observe, and which way it goes.
//!
//! Connections are handed to the runtime threads in turn. A request is refused here when its head leaves doubt
//! where it ends or whom it is for; then `/in/…` goes to intake and all else to the API.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod tap;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use restante_core::message::Headers;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tower_service::Service;

use crate::dashboard::{self, Sender};
use crate::ingress::Ingress;
use tap::{Head, Heads, Length, Tapped};

/// Most connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 8192;
/// Connections that may wait to be accepted: when more come at once, their senders try again after seconds.
const BACKLOG: u32 = 4096;
/// From the start of a connection, or the end of the request before, to the end of a head.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// From the start of a connection to its first byte.
const SILENT_TIME: Duration = Duration::from_secs(10);
/// For a peer to take what was sent to it, in milliseconds.
const UNREAD_TIME_MS: u32 = 30_000;
/// For reading and answering a request of the API.
const API_TIME: Duration = Duration::from_secs(25);

/// What the door leads to.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) api: axum::Router,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) connections: Arc<Semaphore>,
}

/// Opens the listening socket. Must be called on a runtime.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// How many connections may be open.
pub(crate) fn connection_slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(CONNECTIONS_MAX))
}

/// How many connections are open.
pub(crate) fn taken(slots: &Semaphore) -> usize {
    CONNECTIONS_MAX.saturating_sub(slots.available_permits())
}

/// Whether no connection is open.
pub(crate) fn is_empty(slots: &Semaphore) -> bool {
    taken(slots) == 0
}

/// Accepts connections until the server stops, and deals them out to the runtime threads.
pub(crate) async fn serve(door: Door, listener: TcpListener, handles: Vec<Handle>) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut stopping = door.stopping.clone();
    let mut turns = handles.iter().cycle();
    loop {
        let Ok(slot) = Arc::clone(&door.connections).acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return Ok(()),
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, mostly: others will close soon.
                tracing::warn!(error.message = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Some(handle) = turns.next() else { return Ok(()) };
        let Ok(stream) = stream.into_std() else { continue };
        let door = door.clone();
        handle.spawn(async move {
            // A socket belongs to the runtime it is registered with.
            if let Ok(stream) = TcpStream::from_std(stream) {
                door.connection(stream, remote).await;
            }
            drop(slot);
        });
    }
}

impl Door {
    async fn connection(self, stream: TcpStream, remote: SocketAddr) {
        // Not having it costs latency, nothing else.
        let _ = stream.set_nodelay(true);
        // A peer that takes nothing of its answers for so long is given up: its slot belongs to others.
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_TIME_MS);
        let mut stopping = self.stopping.clone();
        // Buffers are for those who say something: a silent connection costs its socket.
        tokio::select! {
            spoken = tokio::time::timeout(SILENT_TIME, stream.readable()) => if !matches!(spoken, Ok(Ok(()))) { return },
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        let (stream, heads) = Tapped::new(stream);
        let service = service_fn(move |request| {
            let (door, heads) = (self.clone(), heads.clone());
            // Boxed: the library keeps room for this in every connection, also in those that never ask for anything.
            Box::pin(async move { Ok::<_, Infallible>(door.answer(request, &heads, remote).await) })
        });
        let connection = reader().serve_connection(TokioIo::new(stream), service).with_upgrades();
        tokio::pin!(connection);
        let mut told = false;
        loop {
            tokio::select! {
                // How a connection ends is the peer's business.
                _ = connection.as_mut() => return,
                _ = stopping.wait_for(|stop| *stop), if !told => {
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn answer(&self, mut request: Request<Incoming>, heads: &Heads, remote: SocketAddr) -> Response {
        let headers = match examine(&request, heads.take()) {
            Ok(headers) => headers,
            Err(doubt) => return closing(self.ingress.malformed(doubt)),
        };
        heads.body_follows(length(&request));
        if request.uri().path() == dashboard::SESSION_PATH {
            request.extensions_mut().insert(Sender(self.ingress.sender(remote, &headers)));
        }
        let response = if request.uri().path().starts_with("/in/") {
            self.ingress.receive(request, headers, remote).await
        } else {
            let chunked = length(&request) == Length::Chunked;
            let answer = Box::pin(self.api.clone().call(request.map(Body::new)));
            match tokio::time::timeout(API_TIME, answer).await {
                // Whether a handler read a chunked body to its end is not known here.
                Ok(Ok(response)) if chunked => closing(response),
                Ok(Ok(response)) => response,
                Err(_) => closing(self.ingress.no_answer()),
            }
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // What follows is no HTTP any more, and is not copied.
            heads.body_follows(Length::Chunked);
        }
        heads.body_ended();
        response
    }
}

/// How requests are read.
fn reader() -> http1::Builder {
    let mut reader = http1::Builder::new();
    reader
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(tap::HEAD_BYTES_MAX)
        .max_headers(tap::HEADER_LINES_MAX);
    reader
}

/// A response behind which the connection is closed: what follows on it cannot be trusted or is not wanted.
pub(crate) fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn length(request: &Request<Incoming>) -> Length {
    if request.headers().contains_key(TRANSFER_ENCODING) {
        return Length::Chunked;
    }
    let bytes = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    Length::Known(bytes.unwrap_or(0))
}

/// Checks a head for what would let two readers of it disagree, and gives its header lines as they were sent.
///
/// Without the bytes of the head the lines are those of the HTTP library.
///
/// # Errors
/// What is wrong, for the sender.
fn examine(request: &Request<Incoming>, head: Head) -> Result<Headers, &'static str> {
    let hosts = request.headers().get_all(hyper::header::HOST).iter().count();
    if hosts > 1 {
        return Err("more than one Host header");
    }
    if hosts == 0 && request.version() == Version::HTTP_11 {
        return Err("no Host header");
    }
    let head = match head {
        Head::Copied(head) => head,
        Head::NotCopied => return Ok(library_headers(request)),
        Head::TooLong => return Err("the request head is too long"),
    };
    if head.iter().enumerate().any(|(index, byte)| *byte == b'\n' && (index == 0 || head[index - 1] != b'\r'))
    {
        return Err("a line ends with a bare line feed");
    }
    let mut lines = [httparse::EMPTY_HEADER; tap::HEADER_LINES_MAX];
    let mut parsed = httparse::Request::new(&mut lines);
    if !matches!(parsed.parse(&head), Ok(httparse::Status::Complete(_))) {
        return Err("the request head cannot be read");
    }
    let count =
        |name: &str| parsed.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(name)).count();
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    if lengths > 1 || codings > 1 || (lengths == 1 && codings == 1) {
        return Err("the length of the body is given more than once");
    }
    if parsed.method != Some(request.method().as_str()) || parsed.headers.len() != request.headers().len() {
        return Err("the request head cannot be read");
    }
    Ok(parsed.headers.iter().map(|line| (line.name, line.value)).collect())
}

fn library_headers(request: &Request<Incoming>) -> Headers {
    request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}
