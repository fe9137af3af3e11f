//! The tunnel, from the client's side of the wire.

mod line;

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{World, id};
pub(crate) use line::login;
use line::{Line, Speaks, body, connect, result};

const MINUTE: Duration = Duration::from_secs(60);

/// A source with a `cli` destination.
async fn source(world: &World, settings: Value) -> Value {
    let mut body = json!({"name": "laptop"});
    for (name, value) in settings.as_object().unwrap() {
        body[name] = value.clone();
    }
    let source = world.post("/v1/sources", body).await;
    world.destination(&source, "http://localhost:3000/hook?a=1", json!({"kind": "cli"})).await;
    source
}

async fn clients(world: &World, source: &Value) -> Value {
    world.get(&format!("/v1/sources/{}", id(source))).await["clients_connected"].clone()
}

/// Waits until so many clients are connected.
async fn until_clients(world: &World, source: &Value, count: u64) {
    world.until(&format!("/v1/sources/{}", id(source)), |shown| shown["clients_connected"] == count).await;
}

/// The only delivery of a request.
async fn delivery(world: &World, request: &str) -> Value {
    world.get(&format!("/v1/requests/{request}")).await["deliveries"][0].clone()
}

#[tokio::test]
async fn a_login_says_where_to_connect_and_only_an_unknown_token_is_401() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let token = source["token"].as_str().unwrap();
    let answer = login(&world, token).await;
    assert_eq!(answer.status, StatusCode::OK);
    let mut fields: Vec<&String> = answer.json.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["access_token", "city", "connection_url", "country", "server_name", "server_url"]);
    assert_eq!(answer.json["server_url"], source["url"]);
    let connection_url = format!("ws://{}/auth/ws/connect", world.server.address);
    assert_eq!(answer.json["connection_url"], connection_url);
    for wrong in ["", "nobody", &token[1..]] {
        assert_eq!(login(&world, wrong).await.status, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    let bare = world.send(Method::GET, &world.url("/auth/ws"), &[], "").await;
    assert_eq!(bare.status, StatusCode::UNAUTHORIZED);
    world.stop().await;
}

#[tokio::test]
async fn an_access_token_is_good_for_its_source_and_for_a_while() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let answer = login(&world, source["token"].as_str().unwrap()).await;
    let access = answer.json["access_token"].as_str().unwrap().to_owned();
    for wrong in ["", "x", source["token"].as_str().unwrap(), &access[..access.len() - 1]] {
        assert_eq!(connect(&world, wrong, Speaks::First).await.err(), Some(StatusCode::UNAUTHORIZED));
    }
    drop(connect(&world, &access, Speaks::First).await.unwrap());
    world.advance(Duration::from_secs(299));
    drop(connect(&world, &access, Speaks::V1).await.unwrap());
    world.advance(Duration::from_secs(1));
    assert_eq!(connect(&world, &access, Speaks::First).await.err(), Some(StatusCode::UNAUTHORIZED));

    let answer = login(&world, source["token"].as_str().unwrap()).await;
    world.post(&format!("/v1/sources/{}/rotate-token", id(&source)), Value::Null).await;
    let access = answer.json["access_token"].as_str().unwrap();
    assert_eq!(connect(&world, access, Speaks::First).await.err(), Some(StatusCode::UNAUTHORIZED));
    let plain = world.send(Method::GET, &world.url("/auth/ws/connect"), &[], "").await;
    assert_eq!(plain.status, StatusCode::UNAUTHORIZED);
    world.stop().await;
}

#[tokio::test]
async fn a_request_is_handed_over_as_it_came() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let path = format!("/v1/sources/{}/destinations", id(&source));
    let destination = world.get(&path).await["data"][0].clone();
    world.patch(&format!("{path}/{}", id(&destination)), json!({"idempotency_header": true})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    assert_eq!(clients(&world, &source).await, 1);
    let url = format!("{}/orders/7?x=1&x=2", source["url"].as_str().unwrap());
    let headers =
        [("X-Sig", "one"), ("x-adal-idempotency", "an outsider's"), ("connection", "x-hop"), ("x-hop", "1")];
    let sent: &[u8] = b"\x00\xff{\"a\":1}";
    let answer = world.send(Method::PUT, &url, &headers, sent).await;
    let request = id(&answer.json);

    let frame = line.frame().await;
    assert_eq!(frame["method"], "PUT");
    assert_eq!(frame["uri"], "/orders/7?x=1&x=2");
    assert_eq!(frame["headers"], json!({"x-sig": ["one"]}));
    assert_eq!(body(&frame), sent);
    let key = data_encoding::BASE64.decode(frame["idempotency_key"].as_str().unwrap().as_bytes()).unwrap();
    let shown = world.get(&format!("/v1/requests/{request}")).await;
    assert_eq!(data_encoding::HEXLOWER.encode(&key), shown["key"].as_str().unwrap().replace('-', ""));
    assert!(frame["id"].is_i64() && frame.get("restante").is_none());
    let handed = &frame["deliveries"][0];
    assert_eq!(frame["deliveries"].as_array().unwrap().len(), 1);
    assert!(handed["id"].is_i64() && handed["destination"]["id"].as_i64().unwrap() > 0);
    assert_eq!(handed["destination"]["add_idempotency_key"], true);
    assert_eq!(handed["attempt_number"], 1);
    assert_eq!(handed["url"], "http://localhost:3000/hook?a=1");

    line.deliver(&frame).await;
    let shown = world.until_all(&request, "delivered").await;
    let attempt = &shown["deliveries"][0]["attempts"][0];
    assert_eq!((&attempt["channel"], &attempt["response_status_code"]), (&json!("cli"), &json!(200)));
    world.stop().await;
}

#[tokio::test]
async fn a_client_of_ours_gets_all_that_there_is_in_pieces() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let sent: Vec<u8> = (0..=255).cycle().take(1_300_000).collect();
    let headers = [("X-B", "1"), ("x-a", "2"), ("X-B", "3")];
    let answer = world.send(Method::POST, source["url"].as_str().unwrap(), &headers, sent.clone()).await;
    let request = id(&answer.json);

    let frame = line.frame().await;
    let detail = &frame["restante"];
    assert_eq!(detail["request_id"], request.as_str());
    assert_eq!((&detail["body_bytes"], &detail["more"]), (&json!(1_300_000), &json!(true)));
    let lines = detail["headers"].as_array().unwrap();
    let ours: Vec<&Value> = lines.iter().filter(|it| it[0] != "content-type").collect();
    // The test's own HTTP client writes names in lower case.
    assert_eq!(json!(ours), json!([["x-b", "1"], ["x-b", "3"], ["x-a", "2"]]));
    let handed = &frame["deliveries"][0]["restante"];
    assert_eq!(handed["delivery_id"], delivery(&world, &request).await["id"]);
    assert_eq!((&handed["attempts_max"], &handed["timeout_ms"]), (&json!(5), &json!(30_000)));

    let mut got = body(&frame);
    let mut pieces = 1;
    loop {
        let piece = line.frame().await;
        assert_eq!((&piece["type"], &piece["id"]), (&json!("body"), &frame["id"]));
        got.extend(body(&piece));
        pieces += 1;
        if piece["more"] == false {
            break;
        }
    }
    assert_eq!(pieces, 3);
    assert!(got == sent, "the body is not what was sent");
    line.ack(&frame).await;
    line.deliver(&frame).await;
    world.until_all(&request, "delivered").await;
    world.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_into_a_frame_of_the_old_client_fails_and_says_why() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    let request = world.webhook(&source, vec![b'x'; 900_000]).await;
    let shown = world.until_attempts(&request, 1).await;
    assert_eq!(shown["attempts_used"], 1);
    let attempt = &shown["attempts"][0];
    assert_eq!(attempt["error_kind"], "network");
    assert!(attempt["error_message"].as_str().unwrap().contains("at most 1048576"), "{attempt}");
    // The next one is handed over: the client is free.
    let next = world.webhook(&source, "small").await;
    let frame = line.frame().await;
    assert_eq!(body(&frame), b"small");
    line.deliver(&frame).await;
    world.until_all(&next, "delivered").await;
    world.stop().await;
}

#[tokio::test]
async fn the_old_client_gets_one_request_at_a_time_oldest_first() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    let mut requests = Vec::new();
    for n in 0..5 {
        requests.push(world.webhook(&source, n.to_string()).await);
    }
    for n in 0..5 {
        let frame = line.frame().await;
        assert_eq!(body(&frame), n.to_string().as_bytes());
        // The others are where they were: nothing was sent ahead.
        for request in &requests[n + 1..] {
            let shown = delivery(&world, request).await;
            assert_eq!(shown["attempts_used"], 0);
        }
        line.deliver(&frame).await;
        world.until_all(&requests[n], "delivered").await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_clients_pings_are_answered_while_an_attempt_of_its_is_open() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    line.ping("before").await;
    let request = world.webhook(&source, "x").await;
    let frame = line.frame().await;
    line.ping("meanwhile").await;
    line.deliver(&frame).await;
    world.until_all(&request, "delivered").await;
    world.stop().await;
}

#[tokio::test]
async fn what_the_client_says_is_what_is_recorded() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    for (said, kind, status) in [
        (json!({"response_code": 500}), "status", json!(500)),
        (json!({"response_code": 302}), "status", json!(302)),
        (json!({"message": "network_error"}), "local_unreachable", Value::Null),
        (json!({"message": "invalid_url"}), "local_unreachable", Value::Null),
        (json!({"message": "timeout", "detail": "30 s"}), "timeout", Value::Null),
        (json!({"status": "success", "response_code": 404}), "status", json!(404)),
    ] {
        let request = world.webhook(&source, "x").await;
        let frame = line.frame().await;
        line.answer(&frame, said.clone()).await;
        let shown = world.until_attempts(&request, 1).await;
        assert_eq!((&shown["state"], &shown["attempts_used"]), (&json!("pending"), &json!(1)), "{said}");
        let attempt = &shown["attempts"][0];
        assert_eq!(
            (&attempt["error_kind"], &attempt["response_status_code"]),
            (&json!(kind), &status),
            "{said}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn an_attempt_begins_with_the_handover_for_the_old_client_and_with_the_ack_for_ours() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;

    let mut line = Line::to(&world, &source, Speaks::First).await;
    let request = world.webhook(&source, "first").await;
    line.frame().await;
    drop(line);
    let shown = world.until_attempts(&request, 1).await;
    assert_eq!(
        (&shown["attempts"][0]["error_kind"], &shown["attempts_used"]),
        (&json!("network"), &json!(1))
    );
    // The next attempt waits its four minutes, and for a client.
    world.advance(4 * MINUTE);
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let frame = line.frame().await;
    assert_eq!(frame["deliveries"][0]["attempt_number"], 2);
    // Before its ack it is lost, and due at once.
    drop(line);
    let shown = world.until_attempts(&request, 2).await;
    assert_eq!((&shown["attempts"][1]["error_kind"], &shown["attempts_used"]), (&json!("lost"), &json!(1)));
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let frame = line.frame().await;
    assert_eq!(frame["deliveries"][0]["attempt_number"], 3);
    line.ack(&frame).await;
    // Only what comes behind the ack tells that it was read.
    line.send(json!({"type": "of a newer client"})).await;
    drop(line);
    let shown = world.until_attempts(&request, 3).await;
    assert_eq!(
        (&shown["attempts"][2]["error_kind"], &shown["attempts_used"]),
        (&json!("network"), &json!(2))
    );
    world.stop().await;
}

#[tokio::test]
async fn while_nobody_is_connected_no_attempt_begins_and_what_is_due_goes_on_connect() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut requests = Vec::new();
    for n in 0..3 {
        requests.push(world.webhook(&source, n.to_string()).await);
        world.advance(Duration::from_millis(5));
    }
    world.advance(600 * MINUTE);
    for request in &requests {
        let shown = delivery(&world, request).await;
        assert_eq!((&shown["state"], &shown["waiting_for"]), (&json!("pending"), &json!("client")));
        assert_eq!((&shown["attempts_used"], &shown["attempts"]), (&json!(0), &json!([])));
    }
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    for n in 0..3 {
        let frame = line.frame().await;
        assert_eq!(body(&frame), n.to_string().as_bytes(), "oldest first");
        assert_eq!(frame["deliveries"][0]["attempt_number"], 1);
        line.ack(&frame).await;
        line.deliver(&frame).await;
    }
    for request in &requests {
        world.until_all(request, "delivered").await;
    }
    world.stop().await;
}

#[tokio::test]
async fn without_pending_on_connect_a_client_gets_what_was_made_since_it_connected() {
    let world = World::start().await;
    let source = source(&world, json!({"deliver_pending_on_connect": false})).await;
    let old = world.webhook(&source, "old").await;
    world.advance(MINUTE);
    let mut line = Line::to(&world, &source, Speaks::First).await;
    let new = world.webhook(&source, "new").await;
    let frame = line.frame().await;
    assert_eq!(body(&frame), b"new");
    line.answer(&frame, json!({"message": "network_error"})).await;
    world.until_attempts(&new, 1).await;
    // A reconnect is a new connection: what failed before it waits, too.
    drop(line);
    until_clients(&world, &source, 0).await;
    world.advance(10 * MINUTE);
    let mut line = Line::to(&world, &source, Speaks::First).await;
    let newest = world.webhook(&source, "newest").await;
    let frame = line.frame().await;
    assert_eq!(body(&frame), b"newest");
    line.deliver(&frame).await;
    world.until_all(&newest, "delivered").await;
    assert_eq!(delivery(&world, &old).await["attempts_used"], 0);
    assert_eq!(delivery(&world, &new).await["attempts_used"], 1);

    // A manual retry makes a delivery, and switching it on acts at once.
    let retried = world
        .post(&format!("/v1/deliveries/{}/cancel", id(&delivery(&world, &new).await)), Value::Null)
        .await;
    world.post(&format!("/v1/deliveries/{}/retry", id(&retried)), Value::Null).await;
    let frame = line.frame().await;
    assert_eq!((body(&frame), &frame["deliveries"][0]["attempt_number"]), (b"new".to_vec(), &json!(1)));
    line.deliver(&frame).await;
    world.patch(&format!("/v1/sources/{}", id(&source)), json!({"deliver_pending_on_connect": true})).await;
    let frame = line.frame().await;
    assert_eq!(body(&frame), b"old");
    line.deliver(&frame).await;
    world.until_all(&old, "delivered").await;
    world.stop().await;
}

#[tokio::test]
async fn each_delivery_goes_to_one_of_several_clients() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut lines = [
        Line::to(&world, &source, Speaks::First).await,
        Line::to(&world, &source, Speaks::First).await,
        Line::to(&world, &source, Speaks::First).await,
    ];
    let mut requests = Vec::new();
    for n in 0..3 {
        requests.push(world.webhook(&source, n.to_string()).await);
    }
    let mut bodies = Vec::new();
    for line in &mut lines {
        let frame = line.frame().await;
        bodies.push(body(&frame));
        line.deliver(&frame).await;
    }
    bodies.sort();
    assert_eq!(bodies, [b"0", b"1", b"2"]);
    for request in &requests {
        let shown = world.until_all(request, "delivered").await;
        assert_eq!(shown["deliveries"][0]["attempts"].as_array().unwrap().len(), 1);
    }
    world.stop().await;
}

#[tokio::test]
async fn the_seventeenth_client_is_refused_unless_another_is_dead() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut lines = Vec::new();
    for _ in 0..16 {
        lines.push(Line::to(&world, &source, Speaks::V1).await);
    }
    let answer = login(&world, source["token"].as_str().unwrap()).await;
    let access = answer.json["access_token"].as_str().unwrap().to_owned();
    // All are read, so that pings are answered.
    let reading = lines.into_iter().map(|mut line| tokio::spawn(async move { line.ended().await }));
    let mut reading: Vec<_> = reading.collect();
    assert_eq!(connect(&world, &access, Speaks::V1).await.err(), Some(StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(clients(&world, &source).await, 16);
    // One leaves, and another comes that never says anything.
    reading.pop().unwrap().abort();
    until_clients(&world, &source, 15).await;
    let silent = connect(&world, &access, Speaks::V1).await.unwrap();
    let last = connect(&world, &access, Speaks::V1).await;
    assert!(last.is_ok());
    assert_eq!(clients(&world, &source).await, 16);
    drop(silent);
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    world.stop().await;
}

#[tokio::test]
async fn a_link_that_is_silent_for_too_long_is_cut() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let line = Line::to(&world, &source, Speaks::First).await;
    let mut minutes = 0;
    while clients(&world, &source).await == 1 {
        assert!(minutes < 20, "it is not cut");
        world.advance(Duration::from_secs(16));
        tokio::time::sleep(Duration::from_millis(5)).await;
        minutes += 1;
    }
    assert!(minutes >= 5, "it is cut after {minutes} pings");
    drop(line);
    world.stop().await;
}

#[tokio::test]
async fn a_result_of_another_attempt_changes_nothing() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let request = world.webhook(&source, "x").await;
    let frame = line.frame().await;
    line.ack(&frame).await;
    for more in [json!({"delivery_id": 999}), json!({"attempt_number": 2})] {
        let mut wrong = result(&frame, json!({"status": "success", "response_code": 200}));
        for (name, value) in more.as_object().unwrap() {
            wrong[name] = value.clone();
        }
        line.send(wrong).await;
    }
    line.answer(&frame, json!({"response_code": 503})).await;
    line.deliver(&frame).await;
    let shown = world.until_attempts(&request, 1).await;
    assert_eq!(
        (&shown["state"], &shown["attempts"][0]["response_status_code"]),
        (&json!("pending"), &json!(503))
    );
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_no_frames_is_cut_off() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    line.send(json!(["what is this"])).await;
    line.ended().await;
    until_clients(&world, &source, 0).await;
    world.stop().await;
}

#[tokio::test]
async fn pausing_and_cancelling_hold_for_clients_too() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let path = format!("/v1/sources/{}/destinations", id(&source));
    let destination = format!("{path}/{}", id(&world.get(&path).await["data"][0]));
    world.patch(&destination, json!({"paused": true})).await;
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let (cancelled, kept) = (world.webhook(&source, "cancelled").await, world.webhook(&source, "kept").await);
    let shown = delivery(&world, &cancelled).await;
    assert_eq!(shown["waiting_for"], "resume");
    world.post(&format!("/v1/deliveries/{}/cancel", id(&shown)), Value::Null).await;
    world.patch(&destination, json!({"paused": false})).await;
    let frame = line.frame().await;
    assert_eq!(body(&frame), b"kept");
    line.ack(&frame).await;
    line.deliver(&frame).await;
    world.until_all(&kept, "delivered").await;
    assert_eq!(delivery(&world, &cancelled).await["attempts"], json!([]));
    world.stop().await;
}

#[tokio::test]
async fn on_a_stop_what_is_on_the_wire_may_end_and_the_connection_is_closed() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let request = world.webhook(&source, "x").await;
    let frame = line.frame().await;
    line.ack(&frame).await;
    let client = tokio::spawn(async move {
        // It hears of the stop by nothing but the end.
        tokio::time::sleep(Duration::from_millis(100)).await;
        line.deliver(&frame).await;
        line.ended().await;
    });
    let world = world.restart().await;
    client.await.unwrap();
    let shown = world.until_all(&request, "delivered").await;
    assert_eq!(shown["deliveries"][0]["attempts"].as_array().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_slow_delivery_does_not_hold_up_the_others_on_a_line_of_ours() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let slow = world.webhook(&source, "slow").await;
    let first = line.frame().await;
    line.ack(&first).await;
    let mut others = Vec::new();
    for n in 0..100 {
        others.push(world.webhook(&source, n.to_string()).await);
    }
    for _ in 0..100 {
        let frame = line.frame().await;
        line.ack(&frame).await;
        line.deliver(&frame).await;
    }
    for other in &others {
        world.until_all(other, "delivered").await;
    }
    assert_eq!(delivery(&world, &slow).await["state"], "sending");
    line.deliver(&first).await;
    world.until_all(&slow, "delivered").await;
    world.stop().await;
}

#[tokio::test]
async fn metrics_count_the_clients() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let _line = Line::to(&world, &source, Speaks::First).await;
    let answer = world.call(Method::GET, "/metrics", Value::Null).await;
    let page = String::from_utf8(answer.bytes.to_vec()).unwrap();
    assert!(page.lines().any(|line| line == "restante_clients_connected 1"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_client_with_an_old_token_or_of_a_source_that_is_gone_is_cut_off() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let path = format!("/v1/sources/{}", id(&source));
    let mut line = Line::to(&world, &source, Speaks::V1).await;
    let source = world.post(&format!("{path}/rotate-token"), Value::Null).await;
    line.ended().await;
    until_clients(&world, &source, 0).await;
    let request = world.webhook(&source, "for who has the new one").await;
    assert_eq!(delivery(&world, &request).await["attempts"], json!([]));

    let mut line = Line::to(&world, &source, Speaks::First).await;
    line.frame().await;
    world.delete(&path).await;
    line.ended().await;
    assert_eq!(login(&world, source["token"].as_str().unwrap()).await.status, StatusCode::UNAUTHORIZED);
    world.stop().await;
}

/// What is on the wire when a stop's time is up is lost by our fault: it costs no attempt.
async fn a_stop_costs_no_attempt(speaks: Speaks) {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, speaks).await;
    let request = world.webhook(&source, "x").await;
    let frame = line.frame().await;
    if speaks == Speaks::V1 {
        line.ack(&frame).await;
    }
    let client = tokio::spawn(async move { line.ended().await });
    let world = world.restart().await;
    client.await.unwrap();
    let shown = world.until_attempts(&request, 1).await;
    assert_eq!(shown["attempts"][0]["error_kind"], "lost", "{shown:#}");
    assert_eq!((&shown["state"], &shown["attempts_used"]), (&json!("pending"), &json!(0)));
    let mut line = Line::to(&world, &source, speaks).await;
    assert_eq!(line.frame().await["deliveries"][0]["attempt_number"], 2);
    world.stop().await;
}

#[tokio::test]
async fn a_stop_costs_no_attempt_of_the_old_client() {
    a_stop_costs_no_attempt(Speaks::First).await;
}

#[tokio::test]
async fn a_stop_costs_no_attempt_of_ours() {
    a_stop_costs_no_attempt(Speaks::V1).await;
}

#[tokio::test]
async fn an_odd_status_spoils_one_attempt_and_not_the_connection() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    for odd in [json!(99_999), json!(-1)] {
        let request = world.webhook(&source, "x").await;
        let frame = line.frame().await;
        line.answer(&frame, json!({"response_code": odd})).await;
        let shown = world.until_attempts(&request, 1).await;
        assert_eq!(
            (&shown["attempts"][0]["error_kind"], &shown["attempts_used"]),
            (&json!("status"), &json!(1))
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn an_old_client_that_takes_longer_than_its_time_is_not_cut_off() {
    let world = World::start().await;
    let source = source(&world, json!({})).await;
    let path = format!("/v1/sources/{}/destinations", id(&source));
    let destination = format!("{path}/{}", id(&world.get(&path).await["data"][0]));
    world.patch(&destination, json!({"timeout_seconds": 1})).await;
    let mut line = Line::to(&world, &source, Speaks::First).await;
    let slow = world.webhook(&source, "slow").await;
    let frame = line.frame().await;
    let shown = world.until_attempts(&slow, 1).await;
    assert_eq!(shown["attempts"][0]["error_kind"], "timeout");
    // It reads nothing while it works, pings neither: for longer than a client of ours has to answer one.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let next = world.webhook(&source, "next").await;
    line.deliver(&frame).await;
    let frame = line.frame().await;
    assert_eq!(body(&frame), b"next");
    line.deliver(&frame).await;
    world.until_all(&next, "delivered").await;
    world.stop().await;
}
