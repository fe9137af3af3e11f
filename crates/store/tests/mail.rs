//! Emails on nodes that share a database.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use restante_core::email::{EmailStatus, Role};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_store::KeyClaim;
use restante_store::conformance::World;
use restante_store::email::{EmailChange, EmailChanged, Sent};
use restante_store::testbed::{Cluster, Database};

/// Claims on a node until it got something: what others left is found by and by.
async fn claim_some(world: &World) {
    let claiming = async {
        while world.claim().await.count == 0 {
            // The dispatcher is told of work, and asks now and then.
            let _ = tokio::time::timeout(Duration::from_millis(100), world.store.due().notified()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), claiming).await.unwrap();
}

mod on_postgres {
    use super::*;

    async fn cluster() -> Cluster {
        Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_one_node_was_given_another_sends() {
        let cluster = cluster().await;
        let (mut one, mut other) = Database::nodes(&cluster).await;
        let at = one.now + Duration::from_secs(60);
        let id = one.mail_at(at).await;
        // Another node may change what this one stored.
        let change = EmailChange { frozen: Some(other.frozen("other")), scheduled_at: None };
        let changed = other.store.change_email(other.workspace, id, change, other.now).await.unwrap();
        assert_eq!(changed, EmailChanged::Done);
        one.store.attach(None).await.unwrap();
        (one.now, other.now) = (at, at);
        claim_some(&other).await;
        let parcel = other.parcel();
        assert_eq!(parcel.mailbox.as_deref(), Some("a@one.example"));
        assert!(parcel.content.message.body().starts_with(b"Subject: other\r\n"));
        assert!(!one.store.data_sent(parcel.lease).await.unwrap(), "it is another node's");
        assert!(other.store.data_sent(parcel.lease).await.unwrap());
        let cancelled = one.store.cancel_email(one.workspace, id, one.now).await.unwrap();
        assert_eq!(cancelled, EmailChanged::Conflict(EmailStatus::Sending));
        other.settle(&parcel, restante_store::conformance::ok()).await;
        assert_eq!(one.email(id).await.status(one.now), EmailStatus::Sent);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_key_makes_one_email_whichever_nodes_are_asked() {
        let cluster = cluster().await;
        let (mut one, mut other) = Database::nodes(&cluster).await;
        let (mut fresh, mut replayed) = (Vec::new(), Vec::new());
        let mut first = one.sending(&[(Role::To, "a@new.example"), (Role::To, "b@newer.example")]);
        let mut second = other.sending(&[(Role::To, "a@new.example"), (Role::To, "b@newer.example")]);
        for sending in [&mut first, &mut second] {
            let key = IdempotencyKey::parse(b"order-1042").unwrap();
            let fingerprint = Fingerprint::builder("emails.send").field("what", Some("it")).finish();
            sending.claim = Some(KeyClaim { key, fingerprint });
        }
        let (here, there) = tokio::join!(one.store.send(first), other.store.send(second));
        for sent in [here, there] {
            match sent.unwrap() {
                Sent::Fresh(items) => fresh.push(items),
                Sent::Replayed(items) => replayed.push(items),
                refused @ (Sent::KeyReused | Sent::NoWorkspace) => panic!("{refused:?}"),
            }
        }
        assert_eq!((fresh.len(), &fresh), (1, &replayed));
    }
}
