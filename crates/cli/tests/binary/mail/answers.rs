//! What becomes of an email, by what the mail server answers.

use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{Client, email, relaying};
use crate::process::{Home, on_both_stores};

on_both_stores!(
    what_the_mail_server_answers_decides,
    each_recipient_has_a_result_of_its_own,
    a_mailbox_that_does_not_exist_gets_no_further_mail,
    what_may_have_arrived_is_sent_again_only_where_that_is_wanted,
);

/// What an email to one name comes to.
struct Case {
    name: &'static str,
    status: &'static str,
    recipient: &'static str,
    attempts: u64,
    /// How `last_error` begins; `None`: there is none.
    error: Option<&'static str>,
    told: &'static [&'static str],
    copies: usize,
}

const ONCE_LATER: &[&str] = &["accepted", "processed", "deferred", "delivered"];

const CASES: [Case; 9] = [
    Case {
        name: "ok",
        status: "sent",
        recipient: "delivered",
        attempts: 1,
        error: None,
        told: &["accepted", "processed", "delivered"],
        copies: 1,
    },
    Case {
        name: "slow",
        status: "sent",
        recipient: "delivered",
        attempts: 1,
        error: None,
        told: &["accepted", "processed", "delivered"],
        copies: 1,
    },
    Case {
        name: "later-once",
        status: "sent",
        recipient: "delivered",
        attempts: 2,
        error: Some("451 4.7.1 try again later"),
        told: ONCE_LATER,
        copies: 1,
    },
    Case {
        name: "busy-once",
        status: "sent",
        recipient: "delivered",
        attempts: 2,
        error: Some("421 4.3.2 too busy"),
        told: ONCE_LATER,
        copies: 1,
    },
    Case {
        name: "broken-once",
        status: "sent",
        recipient: "delivered",
        attempts: 2,
        error: Some("451 4.3.0 disk trouble"),
        told: ONCE_LATER,
        copies: 1,
    },
    Case {
        name: "drop-before-once",
        status: "sent",
        recipient: "delivered",
        attempts: 2,
        error: Some("the server hung up"),
        told: ONCE_LATER,
        copies: 1,
    },
    Case {
        name: "later",
        status: "failed",
        recipient: "failed",
        attempts: 4,
        error: Some("451 4.7.1 try again later"),
        told: &["accepted", "processed", "deferred", "deferred", "deferred", "rejected"],
        copies: 0,
    },
    Case {
        name: "no",
        status: "bounced",
        recipient: "bounced",
        attempts: 1,
        error: Some("550 5.1.1 no such mailbox"),
        told: &["accepted", "processed", "bounced"],
        copies: 0,
    },
    Case {
        name: "drop-after",
        status: "partial",
        recipient: "uncertain",
        attempts: 1,
        error: Some("no answer to the mail"),
        told: &["accepted", "processed", "bounced"],
        copies: 1,
    },
];

async fn what_the_mail_server_answers_decides(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let client = Client::from(&server);
    let mut ids = Vec::new();
    for case in &CASES {
        ids.push(client.send(&email(format!("{}@mail.test", case.name))).await);
    }
    for id in &ids {
        client.ended(id).await;
    }
    // A second attempt would have been made by the time that a later mail's is over.
    client.ended(&client.send(&email("later-once+after@mail.test")).await).await;

    for (case, id) in CASES.iter().zip(&ids) {
        let shown = client.ended(id).await;
        let Case { name, status, recipient, attempts, error, told, copies } = *case;
        assert_eq!(shown["status"], status, "{name}: {shown:#}");
        assert_eq!(shown["recipients"][0]["status"], recipient, "{name}: {shown:#}");
        assert_eq!(shown["attempts"], attempts, "{name}: {shown:#}");
        assert_eq!(shown["transport"], "relay", "{name}: {shown:#}");
        match error {
            None => assert_eq!(shown["last_error"], Value::Null, "{name}: {shown:#}"),
            Some(start) => {
                let error = shown["last_error"].as_str().unwrap_or_default();
                assert!(error.starts_with(start), "{name}: {shown:#}");
            }
        }
        let is_delivered = recipient == "delivered";
        assert_eq!(shown["sent_at"].is_string(), is_delivered, "{name}: {shown:#}");
        assert_eq!(shown["recipients"][0]["error"].is_string(), !is_delivered, "{name}: {shown:#}");
        assert_eq!(client.told(id).await, told, "{name}");
        assert_eq!(receiver.copies(&shown).len(), copies, "copies for {name}");
    }
}

async fn each_recipient_has_a_result_of_its_own(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let client = Client::from(&server);
    let wanted = json!({
        "from": "shop@sender.test",
        "to": ["ok+a@mail.test", "No <no+b@mail.test>"],
        "cc": "drop-after+c@mail.test",
        "bcc": [{"email": "later-once+d@mail.test"}, "ok+a@mail.test"],
        "html": "<p>Hello</p>",
    });

    let shown = client.ended(&client.send(&wanted).await).await;

    assert_eq!(shown["status"], "partial", "{shown:#}");
    let recipients: Vec<_> = shown["recipients"].as_array().unwrap().iter().collect();
    let results: Vec<_> = recipients.iter().map(|it| [&it["email"], &it["kind"], &it["status"]]).collect();
    // Who is named twice gets one mail.
    let expected = [
        ["ok+a@mail.test", "to", "delivered"],
        ["no+b@mail.test", "to", "bounced"],
        ["drop-after+c@mail.test", "cc", "uncertain"],
        ["later-once+d@mail.test", "bcc", "delivered"],
    ];
    assert_eq!(results, expected, "{shown:#}");
    let copies = receiver.copies(&shown);
    let mut got: Vec<_> = copies.iter().map(|it| it["envelope"].to_string()).collect();
    got.sort();
    let to = |name: &str| json!(["shop@sender.test", [format!("{name}@mail.test")]]).to_string();
    assert_eq!(got, [to("drop-after+c"), to("later-once+d"), to("ok+a")]);
    for copy in copies {
        let content = copy["content"].as_str().unwrap();
        assert!(!content.contains("later-once+d"), "a hidden recipient is shown:\n{content}");
    }
}

async fn a_mailbox_that_does_not_exist_gets_no_further_mail(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let client = Client::from(&server);
    let first = client.ended(&client.send(&email("no@mail.test")).await).await;
    assert_eq!(first["status"], "bounced", "{first:#}");

    // Upper and lower case are one mailbox.
    let second = client.ended(&client.send(&email(json!(["No@Mail.test", "ok@mail.test"]))).await).await;

    let results: Vec<_> = second["recipients"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(results, ["suppressed", "delivered"], "{second:#}");
    assert_eq!(second["status"], "partial", "{second:#}");
    let third = client.ended(&client.send(&email("no@mail.test")).await).await;
    assert_eq!((&third["status"], &third["attempts"]), (&json!("failed"), &json!(0)), "{third:#}");
    assert_eq!(client.told(third["id"].as_str().unwrap()).await, ["accepted", "rejected"]);
}

async fn what_may_have_arrived_is_sent_again_only_where_that_is_wanted(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home.with("RESTANTE_SMTP_UNCERTAIN", "resend"), &receiver).await;
    let client = Client::from(&server);

    let shown = client.ended(&client.send(&email("drop-after-once@mail.test")).await).await;

    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("sent"), &json!(2)), "{shown:#}");
    let copies = receiver.copies(&shown);
    assert_eq!(copies.len(), 2);
    assert_eq!(copies[0]["content"], copies[1]["content"], "the copies are told to be one by all they say");
}
