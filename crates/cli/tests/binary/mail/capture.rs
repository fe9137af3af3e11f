//! Emails that go nowhere.

use hyper::StatusCode;
use serde_json::Value;

use super::receiver::Receiver;
use super::{Client, email, relaying};
use crate::process::{Home, Process, on_both_stores};

on_both_stores!(emails_of_the_test_mode_go_nowhere, without_a_mail_server_emails_are_kept_and_go_nowhere);

async fn emails_of_the_test_mode_go_nowhere(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let (live, test) = (Client::from(&server), Client::testing(&server).await);

    // One key for both: the modes know nothing of each other.
    let (status, sent) = test.post("order-1", &email("no@mail.test")).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{sent:#}");
    let (status, other) = live.post("order-1", &email("ok@mail.test")).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{other:#}");

    let (id, other) = (sent["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    let shown = test.ended(id).await;
    let facts = ["status", "mode", "transport"].map(|it| shown[it].as_str().unwrap());
    assert_eq!(facts, ["sent", "test", "capture"], "{shown:#}");
    let live_shown = live.ended(other).await;
    let facts = ["status", "mode", "transport"].map(|it| live_shown[it].as_str().unwrap());
    assert_eq!(facts, ["sent", "live", "relay"], "{live_shown:#}");
    let mails = receiver.mails();
    let [mail] = &mails[..] else { panic!("{mails:#?}") };
    assert_eq!(mail["message_id"], live_shown["message_id"]);
    // Neither mode shows the other's.
    for (client, own, foreign) in [(&test, id, other), (&live, other, id)] {
        let ids: Vec<Value> = client.all().await.into_iter().map(|it| it["id"].clone()).collect();
        assert_eq!(ids, [own]);
        let (status, _) = client.get(&format!("/v1/emails/{foreign}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
}

async fn without_a_mail_server_emails_are_kept_and_go_nowhere(home: Home) {
    let server = Process::start(home).await;
    let client = Client::from(&server);

    // Whatever was dialled for it would not answer: the name does not exist.
    let shown = client.ended(&client.send(&email("anybody@nowhere.invalid")).await).await;

    let facts = ["status", "mode", "transport"].map(|it| shown[it].as_str().unwrap());
    assert_eq!(facts, ["sent", "live", "capture"], "{shown:#}");
    assert_eq!(shown["attempts"], 1, "{shown:#}");
    assert_eq!(client.told(shown["id"].as_str().unwrap()).await, ["accepted", "processed", "delivered"]);
}
