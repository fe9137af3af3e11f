//! How often keys may call.

use std::time::Duration;

use restante_store::Commits;

use super::*;
use crate::api::openapi;
use crate::rate_limit::{Rate, RateLimits};
use crate::telemetry::tests::moment;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// A world in which each key may call so often.
    async fn limited(per_second: f64, burst: u32) -> Self {
        let mut world = Self::new().await;
        world.limit(per_second, burst);
        world
    }

    /// From now on each key may call so often. What was called before does not count.
    fn limit(&mut self, per_second: f64, burst: u32) {
        let limits = RateLimits::new(Some(Rate::new(per_second, Some(burst))), None);
        self.router = router(ApiState { limits: Arc::new(limits), ..self.state.clone() });
    }

    async fn publish(&self, path: &str, key: &str, body: Value) -> Answer {
        let request = Request::post(path)
            .header("authorization", format!("Bearer {}", self.admin))
            .header("idempotency-key", key)
            .body(Body::from(body.to_string()));
        self.send(request.unwrap()).await
    }
}

/// The three headers, empty where there is none.
fn told(answer: &Answer) -> [&str; 3] {
    ["ratelimit-policy", "ratelimit", "retry-after"].map(|name| answer.header(name))
}

const NOTHING: [&str; 3] = ["", "", ""];

#[tokio::test]
async fn a_key_that_calls_too_often_is_told_when_to_come_back() {
    let world = World::limited(0.5, 2).await;
    let policy = r#""default";q=2;w=4"#;
    let first = world.get("/v1/sources").await;
    assert_eq!((told(&first), first.status.as_u16()), ([policy, r#""default";r=1;t=2"#, ""], 200));
    let second = world.post("/v1/sources", json!({"name": "s"})).await;
    assert_eq!((told(&second), second.status.as_u16()), ([policy, r#""default";r=0;t=2"#, ""], 201));

    let refused = world.post("/v1/sources", json!({"name": "t"})).await;
    assert_eq!(told(&refused), [policy, r#""default";r=0;t=2"#, "2"]);
    assert_eq!(refused.header("x-request-id").len(), 32);
    assert_eq!(refused.header("content-type"), "application/json");
    let request_id = refused.header("x-request-id").to_owned();
    let expected = json!({"type": "rate_limit_error", "code": "rate_limited", "name": "RateLimited",
        "message": "too many requests of this key; again in 2 s", "request_id": request_id});
    assert_eq!(refused.refused(429, "rate_limited"), expected);
    let page = world.state.counters.render(&Commits::default(), &moment());
    assert_eq!(page.matches("calls_rate_limited_total 1\n").count(), 1);

    world.clock.advance(2 * SECOND);
    let names = column(&world.get("/v1/sources").await.expect(200), "name");
    assert_eq!(names, ["s"], "what was refused changed nothing");
    world.get("/v1/sources").await.refused(429, "rate_limited");
}

#[tokio::test]
async fn keys_are_counted_apart_and_failed_calls_count() {
    let mut world = World::new().await;
    let (own, stranger) = (world.key(json!(["sources:read"])).await, world.stranger().await);
    world.limit(1.0, 1);
    let sources = async |key: &str| world.call(key, "GET", "/v1/sources", Value::Null).await;
    sources(&own).await.expect(200);
    sources(&own).await.refused(429, "rate_limited");
    sources(&stranger).await.expect(200);
    sources(&world.admin).await.expect(200);
    sources(&stranger).await.refused(429, "rate_limited");

    world.clock.advance(SECOND);
    let forbidden = world.call(&own, "GET", "/v1/keys", Value::Null).await;
    assert_eq!(told(&forbidden)[1], r#""default";r=0;t=1"#);
    forbidden.refused(403, "insufficient_scope");
    world.call(&own, "GET", "/v1/keys", Value::Null).await.refused(429, "rate_limited");
    let missing = world.call(&stranger, "GET", "/v1/sources/x", Value::Null).await;
    assert_eq!(told(&missing)[1], r#""default";r=0;t=1"#);
    missing.refused(404, "source_not_found");
    for _ in 0..2 {
        let unknown = sources("rst_live_nobody").await;
        assert_eq!(told(&unknown), NOTHING);
        unknown.refused(401, "invalid_api_key");
    }
}

#[tokio::test]
async fn what_was_refused_holds_no_idempotency_key() {
    let world = World::limited(1.0, 1).await;
    for (path, body) in [
        ("/v1/events", json!({"type": "a.b", "data": 1})),
        ("/v1/emails", json!({"from": "a@a.example", "to": ["b@b.example"], "subject": "1", "text": "t"})),
    ] {
        world.clock.advance(SECOND);
        world.get("/v1/workspace").await.expect(200);
        world.publish(path, &path["/v1/".len()..], body).await.refused(429, "rate_limited");
    }
    for (path, body) in [
        ("/v1/events", json!({"type": "a.b", "data": 2})),
        ("/v1/emails", json!({"from": "a@a.example", "to": ["b@b.example"], "subject": "2", "text": "t"})),
    ] {
        world.clock.advance(SECOND);
        assert_eq!(world.publish(path, &path["/v1/".len()..], body).await.expect(202)["replayed"], false);
        world.clock.advance(SECOND);
        assert_eq!(world.get(path).await.expect(200)["data"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn without_a_limit_nothing_is_told() {
    let world = World::new().await;
    for _ in 0..100 {
        assert_eq!(told(&world.get("/v1/sources").await), NOTHING);
    }
}

#[tokio::test]
async fn what_needs_no_key_is_never_limited() {
    let world = World::limited(0.01, 1).await;
    world.get("/v1/sources").await.expect(200);
    for path in ["/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/"] {
        for _ in 0..3 {
            let request = Request::get(path).header("host", "hooks.example");
            let request = request.header("authorization", format!("Bearer {}", world.admin));
            let answer = world.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!((answer.status.as_u16(), told(&answer)), (200, NOTHING), "{path}");
        }
    }
}

#[tokio::test]
async fn a_stream_is_one_call_however_long_it_lasts() {
    let world = World::limited(1.0, 2).await;
    let stream = Request::get("/v1/stream").header("authorization", format!("Bearer {}", world.admin));
    let stream = world.router.clone().oneshot(stream.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(stream.headers()["ratelimit"], r#""default";r=1;t=1"#);
    world.get("/v1/sources").await.expect(200);
    world.get("/v1/sources").await.refused(429, "rate_limited");
    world.clock.advance(60 * SECOND);
    world.get("/v1/sources").await.expect(200);
    world.get("/v1/sources").await.expect(200);
}

/// An existing client waits by a schedule of its own, and never gets half of what it asked for.
#[tokio::test]
async fn compat_counts_what_the_client_calls_and_sends_no_retry_after() {
    let world = World::limited(1.0, 1).await;
    let webhooks = "/compat/openemail/webhooks";
    let body = json!({"url": "https://a.example/hook", "eventTypes": ["*"], "enabled": false});
    let made = world.post(webhooks, body.clone()).await;
    let policy = r#""default";q=1;w=1"#;
    assert_eq!(told(&made), [policy, r#""default";r=0;t=1"#, ""]);
    assert_eq!(made.expect(201)["enabled"], false, "two calls of ours");
    let refused = world.post(webhooks, body).await;
    assert_eq!(told(&refused), [policy, r#""default";r=0;t=1"#, ""]);
    let error = refused.refused(429, "rate_limited");
    assert_eq!(error["type"], "rate_limit_error");
    assert!(error["requestId"].is_string());
    world.clock.advance(SECOND);
    assert_eq!(world.get(webhooks).await.expect(200)["data"].as_array().unwrap().len(), 1);
}

#[test]
fn every_call_with_a_key_may_be_answered_with_429() {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let described = operation["responses"]["429"]["description"].as_str().unwrap_or_default();
            let keyed = !operation["security"].is_null();
            assert_eq!(described.contains("`rate_limited`"), keyed, "{method} {path}");
        }
    }
    let replay = &document["paths"]["/v1/webhooks/{id}/replay"]["post"]["responses"]["429"];
    assert!(text(replay, "description").starts_with("`webhook_replay_quota_exceeded`. "), "{replay}");
}
