//! What an idempotency key remembers: the events of its call, as bytes.

use restante_core::id::Id;

use crate::EventReceipt;

/// Bytes of one event in `idempotency.events`: its id and how many deliveries it has.
const RECEIPT_BYTES: usize = 16 + 4;

pub(crate) fn write_receipts(events: &[EventReceipt]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(events.len() * RECEIPT_BYTES);
    for event in events {
        bytes.extend_from_slice(&event.id.uuid().to_be_bytes());
        bytes.extend_from_slice(&event.deliveries.to_be_bytes());
    }
    bytes
}

pub(crate) fn read_receipts(bytes: &[u8]) -> Option<Vec<EventReceipt>> {
    let (receipts, rest) = bytes.as_chunks::<RECEIPT_BYTES>();
    let read = |receipt: &[u8; RECEIPT_BYTES]| {
        let (id, deliveries) = receipt.split_first_chunk::<16>()?;
        Some(EventReceipt {
            id: Id::from_uuid(u128::from_be_bytes(*id)),
            deliveries: u32::from_be_bytes(*deliveries.first_chunk::<4>()?),
        })
    };
    receipts.iter().map(read).collect::<Option<Vec<_>>>().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use restante_core::id::{EventId, Key, Tail};

    use super::*;

    #[test]
    fn receipts_come_back() {
        let receipt = |n: i64| EventReceipt {
            id: EventId::new(Key::from_value(n), Tail::from_bits(7)),
            deliveries: n as u32,
        };
        let events = [receipt(1), receipt(900)];
        assert_eq!(read_receipts(&write_receipts(&events)).unwrap(), events);
        assert_eq!(read_receipts(&[0; 21]), None);
    }
}
