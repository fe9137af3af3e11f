//! Login and WebSocket handshake.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use restante_sdk::tunnel::{FRAME_BYTES_MAX, LOGIN_PATH, Login, PROTOCOL};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, error};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use super::GivenUp;
use crate::listen::dial::{Dialer, Stream, reason};
use crate::listen::target::Place;

pub(super) type Socket = WebSocketStream<Stream>;

/// For login and handshake, each.
const STEP_TIME: Duration = Duration::from_secs(15);
const LOGIN_BYTES_MAX: usize = 64 * 1024;
const AGENT: &str = concat!("restante/", env!("CARGO_PKG_VERSION"));

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum OpenFault {
    GivenUp(GivenUp),
    /// Another try may help. For people.
    Again(String),
}

impl From<String> for OpenFault {
    fn from(why: String) -> Self {
        Self::Again(why)
    }
}

/// Logs in with a source's token, and connects.
///
/// # Errors
/// `OpenFault`.
pub(super) async fn open(dialer: &Dialer, server: &str, token: &str) -> Result<Socket, OpenFault> {
    let login = timeout(STEP_TIME, log_in(dialer, server, token));
    let login = login.await.map_err(|_| late("the login was not answered"))??;
    if server.starts_with("https:") && !login.connection_url.starts_with("wss:") {
        return Err(OpenFault::Again(
            "the server wants a connection in the clear, which is refused".to_owned(),
        ));
    }
    let connecting = timeout(STEP_TIME, connect(dialer, &login));
    connecting.await.map_err(|_| late("the connection was not taken"))?
}

fn late(what: &str) -> OpenFault {
    OpenFault::Again(format!("{what} within {} s", STEP_TIME.as_secs()))
}

async fn log_in(dialer: &Dialer, server: &str, token: &str) -> Result<Login, OpenFault> {
    let url = format!("{server}{LOGIN_PATH}");
    let (url, place) = place(&url)?;
    let stream = dialer.server(&place).await.map_err(|fault| fault.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
    // Ends with the exchange; what breaks is told to the one who waits for the answer.
    tokio::spawn(async move { drop(connection.await) });
    let request = Request::get(url.path())
        .header(HOST, authority(&url))
        .header(AUTHORIZATION, bearer(token)?)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, AGENT)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(broke)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => return Err(OpenFault::GivenUp(GivenUp::Unknown)),
        StatusCode::SERVICE_UNAVAILABLE => {
            return Err("the server's store does not answer".to_owned().into());
        }
        status => return Err(format!("the login was answered with {status}").into()),
    }
    let body = Limited::new(response.into_body(), LOGIN_BYTES_MAX).collect().await;
    let body = body.map_err(|_| "the login's answer broke off".to_owned())?.to_bytes();
    let login = serde_json::from_slice(&body);
    login.map_err(|_| OpenFault::Again("the login's answer is not of the shape it should have".to_owned()))
}

async fn connect(dialer: &Dialer, login: &Login) -> Result<Socket, OpenFault> {
    let (url, place) = place(&login.connection_url)?;
    let stream = dialer.server(&place).await.map_err(|fault| fault.to_string())?;
    let mut request = url.as_str().into_client_request().map_err(|error| told(&error))?;
    let headers = request.headers_mut();
    headers.insert(AUTHORIZATION, bearer(&login.access_token)?);
    headers.insert("Sec-WebSocket-Protocol", HeaderValue::from_static(PROTOCOL));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    // Twice what a frame may have: a server that is a little newer is understood.
    let config = WebSocketConfig::default()
        .max_message_size(Some(2 * FRAME_BYTES_MAX))
        .max_frame_size(Some(2 * FRAME_BYTES_MAX));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
            Err(OpenFault::GivenUp(GivenUp::Full))
        }
        Err(error) => Err(told(&error).into()),
    }
}

fn place(url: &str) -> Result<(Url, Place), OpenFault> {
    let url = Url::parse(url).map_err(|_| format!("{url:?} is no URL"))?;
    let place = Place::of(&url).ok_or_else(|| format!("{url} is not http, https, ws or wss"))?;
    Ok((url, place))
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn bearer(token: &str) -> Result<HeaderValue, OpenFault> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| OpenFault::GivenUp(GivenUp::Unknown))?;
    value.set_sensitive(true);
    Ok(value)
}

fn broke(error: hyper::Error) -> OpenFault {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
    OpenFault::Again(match cause {
        Some(cause) => reason(cause),
        None if error.is_incomplete_message() => "the server ended the connection".to_owned(),
        None => error.to_string(),
    })
}

/// What went wrong with a WebSocket, for people.
pub(super) fn told(error: &tungstenite::Error) -> String {
    use tungstenite::Error;
    match error {
        Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            "the access token was not taken".to_owned()
        }
        Error::Http(response) => format!("the connection was answered with {}", response.status()),
        Error::Io(error) => reason(error),
        Error::Protocol(error::ProtocolError::SecWebSocketSubProtocolError(_)) => {
            format!("the server does not speak {PROTOCOL}")
        }
        Error::Protocol(error::ProtocolError::ResetWithoutClosingHandshake)
        | Error::ConnectionClosed
        | Error::AlreadyClosed => "the server ended the connection".to_owned(),
        Error::Tls(_)
        | Error::Capacity(_)
        | Error::Protocol(_)
        | Error::WriteBufferFull(_)
        | Error::Utf8(_)
        | Error::AttackAttempt
        | Error::Url(_)
        | Error::HttpFormat(_) => error.to_string(),
    }
}
