//! Identifiers: a prefix that names the kind, and a UUIDv7.
//!
//! The UUID is made of a **key** and a **tail**. The key, 42 bits of milliseconds and a 21-bit counter, is what
//! databases sort and join by: eight bytes that rise with time. The tail is 53 random bits that make an id hard
//! to guess. Both lie where RFC 9562 puts the timestamp, `rand_a` and `rand_b`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use crate::Timestamp;

const COUNTER_BITS: u32 = 21;
/// The upper bits of the counter that tell nodes apart where several make keys.
const SLOT_BITS: u32 = 6;
const SLOT_SHIFT: u32 = COUNTER_BITS - SLOT_BITS;
/// So many nodes may make keys for one database at the same time.
pub const SLOTS: u16 = 1 << SLOT_BITS;
const TAIL_BITS: u32 = 53;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Most characters before the underscore.
const PREFIX_CHARS_MAX: usize = 7;
/// Characters behind the underscore.
const TEXT_CHARS: usize = 26;

/// What a prefix stands for.
pub trait Kind: 'static + Clone + PartialEq + fmt::Debug {
    const PREFIX: &'static str;
    const NOUN: &'static str;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $alias:ident, $prefix:literal, $noun:literal;)*) => {
        /// The kinds of identifier, as types.
        pub mod kind {
            $( $(#[$doc])* #[derive(Debug, Clone, PartialEq)] pub enum $name {}
               impl super::Kind for $name { const PREFIX: &'static str = $prefix; const NOUN: &'static str = $noun; } )*
        }
        $( $(#[$doc])* pub type $alias = Id<kind::$name>; )*
    };
}

kinds! {
    /// A tenant.
    Workspace, WorkspaceId, "ws", "workspace";
    /// A permanent URL that receives webhooks.
    Source, SourceId, "src", "source";
    /// A receiver of one source.
    Destination, DestinationId, "dst", "destination";
    /// A message received by a source.
    Request, RequestId, "req", "request";
    /// A customer's endpoint, subscribed to event types.
    Webhook, WebhookId, "whk", "webhook";
    /// A message published to webhooks.
    Event, EventId, "whe", "event";
    /// One message to one endpoint.
    Delivery, DeliveryId, "dlv", "delivery";
    /// One try of a delivery.
    Attempt, AttemptId, "att", "attempt";
    /// A credential.
    ApiKey, ApiKeyId, "key", "key";
    /// A piece of work done in the background.
    Replay, ReplayId, "rpl", "replay";
    /// Something that a workspace's owners are told.
    Notice, NoticeId, "ntc", "notice";
    /// A message to mailboxes.
    Email, EmailId, "em", "email";
    /// Somebody an email goes to.
    Recipient, RecipientId, "er", "recipient";
    /// The mailboxes of one domain.
    Mailboxes, MailboxesId, "mbx", "receiving domain";
    /// A domain that mail is sent from.
    Domain, DomainId, "dom", "domain";
    /// What emails are made from.
    Template, TemplateId, "tpl", "template";
    /// A template as it was at one time.
    TemplateVersion, TemplateVersionId, "tpv", "template version";
    /// A mailbox that gets nothing.
    Suppression, SuppressionId, "sup", "suppression";
    /// One change of a credit balance.
    Charge, ChargeId, "chg", "ledger entry";
}

/// The part of an id that databases sort and join by. Positive; rises with time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(i64);

impl Key {
    /// The first key of a millisecond.
    pub const fn first_at(at: Timestamp) -> Self {
        Self(at.millis() << COUNTER_BITS)
    }

    /// A key read back from where [`Key::value`] was stored.
    pub const fn from_value(value: i64) -> Self {
        Self(value)
    }

    pub const fn value(self) -> i64 {
        self.0
    }

    /// The key `n` further on.
    #[must_use]
    pub const fn plus(self, n: i64) -> Self {
        Self(self.0 + n)
    }

    /// The millisecond the key was made in.
    pub const fn at(self) -> Timestamp {
        Timestamp::from_millis(self.0 >> COUNTER_BITS)
    }
}

/// The random part of an id, 53 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tail(u64);

impl Tail {
    /// The lower 53 of 64 random bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << TAIL_BITS) - 1))
    }

    pub const fn value(self) -> u64 {
        self.0
    }

    /// A different tail for the `n`th of several ids that share a key.
    #[must_use]
    pub const fn nth(self, n: u32) -> Self {
        Self::from_bits(self.0.wrapping_add(n as u64))
    }
}

/// Hands out keys that rise, whatever the clock does.
#[derive(Debug)]
pub struct KeyMaker {
    next: i64,
    /// The part of every millisecond that is this maker's; `None`: all of it.
    slot: Option<u16>,
}

impl KeyMaker {
    /// Continues behind `last`, the highest key known to be used.
    pub const fn after(last: Option<Key>) -> Self {
        Self {
            next: match last {
                Some(Key(last)) => last + 1,
                None => 0,
            },
            slot: None,
        }
    }

    /// Hands out keys that no maker with another slot hands out. `slot` lies below [`SLOTS`].
    pub const fn in_slot(slot: u16) -> Self {
        Self { next: 0, slot: Some(slot % SLOTS) }
    }

    /// The first of `count` consecutive keys: at `now`, or behind the last one when the clock stands or went back.
    /// In a slot, `count` is at most what a millisecond of it holds, 32,768.
    pub fn take(&mut self, now: Timestamp, count: u32) -> Key {
        let count = i64::from(count);
        let Some(slot) = self.slot else {
            let first = self.next.max(Key::first_at(now).0);
            self.next = first + count;
            return Key(first);
        };
        let part = |millis: i64| (millis << COUNTER_BITS) | (i64::from(slot) << SLOT_SHIFT);
        let mut first = self.next.max(part(now.millis()));
        // A run that would leave its part of the millisecond moves to the next one.
        if (first + count - 1) >> SLOT_SHIFT != part(first >> COUNTER_BITS) >> SLOT_SHIFT {
            first = part((first >> COUNTER_BITS) + 1);
        }
        self.next = first + count;
        Key(first)
    }

    /// Makes all further keys those of `at` or later.
    pub fn skip_to(&mut self, at: Timestamp) {
        let offset = self.slot.map_or(0, |slot| i64::from(slot) << SLOT_SHIFT);
        self.next = self.next.max(Key::first_at(at).0 | offset);
    }
}

/// An identifier of one kind. On the wire `req_` and 26 characters of lower-case Crockford base32.
pub struct Id<K> {
    uuid: u128,
    kind: PhantomData<fn() -> K>,
}

/// A text that is no id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {noun} id: expected {prefix}_ and 26 characters of 0-9 a-z without i, l, o, u")]
pub struct NotAnId {
    noun: &'static str,
    prefix: &'static str,
}

impl<K: Kind> Id<K> {
    pub const fn new(key: Key, tail: Tail) -> Self {
        let key = key.0 as u128;
        let millis = key >> COUNTER_BITS;
        let counter = key & ((1 << COUNTER_BITS) - 1);
        let uuid = (millis << 80)
            | (7 << 76)
            | ((counter >> 9) << 64)
            | (0b10 << 62)
            | ((counter & 0x1ff) << TAIL_BITS)
            | tail.0 as u128;
        Self { uuid, kind: PhantomData }
    }

    /// An id read back from where [`Id::uuid`] was stored.
    pub const fn from_uuid(uuid: u128) -> Self {
        Self { uuid, kind: PhantomData }
    }

    pub const fn uuid(self) -> u128 {
        self.uuid
    }

    /// The key in the id. An id that somebody made up may have a key that was never handed out.
    pub const fn key(self) -> Key {
        let millis = (self.uuid >> 80) as i64 & ((1 << 42) - 1);
        let counter = (((self.uuid >> 64) as i64 & 0xfff) << 9) | ((self.uuid >> TAIL_BITS) as i64 & 0x1ff);
        Key((millis << COUNTER_BITS) | counter)
    }

    pub const fn tail(self) -> Tail {
        Tail::from_bits(self.uuid as u64)
    }

    /// The UUID in its usual form, 8-4-4-4-12 hexadecimal digits.
    pub fn hyphenated(self) -> String {
        // By hand: every attempt at a destination carries one.
        let mut text = *b"00000000-0000-0000-0000-000000000000";
        let places = text.iter_mut().rev().filter(|place| **place != b'-');
        for (index, place) in places.enumerate() {
            *place = HEX[(self.uuid >> (4 * index)) as usize & 15];
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written at once: ids are written more often than anything else.
        let mut text = [0u8; PREFIX_CHARS_MAX + 1 + TEXT_CHARS];
        let prefix = K::PREFIX.as_bytes();
        text[..prefix.len()].copy_from_slice(prefix);
        text[prefix.len()] = b'_';
        let end = prefix.len() + 1 + TEXT_CHARS;
        // Twelve digits at a time: shifts of 128 bits cost several times as much.
        let digits = text[prefix.len() + 1..end].rchunks_mut(12);
        for (digits, shift) in digits.zip([0, 60, 120]) {
            let mut bits = (self.uuid >> shift) as u64;
            for char in digits.iter_mut().rev() {
                *char = ALPHABET[bits as usize & 31];
                bits >>= 5;
            }
        }
        f.write_str(std::str::from_utf8(&text[..end]).map_err(|_| fmt::Error)?)
    }
}

impl<K: Kind> FromStr for Id<K> {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let fault = NotAnId { noun: K::NOUN, prefix: K::PREFIX };
        let Some(digits) = text.strip_prefix(K::PREFIX).and_then(|rest| rest.strip_prefix('_')) else {
            return Err(fault);
        };
        // 26 digits hold 130 bits; a first digit above 7 would not fit into 128.
        if digits.len() != TEXT_CHARS || digits.as_bytes()[0] > b'7' {
            return Err(fault);
        }
        let mut uuid = 0u128;
        for char in digits.bytes() {
            let digit = ALPHABET.iter().position(|known| *known == char).ok_or_else(|| fault.clone())?;
            uuid = (uuid << 5) | digit as u128;
        }
        let id = Self::from_uuid(uuid);
        // Only what `new` makes is an id: anything else would alias one with other version or variant bits.
        if Self::new(id.key(), id.tail()).uuid == uuid { Ok(id) } else { Err(fault) }
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.uuid.cmp(&other.uuid)
    }
}
impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uuid.hash(state);
    }
}
impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K: Kind> serde::Serialize for Id<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, K: Kind> serde::Deserialize<'de> for Id<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_7_with_its_prefix() {
        let id =
            RequestId::new(Key::first_at(Timestamp::from_millis(1_796_080_781_007)), Tail::from_bits(0x1234));
        let hyphenated = id.hyphenated();
        assert_eq!(&hyphenated[14..15], "7");
        assert!("89ab".contains(&hyphenated[19..20]));
        assert_eq!(u64::from_str_radix(&hyphenated.replace('-', "")[..12], 16), Ok(1_796_080_781_007));
        let text = id.to_string();
        assert_eq!((text.len(), &text[..4]), (30, "req_"));
    }

    #[test]
    fn what_is_no_id_of_the_kind_is_refused() {
        let good = RequestId::new(Key::first_at(Timestamp::from_millis(1)), Tail::from_bits(9)).to_string();
        assert!(good.parse::<RequestId>().is_ok());
        let long = format!("{good}0");
        let other = good.replace("req_", "dlv_");
        let upper = good.to_uppercase();
        for bad in [
            "",
            "req_",
            "req",
            &good[..29],
            &long,
            &other,
            &upper,
            "req_ééééééééééééé",
            "req_zzzzzzzzzzzzzzzzzzzzzzzzzz",
        ] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn makers_with_different_slots_never_make_the_same_key() {
        let at = |millis| Timestamp::from_millis(millis);
        let mut keys = [0, 1, 63].map(|slot| (slot, KeyMaker::in_slot(slot)));
        let mut seen = std::collections::BTreeSet::new();
        for step in 0..200 {
            // The clock stands, runs and goes back; runs fill the slot to its end.
            let now = at([1000, 1000, 1001, 900][step % 4] + step as i64 / 50);
            for (slot, maker) in &mut keys {
                let count = [1, 1000, 32_768][step % 3];
                let first = maker.take(now, count);
                for key in [first, first.plus(i64::from(count) - 1)] {
                    assert_eq!((key.value() >> SLOT_SHIFT) & 63, i64::from(*slot), "within its part");
                }
                assert!(seen.insert((*slot, first.value())));
                assert!(seen.iter().filter(|(other, _)| other == slot).all(|(_, key)| *key <= first.value()));
            }
        }
    }

    #[test]
    fn a_slot_of_a_millisecond_is_used_up_before_the_next_begins() {
        let mut keys = KeyMaker::in_slot(5);
        let now = Timestamp::from_millis(7);
        let made = [keys.take(now, 32_767), keys.take(now, 1), keys.take(now, 1), keys.take(now, 32_768)];
        assert_eq!(made.map(|key| key.at().millis()), [7, 7, 8, 9]);
        keys.skip_to(Timestamp::from_millis(50));
        assert_eq!(keys.take(now, 1).at().millis(), 50);
    }

    #[test]
    fn keys_rise_when_the_clock_stands_or_goes_back() {
        let mut keys = KeyMaker::after(None);
        let at = |millis| Timestamp::from_millis(millis);
        let made =
            [keys.take(at(100), 3), keys.take(at(100), 1), keys.take(at(50), 2), keys.take(at(101), 1)];
        assert_eq!(made.map(|key| key.at().millis()), [100, 100, 100, 101]);
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(made[1], made[0].plus(3));
    }

    proptest::proptest! {
        #[test]
        fn key_and_tail_survive_the_text(key in 0i64..i64::MAX, tail: u64) {
            let id = DeliveryId::new(Key::from_value(key), Tail::from_bits(tail));
            let read: DeliveryId = id.to_string().parse().unwrap();
            proptest::prop_assert_eq!(read, id);
            proptest::prop_assert_eq!((read.key().value(), read.tail()), (key, Tail::from_bits(tail)));
        }

        #[test]
        fn ids_sort_like_their_keys_also_as_text(a in 0i64..i64::MAX, b in 0i64..i64::MAX, tail: u64) {
            let id = |key| DeliveryId::new(Key::from_value(key), Tail::from_bits(tail));
            proptest::prop_assert_eq!(a.cmp(&b), id(a).cmp(&id(b)));
            proptest::prop_assert_eq!(a.cmp(&b), id(a).to_string().cmp(&id(b).to_string()));
        }
    }
}
