//! The two sides of `listen` for tests, with real sockets: a server that does what a test says, and a local service that
//! notes every byte.
#![expect(dead_code, reason = "not every test needs all of it")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use restante_sdk::Timestamp;
use restante_sdk::tunnel::{
    DeliveryDetail, DeliveryFrame, DestinationFrame, HeaderText, PROTOCOL, RequestDetail, RequestFrame,
    ToClient, ToServer,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

/// Nothing in a test takes as long.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Waits for something that comes.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("it comes")
}

/// A server, as far as command-line clients see it.
pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    connected: mpsc::UnboundedReceiver<Connected>,
}

/// What a server is like.
#[derive(Default)]
struct State {
    sources: Vec<Value>,
    /// Of all sources.
    destinations: Vec<Value>,
    /// Statuses of the next logins; 200 afterwards.
    logins: VecDeque<u16>,
    /// Statuses of the next upgrades; 101 afterwards.
    upgrades: VecDeque<u16>,
    deliveries: Vec<Value>,
    /// Method and path of each call, logins included, and its token.
    calls: Vec<String>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (connect, connected) = mpsc::unbounded_channel();
        let state = Arc::<Mutex<State>>::default();
        let (base, shared) = (url.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(socket, base.clone(), Arc::clone(&shared), connect.clone()));
            }
        });
        Self { url, state, connected }
    }

    /// With a source, and a cli destination of it where there is a URL for one.
    pub(crate) fn with_source(self, name: &str, destination: Option<&str>) -> Self {
        let mut state = self.state.lock().unwrap();
        state.sources.push(source(&self.url, name));
        let id = format!("src_{name}");
        state.destinations.extend(destination.map(|url| destination_of(&id, url)));
        drop(state);
        self
    }

    /// With a delivery in this state.
    pub(crate) fn with_delivery(self, id: &str, delivery_state: &str) -> Self {
        self.state.lock().unwrap().deliveries.push(delivery(id, delivery_state));
        self
    }

    pub(crate) fn answer_logins(&self, statuses: &[u16]) {
        self.state.lock().unwrap().logins.extend(statuses);
    }

    pub(crate) fn answer_upgrades(&self, statuses: &[u16]) {
        self.state.lock().unwrap().upgrades.extend(statuses);
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.clone()
    }

    /// The next client that connects.
    pub(crate) async fn client(&mut self) -> Connected {
        soon(self.connected.recv()).await.unwrap()
    }
}

/// A connected client, seen from the server. Dropping it cuts the connection.
pub(crate) struct Connected {
    socket: WebSocketStream<TcpStream>,
    /// Of which source it is: the token.
    pub(crate) token: String,
}

impl Connected {
    pub(crate) async fn send(&mut self, frame: &ToClient) {
        self.socket.send(Message::Binary(frame.to_bytes().into())).await.unwrap();
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next frame; pings are answered on the way.
    pub(crate) async fn frame(&mut self) -> ToServer {
        self.try_frame().await.expect("the connection lives")
    }

    /// The next frame; `None`: the client has closed.
    pub(crate) async fn try_frame(&mut self) -> Option<ToServer> {
        loop {
            match soon(self.socket.next()).await?.ok()? {
                Message::Binary(bytes) => return Some(ToServer::read(&bytes).unwrap().unwrap()),
                Message::Close(_) => return None,
                Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    pub(crate) async fn ack(&mut self) -> i64 {
        match self.frame().await {
            ToServer::Ack(ack) => ack.delivery_id,
            ToServer::Result(result) => panic!("a result: {result:?}"),
        }
    }

    pub(crate) async fn result(&mut self) -> restante_sdk::tunnel::ResultFrame {
        match self.frame().await {
            ToServer::Result(result) => result,
            ToServer::Ack(ack) => panic!("an ack: {ack:?}"),
        }
    }
}

async fn serve(
    mut socket: TcpStream,
    base: String,
    state: Arc<Mutex<State>>,
    connect: mpsc::UnboundedSender<Connected>,
) {
    let mut start = [0; 16];
    let seen = socket.peek(&mut start).await.unwrap_or(0);
    if start[..seen].starts_with(b"GET /connect") {
        return upgrade(socket, &state, connect).await;
    }
    let Some((head, body)) = read_message(&mut socket).await else { return };
    let head = String::from_utf8(head).unwrap();
    let line = head.lines().next().unwrap_or_default().to_owned();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let token = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim_start_matches("Bearer ").to_owned())
    });
    let (status, answer) =
        answer(&base, &mut state.lock().unwrap(), (method, path), &token.unwrap_or_default(), &body);
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    // The client may have gone.
    let _ = socket.write_all(format!("{head}{answer}").as_bytes()).await;
}

async fn upgrade(socket: TcpStream, state: &Mutex<State>, connect: mpsc::UnboundedSender<Connected>) {
    let status = state.lock().unwrap().upgrades.pop_front().unwrap_or(101);
    let mut token = String::new();
    #[expect(clippy::result_large_err, reason = "the library's own type")]
    let check = |request: &Request, mut response: Response| {
        let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header("sec-websocket-protocol"), PROTOCOL);
        token = header("authorization").trim_start_matches("Bearer access-").to_owned();
        if status != 101 {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = status.try_into().unwrap();
            return Err(refusal);
        }
        response.headers_mut().insert("sec-websocket-protocol", PROTOCOL.parse().unwrap());
        Ok(response)
    };
    if let Ok(socket) = accept_hdr_async(socket, check).await {
        // The test may be over.
        let _ = connect.send(Connected { socket, token });
    }
}

fn answer(
    base: &str,
    state: &mut State,
    (method, path): (&str, &str),
    token: &str,
    body: &[u8],
) -> (u16, Value) {
    let path = path.split('?').next().unwrap_or_default();
    state.calls.push(format!("{method} {path}"));
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let body = || serde_json::from_slice::<Value>(body).unwrap();
    let list =
        |data: Vec<Value>| json!({"data": data, "has_more": false, "next_cursor": null, "prev_cursor": null});
    match (method, parts.as_slice()) {
        ("GET", ["auth", "ws"]) => match state.logins.pop_front().unwrap_or(200) {
            200 => {
                let url = base.replacen("http", "ws", 1);
                (
                    200,
                    json!({"access_token": format!("access-{token}"), "connection_url": format!("{url}/connect"),
                    "server_name": "test", "country": "", "city": "", "server_url": base}),
                )
            }
            status => (status, json!({})),
        },
        ("GET", ["v1", "sources"]) => (200, list(state.sources.clone())),
        ("POST", ["v1", "sources"]) => {
            let made = source(base, body()["name"].as_str().unwrap());
            state.sources.push(made.clone());
            (201, made)
        }
        ("GET", ["v1", "sources", id, "destinations"]) => {
            let own = state.destinations.iter().filter(|it| it["source_id"] == *id);
            (200, list(own.cloned().collect()))
        }
        ("POST", ["v1", "sources", id, "destinations"]) => {
            let made = destination_of(id, body()["url"].as_str().unwrap());
            state.destinations.push(made.clone());
            (201, made)
        }
        (_, ["v1", "deliveries", id, verb @ ..]) => {
            let of = state.deliveries.iter_mut().find(|it| it["id"] == *id);
            match (of, verb) {
                (Some(it), []) => (200, it.clone()),
                (Some(it), ["cancel"]) => {
                    *it = delivery(id, "cancelled");
                    (200, it.clone())
                }
                (Some(it), ["retry"]) if it["state"] != "pending" => {
                    (202, delivery(&format!("{id}_again"), "pending"))
                }
                _ => not_over(),
            }
        }
        _ => not_over(),
    }
}

fn not_over() -> (u16, Value) {
    let error = json!({"type": "conflict_error", "code": "not_retryable", "message": "it is not over yet"});
    (409, json!({"error": error}))
}

fn delivery(id: &str, state: &str) -> Value {
    let pending = state == "pending";
    json!({
        "object": "delivery", "id": id, "request_id": "req_1", "destination_id": "dst_1", "state": state,
        "reason": null, "cancel_requested": false, "attempts_used": 1, "attempts_max": 5,
        "next_attempt_at": pending.then_some("2199-11-29T23:19:41.000Z"),
        "waiting_for": pending.then_some("time"), "wait_because": null, "retry_of": null,
        "created_at": "2026-11-29T23:15:40.000Z", "ended_at": (!pending).then_some("2026-11-29T23:15:41.000Z"),
    })
}

fn source(base: &str, name: &str) -> Value {
    json!({
        "object": "source", "id": format!("src_{name}"), "name": name, "url": format!("{base}/in/tok_{name}"),
        "token": format!("tok_{name}"), "response": null, "deliver_pending_on_connect": true, "retention_days": 30,
        "dedupe": null, "verification": null, "clients_connected": 0, "created_at": "2026-11-29T12:00:00.000Z",
        "updated_at": "2026-11-29T12:00:00.000Z",
    })
}

fn destination_of(source_id: &str, url: &str) -> Value {
    json!({
        "object": "destination", "id": "dst_1", "source_id": source_id, "kind": "cli", "url": url, "attempts": 5,
        "schedule": {"kind": "quadratic", "attempts": 5}, "idempotency_header": false, "paused": false, "headers": {}, "max_in_flight": 64,
        "rate_per_second": null, "timeout_seconds": 30, "created_at": "2026-11-29T12:00:00.000Z",
        "updated_at": "2026-11-29T12:00:00.000Z",
    })
}

/// A request frame with one delivery: both have this id.
pub(crate) fn request(
    id: i64,
    method: &str,
    uri: &str,
    headers: &[(&str, &[u8])],
    body: Bytes,
) -> RequestFrame {
    let header = |(name, value): &(&str, &[u8])| ((*name).to_owned(), HeaderText::from(*value));
    RequestFrame {
        id,
        method: method.to_owned(),
        uri: uri.to_owned(),
        headers: std::collections::BTreeMap::new(),
        restante: Some(RequestDetail {
            request_id: format!("req_{id}"),
            received_at: Timestamp::from_millis(0),
            headers: headers.iter().map(header).collect(),
            body_bytes: body.len() as u64,
            more: false,
        }),
        body,
        idempotency_key: [0xab; 16],
        deliveries: vec![DeliveryFrame {
            id,
            destination: DestinationFrame { id: 7, add_idempotency_key: false },
            attempt_number: 1,
            url: "http://127.0.0.1:9".to_owned(),
            restante: Some(DeliveryDetail {
                delivery_id: format!("dlv_{id}"),
                destination_id: "dst_1".to_owned(),
                attempts_max: 5,
                timeout_ms: 10_000,
            }),
        }],
    }
}

/// The same as a frame.
pub(crate) fn frame(request: RequestFrame) -> ToClient {
    ToClient::Request(Box::new(request))
}

/// A local service.
pub(crate) struct Service {
    pub(crate) url: String,
    pub(crate) port: u16,
    received: mpsc::UnboundedReceiver<Received>,
}

/// A request that a service has received, and not answered yet.
pub(crate) struct Received {
    /// Which of its connections it came by, from 0.
    pub(crate) connection: usize,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    answer: oneshot::Sender<Vec<u8>>,
}

impl Received {
    pub(crate) fn answer(self, bytes: &str) {
        // Whoever asked may have gone.
        let _ = self.answer.send(bytes.as_bytes().to_vec());
    }

    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(&self.head).lines().next().unwrap_or_default().to_owned()
    }
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (receive, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(receive_all(socket, connection, receive.clone()));
            }
        });
        Self { url: format!("http://127.0.0.1:{port}"), port, received }
    }

    pub(crate) async fn received(&mut self) -> Received {
        soon(self.received.recv()).await.unwrap()
    }
}

async fn receive_all(mut socket: TcpStream, connection: usize, receive: mpsc::UnboundedSender<Received>) {
    while let Some((head, body)) = read_message(&mut socket).await {
        let (answer, answered) = oneshot::channel();
        if receive.send(Received { connection, head, body, answer }).is_err() {
            return;
        }
        // Not answered: the connection is cut.
        let Ok(answer) = answered.await else { return };
        if socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// Head and body of an HTTP message; `None` at the end.
async fn read_message(socket: &mut TcpStream) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap_or("0");
    let mut body = vec![0; length.trim().parse().unwrap()];
    socket.read_exact(&mut body).await.ok()?;
    Some((head, body))
}
