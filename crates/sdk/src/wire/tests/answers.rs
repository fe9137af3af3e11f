use super::answered;
use crate::Timestamp;
use crate::wire::*;

const PENDING: &str = r#"{"object":"delivery","id":"dlv_1","request_id":"req_1","destination_id":"dst_1",
    "state":"pending","reason":null,"cancel_requested":false,"attempts_used":1,"attempts_max":5,
    "next_attempt_at":"2026-11-29T23:19:41.000Z","waiting_for":"time","wait_because":"attempt 2 of 5, 4 min",
    "retry_of":null,"created_at":"2026-11-29T23:15:40.000Z","ended_at":null"#;
const ATTEMPTS: &str = r#","attempts":[
    {"id":"att_1","number":1,"trigger":"automatic","channel":"http","url":"https://a.example/","started_at":
     "2026-11-29T23:15:40.000Z","duration_ms":1000,"result":"failed","response_status_code":503,"error_kind":"status",
     "error_message":"status 503","uses_budget":true},
    {"id":"att_2","number":2,"trigger":"manual","channel":"cli","url":"http://localhost/","started_at":
     "2026-11-29T23:19:41.000Z","duration_ms":null,"result":null,"response_status_code":null,"error_kind":null,
     "error_message":null,"uses_budget":null}]}"#;

#[test]
fn sources_and_destinations_come_back() {
    let source: Source = answered(
        r#"{"object":"source","id":"src_1","name":"shop","url":"https://r.example/in/t","token":"t","response":null,
        "deliver_pending_on_connect":true,"retention_days":30,"dedupe":null,"verification":null,"clients_connected":0,
        "created_at":"2026-11-29T23:19:41.000Z","updated_at":"2026-11-29T23:19:41.007Z"}"#,
    );
    assert_eq!(source.updated_at.since(source.created_at).as_millis(), 7);
    let source: Source = answered(
        r#"{"object":"source","id":"src_1","name":"shop","url":"u","token":"t","response":{"status":202,
        "content_type":"text/plain","body":"ok"},"deliver_pending_on_connect":false,"retention_days":365,
        "dedupe":{"json_pointer":"/id","hours":24},"verification":{"kind":"github"},"clients_connected":2,
        "created_at":"2026-11-29T23:19:41.000Z","updated_at":"2026-11-29T23:19:41.000Z"}"#,
    );
    assert_eq!(source.response.unwrap().status, 202);
    let rest = r#""max_in_flight":64,"rate_per_second":0.5,"timeout_seconds":30,"created_at":"2026-11-29T23:19:41.000Z",
        "updated_at":"2026-11-29T23:19:41.000Z"}"#;
    for (header, expected) in [
        ("false", IdempotencyHeader::Off),
        ("true", IdempotencyHeader::Standard),
        (r#""X-Key""#, IdempotencyHeader::Named("X-Key".into())),
    ] {
        let destination: Destination = answered(&format!(
            r#"{{"object":"destination","id":"dst_1","source_id":"src_1","kind":"http","url":"https://a.example/",
            "attempts":3,"schedule":{{"kind":"custom","waits_seconds":[60.0,300.5],"jitter":0.1}},
            "idempotency_header":{header},"paused":false,"headers":{{"X-A":null}},{rest}"#
        ));
        assert_eq!(destination.idempotency_header, expected);
    }
}

#[test]
fn bulk_retries_come_back() {
    let retry: BulkRetry = answered(
        r#"{"object":"bulk_retry","id":"rpl_1","destination_id":"dst_1","state":"running","delivery_state":"failed",
        "total":7,"created":0,"since":"2026-11-29T23:19:41.000Z","until":"2026-11-29T23:19:41.000Z",
        "created_at":"2026-11-29T23:19:41.000Z"}"#,
    );
    assert_eq!((retry.state, retry.delivery_state), (BulkRetryState::Running, DeliveryState::Failed));
    answered::<BulkRetryPreview>(r#"{"deliveries":7,"credits":7}"#);
}

#[test]
fn requests_come_back_in_lists_and_whole() {
    let common =
        r#""object":"request","id":"req_1","source_id":"src_1","method":"POST","path":"/a","query":null"#;
    let rest = r#""body_bytes":2,"content_type":"application/json","remote_address":"192.0.2.1",
        "received_at":"2026-11-29T23:19:41.000Z","key":"019acf3a-0000-7000-8000-000000000000","duplicate_of":null,
        "rejected":false,"rejected_because":null,"replay_of":"req_0","expires_at":"2026-12-29T23:19:41.000Z","state":"pending""#;
    let brief: Request = answered(&format!("{{{common},{rest}}}"));
    assert_eq!((brief.headers, brief.deliveries), (None, None));
    let whole: Request = answered(&format!(
        r#"{{{common},"headers":[["Host","a"],["x","1"],["x","2"]],{rest},"deliveries":[{PENDING}{ATTEMPTS}]}}"#
    ));
    assert_eq!(whole.headers.unwrap()[2], ("x".to_owned(), "2".to_owned()));
    let attempts = whole.deliveries.unwrap().remove(0).attempts.unwrap();
    assert_eq!(attempts[0].error_kind, Some(AttemptError::Status));
    assert_eq!(attempts[1].result, None);
}

#[test]
fn deliveries_of_all_kinds_come_back() {
    let brief: Delivery = answered(&format!("{PENDING}}}"));
    assert_eq!(brief.waiting_for, Some(WaitingFor::Time));
    let of = |ids: &str| {
        answered::<Delivery>(&format!(
            r#"{{"object":"delivery","id":"dlv_1",{ids},"state":"failed","reason":"exhausted","cancel_requested":false,
            "attempts_used":8,"attempts_max":8,"next_attempt_at":null,"waiting_for":null,"wait_because":null,
            "retry_of":"dlv_0","created_at":"2026-11-29T23:15:40.000Z","ended_at":"2026-11-29T23:15:40.000Z"}}"#
        ))
    };
    assert_eq!(of(r#""event_id":"whe_1","webhook_id":"whk_1""#).webhook_id.as_deref(), Some("whk_1"));
    let mail = of(r#""email_id":"em_1""#);
    assert_eq!((mail.destination_id, mail.webhook_id), (None, None));
    assert_eq!(mail.reason, Some(DeliveryReason::Exhausted));
}

#[test]
fn events_come_back_with_a_count_or_their_deliveries() {
    let event = |deliveries: &str| {
        answered::<Event>(&format!(
            r#"{{"object":"event","id":"whe_1","type":"order.paid","timestamp":"2026-11-29T23:19:41.000Z",
            "data":{{"z":1.10,"a":12345678901234567890}},"created_at":"2026-11-29T23:19:41.000Z",
            "deliveries":{deliveries}}}"#
        ))
    };
    let listed = event("3");
    assert_eq!(listed.deliveries, EventDeliveries::Count(3));
    assert_eq!(listed.data.as_str(), r#"{"z":1.10,"a":12345678901234567890}"#);
    assert_eq!(event("[]").deliveries, EventDeliveries::All(Vec::new()));
    assert_eq!(event(&format!("[{PENDING}{ATTEMPTS}]")).deliveries.count(), 1);

    answered::<PublishedEvent>(r#"{"id":"whe_1","deliveries":2,"replayed":false}"#);
    answered::<PublishedBatch>(r#"{"data":[{"id":"whe_1","deliveries":2}],"replayed":true}"#);
}

#[test]
fn webhooks_come_back() {
    let rest = r#""schedule":{"kind":"standard"},"headers":{},"max_in_flight":64,"rate_per_second":null,
        "timeout_seconds":15,"failing_since":null,"consecutive_failures":0,"pauses_at":null,
        "created_at":"2026-11-29T23:19:41.000Z","updated_at":"2026-11-29T23:19:41.000Z""#;
    let made: Webhook = answered(&format!(
        r#"{{"object":"webhook","id":"whk_1","url":"https://a.example/","filter":null,"events":["*"],
        "status":"active",{rest},"secret":"whsec_abc"}}"#
    ));
    assert_eq!(made.secret.unwrap().expose(), "whsec_abc");
    let listed: Webhook = answered(&format!(
        r#"{{"object":"webhook","id":"whk_1","url":"https://a.example/","description":"d","filter":null,
        "events":["a.b","a.*"],"status":"degraded",{rest}}}"#
    ));
    assert_eq!((listed.secret, listed.status), (None, WebhookStatus::Degraded));

    answered::<NewSecret>(r#"{"secret":"whsec_abc"}"#);
    answered::<WebhookTest>(
        r#"{"status":"delivered","response_status_code":200,"response_body":"ok","response_duration_ms":12,
        "event_payload":null,"payload":{"type":"webhook.test","timestamp":"2026-11-29T23:19:41.000Z","data":{}}}"#,
    );
    let test: WebhookTest = answered(
        r#"{"status":"failed","response_status_code":null,"response_duration_ms":10000,"event_payload":null,
        "payload":null,"error":"timed out"}"#,
    );
    assert_eq!(test.status, AttemptResult::Failed);
}

#[test]
fn what_is_sent_again_comes_back() {
    let log: AttemptLog = answered(
        r#"{"data":[{"id":"att_1","event_id":"whe_1","event_type":"a.b","delivery_id":"dlv_1","number":1,
        "trigger":"replay","status":"pending","url":"u","response_status_code":null,"response_duration_ms":0,
        "error_kind":null,"attempted_at":"2026-11-29T23:19:41.000Z"},{"id":"att_2","event_id":"whe_1",
        "event_type":"a.b","delivery_id":"dlv_1","number":2,"trigger":"automatic","status":"failed","url":"u",
        "response_status_code":null,"response_duration_ms":7,"error_kind":"dns","failure_reason":"no such name",
        "attempted_at":"2026-11-29T23:19:41.000Z"}],"next_cursor":null}"#,
    );
    assert_eq!(log.data[0].status, AttemptStatus::Pending);
    assert_eq!(log.data[1].error_kind, Some(AttemptError::Dns));
    let replay: Replay = answered(
        r#"{"object":"replay","id":"rpl_1","kind":"recover","since":"2026-11-29T23:19:41.000Z",
        "until":"2026-11-29T23:19:41.000Z","requested_at":"2026-11-29T23:19:41.000Z","state":"queued","total":4,
        "delivered":1,"failed":1,"skipped":0}"#,
    );
    assert_eq!((replay.kind, replay.state), (ReplayKind::Recover, ReplayState::Queued));
    answered::<ReplayPreview>(r#"{"events":4}"#);
    answered::<Recovery>(r#"{"id":"rpl_1","events":4}"#);
    let notice: Page<Notice> = answered(
        r#"{"data":[{"object":"notice","id":"ntc_1","kind":"webhook_paused","webhook_id":"whk_1",
        "created_at":"2026-11-29T23:19:41.000Z","mailed_at":null}],"has_more":false,"next_cursor":null,
        "prev_cursor":null}"#,
    );
    assert_eq!(notice.data[0].kind, NoticeKind::WebhookPaused);
}

#[test]
fn workspaces_keys_and_credits_come_back() {
    let key = r#"{"object":"api_key","id":"key_1","name":"First key","mode":"live","scopes":["emails:send","x:y"],
        "last4":"wxyz","created_at":"2026-11-29T23:19:41.000Z","last_used_at":null,"revoked_at":null"#;
    let listed: ApiKey = answered(&format!("{key}}}"));
    assert_eq!(listed.scopes, [Scope::EmailsSend, Scope::Other("x:y".into())]);
    let workspace: Workspace = answered(&format!(
        r#"{{"object":"workspace","id":"ws_1","name":"w","owners":["a@example.com"],"credits":null,
        "retention_days_max":365,"quotas":{{"sources":null,"webhooks":3,"domains":null,"templates":null}},
        "created_at":"2026-11-29T23:19:41.000Z","key":{key},"token":"rst_live_1"}}}}"#
    ));
    assert!(!format!("{workspace:?}").contains("rst_live_1"));
    answered::<Workspace>(
        r#"{"object":"workspace","id":"ws_1","name":"w","owners":[],"credits":-3,"retention_days_max":30,"quotas":{"sources":null,"webhooks":3,"domains":null,"templates":null},
        "created_at":"2026-11-29T23:19:41.000Z"}"#,
    );
    let credits: Credits = answered(
        r#"{"balance":9,"ledger":{"data":[{"id":"chg_1","at":"2026-11-29T23:19:41.000Z","delta":-1,
        "reason":"request","ref":"req_1"},{"id":"chg_0","at":"2026-11-29T23:19:41.000Z","delta":10,"reason":"grant",
        "ref":null}],"has_more":false,"next_cursor":null,"prev_cursor":null,"total":2}}"#,
    );
    assert_eq!(credits.ledger.data[0].at, Timestamp::from_millis(1_795_994_381_000));
    answered::<Health>(r#"{"status":"ready"}"#);
}

#[test]
fn statistics_come_back() {
    let figures = r#""accepted":2,"delivered":1,"failed":0,"attempts":2,"attempts_failed":1,"arrival_p50_ms":992,
        "arrival_p95_ms":992,"duration_p50_ms":null,"duration_p95_ms":null"#;
    let backlog = r#"{"pending":10000,"at_least":true,"oldest_due_at":"2026-11-29T23:19:41.000Z"}"#;
    let span = r#""since":"2026-11-29T22:20:00.000Z","until":"2026-11-29T23:19:41.000Z""#;
    let stats: Stats = answered(&format!(
        r#"{{"object":"stats",{span},"step_seconds":60,"points":[{{"at":"2026-11-29T22:20:00.000Z",{figures}}}],
        "totals":{{{figures}}},"backlog":{backlog}}}"#
    ));
    assert_eq!((stats.points[0].figures.arrival_p95_ms, stats.backlog.pending), (Some(992), 10_000));
    assert_eq!(stats.points[0].figures, stats.totals);
    let list: EndpointStatsList = answered(&format!(
        r#"{{"object":"list",{span},"data":[{{"endpoint_id":"whk_1","kind":"webhook","source_id":null,"attempts":8,
        "attempts_failed":1,"success_rate":0.875,"duration_p50_ms":15,"duration_p95_ms":17,"backlog":{backlog}}}]}}"#
    ));
    assert_eq!((&list.data[0].kind, list.data[0].success_rate), (&EndpointKind::Webhook, Some(0.875)));
}
