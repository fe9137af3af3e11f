use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;

use super::script::Does;
use super::*;
use crate::ErrorKind;
use crate::wire::Notice;

/// A page of notices with these ids, and the cursor of the next.
fn page(ids: &[&str], next: Option<&str>) -> Does {
    let notice = |id: &&str| {
        serde_json::json!({
            "object": "notice", "id": id, "kind": "webhook_paused", "webhook_id": "whk_1",
            "created_at": "2026-11-29T23:19:41.000Z", "mailed_at": null,
        })
    };
    let data: Vec<_> = ids.iter().map(notice).collect();
    let page = serde_json::json!({"data": data, "has_more": next.is_some(), "next_cursor": next, "prev_cursor": null});
    Does::says(&page.to_string())
}

fn three_pages() -> [Does; 4] {
    [page(&["a", "b"], Some("c1")), Does::answers(503), page(&[], Some("c 2")), page(&["c"], None)]
}

const LINES: [&str; 4] = [
    "GET /v1/notices?limit=100 HTTP/1.1",
    "GET /v1/notices?limit=100&cursor=c1 HTTP/1.1",
    "GET /v1/notices?limit=100&cursor=c1 HTTP/1.1",
    "GET /v1/notices?limit=100&cursor=c+2 HTTP/1.1",
];

fn lines(server: &Scripted) -> Vec<String> {
    server.seen().into_iter().map(|seen| seen.line).collect()
}

#[tokio::test]
async fn all_items_come_over_all_pages_each_fetched_and_retried_by_itself() {
    let (server, client, time) = setting(three_pages());
    let mut items = client.notices().list(&Default::default()).items();
    let mut ids = Vec::new();
    while let Some(notice) = items.next().await {
        ids.push(notice.unwrap().id);
    }
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(lines(&server), LINES);
    assert_eq!(time.waits().len(), 1);
    assert!(items.next().await.is_none());
}

#[test]
fn threads_walk_lists_like_tasks() {
    let (server, client, _) = setting(three_pages());
    let list = || client.blocking().notices().list(&Default::default());
    let ids: Vec<String> = list().items().map(|notice| notice.unwrap().id).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(lines(&server), LINES);

    server.then(three_pages());
    let sizes: Vec<usize> = list().pages().map(|page| page.unwrap().data.len()).collect();
    assert_eq!(sizes, [2, 0, 1]);

    server.then([page(&["a"], Some("c1"))]);
    let first = list().wait().unwrap();
    assert_eq!((first.data.len(), first.next_cursor.as_deref()), (1, Some("c1")));
}

#[tokio::test]
async fn a_list_ends_with_its_first_error() {
    let (_server, client, _) = setting([page(&["a"], Some("c1")), Does::answers(401)]);
    let mut items = client.notices().list(&Default::default()).items();
    assert!(items.next().await.unwrap().is_ok());
    assert_eq!(items.next().await.unwrap().unwrap_err().status(), Some(401));
    assert!(items.next().await.is_none());
}

#[tokio::test]
async fn a_list_that_leads_back_to_itself_ends() {
    let (_server, client, _) = setting([page(&["a"], Some("c1")), page(&["b"], Some("c1"))]);
    let mut pages = client.notices().list(&Default::default()).pages();
    assert!(pages.next().await.unwrap().is_ok());
    assert_eq!(pages.next().await.unwrap().unwrap_err().kind(), ErrorKind::Answer);
    assert!(pages.next().await.is_none());
}

#[tokio::test]
async fn an_answer_of_another_shape_is_an_error_that_keeps_what_is_known() {
    let (_server, client, _) = setting([Does::says("{}"), Does::says("<html>")]);
    for _ in 0..2 {
        let error = client.notices().list(&Default::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.status(), error.attempts()), (ErrorKind::Answer, Some(200), 1));
        assert_eq!(error.request_id(), Some("q-200"));
    }
}

#[tokio::test]
async fn a_dropped_wait_for_an_item_loses_none() {
    let (server, client, _) = setting([page(&["a"], None)]);
    let mut items = client.notices().list(&Default::default()).items();
    {
        let waiting = poll_fn(|context| Pin::new(&mut items).poll_next(context));
        tokio::select! {
            biased;
            _ = waiting => panic!("before anything was sent"),
            () = std::future::ready(()) => {}
        }
    }
    let notice: Notice = items.next().await.unwrap().unwrap();
    assert_eq!(notice.id, "a");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_list_that_goes_on_without_saying_where_does_not_seem_to_be_over() {
    let page = r#"{"data": [], "has_more": true, "next_cursor": null, "prev_cursor": null}"#;
    let (_server, client, _) = setting([Does::says(page)]);
    let mut pages = client.notices().list(&Default::default()).pages();
    assert_eq!(pages.next().await.unwrap().unwrap_err().kind(), ErrorKind::Answer);
    assert!(pages.next().await.is_none());
}
