//! Frames between a server and a command-line client: one JSON object in each WebSocket message.
//!
//! The server hands requests over ([`RequestFrame`]), the client says what became of each delivery ([`ResultFrame`]).
//! That much every client speaks. A client that asks for the subprotocol [`PROTOCOL`] takes many requests at once, gets
//! large bodies in pieces ([`ToClient::Body`]), tells when it begins ([`ToServer::Ack`]), and is told when an attempt is
//! called off ([`ToClient::Cancel`]). `docs/tunnel.md` has the whole of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Timestamp;

/// The subprotocol that adds acknowledgements, pieces and cancels (`Sec-WebSocket-Protocol`).
pub const PROTOCOL: &str = "restante.v1";
/// Where a client logs in with the token of a source.
pub const LOGIN_PATH: &str = "/auth/ws";
/// Most bytes of a body in one frame of [`PROTOCOL`]: with the rest it stays below what any client reads.
pub const PIECE_BYTES_MAX: usize = 512 * 1024;
/// Most bytes of a frame.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// What a login is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Login {
    /// Opens one connection for this source. Short-lived.
    pub access_token: String,
    /// Where to connect, `ws://…` or `wss://…`.
    pub connection_url: String,
    /// Name of the server.
    pub server_name: String,
    /// Always empty here; clients show it.
    pub country: String,
    /// Always empty here; clients show it.
    pub city: String,
    /// The source's public URL.
    pub server_url: String,
}

impl Login {
    /// A login to be answered.
    pub fn new(
        access_token: String,
        connection_url: String,
        server_name: String,
        server_url: String,
    ) -> Self {
        let (country, city) = (String::new(), String::new());
        Self { access_token, connection_url, server_name, country, city, server_url }
    }
}

/// A frame to the client.
#[derive(Clone, Debug, PartialEq)]
pub enum ToClient {
    /// A request with deliveries to make.
    Request(Box<RequestFrame>),
    /// The next piece of a request's body.
    Body(BodyFrame),
    /// The result of a delivery is not wanted any more.
    Cancel(CancelFrame),
}

/// A frame to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum ToServer {
    /// The attempt begins: from here on it may have reached the local service.
    Ack(AckFrame),
    /// The attempt has ended.
    Result(ResultFrame),
}

/// A request that a source has received, handed over for its deliveries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestFrame {
    /// Of the request on this connection.
    pub id: i64,
    /// As received.
    pub method: String,
    /// What follows the source's URL, with the query: `/orders?x=1`, or empty.
    pub uri: String,
    /// Values by name, in the order in which they came. Values that are no UTF-8 are read as Latin-1.
    pub headers: BTreeMap<String, Vec<String>>,
    /// The body, or its first piece. Base64 on the wire.
    #[serde(serialize_with = "write_bytes", deserialize_with = "read_bytes")]
    pub body: Bytes,
    /// The 16 bytes of the request's key. Base64 on the wire.
    #[serde(serialize_with = "write_key", deserialize_with = "read_key")]
    pub idempotency_key: [u8; 16],
    /// At least one.
    pub deliveries: Vec<DeliveryFrame>,
    /// What only [`PROTOCOL`] has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restante: Option<RequestDetail>,
}

/// What [`PROTOCOL`] tells of a request besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestDetail {
    /// `req_…`.
    pub request_id: String,
    /// When the source received it.
    pub received_at: Timestamp,
    /// The headers in their order, each exactly as received.
    pub headers: Vec<(String, HeaderText)>,
    /// Bytes of the whole body.
    pub body_bytes: u64,
    /// More pieces follow.
    pub more: bool,
}

/// A header's value: mostly a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeaderText {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes {
        /// Base64 on the wire.
        #[serde(serialize_with = "write_bytes", deserialize_with = "read_bytes")]
        base64: Bytes,
    },
}

impl HeaderText {
    /// The value as it is on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes { base64 } => base64,
        }
    }
}

impl From<&[u8]> for HeaderText {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes { base64: Bytes::copy_from_slice(bytes) },
        }
    }
}

/// One delivery of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveryFrame {
    /// Of the delivery on this connection.
    pub id: i64,
    /// Where it goes.
    pub destination: DestinationFrame,
    /// From 1.
    pub attempt_number: u32,
    /// The destination's URL. What follows the source's URL is added to it.
    pub url: String,
    /// What only [`PROTOCOL`] has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restante: Option<DeliveryDetail>,
}

/// The destination of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationFrame {
    /// Of the destination on this connection.
    pub id: i64,
    /// The client adds the request's key as `X-Adal-Idempotency`.
    pub add_idempotency_key: bool,
}

/// What [`PROTOCOL`] tells of a delivery besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryDetail {
    /// `dlv_…`.
    pub delivery_id: String,
    /// `dst_…`.
    pub destination_id: String,
    /// Most attempts that count.
    pub attempts_max: u32,
    /// For the local service's response head.
    pub timeout_ms: u64,
}

/// A further piece of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyFrame {
    /// Of the request on this connection.
    pub id: i64,
    /// Base64 on the wire.
    #[serde(serialize_with = "write_bytes", deserialize_with = "read_bytes")]
    pub body: Bytes,
    /// More pieces follow.
    pub more: bool,
}

/// An attempt that is called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelFrame {
    /// Of the delivery on this connection.
    pub delivery_id: i64,
}

/// An attempt that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckFrame {
    /// Of the delivery on this connection.
    pub delivery_id: i64,
    /// From 1.
    pub attempt_number: u32,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultFrame {
    /// Of the delivery on this connection.
    pub delivery_id: i64,
    /// Of its destination on this connection.
    pub destination_id: i64,
    /// Where it went.
    pub url: String,
    /// From 1.
    pub attempt_number: u32,
    /// How it ended.
    pub status: ResultStatus,
    /// Of the local service's response, if there was one. What no status can be is read as 0.
    #[serde(default, deserialize_with = "read_status")]
    pub response_code: Option<u16>,
    /// [`INVALID_URL`], [`NETWORK_ERROR`], [`TIMEOUT`], or none.
    pub message: Option<String>,
    /// In microseconds.
    pub delivery_duration: u64,
    /// What went wrong, for people. Only from clients of [`PROTOCOL`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How an attempt ended for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// The local service answered with a 2xx.
    Success,
    /// Anything else.
    Failed,
}

/// The client's word for a target that is no URL.
pub const INVALID_URL: &str = "invalid_url";
/// The client's word for a local service that does not answer.
pub const NETWORK_ERROR: &str = "network_error";

/// The word of clients of [`PROTOCOL`] for a local service that has not answered in time.
pub const TIMEOUT: &str = "timeout";

/// A frame that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a frame is not of the shape it should have: {0}")]
pub struct NotAFrame(String);

impl From<serde_json::Error> for NotAFrame {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// Looks at the type of a frame, and leaves the rest.
#[derive(Deserialize)]
struct Typed {
    r#type: Option<String>,
}

fn kind(bytes: &[u8]) -> Result<Option<String>, NotAFrame> {
    // A list would pass for a struct.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(NotAFrame("it is no object".to_owned()));
    }
    let Typed { r#type: kind } = serde_json::from_slice(bytes)?;
    Ok(kind)
}

#[derive(Serialize)]
struct Tagged<'a, T> {
    r#type: &'a str,
    #[serde(flatten)]
    frame: &'a T,
}

fn write(kind: &str, frame: &impl Serialize) -> Vec<u8> {
    let written = serde_json::to_vec(&Tagged { r#type: kind, frame });
    written.expect("frames are made of texts and numbers")
}

impl ToClient {
    /// The bytes of the frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            // Without a type: clients of the first protocol know no other frames.
            Self::Request(frame) => serde_json::to_vec(frame).expect("frames are made of texts and numbers"),
            Self::Body(frame) => write("body", frame),
            Self::Cancel(frame) => write("cancel", frame),
        }
    }

    /// Reads a frame; `None` for one of a type that is not known: a newer server's.
    ///
    /// # Errors
    /// [`NotAFrame`].
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, NotAFrame> {
        let kind = kind(bytes)?;
        Ok(match kind.as_deref() {
            None | Some("request") => Some(Self::Request(serde_json::from_slice(bytes)?)),
            Some("body") => Some(Self::Body(serde_json::from_slice(bytes)?)),
            Some("cancel") => Some(Self::Cancel(serde_json::from_slice(bytes)?)),
            Some(_) => None,
        })
    }
}

impl ToServer {
    /// The bytes of the frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Ack(frame) => write("ack", frame),
            Self::Result(frame) => serde_json::to_vec(frame).expect("frames are made of texts and numbers"),
        }
    }

    /// Reads a frame; `None` for one of a type that is not known: a newer client's.
    ///
    /// # Errors
    /// [`NotAFrame`].
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, NotAFrame> {
        let kind = kind(bytes)?;
        Ok(match kind.as_deref() {
            None | Some("result") => Some(Self::Result(serde_json::from_slice(bytes)?)),
            Some("ack") => Some(Self::Ack(serde_json::from_slice(bytes)?)),
            Some(_) => None,
        })
    }
}

fn write_bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(bytes))
}

fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    // Clients of the first protocol write an empty body as null.
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    BASE64.decode(text.as_bytes()).map(Into::into).map_err(serde::de::Error::custom)
}

/// An odd status spoils one result, and not the connection.
fn read_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let code = Option::<i64>::deserialize(deserializer)?;
    Ok(code.map(|code| u16::try_from(code).ok().filter(|code| (100..=599).contains(code)).unwrap_or(0)))
}

fn write_key<S: Serializer>(key: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(key))
}

fn read_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
    let bytes = read_bytes(deserializer)?;
    bytes.as_ref().try_into().map_err(|_| serde::de::Error::custom("a key has 16 bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn request() -> RequestFrame {
        RequestFrame {
            id: 7,
            method: "POST".to_owned(),
            uri: "/orders?x=1".to_owned(),
            headers: BTreeMap::from([("X-A".to_owned(), vec!["1".to_owned(), "2".to_owned()])]),
            body: Bytes::from_static(b"\x00\xffhi"),
            idempotency_key: [0xab; 16],
            deliveries: vec![DeliveryFrame {
                id: 9,
                destination: DestinationFrame { id: 3, add_idempotency_key: true },
                attempt_number: 2,
                url: "http://localhost:3000/hook".to_owned(),
                restante: None,
            }],
            restante: None,
        }
    }

    #[test]
    fn the_first_protocol_is_written_as_its_clients_read_it() {
        let written: Value =
            serde_json::from_slice(&ToClient::Request(Box::new(request())).to_bytes()).unwrap();
        let expected = json!({
            "id": 7,
            "method": "POST",
            "uri": "/orders?x=1",
            "headers": {"X-A": ["1", "2"]},
            "body": "AP9oaQ==",
            "idempotency_key": "q6urq6urq6urq6urq6urqw==",
            "deliveries": [{
                "id": 9,
                "destination": {"id": 3, "add_idempotency_key": true},
                "attempt_number": 2,
                "url": "http://localhost:3000/hook",
            }],
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn the_first_protocols_results_are_read() {
        let bytes = br#"{"delivery_id":9,"destination_id":3,"url":"http://localhost:3000/hook/orders?x=1",
            "attempt_number":2,"status":"failed","response_code":null,"message":"network_error",
            "delivery_duration":1532}"#;
        let Some(ToServer::Result(result)) = ToServer::read(bytes).unwrap() else { panic!("not a result") };
        assert_eq!((result.delivery_id, result.attempt_number), (9, 2));
        assert_eq!((result.status, result.response_code), (ResultStatus::Failed, None));
        assert_eq!(result.message.as_deref(), Some(NETWORK_ERROR));
        assert_eq!((result.delivery_duration, result.detail), (1532, None));
        for odd in ["99999", "-1", "0", "600"] {
            let bytes = String::from_utf8(bytes.to_vec()).unwrap().replace("null,", &format!("{odd},"));
            let Some(ToServer::Result(result)) = ToServer::read(bytes.as_bytes()).unwrap() else {
                panic!("{odd}")
            };
            assert_eq!(result.response_code, Some(0), "{odd}");
        }
    }

    #[test]
    fn every_frame_is_read_as_it_was_written() {
        let mut full = request();
        full.restante = Some(RequestDetail {
            request_id: "req_1".to_owned(),
            received_at: Timestamp::from_millis(1_795_994_381_007),
            headers: vec![
                ("X-A".to_owned(), HeaderText::from(&b"1"[..])),
                ("x-b".to_owned(), HeaderText::from(&b"\xff"[..])),
            ],
            body_bytes: 4,
            more: true,
        });
        full.deliveries[0].restante = Some(DeliveryDetail {
            delivery_id: "dlv_1".to_owned(),
            destination_id: "dst_1".to_owned(),
            attempts_max: 5,
            timeout_ms: 30_000,
        });
        let body = BodyFrame { id: 7, body: Bytes::from_static(b"more"), more: false };
        for frame in [
            ToClient::Request(Box::new(request())),
            ToClient::Request(Box::new(full)),
            ToClient::Body(body),
            ToClient::Cancel(CancelFrame { delivery_id: 9 }),
        ] {
            assert_eq!(ToClient::read(&frame.to_bytes()).unwrap(), Some(frame));
        }
        let frame = ToServer::Ack(AckFrame { delivery_id: 9, attempt_number: 2 });
        assert_eq!(ToServer::read(&frame.to_bytes()).unwrap(), Some(frame));
    }

    #[test]
    fn what_is_newer_is_passed_over_and_garbage_is_told() {
        assert_eq!(ToClient::read(br#"{"type":"weather","rain":true}"#).unwrap(), None);
        assert_eq!(ToServer::read(br#"{"type":"weather"}"#).unwrap(), None);
        for garbage in
            ["", "{", "[]", r#"["weather"]"#, "1", r#"{"type":1}"#, r#"{"id":"x"}"#, r#"{"type":"ack"}"#]
        {
            assert!(ToServer::read(garbage.as_bytes()).is_err(), "{garbage}");
            assert!(ToClient::read(garbage.as_bytes()).is_err() || garbage.contains("ack"), "{garbage}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (ToClient::read(&bytes), ToServer::read(&bytes));
        }

        #[test]
        fn bodies_and_headers_come_out_as_they_went_in(
            body in prop::collection::vec(any::<u8>(), 0..2000),
            value in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let text = HeaderText::from(value.as_slice());
            let again: HeaderText = serde_json::from_str(&serde_json::to_string(&text).unwrap()).unwrap();
            prop_assert_eq!(again.as_bytes(), value.as_slice());
            let frame = ToClient::Body(BodyFrame { id: 1, body: body.into(), more: true });
            prop_assert_eq!(ToClient::read(&frame.to_bytes()).unwrap(), Some(frame));
        }
    }
}
