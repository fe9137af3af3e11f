//! One connection: a writer of what the hub says, and a reader of what the client says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use restante_sdk::tunnel::{BodyFrame, CancelFrame, FRAME_BYTES_MAX, PIECE_BYTES_MAX, ToClient, ToServer};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::{Client, Command, Frame, Written};
use super::hub::Hub;
use super::{PING_EVERY, PROBE_TIME, SILENCE_MAX};

/// How often it is looked whether a client has ended what it was handed over.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// For the farewell to be taken.
const FAREWELL_TIME: Duration = Duration::from_millis(500);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Serves a connection until the client, the link or the server ends it.
pub(super) async fn serve(
    hub: Arc<Hub>,
    client: Arc<Client>,
    commands: mpsc::UnboundedReceiver<Command>,
    upgraded: Upgraded,
    mut stopping: watch::Receiver<bool>,
) {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(FRAME_BYTES_MAX);
    config.max_frame_size = Some(FRAME_BYTES_MAX);
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let mut writer = Writer { sink, client: Arc::clone(&client) };
    let end = tokio::select! {
        _ = writer.write(commands) => End::because("it takes nothing any more"),
        end = read(stream, &client, &hub) => end,
        end = watch(&client, &hub) => end,
        () = client.cut.notified() => End::because("it has not answered a ping while another wanted its place"),
        () = drained(&client, &mut stopping) => End { ours: true, ..End::because("this node stops") },
    };
    // Nothing more is leased for it, and what it was handed over is decided, before the link is closed.
    hub.leave(&client, end.ours).await;
    let farewell = CloseFrame { code: end.code, reason: end.why.into() };
    let closing = writer.sink.send(Message::Close(Some(farewell)));
    // It may be long gone.
    let _ = tokio::time::timeout(FAREWELL_TIME, closing).await;
    tracing::info!(source.id = %client.source, client.number = client.number, reason = end.why, "a client has left");
}

/// Why a connection ends.
struct End {
    why: &'static str,
    code: CloseCode,
    /// It is this node that goes.
    ours: bool,
}

impl End {
    const fn because(why: &'static str) -> Self {
        Self { why, code: CloseCode::Away, ours: false }
    }

    const fn with(self, code: CloseCode) -> Self {
        Self { code, ..self }
    }
}

/// Waits until the node stops and what the client was handed over has ended. When that takes too long it is given up by
/// whoever waits for it.
async fn drained(client: &Client, stopping: &mut watch::Receiver<bool>) {
    // Without a sender there is no server any more.
    let _ = stopping.wait_for(|stop| *stop).await;
    let idle = async {
        while client.is_busy() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let _ = tokio::time::timeout(crate::DRAIN_TIME, idle).await;
}

/// Pings, and returns when nothing was heard for too long, or when the source is gone or has another token.
async fn watch(client: &Client, hub: &Hub) -> End {
    loop {
        tokio::select! {
            () = hub.clock.sleep_until(hub.clock.now() + PING_EVERY) => {}
            () = client.look.notified() => {}
            () = client.doubt.notified() => if !answers(client).await {
                return End::because("it has begun nothing and does not answer");
            },
        }
        if hub.clock.monotonic().saturating_sub(client.heard_at()) > SILENCE_MAX {
            return End::because("it has been silent for too long");
        }
        if !hub.is_welcome(client).await {
            return End::because("its source is gone, or has another token").with(CloseCode::Policy);
        }
        client.ping();
    }
}

/// Whether a client answers a ping.
async fn answers(client: &Client) -> bool {
    let words = client.words();
    client.ping();
    tokio::time::timeout(PROBE_TIME, client.until(|client| client.words() > words)).await.is_ok()
}

async fn read(mut stream: SplitStream<Socket>, client: &Client, hub: &Hub) -> End {
    while let Some(message) = stream.next().await {
        client.heard(hub.clock.monotonic());
        let bytes = match message {
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Text(text)) => Bytes::from(text),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
            Ok(Message::Close(_)) => {
                return End::because("it has closed the connection").with(CloseCode::Normal);
            }
            Err(Error::Capacity(_)) => {
                return End::because("it has sent a frame that is too large").with(CloseCode::Size);
            }
            Err(_) => return End::because("the link broke"),
        };
        match ToServer::read(&bytes) {
            Ok(Some(frame)) => client.take(frame),
            // Of a newer client.
            Ok(None) => {}
            Err(_) => {
                // The fault quotes what was sent.
                tracing::warn!(
                    client.number = client.number,
                    frame.bytes = bytes.len(),
                    "a client sent what is no frame"
                );
                return End::because("it has sent what is no frame").with(CloseCode::Unsupported);
            }
        }
    }
    End::because("the link broke")
}

struct Writer {
    sink: SplitSink<Socket, Message>,
    client: Arc<Client>,
}

impl Writer {
    /// Writes what is to be written, until the link breaks.
    async fn write(&mut self, mut commands: mpsc::UnboundedReceiver<Command>) -> Result<(), Error> {
        while let Some(command) = commands.recv().await {
            match command {
                Command::HandOver(frame) => self.hand_over(*frame).await?,
                Command::Cancel(delivery_id) => {
                    self.frame(&ToClient::Cancel(CancelFrame { delivery_id })).await?;
                }
                Command::Ping => self.sink.send(Message::Ping(Bytes::new())).await?,
            }
        }
        Ok(())
    }

    async fn frame(&mut self, frame: &ToClient) -> Result<(), Error> {
        self.sink.send(Message::Binary(frame.to_bytes().into())).await
    }

    async fn hand_over(&mut self, frame: Frame) -> Result<(), Error> {
        let Frame { delivery, content } = frame;
        if !self.client.begins(delivery) {
            return Ok(());
        }
        match content {
            Written::Whole(bytes) => self.sink.send(Message::Binary(bytes)).await?,
            Written::Pieces(mut request, mut body) => {
                let id = request.id;
                request.body = body.split_to(body.len().min(PIECE_BYTES_MAX));
                if let Some(detail) = &mut request.restante {
                    detail.more = !body.is_empty();
                }
                self.frame(&ToClient::Request(request)).await?;
                while !body.is_empty() {
                    let piece = body.split_to(body.len().min(PIECE_BYTES_MAX));
                    let more = !body.is_empty();
                    self.frame(&ToClient::Body(BodyFrame { id, body: piece, more })).await?;
                }
            }
        }
        Ok(())
    }
}
