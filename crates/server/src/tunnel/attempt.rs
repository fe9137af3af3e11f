//! One attempt through a client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use restante_core::endpoint::{Destination, IdempotencyHeader};
use restante_core::id::{DestinationId, RequestId};
use restante_core::message::Received;
use restante_core::outcome::Failure;
use restante_core::{FailureKind, Outcome};
use restante_sdk::tunnel::{
    DeliveryDetail, DeliveryFrame, DestinationFrame, FRAME_BYTES_MAX, HeaderText, INVALID_URL, RequestDetail,
    RequestFrame, ResultFrame, ResultStatus, TIMEOUT, ToClient,
};
use restante_store::Lease;
use tokio::sync::mpsc;

use super::client::{Client, Frame, News, Written};
use super::{GRACE, Protocol, Seat};

/// What is handed to a client for one attempt.
pub(crate) struct Handover<'a> {
    pub(crate) lease: Lease,
    pub(crate) request: RequestId,
    pub(crate) received: &'a Received,
    pub(crate) destination: &'a Destination,
    pub(crate) destination_id: DestinationId,
    /// Header lines that go on, as received, and those that the destination sets.
    pub(crate) headers: Vec<(String, Bytes)>,
    pub(crate) timeout: Duration,
}

/// How many bytes a frame has beside its body and headers, at most.
const FRAME_MARGIN: usize = 64;

impl Seat {
    /// Makes an attempt. Dropping this gives it up.
    pub(crate) async fn attempt(self, handover: Handover<'_>) -> Outcome {
        let client = Arc::clone(&self.client);
        let delivery = client.number();
        let frame = handover.frame(delivery, client.number(), client.protocol);
        let body = &handover.received.body;
        let content = match client.protocol {
            Protocol::V1 => Written::Pieces(Box::new(frame), body.clone()),
            Protocol::First => {
                let bytes =
                    ToClient::Request(Box::new(RequestFrame { body: body.clone(), ..frame })).to_bytes();
                if bytes.len() + FRAME_MARGIN > FRAME_BYTES_MAX {
                    return too_large(bytes.len());
                }
                Written::Whole(bytes.into())
            }
        };
        let attempt = handover.lease.attempt;
        let Some(news) = client.hand_over(self, attempt, Frame { delivery, content }) else {
            return Outcome::Lost;
        };
        let mut interest = Interest { client: &client, delivery, over: false };
        let outcome = follow(news, client.protocol, handover.timeout + GRACE).await;
        interest.over = matches!(outcome, Followed::Ended(_));
        match outcome {
            Followed::Ended(outcome) => outcome,
            // It has not reached anything, as far as can be known.
            Followed::NotBegun => {
                if client.protocol == Protocol::V1 {
                    client.doubt.notify_one();
                }
                Outcome::Lost
            }
            Followed::TimeUp => {
                let message = format!("the client has not answered within {} s", handover.timeout.as_secs());
                Outcome::failed(FailureKind::Timeout, message)
            }
        }
    }
}

/// Somebody waits for the result. The client is told when that ends without one.
struct Interest<'a> {
    client: &'a Client,
    delivery: i64,
    over: bool,
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.client.give_up(self.delivery);
        }
    }
}

/// How an attempt went.
enum Followed {
    Ended(Outcome),
    /// The time is up, and the client has not begun.
    NotBegun,
    /// The time is up, and the client has begun.
    TimeUp,
}

/// What became of an attempt.
async fn follow(mut news: mpsc::UnboundedReceiver<News>, protocol: Protocol, time: Duration) -> Followed {
    let mut begun = false;
    let ended = async {
        while let Some(news) = news.recv().await {
            match news {
                News::Written => begun |= protocol == Protocol::First,
                News::Ack => begun = true,
                News::Result(result) => return judge(&result),
                // The fault is ours, whatever has arrived.
                News::Stopped => return Outcome::Lost,
            }
        }
        // Before it begins, the fault is ours.
        if begun {
            Outcome::failed(FailureKind::Network, "the connection to the client was lost")
        } else {
            Outcome::Lost
        }
    };
    match tokio::time::timeout(time, ended).await {
        Ok(outcome) => Followed::Ended(outcome),
        Err(_) if begun => Followed::TimeUp,
        Err(_) => Followed::NotBegun,
    }
}

fn too_large(bytes: usize) -> Outcome {
    let message = format!(
        "the request makes a frame of {bytes} bytes, and this client reads at most {FRAME_BYTES_MAX}: `restante listen` \
         takes it"
    );
    Outcome::failed(FailureKind::Network, message)
}

/// What a client says became of an attempt, as an outcome.
pub(crate) fn judge(result: &ResultFrame) -> Outcome {
    match (result.status, result.response_code) {
        (ResultStatus::Success, None) => Outcome::Delivered { status: None },
        (_, Some(code)) => Outcome::of_status(code, None),
        (ResultStatus::Failed, None) => {
            let detail = result.detail.as_deref();
            let (kind, message) = match result.message.as_deref() {
                Some(TIMEOUT) => {
                    (FailureKind::Timeout, detail.unwrap_or("the local service has not answered in time"))
                }
                Some(INVALID_URL) => (
                    FailureKind::LocalUnreachable,
                    detail.unwrap_or("the client cannot use the destination's URL"),
                ),
                Some(_) | None => (
                    FailureKind::LocalUnreachable,
                    detail.unwrap_or("the client could not reach its local service"),
                ),
            };
            Outcome::Failed(Failure::new(kind, message))
        }
    }
}

impl Handover<'_> {
    /// The frame, without the body.
    fn frame(&self, delivery: i64, request: i64, protocol: Protocol) -> RequestFrame {
        let received = self.received;
        let v1 = protocol == Protocol::V1;
        let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if !v1 {
            for (name, value) in &self.headers {
                by_name.entry(name.clone()).or_default().push(text(value));
            }
        }
        let list = |(name, value): &(String, Bytes)| (name.clone(), HeaderText::from(value.as_ref()));
        let detail = v1.then(|| RequestDetail {
            request_id: self.request.to_string(),
            received_at: restante_sdk::Timestamp::from_millis(self.request.key().at().millis()),
            headers: self.headers.iter().map(list).collect(),
            body_bytes: received.body.len() as u64,
            more: false,
        });
        RequestFrame {
            id: request,
            method: received.method.clone(),
            uri: uri(received),
            headers: by_name,
            body: Bytes::new(),
            idempotency_key: self.request.uuid().to_be_bytes(),
            deliveries: vec![DeliveryFrame {
                id: delivery,
                destination: DestinationFrame {
                    id: number(self.destination_id),
                    add_idempotency_key: self.destination.idempotency_header == IdempotencyHeader::Standard,
                },
                attempt_number: self.lease.attempt,
                url: self.destination.url.clone(),
                restante: v1.then(|| DeliveryDetail {
                    delivery_id: self.lease.delivery.to_string(),
                    destination_id: self.destination_id.to_string(),
                    attempts_max: self.destination.schedule.attempts_max(),
                    timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
                }),
            }],
            restante: detail,
        }
    }
}

/// A destination as a number that is the same on every connection, and that every client can read.
fn number(destination: DestinationId) -> i64 {
    const EXACT: u128 = (1 << 53) - 1;
    i64::try_from(destination.uuid() & EXACT).unwrap_or_default()
}

/// What followed the source's URL.
fn uri(received: &Received) -> String {
    match &received.query {
        Some(query) => format!("{}?{query}", received.path),
        None => received.path.clone(),
    }
}

/// A header's value as a text: one that is no UTF-8 is read as Latin-1.
fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
    }
}
