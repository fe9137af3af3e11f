//! The live stream: what happens in a workspace, as server-sent events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use futures_util::stream::unfold;
use restante_core::endpoint::EndpointId;
use restante_core::id::{DestinationId, SourceId, WorkspaceId};
use restante_core::message::MessageId;
use restante_store::{Change, Changed, row};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::auth::{Caller, DeliveriesRead, EmailsRead, EventsRead, RequestsRead};
use super::error::ApiError;
use super::query::Query;
use super::{Api, wire};

/// A silent stream says that it lives this often.
const PING_EVERY: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only what concerns this source.
    #[param(value_type = Option<String>)]
    source: Option<SourceId>,
}

/// Follow what happens
///
/// Server-sent events from now on. `request`: as in lists. `event`: as in lists, for keys with the scope `events:read`.
/// `email`: as in lists, each time it changes, for keys with the scope `emails:read`. `delivery`: a delivery with its
/// attempts, each time it changes. `lagged`: `{"missed": n}` changes came faster than they could be sent.
#[utoipa::path(
    get, path = "/v1/stream", operation_id = "stream.follow", tag = "stream",
    params(Wanted), responses((status = 200, body = String, content_type = "text/event-stream")),
    security(("key" = ["requests:read", "deliveries:read"])),
)]
pub(crate) async fn follow(
    State(api): State<Api>,
    caller: Caller<RequestsRead>,
    Query(wanted): Query<Wanted>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    caller.require::<DeliveriesRead>()?;
    let follower = Follower {
        changes: api.store.changes(),
        stopping: api.stopping.clone(),
        workspace: caller.workspace,
        source: wanted.source,
        sees_events: caller.require::<EventsRead>().is_ok(),
        sees_emails: caller.require::<EmailsRead>().is_ok(),
        sources: HashMap::new(),
        api,
    };
    let events = unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(PING_EVERY).text("ping")))
}

/// One listener of the stream.
struct Follower {
    api: Api,
    changes: broadcast::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    workspace: WorkspaceId,
    source: Option<SourceId>,
    sees_events: bool,
    sees_emails: bool,
    /// Sources of the destinations met so far. A deleted destination's record no longer tells.
    sources: HashMap<DestinationId, SourceId>,
}

#[derive(Serialize)]
struct Lagged {
    missed: u64,
}

impl Follower {
    /// The next event; `None` once the node stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let change = tokio::select! {
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                change = self.changes.recv() => change,
            };
            let event = match change {
                Ok(change) if change.workspace != self.workspace => None,
                Ok(Change { what, .. }) => match self.show(what).await {
                    Ok(event) => event,
                    Err(error) => {
                        tracing::warn!(cause = %error, "a change could not be shown on the stream");
                        return None;
                    }
                },
                Err(RecvError::Lagged(missed)) => event("lagged", &Lagged { missed }),
                Err(RecvError::Closed) => return None,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// The event about a change; `None` when it is not wanted, or what it is about is gone.
    async fn show(&mut self, what: Changed) -> Result<Option<Event>, restante_store::Error> {
        let now = self.api.clock.now();
        match what {
            Changed::Request(id) => {
                let request = self.api.store.request(self.workspace, id, now).await?;
                let request = request.filter(|it| self.source.is_none_or(|wanted| wanted == it.source));
                Ok(request.and_then(|it| event("request", &wire::Request::brief(it))))
            }
            Changed::Event(id) => {
                if self.source.is_some() || !self.sees_events {
                    return Ok(None);
                }
                let shown = self.api.store.event(self.workspace, id, now).await?;
                Ok(shown.and_then(|it| event("event", &wire::Event::brief(it))))
            }
            Changed::Email(id) => {
                if self.source.is_some() || !self.sees_emails {
                    return Ok(None);
                }
                let shown = self.api.store.email(self.workspace, id, now).await?;
                let transport = self.api.transport;
                Ok(shown.and_then(|it| event("email", &wire::Email::new(it, transport, now))))
            }
            Changed::Delivery(id) => {
                let Some(delivery) = self.api.store.delivery(self.workspace, id, now).await? else {
                    return Ok(None);
                };
                let wanted = self.source.is_none() || self.source_of(&delivery).await? == self.source;
                Ok(wanted.then(|| event("delivery", &wire::Delivery::full(delivery, now))).flatten())
            }
        }
    }

    async fn source_of(
        &mut self,
        delivery: &row::Delivery,
    ) -> Result<Option<SourceId>, restante_store::Error> {
        let (EndpointId::Destination(destination), MessageId::Request(request)) =
            (delivery.endpoint, delivery.message)
        else {
            return Ok(None);
        };
        if let Some(known) = self.sources.get(&destination) {
            return Ok(Some(*known));
        }
        let now = self.api.clock.now();
        let request = self.api.store.request(self.workspace, request, now).await?;
        let source = request.map(|request| request.source);
        if let Some(source) = source {
            self.sources.insert(destination, source);
        }
        Ok(source)
    }
}

fn event(name: &str, data: &impl Serialize) -> Option<Event> {
    Event::default().event(name).json_data(data).ok()
}
