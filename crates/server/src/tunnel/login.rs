//! How a client comes in: with the token of a source it gets an access token, and with that a connection.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::upgrade::OnUpgrade;
use restante_core::Timestamp;
use restante_core::endpoint::{self, Sealed};
use restante_core::id::SourceId;
use restante_sdk::tunnel::{LOGIN_PATH, Login, PROTOCOL};
use restante_store::record::Record;
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::hub::Full;
use super::{Protocol, TOKEN_TIME, session};
use crate::api::error::ApiError;
use crate::api::{Api, ApiState};
use crate::vault::Purpose;

/// Where connections are made.
const CONNECT_PATH: &str = "/auth/ws/connect";

/// What an access token says. It is sealed, so that only the nodes of this server can make one.
#[derive(Serialize, Deserialize)]
struct Access {
    source: SourceId,
    /// The source's token when this was made: once that is rotated, this is void.
    token: String,
    expires_at: Timestamp,
}

/// The doors of the tunnel.
pub(crate) fn routes() -> Router<Api> {
    Router::new().route(LOGIN_PATH, get(login)).route(CONNECT_PATH, get(connect))
}

/// Answers a client that has the token of a source.
async fn login(State(api): State<Api>, headers: HeaderMap) -> Result<Response, ApiError> {
    let token = bearer(&headers)?;
    if let Some(refusal) = rate_limited(&api, token) {
        return Ok(refusal);
    }
    let source = source_of(&api, token).await?;
    let expires_at = api.clock.now() + TOKEN_TIME;
    let access = Access { source: source.id, token: token.to_owned(), expires_at };
    let access = serde_json::to_string(&access).map_err(|error| ApiError::broken(error.to_string()))?;
    let Sealed(access_token) = api.vault.seal(Purpose::AccessToken, &access, api.clock.as_ref());
    let connection_url = format!("{}{CONNECT_PATH}", web_socket(&api.public_url));
    let server_url = format!("{}/in/{token}", api.public_url);
    let login = Login::new(access_token, connection_url, "restante".to_owned(), server_url);
    Ok(axum::Json(login).into_response())
}

/// Counts a login; the answer to one that comes too often. Clients take it for a break and come again.
fn rate_limited(api: &ApiState, token: &str) -> Option<Response> {
    let standing = api.limits.logins.as_ref()?.take(token, api.clock.monotonic());
    if standing.admitted {
        return None;
    }
    api.counters.call_rate_limited();
    let mut response = ApiError::rate_limited("this source's clients", &standing).into_response();
    standing.tell(response.headers_mut());
    Some(response)
}

/// Turns a request into a connection.
async fn connect(State(api): State<Api>, mut request: Request) -> Result<Response, ApiError> {
    let Access { source, token, .. } = allowed(&api, request.headers()).await?;
    let (accept, protocol) = handshake(request.headers())?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| ApiError::broken("the connection cannot be upgraded"))?;
    if *api.stopping.borrow() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "this node stops; log in again",
        ));
    }
    let slot = Arc::clone(&api.connections).try_acquire_owned();
    let slot = slot.map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_connections",
            "this node has no room; try again",
        )
    })?;
    api.tunnel.make_room(source).await;
    // From here on nothing is waited for: whoever has entered has a task that sees to it that it leaves.
    let (client, commands) = api.tunnel.enter(source, token, protocol).map_err(|Full| {
        let message = "the source has as many clients connected as it may have: 16";
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_clients", message)
    })?;
    tracing::info!(source.id = %source, client.number = client.number, client.protocol = ?protocol, "a client has come");
    let (hub, stopping) = (Arc::clone(&api.tunnel), api.stopping.clone());
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                hub.tell(source).await;
                session::serve(hub, client, commands, upgraded, stopping).await;
            }
            // It went away before it had the answer.
            Err(_) => hub.leave(&client, false).await,
        }
        drop(slot);
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let answer = response.headers_mut();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if protocol == Protocol::V1 {
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    Ok(response)
}

fn unauthorized() -> ApiError {
    ApiError::unauthorized(
        "invalid_token",
        "this is not the token of a source: `restante sources get` shows it",
    )
}

fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(unauthorized)
}

/// The living source with this token.
///
/// # Errors
/// 401 only if there is none: clients stop for good.
async fn source_of(api: &ApiState, token: &str) -> Result<Record<endpoint::Source>, ApiError> {
    api.store.find::<endpoint::Source>(token).await?.ok_or_else(unauthorized)
}

/// What an access token that is good allows.
async fn allowed(api: &ApiState, headers: &HeaderMap) -> Result<Access, ApiError> {
    let expired = || {
        ApiError::unauthorized("invalid_access_token", "this access token is not good any more: log in again")
    };
    let opened = api.vault.open(Purpose::AccessToken, &Sealed(bearer(headers)?.to_owned()));
    let opened = opened.map_err(|_| expired())?;
    let access: Access = serde_json::from_str(opened.expose()).map_err(|_| expired())?;
    if access.expires_at <= api.clock.now() || source_of(api, &access.token).await?.id != access.source {
        return Err(expired());
    }
    Ok(access)
}

/// The answer to a key, and what the client speaks (RFC 6455, 4.2).
fn handshake(headers: &HeaderMap) -> Result<(HeaderValue, Protocol), ApiError> {
    let has = |name, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(word))
    };
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let fine = has(header::UPGRADE, "websocket")
        && has(header::CONNECTION, "upgrade")
        && has(header::SEC_WEBSOCKET_VERSION, "13");
    let Some(key) = key.filter(|_| fine) else {
        return Err(ApiError::malformed("not_a_websocket", "this path takes WebSocket connections only"));
    };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    let accept = accept.map_err(|error| ApiError::broken(error.to_string()))?;
    let protocol = if has(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) { Protocol::V1 } else { Protocol::First };
    Ok((accept, protocol))
}

/// The same place by its WebSocket scheme.
fn web_socket(url: &str) -> String {
    match url.split_once("://") {
        Some(("https", rest)) => format!("wss://{rest}"),
        Some((_, rest)) => format!("ws://{rest}"),
        None => url.to_owned(),
    }
}
