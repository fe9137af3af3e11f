use super::answered;
use crate::wire::*;

fn email(end: &str) -> String {
    format!(
        r#"{{"object":"email","id":"em_1","status":"sent","mode":"live","from":{{"email":"a@example.com","name":null}},
        "subject":null,"message_id":"<em_1@example.com>","thread_id":null,"transport":"relay","attempts":1,
        "last_error":null,"scheduled_at":null,"cancellable_until":null,"sent_at":"2026-11-29T23:19:41.000Z",
        "tags":{{"kind":"receipt"}},"metadata":{{"order":1.0}},"broadcast_id":null,"source":"api",
        "stream":"transactional","created_at":"2026-11-29T23:19:41.000Z","recipients":[{{"id":"er_1",
        "email":"b@example.com","name":"B","kind":"to","status":"delivered","error":null,
        "delivered_at":"2026-11-29T23:19:41.000Z"}}]{end}}}"#
    )
}

const GONE: &str = r#"{"object":"email","id":"em_1","status":"erased","replayed":true}"#;

#[test]
fn emails_come_back() {
    let listed: Email = answered(&email(""));
    assert_eq!((listed.status, listed.replayed), (EmailStatus::Sent, None));
    assert_eq!(listed.metadata.unwrap().as_str(), r#"{"order":1.0}"#);
    assert_eq!(listed.recipients[0].kind, RecipientKind::To);
    let event: EmailEvent = answered(
        r#"{"object":"event","id":"whe_1","type":"email.delivered","data":{"email_id":"em_1"},
        "created_at":"2026-11-29T23:19:41.000Z"}"#,
    );
    assert_eq!(event.event_type, "email.delivered");
    answered::<EmailEvent>(
        r#"{"object":"event","id":"whe_1","type":"a.b","data":null,"created_at":"2026-11-29T23:19:41.000Z"}"#,
    );
}

#[test]
fn a_sent_email_is_whole_or_gone() {
    let sent: SentEmail = answered(&email(r#","replayed":false"#));
    assert_eq!((sent.id(), sent.status(), sent.replayed()), ("em_1", &EmailStatus::Sent, false));
    assert!(sent.email().is_some());
    let gone: SentEmail = answered(GONE);
    assert_eq!((gone.id(), gone.status(), gone.replayed()), ("em_1", &EmailStatus::Erased, true));
    assert_eq!(gone.email(), None);
    // What is whole must be so: a field that is missing is not taken for an email whose time is over.
    assert!(serde_json::from_str::<SentEmail>(&GONE.replace("erased", "sent")).is_err());
}

#[test]
fn batches_come_back_item_by_item() {
    let batch: SentBatch = answered(&format!(
        r#"{{"data":[{{"index":0,"status":"ok","email":{}}},{{"index":1,"status":"ok","email":{}}},
        {{"index":2,"status":"error","error":{{"type":"validation_error","code":"invalid_field","name":"InvalidField",
        "message":"to: must not be empty","param":"to"}}}}],"sent":2,"failed":1,"replayed":false}}"#,
        email(""),
        GONE.replace(r#","replayed":true"#, "")
    ));
    let error = batch.data[2].error.as_ref().unwrap();
    assert_eq!((error.kind.as_str(), error.param.as_deref()), ("validation_error", Some("to")));
    assert_eq!(batch.data[1].email.as_ref().unwrap().status(), &EmailStatus::Erased);
}

#[test]
fn templates_come_back() {
    let version = r#"{"object":"template_version","id":"tpv_1","template_id":"tpl_1","version":1,"state":"draft",
        "subject":"Hi {{ name }}","html":null,"text":"Hi","props":{"name":"you"},"published_at":null,
        "created_at":"2026-11-29T23:19:41.000Z"}"#;
    let template = r#""object":"template","id":"tpl_1","name":"Hi","slug":"hi","description":null,"status":"draft",
        "published_version":null,"latest_version":1,"subject":"Hi {{ name }}",
        "created_at":"2026-11-29T23:19:41.000Z","updated_at":"2026-11-29T23:19:41.000Z""#;
    let listed: Template = answered(&format!("{{{template}}}"));
    assert_eq!((listed.latest, listed.status), (None, TemplateState::Draft));
    let whole: Template = answered(&format!(r#"{{{template},"latest":{version}}}"#));
    assert_eq!(whole.latest.unwrap().props.as_str(), r#"{"name":"you"}"#);
    answered::<TemplateVersion>(version);
    answered::<TemplatePreview>(r#"{"object":"template_preview","subject":"Hi","html":null,"text":"Hi"}"#);
}

#[test]
fn domains_and_suppressions_come_back() {
    let domain: Domain = answered(
        r#"{"object":"domain","id":"dom_1","name":"a.example","sending":{"status":"failed","can_send":true,
        "checked_at":"2026-11-29T23:19:41.000Z","error":"there is no TXT record","note":"its mail is not signed"},
        "records":[{"type":"TXT","name":"s._domainkey.a.example","value":"v=DKIM1","priority":null,"purpose":"dkim",
        "status":"pending"},{"type":"MX","name":"a.example","value":"mx","priority":10,"purpose":"bounces",
        "status":"verified"}],"created_at":"2026-11-29T23:19:41.000Z","updated_at":"2026-11-29T23:19:41.000Z"}"#,
    );
    assert_eq!(domain.sending.status, DomainStatus::Failed);
    assert_eq!(domain.records[0].kind, RecordKind::Txt);
    assert_eq!(domain.records[1].purpose, RecordPurpose::Other("bounces".into()));
    let suppression: Suppression = answered(
        r#"{"object":"suppression","id":"sup_1","email":"a@example.com","reason":"hard_bounce","detail":"550 no",
        "removable":true,"created_at":"2026-11-29T23:19:41.000Z"}"#,
    );
    assert_eq!(suppression.reason, SuppressionReason::HardBounce);
}

#[test]
fn the_stream_tells_of_emails_as_lists_show_them() {
    let StreamEvent::Email(shown) = StreamEvent::read("email", &email("")).unwrap() else {
        panic!("not an email");
    };
    assert_eq!(shown.id, "em_1");
}
