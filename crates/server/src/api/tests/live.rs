use super::*;
use crate::api::openapi;

/// Reads events of an open stream until `count` came.
async fn events(body: &mut Body, count: usize) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let mut received = String::new();
    while events.len() < count {
        let frame = body.frame().await.expect("the stream is open").unwrap();
        received.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        while let Some((event, rest)) = received.split_once("\n\n") {
            let field =
                |name: &str| event.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                events.push((name, serde_json::from_str(&data).unwrap()));
            }
            received = rest.to_owned();
        }
    }
    events
}

async fn follow(world: &World, key: &str, path: &str) -> Body {
    let request = Request::builder().uri(path).header("authorization", format!("Bearer {key}"));
    let response = world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(response.headers().contains_key("x-request-id"));
    response.into_body()
}

#[tokio::test]
async fn requests_and_deliveries_are_told_as_they_happen() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    world.attach().await;
    let mut stream = follow(&world, &world.admin, "/v1/stream").await;
    let id = world.receive(&source, "x").await;
    world.settle(Outcome::of_status(200, None)).await;
    // The delivery when it began, the request, and the delivery when it ended: the first two in either order.
    let told = events(&mut stream, 3).await;
    let of = |wanted: &str| -> Vec<&Value> {
        told.iter().filter(|(name, _)| name == wanted).map(|(_, data)| data).collect()
    };
    let (requests, deliveries) = (of("request"), of("delivery"));
    assert_eq!((requests.len(), &requests[0]["id"], requests[0].get("deliveries")), (1, &json!(id), None));
    let last = deliveries[1];
    assert_eq!((&last["request_id"], &last["attempts"][0]["result"]), (&json!(id), &json!("delivered")));
}

#[tokio::test]
async fn events_are_told_as_lists_show_them_and_so_are_their_deliveries() {
    let world = World::new().await;
    world.post("/v1/webhooks", json!({"url": "https://a.example", "events": ["*"]})).await.expect(201);
    world.attach().await;
    let mut stream = follow(&world, &world.admin, "/v1/stream").await;
    let id = text(&world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202), "id");
    world.settle(Outcome::of_status(200, None)).await;
    let told = events(&mut stream, 3).await;
    let of = |wanted: &str| -> Vec<&Value> {
        told.iter().filter(|(name, _)| name == wanted).map(|(_, data)| data).collect()
    };
    let (events, deliveries) = (of("event"), of("delivery"));
    assert_eq!(*events[0], world.get("/v1/events").await.expect(200)["data"][0]);
    let last = deliveries[1];
    assert_eq!((&last["event_id"], &last["attempts"][0]["result"]), (&json!(id), &json!("delivered")));
    assert_eq!((events.len(), deliveries.len()), (1, 2));
}

#[tokio::test]
async fn emails_are_told_as_lists_show_them_and_their_deliveries_with_the_recipient() {
    let world = World::new().await;
    world.attach().await;
    let mut stream = follow(&world, &world.admin, "/v1/stream").await;
    let body = json!({"from": "a@x.example", "to": "b@y.example", "subject": "s", "text": "one"});
    let id = text(&world.post("/v1/emails", body).await.expect(202), "id");
    let mut told = events(&mut stream, 1).await;
    while !["email", "delivery"].iter().all(|wanted| told.iter().any(|(name, _)| name == wanted)) {
        told.extend(events(&mut stream, 1).await);
    }
    let of = |wanted: &str| told.iter().find(|(name, _)| name == wanted).map(|(_, data)| data).unwrap();
    assert_eq!(*of("email"), world.get("/v1/emails").await.expect(200)["data"][0]);
    let delivery = of("delivery");
    assert_eq!((&delivery["email_id"], &delivery["recipient"]), (&json!(id), &json!("b@y.example")));
}

#[test]
fn all_that_a_stream_tells_is_described() {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let told = text(&document["paths"]["/v1/stream"]["get"], "description");
    for name in ["request", "event", "email", "delivery", "lagged"] {
        assert!(told.contains(&format!("`{name}`")), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_stream_tells_no_events_to_a_key_that_may_not_read_them() {
    let world = World::new().await;
    let source = world.source("s").await;
    let scopes = ["requests:read", "deliveries:read", "events:read"];
    let (blind, seeing) = (world.key(json!(scopes[..2])).await, world.key(json!(scopes)).await);
    let mut blind = follow(&world, &blind, "/v1/stream").await;
    let mut seeing = follow(&world, &seeing, "/v1/stream").await;
    world.post("/v1/events", json!({"type": "a.b", "data": "canary"})).await.expect(202);
    let request = world.receive(&source, "x").await;
    assert_eq!(events(&mut seeing, 1).await[0].0, "event");
    assert_eq!(events(&mut blind, 1).await[0].1["id"], request);
}

#[tokio::test]
async fn a_stream_of_one_source_tells_no_events() {
    let world = World::new().await;
    let source = world.source("s").await;
    world.post("/v1/webhooks", json!({"url": "https://a.example", "events": ["*"]})).await.expect(201);
    world.attach().await;
    let path = format!("/v1/stream?source={}", text(&source, "id"));
    let mut stream = follow(&world, &world.admin, &path).await;
    world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    let request = world.receive(&source, "x").await;
    assert_eq!(events(&mut stream, 1).await[0].1["id"], request);
}

#[tokio::test]
async fn a_stream_tells_one_workspace_and_one_source_only() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    let other = world.source("other").await;
    let stranger = world.stranger().await;
    let foreign = world.call(&stranger, "POST", "/v1/sources", json!({"name": "theirs"})).await.expect(201);
    let mut all = follow(&world, &world.admin, "/v1/stream").await;
    let path = format!("/v1/stream?source={}", text(&other, "id"));
    let mut filtered = follow(&world, &world.admin, &path).await;
    world.receive(&foreign, "x").await;
    let first = world.receive(&source, "x").await;
    let delivery = text(&world.get("/v1/deliveries").await.expect(200)["data"][0], "id");
    world.post(&format!("/v1/deliveries/{delivery}/cancel"), Value::Null).await.expect(200);
    let second = world.receive(&other, "x").await;
    assert_eq!(events(&mut all, 1).await[0].1["id"], first);
    assert_eq!(events(&mut filtered, 1).await[0].1["id"], second);
}

#[tokio::test]
async fn a_stream_ends_when_the_node_stops() {
    let world = World::new().await;
    let stream = follow(&world, &world.admin, "/v1/stream").await;
    world.stop.send_replace(true);
    stream.collect().await.unwrap();
}

#[tokio::test]
async fn a_listener_that_falls_behind_is_told_how_much_it_missed() {
    let world = World::new().await;
    let source = world.source("s").await;
    let mut stream = follow(&world, &world.admin, "/v1/stream").await;
    let total = 20_000;
    let mut accepts = Vec::with_capacity(total);
    for _ in 0..total {
        accepts.push(world.receive(&source, "x"));
    }
    futures_util::future::join_all(accepts).await;
    let (name, data) = events(&mut stream, 1).await.remove(0);
    assert_eq!(name, "lagged");
    assert!(data["missed"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn both_scopes_are_wanted() {
    let world = World::new().await;
    let key = world.key(json!(["requests:read"])).await;
    let error = world.call(&key, "GET", "/v1/stream", Value::Null).await.refused(403, "insufficient_scope");
    assert!(text(&error, "message").contains("deliveries:read"));
}
