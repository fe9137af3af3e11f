//! Without a relay: which servers are dialled, in which order.

use tokio::net::TcpListener;

use super::server::Traits;
use super::*;

/// A server at each of some addresses of this machine, all on one port.
async fn servers<const N: usize>(addresses: [&str; N], mut traits: [Traits; N]) -> ([Server; N], u16) {
    let listeners = loop {
        let first = TcpListener::bind((addresses[0], 0)).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut listeners = vec![first];
        for address in &addresses[1..] {
            listeners.extend(TcpListener::bind((*address, port)).await);
        }
        // Somebody else may have the port at another address.
        if listeners.len() == N {
            break listeners;
        }
    };
    let port = listeners[0].local_addr().unwrap().port();
    let mut listeners = listeners.into_iter();
    let started = traits.each_mut().map(|traits| Server::start_on(listeners.next().unwrap(), traits.clone()));
    (started, port)
}

fn direct(port: u16, names: Names) -> Smtp {
    let mut smtp = smtp(Route::Direct, names);
    smtp.exchange_port = port;
    smtp
}

/// `them.example` has two hosts: `first`, then `second`.
fn two_hosts() -> Names {
    Names {
        addresses: [("first.example", vec!["127.0.0.2"]), ("second.example", vec!["127.0.0.3"])].into(),
        exchanges: [("them.example", vec![(20, "second.example."), (10, "first.example.")])].into(),
    }
}

const TWO: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

#[tokio::test]
async fn the_preferred_host_gets_the_mail() {
    let ([first, second], port) = servers(TWO, Default::default()).await;
    assert_eq!(send(&direct(port, two_hosts())).await, queued());
    assert_eq!((first.mails().len(), second.connections()), (1, 0));
}

#[tokio::test]
async fn the_next_host_gets_it_when_one_is_not_ready_for_mail() {
    let acts = [
        ("connection", Act::HangUp),
        ("connection", Act::Last("421 4.3.2 busy")),
        ("connection", Act::Last("554 5.3.2 no mail here")),
        ("EHLO", Act::Last("421 4.3.2 busy")),
    ];
    for (what, act) in acts {
        let ([first, second], port) =
            servers(TWO, [Traits::default().on(what, &[act]), Traits::default()]).await;
        assert_eq!(send(&direct(port, two_hosts())).await, queued());
        assert_eq!((first.mails().len(), second.mails().len()), (0, 1), "{act:?}");
    }
    // Nobody listens at 127.0.0.2.
    let ([second], port) = servers(["127.0.0.3"], Default::default()).await;
    assert_eq!(send(&direct(port, two_hosts())).await, queued());
    assert_eq!(second.mails().len(), 1);
}

#[tokio::test]
async fn a_host_that_says_nothing_leaves_time_for_the_next() {
    let mute = Traits::default().on("connection", &[Act::Stall]);
    let ([first, second], port) = servers(TWO, [mute, Traits::default()]).await;
    let sent = direct(port, two_hosts()).send(&envelope(MESSAGE), 3 * HASTY, &Record::default()).await;
    assert_eq!(sent, queued());
    assert_eq!((first.connections(), second.mails().len()), (1, 1));
}

#[tokio::test]
async fn what_a_ready_host_says_stands() {
    for what in ["MAIL", "RCPT", "DATA", "dot"] {
        let no = Traits::default().on(what, &[Act::Say("451 4.3.0 not now")]);
        let ([_, second], port) = servers(TWO, [no, Traits::default()]).await;
        assert_eq!(deferred(send(&direct(port, two_hosts())).await), (FailureKind::Smtp, Some(451)));
        assert_eq!(second.connections(), 0, "{what}");
    }
}

#[tokio::test]
async fn when_no_host_is_ready_the_last_ones_fault_is_told() {
    let ([first], port) = servers(["127.0.0.2"], [Traits::default().on("connection", &[Act::HangUp])]).await;
    assert_eq!(deferred(send(&direct(port, two_hosts())).await), (FailureKind::Connect, None));
    assert_eq!(first.connections(), 1);
}

#[tokio::test]
async fn a_domain_without_mx_records_takes_its_mail_itself() {
    let ([server], port) = servers(["127.0.0.1"], Default::default()).await;
    assert_eq!(send(&direct(port, Names::default())).await, queued());
    assert_eq!(server.mails().len(), 1);
}

#[tokio::test]
async fn a_null_mx_is_final_and_nothing_is_dialled() {
    let ([server], port) = servers(["127.0.0.1"], Default::default()).await;
    for host in [".", ""] {
        let names = Names { exchanges: [("them.example", vec![(0, host)])].into(), ..Names::default() };
        assert_eq!(refused(send(&direct(port, names)).await), (556, Some((5, 1, 10))));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn names_without_answers_are_tried_again() {
    let smtp = direct(9, Names { addresses: [("empty.example", Vec::new())].into(), ..Names::default() });
    for domain in ["nowhere.example", "empty.example", "not a domain"] {
        let envelope = Envelope { domain: domain.to_owned(), ..envelope(MESSAGE) };
        let sent = smtp.send(&envelope, PATIENT, &Record::default()).await;
        assert_eq!(deferred(sent), (FailureKind::Dns, None), "{domain}");
    }
}

#[tokio::test]
async fn the_next_address_of_a_host_is_dialled_when_one_does_not_answer() {
    let ([server], port) = servers(["127.0.0.3"], Default::default()).await;
    let addresses = [("them.example", vec!["127.0.0.2", "127.0.0.3"])].into();
    assert_eq!(send(&direct(port, Names { addresses, ..Names::default() })).await, queued());
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_not_dialled() {
    for address in ["10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1"] {
        let ([server], port) = servers(["127.0.0.1"], Default::default()).await;
        let names = |addresses| Names { addresses: [("them.example", addresses)].into(), ..Names::default() };
        let sent = send(&direct(port, names(vec![address]))).await;
        assert_eq!(deferred(sent), (FailureKind::RefusedAddress, None), "{address}");
        // Another address of the same host may be.
        assert_eq!(send(&direct(port, names(vec![address, "127.0.0.1"]))).await, queued());
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn this_machine_is_not_dialled_unless_it_may_be() {
    let ([server], port) = servers(["127.0.0.1"], Default::default()).await;
    let strict = ChannelConfig::default();
    let mut direct = with(Route::Direct, Names::default(), &strict);
    direct.exchange_port = port;
    let relay = |host: &str| Route::Relay(format!("smtp://{host}:{port}").parse().unwrap());
    let channels = ["127.0.0.1", "[::ffff:127.0.0.1]", "0x7f.1", "mx.example"]
        .map(|host| with(relay(host), Names::default(), &strict));
    for smtp in channels.into_iter().chain([direct]) {
        assert_eq!(deferred(send(&smtp).await), (FailureKind::RefusedAddress, None));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn domains_with_one_host_share_its_connection() {
    let ([server], port) = servers(["127.0.0.1"], Default::default()).await;
    let exchanges = [("a.example", vec![(1, "mx.example.")]), ("b.example", vec![(5, "mx.example.")])];
    let smtp = direct(port, Names { exchanges: exchanges.into(), ..Names::default() });
    for domain in ["a.example", "b.example"] {
        let envelope = Envelope { domain: domain.to_owned(), ..envelope(MESSAGE) };
        assert_eq!(smtp.send(&envelope, PATIENT, &Record::default()).await, queued());
    }
    assert_eq!(server.connections(), 1);
    // A domain that is its own host has another name, and who knows, another server.
    assert_eq!(send(&smtp).await, queued());
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn ipv6_is_spoken() {
    let ([server], port) = servers(["::1"], Default::default()).await;
    let rules = Rules { private_targets: PrivateTargets::All, http_targets: false };
    let channel = ChannelConfig { rules, extra_ca_file: None };
    let addresses = [("them.example", vec!["::1"])].into();
    let mut direct = with(Route::Direct, Names { addresses, ..Names::default() }, &channel);
    direct.exchange_port = port;
    let relay = Route::Relay(format!("smtp://[::1]:{port}").parse().unwrap());
    for smtp in [direct, with(relay, Names::default(), &channel)] {
        assert_eq!(send(&smtp).await, queued());
    }
    assert_eq!(server.connections(), 2);
}
