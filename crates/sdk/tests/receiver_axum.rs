//! The extractor in a router, as a sender sees it.
#![cfg(feature = "axum")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use restante_sdk::receiver::axum::{BODY_BYTES_MAX, Receiver, Rejection, Webhook};
use restante_sdk::receiver::{Begun, Deduplicator, Event, Store};
use restante_sdk::signature::{SigningKey, Verifier, sign};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECONDS: i64 = 1_614_265_330;
const DELIVERED: &str =
    r#"{"type":"email.delivered","timestamp":"2026-11-29T23:19:41.000Z","data":{"email_id":"em_1"}}"#;

#[derive(Deserialize)]
struct Delivered {
    email_id: String,
}

/// Accepts signatures from any time, as these tests sign at a fixed one.
fn timeless() -> Verifier {
    Verifier::new(SECRET).unwrap().with_tolerance(Duration::MAX)
}

fn signed(id: &str, body: impl Into<Vec<u8>>) -> Request<Body> {
    let body = body.into();
    let key: SigningKey = SECRET.parse().unwrap();
    Request::post("/")
        .header("webhook-id", id)
        .header("webhook-timestamp", SECONDS)
        .header("webhook-signature", sign(id, SECONDS, &body, &[key]))
        .body(body.into())
        .unwrap()
}

async fn answer(app: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let text = to_bytes(response.into_body(), 10_000).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(!text.contains(&SECRET[6..]), "{text}");
    (status, text)
}

type Shared<T> = Arc<Mutex<Vec<T>>>;

/// A router that stores what it gets, except for as many failures as there are; what it stored; and the failures.
fn storing(verifier: Verifier) -> (Router, Shared<String>, Shared<&'static str>) {
    let stored = Arc::new(Mutex::new(Vec::new()));
    let failures = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (stored, failures) = (Arc::clone(&stored), Arc::clone(&failures));
        async move |webhook: Webhook<Delivered>| {
            let work = async |event: Event<Delivered>| match failures.lock().unwrap().pop() {
                Some(failure) => Err(failure),
                None => {
                    stored.lock().unwrap().push(format!("{} {}", event.id, event.data.email_id));
                    Ok(())
                }
            };
            webhook.store(work).await
        }
    };
    let receiver = Receiver::new(verifier, Deduplicator::default());
    (Router::new().route("/", post(handler)).with_state(receiver), stored, failures)
}

#[tokio::test]
async fn an_event_is_stored_once_and_acknowledged_each_time() {
    let (app, stored, _) = storing(timeless());
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await, (StatusCode::NO_CONTENT, String::new()));
    for _ in 0..2 {
        let (status, text) = answer(&app, signed("whe_1", DELIVERED)).await;
        assert_eq!((status, text.as_str()), (StatusCode::OK, "processed before"));
    }
    assert_eq!(answer(&app, signed("whe_2", DELIVERED)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(*stored.lock().unwrap(), ["whe_1 em_1", "whe_2 em_1"]);
}

#[tokio::test]
async fn what_could_not_be_stored_is_not_acknowledged_and_comes_again() {
    let (app, stored, failures) = storing(timeless());
    failures.lock().unwrap().extend(["disk full at /srv", "disk full at /srv"]);
    for _ in 0..2 {
        let (status, text) = answer(&app, signed("whe_1", DELIVERED)).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!text.contains("/srv"), "{text}");
    }
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(*stored.lock().unwrap(), ["whe_1 em_1"]);
}

#[tokio::test]
async fn a_request_that_is_not_the_senders_is_refused_with_the_reason() {
    let (app, stored, _) = storing(timeless());
    let mut changed = signed("whe_1", DELIVERED);
    *changed.body_mut() = Body::from(DELIVERED.replace("em_1", "em_2"));
    let mut unsigned = signed("whe_1", DELIVERED);
    unsigned.headers_mut().remove("webhook-signature");
    for (request, part) in [(changed, "no signature matches"), (unsigned, "`webhook-signature` is missing")] {
        let (status, text) = answer(&app, request).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert!(text.contains(part), "{text}");
    }
    let (strict, _, _) = storing(Verifier::new(SECRET).unwrap());
    let (status, text) = answer(&strict, signed("whe_1", DELIVERED)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(text.contains("seconds ago"), "{text}");
    assert!(stored.lock().unwrap().is_empty());
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn an_unreadable_event_is_refused_and_can_come_again() {
    let (app, _, _) = storing(timeless());
    for body in ["", "{", r#"{"type":"email.delivered","timestamp":"2026-11-29T23:19:41.000Z","data":{}}"#] {
        let (status, text) = answer(&app, signed("whe_1", body)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(text.starts_with("the body is not the event that is expected here: "), "{text}");
    }
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await.0, StatusCode::NO_CONTENT);
    let unreadable_by_now = signed("whe_1", "{}");
    assert_eq!(answer(&app, unreadable_by_now).await.0, StatusCode::OK, "processed stays processed");
}

#[tokio::test]
async fn a_body_has_its_limit() {
    let (app, _, _) = storing(timeless());
    let of_length = |bytes: usize| {
        let mut body = DELIVERED.as_bytes().to_vec();
        body.resize(bytes, b' ');
        signed("whe_1", body)
    };
    let (status, text) = answer(&app, of_length(BODY_BYTES_MAX + 1)).await;
    assert_eq!(
        (status, text.as_str()),
        (StatusCode::PAYLOAD_TOO_LARGE, "the body has more than 278528 bytes")
    );
    assert_eq!(answer(&app, of_length(BODY_BYTES_MAX)).await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn while_one_request_works_another_is_asked_to_come_again() {
    let (begun, mut has_begun) = mpsc::channel(1);
    let (finish, finished) = oneshot::channel::<()>();
    let finished = Arc::new(Mutex::new(Some(finished)));
    let handler = async move |webhook: Webhook<Delivered>| {
        let work = async |_| {
            begun.send(()).await.unwrap();
            let finished = finished.lock().unwrap().take();
            finished.unwrap().await
        };
        webhook.store(work).await
    };
    let receiver = Receiver::new(timeless(), Deduplicator::default());
    let app: Router = Router::new().route("/", post(handler)).with_state(receiver);
    let first = tokio::spawn({
        let app = app.clone();
        async move { answer(&app, signed("whe_1", DELIVERED)).await.0 }
    });
    has_begun.recv().await.unwrap();
    let (status, text) = answer(&app, signed("whe_1", DELIVERED)).await;
    assert_eq!((status, text.as_str()), (StatusCode::CONFLICT, "being processed by another request"));
    finish.send(()).unwrap();
    assert_eq!(first.await.unwrap(), StatusCode::NO_CONTENT);
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_handler_that_does_not_commit_gives_the_event_up() {
    async fn careful(webhook: Webhook<Delivered>) -> impl IntoResponse {
        let Event { id, data, .. } = webhook.event();
        if data.email_id == "em_1" && id == "whe_1" {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        webhook.commit().await.into_response()
    }
    async fn by_hand(webhook: Webhook<Delivered>) -> StatusCode {
        let (_event, ticket) = webhook.into_parts();
        ticket.commit();
        StatusCode::ACCEPTED
    }
    let receiver = Receiver::new(timeless(), Deduplicator::default());
    let careful: Router = Router::new().route("/", post(careful)).with_state(receiver.clone());
    for _ in 0..2 {
        assert_eq!(answer(&careful, signed("whe_1", DELIVERED)).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(answer(&careful, signed("whe_2", DELIVERED)).await.0, StatusCode::NO_CONTENT);
    let by_hand: Router = Router::new().route("/", post(by_hand)).with_state(receiver);
    assert_eq!(answer(&by_hand, signed("whe_1", DELIVERED)).await.0, StatusCode::ACCEPTED);
    assert_eq!(answer(&by_hand, signed("whe_1", DELIVERED)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_refusal_can_be_looked_at_before_it_is_the_answer() {
    async fn handler(
        State(log): State<Arc<Mutex<Vec<String>>>>,
        webhook: Result<Webhook<Delivered>, Rejection>,
    ) -> Result<impl IntoResponse, Rejection> {
        let webhook = webhook.inspect_err(|refusal| log.lock().unwrap().push(refusal.to_string()))?;
        Ok(webhook.commit().await)
    }
    #[derive(Clone)]
    struct App(Receiver, Arc<Mutex<Vec<String>>>);
    impl axum::extract::FromRef<App> for Receiver {
        fn from_ref(app: &App) -> Self {
            app.0.clone()
        }
    }
    impl axum::extract::FromRef<App> for Arc<Mutex<Vec<String>>> {
        fn from_ref(app: &App) -> Self {
            Arc::clone(&app.1)
        }
    }
    let app = App(Receiver::new(timeless(), Deduplicator::default()), Arc::default());
    let router: Router = Router::new().route("/", post(handler)).with_state(app.clone());
    for status in [StatusCode::NO_CONTENT, StatusCode::OK] {
        assert_eq!(answer(&router, signed("whe_1", DELIVERED)).await.0, status);
    }
    assert_eq!(*app.1.lock().unwrap(), ["processed before"]);
}

/// Rows that a transaction adds when it commits; the ids are among them.
#[derive(Clone, Default)]
struct Database {
    rows: Arc<Mutex<Vec<String>>>,
    lost: Arc<Mutex<bool>>,
}

#[derive(Debug)]
struct ConnectionLost;

impl std::fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no connection to 10.1.2.3")
    }
}

impl std::error::Error for ConnectionLost {}

impl Store for Database {
    type Ticket = Vec<String>;
    type Error = ConnectionLost;

    async fn begin(&self, id: &str) -> Result<Begun<Vec<String>>, ConnectionLost> {
        if *self.lost.lock().unwrap() {
            return Err(ConnectionLost);
        }
        let known = self.rows.lock().unwrap().iter().any(|row| row == id);
        Ok(if known { Begun::Duplicate } else { Begun::Fresh(vec![id.to_owned()]) })
    }

    async fn commit(&self, transaction: Vec<String>) -> Result<(), ConnectionLost> {
        if *self.lost.lock().unwrap() {
            return Err(ConnectionLost);
        }
        self.rows.lock().unwrap().extend(transaction);
        Ok(())
    }
}

#[tokio::test]
async fn with_a_callers_store_the_work_and_the_id_are_one_commit() {
    async fn handler(webhook: Webhook<Delivered, Database>) -> impl IntoResponse {
        let work = async |event: Event<Delivered>, transaction: &mut Vec<String>| {
            transaction.push(event.data.email_id);
            tokio::task::yield_now().await;
            if event.event_type == "email.bounced" { Err("unexpected") } else { Ok(()) }
        };
        webhook.store_in(work).await
    }
    let database = Database::default();
    let receiver = Receiver::new(timeless(), database.clone());
    let app: Router = Router::new().route("/", post(handler)).with_state(receiver);
    let bounced = DELIVERED.replace("delivered", "bounced");
    assert_eq!(answer(&app, signed("whe_1", bounced)).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    *database.lost.lock().unwrap() = true;
    let (status, text) = answer(&app, signed("whe_1", DELIVERED)).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(text, "the store of processed events failed");
    *database.lost.lock().unwrap() = false;
    assert!(database.rows.lock().unwrap().is_empty());
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(answer(&app, signed("whe_1", DELIVERED)).await.0, StatusCode::OK);
    assert_eq!(*database.rows.lock().unwrap(), ["whe_1", "em_1"]);
}
