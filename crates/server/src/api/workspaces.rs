//! Workspaces: the caller's own, and for administrators all of them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::endpoint::Source;
use restante_core::id::{Tail, WorkspaceId};
use restante_core::limits;
use restante_store::record::{Quotas, Record, Workspace};
use restante_store::{Page, Start};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{ADMIN, Admin, Caller, SCOPES, WorkspaceRead, WorkspaceWrite};
use super::body::{Body, Change};
use super::error::ApiError;
use super::fault::Faults;
use super::name::apply_name;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, written};
use super::{Api, ApiState, token, wire};

/// Most owners of a workspace.
const OWNERS_MAX: usize = 20;
/// Longest mail address, in characters (RFC 5321, 4.5.3.1.3).
const ADDRESS_CHARS_MAX: usize = 254;

/// Settings of a workspace. `name` is required in a new one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceInput {
    #[schema(value_type = String)]
    #[serde(default)]
    name: Change<String>,
    /// Mail addresses that are told about trouble, at most 20.
    #[schema(value_type = Option<Vec<String>>)]
    #[serde(default)]
    owners: Change<Vec<String>>,
    /// Most `retention_days` its sources may have, 1 to 365; 365 unless set. Only an administrator sets it.
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    retention_days_max: Change<u32>,
    /// How many of each there may be in it, all of them; none has one unless set. Only an administrator sets them.
    #[schema(value_type = Option<wire::Quotas>)]
    #[serde(default)]
    quotas: Change<wire::Quotas>,
}

/// Get the workspace
#[utoipa::path(
    get, path = "/v1/workspace", operation_id = "workspace.get", tag = "workspaces",
    responses((status = 200, body = wire::Workspace)), security(("key" = ["workspace:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<WorkspaceRead>,
) -> Result<Json<wire::Workspace>, ApiError> {
    let workspace = records::get(&api, &caller.place::<Workspace>(caller.workspace)).await?;
    show(&api, workspace).await.map(Json)
}

/// Change the workspace
///
/// What is absent stays; what is null goes back to its default.
#[utoipa::path(
    patch, path = "/v1/workspace", operation_id = "workspace.update", tag = "workspaces",
    request_body = WorkspaceInput,
    responses((status = 200, body = wire::Workspace), (status = 409, description = "`retention_in_use`")),
    security(("key" = ["workspace:write"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<WorkspaceWrite>,
    Body(input): Body<WorkspaceInput>,
) -> Result<Json<wire::Workspace>, ApiError> {
    if input.retention_days_max != Change::Keep || input.quotas != Change::Keep {
        caller.require::<Admin>()?;
    }
    if let Change::Set(days) = input.retention_days_max {
        refuse_below_sources(&api, caller.workspace, days).await?;
    }
    let apply = |workspace: &mut Workspace| input.clone().apply(workspace);
    let workspace = records::change(&api, &caller.place::<Workspace>(caller.workspace), apply).await?;
    show(&api, workspace).await.map(Json)
}

/// List all workspaces
#[utoipa::path(
    get, path = "/v1/workspaces", operation_id = "workspaces.list", tag = "workspaces",
    params(Paging), responses((status = 200, body = wire::Page<wire::Workspace>)),
    security(("key" = ["admin"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    _: Caller<Admin>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Workspace>>, ApiError> {
    let found = api.store.list::<Workspace>(None, None, listing.page).await?;
    let mut balances = Vec::with_capacity(found.items.len());
    for workspace in &found.items {
        balances.push(api.store.balance(workspace.id).await?);
    }
    let mut balances = balances.into_iter();
    let wire = |workspace| wire::Workspace::new(workspace, balances.next().flatten(), None);
    Ok(Json(wire::Page::new(found, listing.page.total, wire)))
}

/// Create a workspace
///
/// With a first key, that may do everything in it.
#[utoipa::path(
    post, path = "/v1/workspaces", operation_id = "workspaces.create", tag = "workspaces",
    request_body = WorkspaceInput, responses((status = 201, body = wire::Workspace)),
    security(("key" = ["admin"])), extensions(("x-retry-class" = json!("creates"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    _: Caller<Admin>,
    Body(input): Body<WorkspaceInput>,
) -> Result<(StatusCode, Json<wire::Workspace>), ApiError> {
    if !matches!(input.name, Change::Set(_)) {
        return Err(ApiError::invalid("missing_field", "name is required").on("name"));
    }
    let mut workspace = Workspace::new(String::new(), Vec::new());
    input.apply(&mut workspace)?;
    let (now, tail) = (api.clock.now(), || Tail::from_bits(api.clock.draw()));
    let workspace = written(api.store.make(None, None, workspace, tail(), now).await?)?;
    let secret = token::new_token(&*api.clock, token::LIVE_PREFIX);
    let scopes = SCOPES.iter().filter(|scope| **scope != ADMIN).map(|scope| (*scope).to_owned()).collect();
    let key = token::api_key(&secret, "First key".into(), scopes);
    let key = written(api.store.make(Some(workspace.id), None, key, tail(), now).await?)?;
    let key = wire::ApiKey::new(key, None).with_token(secret);
    Ok((StatusCode::CREATED, Json(wire::Workspace::new(workspace, None, Some(key)))))
}

async fn show(api: &ApiState, workspace: Record<Workspace>) -> Result<wire::Workspace, ApiError> {
    let credits = api.store.balance(workspace.id).await?;
    Ok(wire::Workspace::new(workspace, credits, None))
}

/// A source must never keep longer than its workspace allows: it is shortened first, knowingly, since that erases.
async fn refuse_below_sources(api: &ApiState, workspace: WorkspaceId, days: u32) -> Result<(), ApiError> {
    let mut page = Page::newest(limits::PAGE_MAX);
    loop {
        let sources = api.store.list::<Source>(Some(workspace), None, page).await?;
        if let Some(longer) = sources.items.iter().find(|source| source.body.retention_days > days) {
            let message =
                format!("the source {} keeps for {} days", longer.body.name, longer.body.retention_days);
            return Err(ApiError::conflict("retention_in_use", message).on("retention_days_max"));
        }
        let Some(next) = sources.next else { return Ok(()) };
        page.start = Start::After(next);
    }
}

impl WorkspaceInput {
    fn apply(self, workspace: &mut Workspace) -> Result<(), ApiError> {
        let mut faults = Faults::default();
        apply_name(self.name, &mut workspace.name, &mut faults);
        self.owners.apply(&mut workspace.owners, Vec::new());
        self.retention_days_max.apply(&mut workspace.retention_days_max, *limits::RETENTION_DAYS.end());
        match self.quotas {
            Change::Keep => {}
            Change::Reset => workspace.quotas = Quotas::default(),
            Change::Set(quotas) => workspace.quotas = quotas.into(),
        }
        faults.unless(workspace.owners.len() <= OWNERS_MAX, "owners", "must be at most 20");
        for (index, owner) in workspace.owners.iter().enumerate() {
            faults.unless(is_address(owner), &format!("owners[{index}]"), "must be a mail address");
        }
        let fine = limits::RETENTION_DAYS.contains(&workspace.retention_days_max);
        faults.unless(fine, "retention_days_max", "must be 1 to 365");
        faults.finish()
    }
}

/// Whether a text looks like a mail address. Only sending to it shows whether it is one.
fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
        && text.chars().count() <= ADDRESS_CHARS_MAX
        && !text.chars().any(|char| char.is_whitespace() || char.is_control())
        && !text.contains(['<', '>', ','])
}
