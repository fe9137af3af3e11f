//! One key, one email.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;

use super::receiver::Receiver;
use super::{Client, email, relaying};
use crate::process::{Home, on_both_stores};

const CALLS: usize = 64;

on_both_stores!(calls_at_the_same_time_under_one_key_are_one_email);

async fn calls_at_the_same_time_under_one_key_are_one_email(home: Home) {
    let receiver = Receiver::start();
    let server = relaying(home, &receiver).await;
    let client = Arc::new(Client::from(&server));
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.post("order-1:confirmation", &email("ok@mail.test")).await })
        })
        .collect();

    let (mut ids, mut fresh) = (HashSet::new(), 0);
    for call in calls {
        let (status, answer) = call.await.unwrap();
        let expected = if answer["replayed"] == true { StatusCode::OK } else { StatusCode::ACCEPTED };
        assert_eq!(status, expected, "{answer:#}");
        fresh += usize::from(answer["replayed"] == false);
        ids.insert(answer["id"].as_str().unwrap().to_owned());
    }

    assert_eq!((fresh, ids.len()), (1, 1), "{ids:?}");
    let id = ids.into_iter().next().unwrap();
    assert_eq!(client.ended(&id).await["status"], "sent");
    assert_eq!(client.all().await.len(), 1);
    assert_eq!(receiver.mails().len(), 1);
    // The key is as good as ever afterwards, and the answer is what the email is by now.
    let (status, answer) = client.post("order-1:confirmation", &email("ok@mail.test")).await;
    assert_eq!((status, answer["status"].as_str()), (StatusCode::OK, Some("sent")));
}
