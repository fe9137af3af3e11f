use super::*;
use crate::dashboard::Sender;
use crate::rate_limit::{Rate, RateLimits};

/// A browser at the server.
struct Browser<'a> {
    world: &'a World,
    cookie: String,
    csrf: String,
}

impl World {
    /// A request of a page of ours.
    async fn browse(&self, method: &str, path: &str, lines: &[(&str, &str)], body: Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in [("host", "hooks.example"), ("origin", "https://hooks.example")] {
            if !lines.iter().any(|(other, _)| *other == name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(Sender("192.0.2.7".parse().unwrap()));
        self.send(request).await
    }

    async fn sign_in(&self, body: Value) -> Browser<'_> {
        let answer = self.browse("POST", "/session", &[], body).await;
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        let csrf = text(&answer.expect(200), "csrf");
        Browser { world: self, cookie, csrf }
    }
}

impl Browser<'_> {
    async fn call(&self, method: &str, path: &str, lines: &[(&str, &str)], body: Value) -> Answer {
        let mut all = vec![("cookie", self.cookie.as_str())];
        all.extend(lines);
        self.world.browse(method, path, &all, body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, &[("x-restante-csrf", &self.csrf)], body).await
    }
}

#[tokio::test]
async fn sessions_count_as_their_key() {
    let mut world = World::new().await;
    let limits = RateLimits::new(Some(Rate::new(1.0, Some(2))), None);
    world.router = router(ApiState { limits: Arc::new(limits), ..world.state.clone() });
    let (one, other) =
        (world.sign_in(json!({"key": world.admin})).await, world.sign_in(json!({"key": world.admin})).await);
    one.get("/v1/sources").await.expect(200);
    assert_eq!(other.get("/v1/sources").await.header("ratelimit"), r#""default";r=0;t=1"#);
    for answer in [one.get("/v1/sources").await, world.get("/v1/sources").await] {
        answer.refused(429, "rate_limited");
    }
    one.get("/session").await.expect(200);
}

#[tokio::test]
async fn a_session_does_what_its_key_may() {
    let world = World::new().await;
    let browser = world.sign_in(json!({"key": world.admin})).await;
    browser.get("/v1/sources").await.expect(200);
    browser.post("/v1/sources", json!({"name": "shop"})).await.expect(201);
    assert_eq!(text(&browser.get("/session").await.expect(200), "csrf"), browser.csrf);

    let reader = world.sign_in(json!({"key": world.key(json!(["sources:read"])).await})).await;
    reader.get("/v1/sources").await.expect(200);
    reader.post("/v1/sources", json!({"name": "other"})).await.refused(403, "insufficient_scope");
}

#[tokio::test]
async fn a_cookie_is_for_pages_of_this_server_only() {
    let world = World::new().await;
    let answer = world.browse("POST", "/session", &[], json!({"key": world.admin})).await;
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("__Host-restante_443=s1."), "{cookie}");
    for part in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200", "Secure"] {
        assert!(cookie.split("; ").any(|it| it == part), "{cookie}");
    }
    assert_eq!(answer.header("cache-control"), "no-store");

    let browser = world.sign_in(json!({"key": world.admin})).await;
    assert_eq!(browser.get("/v1/sources").await.header("cache-control"), "no-store");
    let foreign = [("origin", "https://evil.example")];
    browser.call("GET", "/v1/sources", &foreign, Value::Null).await.refused(403, "foreign_origin");
    let foreign = [("sec-fetch-site", "cross-site")];
    browser.call("GET", "/v1/sources", &foreign, Value::Null).await.refused(403, "foreign_origin");
    let rebound = [("host", "evil.example"), ("origin", "https://evil.example")];
    browser.call("GET", "/v1/sources", &rebound, Value::Null).await.refused(403, "unknown_host");
    world
        .browse("POST", "/session", &rebound, json!({"key": world.admin}))
        .await
        .refused(403, "unknown_host");
    let foreign = [("origin", "https://evil.example")];
    world
        .browse("POST", "/session", &foreign, json!({"key": world.admin}))
        .await
        .refused(403, "foreign_origin");
    // Whoever has a key needs no page, and comes from wherever.
    let keyed = [("authorization", format!("Bearer {}", world.admin))];
    let keyed = keyed.each_ref().map(|(name, value)| (*name, value.as_str()));
    let lines =
        [&keyed[..], &[("origin", "https://evil.example"), ("cookie", "__Host-restante_443=x")]].concat();
    world.browse("GET", "/v1/sources", &lines, Value::Null).await.expect(200);
}

#[tokio::test]
async fn a_change_needs_the_word_that_only_pages_know() {
    let world = World::new().await;
    let browser = world.sign_in(json!({"key": world.admin})).await;
    let other = world.sign_in(json!({"key": world.admin})).await;
    for word in [None, Some(""), Some("x"), Some(other.csrf.as_str())] {
        let lines: Vec<_> = word.map(|word| ("x-restante-csrf", word)).into_iter().collect();
        let answer = browser.call("POST", "/v1/sources", &lines, json!({"name": "shop"})).await;
        answer.refused(403, "csrf");
        browser.call("DELETE", "/session", &lines, Value::Null).await.refused(403, "csrf");
    }
    assert_eq!(browser.get("/v1/sources").await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn a_session_ends_with_its_time_its_key_or_when_its_holder_says_so() {
    let world = World::new().await;
    let ends = async |browser: &Browser<'_>, code| {
        browser.get("/v1/workspace").await.refused(401, code);
        browser.get("/session").await.refused(401, code);
    };
    let late = world.sign_in(json!({"key": world.admin})).await;
    let key = world.post("/v1/keys", json!({"name": "k", "scopes": ["workspace:read"]})).await.expect(201);
    let revoked = world.sign_in(json!({"key": key["token"]})).await;
    let out = world.sign_in(json!({"key": world.admin})).await;
    let copy = Browser { world: &world, cookie: out.cookie.clone(), csrf: out.csrf.clone() };

    world.post(&format!("/v1/keys/{}/revoke", text(&key, "id")), Value::Null).await.expect(200);
    ends(&revoked, "revoked_api_key").await;

    let lines = [("x-restante-csrf", out.csrf.as_str())];
    let answer = out.call("DELETE", "/session", &lines, Value::Null).await;
    assert!(answer.header("set-cookie").contains("=; ") && answer.header("set-cookie").contains("Max-Age=0"));
    answer.expect(204);
    ends(&copy, "session_ended").await;

    late.get("/v1/workspace").await.expect(200);
    world.clock.advance(std::time::Duration::from_secs(12 * 3600));
    ends(&late, "session_ended").await;
    let forged = Browser { world: &world, cookie: "__Host-restante_443=s1.AAAA".into(), csrf: String::new() };
    ends(&forged, "session_ended").await;
    world.browse("GET", "/session", &[], Value::Null).await.refused(401, "no_session");
}

#[tokio::test]
async fn a_link_signs_in_once() {
    let world = World::new().await;
    let hash = crate::api::token::hash(&world.admin);
    let link = world.state.dashboard.sign_in_link("https://hooks.example", hash, &*world.clock);
    let word = link.strip_prefix("https://hooks.example/sign-in#link=").unwrap();
    world.browse("POST", "/session", &[], json!({"link": "wrong"})).await.refused(401, "link_used");
    let browser = world.sign_in(json!({"link": word})).await;
    browser.get("/v1/workspaces").await.expect(200);
    world.browse("POST", "/session", &[], json!({"link": word})).await.refused(401, "link_used");
}

#[tokio::test]
async fn who_guesses_is_slowed_down() {
    let world = World::new().await;
    for body in [json!({}), json!({"key": "a", "link": "b"}), json!({"key": 1})] {
        world.browse("POST", "/session", &[], body).await.expect(422);
    }
    for _ in 0..10 {
        world
            .browse("POST", "/session", &[], json!({"key": "rst_live_x"}))
            .await
            .refused(401, "invalid_api_key");
    }
    let answer = world.browse("POST", "/session", &[], json!({"key": world.admin})).await;
    assert_eq!(answer.header("retry-after"), "300");
    answer.refused(429, "too_many_sign_ins");
    world.clock.advance(std::time::Duration::from_secs(300));
    world.sign_in(json!({"key": world.admin})).await;
}

#[tokio::test]
async fn pages_are_one_document_under_a_policy_that_executes_nothing_foreign() {
    let world = World::new().await;
    for path in ["/", "/sign-in", "/requests", "/requests/req_01", "/webhooks/whk_01", "/settings"] {
        let answer = world.browse("GET", path, &[], Value::Null).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.split("; ").any(|it| it.trim() == part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let tag = answer.header("etag").to_owned();
        let again = world.browse("GET", path, &[("if-none-match", &tag)], Value::Null).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    }
    let rebound = [("host", "evil.example")];
    world.browse("GET", "/", &rebound, Value::Null).await.refused(403, "unknown_host");
    world.browse("POST", "/requests", &[], Value::Null).await.refused(405, "method_not_allowed");

    let nothing = world.browse("GET", "/nothing", &[("accept", "text/html,*/*")], Value::Null).await;
    assert_eq!((nothing.status.as_u16(), nothing.header("content-type")), (404, "text/html; charset=utf-8"));
    world.browse("GET", "/nothing", &[("accept", "*/*")], Value::Null).await.refused(404, "not_found");
    world
        .browse("GET", "/v1/nothing", &[("accept", "text/html")], Value::Null)
        .await
        .refused(404, "not_found");
}

#[tokio::test]
async fn files_are_kept_for_good_by_the_version_they_belong_to() {
    let world = World::new().await;
    let page = world.browse("GET", "/", &[], Value::Null).await;
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let script = page.split('"').find(|it| it.ends_with("/app.js")).unwrap();
    let answer = world.browse("GET", script, &[], Value::Null).await;
    assert_eq!(answer.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
    let name = script.rsplit_once('/').unwrap().1;
    for path in [format!("/assets/0000000000000000/{name}"), script.replace(name, "../../Cargo.toml")] {
        world.browse("GET", &path, &[], Value::Null).await.refused(404, "asset_not_found");
    }
}
