use http::Method;
use proptest::prelude::*;

use super::script::Does;
use super::*;
use crate::ErrorKind;
use crate::calls::{self, CALLS, Call, Class};

/// `oe-` and a UUID of version 4, variant 1, in lower case.
#[track_caller]
fn assert_made_key(key: &str) {
    let uuid = key.strip_prefix("oe-").unwrap();
    let groups: Vec<&str> = uuid.split('-').collect();
    assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{key}");
    assert!(groups.concat().bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{key}");
    assert!(groups[2].starts_with('4') && "89ab".contains(&groups[3][..1]), "{key}");
}

#[tokio::test]
async fn two_calls_have_two_keys_and_the_tries_of_one_have_one() {
    let (server, client, _) = setting([Does::Cuts, Does::answers(503), Does::answers(200)]);
    let send = || client.request(Method::POST, "/v1/emails").with_json(&1);
    let answered = send().await.unwrap();
    let key = answered.idempotency_key.unwrap();
    assert_eq!(answered.attempts, 3);
    let keys: Vec<_> = server.seen().iter().map(|seen| seen.key().unwrap().to_owned()).collect();
    assert_eq!(keys, [key.as_str(); 3]);
    assert_made_key(&key);

    let other = send().await.unwrap().idempotency_key.unwrap();
    assert_made_key(&other);
    assert_ne!(key, other);
}

#[tokio::test]
async fn the_machines_keys_differ_too() {
    let server = Scripted::new([]);
    let client = Client::new(&server.url, KEY).unwrap();
    for _ in 0..2 {
        client.request(Method::POST, "/v1/events").await.unwrap();
    }
    let keys: Vec<_> = server.seen().iter().map(|seen| seen.key().unwrap().to_owned()).collect();
    keys.iter().for_each(|key| assert_made_key(key));
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn the_callers_own_key_wins() {
    let (server, client, _) = setting([Does::answers(500), Does::answers(422)]);
    let call = client.request(Method::POST, "/v1/emails").idempotency_key("invoice:inv_4192");
    let error = call.await.unwrap_err();
    assert_eq!(error.idempotency_key(), Some("invoice:inv_4192"));
    for seen in server.seen() {
        assert_eq!(seen.key(), Some("invoice:inv_4192"));
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_told_before_anything_is_sent() {
    let (server, client, _) = setting([]);
    let long = "k".repeat(256);
    for key in ["", " ", "a b", "é", "a\n", "a/b", long.as_str()] {
        let error = client.request(Method::POST, "/v1/emails").idempotency_key(key).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Invalid, Some("invalid_idempotency_key")),
            "{key}"
        );
        assert_eq!((error.attempts(), error.param()), (0, Some("idempotency_key")));
    }
    // On other calls the server ignores keys, and the caller would rely on it.
    let error = client.request(Method::POST, "/v1/sources").idempotency_key("k").await.unwrap_err();
    assert_eq!(error.code(), Some("no_idempotency_key"));
    assert!(server.seen().is_empty());
    client.request(Method::POST, "/v1/emails").idempotency_key(&long[1..]).await.unwrap();
}

#[tokio::test]
async fn without_random_bytes_only_a_key_of_ones_own_sends() {
    let (server, client, time) = setting([Does::answers(503)]);
    time.0.lock().unwrap().dry = true;
    let error = client.request(Method::POST, "/v1/emails").await.unwrap_err();
    assert_eq!(error.code(), Some("no_random_bytes"));
    assert!(server.seen().is_empty());
    client.request(Method::POST, "/v1/emails").idempotency_key("k").await.unwrap();
    assert_eq!(time.waits(), [Duration::from_millis(500)]);
}

/// A path of a call, with ids in it.
fn path_of(call: &Call, id: &str) -> String {
    let path = call.path.unwrap_or("/v1/things/{id}/act");
    path.split('/').map(|part| if part.starts_with('{') { id } else { part }).collect::<Vec<_>>().join("/")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_keyed_call_and_no_other_sends_its_key_on_every_path(id in "[a-zA-Z0-9_~.-]{1,30}[a-z]") {
        let (server, client, _) = setting([]);
        let client = client.blocking();
        for call in CALLS {
            let method = call.method.clone().unwrap_or(Method::POST);
            let path = path_of(call, &id);
            client.request_as(call, method.clone(), &path).wait().unwrap();
            // By its route alone it is known, too.
            let routed = call.path.is_some();
            if routed {
                client.request(method, &path).wait().unwrap();
            }
            let seen = server.seen();
            prop_assert_eq!(seen.len(), 1 + usize::from(routed));
            for seen in seen {
                prop_assert_eq!(seen.key().is_some(), call.class == Class::Keyed, "{}", call.name);
            }
        }
        let keyed = CALLS.iter().filter(|call| call.class == Class::Keyed).count();
        prop_assert_eq!(keyed, 6);
    }
}

#[test]
fn batches_are_keyed() {
    for call in [&calls::EMAILS_SEND_BATCH, &calls::EVENTS_PUBLISH_BATCH, &calls::TEMPLATES_SEND] {
        assert_eq!(call.class, Class::Keyed);
    }
}
