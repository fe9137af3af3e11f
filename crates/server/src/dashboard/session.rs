//! Sessions: a cookie that stands for a key.
//!
//! A session is sealed into its cookie, so that every node of the server knows it. It holds the hash of a key: when the
//! key is revoked, rotated or deleted the session ends with it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use restante_core::Timestamp;
use restante_core::endpoint::Sealed;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Sender, later};
use crate::api::body::Body;
use crate::api::error::ApiError;
use crate::api::{Api, ApiState, authenticate_hash, token};
use crate::vault::{Purpose, random};

/// How long a session lasts: a working day.
const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
/// What calls that change something must carry: a page of another site cannot set it.
const CSRF_HEADER: HeaderName = HeaderName::from_static("x-restante-csrf");
/// Ended sessions that are remembered at once.
const ENDED_MAX: usize = 10_000;

/// A session, as it is sealed into its cookie.
#[derive(Serialize, Deserialize)]
struct Session {
    key_hash: String,
    /// Known to the pages and to nobody else.
    csrf: String,
    expires_at: Timestamp,
}

/// How sessions' cookies are written, and which have ended before their time on this node.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Cookies do not keep ports apart: with its port in the name, two servers on one machine leave each other's alone.
    cookie: String,
    /// Whether browsers must send it through TLS only.
    secure: bool,
    /// By their `csrf`, until they would have ended anyway.
    ended: Mutex<HashMap<String, Timestamp>>,
}

impl Sessions {
    pub(super) fn new(public_url: &str) -> Self {
        let port =
            Url::parse(public_url).ok().and_then(|url| url.port_or_known_default()).unwrap_or_default();
        let secure = public_url.starts_with("https://");
        // Browsers take a name that begins so only from TLS, for this host alone (RFC 6265bis, 4.1.3.2).
        let prefix = if secure { "__Host-" } else { "" };
        Self { cookie: format!("{prefix}restante_{port}"), secure, ended: Mutex::default() }
    }

    fn set_cookie(&self, value: &str, age: Duration) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = &self.cookie;
        let line =
            format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", age.as_secs());
        HeaderValue::try_from(line).expect("a name of ours, and a sealed text in base64url")
    }

    fn end(&self, session: Session, now: Timestamp) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|_, expires_at| *expires_at > now);
        if ended.len() < ENDED_MAX {
            ended.insert(session.csrf, session.expires_at);
        }
    }

    fn has_ended(&self, session: &Session) -> bool {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&session.csrf)
    }

    /// The value of our cookie among those of a request.
    fn cookie_of<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, value)| value)
    }
}

/// The hash of the key that a call's session stands for; `None`: the call has no session.
///
/// # Errors
/// 401 when the session has ended. 403 when the call does not come from one of our pages.
pub(crate) fn key_of(api: &ApiState, parts: &Parts) -> Result<Option<String>, ApiError> {
    let Some(session) = read(api, &parts.headers)? else { return Ok(None) };
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        check_csrf(&session, &parts.headers)?;
    }
    Ok(Some(session.key_hash))
}

fn read(api: &ApiState, headers: &HeaderMap) -> Result<Option<Session>, ApiError> {
    let sessions = &api.dashboard.sessions;
    let Some(cookie) = sessions.cookie_of(headers) else { return Ok(None) };
    api.dashboard.site.check_sender(headers)?;
    let ended = || ApiError::unauthorized("session_ended", "the session has ended: sign in again");
    let opened = api.vault.open(Purpose::Session, &Sealed(cookie.to_owned())).map_err(|_| ended())?;
    let session: Session = serde_json::from_str(opened.expose()).map_err(|_| ended())?;
    if session.expires_at <= api.clock.now() || sessions.has_ended(&session) {
        return Err(ended());
    }
    Ok(Some(session))
}

fn check_csrf(session: &Session, headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Hashes are compared: how long that takes tells nothing about the words.
    if token::hash(given) == token::hash(&session.csrf) {
        return Ok(());
    }
    let message = "a change by a session needs the header x-restante-csrf, as GET /session tells it";
    Err(ApiError::forbidden("csrf", message))
}

/// What signs in: one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// An API key.
    key: Option<String>,
    /// The word of a link that signs in once.
    link: Option<String>,
}

/// What pages are told about their session.
#[derive(Serialize)]
struct Shown<'a> {
    csrf: &'a str,
    expires_at: Timestamp,
}

/// Begins a session.
pub(super) async fn begin(
    State(api): State<Api>,
    sender: Option<Extension<Sender>>,
    headers: HeaderMap,
    Body(input): Body<SignIn>,
) -> Result<Response, ApiError> {
    let dashboard = &api.dashboard;
    dashboard.site.check_sender(&headers)?;
    let sender = sender.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Extension(Sender(address))| address);
    let now = api.clock.monotonic();
    if let Err(wait) = dashboard.throttle.check(sender, now) {
        let seconds = wait.as_secs().max(1);
        let message = format!("too many failed tries to sign in from this address; again in {seconds} s");
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_sign_ins", message);
        return Ok(later(error, seconds));
    }
    let (key, link) = (input.key, input.link);
    let key_hash = match (key, link) {
        (Some(key), None) => Ok(token::hash(key.trim())),
        (None, Some(word)) => dashboard.follow(&word).ok_or_else(|| {
            ApiError::unauthorized(
                "link_used",
                "this link has been used, or the server has been started since: sign in with a key",
            )
        }),
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::invalid("invalid_field", "give either key or link").on("key"));
        }
    };
    let known = match key_hash {
        Ok(hash) => authenticate_hash(&api, &hash).await.map(|_| hash),
        Err(error) => Err(error),
    };
    let key_hash = known.inspect_err(|error| {
        if error.status == StatusCode::UNAUTHORIZED {
            dashboard.throttle.fail(sender, now);
        }
    })?;
    let csrf = data_encoding::HEXLOWER.encode(&random::<16>(&*api.clock));
    let session = Session { key_hash, csrf, expires_at: api.clock.now() + SESSION_TIME };
    let text = serde_json::to_string(&session).map_err(|error| ApiError::broken(error.to_string()))?;
    let Sealed(sealed) = api.vault.seal(Purpose::Session, &text, api.clock.as_ref());
    let mut response = shown(&session);
    let cookie = dashboard.sessions.set_cookie(&sealed, SESSION_TIME);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Tells a page about its session.
pub(super) async fn show(State(api): State<Api>, headers: HeaderMap) -> Result<Response, ApiError> {
    let session =
        read(&api, &headers)?.ok_or_else(|| ApiError::unauthorized("no_session", "sign in first"))?;
    authenticate_hash(&api, &session.key_hash).await?;
    Ok(shown(&session))
}

/// Ends a session: on this node at once, elsewhere when its time is over or its key is revoked.
pub(super) async fn end(State(api): State<Api>, headers: HeaderMap) -> Result<Response, ApiError> {
    let sessions = &api.dashboard.sessions;
    if let Ok(Some(session)) = read(&api, &headers) {
        check_csrf(&session, &headers)?;
        sessions.end(session, api.clock.now());
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(header::SET_COOKIE, sessions.set_cookie("", Duration::ZERO));
    Ok(response)
}

fn shown(session: &Session) -> Response {
    let told = Json(Shown { csrf: &session.csrf, expires_at: session.expires_at });
    ([(header::CACHE_CONTROL, "no-store")], told).into_response()
}
