//! What a server says and does, and what it means.

use super::server::Traits;
use super::*;

#[tokio::test]
async fn a_mail_is_handed_over_as_it_is() {
    let server = Server::start(Traits::offering(&["SIZE 10000", "8BITMIME"])).await;
    let record = Record::default();
    assert_eq!(through(&server).send(&envelope(MESSAGE), PATIENT, &record).await, queued());
    assert_eq!(
        server.lines(),
        ["EHLO us.example", "MAIL FROM:<bounces@us.example> SIZE=40", "RCPT TO:<ann@them.example>", "DATA"]
    );
    assert_eq!(server.mails(), ["Subject: hello\r\n\r\n..hidden\r\n...\r\n..\r\nlast\r\n"]);
    assert!(!server.was_pipelined());
    assert_eq!(record.calls(), 1);
}

#[tokio::test]
async fn with_pipelining_the_commands_leave_together() {
    let server = Server::start(Traits { holds_answers: true, ..Traits::offering(&["PIPELINING"]) }).await;
    assert_eq!(send(&through(&server)).await, queued());
    assert_eq!(server.lines().len(), 4);
    assert_eq!(server.mails(), ["Subject: hello\r\n\r\n..hidden\r\n...\r\n..\r\nlast\r\n"]);
}

#[tokio::test]
async fn a_server_that_does_not_know_ehlo_is_greeted_with_helo() {
    let server = Server::acting("EHLO", &[Act::Say("502 5.5.1 what?")]).await;
    assert_eq!(send(&through(&server)).await, queued());
    assert_eq!(server.lines()[..3], ["EHLO us.example", "HELO us.example", "MAIL FROM:<bounces@us.example>"]);
}

#[tokio::test]
async fn an_answer_before_its_question_answers_nothing() {
    for (what, answer) in [("connection", "220 hello\r\n250 yes"), ("RCPT", "250 ok\r\n354 go\r\n250 queued")]
    {
        let server = Server::acting(what, &[Act::Say(answer)]).await;
        assert_eq!(deferred(send(&through(&server)).await), (FailureKind::Network, None), "{what}");
        assert_eq!(server.mails(), [""; 0]);
    }
}

#[tokio::test]
async fn a_4xx_anywhere_is_tried_again() {
    for what in ["connection", "EHLO", "MAIL", "RCPT", "DATA", "dot"] {
        for extensions in [&[][..], &["PIPELINING"]] {
            let traits =
                Traits::offering(extensions).on(what, &[Act::Say("451 4.3.0 not now, ann@them.example")]);
            let server = Server::start(traits).await;
            let record = Record::default();
            let sent = through(&server).send(&envelope(MESSAGE), PATIENT, &record).await;
            assert_eq!(deferred(sent), (FailureKind::Smtp, Some(451)), "{what} {extensions:?}");
            assert_eq!(record.calls(), usize::from(what == "dot"), "{what}");
        }
    }
}

#[tokio::test]
async fn a_421_ends_the_connection() {
    for what in ["connection", "EHLO", "MAIL", "RCPT", "DATA", "dot"] {
        for extensions in [&[][..], &["PIPELINING"]] {
            let traits = Traits::offering(extensions).on(what, &[Act::Last("421 4.3.2 closing")]);
            let server = Server::start(traits).await;
            let smtp = through(&server);
            assert_eq!(deferred(send(&smtp).await), (FailureKind::Smtp, Some(421)), "{what} {extensions:?}");
            assert_eq!(send(&smtp).await, queued());
            assert_eq!(server.connections(), 2);
        }
    }
}

#[tokio::test]
async fn a_5xx_to_the_mail_is_final_and_one_to_us_is_not() {
    for what in ["MAIL", "RCPT", "DATA", "dot"] {
        for extensions in [&[][..], &["PIPELINING"]] {
            let traits =
                Traits::offering(extensions).on(what, &[Act::Say("550-5.1.1 nobody\r\n550 5.1.1 here")]);
            let server = Server::start(traits).await;
            let Sent::Refused { reply: told, .. } = send(&through(&server)).await else {
                panic!("{what} {extensions:?}");
            };
            assert_eq!(told, reply(550, (5, 1, 1), "nobody here"));
        }
    }
    let server = Server::acting("connection", &[Act::Last("554 5.7.1 your address is on a list")]).await;
    assert_eq!(deferred(send(&through(&server)).await), (FailureKind::Smtp, Some(554)));
}

#[tokio::test]
async fn the_content_is_kept_back_when_data_is_answered_yes_without_a_recipient() {
    let traits = Traits::offering(&["PIPELINING"]).on("RCPT", &[Act::Say("550 5.1.1 nobody")]);
    let server = Server::start(traits).await;
    let smtp = through(&server);
    assert_eq!(refused(send(&smtp).await).0, 550);
    assert_eq!(send(&smtp).await, queued());
    assert_eq!((server.connections(), server.mails().len()), (2, 1));
}

#[tokio::test]
async fn a_server_that_hangs_up_before_the_dot_got_nothing() {
    for what in ["connection", "EHLO", "MAIL", "RCPT", "DATA"] {
        let server = Server::acting(what, &[Act::HangUp]).await;
        assert_eq!(deferred(send(&through(&server)).await), (FailureKind::Network, None), "{what}");
    }
    let server = Server::acting("content", &[Act::HangUp]).await;
    let record = Record { until_acted: Some(server.clone()), ..Record::default() };
    let sent = through(&server).send(&envelope(MESSAGE), PATIENT, &record).await;
    assert_eq!(deferred(sent), (FailureKind::Network, None));
}

#[tokio::test]
async fn after_the_dot_anything_but_a_clear_answer_is_uncertain() {
    let unclear =
        ["354 more", "", "hello", "25", "2500 ok", "250-ok\r\n251 ok", "199 ok", "600 no", "\u{0}\u{ff}"];
    let acts = unclear.map(Act::Last).into_iter().chain([Act::HangUp, Act::Last("250-and then nothing")]);
    for act in acts {
        let server = Server::acting("dot", &[act]).await;
        let record = Record::default();
        uncertain(through(&server).send(&envelope(MESSAGE), PATIENT, &record).await);
        assert_eq!((record.calls(), server.mails().len()), (1, 1), "{act:?}");
    }
}

#[tokio::test]
async fn a_slow_server_is_a_timeout_before_the_dot_and_uncertain_after_it() {
    for what in ["connection", "EHLO", "RCPT", "DATA"] {
        let server = Server::acting(what, &[Act::Stall]).await;
        let sent = through(&server).send(&envelope(MESSAGE), HASTY, &Record::default()).await;
        assert_eq!(deferred(sent), (FailureKind::Timeout, None), "{what}");
    }
    let server = Server::acting("dot", &[Act::Stall]).await;
    uncertain(through(&server).send(&envelope(MESSAGE), HASTY, &Record::default()).await);
}

#[tokio::test]
async fn without_a_durable_record_the_dot_is_not_sent() {
    let server = Server::start(Traits::default()).await;
    let record = Record { fails: true, ..Record::default() };
    let smtp = through(&server);
    assert_eq!(deferred(smtp.send(&envelope(MESSAGE), PATIENT, &record).await), (FailureKind::Network, None));
    server.acted().await;
    assert_eq!((record.calls(), server.mails().len()), (1, 0));
}

#[tokio::test]
async fn an_answer_in_the_middle_of_the_content_stands_if_it_is_a_no() {
    let table =
        [("552 5.3.4 too big", Some(552)), ("452 4.3.1 no room", None), ("250 2.0.0 thank you", None)];
    for (answer, expected) in table {
        let server = Server::acting("content", &[Act::Say(answer)]).await;
        let record = Record { until_acted: Some(server.clone()), ..Record::default() };
        let sent = through(&server).send(&envelope(MESSAGE), PATIENT, &record).await;
        match expected {
            Some(code) => assert_eq!(refused(sent).0, code),
            None => drop(deferred(sent)),
        }
    }
}

#[tokio::test]
async fn a_server_that_reads_no_more_is_heard_while_the_content_waits() {
    let server = Server::acting("content", &[Act::Say("552 5.3.4 too big")]).await;
    let large = "0123456789\r\n".repeat(2 << 20);
    let record = Record::default();
    let sent = through(&server).send(&envelope(large), PATIENT, &record).await;
    assert_eq!((refused(sent).0, record.calls()), (552, 0));
}

#[tokio::test]
async fn a_mail_larger_than_the_server_takes_is_not_begun() {
    let server = Server::start(Traits::offering(&["SIZE 39"])).await;
    let Sent::Refused { reply, message } = send(&through(&server)).await else { panic!("it is too large") };
    assert_eq!(
        (reply.code, reply.enhanced, message.as_str()),
        (552, Some((5, 3, 4)), "the message has 40 bytes and the server takes at most 39")
    );
    assert_eq!(server.lines(), ["EHLO us.example"]);
    for line in ["SIZE", "SIZE 0", "SIZE 40", "SIZE many"] {
        let server = Server::start(Traits::offering(&[line])).await;
        assert_eq!(send(&through(&server)).await, queued(), "{line}");
    }
}

#[tokio::test]
async fn addresses_beyond_ascii_need_a_server_that_knows_them() {
    let envelope = Envelope { to: "änn@them.example".to_owned(), utf8: true, ..envelope("Ä\r\n") };
    let server = Server::start(Traits::offering(&["8BITMIME", "SMTPUTF8"])).await;
    assert_eq!(through(&server).send(&envelope, PATIENT, &Record::default()).await, queued());
    assert_eq!(
        server.lines()[1..3],
        ["MAIL FROM:<bounces@us.example> BODY=8BITMIME SMTPUTF8", "RCPT TO:<änn@them.example>"]
    );
    let server = Server::start(Traits::offering(&["8BITMIME"])).await;
    let sent = through(&server).send(&envelope, PATIENT, &Record::default()).await;
    assert_eq!(refused(sent), (553, Some((5, 6, 7))));
    assert_eq!(server.lines(), ["EHLO us.example"]);
}

#[tokio::test]
async fn an_address_cannot_smuggle_a_command() {
    let server = Server::start(Traits::default()).await;
    let smtp = through(&server);
    for address in ["a@b\r\nRSET", "a@b> NOTIFY=NEVER", "<a@b", "a b@c", "\"a@b", "\"a\\", "ä@b"] {
        let to = Envelope { to: address.to_owned(), ..envelope(MESSAGE) };
        let from = Envelope { from: address.to_owned(), ..envelope(MESSAGE) };
        for (envelope, detail) in [(to, 3), (from, 7)] {
            let sent = smtp.send(&envelope, PATIENT, &Record::default()).await;
            assert_eq!(refused(sent), (553, Some((5, 1, detail))), "{address:?}");
        }
    }
    let nobody = Envelope { to: String::new(), ..envelope(MESSAGE) };
    assert_eq!(refused(smtp.send(&nobody, PATIENT, &Record::default()).await).0, 553);
    assert_eq!(server.connections(), 0);
    // Nobody is a sender, though: that of what nobody shall answer.
    let notice = Envelope { from: String::new(), ..envelope(MESSAGE) };
    assert_eq!(smtp.send(&notice, PATIENT, &Record::default()).await, queued());
    assert_eq!(server.lines()[1], "MAIL FROM:<>");
    let quoted = Envelope { to: "\"a <b> \\\" c\"@d".to_owned(), ..envelope(MESSAGE) };
    assert_eq!(smtp.send(&quoted, PATIENT, &Record::default()).await, queued());
}
