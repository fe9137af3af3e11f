use super::*;

/// An email to these.
async fn send(world: &World, to: Value) -> Value {
    let body = json!({"from": "a@x.example", "to": to, "subject": "s", "text": "one"});
    world.post("/v1/emails", body).await.expect(202)
}

#[tokio::test]
async fn a_delivery_of_an_email_shows_its_recipient() {
    let world = World::new().await;
    world.attach().await;
    let email = send(&world, json!(["B <B@y.example>", "c@z.example"])).await;
    world.settle(Outcome::of_status(250, None)).await;
    let listed = world.get("/v1/deliveries").await.expect(200);
    assert_eq!(column(&listed, "recipient"), ["c@z.example", "B@y.example"]);
    let shown = world.get(&format!("/v1/deliveries/{}", text(&listed["data"][1], "id"))).await.expect(200);
    assert_eq!((&shown["email_id"], &shown["recipient"]), (&email["id"], &json!("B@y.example")));
    assert_eq!(shown["attempts"][0]["channel"], "smtp");
    let own = ["request_id", "event_id", "destination_id", "webhook_id"];
    assert_eq!(own.map(|name| shown.get(name)), [None; 4]);
}

#[tokio::test]
async fn other_deliveries_have_no_recipient() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    world.receive(&source, "x").await;
    world.post("/v1/webhooks", json!({"url": "https://a.example", "events": ["*"]})).await.expect(201);
    world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    let listed = world.get("/v1/deliveries").await.expect(200);
    let recipients = listed["data"].as_array().unwrap().iter().map(|it| it.get("recipient"));
    assert_eq!(recipients.collect::<Vec<_>>(), [None, None]);
}

#[tokio::test]
async fn deliveries_of_one_email_are_listed() {
    let world = World::new().await;
    let email = text(&send(&world, json!(["b@y.example", "c@z.example"])).await, "id");
    send(&world, json!("d@y.example")).await;
    let list = async |query: &str| world.get(&format!("/v1/deliveries?email={query}")).await;
    let recipients = async |query: &str| column(&list(query).await.expect(200), "recipient");
    assert_eq!(recipients(&email).await, ["c@z.example", "b@y.example"]);
    assert_eq!(recipients(&format!("{email}&state=pending&limit=1")).await, ["c@z.example"]);
    assert!(recipients(&format!("{email}&state=failed")).await.is_empty());
    assert!(recipients("em_01abcdefghe0080000000000ab").await.is_empty());
    assert_eq!(list("whe_1").await.refused(422, "invalid_parameter")["param"], "email");
    let stranger = world.stranger().await;
    let theirs = world.call(&stranger, "GET", &format!("/v1/deliveries?email={email}"), Value::Null).await;
    assert_eq!(theirs.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn an_emails_events_come_in_pages_the_oldest_first() {
    let world = World::new().await;
    let body = json!({"from": "a@x.example", "to": "b@y.example", "subject": "s", "text": "one",
        "scheduled_at": "2026-11-30T12:00:00Z"});
    let path = format!("/v1/emails/{}", text(&world.post("/v1/emails", body).await.expect(202), "id"));
    let move_to = async |at: &str| world.patch(&path, json!({"scheduled_at": at})).await.expect(200);
    move_to("2026-11-30T13:00:00Z").await;
    let page = async |query: &str| world.get(&format!("{path}/events?{query}")).await.expect(200);
    let all = page("").await;
    assert_eq!(column(&all, "type"), ["email.accepted", "email.scheduled", "email.scheduled"]);
    assert_eq!(
        (&all["has_more"], &all["next_cursor"], &all["prev_cursor"]),
        (&json!(false), &json!(null), &json!(null))
    );
    let first = page("limit=2&include_total=true").await;
    assert_eq!((&first["has_more"], &first["total"]), (&json!(true), &json!(3)));
    assert_eq!(column(&first, "id"), column(&all, "id")[..2]);
    // What comes later is behind what was there.
    move_to("2026-11-30T14:00:00Z").await;
    let next = text(&first, "next_cursor");
    for query in [format!("limit=2&cursor={next}"), format!("limit=2&starting_after={next}")] {
        let second = page(&query).await;
        assert_eq!((second["data"].as_array().unwrap().len(), &second["has_more"]), (2, &json!(false)));
        assert_eq!(second["data"][0], all["data"][2]);
        let back = page(&format!("limit=2&ending_before={}", text(&second, "prev_cursor"))).await;
        assert_eq!((&back["data"], &back["prev_cursor"]), (&first["data"], &Value::Null));
    }
    let refused = world.get(&format!("{path}/events?type=email.accepted")).await;
    assert_eq!(refused.refused(422, "unknown_parameter")["param"], "type");
}
