use std::collections::HashSet;

use bytes::Bytes;
use restante_sdk::tunnel::{BodyFrame, CancelFrame, PIECE_BYTES_MAX, ResultStatus, ToClient, ToServer};
use restante_server::clock::SystemClock;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::listen::event::{FaultKind, Outcome};
use crate::listen::queue::{Queue, queue};
use crate::listen::testbed::{OK, Server, Service, frame, request, soon};

/// A link under test.
struct Bench {
    server: Server,
    service: Service,
    events: Queue,
    stop: watch::Sender<bool>,
    ended: JoinHandle<Result<(), GivenUp>>,
}

impl Bench {
    async fn start() -> Self {
        Self::with(Server::start().await).await
    }

    async fn with(server: Server) -> Self {
        Self::at(server, Arc::new(SystemClock::start())).await
    }

    async fn at(server: Server, clock: Arc<dyn Clock>) -> Self {
        let service = Service::start().await;
        let (link, events, stop) = link(&server.url, &service.url, clock);
        let ended = tokio::spawn(link.run());
        Self { server, service, events, stop, ended }
    }

    /// The next state of the link.
    async fn state(&mut self) -> LinkState {
        loop {
            if let Event::Link { state, .. } = soon(self.events.recv()).await.unwrap() {
                return state;
            }
        }
    }

    /// The end of an attempt, the next one.
    async fn end(&mut self) -> (i64, crate::listen::event::End) {
        loop {
            if let Event::Ended { attempt, end } = soon(self.events.recv()).await.unwrap() {
                let id = attempt.request_id.as_ref().unwrap().trim_start_matches("req_").parse().unwrap();
                return (id, end);
            }
        }
    }
}

fn link(server: &str, service: &str, clock: Arc<dyn Clock>) -> (Link, Queue, watch::Sender<bool>) {
    let (telling, events) = queue(true);
    let (stop, stopping) = watch::channel(false);
    let dialer = Arc::new(Dialer::new(None).unwrap());
    let shared = Arc::new(Shared {
        server: server.to_owned(),
        local: Local::parse(Some(service), None).unwrap(),
        forwarder: Arc::new(Forwarder::new(Arc::clone(&dialer))),
        dialer,
        clock,
        events: telling,
        running: Running::default(),
    });
    (Link { shared, source: 0, token: "tok".to_owned(), stop: stopping }, events, stop)
}

fn get(id: i64) -> ToClient {
    frame(request(id, "GET", &format!("/{id}"), &[], Bytes::new()))
}

#[tokio::test]
async fn an_attempt_is_acknowledged_made_and_reported() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    assert_eq!(client.token, "tok");
    let mut sent = request(5, "POST", "/orders?x=1", &[("X-A", b"1")], Bytes::from_static(b"hi"));
    sent.deliveries[0].destination.add_idempotency_key = true;
    client.send(&frame(sent)).await;
    assert_eq!(client.ack().await, 5);
    let received = bench.service.received().await;
    let head = String::from_utf8(received.head.clone()).unwrap();
    assert_eq!(
        head,
        format!(
            "POST /orders?x=1 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-A: 1\r\nContent-Length: 2\r\n\
             X-Adal-Idempotency: abababab-abab-abab-abab-abababababab\r\n\r\n",
            bench.service.port
        )
    );
    received.answer(OK);
    let result = client.result().await;
    assert_eq!((result.delivery_id, result.destination_id, result.attempt_number), (5, 7, 1));
    assert_eq!(
        (result.status, result.response_code, result.message),
        (ResultStatus::Success, Some(200), None)
    );
    assert_eq!(result.url, format!("{}/orders?x=1", bench.service.url));
    let (id, end) = bench.end().await;
    assert_eq!((id, end.outcome, end.reported), (5, Outcome::Answer { status: 200 }, true));
}

#[tokio::test]
async fn a_large_body_arrives_whole_and_the_attempt_begins_with_its_last_piece() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    let body: Vec<u8> =
        (0..5 * 1024 * 1024_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut pieces = body.chunks(PIECE_BYTES_MAX).map(Bytes::copy_from_slice);
    let mut first = request(1, "PUT", "", &[], pieces.next().unwrap());
    first.restante.as_mut().unwrap().more = true;
    client.send(&frame(first)).await;
    client.send(&get(2)).await;
    assert_eq!(client.ack().await, 2, "the one in pieces has not begun");
    bench.service.received().await.answer(OK);
    assert_eq!(client.result().await.delivery_id, 2);
    let pieces: Vec<Bytes> = pieces.collect();
    for (index, body) in pieces.iter().enumerate() {
        let more = index + 1 < pieces.len();
        client.send(&ToClient::Body(BodyFrame { id: 1, body: body.clone(), more })).await;
    }
    assert_eq!(client.ack().await, 1);
    let received = bench.service.received().await;
    assert!(received.body == body, "every byte");
    received.answer(OK);
    assert_eq!(client.result().await.status, ResultStatus::Success);
}

#[tokio::test]
async fn one_slow_delivery_holds_up_no_other() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    client.send(&get(0)).await;
    let slow = bench.service.received().await;
    assert_eq!(client.ack().await, 0);
    // More than there is room for at a time.
    for id in 1..=100 {
        client.send(&get(id)).await;
    }
    let (mut acks, mut results) = (HashSet::new(), HashSet::new());
    while results.len() < 100 {
        tokio::select! {
            received = bench.service.received() => received.answer(OK),
            frame = client.frame() => match frame {
                ToServer::Ack(ack) => assert!(acks.insert(ack.delivery_id)),
                ToServer::Result(result) => {
                    assert!(acks.contains(&result.delivery_id), "an ack comes first");
                    assert!(results.insert(result.delivery_id));
                }
            },
        }
        assert!(acks.len() - results.len() < 64, "at most 64 at a time, with the slow one");
    }
    slow.answer("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let result = client.result().await;
    assert_eq!(
        (result.delivery_id, result.status, result.response_code),
        (0, ResultStatus::Failed, Some(503))
    );
}

#[tokio::test]
async fn what_gets_no_answer_is_reported_with_the_reason() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    client.send(&get(1)).await;
    client.ack().await;
    drop(bench.service.received().await);
    let result = client.result().await;
    assert_eq!((result.status, result.response_code), (ResultStatus::Failed, None));
    assert_eq!(result.message.as_deref(), Some("network_error"));
    assert_eq!(result.detail.as_deref(), Some("the connection ended before there was an answer"));

    let mut slow = request(2, "GET", "", &[], Bytes::new());
    slow.deliveries[0].restante.as_mut().unwrap().timeout_ms = 50;
    client.send(&frame(slow)).await;
    client.ack().await;
    let late = bench.service.received().await;
    let result = client.result().await;
    assert_eq!(result.message.as_deref(), Some("timeout"));
    assert_eq!(result.detail.as_deref(), Some("no answer within 0.05 s"));
    late.answer(OK);

    client.send(&frame(request(3, "GET", "/a b", &[], Bytes::new()))).await;
    client.ack().await;
    assert_eq!(client.result().await.message.as_deref(), Some("invalid_url"));
    let ends = [bench.end().await, bench.end().await, bench.end().await];
    let kinds = ends.map(|(_, end)| match end.outcome {
        Outcome::Fault { kind, .. } => kind,
        Outcome::Answer { .. } | Outcome::Cancelled => panic!("{:?}", end.outcome),
    });
    assert_eq!(kinds, [FaultKind::Network, FaultKind::Timeout, FaultKind::InvalidUrl]);
}

#[tokio::test]
async fn what_is_called_off_is_not_begun_or_ends() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    client.send(&get(1)).await;
    assert_eq!(client.ack().await, 1);
    let running = bench.service.received().await;
    let mut waiting = request(2, "GET", "", &[], Bytes::new());
    waiting.restante.as_mut().unwrap().more = true;
    client.send(&frame(waiting)).await;
    for delivery_id in [2, 1] {
        client.send(&ToClient::Cancel(CancelFrame { delivery_id })).await;
    }
    let (id, end) = bench.end().await;
    assert_eq!((id, end.outcome), (1, Outcome::Cancelled));
    running.answer(OK);
    client.send(&ToClient::Body(BodyFrame { id: 2, body: Bytes::new(), more: false })).await;
    client.send(&get(3)).await;
    assert_eq!(client.ack().await, 3, "nothing is heard of the two");
    bench.service.received().await.answer(OK);
    assert_eq!(client.result().await.delivery_id, 3);
}

#[tokio::test]
async fn a_link_that_is_cut_is_told_made_again_and_its_attempts_end() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    assert_eq!(bench.state().await, LinkState::Connecting);
    assert_eq!(bench.state().await, LinkState::Connected);
    client.send(&get(1)).await;
    let running = bench.service.received().await;
    assert_eq!(client.ack().await, 1);
    drop(client);
    let LinkState::Reconnecting { why, next: Some(_) } = bench.state().await else { panic!("it knows") };
    assert_eq!(why, "the server ended the connection");
    running.answer(OK);
    let (id, end) = bench.end().await;
    assert_eq!((id, end.outcome, end.reported), (1, Outcome::Answer { status: 200 }, false));
    assert!(matches!(bench.state().await, LinkState::Reconnecting { next: None, .. }));
    assert_eq!(bench.state().await, LinkState::Connected);
    let mut client = bench.server.client().await;
    client.send(&get(1)).await;
    assert_eq!(client.ack().await, 1, "it works as before");
    let logins = bench.server.calls().iter().filter(|call| *call == "GET /auth/ws").count();
    assert_eq!(logins, 2, "each connection has a login of its own");
}

#[tokio::test]
async fn every_reason_to_try_again_is_told() {
    let server = Server::start().await;
    server.answer_logins(&[503, 500]);
    server.answer_upgrades(&[401, 502]);
    let mut bench = Bench::with(server).await;
    let mut reasons = Vec::new();
    loop {
        match bench.state().await {
            LinkState::Connected => break,
            LinkState::Reconnecting { why, next } => reasons.extend(next.map(|_| why)),
            LinkState::Connecting | LinkState::Failed { .. } | LinkState::Stopped => {}
        }
    }
    assert_eq!(
        reasons,
        [
            "the server's store does not answer",
            "the login was answered with 500 Internal Server Error",
            "the access token was not taken",
            "the connection was answered with 502 Bad Gateway",
        ]
    );
    let mut client = bench.server.client().await;
    client.send_raw(Message::Binary(Bytes::from_static(b"{"))).await;
    let LinkState::Reconnecting { why, .. } = bench.state().await else { panic!("nonsense is a reason") };
    assert!(why.starts_with("the server does not make sense: "), "{why}");
}

#[tokio::test]
async fn what_newer_servers_say_is_passed_over() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    client.send_raw(Message::Text("hello".into())).await;
    client.send_raw(Message::Binary(Bytes::from_static(br#"{"type":"weather","sunny":true}"#))).await;
    client.send_raw(Message::Ping(Bytes::new())).await;
    client.send(&get(1)).await;
    assert_eq!(client.ack().await, 1);
    bench.service.received().await.answer(OK);
}

#[tokio::test]
async fn an_unknown_token_and_too_many_clients_end_it() {
    let server = Server::start().await;
    server.answer_logins(&[401]);
    let mut bench = Bench::with(server).await;
    assert_eq!(soon(&mut bench.ended).await.unwrap(), Err(GivenUp::Unknown));
    assert_eq!(bench.state().await, LinkState::Connecting);
    let why = "the server knows no source with this token".to_owned();
    assert_eq!(bench.state().await, LinkState::Failed { why });

    let server = Server::start().await;
    server.answer_upgrades(&[429]);
    let bench = Bench::with(server).await;
    assert_eq!(soon(bench.ended).await.unwrap(), Err(GivenUp::Full));
}

#[tokio::test]
async fn a_stop_begins_nothing_new_lets_end_what_runs_and_says_goodbye() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    client.send(&get(1)).await;
    let running = bench.service.received().await;
    assert_eq!(client.ack().await, 1);
    bench.stop.send_replace(true);
    // Known to be read after the stop: the runtime has one thread, and what is ready is taken in turn.
    tokio::task::yield_now().await;
    client.send(&get(2)).await;
    running.answer(OK);
    let first = client.try_frame().await;
    assert!(matches!(first, Some(ToServer::Result(ref result)) if result.delivery_id == 1), "{first:?}");
    assert_eq!(client.try_frame().await, None);
    drop(client);
    assert_eq!(soon(bench.ended).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_stop_while_it_waits_for_the_next_try_is_at_once() {
    let server = Server::start().await;
    server.answer_logins(&[503; 20]);
    let mut bench = Bench::with(server).await;
    while !matches!(bench.state().await, LinkState::Reconnecting { next: Some(_), .. }) {}
    bench.stop.send_replace(true);
    assert_eq!(soon(bench.ended).await.unwrap(), Ok(()));
}

/// A clock whose wall can be moved alone, as by a machine that sleeps.
struct Sleeper {
    system: SystemClock,
    ahead_ms: std::sync::atomic::AtomicI64,
}

#[async_trait::async_trait]
impl Clock for Sleeper {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead_ms.load(std::sync::atomic::Ordering::Relaxed);
        Timestamp::from_millis(self.system.now().millis() + ahead)
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
    }

    fn draw(&self) -> u64 {
        // The longest waits.
        u64::MAX
    }

    async fn sleep_until(&self, at: Timestamp) {
        self.system.sleep_until(at).await;
    }
}

#[tokio::test]
async fn a_machine_that_woke_up_tries_at_once() {
    let clock = Arc::new(Sleeper { system: SystemClock::start(), ahead_ms: 0.into() });
    let (mut link, _events, _stop) =
        link("http://127.0.0.1:9", "http://127.0.0.1:9", Arc::clone(&clock) as _);
    let waiting = tokio::spawn(async move { link.wait(Duration::from_secs(3600)).await });
    tokio::task::yield_now().await;
    clock.ahead_ms.fetch_add(60_000, std::sync::atomic::Ordering::Relaxed);
    assert!(!soon(waiting).await.unwrap(), "it goes on, and does not stop");
}

#[tokio::test]
async fn a_link_that_is_silent_after_a_sleep_is_given_up_soon() {
    let clock = Arc::new(Sleeper { system: SystemClock::start(), ahead_ms: 0.into() });
    let mut bench = Bench::at(Server::start().await, Arc::clone(&clock) as _).await;
    // Nobody reads this side, so nobody answers pings.
    let _client = bench.server.client().await;
    while bench.state().await != LinkState::Connected {}
    clock.ahead_ms.fetch_add(60_000, std::sync::atomic::Ordering::Relaxed);
    let LinkState::Reconnecting { why, .. } = bench.state().await else { panic!("it is given up") };
    assert!(why.starts_with("nothing was heard of the server for "), "{why}");
}

#[tokio::test]
async fn what_was_called_off_before_anybody_looked_does_not_begin() {
    let mut bench = Bench::start().await;
    let mut client = bench.server.client().await;
    // The runtime has one thread, and what is sent without a turn for others is there before the link looks.
    let sending = async {
        for id in 1..=100 {
            client.send(&get(id)).await;
            client.send(&ToClient::Cancel(CancelFrame { delivery_id: id })).await;
        }
        client.send(&get(101)).await;
    };
    tokio::task::unconstrained(sending).await;
    assert_eq!(client.ack().await, 101);
    assert!(bench.service.received().await.head.starts_with(b"GET /101 HTTP/1.1\r\n"));
}

/// The wait that is told next, to the millisecond.
async fn next_wait(bench: &mut Bench) -> i64 {
    loop {
        if let Event::Link { at, state: LinkState::Reconnecting { next: Some(next), .. }, .. } =
            soon(bench.events.recv()).await.unwrap()
        {
            return next.millis() - at.millis();
        }
    }
}

#[tokio::test]
async fn a_connection_on_which_the_server_spoke_is_made_again_soon() {
    let clock = Arc::new(Sleeper { system: SystemClock::start(), ahead_ms: 0.into() });
    let server = Server::start().await;
    server.answer_logins(&[503, 503]);
    let mut bench = Bench::at(server, clock).await;
    let mut waits = vec![next_wait(&mut bench).await, next_wait(&mut bench).await];
    drop(bench.server.client().await);
    waits.push(next_wait(&mut bench).await);
    let mut client = bench.server.client().await;
    client.send(&get(1)).await;
    assert_eq!(client.ack().await, 1);
    drop(client);
    waits.push(next_wait(&mut bench).await);
    assert!(waits[2] >= 1_000 && waits[3] <= 500, "{waits:?}");
}
