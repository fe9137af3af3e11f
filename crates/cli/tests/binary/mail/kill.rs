//! kill -9 of the server while it sends mail.

use std::sync::Arc;
use std::time::Duration;

use super::load::{Load, judge};
use super::receiver::Receiver;
use super::{Client, relaying_home};
use crate::dice::Dice;
use crate::process::{Home, Process, on_sqlite};

const KILLS: usize = 50;
const SENDERS: u64 = 4;

on_sqlite!(one_key_is_one_email_and_one_copy_when_the_server_is_killed_at_random_moments);

async fn one_key_is_one_email_and_one_copy_when_the_server_is_killed_at_random_moments(home: Home) {
    let receiver = Receiver::start();
    let mut server = Process::start(relaying_home(home, &receiver)).await;
    let load = Arc::new(Load::new(Client::from(&server), Duration::ZERO));
    let senders: Vec<_> = (0..SENDERS).map(|_| tokio::spawn(Arc::clone(&load).send())).collect();

    let mut dice = Dice::new();
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(20 + dice.below(330))).await;
        // The senders' calls are cut in the middle: the kill does not wait for them.
        server.kill_and_restart().await;
    }
    load.stop();
    for sender in senders {
        sender.await.unwrap();
    }
    let acknowledged = load.acknowledged();
    let counts = judge(&load.client, &acknowledged, &receiver).await;
    println!("{counts:?}, {} replayed", load.replayed());
    assert!(counts.emails > 200, "there was hardly any load");
    assert!(counts.arrived > 0, "no kill came between a mail and its answer");
}
