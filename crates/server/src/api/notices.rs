//! Notices: what the owners of a workspace are told.

use axum::Json;
use axum::extract::State;
use restante_store::record::Notice;

use super::auth::{Caller, NoticesRead};
use super::error::ApiError;
use super::query::{Listing, NoFilter, Paging};
use super::{Api, wire};

/// List notices
///
/// A webhook became degraded, or was paused because it kept failing.
#[utoipa::path(
    get, path = "/v1/notices", operation_id = "notices.list", tag = "notices",
    params(Paging), responses((status = 200, body = wire::Page<wire::Notice>)),
    security(("key" = ["notices:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<NoticesRead>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Notice>>, ApiError> {
    let notices = api.store.list::<Notice>(Some(caller.workspace), None, listing.page).await?;
    Ok(Json(wire::Page::new(notices, listing.page.total, wire::Notice::from)))
}
