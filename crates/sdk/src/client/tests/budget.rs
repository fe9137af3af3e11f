use http::Method;
use tokio::task::JoinSet;

use super::script::Does;
use super::*;
use crate::retry::GaveUp;

/// So many calls at once by clones of a client: the tries they made, and how many the budget cut short.
async fn storm(client: &Client, calls: usize) -> (u32, usize) {
    let mut tasks = JoinSet::new();
    for _ in 0..calls {
        let client = client.clone();
        tasks.spawn(async move { client.request(Method::GET, "/v1/events").await.unwrap_err() });
    }
    let errors = tasks.join_all().await;
    let denied = errors.iter().filter(|error| error.gave_up() == Some(GaveUp::Budget));
    (errors.iter().map(|error| error.attempts()).sum(), denied.count())
}

#[tokio::test]
async fn clones_against_a_dead_server_are_soon_down_to_one_try_each() {
    // Nobody listens there any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let builder = ClientBuilder::new(&format!("http://{address}"), KEY).time(Virtual::default());
    let client = builder.build().unwrap();
    // 500 tokens are 50 retries after a network failure.
    let (tries, denied) = storm(&client, 1000).await;
    assert_eq!(tries, 1050);
    assert!(denied >= 950, "{denied}");
    assert_eq!(storm(&client, 1000).await, (1000, 1000));
}

#[tokio::test]
async fn clones_against_a_server_that_only_fails_are_soon_down_to_one_try_each() {
    let (server, client, _) = setting(vec![Does::answers(503); 2100]);
    // 500 tokens are 100 retries after a status.
    let (tries, _) = storm(&client, 1000).await;
    assert_eq!(tries, 1100);
    let (tries, denied) = storm(&client, 1000).await;
    assert_eq!((tries, denied), (1000, 1000));
    assert_eq!(server.seen().len(), 2100);
}

#[tokio::test]
async fn successes_fill_the_budget_again_and_the_error_says_that_it_is_spent() {
    let (server, client, _) = setting(vec![Does::answers(503); 1100]);
    storm(&client, 1000).await;
    let call = || client.request(Method::GET, "/v1/events");
    for _ in 0..4 {
        call().await.unwrap();
    }
    server.then([Does::answers(503)]);
    let error = call().await.unwrap_err();
    assert_eq!((error.attempts(), error.gave_up()), (1, Some(GaveUp::Budget)));
    assert!(error.to_string().contains("the client's retry budget is spent"), "{error}");
    call().await.unwrap();
    server.then([Does::answers(503)]);
    assert_eq!(call().await.unwrap().attempts, 2);
}

#[tokio::test]
async fn one_failure_in_six_tries_never_meets_the_budget() {
    let (server, client, _) = setting([]);
    for _ in 0..300 {
        server.then([Does::answers(503)]);
        for _ in 0..5 {
            client.request(Method::GET, "/v1/events").await.unwrap();
        }
    }
}
