use serde::Serialize;

use crate::Timestamp;
use crate::wire::*;

const AT: Timestamp = Timestamp::from_millis(1_795_994_381_000);

fn query(wanted: &impl Serialize) -> String {
    serde_urlencoded::to_string(wanted).unwrap()
}

#[test]
fn filters_and_pages_are_one_query() {
    let wanted = ListRequests {
        source: Some("src_1".into()),
        since: Some(AT),
        state: Some(RequestState::None),
        text: Some("a&b c".into()),
        limit: Some(100),
        ..Default::default()
    };
    let expected = "source=src_1&since=2026-11-29T23%3A19%3A41.000Z&state=none&text=a%26b+c&limit=100";
    assert_eq!(query(&wanted), expected);
    let wanted = ListEvents {
        event_type: Some("order.paid".into()),
        ending_before: Some("01a".into()),
        ..Default::default()
    };
    assert_eq!(query(&wanted), "type=order.paid&ending_before=01a");
    let wanted = ListWebhooks {
        sort: Some(WebhookSort::Url),
        order: Some(Order::Ascending),
        include_total: Some(false),
        ..Default::default()
    };
    assert_eq!(query(&wanted), "sort=url&order=asc&include_total=false");
    let wanted = ListAttempts { status: Some(AttemptStatus::Pending), after: Some(AT), ..Default::default() };
    assert_eq!(query(&wanted), "after=2026-11-29T23%3A19%3A41.000Z&status=pending");
}

#[test]
fn statuses_of_emails_have_commas_between_them() {
    let wanted = |status| ListEmails { status, ..Default::default() };
    assert_eq!(query(&wanted(vec![EmailStatus::Sent, EmailStatus::Partial])), "status=sent%2Cpartial");
    assert_eq!(query(&wanted(Vec::new())), "");
}

#[test]
fn what_is_not_wanted_is_not_in_a_query() {
    assert_eq!(query(&ListRequests::default()), "");
    assert_eq!(query(&ListDeliveries::default()), "");
    assert_eq!(query(&ListWebhookDeliveries::default()), "");
    assert_eq!(query(&FollowStream::default()), "");
    assert_eq!(query(&WantedStats::default()), "");
    assert_eq!(query(&FollowStream { source: Some("src_1".into()) }), "source=src_1");
}
