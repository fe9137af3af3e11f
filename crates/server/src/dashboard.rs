//! The dashboard: pages for people. They are files in the binary and get what they show from the API, like anybody.
//!
//! What is of its own is how a browser calls the API: with a session that stands for a key (`session`), from pages of
//! this server only (`site`). The pages execute nothing but their own scripts: see the policies in `assets`.

mod assets;
mod session;
mod site;
mod throttle;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::api::error::ApiError;
use crate::api::{Api, frame, new_token, token};
use crate::clock::Clock;
use session::Sessions;
pub(crate) use session::key_of;
use site::Site;
use throttle::Throttle;

/// Where sessions begin, are looked at and end.
pub(crate) const SESSION_PATH: &str = "/session";

/// The first parts of the pages' paths. Each has a list, and a page for each of its things.
const NOUNS: [&str; 14] = [
    "sources",
    "requests",
    "deliveries",
    "events",
    "webhooks",
    "emails",
    "templates",
    "domains",
    "suppressions",
    "keys",
    "settings",
    "credits",
    "notices",
    "sign-in",
];

/// What the pages and their sessions need.
#[derive(Debug)]
pub(crate) struct Dashboard {
    site: Site,
    sessions: Sessions,
    throttle: Throttle,
    /// Opens once, for whoever started the server.
    link: Mutex<Option<Link>>,
}

/// A word that stands for a key, once.
#[derive(Debug)]
struct Link {
    word_hash: String,
    key_hash: String,
}

/// Where a request comes from, through trusted proxies. The door puts it on requests that begin sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender(pub(crate) IpAddr);

impl Dashboard {
    /// `public_url`: where browsers reach it. `names`: host names besides that one's under which they may.
    pub(crate) fn new(public_url: &str, names: &[String]) -> Self {
        Self {
            site: Site::new(public_url, names),
            sessions: Sessions::new(public_url),
            throttle: Throttle::default(),
            link: Mutex::new(None),
        }
    }

    /// A page's address that signs in, once, with the key that has this hash. An earlier one is void.
    pub(crate) fn sign_in_link(&self, public_url: &str, key_hash: String, clock: &dyn Clock) -> String {
        let word = new_token(clock, "");
        // Behind the `#` it reaches no server and no log of one.
        let link = format!("{public_url}/sign-in#link={word}");
        let word_hash = token::hash(&word);
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(Link { word_hash, key_hash });
        link
    }

    /// The hash of the key that a link's word stands for. The word is used up.
    fn follow(&self, word: &str) -> Option<String> {
        let hash = token::hash(word);
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.take_if(|link| link.word_hash == hash).map(|link| link.key_hash)
    }
}

/// The pages, what they are made of, and sessions.
pub(crate) fn routes(api: &Api) -> Router<Api> {
    let mut pages = Router::new().route("/", get(assets::page)).route("/frame", get(assets::frame));
    for noun in NOUNS {
        pages = pages.route(&format!("/{noun}"), get(assets::page));
        pages = pages.route(&format!("/{noun}/{{id}}"), get(assets::page));
    }
    let sessions = get(session::show).post(session::begin).delete(session::end);
    pages
        .route(SESSION_PATH, sessions)
        .route("/assets/{version}/{*path}", get(assets::asset))
        .method_not_allowed_fallback(frame::no_such_method)
        .layer(from_fn_with_state(Arc::clone(api), known_host))
}

/// The answer to a path that does not exist: to people a page that says so.
pub(crate) async fn no_such_path(
    State(api): State<Api>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let person = (method == Method::GET || method == Method::HEAD) && accepted.contains("text/html");
    if person && !uri.path().starts_with("/v1/") && api.dashboard.site.check_host(&headers).is_ok() {
        return (StatusCode::NOT_FOUND, assets::page(headers).await).into_response();
    }
    frame::no_such_path(uri).await.into_response()
}

/// Lets through what is asked of a name that is ours: a name that an outsider points at this server must not show its
/// pages, or their scripts could be made to work for the outsider.
async fn known_host(State(api): State<Api>, request: Request, next: Next) -> Response {
    match api.dashboard.site.check_host(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// An error that tells when to come back, in seconds.
fn later(error: ApiError, seconds: u64) -> Response {
    let mut response = error.into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}
