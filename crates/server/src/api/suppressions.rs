//! Suppressions: mailboxes that get nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::email::Address;
use restante_core::id::{Tail, WorkspaceId, kind};
use restante_core::limits;
use restante_store::email::suppression_key;
use restante_store::record::{Record, Suppression, SuppressionReason, Written};
use restante_store::{Page, Start};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{Caller, SuppressionsRead, SuppressionsWrite};
use super::body::Body;
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, written};
use super::{Api, ApiState, wire};

/// How often a mailbox is looked for that comes and goes at the same time.
const TRIES: usize = 8;

/// A mailbox that is to get nothing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuppressionInput {
    /// However it is written: case and needless quotes make no other mailbox.
    email: String,
}

/// Suppress a mailbox
///
/// No email is sent to it any more. One that is suppressed already is answered as it is.
#[utoipa::path(
    post, path = "/v1/suppressions", operation_id = "suppressions.add", tag = "suppressions",
    request_body = SuppressionInput,
    responses(
        (status = 201, body = wire::Suppression),
        (status = 200, body = wire::Suppression, description = "It was suppressed already"),
    ),
    security(("key" = ["suppressions:write"])), extensions(("x-retry-class" = json!("no_op_when_done"))),
)]
pub(crate) async fn add(
    State(api): State<Api>,
    caller: Caller<SuppressionsWrite>,
    Body(input): Body<SuppressionInput>,
) -> Result<(StatusCode, Json<wire::Suppression>), ApiError> {
    let address = Address::from_parts(&input.email, None)
        .map_err(|fault| ApiError::invalid("invalid_field", fault.to_string()).on("email"))?;
    for _ in 0..TRIES {
        let reason = SuppressionReason::Manual;
        let suppression = Suppression { email: address.email.clone(), reason, detail: None };
        let tail = Tail::from_bits(api.clock.draw());
        match api.store.make(Some(caller.workspace), None, suppression, tail, api.clock.now()).await? {
            Written::NameTaken => {}
            done @ (Written::Done(_) | Written::NotFound | Written::TooMany | Written::Stale) => {
                return Ok((StatusCode::CREATED, Json(written(done)?.into())));
            }
        }
        if let Some(found) = find(&api, caller.workspace, &address.email).await? {
            return Ok((StatusCode::OK, Json(found.into())));
        }
    }
    Err(ApiError::conflict("conflict", "others are changing this at the same time; try again"))
}

/// List suppressions
#[utoipa::path(
    get, path = "/v1/suppressions", operation_id = "suppressions.list", tag = "suppressions",
    params(Paging), responses((status = 200, body = wire::Page<wire::Suppression>)),
    security(("key" = ["suppressions:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<SuppressionsRead>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Suppression>>, ApiError> {
    let NoFilter {} = listing.filter;
    let found = api.store.list::<Suppression>(Some(caller.workspace), None, listing.page).await?;
    Ok(Json(wire::Page::new(found, listing.page.total, wire::Suppression::from)))
}

/// Delete a suppression
///
/// The mailbox gets emails again.
#[utoipa::path(
    delete, path = "/v1/suppressions/{id}", operation_id = "suppressions.delete", tag = "suppressions",
    params(("id" = String, Path, description = "`sup_…`")), responses((status = 204, description = "Deleted")),
    security(("key" = ["suppressions:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<SuppressionsWrite>,
    One(id): One<kind::Suppression>,
) -> Result<StatusCode, ApiError> {
    records::delete(&api, &caller.place::<Suppression>(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The suppression of a mailbox, if there is one.
async fn find(
    api: &ApiState,
    workspace: WorkspaceId,
    email: &str,
) -> Result<Option<Record<Suppression>>, ApiError> {
    let wanted = suppression_key(email);
    let mut page = Page::newest(limits::PAGE_MAX);
    loop {
        let paged = api.store.list::<Suppression>(Some(workspace), None, page).await?;
        let found = paged.items.into_iter().find(|it| suppression_key(&it.body.email) == wanted);
        match (found, paged.next) {
            (Some(found), _) => return Ok(Some(found)),
            (None, Some(next)) => page.start = Start::After(next),
            (None, None) => return Ok(None),
        }
    }
}
