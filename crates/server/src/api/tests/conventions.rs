use super::*;

fn bare(method: &str, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn every_answer_has_an_id_of_ours() {
    let world = World::new().await;
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/v1/openapi.json", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/v1/sources", 401),
        ("GET", "/nowhere", 404),
        ("PUT", "/v1/sources", 405),
    ] {
        let mut request = bare(method, path);
        request.headers_mut().insert("x-request-id", "mine".parse().unwrap());
        let answer = world.send(request).await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!((answer.status.as_u16(), id.len()), (status, 32), "{path}");
        if status >= 400 {
            assert_eq!(answer.header("content-type"), "application/json");
            assert_eq!(answer.json()["error"]["request_id"], id);
        }
    }
}

#[tokio::test]
async fn errors_have_one_shape() {
    let world = World::new().await;
    let error = world.send(bare("GET", "/nowhere")).await.refused(404, "not_found");
    assert_eq!((error["type"].as_str(), error["name"].as_str()), (Some("not_found_error"), Some("NotFound")));
    let answer = world.send(bare("PUT", "/v1/sources")).await;
    assert_eq!(answer.header("allow"), "POST,GET,HEAD");
    answer.refused(405, "method_not_allowed");

    let answer = world.send(bare("GET", "/v1/sources")).await;
    assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="restante""#);
    let error = answer.refused(401, "missing_api_key");
    assert_eq!(error["type"], "authentication_error");
}

#[tokio::test]
async fn bodies_are_read_whatever_their_content_type_says() {
    let world = World::new().await;
    let send = async |body: Vec<u8>, content_type: &str| {
        let request = Request::builder()
            .method("POST")
            .uri("/v1/sources")
            .header("authorization", format!("bearer {}", world.admin))
            .header("content-type", content_type)
            .body(Body::from(body));
        world.send(request.unwrap()).await
    };
    send(br#"{"name": "a"}"#.to_vec(), "text/plain").await.expect(201);
    send(br#"{"name": "#.to_vec(), "application/json").await.refused(400, "malformed_json");
    let error = send(br#"{"name": "b", "colour": 1}"#.to_vec(), "application/json").await;
    assert_eq!(error.refused(422, "unknown_field")["param"], "colour");
    assert_eq!(send(Vec::new(), "").await.refused(422, "missing_field")["param"], "name");
    send(vec![b' '; 1024 * 1024 + 1], "application/json").await.refused(413, "body_too_large");
}

#[tokio::test]
async fn query_parameters_are_checked() {
    let world = World::new().await;
    for (path, code, param) in [
        ("/v1/sources?page=1", "unknown_parameter", "page"),
        ("/v1/sources?limit=0", "invalid_parameter", "limit"),
        ("/v1/sources?cursor=x", "invalid_parameter", "cursor"),
        ("/v1/requests?state=weird", "invalid_parameter", "state"),
        ("/v1/requests?since=yesterday", "invalid_parameter", "since"),
        ("/v1/requests?source=src_1", "invalid_parameter", "source"),
        ("/v1/requests?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "invalid_parameter", "until"),
        ("/v1/requests?text=x&since=2026-01-01T00:00:00Z", "invalid_parameter", "text"),
        ("/v1/deliveries?state=none", "invalid_parameter", "state"),
        ("/v1/stream?sauce=1", "unknown_parameter", "sauce"),
    ] {
        assert_eq!(world.get(path).await.refused(422, code)["param"], param, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_id_names_nothing() {
    let world = World::new().await;
    let source = world.source("s").await;
    let id = text(&source, "id");
    for (path, code) in [
        ("/v1/sources/x".to_owned(), "source_not_found"),
        (id.replace("src_", "/v1/sources/dst_"), "source_not_found"),
        (format!("/v1/sources/{id}/destinations/{id}"), "destination_not_found"),
        ("/v1/requests/x".to_owned(), "request_not_found"),
        ("/v1/requests/x/body".to_owned(), "request_not_found"),
        ("/v1/deliveries/x".to_owned(), "delivery_not_found"),
        ("/v1/keys/x".to_owned(), "key_not_found"),
    ] {
        world.get(&path).await.refused(404, code);
    }
}

#[tokio::test]
async fn readiness_says_what_is_wrong() {
    let world = World::new().await;
    let ready = || world.send(bare("GET", "/readyz"));
    *world.disk_full.lock().unwrap() = true;
    assert_eq!(ready().await.refused(503, "not_ready")["message"], "disk full");
    *world.disk_full.lock().unwrap() = false;
    ready().await.expect(200);
    world.stop.send_replace(true);
    assert_eq!(ready().await.refused(503, "not_ready")["message"], "the node is stopping");
    world.stop.send_replace(false);

    world.store.close();
    let answer = world.get("/v1/workspace").await;
    assert_eq!(answer.status, 200, "reads go on");
    let answer = world.post("/v1/sources", json!({"name": "n"})).await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.refused(503, "store_unavailable")["type"], "api_error");
    world.send(bare("GET", "/healthz")).await.expect(200);
}

#[tokio::test]
async fn metrics_are_plain_text() {
    let world = World::new().await;
    let answer = world.send(bare("GET", "/metrics")).await;
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.body, "restante_up 1\n");
}
