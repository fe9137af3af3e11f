use super::script::Does;
use super::*;
use crate::ErrorKind;
use crate::wire::FollowStream;

const LIVE: &str = ": hi\n\nevent: lagged\ndata: {\"missed\":1}\n\nevent: newer\ndata: [1]\n\n";

#[tokio::test]
async fn a_stream_is_opened_like_every_read_and_ends_with_the_server() {
    let (server, client, _) = setting([Does::answers(503), Does::says(LIVE)]);
    let wanted = FollowStream { source: Some("src_1".to_owned()) };
    let mut live = client.stream().follow(&wanted).await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap().name(), "lagged");
    assert_eq!(live.next().await.unwrap().unwrap().name(), "newer");
    assert!(live.next().await.is_none());
    let seen = server.seen();
    assert_eq!(seen[1].line, "GET /v1/stream?source=src_1 HTTP/1.1");
    assert_eq!(seen[1].all("accept"), ["text/event-stream"]);
}

#[test]
fn threads_follow_streams_too() {
    let (_server, client, _) =
        setting([Does::says(LIVE), Does::CutsInBody, Does::says("event: lagged\ndata: {}\n\n")]);
    let follow = || client.blocking().stream().follow(&FollowStream::default()).wait().unwrap();
    assert_eq!(
        follow().map(|event| event.unwrap().name().to_owned()).collect::<Vec<_>>(),
        ["lagged", "newer"]
    );
    let mut broken = follow();
    assert_eq!(broken.next().unwrap().unwrap_err().kind(), ErrorKind::Network);
    assert!(broken.next().is_none());
    let mut garbled = follow();
    assert_eq!(garbled.next().unwrap().unwrap_err().kind(), ErrorKind::Answer);
    assert!(garbled.next().is_none());
}

#[tokio::test]
async fn a_stream_that_is_refused_tells_why() {
    let body = r#"{"error":{"type":"permission_error","code":"insufficient_scope","message":"m"}}"#;
    let (_server, client, _) = setting([Does::Answers(403, Vec::new(), body.to_owned())]);
    let error = client.stream().follow(&FollowStream::default()).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(403), Some("insufficient_scope")));
}
