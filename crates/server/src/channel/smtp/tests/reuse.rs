//! Several mails over one connection.

use super::super::pool::{IDLE_MAX, Pool};
use super::server::Traits;
use super::*;

const MAIL: [&str; 3] = ["MAIL FROM:<bounces@us.example>", "RCPT TO:<ann@them.example>", "DATA"];

#[tokio::test]
async fn the_next_mail_takes_the_same_connection() {
    for extensions in [&[][..], &["PIPELINING"]] {
        let server = Server::start(Traits::offering(extensions)).await;
        let smtp = through(&server);
        for _ in 0..3 {
            assert_eq!(send(&smtp).await, queued());
        }
        assert_eq!((server.connections(), server.mails().len()), (1, 3));
        assert_eq!(server.lines()[1..], [MAIL, MAIL, MAIL].concat());
    }
}

#[tokio::test]
async fn mails_at_the_same_time_take_connections_of_their_own() {
    let server = Server::start(Traits::default()).await;
    let smtp = through(&server);
    for _ in 0..2 {
        assert_eq!(tokio::join!(send(&smtp), send(&smtp)), (queued(), queued()));
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_refused_mail_is_wiped_off_before_the_next_one() {
    let server = Server::acting("RCPT", &[Act::Say("550 5.1.1 nobody")]).await;
    let smtp = through(&server);
    assert_eq!(refused(send(&smtp).await).0, 550);
    assert_eq!(send(&smtp).await, queued());
    assert_eq!(server.connections(), 1);
    assert_eq!(server.lines()[1..], [&MAIL[..2], &["RSET"], &MAIL].concat());
}

#[tokio::test]
async fn a_connection_that_ended_in_between_costs_nothing() {
    for last in ["250 2.0.0 queued", "250 2.0.0 queued\r\n421 4.4.2 too slow"] {
        let server = Server::acting("dot", &[Act::Last(last)]).await;
        let smtp = through(&server);
        assert_eq!(send(&smtp).await, queued());
        server.acted().await;
        assert_eq!(send(&smtp).await, queued());
        assert_eq!((server.connections(), server.mails().len()), (2, 2));
        assert_eq!(server.lines().len(), 8, "nothing was said on the ended connection");
    }
}

#[tokio::test]
async fn a_connection_that_says_too_much_is_not_used_again() {
    let server = Server::acting("dot", &[Act::Say("250 2.0.0 queued\r\n250 2.0.0 once more")]).await;
    let smtp = through(&server);
    assert_eq!((send(&smtp).await, send(&smtp).await), (queued(), queued()));
    assert_eq!((server.connections(), server.mails().len()), (2, 2));
}

#[tokio::test]
async fn a_connection_that_ends_before_mail_is_accepted_is_replaced_in_the_same_attempt() {
    let acts = [Act::HangUp, Act::Last("421 4.7.0 too many mails"), Act::Last("not SMTP")];
    for act in acts {
        for extensions in [&[][..], &["PIPELINING"]] {
            let server = Server::start(Traits::offering(extensions).on("MAIL", &[Act::AsUsual, act])).await;
            let (smtp, record) = (through(&server), Record::default());
            assert_eq!(send(&smtp).await, queued());
            assert_eq!(smtp.send(&envelope(MESSAGE), PATIENT, &record).await, queued());
            assert_eq!((server.connections(), server.mails().len(), record.calls()), (2, 2, 1), "{act:?}");
        }
    }
    let acts = [Act::Say("550 5.1.1 nobody"), Act::AsUsual];
    let server = Server::start(Traits::default().on("RCPT", &acts).on("RSET", &[Act::Say("500 no")])).await;
    let smtp = through(&server);
    assert_eq!(refused(send(&smtp).await).0, 550);
    assert_eq!(send(&smtp).await, queued());
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn what_a_used_connection_says_about_the_mail_stands() {
    let acts = [Act::AsUsual, Act::HangUp];
    for (what, expected) in [("RCPT", None), ("DATA", None)] {
        let server = Server::acting(what, &acts).await;
        let smtp = through(&server);
        assert_eq!(send(&smtp).await, queued());
        assert_eq!(deferred(send(&smtp).await), (FailureKind::Network, expected), "{what}");
        assert_eq!(server.connections(), 1);
    }
    let server = Server::acting("dot", &acts).await;
    let smtp = through(&server);
    assert_eq!(send(&smtp).await, queued());
    uncertain(send(&smtp).await);
    assert_eq!((server.connections(), server.mails().len()), (1, 2));
}

#[tokio::test]
async fn an_idle_connection_ends_with_a_goodbye() {
    let server = Server::start(Traits::default()).await;
    let mut smtp = through(&server);
    smtp.pool = Pool::new(Duration::from_millis(10), 4);
    assert_eq!(send(&smtp).await, queued());
    server.acted().await;
    assert_eq!(server.lines().last().map(String::as_str), Some("QUIT"));
    assert_eq!(send(&smtp).await, queued());
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn only_so_many_idle_connections_are_kept() {
    let server = Server::start(Traits::default()).await;
    let mut smtp = through(&server);
    smtp.pool = Pool::new(IDLE_MAX, 4);
    let sent = tokio::join!(send(&smtp), send(&smtp), send(&smtp), send(&smtp), send(&smtp));
    assert_eq!(sent, (queued(), queued(), queued(), queued(), queued()));
    server.acted().await;
    assert_eq!(server.connections(), 5);
    assert_eq!(server.lines().iter().filter(|line| *line == "QUIT").count(), 1);
}

#[tokio::test]
async fn a_connection_carries_a_hundred_mails() {
    let server = Server::start(Traits::offering(&["PIPELINING"])).await;
    let smtp = through(&server);
    for _ in 0..101 {
        assert_eq!(send(&smtp).await, queued());
    }
    assert_eq!(server.connections(), 2);
}
