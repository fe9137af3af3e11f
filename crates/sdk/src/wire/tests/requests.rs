use serde_json::json;

use super::written;
use crate::Timestamp;
use crate::wire::*;

const AT: Timestamp = Timestamp::from_millis(1_795_994_381_000);

#[test]
fn only_what_is_given_is_written() {
    written(&NewSource::new("shop"), r#"{"name":"shop"}"#);
    written(&NewDestination::http("https://a.example"), r#"{"kind":"http","url":"https://a.example"}"#);
    written(&NewBulkRetry::since(AT), r#"{"since":"2026-11-29T23:19:41.000Z"}"#);
    written(
        &NewWebhook::new("https://a.example", ["a.*"]),
        r#"{"url":"https://a.example","events":["a.*"]}"#,
    );
    written(&NewTemplate::new("Hi"), r#"{"name":"Hi"}"#);
    written(&NewDomain::new("a.example"), r#"{"name":"a.example"}"#);
    written(&NewSuppression::new("a@example.com"), r#"{"email":"a@example.com"}"#);
    written(&NewWorkspace::new("w"), r#"{"name":"w"}"#);
    written(&NewKey::new("k", [Scope::EmailsSend]), r#"{"name":"k","scopes":["emails:send"]}"#);
    written(&Window::since(AT), r#"{"since":"2026-11-29T23:19:41.000Z"}"#);
    written(&TemplateContent { subject: "Hi".into(), ..Default::default() }, r#"{"subject":"Hi"}"#);
    written(&SendTemplate::new("a@b", "c@d"), r#"{"from":"a@b","to":["c@d"]}"#);
    written(&TestWebhook::default(), "{}");
    written(&CopyTemplate::default(), "{}");
    written(&RenderTemplate::default(), "{}");
}

#[test]
fn a_change_says_what_stays_what_goes_and_what_comes() {
    written(&SourceChange::default(), "{}");
    let change = SourceChange {
        name: Some("shop".into()),
        response: Change::Reset,
        retention_days: 60.into(),
        ..Default::default()
    };
    written(&change, r#"{"name":"shop","response":null,"retention_days":60}"#);
    let change = SourceChange {
        dedupe: Dedupe { header: Some("X-Id".into()), json_pointer: None, hours: 24 }.into(),
        verification: NewVerification::new(VerificationKind::Stripe, "whsec_1").into(),
        ..Default::default()
    };
    let expected = concat!(
        r#"{"dedupe":{"header":"X-Id","hours":24},"#,
        r#""verification":{"kind":"stripe","secret":["whsec_1"]}}"#
    );
    written(&change, expected);
    assert!(!format!("{change:?}").contains("whsec"));

    let headers = [("X-A".to_owned(), None), ("X-B".to_owned(), Some("b".into()))];
    let change = DestinationChange {
        schedule: Schedule::Quadratic { attempts: 3 }.into(),
        idempotency_header: IdempotencyHeader::Standard.into(),
        headers: Change::Set(headers.into()),
        rate_per_second: Change::Reset,
        ..Default::default()
    };
    let expected = concat!(
        r#"{"schedule":{"kind":"quadratic","attempts":3},"idempotency_header":true,"#,
        r#""headers":{"X-A":null,"X-B":"b"},"rate_per_second":null}"#
    );
    written(&change, expected);
    let change = WebhookChange {
        description: Change::Reset,
        status: Some(WebhookStatus::Paused),
        ..Default::default()
    };
    written(&change, r#"{"description":null,"status":"paused"}"#);
    written(&EmailChange { subject: Change::Reset, ..Default::default() }, r#"{"subject":null}"#);
    written(&TemplateChange { description: "d".into(), ..Default::default() }, r#"{"description":"d"}"#);
    written(&WorkspaceChange { owners: Change::Reset, ..Default::default() }, r#"{"owners":null}"#);
    written(&KeyChange { name: Some("k".into()), ..Default::default() }, r#"{"name":"k"}"#);
    written(&DomainChange::default(), "{}");
}

#[test]
fn an_email_is_written_as_its_parts() {
    let email = SendEmail {
        to: vec!["c@d.example".into(), Mailbox::named("e@f.example", "E, F")],
        text: Some("Hello".into()),
        attachments: vec![Attachment::new("a.txt", "abc")],
        metadata: Some(json!({"order": 7}).into()),
        scheduled_at: Some(AT),
        ..SendEmail::new("A <a@b.example>", "unused@example.com", "Hi")
    };
    let expected = concat!(
        r#"{"from":"A <a@b.example>","to":["c@d.example",{"email":"e@f.example","name":"E, F"}],"#,
        r#""subject":"Hi","text":"Hello","attachments":[{"filename":"a.txt","content":"YWJj"}],"#,
        r#""metadata":{"order":7},"scheduled_at":"2026-11-29T23:19:41.000Z"}"#
    );
    written(&email, expected);
    let template = UseTemplate { id: "hi".into(), version: Some(2), props: Some(json!({}).into()) };
    let email = SendEmail { template: Some(template), ..Default::default() };
    written(&email, r#"{"from":"","to":[],"template":{"id":"hi","version":2,"props":{}}}"#);
}

#[test]
fn an_address_that_was_shown_can_be_written_to() {
    let shown: Address = serde_json::from_str(r#"{"email":"a@b.example","name":null}"#).unwrap();
    written(&Mailbox::from(shown), r#"{"email":"a@b.example","name":null}"#);
    written(&Mailbox::from("A <a@b.example>".to_owned()), r#""A <a@b.example>""#);
}

#[test]
fn an_event_keeps_its_data_as_written() {
    let data = Json::parse(r#"{"b": 1.10, "a": 1}"#).unwrap();
    let event = PublishEvent { timestamp: Some(AT), ..PublishEvent::new("order.paid", &data).unwrap() };
    let expected =
        r#"{"type":"order.paid","data":{"b": 1.10, "a": 1},"timestamp":"2026-11-29T23:19:41.000Z"}"#;
    written(&event, expected);
}

#[test]
fn a_grant_is_a_change_of_the_balance_or_its_end() {
    written(&Grant::of(-5), r#"{"delta":-5}"#);
    written(&Grant { note: Some("gift".into()), ..Grant::unlimited() }, r#"{"balance":null,"note":"gift"}"#);
}
