//! Who calls, and what they may do.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use restante_core::Timestamp;
use restante_core::id::{self, ApiKeyId, WorkspaceId};
use restante_core::message::MessageId;
use restante_store::record::{ApiKey, Mode, Record, Workspace};

use super::error::ApiError;
use super::records::{self, Place};
use super::{Api, ApiState, token};
use crate::dashboard;
use crate::rate_limit::Counted;
use crate::trace::Call;

/// Implies all scopes, makes workspaces, and acts in any of them.
pub(crate) const ADMIN: &str = "admin";
/// By which an administrator names the workspace to act in.
const WORKSPACE_HEADER: &str = "x-workspace-id";

/// A scope, as a type: a handler's signature says which one it wants.
pub(crate) trait Scope: Send + Sync + 'static {
    const NAME: &'static str;
}

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $( $(#[$doc])* pub(crate) struct $name; impl Scope for $name { const NAME: &'static str = $text; } )*
        /// All scopes a key can have.
        pub(crate) const SCOPES: &[&str] = &[$($text),*];
    };
}

scopes! {
    /// See sources and their destinations.
    SourcesRead = "sources:read";
    /// Make, change and delete sources and their destinations.
    SourcesWrite = "sources:write";
    /// See requests and their bodies.
    RequestsRead = "requests:read";
    /// Replay and delete requests.
    RequestsWrite = "requests:write";
    /// See deliveries and attempts.
    DeliveriesRead = "deliveries:read";
    /// Cancel and retry deliveries.
    DeliveriesWrite = "deliveries:write";
    /// Publish events.
    EventsPublish = "events:publish";
    /// See events and their deliveries.
    EventsRead = "events:read";
    /// Send, cancel and change emails.
    EmailsSend = "emails:send";
    /// See emails.
    EmailsRead = "emails:read";
    /// See templates.
    TemplatesRead = "templates:read";
    /// Make, change, publish and delete templates.
    TemplatesWrite = "templates:write";
    /// See domains.
    DomainsRead = "domains:read";
    /// Make, verify and delete domains.
    DomainsWrite = "domains:write";
    /// See suppressions.
    SuppressionsRead = "suppressions:read";
    /// Make and delete suppressions.
    SuppressionsWrite = "suppressions:write";
    /// See webhooks, their attempts and replays.
    WebhooksRead = "webhooks:read";
    /// Make, change, test, replay and delete webhooks.
    WebhooksWrite = "webhooks:write";
    /// See what owners are told.
    NoticesRead = "notices:read";
    /// See the workspace and its credits.
    WorkspaceRead = "workspace:read";
    /// Change the workspace.
    WorkspaceWrite = "workspace:write";
    /// Make, change and delete keys.
    KeysManage = "keys:manage";
    /// Everything, everywhere.
    Admin = "admin";
}

/// What every valid key has.
pub(crate) struct Anyone;

impl Scope for Anyone {
    const NAME: &'static str = "";
}

/// The holder of a valid key with the scope `S`, and the workspace the call is about.
pub(crate) struct Caller<S> {
    pub(crate) workspace: WorkspaceId,
    key: Arc<Record<ApiKey>>,
    /// `None`: the call is not traced.
    call: Option<Call>,
    wanted: PhantomData<S>,
}

impl<S: Scope> Caller<S> {
    /// Wants another scope for a part of what the call does.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub(crate) fn require<Other: Scope>(&self) -> Result<(), ApiError> {
        require(&self.key.body.scopes, Other::NAME)
    }

    /// What the call was made with.
    pub(crate) fn key(&self) -> &Record<ApiKey> {
        &self.key
    }

    /// Of the key: emails of the two modes do not see each other.
    pub(crate) fn mode(&self) -> Mode {
        self.key.body.mode
    }

    /// Tells that the call's commit, from `arrived` by the steady clock until now, made messages.
    pub(crate) fn made(&self, api: &ApiState, messages: impl Iterator<Item = MessageId>, arrived: Duration) {
        if let (Some(tracer), Some(call)) = (&api.tracer, self.call) {
            tracer.made(call, messages, (arrived, api.clock.monotonic()));
        }
    }

    /// Where a record of the workspace is looked for.
    pub(crate) fn place<T: restante_store::record::Kept>(&self, id: id::Id<T::IdKind>) -> Place<T> {
        Place { workspace: self.workspace, parent: None, id }
    }
}

fn require(scopes: &[String], wanted: &str) -> Result<(), ApiError> {
    if wanted == Anyone::NAME || scopes.iter().any(|scope| scope == wanted || scope == ADMIN) {
        Ok(())
    } else {
        Err(ApiError::insufficient_scope(wanted))
    }
}

impl<S: Scope> FromRequestParts<Api> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        // Whoever brings a key means that one. Others may have a session.
        let session = if parts.headers.contains_key(header::AUTHORIZATION) {
            None
        } else {
            dashboard::key_of(api, parts)?
        };
        let key = match session {
            Some(hash) => authenticate_hash(api, &hash).await?,
            None => authenticate(api, &parts.headers).await?,
        };
        count(api, parts, key.id)?;
        require(&key.body.scopes, S::NAME)?;
        let workspace = match parts.headers.get(WORKSPACE_HEADER) {
            None => key.workspace,
            Some(named) => {
                require(&key.body.scopes, ADMIN)?;
                find_workspace(api, named.to_str().unwrap_or_default()).await?
            }
        };
        let call = api.tracer.as_ref().and_then(|_| parts.extensions.get().copied());
        Ok(Self { workspace, key, call, wanted: PhantomData })
    }
}

/// Counts a call by the rate of its key.
///
/// # Errors
/// 429 when the key calls too often. `frame` tells when to come back.
fn count(api: &ApiState, parts: &Parts, key: ApiKeyId) -> Result<(), ApiError> {
    let (Some(limit), Some(counted)) = (&api.limits.keys, parts.extensions.get::<Counted>()) else {
        return Ok(());
    };
    let standing = counted.once(|| {
        let standing = limit.take(key, api.clock.monotonic());
        if !standing.admitted {
            api.counters.call_rate_limited();
        }
        standing
    });
    if standing.admitted { Ok(()) } else { Err(ApiError::rate_limited("this key", &standing)) }
}

/// The token of `Authorization: Bearer …`.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(header) = header else {
        return Err(ApiError::unauthorized(
            "missing_api_key",
            "this needs a header Authorization: Bearer KEY",
        ));
    };
    let token = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map(|(_, token)| token.trim()).ok_or_else(|| {
        ApiError::unauthorized("invalid_api_key", "the Authorization header must be: Bearer KEY")
    })
}

/// The key whose token a call brings.
async fn authenticate(api: &ApiState, headers: &HeaderMap) -> Result<Arc<Record<ApiKey>>, ApiError> {
    // The lookup is by hash: what it takes says nothing about how much of a guess is right.
    authenticate_hash(api, &token::hash(bearer(headers)?)).await
}

/// The key with this hash, if it is good.
///
/// # Errors
/// 401 when it is not known, or revoked.
pub(crate) async fn authenticate_hash(api: &ApiState, hash: &str) -> Result<Arc<Record<ApiKey>>, ApiError> {
    let known = api.keys.get(hash, api.clock.monotonic());
    let key = match known {
        Some(key) => key,
        None => {
            let generation = api.keys.generation();
            let key = api.store.find::<ApiKey>(hash).await?;
            let unknown = || ApiError::unauthorized("invalid_api_key", "this API key is not known");
            let key = Arc::new(key.ok_or_else(unknown)?);
            api.keys.put(hash.to_owned(), Arc::clone(&key), generation, api.clock.monotonic());
            key
        }
    };
    if key.body.revoked_at.is_some() {
        return Err(ApiError::unauthorized("revoked_api_key", "this API key was revoked"));
    }
    api.last_used.note(&key, api.clock.now());
    Ok(key)
}

async fn find_workspace(api: &ApiState, named: &str) -> Result<WorkspaceId, ApiError> {
    let id = WorkspaceId::from_str(named).map_err(|_| ApiError::not_found::<id::kind::Workspace>())?;
    Ok(records::get(api, &Place::<Workspace> { workspace: id, parent: None, id }).await?.id)
}

/// How long a key is known without asking the store: what another node changed counts here after that.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Keys known at once.
const KNOWN_MAX: usize = 10_000;

/// Keys that were used a moment ago, by the hashes of their tokens.
#[derive(Debug, Default)]
pub struct KnownKeys(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<String, (Arc<Record<ApiKey>>, Duration)>,
    /// Counts what was forgotten: what was read before then must not be put back.
    generation: u64,
}

impl KnownKeys {
    fn get(&self, hash: &str, now: Duration) -> Option<Arc<Record<ApiKey>>> {
        let known = self.known();
        let (key, since) = known.keys.get(hash)?;
        (now.saturating_sub(*since) < KNOWN_FOR).then(|| Arc::clone(key))
    }

    fn generation(&self) -> u64 {
        self.known().generation
    }

    fn put(&self, hash: String, key: Arc<Record<ApiKey>>, generation: u64, now: Duration) {
        let mut known = self.known();
        if known.generation != generation {
            return;
        }
        if known.keys.len() >= KNOWN_MAX {
            known.keys.clear();
        }
        known.keys.insert(hash, (key, now));
    }

    /// Forgets all keys: one was changed here, and that counts at once.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.keys.clear();
        known.generation += 1;
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When keys were last used, until that is written down. A write for each call would cost more than the call.
#[derive(Debug, Default)]
pub struct LastUsed(Mutex<HashMap<ApiKeyId, (WorkspaceId, Timestamp)>>);

impl LastUsed {
    fn note(&self, key: &Record<ApiKey>, now: Timestamp) {
        self.noted().insert(key.id, (key.workspace, now));
    }

    /// What is noted about a key.
    pub(crate) fn get(&self, key: ApiKeyId) -> Option<Timestamp> {
        self.noted().get(&key).map(|(_, at)| *at)
    }

    /// Writes down what was noted, and keeps what could not be written.
    pub(crate) async fn flush(&self, api: &ApiState) -> Result<(), restante_store::Error> {
        let noted = std::mem::take(&mut *self.noted());
        let mut left = noted.into_iter();
        while let Some((id, (workspace, at))) = left.next() {
            let place = Place::<ApiKey> { workspace, parent: None, id };
            let changed = records::change(api, &place, |key| {
                key.last_used_at = key.last_used_at.max(Some(at));
                Ok(())
            });
            // A key that is gone, or that others keep changing, is not worth more effort.
            if let Err(error) = changed.await
                && let Some(cause) = error.cause
            {
                let mut noted = self.noted();
                noted.entry(id).or_insert((workspace, at));
                left.for_each(|(id, use_)| _ = noted.entry(id).or_insert(use_));
                return Err(restante_store::Error::Unavailable(cause));
            }
        }
        Ok(())
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, HashMap<ApiKeyId, (WorkspaceId, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use restante_core::id::Tail;

    use super::*;

    fn key() -> Arc<Record<ApiKey>> {
        let at = Timestamp::from_millis(0);
        let id = ApiKeyId::new(id::Key::from_value(1), Tail::from_bits(1));
        let workspace = WorkspaceId::from_uuid(1);
        let body = token::api_key("rst_live_x", "k".into(), Vec::new());
        Arc::new(Record { id, workspace, parent: None, version: 1, created_at: at, updated_at: at, body })
    }

    #[test]
    fn a_key_is_known_for_a_second() {
        let (known, since) = (KnownKeys::default(), Duration::from_secs(9));
        known.put("hash".into(), key(), known.generation(), since);
        assert!(known.get("hash", since).is_some() && known.get("other", since).is_none());
        assert!(known.get("hash", since + Duration::from_millis(999)).is_some());
        assert!(known.get("hash", since + Duration::from_secs(1)).is_none());
    }

    #[test]
    fn what_was_read_before_a_change_is_not_known_after_it() {
        let (known, now) = (KnownKeys::default(), Duration::ZERO);
        let read_at = known.generation();
        known.forget();
        known.put("hash".into(), key(), read_at, now);
        assert!(known.get("hash", now).is_none());
        known.put("hash".into(), key(), known.generation(), now);
        known.forget();
        assert!(known.get("hash", now).is_none());
    }

    #[test]
    fn no_more_than_so_many_keys_are_known() {
        let (known, now) = (KnownKeys::default(), Duration::ZERO);
        for number in 0..=KNOWN_MAX {
            known.put(number.to_string(), key(), known.generation(), now);
        }
        assert!(known.get(&KNOWN_MAX.to_string(), now).is_some());
        assert!(known.known().keys.len() <= KNOWN_MAX);
    }
}
