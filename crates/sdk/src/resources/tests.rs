//! Each call of the table that has a route is described by a resource, and goes where the table says.

mod server;

use std::collections::BTreeSet;

use serde_json::json;

use crate::blocking::Client;
use crate::calls::CALLS;
use crate::wire::*;
use crate::{Error, Timestamp};

use server::Server;

const AT: Timestamp = Timestamp::from_millis(1_795_994_381_000);

/// Described by the stream itself.
const ELSEWHERE: [&str; 1] = ["stream.follow"];

/// A call, as what it is sent, and how it is made. Every one is answered 404.
type Case = (&'static str, &'static str, &'static str, fn(&Client) -> Error);

/// What a call that cannot succeed is answered.
macro_rules! refused {
    (|$client:ident| $call:expr) => {
        |$client| $call.wait().err().expect("the server refuses everything")
    };
}

#[rustfmt::skip]
const RECEIVING: &[Case] = &[
    ("sources.create", "POST /v1/sources", r#"{"name":"n"}"#,
        refused!(|c| c.sources().create(&NewSource::new("n")))),
    ("sources.list", "GET /v1/sources?limit=5", "",
        refused!(|c| c.sources().list(&Paging { limit: Some(5), ..Default::default() }))),
    ("sources.get", "GET /v1/sources/src_1", "", refused!(|c| c.sources().get("src_1"))),
    ("sources.update", "PATCH /v1/sources/src_1", r#"{"response":null}"#,
        refused!(|c| c.sources().update("src_1",
            &SourceChange { response: Change::Reset, ..Default::default() }))),
    ("sources.delete", "DELETE /v1/sources/src_1", "", refused!(|c| c.sources().delete("src_1"))),
    ("sources.rotate_token", "POST /v1/sources/src_1/rotate-token", "",
        refused!(|c| c.sources().rotate_token("src_1"))),
    ("destinations.create", "POST /v1/sources/src_1/destinations", r#"{"kind":"cli","url":"http://a"}"#,
        refused!(|c| c.destinations().create("src_1", &NewDestination::cli("http://a")))),
    ("destinations.list", "GET /v1/sources/src_1/destinations", "",
        refused!(|c| c.destinations().list("src_1", &Paging::default()))),
    ("destinations.get", "GET /v1/sources/src_1/destinations/dst_1", "",
        refused!(|c| c.destinations().get("src_1", "dst_1"))),
    ("destinations.update", "PATCH /v1/sources/src_1/destinations/dst_1", r#"{"paused":true}"#,
        refused!(|c| c.destinations().update("src_1", "dst_1",
            &DestinationChange { paused: true.into(), ..Default::default() }))),
    ("destinations.delete", "DELETE /v1/sources/src_1/destinations/dst_1", "",
        refused!(|c| c.destinations().delete("src_1", "dst_1"))),
    ("destinations.retry", "POST /v1/sources/src_1/destinations/dst_1/retry", r#"{"since":"2026-11-29T23:19:41.000Z"}"#,
        refused!(|c| c.destinations().retry("src_1", "dst_1", &NewBulkRetry::since(AT)))),
    ("destinations.retry", "POST /v1/sources/src_1/destinations/dst_1/retry?dry_run=true", r#"{"since":"2026-11-29T23:19:41.000Z"}"#,
        refused!(|c| c.destinations().retry_preview("src_1", "dst_1", &NewBulkRetry::since(AT)))),
    ("destinations.list_retries", "GET /v1/sources/src_1/destinations/dst_1/retries", "",
        refused!(|c| c.destinations().list_retries("src_1", "dst_1", &Paging::default()))),
    ("requests.list", "GET /v1/requests?method=POST", "",
        refused!(|c| c.requests().list(&ListRequests { method: Some("POST".into()), ..Default::default() }))),
    ("requests.get", "GET /v1/requests/req_1", "", refused!(|c| c.requests().get("req_1"))),
    ("requests.get_body", "GET /v1/requests/req_1/body", "", refused!(|c| c.requests().get_body("req_1"))),
    ("requests.delete", "DELETE /v1/requests/req_1", "", refused!(|c| c.requests().delete("req_1"))),
    ("requests.replay", "POST /v1/requests/req_1/replay", "", refused!(|c| c.requests().replay("req_1"))),
    ("deliveries.list", "GET /v1/deliveries?state=failed", "",
        refused!(|c| c.deliveries().list(&ListDeliveries { state: Some(DeliveryState::Failed), ..Default::default() }))),
    ("deliveries.get", "GET /v1/deliveries/dlv_1", "", refused!(|c| c.deliveries().get("dlv_1"))),
    ("deliveries.list_attempts", "GET /v1/deliveries/dlv_1/attempts", "",
        refused!(|c| c.deliveries().list_attempts("dlv_1", &Paging::default()))),
    ("deliveries.cancel", "POST /v1/deliveries/dlv_1/cancel", "",
        refused!(|c| c.deliveries().cancel("dlv_1"))),
    ("deliveries.retry", "POST /v1/deliveries/dlv_1/retry", "", refused!(|c| c.deliveries().retry("dlv_1"))),
];

#[rustfmt::skip]
const PUBLISHING: &[Case] = &[
    ("events.publish", "POST /v1/events", r#"{"type":"a.b","data":[1]}"#,
        refused!(|c| c.events().publish(&PublishEvent::new("a.b", &[1]).unwrap()))),
    ("events.publish_batch", "POST /v1/events/batch", r#"{"events":[{"type":"a.b","data":null}]}"#,
        refused!(|c| c.events().publish_batch(&[PublishEvent::new("a.b", &()).unwrap()]))),
    ("events.list", "GET /v1/events?type=a.b", "",
        refused!(|c| c.events().list(&ListEvents { event_type: Some("a.b".into()), ..Default::default() }))),
    ("events.get", "GET /v1/events/whe_1", "", refused!(|c| c.events().get("whe_1"))),
    ("webhooks.create", "POST /v1/webhooks", r#"{"url":"u","events":["*"]}"#,
        refused!(|c| c.webhooks().create(&NewWebhook::new("u", ["*"])))),
    ("webhooks.list", "GET /v1/webhooks?order=asc", "",
        refused!(|c| c.webhooks().list(&ListWebhooks { order: Some(Order::Ascending), ..Default::default() }))),
    ("webhooks.get", "GET /v1/webhooks/whk_1", "", refused!(|c| c.webhooks().get("whk_1"))),
    ("webhooks.update", "PATCH /v1/webhooks/whk_1", r#"{"url":"u"}"#,
        refused!(|c| c.webhooks().update("whk_1",
            &WebhookChange { url: Some("u".into()), ..Default::default() }))),
    ("webhooks.delete", "DELETE /v1/webhooks/whk_1", "", refused!(|c| c.webhooks().delete("whk_1"))),
    ("webhooks.rotate_secret", "POST /v1/webhooks/whk_1/rotate-secret", "",
        refused!(|c| c.webhooks().rotate_secret("whk_1"))),
    ("webhooks.test", "POST /v1/webhooks/whk_1/test", "{}",
        refused!(|c| c.webhooks().test("whk_1", &TestWebhook::default()))),
    ("webhooks.list_deliveries", "GET /v1/webhooks/whk_1/deliveries", "",
        refused!(|c| c.webhooks().list_deliveries("whk_1", &ListWebhookDeliveries::default()))),
    ("webhooks.list_attempts", "GET /v1/webhooks/whk_1/attempts?status=failed", "",
        refused!(|c| c.webhooks().list_attempts("whk_1",
            &ListAttempts { status: Some(AttemptStatus::Failed), ..Default::default() }))),
    ("webhooks.replay", "POST /v1/webhooks/whk_1/replay", "{}",
        refused!(|c| c.webhooks().replay("whk_1", &Window::default()))),
    ("webhooks.replay", "POST /v1/webhooks/whk_1/replay?dry_run=true", "{}",
        refused!(|c| c.webhooks().replay_preview("whk_1", &Window::default()))),
    ("webhooks.list_replays", "GET /v1/webhooks/whk_1/replays", "",
        refused!(|c| c.webhooks().list_replays("whk_1", &Paging::default()))),
    ("webhooks.replay_delivery", "POST /v1/webhooks/whk_1/deliveries/dlv_1/replay", "",
        refused!(|c| c.webhooks().replay_delivery("whk_1", "dlv_1"))),
    ("webhooks.recover", "POST /v1/webhooks/whk_1/recover", r#"{"since":"2026-11-29T23:19:41.000Z"}"#,
        refused!(|c| c.webhooks().recover("whk_1", &Window::since(AT)))),
    ("notices.list", "GET /v1/notices", "", refused!(|c| c.notices().list(&Paging::default()))),
    ("stats.get", "GET /v1/stats?hours=3&webhook=whk_1", "",
        refused!(|c| c.stats().get(
            &WantedStats { hours: Some(3), webhook: Some("whk_1".into()), ..Default::default() }))),
    ("stats.endpoints", "GET /v1/stats/endpoints?hours=48", "", refused!(|c| c.stats().endpoints(Some(48)))),
    ("stats.endpoints", "GET /v1/stats/endpoints", "", refused!(|c| c.stats().endpoints(None))),
];

#[rustfmt::skip]
const MAIL: &[Case] = &[
    ("emails.send", "POST /v1/emails", r#"{"from":"a@b","to":["c@d"],"subject":"s"}"#,
        refused!(|c| c.emails().send(&SendEmail::new("a@b", "c@d", "s")))),
    ("emails.send_batch", "POST /v1/emails/batch", r#"{"emails":[{"from":"a@b","to":["c@d"],"subject":"s"}]}"#,
        refused!(|c| c.emails().send_batch(&[SendEmail::new("a@b", "c@d", "s")]))),
    ("emails.list", "GET /v1/emails?status=sent", "",
        refused!(|c| c.emails().list(&ListEmails { status: vec![EmailStatus::Sent], ..Default::default() }))),
    ("emails.get", "GET /v1/emails/em_1", "", refused!(|c| c.emails().get("em_1"))),
    ("emails.get_content", "GET /v1/emails/em_1/content", "", refused!(|c| c.emails().get_content("em_1"))),
    ("emails.get_source", "GET /v1/emails/em_1/source", "", refused!(|c| c.emails().get_source("em_1"))),
    ("emails.get_attachment", "GET /v1/emails/em_1/attachments/2", "",
        refused!(|c| c.emails().get_attachment("em_1", 2))),
    ("emails.list_events", "GET /v1/emails/em_1/events", "", refused!(|c| c.emails().list_events("em_1", &Paging::default()))),
    ("emails.cancel", "POST /v1/emails/em_1/cancel", "", refused!(|c| c.emails().cancel("em_1"))),
    ("emails.reschedule", "PATCH /v1/emails/em_1", r#"{"scheduled_at":"2026-11-29T23:19:41.000Z"}"#,
        refused!(|c| c.emails().reschedule("em_1", AT))),
    ("emails.update", "PATCH /v1/emails/em_1", r#"{"text":"t"}"#,
        refused!(|c| c.emails().update("em_1", &EmailChange { text: "t".into(), ..Default::default() }))),
    ("templates.create", "POST /v1/templates", r#"{"name":"n","publish":true}"#,
        refused!(|c| c.templates().create(&NewTemplate { publish: true, ..NewTemplate::new("n") }))),
    ("templates.list", "GET /v1/templates", "", refused!(|c| c.templates().list(&Paging::default()))),
    ("templates.get", "GET /v1/templates/a-slug", "", refused!(|c| c.templates().get("a-slug"))),
    ("templates.update", "PATCH /v1/templates/tpl_1", r#"{"slug":"s"}"#,
        refused!(|c| c.templates().update("tpl_1",
            &TemplateChange { slug: Some("s".into()), ..Default::default() }))),
    ("templates.delete", "DELETE /v1/templates/tpl_1", "", refused!(|c| c.templates().delete("tpl_1"))),
    ("templates.duplicate", "POST /v1/templates/tpl_1/duplicate", "{}",
        refused!(|c| c.templates().duplicate("tpl_1", &CopyTemplate::default()))),
    ("templates.set_content", "POST /v1/templates/tpl_1/content", r#"{"subject":""}"#,
        refused!(|c| c.templates().set_content("tpl_1", &TemplateContent::default()))),
    ("templates.publish", "POST /v1/templates/tpl_1/versions", "",
        refused!(|c| c.templates().publish("tpl_1"))),
    ("templates.list_versions", "GET /v1/templates/tpl_1/versions", "",
        refused!(|c| c.templates().list_versions("tpl_1", &Paging::default()))),
    ("templates.preview", "POST /v1/templates/tpl_1/preview", r#"{"props":{"a":1}}"#,
        refused!(|c| c.templates().preview("tpl_1",
            &PreviewTemplate { props: Some(json!({"a": 1}).into()) }))),
    ("templates.render", "POST /v1/templates/render", r#"{"text":"t"}"#,
        refused!(|c| c.templates().render(&RenderTemplate { text: Some("t".into()), ..Default::default() }))),
    ("templates.send", "POST /v1/templates/tpl_1/send", r#"{"from":"a@b","to":["c@d"]}"#,
        refused!(|c| c.templates().send("tpl_1", &SendTemplate::new("a@b", "c@d")))),
    ("domains.create", "POST /v1/domains", r#"{"name":"a.example"}"#,
        refused!(|c| c.domains().create(&NewDomain::new("a.example")))),
    ("domains.list", "GET /v1/domains", "", refused!(|c| c.domains().list(&Paging::default()))),
    ("domains.get", "GET /v1/domains/dom_1", "", refused!(|c| c.domains().get("dom_1"))),
    ("domains.update", "PATCH /v1/domains/dom_1", "{}",
        refused!(|c| c.domains().update("dom_1", &DomainChange::default()))),
    ("domains.delete", "DELETE /v1/domains/dom_1", "", refused!(|c| c.domains().delete("dom_1"))),
    ("domains.verify", "POST /v1/domains/dom_1/verify", "", refused!(|c| c.domains().verify("dom_1"))),
    ("suppressions.add", "POST /v1/suppressions", r#"{"email":"a@b"}"#,
        refused!(|c| c.suppressions().add(&NewSuppression::new("a@b")))),
    ("suppressions.list", "GET /v1/suppressions", "",
        refused!(|c| c.suppressions().list(&Paging::default()))),
    ("suppressions.delete", "DELETE /v1/suppressions/sup_1", "",
        refused!(|c| c.suppressions().delete("sup_1"))),
];

#[rustfmt::skip]
const ADMINISTRATION: &[Case] = &[
    ("workspace.get", "GET /v1/workspace", "", refused!(|c| c.workspace().get())),
    ("workspace.update", "PATCH /v1/workspace", r#"{"name":"n"}"#,
        refused!(|c| c.workspace().update(&WorkspaceChange { name: Some("n".into()), ..Default::default() }))),
    ("workspace.get_credits", "GET /v1/workspace/credits?cursor=01a", "",
        refused!(|c| c.workspace().get_credits(&Paging { cursor: Some("01a".into()), ..Default::default() }))),
    ("workspaces.list", "GET /v1/workspaces", "", refused!(|c| c.workspaces().list(&Paging::default()))),
    ("workspaces.create", "POST /v1/workspaces", r#"{"name":"n"}"#,
        refused!(|c| c.workspaces().create(&NewWorkspace::new("n")))),
    ("workspaces.grant_credits", "POST /v1/workspaces/ws_1/credits", r#"{"delta":5}"#,
        refused!(|c| c.workspaces().grant_credits("ws_1", &Grant::of(5)))),
    ("keys.create", "POST /v1/keys", r#"{"name":"n","scopes":["admin"]}"#,
        refused!(|c| c.keys().create(&NewKey::new("n", [Scope::Admin])))),
    ("keys.list", "GET /v1/keys", "", refused!(|c| c.keys().list(&Paging::default()))),
    ("keys.get", "GET /v1/keys/key_1", "", refused!(|c| c.keys().get("key_1"))),
    ("keys.update", "PATCH /v1/keys/key_1", r#"{"scopes":["emails:read"]}"#,
        refused!(|c| c.keys().update("key_1",
            &KeyChange { scopes: Some(vec![Scope::EmailsRead]), ..Default::default() }))),
    ("keys.delete", "DELETE /v1/keys/key_1", "", refused!(|c| c.keys().delete("key_1"))),
    ("keys.rotate", "POST /v1/keys/key_1/rotate", "", refused!(|c| c.keys().rotate("key_1"))),
    ("keys.revoke", "POST /v1/keys/key_1/revoke", "", refused!(|c| c.keys().revoke("key_1"))),
    ("system.health", "GET /healthz", "", refused!(|c| c.system().health())),
    ("system.ready", "GET /readyz", "", refused!(|c| c.system().ready())),
    ("system.find", "GET /v1/find/att_1", "", refused!(|c| c.system().find("att_1"))),
    ("system.server", "GET /v1/server", "", refused!(|c| c.system().server())),
    ("system.metrics", "GET /metrics", "", refused!(|c| c.system().metrics())),
    ("system.openapi", "GET /v1/openapi.json", "", refused!(|c| c.system().openapi())),
];

fn cases() -> impl Iterator<Item = &'static Case> {
    [RECEIVING, PUBLISHING, MAIL, ADMINISTRATION].into_iter().flatten()
}

#[test]
fn each_call_goes_where_the_table_says() {
    let server = Server::start();
    let client = Client::new(&server.url, "rst_test_key").unwrap();
    for (name, line, body, make) in cases() {
        let error = make(&client);
        assert!(error.status() == Some(404) && error.to_string().starts_with(name), "{name}: {error}");
        assert_eq!(server.seen(), ((*line).to_owned(), (*body).to_owned()), "{name}");
    }
}

#[test]
fn no_route_lacks_a_call() {
    let routes = CALLS.iter().filter(|call| call.path.is_some()).map(|call| call.name);
    let expected: BTreeSet<&str> = routes.filter(|name| !ELSEWHERE.contains(name)).collect();
    assert_eq!(cases().map(|case| case.0).collect::<BTreeSet<&str>>(), expected);
}
