//! The server, as its callers may know it.

use axum::Json;
use axum::extract::State;
use restante_core::id::{ApiKeyId, WorkspaceId};
use restante_store::record::Mode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::auth::{Anyone, Caller};
use crate::channel::guard::PrivateTargets;

/// What a caller can know of the server, and of the key it calls with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Server {
    #[schema(example = "server")]
    object: &'static str,
    version: &'static str,
    /// Which addresses of the server's own networks targets may have: `none`, `some` or `all`
    /// (`RESTANTE_ALLOW_PRIVATE_TARGETS`).
    private_targets: &'static str,
    /// Whether targets may be plain http (`RESTANTE_ALLOW_HTTP_TARGETS`).
    http_targets: bool,
    /// The way mail leaves: `relay`, `direct` or `capture`.
    mail_transport: &'static str,
    /// The workspace that the call acts in.
    #[schema(value_type = String)]
    workspace_id: WorkspaceId,
    key: OwnKey,
}

/// The key that a call is made with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnKey {
    #[schema(value_type = String)]
    id: ApiKeyId,
    name: String,
    /// `live` or `test`.
    #[schema(value_type = String)]
    mode: Mode,
    scopes: Vec<String>,
}

/// Get the server
///
/// What it allows, and the key that asks. Any key may.
#[utoipa::path(
    get, path = "/v1/server", operation_id = "system.server", tag = "system",
    responses((status = 200, body = Server)), security(("key" = [])),
)]
pub(crate) async fn get(State(api): State<Api>, caller: Caller<Anyone>) -> Json<Server> {
    let key = caller.key();
    Json(Server {
        object: "server",
        version: env!("CARGO_PKG_VERSION"),
        private_targets: match api.rules.private_targets {
            PrivateTargets::None => "none",
            PrivateTargets::All => "all",
            PrivateTargets::Cidrs(_) => "some",
        },
        http_targets: api.rules.http_targets,
        mail_transport: api.transport,
        workspace_id: caller.workspace,
        key: OwnKey {
            id: key.id,
            name: key.body.name.clone(),
            mode: key.body.mode,
            scopes: key.body.scopes.clone(),
        },
    })
}
