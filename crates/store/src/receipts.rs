//! What an idempotency key remembers: the events of its call, as bytes.

use restante_core::id::{Id, Key};

use crate::EventReceipt;
use crate::email::Item;

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

/// What stands before the items of a call that sent emails: no receipts of events begin with it, for an id's first byte
/// is that of a time.
const ITEMS: u8 = 0xff;

/// The items of a call that sent emails: `0xff`, then for each a length (four bytes) and so many bytes: an id behind a
/// one, or what the caller was told behind a zero.
pub(crate) fn write_items(items: &[Item]) -> Vec<u8> {
    let mut bytes = vec![ITEMS];
    for item in items {
        let mut entry = Vec::new();
        match item {
            Ok(id) => {
                entry.push(1);
                entry.extend_from_slice(&id.uuid().to_be_bytes());
            }
            Err(told) => {
                entry.push(0);
                entry.extend_from_slice(told.as_bytes());
            }
        }
        bytes.extend_from_slice(&u32::try_from(entry.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&entry);
    }
    bytes
}

pub(crate) fn read_items(bytes: &[u8]) -> Option<Vec<Item>> {
    let (mark, mut rest) = bytes.split_first()?;
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let (entry, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        items.push(match entry.split_first() {
            Some((0, told)) => Err(String::from_utf8(told.to_vec()).ok()?),
            Some((1, id)) => Ok(Id::from_uuid(u128::from_be_bytes(id.try_into().ok()?))),
            Some(_) | None => return None,
        });
        rest = behind;
    }
    Some(items).filter(|_| *mark == ITEMS)
}

/// The messages that a key stands for.
pub(crate) fn messages_of(answer: &[u8]) -> Vec<Key> {
    if answer.first() == Some(&ITEMS) {
        let items = read_items(answer).unwrap_or_default();
        return items.into_iter().flatten().map(|id| id.key()).collect();
    }
    read_receipts(answer).unwrap_or_default().iter().map(|receipt| receipt.id.key()).collect()
}

#[cfg(test)]
mod tests {
    use restante_core::id::{EmailId, EventId, Tail};

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
        assert_eq!(messages_of(&write_receipts(&events)), [Key::from_value(1), Key::from_value(900)]);
    }

    #[test]
    fn items_come_back() {
        let id = EmailId::new(Key::from_value(5), Tail::from_bits(7));
        let items = [Ok(id), Err("{\"code\":\"x\"}".to_owned()), Err(String::new())];
        let kept = write_items(&items);
        assert_eq!(read_items(&kept).unwrap(), items);
        assert_eq!(messages_of(&kept), [Key::from_value(5)]);
        for damaged in [&[][..], &[1], &kept[..kept.len() - 1]] {
            assert_eq!(read_items(damaged), None, "{damaged:?}");
        }
    }
}
