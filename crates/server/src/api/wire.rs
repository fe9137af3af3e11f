//! The shapes of our resources on the wire. Nullable fields are present with null unless said otherwise.

mod email;
mod history;
mod mail;
mod outbound;
mod rules;
mod stats;

use std::collections::BTreeMap;

use restante_core::endpoint::{Answer, DestinationKind, IdempotencyHeader};
use restante_core::id::{ApiKeyId, ChargeId, DestinationId, ReplayId, SourceId, WorkspaceId};
use restante_core::retry::Schedule;
use restante_core::{Timestamp, endpoint};
use restante_store::record::{self, BulkRetryJob, BulkRetryState, Mode, Record};
use restante_store::{Paged, row};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ApiState;
use super::destinations::input::HeaderChoice;
use super::endpoints::ScheduleInput;
use super::query::cursor;
use super::sources::input::AnswerInput;
use super::sources::rules::DedupeInput;

pub(crate) use email::{BatchEmail, Email, EmailContent, EmailEvent, SentBatch, SentEmail};
pub(crate) use history::{Attempt, Delivery, Request};
pub(crate) use mail::{Domain, Suppression, Template, TemplatePreview, TemplateVersion};
pub(crate) use outbound::{
    AttemptLog, BatchItem, Event, LoggedAttempt, Notice, PublishedBatch, PublishedEvent, Recovery, Replay,
    ReplayPreview, Secret, Webhook, WebhookTest,
};
pub(crate) use rules::{Dedupe, Verification};
pub(crate) use stats::{EndpointList, Stats};

/// One page of a list, newest first unless the call says otherwise.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// Whether more items follow.
    pub(crate) has_more: bool,
    /// Give this as `cursor` for the items that follow.
    pub(crate) next_cursor: Option<String>,
    /// Give this as `ending_before` for the items before.
    pub(crate) prev_cursor: Option<String>,
    /// How many there are in all; only with `include_total`, and null where counting would take too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, required = false)]
    pub(crate) total: Option<Option<u64>>,
}

impl<T> Page<T> {
    /// There is nothing of the kind.
    pub(crate) fn nothing() -> Self {
        Self { data: Vec::new(), has_more: false, next_cursor: None, prev_cursor: None, total: None }
    }

    /// `total`: whether the caller asked for it.
    pub(crate) fn new<A>(paged: Paged<A>, total: bool, wire: impl FnMut(A) -> T) -> Self {
        Self {
            data: paged.items.into_iter().map(wire).collect(),
            has_more: paged.next.is_some(),
            next_cursor: paged.next.map(cursor),
            prev_cursor: paged.prev.map(cursor),
            total: total.then_some(paged.total),
        }
    }
}

/// A permanent URL that receives webhooks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Source {
    #[schema(example = "source")]
    object: &'static str,
    #[schema(value_type = String)]
    id: SourceId,
    name: String,
    /// Where to send webhooks.
    url: String,
    /// The secret part of the URL.
    token: String,
    /// What it answers; null: 200 and the request's id.
    #[schema(value_type = Option<AnswerInput>)]
    response: Option<Answer>,
    deliver_pending_on_connect: bool,
    retention_days: u32,
    /// How repeats are known, which are not delivered.
    #[schema(value_type = Option<DedupeInput>)]
    dedupe: Option<Dedupe>,
    /// How requests are signed; what is not is rejected. Its secret is never read back.
    verification: Option<Verification>,
    /// Command-line clients that are connected to this node for it now.
    clients_connected: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl Source {
    pub(crate) fn new(record: Record<endpoint::Source>, api: &ApiState) -> Self {
        let source = record.body;
        Self {
            object: "source",
            id: record.id,
            url: format!("{}/in/{}", api.public_url, source.token),
            name: source.name,
            token: source.token,
            response: source.response,
            deliver_pending_on_connect: source.deliver_pending_on_connect,
            retention_days: source.retention_days,
            dedupe: source.dedupe.map(Dedupe::from),
            verification: source.verification.map(Verification::from),
            clients_connected: api.tunnel.clients(record.id),
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

/// A receiver of one source.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Destination {
    #[schema(example = "destination")]
    object: &'static str,
    #[schema(value_type = String)]
    id: DestinationId,
    #[schema(value_type = String)]
    source_id: SourceId,
    /// `http` or `cli`.
    #[schema(value_type = String)]
    kind: DestinationKind,
    url: String,
    /// Most attempts of a delivery that count.
    attempts: u32,
    #[schema(value_type = ScheduleInput)]
    schedule: Schedule,
    #[schema(value_type = HeaderChoice)]
    idempotency_header: IdempotencyHeader,
    paused: bool,
    /// Names of the static headers. Their values are never read back.
    #[schema(value_type = HashMap<String, Option<String>>)]
    headers: BTreeMap<String, ()>,
    max_in_flight: u32,
    rate_per_second: Option<f64>,
    timeout_seconds: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<Record<endpoint::Destination>> for Destination {
    fn from(record: Record<endpoint::Destination>) -> Self {
        let destination = record.body;
        Self {
            object: "destination",
            id: record.id,
            source_id: SourceId::from_uuid(record.parent.unwrap_or_default()),
            kind: destination.kind,
            url: destination.url,
            attempts: destination.schedule.attempts_max(),
            schedule: destination.schedule,
            idempotency_header: destination.idempotency_header,
            paused: destination.paused,
            headers: destination.headers.into_iter().map(|(name, _)| (name, ())).collect(),
            max_in_flight: destination.max_in_flight,
            rate_per_second: destination.rate_per_second,
            timeout_seconds: destination.timeout_seconds,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

/// A retry of many deliveries, done in the background.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkRetry {
    #[schema(example = "bulk_retry")]
    object: &'static str,
    #[schema(value_type = String)]
    id: ReplayId,
    #[schema(value_type = String)]
    destination_id: DestinationId,
    /// `running`, `done`, or `ended`: it stopped early because the credits ran out or the destination is gone.
    #[schema(value_type = String)]
    state: BulkRetryState,
    /// State of the deliveries it retries.
    delivery_state: String,
    /// Deliveries that matched when it was asked for.
    total: u64,
    /// Deliveries created so far.
    created: u64,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Record<BulkRetryJob>> for BulkRetry {
    fn from(record: Record<BulkRetryJob>) -> Self {
        let job = record.body;
        Self {
            object: "bulk_retry",
            id: record.id,
            destination_id: DestinationId::from_uuid(record.parent.unwrap_or_default()),
            state: job.state,
            delivery_state: job.bulk.state,
            total: job.total,
            created: job.created,
            since: job.bulk.since,
            until: job.bulk.until,
            created_at: record.created_at,
        }
    }
}

/// What a bulk retry would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkRetryPreview {
    /// Deliveries that would be created.
    pub(crate) deliveries: u64,
    /// What they would cost.
    pub(crate) credits: u64,
}

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Workspace {
    #[schema(example = "workspace")]
    object: &'static str,
    #[schema(value_type = String)]
    id: WorkspaceId,
    name: String,
    /// Mail addresses that are told about trouble.
    owners: Vec<String>,
    /// The balance; null: not counted.
    credits: Option<i64>,
    /// Most `retention_days` its sources may have.
    retention_days_max: u32,
    quotas: Quotas,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Its first key, with its token; only in the answer that made the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    key: Option<ApiKey>,
}

impl Workspace {
    pub(crate) fn new(record: Record<record::Workspace>, credits: Option<i64>, key: Option<ApiKey>) -> Self {
        Self {
            object: "workspace",
            id: record.id,
            name: record.body.name,
            owners: record.body.owners,
            credits,
            retention_days_max: record.body.retention_days_max,
            quotas: record.body.quotas.into(),
            created_at: record.created_at,
            key,
        }
    }
}

/// How many of each there may be in a workspace. Null, or absent: as many as the server allows anyway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Quotas {
    sources: Option<u32>,
    webhooks: Option<u32>,
    domains: Option<u32>,
    templates: Option<u32>,
}

impl From<record::Quotas> for Quotas {
    fn from(of: record::Quotas) -> Self {
        let record::Quotas { sources, webhooks, domains, templates } = of;
        Self { sources, webhooks, domains, templates }
    }
}

impl From<Quotas> for record::Quotas {
    fn from(of: Quotas) -> Self {
        let Quotas { sources, webhooks, domains, templates } = of;
        Self { sources, webhooks, domains, templates }
    }
}

/// A credential.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiKey {
    #[schema(example = "api_key")]
    object: &'static str,
    #[schema(value_type = String)]
    id: ApiKeyId,
    name: String,
    /// `live` or `test`.
    #[schema(value_type = String)]
    mode: Mode,
    scopes: Vec<String>,
    /// The token's last four characters.
    last4: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// The secret; only in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    token: Option<String>,
}

impl ApiKey {
    /// `used_at`: when it was last used, if that is not stored yet.
    pub(crate) fn new(record: Record<record::ApiKey>, used_at: Option<Timestamp>) -> Self {
        let key = record.body;
        Self {
            object: "api_key",
            id: record.id,
            name: key.name,
            mode: key.mode,
            scopes: key.scopes,
            last4: key.last4,
            created_at: record.created_at,
            last_used_at: key.last_used_at.max(used_at),
            revoked_at: key.revoked_at,
            token: None,
        }
    }

    /// The key with its secret, for the one answer that shows it.
    pub(crate) fn with_token(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }
}

/// A balance and what changed it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Credits {
    /// Null: not counted.
    pub(crate) balance: Option<i64>,
    pub(crate) ledger: Page<Charge>,
}

/// One change of a balance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Charge {
    #[schema(value_type = String)]
    id: ChargeId,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    delta: i64,
    /// `request`, `retry`, `replay` or `grant`.
    reason: &'static str,
    /// What was paid for: the id of a request or a delivery; for a grant its note.
    #[serde(rename = "ref")]
    reference: Option<String>,
}

impl From<row::Charge> for Charge {
    fn from(charge: row::Charge) -> Self {
        Self {
            id: charge.id,
            at: charge.at,
            delta: charge.delta,
            reason: charge.reason.name(),
            reference: charge.reference,
        }
    }
}
