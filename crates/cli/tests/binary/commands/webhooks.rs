//! Webhooks and events.

use serde_json::json;

use super::{Desk, table};
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_fails_is_replayed_skipped_and_recovered() {
    let desk = Desk::open().await;
    let create =
        ["webhooks", "create", "http://127.0.0.1:1/hook", "--event", "order.*", "--schedule", "3600"];
    let made = desk.json(&[&create[..], &["--description", "a customer"]].concat());
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    let one = |verb: &'static str| ["webhooks", verb, &id].map(str::to_owned);
    let with = |verb: &'static str, more: &[&str]| {
        [&one(verb)[..], &more.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()].concat()
    };
    let data = |verb, more: &[&str]| {
        let arguments = with(verb, more);
        desk.data(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let list = ["webhooks", "list", "--url", "http://127.0.0.1:1/hook", "--sort", "url", "--order", "asc"];
    assert_eq!(
        table(&desk.data(&list)),
        [
            "ID | STATUS | FAILING | SCHEDULE | CREATED | EVENTS | URL",
            "whk_ | active | - | 3600 | when | order.* | http://127.0.0.1:1/hook"
        ]
    );

    let published =
        desk.json(&["send", "event", "order.paid", "--data", "{\"n\":1.10}", "--idempotency-key", "k1"]);
    assert_eq!((&published["deliveries"], &published["replayed"]), (&json!(1), &json!(false)));
    let event = published["id"].as_str().unwrap();
    let again =
        desk.data(&["events", "publish", "order.paid", "--data", "{\"n\":1.10}", "--idempotency-key", "k1"]);
    assert_eq!(again, format!("was published before as {event}, to 1 webhooks\n"));
    desk.until(&["webhooks", "attempts", &id, "--status", "failed"], "connect").await;
    assert_eq!(
        table(&desk.data(&["events", "list", "--type", "order.paid", "--since", "1h"])),
        ["ID | CREATED | DELIVERIES | TYPE | DATA", "whe_ | when | 1 | order.paid | {\"n\":1.10}"]
    );
    let shown = desk.data(&["events", "get", event]);
    for part in
        ["data        {\"n\":1.10}\n", &format!(" to {id}: pending\n"), "failed     connect", "  because  "]
    {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(data("deliveries", &["--state", "pending"]).contains(event));
    assert!(data("get", &[]).contains("\nFailing\n"), "{}", data("get", &[]));

    assert_eq!(data("replay", &["--dry-run"]), format!("would send 1 events again to {id}\n"));
    assert_eq!(data("replay", &["--since", "1h", "--dry-run", "--json"]), "{\"events\":1}\n");
    assert_eq!(data("replay", &["--since", "1h", "--yes"]), "");
    let replays = table(&data("replays", &[]));
    assert!(replays[1].starts_with("rpl_ | replay | "), "{replays:?}");

    data("pause", &["--yes"]);
    desk.id(&["send", "event", "order.sent"]);
    data("resume", &[]);
    assert_eq!(
        data("recover", &["--since", "1h", "--yes"]).split(" as ").next(),
        Some("delivering 1 events")
    );
    let delivery = desk.id(&["deliveries", "list", "--event", event]);
    assert_eq!(data("replay", &["--delivery", &delivery]), format!("sending again {delivery}\n"));

    assert!(data("rotate-secret", &["--yes"]).starts_with("whsec_"));
    let changed =
        data("update", &["--event", "a.b", "--reset", "schedule", "--reset", "description", "--json"]);
    assert!(
        changed.contains("\"events\":[\"a.b\"]") && changed.contains("{\"kind\":\"standard\"}"),
        "{changed}"
    );
    assert!(!changed.contains("a customer"), "{changed}");
    assert_eq!(data("delete", &["--yes"]), format!("deleted {id}\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_that_the_receiver_refuses_is_not_exit_0() {
    let desk = Desk::open().await;
    let dead = desk.id(&["webhooks", "create", "http://127.0.0.1:1/hook", "--event", "*"]);
    let output = desk.run(&["webhooks", "test", &dead]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("failed: "), "{output:?}");

    // Whoever takes in webhooks is a receiver of webhooks.
    let url = desk.json(&["sources", "create", "inbox"])["url"].as_str().unwrap().to_owned();
    let alive = desk.id(&["webhooks", "create", &url, "--event", "*"]);
    let shown = desk.data(&["webhooks", "test", &alive, "--event-type", "order.paid"]);
    assert!(shown.starts_with("delivered: its receiver answered 200 after "), "{shown}");
}
