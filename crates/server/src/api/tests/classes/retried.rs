//! The calls that a client repeats: the second one succeeds, says the same, and leaves all as it was.

use super::*;

/// What the second call is answered.
enum Then {
    /// What the first was.
    Same,
    /// What the first was, but for `replayed`.
    Replayed,
    /// What was stored, by its id, as it stands now, with `replayed`.
    AsItStands,
    /// What it asked for, as it stands now.
    Changed,
    /// A refusal that tells no lie: the last word says why it must be.
    Refused(u16, &'static str, &'static str),
}

fn email() -> Value {
    json!({"from": "Jane <jane@x.example>", "to": ["b@y.example", "jane@y.example"], "subject": "Hi", "text": "t"})
}

fn with(more: Value) -> Value {
    let mut body = email();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A headers' value is never read back, a changed schedule and pace are.
fn settings() -> Value {
    json!({"headers": {"X-Key": "new", "X-More": "1"}, "schedule": {"kind": "custom", "waits_seconds": [1.5]},
        "max_in_flight": 1, "rate_per_second": 0.5, "timeout_seconds": 60})
}

fn keyed() -> Vec<(Row, Then)> {
    let event = json!({"type": "a.b", "data": {"n": 1.50}});
    let batch = json!({"events": [event, {"type": "d.c", "data": null}]});
    let tomorrow = json!({"scheduled_at": "2026-12-01T08:00:00Z"});
    let filled = json!({"from": "a@x.example", "to": "b@y.example", "props": {"name": "Jo"}});
    let failed = || Meanwhile::Ends(Outcome::of_status(503, None));
    let arrived = || Meanwhile::Ends(Outcome::Delivered { status: None });
    let in_two_days = Meanwhile::Leaves(Duration::from_secs(48 * 3600));
    let some_bad = json!({"emails": [email(), {"from": "a@x.example"}, with(tomorrow.clone())]});
    vec![
        (row("events.publish", "on the wire", &[], event.clone()), Then::Replayed),
        (row("events.publish", "its delivery failed", &[], event).when(failed()), Then::Replayed),
        (row("events.publish_batch", "on the wire", &[], batch), Then::Replayed),
        (row("emails.send", "on the wire, one mailbox suppressed", &[], email()), Then::Replayed),
        (row("emails.send", "it arrived", &[], email()).when(arrived()), Then::AsItStands),
        (row("emails.send", "in test mode", &[], email()).by("tester"), Then::Replayed),
        (row("emails.send", "scheduled", &[], with(tomorrow.clone())), Then::Replayed),
        (row("emails.send", "it has left", &[], with(tomorrow)).when(in_two_days), Then::AsItStands),
        (row("emails.send_batch", "one of three is bad", &[], some_bad), Then::Replayed),
        // Then nothing is stored, and the key is free.
        (row("emails.send_batch", "all are bad", &[], json!({"emails": [{}, {"to": 1}]})), Then::Same),
        (row("templates.send", "by its id", &["published"], filled.clone()), Then::Replayed),
        (row("templates.send", "by its slug", &["greeting"], filled), Then::Replayed),
    ]
}

fn set_in_sources() -> Vec<(Row, Then)> {
    let answer = json!({"status": 202, "content_type": "text/plain", "body": "thanks"});
    let source = json!({"name": "renamed", "response": answer, "retention_days": 7});
    let name = "destinations.update";
    [
        row("sources.update", "a new name, answer and retention", &["source"], source),
        row(
            "sources.update",
            "back to the defaults",
            &["inbox"],
            json!({"retention_days": null, "response": null}),
        ),
        row(
            "sources.update",
            "rules, with a secret",
            &["source"],
            json!({"dedupe": {"header": "X-Id", "hours": 24}, "verification": {"kind": "github", "secret": "s"}}),
        ),
        row("sources.update", "nothing", &["source"], json!({})),
        row(name, "paused, with deliveries pending", &["source", "destination"], json!({"paused": true})),
        row(name, "paused already", &["source", "paused_destination"], json!({"paused": true})),
        row(name, "resumed", &["source", "paused_destination"], json!({"paused": false})),
        row(
            name,
            "resumed, and what was held left",
            &["source", "paused_destination"],
            json!({"paused": false}),
        )
        .when(Meanwhile::Leaves(Duration::ZERO)),
        row(name, "another url", &["source", "destination"], json!({"url": "https://new.example"})),
        row(name, "another pace, schedule and headers", &["source", "destination"], settings()),
        row(name, "an attempt on the wire", &["strict", "strict_destination"], json!({"attempts": 2})),
        row("deliveries.cancel", "pending", &["pending"], Value::Null),
        row("deliveries.cancel", "held by a pause", &["held"], Value::Null),
        row("deliveries.cancel", "cancelled already", &["cancelled"], Value::Null),
        row("deliveries.cancel", "on the wire", &["sending"], Value::Null),
        row("deliveries.cancel", "of an event, pending", &["event_pending"], Value::Null),
        row("deliveries.cancel", "of an event, on the wire", &["event_sending"], Value::Null),
    ]
    .map(|row| (row, Then::Same))
    .into_iter()
    .chain([(
        row("deliveries.cancel", "on the wire, and it failed", &["sending"], Value::Null)
            .when(Meanwhile::Ends(Outcome::of_status(503, None))),
        Then::Changed,
    )])
    .collect()
}

fn set_of_webhooks() -> Vec<(Row, Then)> {
    let name = "webhooks.update";
    let (active, paused) = (json!({"status": "active"}), json!({"status": "paused"}));
    let url = json!({"url": "https://new.example/hook"});
    let failed = || Meanwhile::Ends(Outcome::of_status(503, None));
    let same = [
        row(name, "another url", &["webhook"], url.clone()),
        row(name, "another url of a degraded one", &["degraded_webhook"], url.clone()),
        row(name, "another url of a paused one", &["paused_webhook"], url.clone()),
        row(name, "active already", &["webhook"], active.clone()),
        row(name, "active on a degraded one", &["degraded_webhook"], active.clone()),
        row(name, "active on a paused one", &["paused_webhook"], active),
        row(name, "paused, with deliveries pending and on the wire", &["webhook"], paused.clone()),
        row(name, "paused, degraded before", &["degraded_webhook"], paused.clone()),
        row(name, "paused already", &["paused_webhook"], paused.clone()),
        row(name, "other events", &["webhook"], json!({"events": ["x.y"], "description": "ours"})),
        row(name, "another pace, schedule and headers", &["webhook"], settings()),
    ];
    let changed = [
        row(name, "another url, and what was on the wire failed", &["webhook"], url).when(failed()),
        row(name, "paused, and what was on the wire failed", &["webhook"], paused).when(failed()),
    ];
    let changed = changed.map(|row| (row, Then::Changed));
    same.map(|row| (row, Then::Same)).into_iter().chain(changed).collect()
}

fn set_of_emails() -> Vec<(Row, Then)> {
    let name = "emails.update";
    let soon = json!({"scheduled_at": "2026-11-30T00:00:00Z"});
    let words = json!({"subject": "New", "html": null, "text": "two\r\nlines\n", "tags": {"kind": "b"},
        "headers": {"X-A": "1", "X-B": "2"}, "metadata": {"b": 2.50, "a": 1}, "from": "K <k@z.example>",
        "reply_to": ["r@z.example"]});
    let both = json!({"subject": "New", "scheduled_at": "2026-11-30T00:00:00Z"});
    let past = json!({"scheduled_at": "2026-11-01T00:00:00Z"});
    let left = || Meanwhile::Leaves(Duration::from_secs(48 * 3600));
    let same = [
        row("emails.cancel", "scheduled", &["scheduled"], Value::Null),
        row("emails.cancel", "queued", &["queued"], Value::Null),
        row("emails.cancel", "cancelled already", &["cancelled_email"], Value::Null),
        row(name, "another time", &["scheduled"], soon.clone()),
        row(name, "a time that is past", &["scheduled"], past.clone()),
        row(name, "other words", &["scheduled"], words.clone()),
        row(name, "other words at another time", &["scheduled"], both.clone()),
        row(name, "nothing", &["scheduled"], json!({})),
    ];
    let changed = [
        row(name, "another time, and it has left", &["scheduled"], soon).when(left()),
        row(name, "a time that is past, and it has left", &["scheduled"], past).when(left()),
        row(name, "other words, and it has left", &["scheduled"], words).when(left()),
        row(name, "other words at another time, and it has left", &["scheduled"], both).when(left()),
        row(name, "nothing, and it has left", &["scheduled"], json!({})).when(left()),
    ];
    let changed = changed.map(|row| (row, Then::Changed));
    same.map(|row| (row, Then::Same)).into_iter().chain(changed).collect()
}

fn set_of_the_rest() -> Vec<(Row, Then)> {
    let workspace = json!({"name": "Ours", "owners": ["a@b.example"], "retention_days_max": 60,
        "quotas": {"webhooks": 10}});
    let jane = json!({"email": "\"jane\"@Y.example"});
    let props = json!({"props": {"name": "<Jo>"}});
    [
        row("workspace.update", "a new name, owners and bound", &[], workspace),
        row(
            "workspace.update",
            "back to the defaults",
            &[],
            json!({"owners": null, "retention_days_max": null, "quotas": null}),
        ),
        row(
            "keys.update",
            "a new name and scopes",
            &["key"],
            json!({"name": "n", "scopes": ["events:read"]}),
        ),
        row("keys.update", "a revoked one", &["revoked_key"], json!({"name": "n"})),
        row("keys.update", "its own name", &["manager"], json!({"name": "n"})).by("manager"),
        row("keys.revoke", "a valid one", &["key"], Value::Null),
        row("keys.revoke", "revoked already", &["revoked_key"], Value::Null),
        row("domains.update", "its own name", &["domain"], json!({"name": "GOOD.example"})),
        row("suppressions.add", "a new one", &[], json!({"email": "b@y.example"})),
        row("suppressions.add", "one that is there", &[], jane),
        row("templates.publish", "a draft", &["draft"], Value::Null),
        row("templates.publish", "published already", &["published"], Value::Null),
        row("templates.publish", "a new draft of a published one", &["rewritten"], Value::Null),
        row("templates.preview", "a draft", &["draft"], props.clone()),
        row("templates.preview", "a published one", &["greeting"], props),
        row("templates.render", "loose parts", &[], json!({"html": "{{ a }}", "props": {"a": 1.50}})),
        row("domains.verify", "its records are set", &["domain"], Value::Null),
        row("domains.verify", "its records are not set", &["unset_domain"], Value::Null),
    ]
    .map(|row| (row, Then::Same))
    .into()
}

/// Where the first call, or what it did not prevent, leaves nothing that the second could be answered with.
fn refused() -> Vec<(Row, Then)> {
    let arrived = Meanwhile::Ends(Outcome::of_status(200, None));
    let narrow = json!({"scopes": ["sources:read"]});
    vec![
        (
            row("deliveries.cancel", "on the wire, and it arrived", &["sending"], Value::Null).when(arrived),
            Then::Refused(
                409,
                "not_cancellable",
                "it was delivered before it could be cancelled, which is the news",
            ),
        ),
        (
            row("keys.revoke", "the key that asks for it", &["manager"], Value::Null).by("manager"),
            Then::Refused(401, "revoked_api_key", "the code says that it is done"),
        ),
        (
            row("keys.update", "the key that gives up its scope", &["manager"], narrow).by("manager"),
            Then::Refused(403, "insufficient_scope", "who no longer manages keys is not told of them"),
        ),
    ]
}

/// The rows, without what they are there for.
pub(super) fn rows() -> Vec<Row> {
    table().into_iter().map(|(row, _)| row).collect()
}

fn table() -> Vec<(Row, Then)> {
    [keyed(), set_in_sources(), set_of_webhooks(), set_of_emails(), set_of_the_rest(), refused()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_call_that_is_retried_has_a_row() {
    let table = table();
    let rows: Vec<&Row> = table.iter().map(|(row, _)| row).collect();
    check_rows(&rows, "classes/retried.rs", |it| RETRIED.contains(&it.class.as_str()) && it.class != "read");
}

#[tokio::test]
async fn keyed_calls_may_be_made_twice() {
    check(keyed()).await;
}

#[tokio::test]
async fn calls_that_set_sources_and_deliveries_may_be_made_twice() {
    check(set_in_sources()).await;
}

#[tokio::test]
async fn calls_that_set_webhooks_may_be_made_twice() {
    check(set_of_webhooks()).await;
}

#[tokio::test]
async fn calls_that_set_emails_may_be_made_twice() {
    check(set_of_emails()).await;
}

#[tokio::test]
async fn calls_that_set_the_rest_or_only_look_may_be_made_twice() {
    check(set_of_the_rest()).await;
}

#[tokio::test]
async fn a_second_call_is_refused_only_where_the_refusal_tells_no_lie() {
    check(refused()).await;
}

/// Makes each call twice.
async fn check(rows: Vec<(Row, Then)>) {
    let check = async |(row, then): (Row, Then)| {
        let twice = Twice::make(&row).await;
        let mut found = twice.differences();
        found.extend(wrong(&then, &twice));
        let place = format!("{}, {}", row.name, row.about);
        (!found.is_empty()).then(|| format!("{place}:\n    {}", found.join("\n    ")))
    };
    let faults = at_once(rows.into_iter().map(check)).await;
    assert!(faults.is_empty(), "made twice, these are not what they are once:\n{}", faults.join("\n"));
}

/// What is wrong with the second answer.
fn wrong(then: &Then, twice: &Twice) -> Vec<String> {
    let (mut first, second) = (stripped(&twice.first), stripped(&twice.second));
    if let Then::Refused(status, code, reason) = then {
        let refused = twice.second.status == *status && second["error"]["code"] == *code;
        return if refused {
            Vec::new()
        } else {
            vec![format!("the second answer is not {code}, although {reason}: {second}")]
        };
    }
    if !twice.second.status.is_success() {
        return vec![format!("the second answer: {} {second}", twice.second.status)];
    }
    let mut lines = Vec::new();
    match then {
        Then::Changed | Then::Refused(..) => {}
        Then::Same => compare("the answer", &first, &second, &mut lines),
        Then::Replayed => {
            first["replayed"] = json!(true);
            compare("the answer", &first, &second, &mut lines);
        }
        Then::AsItStands => {
            let stored = format!("admin /v1/emails/{}", text(&first, "id"));
            let mut stored = twice.after_one[&stored].clone();
            stored["replayed"] = json!(true);
            compare("the answer", &stored, &second, &mut lines);
        }
    }
    lines
}
