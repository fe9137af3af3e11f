//! The client: one description of each call, made in a task ([`Client`]) or in a thread ([`crate::blocking::Client`]).

mod answer;
mod budget;
mod course;
mod draft;
mod listing;
mod live;
mod nouns;
mod pending;
mod pools;
mod runtime;
mod setup;
#[cfg(test)]
mod tests;
mod time;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use url::Url;

use crate::calls::Call;

pub use answer::{Answer, Answered};
pub use listing::{Items, Listing, Pages};
pub use live::{Follow, Live, LiveStream};
pub use pending::Pending;
pub use setup::{ClientBuilder, SetupFault};

use draft::Draft;

/// A client of one server, as one key's holder. Cloning it is cheap; clones share connections and the retry budget.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use restante_sdk::Client;
/// use restante_sdk::wire::PublishEvent;
///
/// let client = Client::from_env()?;
/// let event = PublishEvent::new("invoice.paid", &serde_json::json!({"invoice": "inv_4192"}))?;
/// let published = client.events().publish(&event).idempotency_key("invoice-paid:inv_4192").await?;
/// println!("{} goes to {} webhooks", published.id, published.deliveries);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// The workspace to act in; only for keys that may choose.
    workspace: Option<HeaderValue>,
}

/// What all clones of a client have in common.
struct Shared {
    pools: pools::Pools,
    /// Scheme, host and the path before `/v1`, without a slash at the end unless it is all of it.
    base: Url,
    authorization: HeaderValue,
    options: Options,
    budget: budget::Budget,
    time: Box<dyn time::Time>,
}

/// How calls are made unless they say otherwise.
#[derive(Clone, Copy, Debug)]
struct Options {
    timeout: Duration,
    deadline: Option<Duration>,
    max_retries: u32,
}

impl Client {
    /// A client of the server at `url` (`https://…`, or `http://` to this machine) with an API key.
    ///
    /// # Errors
    /// [`SetupFault`]: the URL or the key cannot be used.
    pub fn new(url: &str, api_key: &str) -> Result<Self, SetupFault> {
        ClientBuilder::new(url, api_key).build()
    }

    /// A client as the environment says: `RESTANTE_URL` (else `http://127.0.0.1:8420`) and `RESTANTE_API_KEY`.
    ///
    /// # Errors
    /// [`SetupFault`]: there is no key, or something cannot be used.
    pub fn from_env() -> Result<Self, SetupFault> {
        ClientBuilder::from_env()?.build()
    }

    /// The same client, acting in this workspace. Only keys with the scope `admin` may choose.
    ///
    /// # Errors
    /// [`SetupFault::Workspace`]: no id can look like this.
    pub fn in_workspace(&self, id: &str) -> Result<Self, SetupFault> {
        let workspace = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        let workspace = workspace.ok_or(SetupFault::Workspace)?;
        Ok(Self { shared: Arc::clone(&self.shared), workspace: Some(workspace) })
    }

    /// Any call, by method and path (from `/v1`, without query). What [`crate::calls`] lists is classed and keyed as
    /// there; of the rest, GET and HEAD are retried, and everything else is sent once.
    pub fn request(&self, method: Method, path: &str) -> Pending<Self, Answer> {
        Pending::bare(self, method, path)
    }

    /// A listed call for which the table has no route, or another.
    pub fn request_as(&self, call: &'static Call, method: Method, path: &str) -> Pending<Self, Answer> {
        Pending::bare_as(self, call, method, path)
    }

    /// The same client for threads. Both share connections and the retry budget.
    pub fn blocking(&self) -> crate::blocking::Client {
        crate::blocking::Client(self.clone())
    }
}

/// Shows where it goes, and nothing of the key.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.shared.base.as_str()).finish_non_exhaustive()
    }
}
