use restante_core::Timestamp;
use restante_core::event::Filter;
use restante_core::id::{Tail, WebhookId, WorkspaceId};
use restante_core::retry::Schedule;

use super::*;

/// Webhooks in the order in which they were made, with the first letter of their URL and their number as name.
const MADE: [&str; 7] = ["c", "a", "b", "a", "d", "b", "a"];

fn webhook(number: usize, url: &str) -> Record<Webhook> {
    let body = Webhook {
        url: format!("https://{url}.example/"),
        description: Some(format!("{url}{number}")),
        events: vec![Filter::parse("*").unwrap()],
        secrets: Vec::new(),
        paused: false,
        schedule: Schedule::Standard,
        headers: Vec::new(),
        max_in_flight: 64,
        rate_per_second: None,
        timeout_seconds: 15,
    };
    let key = Key::from_value(number as i64 + 1);
    let at = Timestamp::from_millis(0);
    let id = WebhookId::new(key, Tail::from_bits(7));
    let workspace = WorkspaceId::from_uuid(1);
    Record { id, workspace, parent: None, version: 1, created_at: at, updated_at: at, body }
}

/// All of them, newest first, as the store gives them.
fn all() -> Vec<Record<Webhook>> {
    MADE.iter().enumerate().map(|(number, url)| webhook(number, url)).rev().collect()
}

/// All but those of these names.
fn without(gone: &[&str]) -> Vec<Record<Webhook>> {
    let mut all = all();
    all.retain(|webhook| !gone.contains(&name(webhook)));
    all
}

fn name(webhook: &Record<Webhook>) -> &str {
    webhook.body.description.as_deref().unwrap()
}

fn names(page: &WebhookPage) -> Vec<&str> {
    page.items.iter().map(name).collect()
}

fn cut(query: &str, webhooks: Vec<Record<Webhook>>) -> Result<WebhookPage, String> {
    let listing: WebhookListing = serde_urlencoded::from_str(query).map_err(|error| error.to_string())?;
    let param = |error: ApiError| {
        let body = serde_json::to_value(error.body("r")).unwrap();
        body["error"]["param"].as_str().unwrap().to_owned()
    };
    listing.cut(webhooks).map_err(param)
}

fn page(query: &str, webhooks: Vec<Record<Webhook>>) -> WebhookPage {
    cut(query, webhooks).unwrap()
}

/// Orders, each with what they come to.
const ORDERS: [(&str, [&str; 7]); 6] = [
    ("", ["a6", "b5", "d4", "a3", "b2", "a1", "c0"]),
    ("sort=created_at&order=desc", ["a6", "b5", "d4", "a3", "b2", "a1", "c0"]),
    ("order=asc", ["c0", "a1", "b2", "a3", "d4", "b5", "a6"]),
    ("sort=url", ["d4", "c0", "b5", "b2", "a6", "a3", "a1"]),
    ("sort=url&order=desc", ["d4", "c0", "b5", "b2", "a6", "a3", "a1"]),
    ("sort=url&order=asc", ["a1", "a3", "a6", "b2", "b5", "c0", "d4"]),
];

#[test]
fn webhooks_are_sorted_by_age_or_url_and_newest_first_unless_asked_otherwise() {
    for (query, expected) in ORDERS {
        let page = page(query, all());
        assert_eq!(names(&page), expected, "{query}");
        assert_eq!((page.next, page.prev, page.total), (None, None, None));
    }
}

#[test]
fn pages_follow_each_other_there_and_back_in_every_order() {
    for (query, expected) in ORDERS {
        for limit in 1..=8 {
            let query = format!("{query}&limit={limit}");
            let (mut there, mut last) = (Vec::new(), page(&query, all()));
            assert_eq!(last.prev, None, "{query}");
            loop {
                there.push(names(&last).into_iter().map(str::to_owned).collect::<Vec<_>>());
                let Some(next) = &last.next else { break };
                last = page(&format!("{query}&starting_after={next}"), all());
            }
            assert_eq!(there.concat(), expected, "{query}");
            let mut back = vec![there.last().unwrap().clone()];
            while let Some(prev) = &last.prev {
                last = page(&format!("{query}&ending_before={prev}"), all());
                back.push(names(&last).into_iter().map(str::to_owned).collect());
            }
            back.reverse();
            assert_eq!(back, there, "{query}");
        }
    }
}

#[test]
fn a_cursor_stays_good_when_its_item_goes() {
    for (query, expected) in ORDERS {
        let query = format!("{query}&limit=2");
        let first = page(&query, all());
        let next = format!("{query}&cursor={}", first.next.clone().unwrap());
        let second = page(&next, all());
        // The last of the first page, which the cursor to the second names, is deleted.
        let left = without(&[expected[1]]);
        assert_eq!(names(&page(&next, left)), names(&second), "{query}");
        // The first of the second page, which the cursor back names, is deleted.
        let left = without(&[expected[2]]);
        let before = page(&format!("{query}&ending_before={}", second.prev.clone().unwrap()), left);
        assert_eq!(names(&before), names(&first), "{query}");
        assert!(before.next.is_some() && before.prev.is_none(), "{query}");
    }
}

#[test]
fn a_page_stays_put_while_newer_webhooks_come() {
    let older = || all().split_off(2);
    let first = page("limit=2", older());
    let query = format!("limit=2&cursor={}", first.next.unwrap());
    assert_eq!(names(&page(&query, all())), names(&page(&query, older())));
}

#[test]
fn a_url_is_matched_exactly_and_counts_for_the_total() {
    let a = page("url=https://a.example/&include_total=true&limit=2&order=asc", all());
    assert_eq!((names(&a), a.total), (vec!["a1", "a3"], Some(3)));
    let rest = page(&format!("url=https://a.example/&limit=2&order=asc&cursor={}", a.next.unwrap()), all());
    assert_eq!((names(&rest), &rest.next), (vec!["a6"], &None));
    // As it is written when a webhook is made, and as it is kept.
    for same in ["https://a.example", "https://A.example:443/", "https://a.example/./"] {
        assert_eq!(names(&page(&format!("url={same}&order=asc"), all())), ["a1", "a3", "a6"], "{same}");
    }
    for other in ["https://a.example/x", "https://a.example/?", "http://a.example/", "a.example", "a"] {
        assert_eq!(names(&page(&format!("url={other}"), all())), [""; 0], "{other}");
    }
}

#[test]
fn without_webhooks_there_is_one_empty_page() {
    for query in ["", "sort=url&order=asc", "limit=1&include_total=true"] {
        let page = page(query, Vec::new());
        assert_eq!((page.items.len(), page.next, page.prev), (0, None, None), "{query}");
    }
}

#[test]
fn what_is_no_cursor_of_this_list_is_refused_by_name() {
    let by_age = page("limit=2", all()).next.unwrap();
    let by_url = page("limit=2&sort=url", all()).next.unwrap();
    for (query, param) in [
        ("limit=0".to_owned(), "limit"),
        ("limit=101".to_owned(), "limit"),
        ("cursor=x".to_owned(), "cursor"),
        ("starting_after=whk_01abcdefghe0080000000000ab".to_owned(), "starting_after"),
        (format!("ending_before={by_age}."), "ending_before"),
        (format!("sort=url&ending_before={by_age}.!"), "ending_before"),
        (format!("sort=url&cursor={by_age}."), "cursor"),
        (format!("cursor={by_age}&starting_after={by_age}"), "starting_after"),
        (format!("starting_after={by_age}&ending_before={by_age}"), "ending_before"),
        // What one order was sorted by says nothing about a place in another.
        (format!("cursor={by_url}"), "cursor"),
        (format!("sort=url&cursor={by_age}"), "cursor"),
    ] {
        assert_eq!(cut(&query, all()).err().as_deref(), Some(param), "{query}");
    }
    for unknown in ["sort=name", "order=up", "page=1"] {
        assert!(cut(unknown, all()).is_err(), "{unknown}");
    }
}
