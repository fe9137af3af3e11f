//! Credits: what a workspace may still use, and what it used.

use axum::Json;
use axum::extract::State;
use restante_core::id::{WorkspaceId, kind};
use restante_core::limits;
use restante_store::record::Workspace;
use restante_store::{Grant, Page};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::auth::{Admin, Caller, WorkspaceRead};
use super::body::Body;
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, Place};
use super::{Api, ApiState, wire};

/// Longest note of a grant, in characters.
const NOTE_CHARS_MAX: usize = 500;

/// A change of a balance: either `delta`, or `balance: null`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantInput {
    /// From then on there is a balance, changed by this much.
    delta: Option<i64>,
    /// Only null: from then on nothing is counted.
    #[serde(default, deserialize_with = "present_null")]
    #[schema(value_type = Option<i64>)]
    balance: bool,
    /// Shown in the ledger, at most 500 characters.
    note: Option<String>,
}

/// Whether a field that may only be null is there.
fn present_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Option::<IgnoredAny>::deserialize(deserializer)? {
        None => Ok(true),
        Some(_) => Err(D::Error::custom("must be null; `delta` changes a balance")),
    }
}

/// Get the credits
///
/// The balance, and a page of what changed it.
#[utoipa::path(
    get, path = "/v1/workspace/credits", operation_id = "workspace.get_credits", tag = "workspaces",
    params(Paging), responses((status = 200, body = wire::Credits)),
    security(("key" = ["workspace:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<WorkspaceRead>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Credits>, ApiError> {
    show(&api, caller.workspace, listing.page).await.map(Json)
}

/// Grant credits to a workspace
#[utoipa::path(
    post, path = "/v1/workspaces/{id}/credits", operation_id = "workspaces.grant_credits", tag = "workspaces",
    params(("id" = String, Path, description = "`ws_…`")), request_body = GrantInput,
    responses((status = 200, body = wire::Credits)),
    security(("key" = ["admin"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn grant(
    State(api): State<Api>,
    _: Caller<Admin>,
    One(id): One<kind::Workspace>,
    Body(input): Body<GrantInput>,
) -> Result<Json<wire::Credits>, ApiError> {
    let (grant, note) = input.read()?;
    let place = Place::<Workspace> { workspace: id, parent: None, id };
    records::get(&api, &place).await?;
    api.store.grant(id, grant, note, api.clock.now()).await?;
    show(&api, id, Page::newest(limits::PAGE_DEFAULT)).await.map(Json)
}

async fn show(api: &ApiState, workspace: WorkspaceId, page: Page) -> Result<wire::Credits, ApiError> {
    let balance = api.store.balance(workspace).await?;
    let ledger = api.store.ledger(workspace, page).await?;
    Ok(wire::Credits { balance, ledger: wire::Page::new(ledger, page.total, wire::Charge::from) })
}

impl GrantInput {
    fn read(self) -> Result<(Grant, String), ApiError> {
        let note = self.note.unwrap_or_default();
        if note.chars().nth(NOTE_CHARS_MAX).is_some() {
            return Err(ApiError::invalid("invalid_field", "note must be at most 500 characters").on("note"));
        }
        let grant = match (self.delta, self.balance) {
            (Some(delta), false) => Grant::Delta(delta),
            (None, true) => Grant::Unlimited,
            (Some(_), true) | (None, false) => {
                return Err(
                    ApiError::invalid("invalid_field", "give either delta or `balance: null`").on("delta")
                );
            }
        };
        Ok((grant, note))
    }
}
