//! Sending a webhook's events again: replays, recoveries, and the log of attempts they go by.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use restante_core::endpoint::Webhook;
use restante_core::id::{Tail, kind};
use restante_core::{Timestamp, limits};
use restante_store::record::ReplayJob;
use restante_store::row::{LogFilter, LogPlace, LogStatus};
use restante_store::{Recovery, Resent, Window};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{Caller, WebhooksRead, WebhooksWrite};
use super::body::Body;
use super::bulk_retries::DryRun;
use super::error::ApiError;
use super::path::{One, Within};
use super::query::{Listing, NoFilter, Paging, Query, invalid};
use super::{Api, deliveries, records, wire};

/// Items on a page of the attempts log, unless the caller asks otherwise.
const LOG_PAGE_DEFAULT: usize = 50;

/// Which attempts are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Items on a page, 1 to 100; 50 unless given.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Begun before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Timestamp>,
    /// Begun after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Timestamp>,
    /// Which stand so.
    #[param(inline)]
    status: Option<AttemptStatus>,
    /// Go on behind the page that gave this `next_cursor`, towards older ones.
    cursor: Option<String>,
}

/// How an attempt stands.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum AttemptStatus {
    Pending,
    Delivered,
    Failed,
}

/// List a webhook's attempts
///
/// Newest first, those of the last three days, the running ones included.
#[utoipa::path(
    get, path = "/v1/webhooks/{id}/attempts", operation_id = "webhooks.list_attempts", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`"), Wanted),
    responses((status = 200, body = wire::AttemptLog)),
    security(("key" = ["webhooks:read"])),
)]
pub(crate) async fn attempts(
    State(api): State<Api>,
    caller: Caller<WebhooksRead>,
    One(id): One<kind::Webhook>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<wire::AttemptLog>, ApiError> {
    let limit = wanted.limit.unwrap_or(LOG_PAGE_DEFAULT);
    if !(1..=limits::PAGE_MAX).contains(&limit) {
        return Err(invalid("limit", &format!("must be 1 to {}", limits::PAGE_MAX)));
    }
    let behind = wanted
        .cursor
        .as_deref()
        .map(|text| read_place(text).ok_or_else(|| invalid("cursor", "is no cursor of ours")));
    let behind = behind.transpose()?;
    let status = wanted.status.map(|status| match status {
        AttemptStatus::Pending => LogStatus::Pending,
        AttemptStatus::Delivered => LogStatus::Delivered,
        AttemptStatus::Failed => LogStatus::Failed,
    });
    let filter = LogFilter { before: wanted.before, after: wanted.after, status };
    let now = api.clock.now();
    let page = api.store.attempts(caller.workspace, id, filter, behind, limit, now).await?;
    let (lines, next) = page.ok_or_else(ApiError::not_found::<kind::Webhook>)?;
    Ok(Json(wire::AttemptLog {
        data: lines.into_iter().map(wire::LoggedAttempt::from).collect(),
        next_cursor: next.map(write_place),
    }))
}

/// A span of time, both ends inclusive.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowInput {
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

impl WindowInput {
    /// The window, where `since` is this unless given, and `until` is now.
    fn read(&self, since: Timestamp, now: Timestamp) -> Result<Window, ApiError> {
        let window = Window { since: self.since.unwrap_or(since), until: self.until.unwrap_or(now) };
        if window.until < window.since {
            return Err(ApiError::invalid("invalid_field", "since lies after until").on("since"));
        }
        Ok(window)
    }
}

/// Replay a webhook's failures
///
/// One more attempt for each event that has a failed attempt in the window and was not delivered, the oldest 10,000
/// of them. By the time of attempts; the last 24 hours unless given. On a paused webhook it does nothing. 20 a day in
/// a workspace. With `dry_run` it only counts.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/replay", operation_id = "webhooks.replay", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`"), DryRun),
    request_body = WindowInput,
    responses(
        (status = 202, description = "It goes on in the background"),
        (status = 200, body = wire::ReplayPreview, description = "With `dry_run`"),
        (status = 429, description = "`webhook_replay_quota_exceeded`"),
    ),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn replay(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    One(id): One<kind::Webhook>,
    Query(query): Query<DryRun>,
    Body(input): Body<WindowInput>,
) -> Result<Response, ApiError> {
    records::get(&api, &caller.place::<Webhook>(id)).await?;
    let now = api.clock.now();
    let window = input.read(now.before(DAY), now)?;
    if query.dry_run == Some(true) {
        let events = api.store.count_replay(caller.workspace, id, window, now).await?;
        let events = events.ok_or_else(ApiError::not_found::<kind::Webhook>)?;
        return Ok(Json(wire::ReplayPreview { events }).into_response());
    }
    let tail = Tail::from_bits(api.clock.draw());
    let resent = api.store.replay_webhook(caller.workspace, id, window, now, tail).await?;
    started(resent)?;
    Ok(StatusCode::ACCEPTED.into_response())
}

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// List a webhook's replays and recoveries
#[utoipa::path(
    get, path = "/v1/webhooks/{id}/replays", operation_id = "webhooks.list_replays", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`"), Paging),
    responses((status = 200, body = wire::Page<wire::Replay>)),
    security(("key" = ["webhooks:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<WebhooksRead>,
    One(id): One<kind::Webhook>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Replay>>, ApiError> {
    records::get(&api, &caller.place::<Webhook>(id)).await?;
    let jobs = api.store.list::<ReplayJob>(Some(caller.workspace), Some(id.uuid()), listing.page).await?;
    Ok(Json(wire::Page::new(jobs, listing.page.total, wire::Replay::from)))
}

/// Replay one delivery
///
/// One more attempt of it, whatever its state, once none is in flight. Does not count against the quota.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/deliveries/{delivery_id}/replay", operation_id = "webhooks.replay_delivery",
    tag = "webhooks",
    params(
        ("id" = String, Path, description = "`whk_…`"),
        ("delivery_id" = String, Path, description = "`dlv_…`"),
    ),
    responses((status = 202, body = wire::Delivery), (status = 409, description = "`webhook_paused`")),
    security(("key" = ["webhooks:write"])),
    extensions(("x-retry-class" = json!("repeats_effect"))),
)]
pub(crate) async fn replay_delivery(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    Within(id, delivery): Within<kind::Webhook, kind::Delivery>,
) -> Result<(StatusCode, Json<wire::Delivery>), ApiError> {
    records::get(&api, &caller.place::<Webhook>(id)).await?;
    let (now, tail) = (api.clock.now(), Tail::from_bits(api.clock.draw()));
    match api.store.replay_delivery(caller.workspace, id, delivery, now, tail).await? {
        Resent::NotFound => return Err(ApiError::not_found::<kind::Delivery>()),
        resent @ (Resent::Started { .. } | Resent::Paused | Resent::QuotaExceeded) => started(resent)?,
    };
    Ok((StatusCode::ACCEPTED, Json(deliveries::show(&api, caller.workspace, delivery).await?)))
}

/// Recover skipped events
///
/// What came while the webhook was paused goes on the webhook's schedule: what a replay cannot reach. By the time of
/// acceptance. Without `since` it is what was skipped since the last pause, without `until` up to now.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/recover", operation_id = "webhooks.recover", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`")), request_body = WindowInput,
    responses((status = 202, body = wire::Recovery), (status = 409, description = "`webhook_paused`")),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn recover(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    One(id): One<kind::Webhook>,
    Body(input): Body<WindowInput>,
) -> Result<(StatusCode, Json<wire::Recovery>), ApiError> {
    let (now, tail) = (api.clock.now(), Tail::from_bits(api.clock.draw()));
    let recovery = match input.since {
        Some(since) => Recovery::Accepted(input.read(since, now)?),
        None => Recovery::SincePause { until: input.until },
    };
    let resent = api.store.recover(caller.workspace, id, recovery, now, tail).await?;
    Ok((StatusCode::ACCEPTED, Json(started(resent)?)))
}

fn started(resent: Resent) -> Result<wire::Recovery, ApiError> {
    match resent {
        Resent::Started { id, events } => Ok(wire::Recovery { id, events }),
        Resent::NotFound => Err(ApiError::not_found::<kind::Webhook>()),
        Resent::Paused => {
            let message = "the webhook is paused; set its status to active first";
            Err(ApiError::conflict("webhook_paused", message))
        }
        Resent::QuotaExceeded => Err(ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "webhook_replay_quota_exceeded",
            format!(
                "{} replays of this workspace's webhooks were asked for on this UTC day, which is all there are",
                limits::REPLAYS_PER_DAY_MAX
            ),
        )),
    }
}

/// Says how the rest of a log's cursor is to be read.
const CURSOR_VERSION: &str = "02";

fn write_place(place: LogPlace) -> String {
    let started_at = place.started_at.millis();
    format!("{CURSOR_VERSION}{started_at:016x}{:016x}{:08x}", place.delivery, place.number)
}

fn read_place(text: &str) -> Option<LogPlace> {
    let digits = text.strip_prefix(CURSOR_VERSION)?;
    let canonical = digits.len() == 40 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    if !canonical {
        return None;
    }
    let part = |from: usize, to: usize| i64::from_str_radix(&digits[from..to], 16).ok();
    Some(LogPlace {
        started_at: Timestamp::from_millis(part(0, 16)?),
        delivery: part(16, 32)?,
        number: u32::try_from(part(32, 40)?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_log_comes_back() {
        let place = LogPlace {
            started_at: Timestamp::from_millis(1_795_994_381_123),
            delivery: i64::MAX,
            number: u32::MAX,
        };
        assert_eq!(read_place(&write_place(place)), Some(place));
        for garbage in ["", "02", "01000000000000000a", "02zz", &"02".repeat(21)] {
            assert!(read_place(garbage).is_none_or(|place| write_place(place) == garbage), "{garbage}");
        }
    }
}
