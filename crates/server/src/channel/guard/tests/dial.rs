//! What is dialled, on real sockets.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::super::*;
use super::{FORBIDDEN, SPELLINGS, ip, only};

/// Gives each list once, in turn; remembers the names it was asked for.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|list| list.iter().map(|text| ip(text)).collect()).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolve for Script {
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        self.asked.lock().unwrap().push(name.to_owned());
        self.answers.lock().unwrap().pop_front().ok_or(ResolveFault("no more answers".to_owned()))
    }
}

/// Listens on every local address, IPv4 and IPv6, so that a dial to any of them would be seen.
fn listen_everywhere() -> (TcpListener, u16) {
    listen("[::]:0")
}

fn listen(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Connections made so far. A connection to this machine is in the queue before the dial returns.
fn connections(listener: &TcpListener) -> usize {
    std::iter::from_fn(|| listener.accept().ok()).count()
}

async fn dial(rules: Rules, resolver: &Arc<Script>, url: &str) -> Result<TcpStream, DialFault> {
    Dialer::new(rules, resolver.clone()).dial_target(&url.parse().unwrap()).await
}

#[tokio::test]
async fn the_listener_of_these_tests_sees_both_families() {
    let (listener, port) = listen_everywhere();
    for host in ["127.0.0.1", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]"] {
        dial(Rules::dev(), &Script::new(&[]), &format!("http://{host}:{port}/")).await.map(drop).unwrap();
    }
    assert_eq!(connections(&listener), 4);
}

#[tokio::test]
async fn a_literal_of_a_forbidden_address_is_never_dialled_in_any_spelling() {
    let (listener, port) = listen_everywhere();
    let literal =
        |address: &str| if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let hosts = FORBIDDEN.iter().map(|(address, _)| literal(address));
    let resolver = Script::new(&[]);
    for host in hosts.chain(SPELLINGS.map(str::to_owned)) {
        let Ok(target) = format!("https://{host}:{port}/").parse() else {
            assert!(host.contains('%'), "{host}: only a percent sign keeps a host out of a Uri");
            continue;
        };
        let dialled = Dialer::new(Rules::default(), resolver.clone()).dial_target(&target).await;
        assert!(matches!(dialled, Err(DialFault::Refused { .. })), "{host}");
    }
    assert_eq!(connections(&listener), 0);
    assert_eq!(resolver.asked(), Vec::<String>::new(), "a literal goes to no resolver");
}

#[tokio::test]
async fn a_name_of_a_forbidden_address_is_never_dialled() {
    let (listener, port) = listen_everywhere();
    for (address, ground) in FORBIDDEN {
        let dialled =
            dial(Rules::default(), &Script::new(&[&[address]]), &format!("https://name.example:{port}/"))
                .await;
        let Err(DialFault::Refused { address: refused, ground: said }) = dialled else {
            panic!("{address} must be refused");
        };
        assert_eq!((refused, said), (ip(address), ground));
    }
    assert_eq!(connections(&listener), 0);
}

#[tokio::test]
async fn forbidden_addresses_are_skipped_and_allowed_ones_dialled() {
    let (allowed, port) = listen("127.0.0.1:0");
    let (forbidden, _) = listen(&format!("127.0.0.2:{port}"));
    let resolver = Script::new(&[&["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]]);
    dial(only("127.0.0.1"), &resolver, &format!("https://name.example:{port}/")).await.map(drop).unwrap();
    assert_eq!((connections(&allowed), connections(&forbidden)), (1, 0));
}

#[tokio::test]
async fn a_name_that_changes_its_address_after_it_was_judged_changes_nothing() {
    let (judged, port) = listen("127.0.0.1:0");
    let (rebound, _) = listen(&format!("127.0.0.2:{port}"));
    let resolver = Script::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let url = format!("https://name.example:{port}/");
    dial(only("127.0.0.1"), &resolver, &url).await.map(drop).unwrap();
    assert_eq!((connections(&judged), connections(&rebound)), (1, 0));
    assert_eq!(resolver.asked(), ["name.example"], "resolved once for a dial");

    let second = dial(only("127.0.0.1"), &resolver, &url).await;
    assert!(matches!(second, Err(DialFault::Refused { .. })));
    assert_eq!((connections(&judged), connections(&rebound)), (0, 0));
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let (listener, port) = listen("127.0.0.1:0");
    let resolver = Script::new(&[&["127.0.0.9", "127.0.0.8", "127.0.0.1"], &["127.0.0.8", "127.0.0.9"]]);
    let url = format!("https://name.example:{port}/");
    dial(Rules::dev(), &resolver, &url).await.map(drop).unwrap();
    assert_eq!(connections(&listener), 1);
    let Err(DialFault::Connect { address, .. }) = dial(Rules::dev(), &resolver, &url).await else {
        panic!("nobody listens there");
    };
    assert_eq!(address.ip(), ip("127.0.0.9"), "the fault is the last one's");
}

#[tokio::test]
async fn plain_http_is_not_dialled_unless_allowed() {
    let (listener, port) = listen("127.0.0.1:0");
    let url = format!("http://127.0.0.1:{port}/");
    let refused = dial(only("all"), &Script::new(&[]), &url).await;
    assert!(matches!(refused, Err(DialFault::Http)));
    assert_eq!(connections(&listener), 0);
    dial(Rules::dev(), &Script::new(&[]), &url).await.map(drop).unwrap();
    assert_eq!(connections(&listener), 1);
}

#[tokio::test]
async fn names_without_an_address_are_told_apart() {
    let resolver = Script::new(&[&[]]);
    let none = dial(Rules::dev(), &resolver, "https://name.example/").await;
    assert!(matches!(none, Err(DialFault::NoAddress { .. })));
    let failed = dial(Rules::dev(), &resolver, "https://name.example/").await;
    assert!(matches!(failed, Err(DialFault::Resolve { .. })));
}

#[tokio::test]
async fn localhost_has_addresses_on_every_machine() {
    let resolver = SystemResolver::new();
    for name in ["localhost", "localhost."] {
        let addresses = resolver.resolve(name).await.unwrap();
        assert!(addresses.contains(&ip("127.0.0.1")), "{name}: {addresses:?}");
        assert!(addresses.iter().all(IpAddr::is_loopback), "{name}: {addresses:?}");
    }
}
