//! Keys: who may call.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::id::{ApiKeyId, Tail, kind};
use restante_store::record::{ApiKey, Mode, Record};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{ADMIN, Admin, Caller, KeysManage, SCOPES};
use super::body::{Body, Change};
use super::error::ApiError;
use super::fault::Faults;
use super::name::apply_name;
use super::path::One;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, written};
use super::{Api, ApiState, token, wire};

/// A new key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    name: String,
    /// What it may do: `admin`, `keys:manage`, `events:publish`, `events:read`, `emails:send`, `emails:read`,
    /// `notices:read`, or `<resource>:read` or `<resource>:write` of `sources`, `requests`, `deliveries`, `webhooks`,
    /// `templates`, `domains`, `suppressions` and `workspace`.
    scopes: Vec<String>,
    /// `live` unless given.
    #[schema(value_type = Option<String>)]
    mode: Option<Mode>,
}

/// A change of a key.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyInput {
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    name: Change<String>,
    #[schema(value_type = Option<Vec<String>>)]
    #[serde(default)]
    scopes: Change<Vec<String>>,
}

/// Create a key
///
/// Its token is shown only here.
#[utoipa::path(
    post, path = "/v1/keys", operation_id = "keys.create", tag = "keys",
    request_body = NewKey, responses((status = 201, body = wire::ApiKey)),
    security(("key" = ["keys:manage"])), extensions(("x-retry-class" = json!("creates"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    Body(new): Body<NewKey>,
) -> Result<(StatusCode, Json<wire::ApiKey>), ApiError> {
    let secret = token::new_token(&*api.clock, prefix(new.mode.unwrap_or(Mode::Live)));
    let mut key = token::api_key(&secret, String::new(), Vec::new());
    let input = KeyInput { name: Change::Set(new.name), scopes: Change::Set(new.scopes) };
    input.apply(&mut key)?;
    guard_admin(&caller, &key)?;
    let tail = Tail::from_bits(api.clock.draw());
    let made = written(api.store.make(Some(caller.workspace), None, key, tail, api.clock.now()).await?)?;
    Ok((StatusCode::CREATED, Json(wire::ApiKey::new(made, None).with_token(secret))))
}

/// List keys
#[utoipa::path(
    get, path = "/v1/keys", operation_id = "keys.list", tag = "keys",
    params(Paging), responses((status = 200, body = wire::Page<wire::ApiKey>)),
    security(("key" = ["keys:manage"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::ApiKey>>, ApiError> {
    let keys = api.store.list::<ApiKey>(Some(caller.workspace), None, listing.page).await?;
    Ok(Json(wire::Page::new(keys, listing.page.total, |key| show(&api, key))))
}

/// Get a key
#[utoipa::path(
    get, path = "/v1/keys/{id}", operation_id = "keys.get", tag = "keys",
    params(("id" = String, Path, description = "`key_…`")), responses((status = 200, body = wire::ApiKey)),
    security(("key" = ["keys:manage"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    One(id): One<kind::ApiKey>,
) -> Result<Json<wire::ApiKey>, ApiError> {
    let key = records::get(&api, &caller.place::<ApiKey>(id)).await?;
    Ok(Json(show(&api, key)))
}

/// Change a key
#[utoipa::path(
    patch, path = "/v1/keys/{id}", operation_id = "keys.update", tag = "keys",
    params(("id" = String, Path, description = "`key_…`")), request_body = KeyInput,
    responses((status = 200, body = wire::ApiKey)),
    security(("key" = ["keys:manage"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    One(id): One<kind::ApiKey>,
    Body(input): Body<KeyInput>,
) -> Result<Json<wire::ApiKey>, ApiError> {
    change(&api, &caller, id, |key| input.clone().apply(key)).await.map(Json)
}

/// Delete a key
#[utoipa::path(
    delete, path = "/v1/keys/{id}", operation_id = "keys.delete", tag = "keys",
    params(("id" = String, Path, description = "`key_…`")), responses((status = 204, description = "Deleted")),
    security(("key" = ["keys:manage"])), extensions(("x-retry-class" = json!("deletes"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    One(id): One<kind::ApiKey>,
) -> Result<StatusCode, ApiError> {
    let place = caller.place::<ApiKey>(id);
    guard_admin(&caller, &records::get(&api, &place).await?.body)?;
    let deleted = records::delete(&api, &place).await;
    api.keys.forget();
    deleted.map(|()| StatusCode::NO_CONTENT)
}

/// Give a key a new token
///
/// The old one stops working at once. The new one is shown only here.
#[utoipa::path(
    post, path = "/v1/keys/{id}/rotate", operation_id = "keys.rotate", tag = "keys",
    params(("id" = String, Path, description = "`key_…`")),
    responses((status = 200, body = wire::ApiKey), (status = 409, description = "`key_revoked`")),
    security(("key" = ["keys:manage"])), extensions(("x-retry-class" = json!("rotates"))),
)]
pub(crate) async fn rotate(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    One(id): One<kind::ApiKey>,
) -> Result<Json<wire::ApiKey>, ApiError> {
    let mode = records::get(&api, &caller.place::<ApiKey>(id)).await?.body.mode;
    let secret = token::new_token(&*api.clock, prefix(mode));
    let fresh = token::api_key(&secret, String::new(), Vec::new());
    let rotate = |key: &mut ApiKey| {
        if key.revoked_at.is_some() {
            return Err(ApiError::conflict("key_revoked", "a revoked key cannot be given a new token"));
        }
        key.hash.clone_from(&fresh.hash);
        key.last4.clone_from(&fresh.last4);
        Ok(())
    };
    let rotated = change(&api, &caller, id, rotate).await?;
    Ok(Json(rotated.with_token(secret)))
}

/// Revoke a key
///
/// It stops working at once and stays listed. Revoking it again changes nothing.
#[utoipa::path(
    post, path = "/v1/keys/{id}/revoke", operation_id = "keys.revoke", tag = "keys",
    params(("id" = String, Path, description = "`key_…`")), responses((status = 200, body = wire::ApiKey)),
    security(("key" = ["keys:manage"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn revoke(
    State(api): State<Api>,
    caller: Caller<KeysManage>,
    One(id): One<kind::ApiKey>,
) -> Result<Json<wire::ApiKey>, ApiError> {
    let now = api.clock.now();
    let revoke = |key: &mut ApiKey| {
        key.revoked_at.get_or_insert(now);
        Ok(())
    };
    change(&api, &caller, id, revoke).await.map(Json)
}

/// Changes a key, unless it is an administrator's before or after and the caller is none.
async fn change(
    api: &ApiState,
    caller: &Caller<KeysManage>,
    id: ApiKeyId,
    apply: impl Fn(&mut ApiKey) -> Result<(), ApiError> + Send + Sync,
) -> Result<wire::ApiKey, ApiError> {
    let guarded = |key: &mut ApiKey| {
        guard_admin(caller, key)?;
        apply(key)?;
        guard_admin(caller, key)
    };
    let changed = records::change(api, &caller.place::<ApiKey>(id), guarded).await;
    // Also when it failed: whether it was stored is then not known.
    api.keys.forget();
    Ok(show(api, changed?))
}

/// Who manages keys must not thereby become an administrator, nor shut one out.
fn guard_admin(caller: &Caller<KeysManage>, key: &ApiKey) -> Result<(), ApiError> {
    if key.scopes.iter().any(|scope| scope == ADMIN) { caller.require::<Admin>() } else { Ok(()) }
}

fn prefix(mode: Mode) -> &'static str {
    match mode {
        Mode::Live => token::LIVE_PREFIX,
        Mode::Test => token::TEST_PREFIX,
    }
}

fn show(api: &ApiState, key: Record<ApiKey>) -> wire::ApiKey {
    let used_at = api.last_used.get(key.id);
    wire::ApiKey::new(key, used_at)
}

impl KeyInput {
    fn apply(self, key: &mut ApiKey) -> Result<(), ApiError> {
        let mut faults = Faults::default();
        apply_name(self.name, &mut key.name, &mut faults);
        match self.scopes {
            Change::Keep => {}
            Change::Reset => faults.add("scopes", "must not be null"),
            Change::Set(scopes) => {
                faults.unless(!scopes.is_empty(), "scopes", "must name at least one");
                for (index, scope) in scopes.iter().enumerate() {
                    let known = SCOPES.contains(&scope.as_str());
                    let message = format!("must be one of {}", SCOPES.join(", "));
                    faults.unless(known, &format!("scopes[{index}]"), message);
                    let twice = scopes[..index].contains(scope);
                    faults.unless(!twice, &format!("scopes[{index}]"), "is there twice");
                }
                key.scopes = scopes;
            }
        }
        faults.finish()
    }
}
