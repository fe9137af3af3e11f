use super::*;

/// Walks through a list by `next_cursor`, then back by `prev_cursor`: the ids met.
async fn walk(world: &World, path: &str) -> (Vec<Value>, Vec<Value>) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}limit=2");
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut page = world.get(&path).await.expect(200);
    assert_eq!(page["prev_cursor"], Value::Null);
    loop {
        there.extend(column(&page, "id"));
        assert_eq!(page["has_more"], !page["next_cursor"].is_null());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        page = world.get(&format!("{path}&cursor={cursor}")).await.expect(200);
    }
    while let Some(cursor) = page["prev_cursor"].as_str() {
        page = world.get(&format!("{path}&ending_before={cursor}")).await.expect(200);
        back.extend(column(&page, "id").into_iter().rev());
    }
    back.reverse();
    (there, back)
}

#[tokio::test]
async fn lists_are_walked_both_ways() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    for name in ["a", "b", "c", "d"] {
        world.source(name).await;
        world.receive(&source, "x").await;
        world.key(json!(["sources:read"])).await;
        world.stranger().await;
        world.post(&format!("{destination}/retry"), json!({"since": START})).await.expect(202);
    }
    let destinations = destination.rsplit_once('/').unwrap().0.to_owned();
    for _ in 0..4 {
        world.post(&destinations, json!({"kind": "cli", "url": "http://localhost"})).await.expect(201);
    }
    let webhook = json!({"url": "https://a.example", "events": ["*"]});
    let webhook = text(&world.post("/v1/webhooks", webhook).await.expect(201), "id");
    for _ in 0..4 {
        world.post("/v1/webhooks", json!({"url": "https://a.example", "events": ["a.b"]})).await.expect(201);
        world.post("/v1/events", json!({"type": "a.c", "data": 1})).await.expect(202);
        world.post(&format!("/v1/webhooks/{webhook}/replay"), Value::Null).await.expect(202);
    }
    for (path, count) in [
        ("/v1/webhooks", 5),
        ("/v1/webhooks?sort=url&order=asc", 5),
        ("/v1/events", 4),
        ("/v1/events?type=a.c", 4),
        (&format!("/v1/webhooks/{webhook}/deliveries"), 4),
        (&format!("/v1/webhooks/{webhook}/replays"), 4),
        ("/v1/sources", 5),
        ("/v1/keys", 5),
        ("/v1/workspaces", 5),
        ("/v1/requests", 4),
        ("/v1/deliveries", 8),
        (destinations.as_str(), 5),
        (&format!("{destination}/retries"), 4),
    ] {
        let (there, back) = walk(&world, path).await;
        assert_eq!(there.len(), count, "{path}");
        // The way back leaves out the last page, from where it began.
        assert_eq!(back, there[..back.len()], "{path}");
        assert_eq!(back.len(), (count - 1) / 2 * 2, "{path}");
        let separator = if path.contains('?') { '&' } else { '?' };
        let all = world.get(&format!("{path}{separator}include_total=true")).await.expect(200);
        assert_eq!((column(&all, "id"), &all["total"]), (there, &json!(count)), "{path}");
        assert_eq!(world.get(path).await.expect(200).get("total"), None);
    }
}

#[tokio::test]
async fn a_page_stays_put_while_newer_items_come() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d"] {
        world.source(name).await;
    }
    let first = world.get("/v1/sources?limit=2").await.expect(200);
    let next = format!("/v1/sources?limit=2&starting_after={}", text(&first, "next_cursor"));
    let before = world.get(&next).await.expect(200);
    world.source("e").await;
    assert_eq!(world.get(&next).await.expect(200)["data"], before["data"]);
    assert_eq!(column(&before, "name"), ["b", "a"]);
}

#[tokio::test]
async fn requests_are_filtered() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    let inbox = world.source("inbox").await;
    let first = world.receive(&source, "needle").await;
    world.clock.advance(std::time::Duration::from_secs(3600));
    let second = world.receive(&inbox, "hay").await;
    for (query, expected) in [
        (String::new(), vec![&second, &first]),
        (format!("source={}", text(&inbox, "id")), vec![&second]),
        ("state=none".into(), vec![&second]),
        ("state=pending".into(), vec![&first]),
        ("state=delivered".into(), vec![]),
        ("since=2026-11-30T00:19:41Z".into(), vec![&second]),
        ("until=2026-11-29T23:19:41Z".into(), vec![&first]),
        ("text=need".into(), vec![&first]),
        ("method=POST&path=a/b".into(), vec![&second, &first]),
        ("method=PUT".into(), vec![]),
        ("path=/c".into(), vec![]),
    ] {
        let page = world.get(&format!("/v1/requests?{query}")).await.expect(200);
        assert_eq!(json!(column(&page, "id")), json!(expected), "{query}");
    }
}

#[tokio::test]
async fn deliveries_are_filtered() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    let request = world.receive(&source, "x").await;
    let other = world.source("other").await;
    let webhook = json!({"url": "https://a.example", "events": ["*"]});
    let webhook = text(&world.post("/v1/webhooks", webhook).await.expect(201), "id");
    let idle = json!({"url": "https://a.example", "events": ["x.y"]});
    let idle = text(&world.post("/v1/webhooks", idle).await.expect(201), "id");
    let publish = async || world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    let event = text(&publish().await, "id");
    publish().await;
    for (query, count) in [
        (format!("event={event}"), 1),
        (format!("webhook={webhook}"), 2),
        (format!("webhook={idle}"), 0),
        (format!("webhook={webhook}&event={event}&state=pending"), 1),
        (format!("webhook={idle}&event={event}"), 0),
        (format!("webhook={webhook}&request={request}"), 0),
        ("event=whe_01abcdefghe0080000000000ab".to_owned(), 0),
        (format!("request={request}"), 1),
        (format!("source={}", text(&source, "id")), 1),
        (format!("source={}", text(&other, "id")), 0),
        (format!("destination={}", destination.rsplit('/').next().unwrap()), 1),
        ("state=pending".to_owned(), 3),
        ("state=failed".to_owned(), 0),
        ("since=2026-11-29T23:19:41Z&until=2026-11-29T23:19:41Z".to_owned(), 3),
        ("until=2026-11-29T23:19:40Z".to_owned(), 0),
    ] {
        let page = world.get(&format!("/v1/deliveries?{query}")).await.expect(200);
        assert_eq!(column(&page, "id").len(), count, "{query}");
    }
    for (query, count) in [
        ("", 2),
        ("?state=pending", 2),
        ("?state=skipped", 0),
        ("?since=2026-11-29T23:19:41Z&until=2026-11-29T23:19:41Z", 2),
        ("?until=2026-11-29T23:19:40Z", 0),
        ("?limit=1", 1),
    ] {
        let page = world.get(&format!("/v1/webhooks/{webhook}/deliveries{query}")).await.expect(200);
        assert_eq!(column(&page, "webhook_id"), vec![json!(webhook); count], "{query}");
    }
}
