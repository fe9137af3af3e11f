use http::Method;

use super::script::Does;
use super::*;
use crate::ErrorKind;
use crate::retry::GaveUp;

#[tokio::test]
async fn ceilings_double_up_to_eight_seconds() {
    let (_server, client, time) = setting(vec![Does::answers(503); 7]);
    let error = client.request(Method::GET, "/v1/events").max_retries(6).await.unwrap_err();
    assert_eq!(error.attempts(), 7);
    let ceilings_ms = [500, 1000, 2000, 4000, 8000, 8000];
    for (wait, ceiling_ms) in time.waits().iter().zip(ceilings_ms) {
        let ceiling = Duration::from_millis(ceiling_ms);
        assert!((ceiling / 2..=ceiling).contains(wait), "{wait:?} of {ceiling:?}");
    }
}

#[tokio::test]
async fn retries_can_be_switched_off() {
    let (server, client, _) = setting(vec![Does::answers(503); 2]);
    let error = client.request(Method::GET, "/v1/events").max_retries(0).await.unwrap_err();
    assert_eq!((error.attempts(), error.gave_up()), (1, Some(GaveUp::RetriesUsedUp)));
    let client = ClientBuilder::new(&server.url, KEY).max_retries(0).build().unwrap();
    let error = client.request(Method::GET, "/v1/events").await.unwrap_err();
    assert_eq!(error.attempts(), 1);
}

#[tokio::test]
async fn no_wait_is_begun_that_would_pass_the_deadline() {
    let wishes = || vec![Does::wishes(503, "4"); 3];
    let (server, client, time) = setting(wishes());
    let call = || client.request(Method::GET, "/v1/events");
    let error = call().deadline(Duration::from_secs(7)).await.unwrap_err();
    assert_eq!((error.attempts(), error.gave_up()), (2, Some(GaveUp::Deadline)));
    assert_eq!(error.retry_after_seconds(), Some(4.0));
    assert_eq!(time.waits(), [Duration::from_secs(4)]);
    assert_eq!(server.seen().len(), 2);

    let error = call().deadline(Duration::from_secs(9)).await;
    // One step of the script is left.
    assert_eq!(error.unwrap().attempts, 2);
}

#[tokio::test]
async fn a_deadline_cuts_a_try_short() {
    let (_server, client, _) = setting([Does::Hangs]);
    let call = client.request(Method::GET, "/v1/events").deadline(Duration::from_millis(30));
    let error = call.await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Timeout, 1));
    assert_eq!(error.message(), "no answer within the 30 ms of the call's deadline");
}

#[tokio::test]
async fn the_timeout_is_anew_for_each_try() {
    let (_server, client, _) = setting([Does::Hangs, Does::Hangs, Does::answers(200)]);
    let call = client.request(Method::GET, "/v1/events").timeout(Duration::from_millis(200));
    assert_eq!(call.await.unwrap().attempts, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dropped_call_sends_nothing_more() {
    let (server, client, time) = setting([Does::answers(503)]);
    time.0.lock().unwrap().endless = true;
    let call = client.request(Method::GET, "/v1/dropped");
    let task = tokio::spawn(async { call.await });
    server.await_seen(1);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    // What comes next is another's.
    client.request(Method::GET, "/v1/other").await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line, "GET /v1/other HTTP/1.1");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Scripted::new([]);
    let to = vec![("location", format!("{}/v1/events", elsewhere.url))];
    let (_server, client, _) = setting([Does::Answers(307, to, String::new())]);
    let error = client.request(Method::POST, "/v1/events").await.unwrap_err();
    assert_eq!(error.status(), Some(307));
    assert!(error.message().starts_with("a redirect"), "{error}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_path_is_sent_as_it_is_or_not_at_all() {
    let (server, client, _) = setting([]);
    for path in [
        "v1/events",
        "",
        "/v1/../admin",
        "/v1/./x",
        "/v1/a b",
        "/v1/x?a=b",
        "/v1/x#a",
        "//evil.example",
        "/\\evil",
        "@evil.example/",
    ] {
        let error = client.request(Method::GET, path).await.err();
        if path == "//evil.example" {
            // A path like any other: it stays with this server.
            assert!(error.is_none());
            continue;
        }
        let error = error.unwrap_or_else(|| panic!("{path} was sent"));
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some("invalid_path")), "{path}");
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line, "GET //evil.example HTTP/1.1");
}

#[tokio::test]
async fn what_the_client_says_of_itself() {
    let (server, client, _) = setting([]);
    let client = client.in_workspace("ws_1").unwrap();
    let query = [("a", "ä &"), ("b", "1")];
    client.request(Method::GET, "/v1/events").with_query(&query).await.unwrap();
    client.request(Method::PUT, "/v1/x").with_body("text", "text/plain").await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /v1/events?a=%C3%A4+%26&b=1 HTTP/1.1");
    assert_eq!(seen[0].all("x-workspace-id"), ["ws_1"]);
    assert_eq!(seen[0].all("authorization"), ["Bearer rst_live_canary"]);
    assert_eq!(seen[0].all("user-agent"), [format!("restante-sdk/{}", env!("CARGO_PKG_VERSION"))]);
    assert_eq!(seen[0].all("accept-encoding"), [""; 0]);
    assert_eq!(seen[1].all("content-type"), ["text/plain"]);
    assert_eq!(seen[1].body, b"text");
    assert!(client.in_workspace("a\nb").is_err());
}

#[tokio::test]
async fn a_url_with_a_path_is_kept_before_every_call() {
    let server = Scripted::new([]);
    let client = Client::new(&format!("{}/mail/", server.url), KEY).unwrap();
    client.request(Method::POST, "/v1/emails").await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /mail/v1/emails HTTP/1.1");
    assert!(seen[0].key().is_some());
}

#[tokio::test]
async fn limits_as_long_as_can_be_and_none_at_all() {
    let (_server, client, _) = setting([Does::answers(503), Does::answers(200), Does::answers(200)]);
    let call = || client.request(Method::GET, "/v1/events");
    let endless = call().deadline(Duration::MAX).timeout(Duration::MAX).max_retries(u32::MAX);
    assert_eq!(endless.await.unwrap().attempts, 2);
    for call in [call().timeout(Duration::ZERO), call().deadline(Duration::ZERO)] {
        assert_eq!(call.max_retries(0).await.unwrap_err().kind(), ErrorKind::Timeout);
    }
}

#[tokio::test]
async fn a_date_is_read_by_the_clock_of_the_server_that_sent_it() {
    let dates = |date: &str, retry_after: &str| {
        let headers = vec![("date", date.to_owned()), ("retry-after", retry_after.to_owned())];
        Does::Answers(503, headers, String::new())
    };
    // The server's clock is an hour ahead of this one.
    let (_server, client, time) = setting([
        dates("Mon, 30 Nov 2026 00:19:41 GMT", "Mon, 30 Nov 2026 00:19:44 GMT"),
        Does::answers(200),
    ]);
    client.request(Method::GET, "/v1/events").await.unwrap();
    assert_eq!(time.waits(), [Duration::from_secs(3)]);
}
