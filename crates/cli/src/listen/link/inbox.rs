//! Puts requests together from what comes in pieces, and says which deliveries may begin.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use restante_sdk::tunnel::{DeliveryFrame, HeaderText, RequestFrame, ToClient};

/// A request that is there as a whole.
#[derive(Debug, PartialEq)]
pub(crate) struct Whole {
    pub(crate) frame: RequestFrame,
    pub(crate) body: Bytes,
}

impl Whole {
    /// The headers in their order, each exactly as received.
    pub(crate) fn lines(&self) -> Vec<(String, Bytes)> {
        if let Some(detail) = &self.frame.restante {
            let line =
                |(name, text): &(String, HeaderText)| (name.clone(), Bytes::copy_from_slice(text.as_bytes()));
            return detail.headers.iter().map(line).collect();
        }
        let values = self.frame.headers.iter();
        let lines = values.flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
        lines.map(|(name, value)| (name.clone(), Bytes::from(value.clone()))).collect()
    }
}

/// A delivery that may begin.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) request: Arc<Whole>,
    pub(crate) delivery: DeliveryFrame,
}

/// What has come and not begun.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// By the request's id.
    partial: HashMap<i64, (RequestFrame, BytesMut)>,
    /// In the order in which they became whole.
    ready: VecDeque<Work>,
}

impl Inbox {
    /// Takes a frame. Returns a delivery that is called off and is not, or no longer, in here.
    pub(crate) fn take(&mut self, frame: ToClient) -> Option<i64> {
        match frame {
            ToClient::Request(mut frame) => {
                let body = std::mem::take(&mut frame.body);
                if frame.restante.as_ref().is_some_and(|detail| detail.more) {
                    self.partial.insert(frame.id, (*frame, BytesMut::from(body.as_ref())));
                } else {
                    self.whole(*frame, body);
                }
                None
            }
            ToClient::Body(piece) => {
                // A piece of a request whose deliveries were all called off belongs to nothing.
                let (_, body) = self.partial.get_mut(&piece.id)?;
                body.extend_from_slice(&piece.body);
                if !piece.more
                    && let Some((frame, body)) = self.partial.remove(&piece.id)
                {
                    self.whole(frame, body.freeze());
                }
                None
            }
            ToClient::Cancel(cancel) => self.cancel(cancel.delivery_id),
        }
    }

    /// The next delivery that may begin.
    pub(crate) fn next(&mut self) -> Option<Work> {
        self.ready.pop_front()
    }

    /// Forgets everything: the server gives it to somebody else.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn whole(&mut self, mut frame: RequestFrame, body: Bytes) {
        let deliveries = std::mem::take(&mut frame.deliveries);
        let request = Arc::new(Whole { frame, body });
        let work = |delivery| Work { request: Arc::clone(&request), delivery };
        self.ready.extend(deliveries.into_iter().map(work));
    }

    fn cancel(&mut self, delivery_id: i64) -> Option<i64> {
        let before = self.ready.len();
        self.ready.retain(|work| work.delivery.id != delivery_id);
        let mut found = self.ready.len() < before;
        self.partial.retain(|_, (frame, _)| {
            let before = frame.deliveries.len();
            frame.deliveries.retain(|delivery| delivery.id != delivery_id);
            found |= frame.deliveries.len() < before;
            !frame.deliveries.is_empty()
        });
        (!found).then_some(delivery_id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use restante_sdk::Timestamp;
    use restante_sdk::tunnel::{BodyFrame, CancelFrame, DestinationFrame, RequestDetail};

    use super::*;

    fn request(id: i64, body: &'static str, more: bool, deliveries: &[i64]) -> ToClient {
        let delivery = |id: &i64| DeliveryFrame {
            id: *id,
            destination: DestinationFrame { id: 1, add_idempotency_key: false },
            attempt_number: 1,
            url: "http://localhost".to_owned(),
            restante: None,
        };
        ToClient::Request(Box::new(RequestFrame {
            id,
            method: "POST".to_owned(),
            uri: String::new(),
            headers: BTreeMap::from([("a".to_owned(), vec!["1".to_owned(), "2".to_owned()])]),
            body: Bytes::from_static(body.as_bytes()),
            idempotency_key: [0; 16],
            deliveries: deliveries.iter().map(delivery).collect(),
            restante: Some(RequestDetail {
                request_id: "req_1".to_owned(),
                received_at: Timestamp::from_millis(0),
                headers: vec![("B".to_owned(), HeaderText::from(&b"\xff"[..]))],
                body_bytes: 0,
                more,
            }),
        }))
    }

    fn piece(id: i64, body: &'static str, more: bool) -> ToClient {
        ToClient::Body(BodyFrame { id, body: Bytes::from_static(body.as_bytes()), more })
    }

    fn cancel(delivery_id: i64) -> ToClient {
        ToClient::Cancel(CancelFrame { delivery_id })
    }

    fn ready(inbox: &mut Inbox) -> Vec<(i64, Bytes)> {
        let next = std::iter::from_fn(|| inbox.next());
        next.map(|work| (work.delivery.id, work.request.body.clone())).collect()
    }

    #[test]
    fn bodies_of_several_requests_are_put_together_side_by_side() {
        let mut inbox = Inbox::default();
        for frame in [
            request(1, "a", true, &[10, 11]),
            request(2, "x", true, &[20]),
            piece(1, "b", true),
            piece(2, "y", false),
            request(3, "whole", false, &[30]),
            piece(1, "c", false),
            piece(9, "?", false),
        ] {
            assert_eq!(inbox.take(frame), None);
        }
        let expected = [(20, "xy"), (30, "whole"), (10, "abc"), (11, "abc")];
        assert_eq!(ready(&mut inbox), expected.map(|(id, body)| (id, Bytes::from(body))));
        assert!(inbox.partial.is_empty());
    }

    #[test]
    fn what_is_called_off_before_it_begins_is_forgotten() {
        let mut inbox = Inbox::default();
        inbox.take(request(1, "a", true, &[10, 11]));
        inbox.take(request(2, "b", false, &[20]));
        assert_eq!(inbox.take(cancel(20)), None);
        assert_eq!(inbox.take(cancel(10)), None);
        assert_eq!(inbox.take(cancel(99)), Some(99), "it has begun already");
        inbox.take(piece(1, "a", false));
        assert_eq!(ready(&mut inbox), [(11, Bytes::from("aa"))]);
        inbox.take(request(3, "a", true, &[30]));
        inbox.take(cancel(30));
        assert!(inbox.partial.is_empty(), "nobody waits for the rest");
    }

    #[test]
    fn headers_come_as_received_where_the_server_says_so() {
        let mut inbox = Inbox::default();
        inbox.take(request(1, "", false, &[10]));
        let whole = Arc::into_inner(inbox.next().unwrap().request).unwrap();
        assert_eq!(whole.lines(), [("B".to_owned(), Bytes::from_static(b"\xff"))]);
        let plain = Whole { frame: RequestFrame { restante: None, ..whole.frame }, body: whole.body };
        let expected = ["1", "2"].map(|value| ("a".to_owned(), Bytes::from(value)));
        assert_eq!(plain.lines(), expected);
    }
}
