//! Who calls, and what they may do.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use restante_core::Timestamp;
use restante_core::id::{self, ApiKeyId, WorkspaceId};
use restante_store::record::{ApiKey, Record, Workspace};

use super::error::ApiError;
use super::records::{self, Place};
use super::{Api, ApiState, token};

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
    /// See the workspace and its credits.
    WorkspaceRead = "workspace:read";
    /// Change the workspace.
    WorkspaceWrite = "workspace:write";
    /// Make, change and delete keys.
    KeysManage = "keys:manage";
    /// Everything, everywhere.
    Admin = "admin";
}

/// The holder of a valid key with the scope `S`, and the workspace the call is about.
pub(crate) struct Caller<S> {
    pub(crate) workspace: WorkspaceId,
    scopes: Vec<String>,
    wanted: PhantomData<S>,
}

impl<S: Scope> Caller<S> {
    /// Wants another scope for a part of what the call does.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub(crate) fn require<Other: Scope>(&self) -> Result<(), ApiError> {
        require(&self.scopes, Other::NAME)
    }

    /// Where a record of the workspace is looked for.
    pub(crate) fn place<T: restante_store::record::Kept>(&self, id: id::Id<T::IdKind>) -> Place<T> {
        Place { workspace: self.workspace, parent: None, id }
    }
}

fn require(scopes: &[String], wanted: &str) -> Result<(), ApiError> {
    if scopes.iter().any(|scope| scope == wanted || scope == ADMIN) {
        Ok(())
    } else {
        Err(ApiError::insufficient_scope(wanted))
    }
}

impl<S: Scope> FromRequestParts<Api> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let key = authenticate(api, bearer(&parts.headers)?).await?;
        require(&key.body.scopes, S::NAME)?;
        let workspace = match parts.headers.get(WORKSPACE_HEADER) {
            None => key.workspace,
            Some(named) => {
                require(&key.body.scopes, ADMIN)?;
                find_workspace(api, named.to_str().unwrap_or_default()).await?
            }
        };
        Ok(Self { workspace, scopes: key.body.scopes, wanted: PhantomData })
    }
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

async fn authenticate(api: &ApiState, token: &str) -> Result<Record<ApiKey>, ApiError> {
    // The lookup is by hash: what it takes says nothing about how much of a guess is right.
    let key = api.store.find::<ApiKey>(&token::hash(token)).await?;
    let key = key.ok_or_else(|| ApiError::unauthorized("invalid_api_key", "this API key is not known"))?;
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
