//! The published client against the real server, over a line that loses answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use restante_sdk::wire::{ListEvents, NewWebhook, Paging, PublishEvent, SendEmail, StreamEvent};
use restante_sdk::{Client, ClientBuilder, ErrorKind};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::harness::{KEY, World};
use crate::receiver::Receiver;

/// A line to the server on which the first answers are lost: the server gives them, and the client never sees them.
struct Line {
    address: SocketAddr,
    lost: Arc<Lost>,
}

struct Lost {
    /// Answers that are still to be lost.
    left: AtomicUsize,
    one: Notify,
}

impl Line {
    async fn to(server: SocketAddr, answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lost = Arc::new(Lost { left: AtomicUsize::new(answers), one: Notify::new() });
        let losing = Arc::clone(&lost);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(server).await.unwrap();
                tokio::spawn(carry(near, far, Arc::clone(&losing)));
            }
        });
        Self { address, lost }
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address), KEY).unwrap()
    }
}

/// Carries bytes both ways, until an answer is to be lost.
async fn carry(mut near: TcpStream, mut far: TcpStream, lost: Arc<Lost>) {
    let (mut up, mut down) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        tokio::select! {
            read = near.read(&mut up) => match read {
                Ok(count) if count > 0 => far.write_all(&up[..count]).await.unwrap(),
                _ => return,
            },
            read = far.read(&mut down) => match read {
                Ok(count) if count > 0 => {
                    let less = |left: usize| left.checked_sub(1);
                    if lost.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
                        lost.one.notify_one();
                        return;
                    }
                    near.write_all(&down[..count]).await.unwrap();
                }
                _ => return,
            },
        }
    }
}

fn direct(world: &World) -> Client {
    Client::new(&world.url(""), KEY).unwrap()
}

fn paid() -> PublishEvent {
    PublishEvent::new("invoice.paid", &json!({"invoice": "inv_4192"})).unwrap()
}

#[tokio::test]
async fn a_lost_answer_costs_a_try_and_no_second_event() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    direct(&world).webhooks().create(&NewWebhook::new(receiver.url(), ["*"])).await.unwrap();
    let line = Line::to(world.server.address, 2).await;
    let answered = line.client().events().publish(&paid()).answered().await.unwrap();
    assert_eq!((answered.attempts, answered.status, answered.value.replayed), (3, 200, true));
    assert!(answered.idempotency_key.unwrap().starts_with("oe-"));
    receiver.until_seen(1).await;
    let events = direct(&world).events().list(&ListEvents::default()).await.unwrap();
    assert_eq!(events.data.len(), 1);
    assert_eq!(events.data[0].id, answered.value.id);
    assert_eq!(receiver.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_job_that_crashed_between_tries_and_runs_again_with_its_key_sends_once() {
    let world = World::start().await;
    let email = SendEmail {
        from: "billing@a.example".into(),
        to: vec!["c@b.example".into()],
        subject: Some("Your September invoice".to_owned()),
        text: Some("Invoice attached.".to_owned()),
        ..SendEmail::default()
    };
    let line = Line::to(world.server.address, 1).await;
    let (crashing, sent) = (line.client(), email.clone());
    let job = tokio::spawn(async move {
        crashing.emails().send(&sent).idempotency_key("invoice:inv_2026_09_4192").await
    });
    line.lost.one.notified().await;
    // It waits for its second try by now, or is about to.
    job.abort();
    assert!(job.await.unwrap_err().is_cancelled());

    let again = direct(&world).emails().send(&email).idempotency_key("invoice:inv_2026_09_4192");
    let again = again.answered().await.unwrap();
    assert_eq!((again.status, again.value.replayed()), (200, true));
    let emails = direct(&world).emails().list(&Default::default()).await.unwrap();
    assert_eq!(emails.data.len(), 1);
    assert_eq!(emails.data[0].id, again.value.id());

    let other = SendEmail { subject: Some("Another".to_owned()), ..email };
    let reused = direct(&world).emails().send(&other).idempotency_key("invoice:inv_2026_09_4192").await;
    let reused = reused.unwrap_err();
    assert_eq!((reused.status(), reused.code()), (Some(422), Some("idempotency_key_reuse")));
    assert_eq!(reused.idempotency_key(), Some("invoice:inv_2026_09_4192"));
    world.stop().await;
}

#[tokio::test]
async fn what_creates_is_not_repeated_and_says_so() {
    let world = World::start().await;
    let line = Line::to(world.server.address, 1).await;
    let created = line.client().webhooks().create(&NewWebhook::new("http://127.0.0.1:9/", ["*"])).await;
    let error = created.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Network, 1));
    assert!(error.to_string().contains("a call of the class `creates` is sent once"), "{error}");
    assert_eq!(direct(&world).webhooks().list(&Default::default()).await.unwrap().data.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn many_at_once_with_one_key_are_one_event() {
    let world = World::start().await;
    let client = direct(&world);
    let event = paid();
    let calls = (0..64).map(|_| {
        let call = client.events().publish(&event).idempotency_key("invoice-paid:inv_4192");
        async { call.await }
    });
    let published: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(published.iter().filter(|event| !event.replayed).count(), 1);
    assert!(published.iter().all(|event| event.id == published[0].id));
    world.stop().await;
}

#[tokio::test]
async fn all_of_a_list_is_walked_once_and_what_happens_is_followed() {
    let world = World::start().await;
    let client = direct(&world);
    let mut live = client.stream().follow(&Default::default()).await.unwrap();
    let events: Vec<PublishEvent> = (0..250).map(|_| paid()).collect();
    let published = client.events().publish_batch(&events).await.unwrap();
    let mut ids = Vec::new();
    let mut items = client.events().list(&ListEvents::default()).items();
    while let Some(event) = items.next().await {
        ids.push(event.unwrap().id);
    }
    ids.reverse();
    let expected: Vec<String> = published.data.into_iter().map(|item| item.id).collect();
    assert_eq!(ids, expected);
    let StreamEvent::Event(first) = live.next().await.unwrap().unwrap() else { panic!("not an event") };
    assert_eq!(first.id, expected[0]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn threads_make_the_same_calls() {
    let world = World::start().await;
    let url = world.url("");
    let made = tokio::task::spawn_blocking(move || {
        let client = ClientBuilder::new(&url, KEY).timeout(Duration::from_secs(10)).build_blocking().unwrap();
        let published = client.events().publish(&paid()).wait().unwrap();
        let known: Vec<_> =
            client.events().list(&ListEvents::default()).items().map(Result::unwrap).collect();
        let keys = client.keys().list(&Paging::default()).wait().unwrap();
        (published.id, known, keys.data.len())
    });
    let (id, known, keys) = made.await.unwrap();
    assert_eq!((known.len(), keys), (1, 1));
    assert_eq!(known[0].id, id);
    world.stop().await;
}
