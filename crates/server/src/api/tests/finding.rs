//! What an id stands for.

use super::*;

#[tokio::test]
async fn every_id_leads_to_its_thing() {
    let world = World::new().await;
    world.attach().await;
    let source = world.post("/v1/sources", json!({"name": "shop"})).await.expect(201);
    let source_page = format!("/sources/{}", text(&source, "id"));
    let body = json!({"kind": "http", "url": "https://a.example"});
    let destination = world.post(&format!("/v1{source_page}/destinations"), body).await.expect(201);
    let request = world.receive(&source, "x").await;
    let read = world.get(&format!("/v1/requests/{request}")).await.expect(200);
    let delivery = &read["deliveries"][0];
    let attempt = text(&delivery["attempts"][0], "id");
    let delivery = text(delivery, "id");
    let body = json!({"url": "https://b.example", "events": ["*"]});
    let webhook = text(&world.post("/v1/webhooks", body).await.expect(201), "id");
    let event = text(&world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202), "id");
    let body = json!({"from": "a@x.example", "to": ["b@y.example"], "cc": ["c@y.example", "d@y.example"], "subject": "s", "text": "t"});
    let email = world.post("/v1/emails", body).await.expect(202);
    let (last, email) = (text(&email["recipients"][2], "id"), text(&email, "id"));
    let key = text(&world.get("/v1/keys").await.expect(200)["data"][0], "id");
    let template = text(&world.post("/v1/templates", json!({"name": "n"})).await.expect(201), "id");
    let destination = text(&destination, "id");

    let table = [
        (request.clone(), "request", format!("/v1/requests/{request}"), format!("/requests/{request}")),
        (text(&read, "key"), "request", format!("/v1/requests/{request}"), format!("/requests/{request}")),
        (
            delivery.clone(),
            "delivery",
            format!("/v1/deliveries/{delivery}"),
            format!("/deliveries/{delivery}"),
        ),
        (attempt, "attempt", format!("/v1/deliveries/{delivery}"), format!("/deliveries/{delivery}")),
        (text(&source, "id"), "source", format!("/v1{source_page}"), source_page.clone()),
        (
            destination.clone(),
            "destination",
            format!("/v1{source_page}/destinations/{destination}"),
            source_page,
        ),
        (webhook.clone(), "webhook", format!("/v1/webhooks/{webhook}"), format!("/webhooks/{webhook}")),
        (event.clone(), "event", format!("/v1/events/{event}"), format!("/events/{event}")),
        (email.clone(), "email", format!("/v1/emails/{email}"), format!("/emails/{email}")),
        (last, "recipient", format!("/v1/emails/{email}"), format!("/emails/{email}")),
        (key.clone(), "key", format!("/v1/keys/{key}"), "/keys".into()),
        (template.clone(), "template", format!("/v1/templates/{template}"), format!("/templates/{template}")),
    ];
    for (id, kind, url, page) in table {
        let found = world.get(&format!("/v1/find/{id}")).await.expect(200);
        assert_eq!(found, json!({"object": "found", "id": id, "kind": kind, "url": url, "page": page}));
    }
    for (id, code) in [
        ("nothing", "not_found"),
        ("mbx_01kh7q3x5kehhv1bw9n1a9gcf5", "not_found"),
        ("req_", "request_not_found"),
        ("att_01kh7q3x5kehhv1bw9n1a9gcf5", "attempt_not_found"),
        ("er_01kh7q3x5kehhv1bw9n1a9gcf5", "recipient_not_found"),
        ("rpl_01kh7q3x5kehhv1bw9n1a9gcf5", "replay_not_found"),
    ] {
        world.get(&format!("/v1/find/{id}")).await.refused(404, code);
    }
}

#[tokio::test]
async fn nothing_is_found_that_the_key_may_not_read() {
    let world = World::new().await;
    let source = world.post("/v1/sources", json!({"name": "shop"})).await.expect(201);
    let request = world.receive(&source, "x").await;
    let key = world.key(json!(["sources:read"])).await;
    world.call(&key, "GET", &format!("/v1/find/{}", text(&source, "id")), Value::Null).await.expect(200);
    let answer = world.call(&key, "GET", &format!("/v1/find/{request}"), Value::Null).await;
    answer.refused(403, "insufficient_scope");
    let other = world.post("/v1/workspaces", json!({"name": "other"})).await.expect(201);
    let other = text(&other["key"], "token");
    world
        .call(&other, "GET", &format!("/v1/find/{request}"), Value::Null)
        .await
        .refused(404, "request_not_found");
}
