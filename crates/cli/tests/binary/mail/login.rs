//! A relay that encrypts and asks who is there.

use serde_json::Value;

use super::receiver::Receiver;
use super::{Client, email};
use crate::process::{Home, Process, on_both_stores};

on_both_stores!(
    a_relay_with_starttls_and_a_login_takes_mail,
    a_relay_that_knows_only_the_old_login_takes_mail,
    a_relay_that_does_not_know_the_password_gets_nothing,
    a_relay_whose_certificate_nobody_vouches_for_gets_nothing,
);

const LOGIN: &str = "shop@sender.test:p:ss w/rd";
const LOGIN_IN_URL: &str = "shop%40sender.test:p%3Ass%20w%2Frd";

/// A certificate that nobody has signed but itself, in files.
struct Certificate {
    directory: tempfile::TempDir,
}

impl Certificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("certificate"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key"), made.signing_key.serialize_pem()).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// A relay that takes mail encrypted, from who logs in with `login`.
    fn relay(&self, login: &str, further: &[&str]) -> Receiver {
        let (certificate, key) = (self.path("certificate"), self.path("key"));
        let arguments = ["--certificate", &certificate, &key, "--login", login];
        Receiver::with(&[&arguments, further].concat())
    }
}

fn with_login(home: Home, relay: &Receiver) -> Home {
    home.with("RESTANTE_SMTP_URL", format!("smtp://{LOGIN_IN_URL}@127.0.0.1:{}", relay.port))
        .with("RESTANTE_MAIL_WAITS_SECONDS", "0.1")
}

/// What an email comes to, and what the relay took.
async fn send(home: Home, relay: &Receiver) -> (Value, Vec<Value>) {
    let server = Process::start(home).await;
    let client = Client::from(&server);
    let shown = client.ended(&client.send(&email("ok@mail.test")).await).await;
    (shown, relay.mails())
}

async fn takes_mail(home: Home, further: &[&str]) {
    let certificate = Certificate::new();
    let relay = certificate.relay(LOGIN, further);
    let home = with_login(home, &relay).with("RESTANTE_EXTRA_CA_FILE", certificate.path("certificate"));

    let (shown, mails) = send(home, &relay).await;

    assert_eq!(shown["status"], "sent", "{shown:#}");
    let [mail] = &mails[..] else { panic!("{mails:#?}") };
    assert_eq!((mail["tls"].as_bool(), mail["user"].as_str()), (Some(true), Some("shop@sender.test")));
}

async fn a_relay_with_starttls_and_a_login_takes_mail(home: Home) {
    takes_mail(home, &[]).await;
}

async fn a_relay_that_knows_only_the_old_login_takes_mail(home: Home) {
    takes_mail(home, &["--mechanism", "LOGIN"]).await;
}

async fn a_relay_that_does_not_know_the_password_gets_nothing(home: Home) {
    let certificate = Certificate::new();
    let relay = certificate.relay("shop@sender.test:other", &[]);
    let home = with_login(home, &relay).with("RESTANTE_EXTRA_CA_FILE", certificate.path("certificate"));

    let (shown, mails) = send(home, &relay).await;

    // No judgement about the recipient: it was tried again.
    assert_eq!((&shown["status"], &shown["attempts"]), (&"failed".into(), &2.into()), "{shown:#}");
    let error = shown["last_error"].as_str().unwrap();
    assert!(error.contains("535"), "{error}");
    assert_eq!(mails, [Value::Null; 0]);
}

async fn a_relay_whose_certificate_nobody_vouches_for_gets_nothing(home: Home) {
    let relay = Certificate::new().relay(LOGIN, &[]);

    let (shown, mails) = send(with_login(home, &relay), &relay).await;

    assert_eq!((&shown["status"], &shown["attempts"]), (&"failed".into(), &2.into()), "{shown:#}");
    let error = shown["last_error"].as_str().unwrap();
    assert!(error.to_lowercase().contains("certificate"), "{error}");
    assert_eq!(mails, [Value::Null; 0]);
}
