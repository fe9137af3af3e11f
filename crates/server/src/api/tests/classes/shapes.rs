//! The client's types have every field of every answer: read into them and written again, it is the same.

use restante_sdk::calls::find;
use restante_sdk::wire::{self, Page};
use serde::de::DeserializeOwned;

use super::*;

/// An answer, read and written by the client's type.
type Again = fn(&[u8]) -> Result<Value, serde_json::Error>;

fn again<T: DeserializeOwned + serde::Serialize>(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let read: T = serde_json::from_slice(bytes)?;
    serde_json::from_str(&serde_json::to_string(&read)?)
}

/// The type of each call's answer; `None` for bytes, and for those that are empty.
const SHAPES: &[(&str, Option<Again>)] = &[
    ("sources.create", Some(again::<wire::Source>)),
    ("sources.list", Some(again::<Page<wire::Source>>)),
    ("sources.get", Some(again::<wire::Source>)),
    ("sources.update", Some(again::<wire::Source>)),
    ("sources.delete", None),
    ("sources.rotate_token", Some(again::<wire::Source>)),
    ("destinations.create", Some(again::<wire::Destination>)),
    ("destinations.list", Some(again::<Page<wire::Destination>>)),
    ("destinations.get", Some(again::<wire::Destination>)),
    ("destinations.update", Some(again::<wire::Destination>)),
    ("destinations.delete", None),
    ("destinations.retry", Some(again::<wire::BulkRetry>)),
    ("destinations.list_retries", Some(again::<Page<wire::BulkRetry>>)),
    ("requests.list", Some(again::<Page<wire::Request>>)),
    ("requests.get", Some(again::<wire::Request>)),
    ("requests.get_body", None),
    ("requests.delete", None),
    ("requests.replay", Some(again::<wire::Request>)),
    ("deliveries.list", Some(again::<Page<wire::Delivery>>)),
    ("deliveries.get", Some(again::<wire::Delivery>)),
    ("deliveries.list_attempts", Some(again::<Page<wire::Attempt>>)),
    ("deliveries.cancel", Some(again::<wire::Delivery>)),
    ("deliveries.retry", Some(again::<wire::Delivery>)),
    ("events.publish", Some(again::<wire::PublishedEvent>)),
    ("events.publish_batch", Some(again::<wire::PublishedBatch>)),
    ("events.list", Some(again::<Page<wire::Event>>)),
    ("events.get", Some(again::<wire::Event>)),
    ("emails.send", Some(again::<wire::SentEmail>)),
    ("emails.send_batch", Some(again::<wire::SentBatch>)),
    ("emails.list", Some(again::<Page<wire::Email>>)),
    ("emails.get", Some(again::<wire::Email>)),
    ("emails.get_content", Some(again::<wire::EmailContent>)),
    ("emails.get_source", None),
    ("emails.get_attachment", None),
    ("emails.list_events", Some(again::<Page<wire::EmailEvent>>)),
    ("emails.cancel", Some(again::<wire::Email>)),
    ("emails.update", Some(again::<wire::Email>)),
    ("templates.create", Some(again::<wire::Template>)),
    ("templates.list", Some(again::<Page<wire::Template>>)),
    ("templates.get", Some(again::<wire::Template>)),
    ("templates.update", Some(again::<wire::Template>)),
    ("templates.delete", None),
    ("templates.duplicate", Some(again::<wire::Template>)),
    ("templates.set_content", Some(again::<wire::Template>)),
    ("templates.publish", Some(again::<wire::TemplateVersion>)),
    ("templates.list_versions", Some(again::<Page<wire::TemplateVersion>>)),
    ("templates.preview", Some(again::<wire::TemplatePreview>)),
    ("templates.render", Some(again::<wire::TemplatePreview>)),
    ("templates.send", Some(again::<wire::SentEmail>)),
    ("domains.create", Some(again::<wire::Domain>)),
    ("domains.list", Some(again::<Page<wire::Domain>>)),
    ("domains.get", Some(again::<wire::Domain>)),
    ("domains.update", Some(again::<wire::Domain>)),
    ("domains.delete", None),
    ("domains.verify", Some(again::<wire::Domain>)),
    ("suppressions.add", Some(again::<wire::Suppression>)),
    ("suppressions.list", Some(again::<Page<wire::Suppression>>)),
    ("suppressions.delete", None),
    ("webhooks.create", Some(again::<wire::Webhook>)),
    ("webhooks.list", Some(again::<Page<wire::Webhook>>)),
    ("webhooks.get", Some(again::<wire::Webhook>)),
    ("webhooks.update", Some(again::<wire::Webhook>)),
    ("webhooks.delete", None),
    ("webhooks.rotate_secret", Some(again::<wire::NewSecret>)),
    ("webhooks.test", Some(again::<wire::WebhookTest>)),
    ("webhooks.list_deliveries", Some(again::<Page<wire::Delivery>>)),
    ("webhooks.list_attempts", Some(again::<wire::AttemptLog>)),
    ("webhooks.replay", None),
    ("webhooks.list_replays", Some(again::<Page<wire::Replay>>)),
    ("webhooks.replay_delivery", Some(again::<wire::Delivery>)),
    ("webhooks.recover", Some(again::<wire::Recovery>)),
    ("notices.list", Some(again::<Page<wire::Notice>>)),
    ("stats.get", Some(again::<wire::Stats>)),
    ("stats.endpoints", Some(again::<wire::EndpointStatsList>)),
    ("workspace.get", Some(again::<wire::Workspace>)),
    ("workspace.update", Some(again::<wire::Workspace>)),
    ("workspace.get_credits", Some(again::<wire::Credits>)),
    ("workspaces.list", Some(again::<Page<wire::Workspace>>)),
    ("workspaces.create", Some(again::<wire::Workspace>)),
    ("workspaces.grant_credits", Some(again::<wire::Credits>)),
    ("system.find", Some(again::<wire::Found>)),
    ("system.server", Some(again::<wire::Server>)),
    ("keys.create", Some(again::<wire::ApiKey>)),
    ("keys.list", Some(again::<Page<wire::ApiKey>>)),
    ("keys.get", Some(again::<wire::ApiKey>)),
    ("keys.update", Some(again::<wire::ApiKey>)),
    ("keys.delete", None),
    ("keys.rotate", Some(again::<wire::ApiKey>)),
    ("keys.revoke", Some(again::<wire::ApiKey>)),
];

/// How an answer differs from what the client's type makes of it.
fn faults(name: &str, answer: &Answer) -> Vec<String> {
    let shape = SHAPES.iter().find(|(known, _)| *known == name);
    let Some((_, again)) = shape else { return vec![format!("{name}: say in SHAPES what its answer is")] };
    let Some(again) = again.filter(|_| !answer.body.is_empty()) else { return Vec::new() };
    let mut lines = Vec::new();
    match again(&answer.body) {
        Ok(written) => compare(name, &answer.json(), &written, &mut lines),
        Err(fault) => lines.push(format!("{name}: {fault}: {}", answer.json())),
    }
    lines
}

#[tokio::test]
async fn the_clients_types_lose_nothing_of_what_is_read() {
    let scene = Scene::new().await;
    let (seen, _) = snapshot(&scene).await;
    let mut found = Vec::new();
    for path in seen.keys().filter_map(|place| place.strip_prefix("admin ")) {
        let route = path.split('?').next().unwrap_or_default();
        let call = find(&Method::GET, route).unwrap_or_else(|| panic!("no call reads {route}"));
        let answer = scene.world.call(&scene.tokens["admin"], "GET", path, Value::Null).await;
        found.extend(faults(call.name, &answer));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test]
async fn the_clients_types_lose_nothing_of_what_writes_are_answered() {
    let rows: Vec<Row> = retried::rows().into_iter().chain(harmful::rows()).collect();
    let check = async |row: Row| {
        let answer = row.call(&Scene::new().await).await;
        let found = if answer.status.is_success() { faults(row.name, &answer) } else { Vec::new() };
        (!found.is_empty()).then(|| found.join("\n"))
    };
    let found = at_once(rows.into_iter().map(check)).await;
    assert!(found.is_empty(), "{}", found.join("\n"));
}
