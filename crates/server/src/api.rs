//! The API under `/v1`, and what monitoring asks.
//!
//! A handler extracts, lets the rules judge, makes one call to the store, and shows the result. What all have in
//! common is elsewhere: who calls (`auth`), bodies and query strings (`body`, `query`), records (`records`), and the
//! shape of failures (`error`, `frame`).

mod auth;
pub(crate) mod body;
mod bulk_retries;
mod compat;
mod credits;
mod deliveries;
mod destinations;
mod domains;
mod emails;
mod endpoints;
pub(crate) mod error;
mod events;
mod fault;
mod find;
pub(crate) mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod health;
mod keys;
mod name;
mod notices;
mod openapi;
mod path;
mod query;
mod records;
mod replays;
mod requests;
mod server;
mod sources;
mod stats;
mod stream;
mod suppressions;
mod templates;
#[cfg(test)]
mod tests;
pub(crate) mod token;
mod webhooks;
mod wire;
mod workspaces;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use restante_core::health::Limits;
use restante_store::{Store, Vitals};
use tokio::sync::{Semaphore, watch};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::channel::guard::Rules;
use crate::clock::Clock;
use crate::dashboard::{self, Dashboard};
use crate::mail::records::Lookup;
use crate::probe::Prober;
use crate::rate_limit::RateLimits;
use crate::telemetry::Metrics;
use crate::trace::Tracer;
use crate::tunnel::{self, Hub};
use crate::vault::Vault;
use endpoints::Judge;

pub(crate) use auth::authenticate_hash;
pub use auth::{KnownKeys, LastUsed};
pub use domains::MachineLookup;
pub(crate) use emails::freeze;
pub use openapi::openapi;
pub use token::{FirstKeyFault, LIVE_PREFIX, TEST_PREFIX, first_key, new_token};

/// What handlers work with. Cloning shares it.
#[derive(Clone)]
pub struct ApiState {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// Which URLs may be set as targets.
    pub rules: Arc<Rules>,
    /// Where callers reach this server, without a slash at the end.
    pub public_url: String,
    /// Renders all metrics, with the store's if it answers.
    pub metrics: Arc<dyn Fn(Option<Vitals>) -> String + Send + Sync>,
    /// Whether the disk has room; the error says what is wrong.
    pub disk: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Turns true when the node stops: streams end.
    pub stopping: watch::Receiver<bool>,
    /// Keys' use that is not written down yet.
    pub last_used: Arc<LastUsed>,
    /// Keys that need not be looked up again.
    pub keys: Arc<KnownKeys>,
    /// Seals what is secret.
    pub vault: Arc<Vault>,
    /// Sends test events.
    pub prober: Arc<Prober>,
    /// When webhooks are degraded and paused.
    pub health_limits: Limits,
    pub counters: Arc<Metrics>,
    /// `None`: calls make no spans.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The way mail leaves: `relay`, `direct` or `capture`.
    pub transport: &'static str,
    /// Mail is taken only from domains that are verified.
    pub require_verified_domains: bool,
    /// Looks up what domains have set in the DNS.
    pub lookup: Arc<dyn Lookup>,
    /// Command-line clients that are connected.
    pub(crate) tunnel: Arc<Hub>,
    /// Sessions of browsers, and the names under which they may come.
    pub(crate) dashboard: Arc<Dashboard>,
    /// Slots of open connections; a client's connection takes one.
    pub(crate) connections: Arc<Semaphore>,
    /// How often keys may call and clients log in.
    pub(crate) limits: Arc<RateLimits>,
}

/// The state as handlers share it.
pub(crate) type Api = Arc<ApiState>;

impl ApiState {
    /// Writes down when keys were last used.
    ///
    /// # Errors
    /// What could not be written is kept for the next time.
    pub async fn flush_last_used(&self) -> Result<(), restante_store::Error> {
        self.last_used.flush(self).await
    }

    /// What endpoints' settings are judged with.
    fn judge(&self) -> Judge<'_> {
        Judge { rules: &self.rules, vault: &self.vault, clock: &*self.clock }
    }
}

/// All routes, each with its description.
fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::Base::openapi())
        .routes(routes!(sources::create, sources::list))
        .routes(routes!(sources::get, sources::update, sources::delete))
        .routes(routes!(sources::rotate_token))
        .routes(routes!(destinations::create, destinations::list))
        .routes(routes!(destinations::get, destinations::update, destinations::delete))
        .routes(routes!(bulk_retries::retry))
        .routes(routes!(bulk_retries::list))
        .routes(routes!(requests::list))
        .routes(routes!(requests::get, requests::delete))
        .routes(routes!(requests::body))
        .routes(routes!(requests::replay))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::get))
        .routes(routes!(deliveries::attempts))
        .routes(routes!(deliveries::cancel))
        .routes(routes!(deliveries::retry))
        .routes(routes!(events::publish, events::list))
        .routes(routes!(events::publish_batch))
        .routes(routes!(events::get))
        .routes(routes!(emails::send, emails::list))
        .routes(routes!(emails::send_batch))
        .routes(routes!(emails::get, emails::change::update))
        .routes(routes!(emails::list_events))
        .routes(routes!(emails::content::get))
        .routes(routes!(emails::content::source))
        .routes(routes!(emails::content::attachment))
        .routes(routes!(emails::cancel))
        .routes(routes!(templates::create, templates::list))
        .routes(routes!(templates::get, templates::update, templates::delete))
        .routes(routes!(templates::duplicate))
        .routes(routes!(templates::set_content))
        .routes(routes!(templates::versions::publish, templates::versions::list))
        .routes(routes!(templates::rendering::preview))
        .routes(routes!(templates::rendering::render))
        .routes(routes!(templates::sending::send))
        .routes(routes!(domains::create, domains::list))
        .routes(routes!(domains::get, domains::update, domains::delete))
        .routes(routes!(domains::verify))
        .routes(routes!(suppressions::add, suppressions::list))
        .routes(routes!(suppressions::delete))
        .routes(routes!(webhooks::create, webhooks::list))
        .routes(routes!(webhooks::get, webhooks::update, webhooks::delete))
        .routes(routes!(webhooks::rotate_secret))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::list_deliveries))
        .routes(routes!(replays::attempts))
        .routes(routes!(replays::replay))
        .routes(routes!(replays::list))
        .routes(routes!(replays::replay_delivery))
        .routes(routes!(replays::recover))
        .routes(routes!(notices::list))
        .routes(routes!(stats::get))
        .routes(routes!(stats::endpoints))
        .routes(routes!(workspaces::get, workspaces::update))
        .routes(routes!(workspaces::list, workspaces::create))
        .routes(routes!(credits::get))
        .routes(routes!(credits::grant))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::get, keys::update, keys::delete))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::revoke))
        .routes(routes!(stream::follow))
        .routes(routes!(openapi::document))
        .routes(routes!(server::get))
        .routes(routes!(find::get))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// The API as a service. What it does not know is answered 404 in its own shape.
pub fn router(state: ApiState) -> Router {
    let api: Api = Arc::new(state);
    let (router, _) = routes().split_for_parts();
    let router = router
        .merge(tunnel::routes())
        .merge(dashboard::routes(&api))
        .fallback(dashboard::no_such_path)
        .method_not_allowed_fallback(frame::no_such_method)
        .layer(from_fn_with_state(Arc::clone(&api), frame::frame))
        .with_state(api);
    Router::new().nest(compat::PREFIX, compat::over(router.clone())).fallback_service(router)
}
