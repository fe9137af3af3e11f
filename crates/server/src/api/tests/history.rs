use super::*;
use restante_core::outcome::FailureKind;

/// The paths of a source's deliveries, newest first.
async fn deliveries(world: &World) -> Vec<String> {
    let ids = column(&world.get("/v1/deliveries").await.expect(200), "id");
    ids.iter().map(|id| format!("/v1/deliveries/{}", id.as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_request_is_shown_with_all_that_happened() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    world.attach().await;
    let id = world.receive(&source, r#"{"n": 1}"#).await;
    world.settle(Outcome::of_status(503, None)).await;
    let request = world.get(&format!("/v1/requests/{id}")).await.expect(200);
    let delivery = &request["deliveries"][0];
    let key = text(&request, "key");
    assert_eq!((key.len(), &key[14..15]), (36, "7"));
    assert_eq!(
        request,
        json!({"object": "request", "id": id, "source_id": source["id"], "method": "POST", "path": "/a/b",
            "query": "x=1", "headers": [["Content-Type", "application/json"], ["X-Raw", "ÿ"]], "body_bytes": 8,
            "content_type": "application/json", "remote_address": "192.0.2.1",
            "received_at": "2026-11-29T23:19:41.000Z", "key": key, "duplicate_of": null, "rejected": false,
            "rejected_because": null, "replay_of": null, "expires_at": "2026-12-29T23:19:41.000Z", "state": "pending",
            "deliveries": [delivery]})
    );
    let attempt = &delivery["attempts"][0];
    assert_eq!(
        *delivery,
        json!({"object": "delivery", "id": delivery["id"], "request_id": id,
            "destination_id": destination.rsplit('/').next(), "state": "pending", "reason": null,
            "cancel_requested": false, "attempts_used": 1, "attempts_max": 5,
            "next_attempt_at": "2026-11-29T23:23:42.000Z", "waiting_for": "time",
            "wait_because": delivery["wait_because"], "retry_of": null,
            "created_at": "2026-11-29T23:19:41.000Z", "ended_at": null, "attempts": [attempt]})
    );
    assert!(text(delivery, "wait_because").starts_with("attempt 2 of 5, 4 min"));
    assert!(text(attempt, "id").starts_with("att_"));
    assert_eq!(
        *attempt,
        json!({"id": attempt["id"], "number": 1, "trigger": "automatic", "channel": "http",
            "url": "https://a.example/hook/a/b?x=1", "started_at": "2026-11-29T23:19:41.000Z",
            "duration_ms": 1000, "result": "failed", "response_status_code": 503, "error_kind": "status",
            "error_message": "the receiver answered 503", "uses_budget": true})
    );
    let listed = world.get("/v1/requests").await.expect(200)["data"][0].clone();
    assert!(listed.get("headers").is_none() && listed.get("deliveries").is_none());
    assert_eq!(listed["state"], "pending");
}

#[tokio::test]
async fn a_body_comes_back_byte_by_byte_and_inert() {
    let world = World::new().await;
    let source = world.source("s").await;
    let id = world.receive(&source, "<script>").await;
    let answer = world.get(&format!("/v1/requests/{id}/body")).await;
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.body, "<script>");
}

#[tokio::test]
async fn a_deleted_request_is_gone_with_its_deliveries() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    let path = format!("/v1/requests/{}", world.receive(&source, "x").await);
    let delivery = deliveries(&world).await.remove(0);
    world.delete(&path).await.expect(204);
    world.get(&path).await.refused(404, "request_not_found");
    world.delete(&path).await.refused(404, "request_not_found");
    world.post(&format!("{path}/replay"), Value::Null).await.refused(404, "request_not_found");
    world.post(&format!("{delivery}/retry"), Value::Null).await.refused(404, "delivery_not_found");
}

#[tokio::test]
async fn a_replay_is_a_new_request() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    let id = world.receive(&source, "x").await;
    let replay = format!("/v1/requests/{id}/replay");
    let new = world.post(&replay, Value::Null).await.expect(202);
    assert_eq!(new["replay_of"], id);
    assert_ne!(new["key"], world.get(&format!("/v1/requests/{id}")).await.expect(200)["key"]);
    assert_eq!(new["deliveries"].as_array().unwrap().len(), 1);
    world.delete(&format!("/v1/sources/{}", text(&source, "id"))).await.expect(204);
    world.get(&format!("/v1/requests/{id}")).await.expect(200);
    world.post(&replay, Value::Null).await.refused(409, "source_deleted");
}

#[tokio::test]
async fn a_pending_delivery_is_cancelled_and_retried_by_hand() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    world.receive(&source, "x").await;
    let path = deliveries(&world).await.remove(0);
    let pending = world.get(&path).await.expect(200);
    assert_eq!((&pending["state"], &pending["waiting_for"]), (&json!("pending"), &json!("slot")));
    world.post(&format!("{path}/retry"), Value::Null).await.refused(409, "not_retryable");
    for _ in 0..2 {
        let cancelled = world.post(&format!("{path}/cancel"), Value::Null).await.expect(200);
        assert_eq!((&cancelled["state"], &cancelled["reason"]), (&json!("cancelled"), &json!("requested")));
        assert_eq!(cancelled["next_attempt_at"], Value::Null);
    }
    let retried = world.post(&format!("{path}/retry"), Value::Null).await.expect(202);
    assert_eq!((&retried["retry_of"], &retried["state"]), (&pending["id"], &json!("pending")));

    world.delete(&destination).await.expect(204);
    world.post(&format!("{path}/retry"), Value::Null).await.refused(409, "destination_deleted");
}

#[tokio::test]
async fn what_is_on_the_wire_is_cancelled_by_its_result() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    world.attach().await;
    world.receive(&source, "x").await;
    let path = deliveries(&world).await.remove(0);
    let asked = world.post(&format!("{path}/cancel"), Value::Null).await.expect(200);
    assert_eq!((&asked["state"], &asked["cancel_requested"]), (&json!("sending"), &json!(true)));
    assert_eq!(asked["attempts"][0]["result"], Value::Null);
    assert_eq!(asked["attempts"][0]["uses_budget"], Value::Null);
    world.settle(Outcome::failed(FailureKind::Timeout, "too slow")).await;
    let ended = world.get(&path).await.expect(200);
    assert_eq!(
        (&ended["state"], &ended["ended_at"]),
        (&json!("cancelled"), &json!("2026-11-29T23:19:42.000Z"))
    );
}

#[tokio::test]
async fn a_delivered_delivery_is_not_cancelled() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    world.attach().await;
    world.receive(&source, "x").await;
    world.settle(Outcome::of_status(204, None)).await;
    let path = deliveries(&world).await.remove(0);
    let error = world.post(&format!("{path}/cancel"), Value::Null).await.refused(409, "not_cancellable");
    assert_eq!(error["message"], "a delivery that is delivered cannot be cancelled");
    let attempts = world.get(&format!("{path}/attempts?include_total=true")).await.expect(200);
    assert_eq!(column(&attempts, "result"), ["delivered"]);
    assert_eq!(column(&attempts, "response_status_code"), [204]);
    assert_eq!((&attempts["total"], &attempts["has_more"]), (&json!(1), &json!(false)));
}

#[tokio::test]
async fn a_lost_attempt_is_shown_as_our_fault() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    world.attach().await;
    world.receive(&source, "x").await;
    world.settle(Outcome::Lost).await;
    let path = deliveries(&world).await.remove(0);
    let attempts = world.get(&format!("{path}/attempts")).await.expect(200);
    let first = attempts["data"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&first["result"], &first["error_kind"], &first["uses_budget"]),
        (&json!("failed"), &json!("lost"), &json!(false))
    );
}

#[tokio::test]
async fn many_deliveries_are_retried_at_once() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    for _ in 0..3 {
        world.receive(&source, "x").await;
    }
    for path in &deliveries(&world).await[..2] {
        world.post(&format!("{path}/cancel"), Value::Null).await.expect(200);
    }
    let path = format!("{destination}/retry");
    let wanted = json!({"since": START, "state": "cancelled"});
    let preview = world.post(&format!("{path}?dry_run=true"), wanted.clone()).await.expect(200);
    assert_eq!(preview, json!({"deliveries": 2, "credits": 2}));
    let job = world.post(&path, wanted).await.expect(202);
    assert_eq!(
        job,
        json!({"object": "bulk_retry", "id": job["id"], "destination_id": destination.rsplit('/').next(),
            "state": "running", "delivery_state": "cancelled", "total": 2, "created": 0,
            "since": "2026-11-29T23:19:41.000Z", "until": "2026-11-29T23:19:41.000Z",
            "created_at": "2026-11-29T23:19:41.000Z"})
    );
    let id = text(&job, "id").parse().unwrap();
    while world.store.advance_bulk_retry(id, world.clock.now(), 10).await.unwrap() {}
    let jobs = world.get(&format!("{destination}/retries")).await.expect(200);
    assert_eq!((column(&jobs, "state"), column(&jobs, "created")), (vec![json!("done")], vec![json!(2)]));
    assert_eq!(deliveries(&world).await.len(), 5);

    for (body, code, param) in [
        (json!({}), "missing_field", "since"),
        (json!({"since": "then"}), "invalid_field", "since"),
        (json!({"since": START, "until": "2026-01-01T00:00:00Z"}), "invalid_field", "until"),
        (json!({"since": START, "state": "pending"}), "invalid_field", "state"),
    ] {
        assert_eq!(world.post(&path, body).await.refused(422, code)["param"], param);
    }
}

#[tokio::test]
async fn a_bulk_retry_leaves_alone_what_it_creates() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    world.receive(&source, "x").await;
    let cancel_all = async || {
        for path in deliveries(&world).await {
            world.post(&format!("{path}/cancel"), Value::Null).await.expect(200);
        }
    };
    cancel_all().await;
    let body = json!({"since": START, "until": "2027-01-01T00:00:00Z", "state": "cancelled"});
    let job = world.post(&format!("{destination}/retry"), body).await.expect(202);
    let id = text(&job, "id").parse().unwrap();
    for _ in 0..3 {
        world.store.advance_bulk_retry(id, world.clock.now(), 1).await.unwrap();
        cancel_all().await;
    }
    assert_eq!(deliveries(&world).await.len(), 2);
}
