//! Signatures, as another implementation than ours verifies them.

use hyper::Method;
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{Client, email, relaying, script};
use crate::process::data_directory;

const DOMAIN: &str = "sender.test";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_from_a_verified_domain_has_a_signature_that_dkimpy_verifies() {
    let (receiver, data) = (Receiver::start(), data_directory());
    let mut server = relaying(data.path().into(), &receiver).await;
    let client = Client::from(&server);
    let domain = server.call(Method::POST, "/v1/domains", json!({"name": DOMAIN})).await;
    let record = domain["records"].as_array().unwrap().iter().find(|it| it["purpose"] == "dkim").unwrap();
    let before = client.ended(&client.send(&email("ok@mail.test")).await).await;

    assert!(server.terminate().await.success());
    let file = data.path().join("restante.db");
    script::run("database.py", &[&file, "verify".as_ref(), DOMAIN.as_ref()], &Value::Null);
    server.restart().await;
    let path = format!("/v1/domains/{}", domain["id"].as_str().unwrap());
    let shown = server.call(Method::GET, &path, Value::Null).await;
    assert_eq!(shown["sending"]["status"], "verified");
    let mut after = Vec::new();
    for email in emails() {
        let shown = client.ended(&client.send(&email).await).await;
        assert_eq!(shown["status"], "sent", "{shown:#}");
        after.push(shown);
    }
    let mut elsewhere = email("ok@mail.test");
    elsewhere["from"] = "shop@other.test".into();
    let elsewhere = client.ended(&client.send(&elsewhere).await).await;

    let mails = Value::from(receiver.mails());
    let [name, value] = ["name", "value"].map(|it| record[it].as_str().unwrap());
    let judged = script::run("signed.py", &[name.as_ref(), value.as_ref()], &mails);
    let judged = judged.as_array().unwrap();
    for mail in judged {
        let is_signed = [&before, &elsewhere].iter().all(|it| it["message_id"] != mail["message_id"]);
        let expected = (&json!(u8::from(is_signed)), &json!(is_signed));
        assert_eq!((&mail["signatures"], &mail["valid"]), expected, "{mail:#}");
        assert_eq!(mail["unnoticed"], json!([]), "{mail:#}");
        assert!(mail["tried"].as_u64().unwrap() >= 9, "{mail:#}");
    }
    let signed = after.iter().map(|it| it["recipients"].as_array().unwrap().len());
    assert_eq!(judged.len(), 2 + signed.sum::<usize>(), "a mail for each recipient");
    // With the key of somebody else, none is valid.
    let other = server.call(Method::POST, "/v1/domains", json!({"name": "other.test"})).await;
    let value = other["records"][0]["value"].as_str().unwrap();
    assert!(value.starts_with("v=DKIM1;"), "{other:#}");
    let judged = script::run("signed.py", &[name.as_ref(), value.as_ref()], &mails);
    assert!(judged.as_array().unwrap().iter().all(|it| it["valid"] == false), "{judged:#}");
}

/// Mails that are awkward to sign, each in its way.
fn emails() -> Vec<Value> {
    let with = |more: Value| {
        let mut email = email("ok@mail.test");
        email.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        email
    };
    vec![
        with(json!({})),
        // It is sent at the second attempt.
        with(json!({"to": "later-once@mail.test"})),
        with(json!({
            "from": {"email": "shop@sender.test", "name": "Käse & Wein, \"Zoë\""},
            "to": ["Владимир <ok+a@mail.test>", "日本語の名前 <ok+b@elsewhere.test>"],
            "cc": "copy@elsewhere.test",
            "reply_to": "Büro <office@sender.test>",
            "subject": "Ihre Bestellung Nr. 7 – ☃ ".repeat(20).trim_end(),
            "text": "Grüße \u{1f9c0}\n",
            "html": "<p>Grüße</p>",
            "headers": {"List-Unsubscribe": format!("<https://sender.test/{}>", "u".repeat(200)), "X-Order": "7"},
        })),
        with(json!({"attachments": [
            {"filename": "Übersicht – März.pdf", "content": "AAEC/f7/DQouDQoN".repeat(20_000)},
            {"filename": "logo.png", "content": "iVBORw0KGgo=", "content_id": "logo@sender.test"},
        ]})),
        // Dots that SMTP doubles, white space that relaxed bodies lose, and nothing at all.
        with(json!({"subject": "  two  spaces ", "text": "one\n.\n..dots\ntwo  \t spaces \t\n\n\n\n"})),
        with(json!({"text": "\n\n\n"})),
    ]
}
