//! Both kinds of client, as far as the server can tell.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::harness::{Answer, World};

const PATIENCE: Duration = Duration::from_secs(15);

/// What a client asks for when it connects.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Speaks {
    First,
    V1,
}

/// A connected client.
pub(super) struct Line {
    socket: WebSocketStream<TcpStream>,
}

/// Logs in with a token.
pub(crate) async fn login(world: &World, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("accept", "application/json")];
    world.send(Method::GET, &world.url("/auth/ws"), &headers, Bytes::new()).await
}

/// Connects with an access token; the status if that is refused.
pub(super) async fn connect(world: &World, access_token: &str, speaks: Speaks) -> Result<Line, StatusCode> {
    let url = format!("ws://{}/auth/ws/connect", world.server.address);
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("authorization", format!("Bearer {access_token}").parse().unwrap());
    if speaks == Speaks::V1 {
        headers.insert("sec-websocket-protocol", "restante.v1".parse().unwrap());
    }
    let stream = TcpStream::connect(world.server.address).await.unwrap();
    match client_async(request, stream).await {
        Ok((socket, answer)) => {
            let protocol = answer.headers().get("sec-websocket-protocol").map(|it| it.to_str().unwrap());
            assert_eq!(protocol, (speaks == Speaks::V1).then_some("restante.v1"));
            Ok(Line { socket })
        }
        Err(Error::Http(answer)) => Err(answer.status()),
        Err(error) => panic!("{error}"),
    }
}

impl Line {
    /// Logs in and connects.
    pub(super) async fn to(world: &World, source: &Value, speaks: Speaks) -> Self {
        let answer = login(world, source["token"].as_str().unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json);
        connect(world, answer.json["access_token"].as_str().unwrap(), speaks).await.unwrap()
    }

    /// The next frame. Pings are answered while it waits, and at no other time.
    pub(super) async fn frame(&mut self) -> Value {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => return serde_json::from_slice(&bytes).unwrap(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    other => panic!("no frame, but {other:?}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("a frame comes")
    }

    /// Waits until the server has ended the connection.
    pub(super) async fn ended(&mut self) {
        let end = async { while let Some(Ok(_)) = self.socket.next().await {} };
        tokio::time::timeout(PATIENCE, end).await.expect("the connection ends");
    }

    /// Pings, and waits for the answer.
    pub(super) async fn ping(&mut self, word: &'static str) {
        self.socket.send(Message::Ping(Bytes::from_static(word.as_bytes()))).await.unwrap();
        let answer = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Pong(bytes))) if bytes == word => return,
                    Some(Ok(Message::Ping(_))) => {}
                    other => panic!("no pong, but {other:?}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.expect("a ping is answered");
    }

    pub(super) async fn send(&mut self, frame: Value) {
        self.socket.send(Message::binary(frame.to_string())).await.unwrap();
    }

    /// Says what became of the delivery in a frame.
    pub(super) async fn answer(&mut self, frame: &Value, more: Value) {
        self.send(result(frame, more)).await;
    }

    pub(super) async fn deliver(&mut self, frame: &Value) {
        self.answer(frame, json!({"status": "success", "response_code": 200})).await;
    }

    pub(super) async fn ack(&mut self, frame: &Value) {
        let delivery = &frame["deliveries"][0];
        let ack = json!({"type": "ack", "delivery_id": delivery["id"], "attempt_number": delivery["attempt_number"]});
        self.send(ack).await;
    }
}

/// A result for the delivery in a frame.
pub(super) fn result(frame: &Value, more: Value) -> Value {
    let delivery = &frame["deliveries"][0];
    let mut result = json!({
        "delivery_id": delivery["id"],
        "destination_id": delivery["destination"]["id"],
        "url": delivery["url"],
        "attempt_number": delivery["attempt_number"],
        "status": "failed",
        "response_code": null,
        "message": null,
        "delivery_duration": 1532,
    });
    for (name, value) in more.as_object().unwrap() {
        result[name] = value.clone();
    }
    result
}

/// The body in a frame.
pub(super) fn body(frame: &Value) -> Vec<u8> {
    data_encoding::BASE64.decode(frame["body"].as_str().unwrap().as_bytes()).unwrap()
}
