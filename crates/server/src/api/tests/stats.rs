use std::time::Duration;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// The figures of a point or of the totals: accepted, delivered, failed, attempts, attempts failed.
fn figures(value: &Value) -> [u64; 5] {
    ["accepted", "delivered", "failed", "attempts", "attempts_failed"]
        .map(|name| value[name].as_u64().unwrap())
}

#[tokio::test]
async fn what_went_through_is_told_step_by_step() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    let destination = destination.rsplit('/').next().unwrap().to_owned();
    world.attach().await;
    world.receive(&source, "x").await;
    world.settle(Outcome::of_status(200, None)).await;
    world.clock.advance(MINUTE);
    world.receive(&source, "x").await;
    world.settle(Outcome::of_status(500, None)).await;
    for rolled_up in [false, true] {
        if rolled_up {
            world.store.roll_up(world.clock.now()).await.unwrap();
        }
        let stats = world.get("/v1/stats").await.expect(200);
        let points = stats["points"].as_array().unwrap();
        assert_eq!((points.len(), &stats["step_seconds"]), (60, &json!(60)));
        assert_eq!(
            (&stats["since"], &stats["until"]),
            (&json!("2026-11-29T22:21:00.000Z"), &json!("2026-11-29T23:20:41.000Z"))
        );
        assert_eq!(points[0]["at"], stats["since"]);
        assert_eq!(
            points[58],
            json!({"at": "2026-11-29T23:19:00.000Z", "accepted": 1, "delivered": 1, "failed": 0, "attempts": 1,
                "attempts_failed": 0, "arrival_p50_ms": 992, "arrival_p95_ms": 992, "duration_p50_ms": null,
                "duration_p95_ms": null})
        );
        assert_eq!(
            (&points[59]["at"], figures(&points[59])),
            (&json!("2026-11-29T23:20:00.000Z"), [1, 0, 0, 1, 1])
        );
        assert_eq!(points[59]["arrival_p50_ms"], Value::Null);
        assert!(points[..58].iter().all(|point| figures(point) == [0; 5]));
        assert_eq!(figures(&stats["totals"]), [2, 1, 0, 2, 1]);
        assert_eq!(stats["totals"].get("at"), None);
        assert_eq!(
            stats["backlog"],
            json!({"pending": 1, "at_least": false, "oldest_due_at": "2026-11-29T23:24:42.000Z"})
        );
        let stats = world.get(&format!("/v1/stats?hours=3&destination={destination}")).await.expect(200);
        assert_eq!((stats["points"].as_array().unwrap().len(), &stats["step_seconds"]), (18, &json!(600)));
        assert_eq!(figures(&stats["totals"]), [2, 1, 0, 2, 1]);
        assert_eq!(
            (&stats["totals"]["duration_p50_ms"], &stats["backlog"]["pending"]),
            (&json!(992), &json!(1))
        );
    }
}

#[tokio::test]
async fn steps_are_as_long_as_the_hours_are_many() {
    let world = World::new().await;
    let source = text(&world.source("s").await, "id");
    let webhook = json!({"url": "https://a.example", "events": ["*"]});
    let webhook = text(&world.post("/v1/webhooks", webhook).await.expect(201), "id");
    let part = format!("&source={source}");
    let hook = format!("&webhook={webhook}");
    for (query, step_seconds, points) in [
        ("hours=3", 60, 180),
        ("hours=4", 600, 24),
        ("hours=24", 600, 144),
        ("hours=25", 3600, 25),
        ("hours=168", 3600, 168),
        (&format!("hours=1{part}"), 600, 6),
        (&format!("hours=48{hook}"), 3600, 48),
    ] {
        let stats = world.get(&format!("/v1/stats?{query}")).await.expect(200);
        assert_eq!(stats["step_seconds"], step_seconds, "{query}");
        assert_eq!(stats["points"].as_array().unwrap().len(), points, "{query}");
    }
    for (path, param) in [
        ("/v1/stats?hours=0", "hours"),
        ("/v1/stats?hours=169", "hours"),
        ("/v1/stats?hours=-1", "hours"),
        ("/v1/stats?hours=x", "hours"),
        (&format!("/v1/stats?hours=49{part}"), "hours"),
        (&format!("/v1/stats?hours=49{hook}"), "hours"),
        ("/v1/stats/endpoints?hours=49", "hours"),
        ("/v1/stats/endpoints?limit=1", "limit"),
        ("/v1/stats?webhook=src_1", "webhook"),
        (&format!("/v1/stats?source={source}{hook}"), "webhook"),
    ] {
        let error = world.get(path).await.expect(422)["error"].clone();
        assert_eq!(error["param"], param, "{path}");
    }
}

#[tokio::test]
async fn endpoints_are_told_of_the_worst_first() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    let webhook = json!({"url": "https://a.example", "events": ["a.b"]});
    let webhook = text(&world.post("/v1/webhooks", webhook).await.expect(201), "id");
    world.post("/v1/webhooks", json!({"url": "https://a.example", "events": ["c.d"]})).await.expect(201);
    world.attach().await;
    world.receive(&source, "x").await;
    world.settle(Outcome::of_status(200, None)).await;
    world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    world.settle(Outcome::of_status(200, None)).await;
    world.post("/v1/events", json!({"type": "a.b", "data": 2})).await.expect(202);
    world.settle(Outcome::of_status(500, None)).await;
    let list = world.get("/v1/stats/endpoints").await.expect(200);
    assert_eq!(list["object"], "list");
    let due = list["data"][0]["backlog"]["oldest_due_at"].clone();
    assert!(due.is_string());
    assert_eq!(
        list["data"],
        json!([
            {"endpoint_id": webhook, "kind": "webhook", "source_id": null, "attempts": 2, "attempts_failed": 1,
                "success_rate": 0.5, "duration_p50_ms": 992, "duration_p95_ms": 992,
                "backlog": {"pending": 1, "at_least": false, "oldest_due_at": due}},
            {"endpoint_id": destination.rsplit('/').next(), "kind": "destination", "source_id": source["id"],
                "attempts": 1, "attempts_failed": 0, "success_rate": 1.0, "duration_p50_ms": 992,
                "duration_p95_ms": 992, "backlog": {"pending": 0, "at_least": false, "oldest_due_at": null}},
        ])
    );
}

#[tokio::test]
async fn other_workspaces_are_not_told_of() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    world.attach().await;
    world.receive(&source, "x").await;
    world.settle(Outcome::of_status(500, None)).await;
    let stranger = world.stranger().await;
    let get = async |path: &str| world.call(&stranger, "GET", path, Value::Null).await;
    assert_eq!(figures(&get("/v1/stats").await.expect(200)["totals"]), [0; 5]);
    assert_eq!(get("/v1/stats").await.expect(200)["backlog"]["pending"], 0);
    assert_eq!(get("/v1/stats/endpoints").await.expect(200)["data"], json!([]));
    let source = format!("/v1/stats?source={}", text(&source, "id"));
    get(&source).await.refused(404, "source_not_found");
    let of_destination = format!("/v1/stats?destination={}", destination.rsplit('/').next().unwrap());
    get(&of_destination).await.refused(404, "destination_not_found");
    world.delete(&destination).await.expect(204);
    world.get(&of_destination).await.refused(404, "destination_not_found");
    world.get(&source).await.expect(200);
}
