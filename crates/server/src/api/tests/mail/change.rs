use data_encoding::BASE64;

use super::*;

/// All that an email can have, to be sent tomorrow.
fn rich() -> Value {
    json!({"from": "Jane <jane@x.example>", "to": ["B <b@y.example>", "c@y.example"], "cc": "d@y.example",
        "bcc": "e@y.example", "reply_to": ["r@x.example", "s@x.example"], "subject": "Übung", "text": "one\ntwo",
        "html": "<p>one</p>\n<img src=\"cid:logo\">", "headers": {"X-Order": "42"}, "tags": {"kind": "a"},
        "metadata": {"n": 1.50}, "scheduled_at": "2026-11-30T12:00:00Z",
        "attachments": [{"filename": "a.bin", "content": BASE64.encode(&bytes())},
            {"filename": "logo.png", "content": "AAEC", "content_id": "logo"}]})
}

fn bytes() -> Vec<u8> {
    (0..100_000_u32).map(|number| (number % 251) as u8).collect()
}

async fn scheduled(world: &World, body: Value) -> (String, Value) {
    let sent = world.post("/v1/emails", body).await.expect(202);
    assert_eq!(sent["status"], "scheduled");
    (format!("/v1/emails/{}", text(&sent, "id")), sent)
}

/// Its lines but for those of the names.
fn without(mime: &str, names: &[&str]) -> Vec<String> {
    let lines = mime.split("\r\n").filter(|line| !names.iter().any(|name| line.starts_with(name)));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_new_time_is_all_that_changes_of_a_rescheduled_email() {
    let world = World::new().await;
    let (path, sent) = scheduled(&world, rich()).await;
    let before = mime(&world, &sent).await;
    assert!(before.contains("\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\n"), "{before}");
    let body = json!({"scheduled_at": "2026-12-01T09:30:00+01:00"});
    let changed = world.patch(&path, body.clone()).await.expect(200);
    let mut expected = with(
        sent.clone(),
        json!({"scheduled_at": "2026-12-01T08:30:00.000Z", "cancellable_until": "2026-12-01T08:30:00.000Z"}),
    );
    expected.as_object_mut().unwrap().remove("replayed");
    assert_eq!(changed, expected);
    let after = mime(&world, &sent).await;
    assert!(after.contains("\r\nDate: Tue, 1 Dec 2026 08:30:00 +0000\r\n"), "{after}");
    assert_eq!(without(&after, &["Date:"]), without(&before, &["Date:"]));
    // The same again is the same, and nobody is told anew.
    let events = async || column(&world.get(&format!("{path}/events")).await.expect(200), "type");
    let told = events().await;
    assert_eq!(told.iter().filter(|event| **event == "email.scheduled").count(), 2, "{told:?}");
    assert_eq!(world.patch(&path, body).await.expect(200), expected);
    assert_eq!(events().await, told);
    assert_eq!(mime(&world, &sent).await, after);
}

#[tokio::test]
async fn what_is_absent_stays_and_attachments_keep_their_bytes() {
    let world = World::new().await;
    let (path, sent) = scheduled(&world, rich()).await;
    let change =
        json!({"subject": "New", "html": "<b>new</b>", "tags": {"kind": "b"}, "from": "k@z.example"});
    let changed = world.patch(&path, change).await.expect(200);
    assert_eq!((&changed["subject"], &changed["tags"]), (&json!("New"), &json!({"kind": "b"})));
    assert_eq!(changed["from"], json!({"email": "k@z.example", "name": null}));
    for same in ["id", "recipients", "metadata", "scheduled_at", "created_at"] {
        assert_eq!(changed[same], sent[same], "{same}");
    }
    let id = text(&sent, "id");
    assert_eq!(changed["message_id"], format!("<{id}@z.example>"));
    let mime = mime(&world, &sent).await;
    for line in [
        "From: <k@z.example>",
        "Subject: New",
        "X-Order: 42",
        "Reply-To: <r@x.example>, <s@x.example>",
        "To: \"B\" <b@y.example>, <c@y.example>",
        "Cc: <d@y.example>",
        &format!("Message-ID: <{id}@z.example>"),
    ] {
        let unfolded = mime.replace("\r\n ", " ").replace("\r\n\t", " ");
        assert!(unfolded.contains(&format!("{line}\r\n")), "{line} in {}", &unfolded[..900]);
    }
    assert!(mime.contains("<b>new</b>") && mime.contains("one\r\ntwo") && !mime.contains("e@y.example"));
    let attachments = crate::mail::parse::attachments_of(mime.as_bytes()).unwrap();
    let found: Vec<_> = attachments.iter().map(|it| (it.filename.as_str(), it.content.to_vec())).collect();
    assert_eq!(found, [("logo.png", vec![0, 1, 2]), ("a.bin", bytes())]);
}

#[tokio::test]
async fn null_takes_away_what_an_email_can_be_without() {
    let world = World::new().await;
    let (path, sent) = scheduled(&world, rich()).await;
    let change = json!({"subject": null, "html": null, "headers": null, "tags": null, "metadata": null, "reply_to": null});
    let changed = world.patch(&path, change).await.expect(200);
    assert_eq!(
        (&changed["subject"], &changed["tags"], &changed["metadata"]),
        (&Value::Null, &json!({}), &Value::Null)
    );
    let mime = mime(&world, &sent).await;
    for gone in ["Subject:", "X-Order:", "Reply-To:", "text/html"] {
        assert!(!mime.contains(gone), "{gone}");
    }
    assert!(mime.contains("one\r\ntwo"));
}

#[tokio::test]
async fn what_a_change_cannot_be_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let (path, sent) = scheduled(&world, rich()).await;
    let before = mime(&world, &sent).await;
    for (body, code, param) in [
        (json!({"to": "z@y.example"}), "invalid_field", "to"),
        (json!({"cc": null}), "invalid_field", "cc"),
        (json!({"bcc": []}), "invalid_field", "bcc"),
        (json!({"scheduled_at": null}), "invalid_field", "scheduled_at"),
        (json!({"scheduled_at": "soon"}), "invalid_field", "scheduled_at"),
        (json!({"scheduled_at": "2026-12-29T23:19:41.001Z"}), "invalid_field", "scheduled_at"),
        (json!({"from": null}), "invalid_field", "from"),
        (json!({"from": "z"}), "invalid_field", "from"),
        (json!({"reply_to": ["z@y.example", "y"]}), "invalid_field", "reply_to[1]"),
        (json!({"html": null, "text": null}), "invalid_field", "html"),
        (json!({"subject": "a\nb"}), "invalid_field", "subject"),
        (json!({"headers": {"Date": "x"}}), "invalid_field", "headers.Date"),
        (json!({"tags": {"k": ""}}), "invalid_field", "tags.k"),
        (json!({"metadata": [1]}), "invalid_field", "metadata"),
        (json!({"attachments": []}), "unknown_field", "attachments"),
    ] {
        let error = world.patch(&path, body.clone()).await.refused(422, code);
        assert_eq!(error["param"], param, "{body}: {error}");
    }
    let error = world.patch(&path, json!({"to": "z@y.example"})).await.refused(422, "invalid_field");
    assert!(text(&error, "message").contains("cancel it and send another"), "{error}");
    assert_eq!(mime(&world, &sent).await, before);
    world.patch(&path, json!({})).await.expect(200);
    assert_eq!(mime(&world, &sent).await, before);
}

#[tokio::test]
async fn only_a_scheduled_email_of_ones_own_can_be_changed() {
    let world = World::new().await;
    let plain = json!({"from": "a@x.example", "to": "b@y.example", "text": "t"});
    let queued = world.post("/v1/emails", plain.clone()).await.expect(202);
    let (cancelled, _) = scheduled(&world, rich()).await;
    world.post(&format!("{cancelled}/cancel"), Value::Null).await.expect(200);
    for path in [format!("/v1/emails/{}", text(&queued, "id")), cancelled] {
        for body in [json!({"subject": "s"}), json!({})] {
            let error = world.patch(&path, body).await.refused(409, "not_changeable");
            assert_eq!(error["type"], "conflict_error");
        }
    }
    let (path, _) = scheduled(&world, rich()).await;
    let change = json!({"subject": "s"});
    world.call(&world.stranger().await, "PATCH", &path, change.clone()).await.refused(404, "email_not_found");
    let test = json!({"name": "t", "scopes": ["emails:send"], "mode": "test"});
    let test = text(&world.post("/v1/keys", test).await.expect(201), "token");
    world.call(&test, "PATCH", &path, change.clone()).await.refused(404, "email_not_found");
    // Due by now.
    world.clock.advance(std::time::Duration::from_secs(24 * 3600));
    world.patch(&path, change).await.refused(409, "not_changeable");
}

#[tokio::test]
async fn an_email_that_is_moved_into_the_past_is_due_at_once() {
    let world = World::new().await;
    let (path, _) = scheduled(&world, rich()).await;
    let changed = world.patch(&path, json!({"scheduled_at": "2026-11-01T00:00:00Z"})).await.expect(200);
    assert_eq!((&changed["status"], &changed["cancellable_until"]), (&json!("queued"), &Value::Null));
}

#[tokio::test]
async fn an_email_keeps_its_template_until_somebody_rewrites_it() {
    let world = World::new().await;
    let template = json!({"name": "T", "subject": "Hi", "text": "Hello {{ name }}", "publish": true});
    world.post("/v1/templates", template).await.expect(201);
    let body = json!({"from": "a@x.example", "to": "b@y.example", "props": {"name": "Jo"},
        "scheduled_at": "2026-11-30T12:00:00Z"});
    let sent = world.post("/v1/templates/t/send", body).await.expect(202);
    let path = format!("/v1/emails/{}", text(&sent, "id"));
    let workspace = text(&world.get("/v1/workspace").await.expect(200), "id").parse().unwrap();
    let template = async || {
        let id = text(&sent, "id").parse().unwrap();
        let stored = world.store.email(workspace, id, world.clock.now()).await.unwrap().unwrap();
        stored.details.template
    };
    let moved = json!({"scheduled_at": "2026-11-30T13:00:00Z"});
    assert_eq!(world.patch(&path, moved).await.expect(200)["subject"], "Hi");
    assert_eq!(template().await.unwrap().1, 1);
    world.patch(&path, json!({"subject": "Mine"})).await.expect(200);
    assert_eq!(template().await, None);
    assert!(mime(&world, &sent).await.contains("Hello Jo"));
}
