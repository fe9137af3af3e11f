//! What arrives is what was sent, as another reader than ours sees it.

use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{Client, relaying};
use crate::process::{Home, on_both_stores};

on_both_stores!(what_arrives_is_what_was_sent, awkward_texts_arrive_as_they_are);

/// What RFC 5322 allows: no bare line breaks, no long lines, no 8-bit bytes, no header twice.
fn check_form(mail: &Value) {
    assert_eq!(mail["defects"], json!([]), "{}", mail["content"]);
    assert_eq!(mail["bare_breaks"], 0, "{}", mail["content"]);
    assert_eq!(mail["is_ascii"], true, "{}", mail["content"]);
    assert!(mail["longest_line"].as_u64().unwrap() <= 998, "{}", mail["content"]);
    for (name, times) in mail["times"].as_object().unwrap() {
        assert_eq!(times, 1, "the mail has a header more than once: {name}");
    }
}

/// The one mail that an email became.
async fn arrived(client: &Client, receiver: &Receiver, email: &Value) -> Value {
    let shown = client.ended(&client.send(email).await).await;
    assert_eq!(shown["status"], "sent", "{shown:#}");
    let copies = receiver.copies(&shown);
    let [mail] = &copies[..] else { panic!("{} copies of {shown:#}", copies.len()) };
    check_form(mail);
    mail.clone()
}

async fn what_arrives_is_what_was_sent(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let client = Client::from(&server);
    let large = "AAEC/f7/DQouDQoN".repeat(20_000);
    let sent = json!({
        "from": {"email": "shop@sender.test", "name": "Käse & Wein, \"Zoë\""},
        "to": ["Владимир <ok@mail.test>"],
        "cc": [{"email": "copy@elsewhere.test", "name": "日本語の名前"}, "plain@elsewhere.test"],
        "reply_to": "Büro <office@sender.test>",
        "subject": "Ihre Bestellung Nr. 7 – ☃ ".repeat(20).trim_end(),
        "text": "Grüße\n\n\u{1f9c0}\n",
        "html": "<p>Grüße <img src=\"cid:logo@sender.test\"></p>\n",
        "headers": {
            "X-Order": "7",
            "X-Note": "süß",
            "List-Unsubscribe": format!("<https://sender.test/{}>, <mailto:off@sender.test>", "u".repeat(200)),
        },
        "attachments": [
            {"filename": "Übersicht – März.pdf", "content": "AAEC/f7/DQouDQo="},
            {"filename": "日本語.bin", "content": large, "content_type": "application/x-thing"},
            {"filename": "empty.txt", "content": ""},
            {"filename": "a \"quoted\"; name.csv", "content": "YTtiCg=="},
            {"filename": "logo.png", "content": "iVBORw0KGgo=", "content_id": "logo@sender.test"},
        ],
    });
    let shown = client.ended(&client.send(&sent).await).await;
    assert_eq!(shown["status"], "sent", "{shown:#}");
    let copies = receiver.copies(&shown);
    assert_eq!(copies.len(), 3, "one for each recipient");
    assert!(copies.iter().all(|it| it["content"] == copies[0]["content"]), "the copies differ");
    let mail = &copies[0];

    check_form(mail);
    assert_eq!(mail["from"], json!([["Käse & Wein, \"Zoë\"", "shop@sender.test"]]));
    assert_eq!(mail["to"], json!([["Владимир", "ok@mail.test"]]));
    let cc = json!([["日本語の名前", "copy@elsewhere.test"], ["", "plain@elsewhere.test"]]);
    assert_eq!(mail["cc"], cc);
    assert_eq!(mail["reply-to"], json!([["Büro", "office@sender.test"]]));
    assert_eq!(mail["subject"], sent["subject"]);
    assert_eq!(mail["text"], "Grüße\r\n\r\n\u{1f9c0}\r\n");
    assert_eq!(mail["html"], "<p>Grüße <img src=\"cid:logo@sender.test\"></p>\r\n");
    for (name, value) in sent["headers"].as_object().unwrap() {
        assert_eq!(&mail["headers"][name.to_lowercase()], value, "{name}");
    }
    let file = |name: &str, kind: &str, content: &str| json!([name, kind, content, "attachment", null]);
    let expected = [
        json!(["logo.png", "image/png", "iVBORw0KGgo=", "inline", "<logo@sender.test>"]),
        file("Übersicht – März.pdf", "application/pdf", "AAEC/f7/DQouDQo="),
        file("日本語.bin", "application/x-thing", &large),
        file("empty.txt", "text/plain", ""),
        file("a \"quoted\"; name.csv", "text/csv", "YTtiCg=="),
    ];
    let fields = ["filename", "content_type", "content", "disposition", "content_id"];
    let files = mail["attachments"].as_array().unwrap().iter();
    let files: Vec<_> = files.map(|it| json!(fields.map(|field| &it[field]))).collect();
    assert_eq!(files, expected);
}

async fn awkward_texts_arrive_as_they_are(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let client = Client::from(&server);
    let long = "x".repeat(5_000);
    let table = [
        ("", "\r\n"),
        (".", ".\r\n"),
        (".\n..\n...\n.a\n", ".\r\n..\r\n...\r\n.a\r\n"),
        ("a\n.\nQUIT\n", "a\r\n.\r\nQUIT\r\n"),
        ("a\r\n.\r\nMAIL FROM:<x@y.test>\r\n", "a\r\n.\r\nMAIL FROM:<x@y.test>\r\n"),
        ("a\rb\nc\r\nd\n\re", "a\r\nb\r\nc\r\nd\r\n\r\ne\r\n"),
        ("a\r.\rb", "a\r\n.\r\nb\r\n"),
        ("From the start\n>From\nFrom ", "From the start\r\n>From\r\nFrom \r\n"),
        ("trailing  \t\n \n", "trailing  \t\r\n \r\n"),
        ("a=3D=20\n=\n", "a=3D=20\r\n=\r\n"),
        ("--boundary\n--\nContent-Type: x\n", "--boundary\r\n--\r\nContent-Type: x\r\n"),
        ("\u{1b}[1m\u{7}", "\u{1b}[1m\u{7}\r\n"),
        ("\u{feff}e\u{301} \u{202e}\u{2028}\u{85}", "\u{feff}e\u{301} \u{202e}\u{2028}\u{85}\r\n"),
    ];
    for (text, expected) in table {
        let sent = json!({"from": "shop@sender.test", "to": "ok@mail.test", "text": text, "html": text});
        let mail = arrived(&client, &receiver, &sent).await;
        assert_eq!(mail["text"], expected, "{}", mail["content"]);
        assert_eq!(mail["html"], expected, "{}", mail["content"]);
    }
    for line in [long.clone(), format!("{long} ü"), format!(".{long}\n.{long}\n."), ".".repeat(3_000)] {
        let sent = json!({"from": "shop@sender.test", "to": "ok@mail.test", "text": line});
        let mail = arrived(&client, &receiver, &sent).await;
        assert_eq!(mail["text"], format!("{}\r\n", line.replace('\n', "\r\n")));
    }
    let awkward = ["=?utf-8?q?no?=".to_owned(), format!("{} =?x", "ö".repeat(60))];
    for subject in ["s".repeat(998), "ß".repeat(998), "two  spaces ".repeat(30).trim_end().to_owned()]
        .into_iter()
        .chain(awkward)
    {
        let sent = json!({"from": "shop@sender.test", "to": "ok@mail.test", "text": "t", "subject": subject});
        let mail = arrived(&client, &receiver, &sent).await;
        assert_eq!(mail["subject"], subject, "{}", mail["content"]);
    }
}
