//! Emails, templates, domains and suppressions.

use hyper::Method;
use serde_json::json;

use super::{Desk, table, talk};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_email_is_sent_once_scheduled_moved_and_cancelled() {
    let desk = Desk::open().await;
    let letter = desk.home.join("letter.html");
    std::fs::write(&letter, "<p>It is on its way.</p>").unwrap();
    let letter = format!("@{}", letter.display());
    let from = [
        "send",
        "email",
        "--from",
        "Shop <shop@example.com>",
        "--to",
        "ada@example.net",
        "--subject",
        "Order",
    ];
    let rest =
        ["--html", &letter, "--text", "On its way.", "--tag", "order=4192", "--metadata", "{\"n\":1.10}"];
    let once = [&from[..], &rest, &["--cc", "bob@example.net", "--idempotency-key", "order-4192"]].concat();
    let sent = desk.run(&once);
    let email = desk.id(&once);
    assert!(String::from_utf8_lossy(&sent.stdout).starts_with(&format!("accepted {email}: ")), "{sent:?}");
    assert!(talk(&sent).contains("mail is captured here"), "{}", talk(&sent));
    assert!(desk.data(&once).starts_with(&format!("was accepted before as {email}: ")));

    let shown = desk.until(&["emails", "get", &email], "status             sent").await;
    for part in [
        "from               shop@example.com",
        "tags               order=4192",
        "metadata           {\"n\":1.10}",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(shown.contains("\nRecipients\n  delivered   to   ada@example.net  "), "{shown}");
    assert_eq!(
        table(&desk.data(&["emails", "list", "--status", "sent,failed", "--from", "shop@example.com"])),
        [
            "ID | STATUS | TRANSPORT | CREATED | SCHEDULED | TO | SUBJECT",
            "em_ | sent | capture | when | - | ada@example.net and 1 more | Order"
        ]
    );
    let events = table(&desk.data(&["emails", "events", &email]));
    assert_eq!(events[..2], ["ID | CREATED | TYPE", "whe_ | when | email.accepted"]);

    let later = desk.id(&[&from[..], &["--text", "Later.", "--scheduled-at", "2h"]].concat());
    let moved = desk.json(&["emails", "reschedule", &later, "3h"]);
    assert_eq!(moved["status"], "scheduled");
    assert_eq!(desk.id(&["emails", "list", "--scheduled-from", "1h", "--scheduled-to", "1d"]), later);
    assert_eq!(desk.data(&["emails", "cancel", &later]), format!("cancelled {later}\n"));

    let mute = desk.run(&from);
    assert_eq!((mute.status.code(), talk(&mute).contains("hint: --text")), (Some(2), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_domains_and_suppressions_are_looked_after() {
    let desk = Desk::open().await;
    let template = json!({"name": "Welcome", "subject": "Hello {{ name }}", "text": "Hi {{ name }}", "html": "<b>{{ name }}</b>", "publish": true});
    desk.server.call(Method::POST, "/v1/templates", template).await;
    assert_eq!(
        table(&desk.data(&["templates", "list"])),
        [
            "ID | SLUG | STATUS | VERSION | UPDATED | SUBJECT",
            "tpl_ | welcome | published | 1 | when | Hello {{ name }}"
        ]
    );
    assert_eq!(desk.json(&["templates", "get", "welcome"])["latest"]["text"], "Hi {{ name }}");
    let preview = ["templates", "preview", "welcome", "--props", "{\"name\":\"<Ada>\"}"];
    assert_eq!(
        desk.data(&preview),
        "subject:\nHello <Ada>\n\ntext:\nHi <Ada>\n\nhtml:\n<b>&lt;Ada&gt;</b>\n\n"
    );
    assert_eq!(desk.data(&[&preview[..], &["--part", "text"]].concat()), "Hi <Ada>\n");
    let send = ["send", "email", "--from", "a@example.com", "--to", "b@example.net", "--template", "welcome"];
    assert!(desk.id(&[&send[..], &["--props", "{\"name\":\"Ada\"}"]].concat()).starts_with("em_"));

    let domain = desk.json(&["domains", "create", "example.com"]);
    let id = domain["id"].as_str().unwrap();
    let shown = desk.data(&["domains", "get", id]);
    assert!(shown.contains("\nTXT record, dkim\n  status  pending\n  name    "), "{shown}");
    assert_eq!(
        table(&desk.data(&["domains", "list"])),
        ["ID | STATUS | SENDS | CREATED | NAME", "dom_ | pending | yes | when | example.com"]
    );
    assert_eq!(desk.data(&["domains", "delete", id, "--yes"]), format!("deleted {id}\n"));

    let suppression = desk.id(&["suppressions", "add", "ada@example.net"]);
    assert_eq!(
        table(&desk.data(&["suppressions", "list"])),
        ["ID | REASON | CREATED | EMAIL | DETAIL", "sup_ | manual | when | ada@example.net | -"]
    );
    assert_eq!(
        desk.data(&["suppressions", "delete", &suppression, "--yes"]),
        format!("deleted {suppression}\n")
    );
}
