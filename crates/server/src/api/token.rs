//! Secrets that open something: keys of the API and tokens of sources.

use data_encoding::HEXLOWER;
use restante_core::Timestamp;
use restante_core::id::{Key, Tail, WorkspaceId};
use restante_store::record::{ApiKey, Mode, Record, Workspace, Written};
use restante_store::{Page, Start, Store};
use sha2::{Digest, Sha256};

use super::auth::ADMIN;
use crate::clock::Clock;

/// Prefix of keys whose mails go out.
pub const LIVE_PREFIX: &str = "rst_live_";
/// Prefix of keys whose mails are only kept.
pub const TEST_PREFIX: &str = "rst_test_";

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of one 64-bit draw.
const DRAW_CHARS: u32 = 10;
/// Draws of a secret: 40 characters, 238 bits.
const DRAWS: u32 = 4;
/// Shortest key an operator may bring along, in characters.
const GIVEN_CHARS_MIN: usize = 16;

/// Why there is no first key.
#[derive(Debug, thiserror::Error)]
pub enum FirstKeyFault {
    #[error(transparent)]
    Store(#[from] restante_store::Error),
    #[error("RESTANTE_ADMIN_KEY must be at least {GIVEN_CHARS_MIN} visible ASCII characters")]
    Unusable,
}

/// A new key of the API: `prefix` and 40 random characters.
pub fn new_token(clock: &dyn Clock, prefix: &str) -> String {
    format!("{prefix}{}", secret(clock))
}

/// 40 random characters of `0-9A-Za-z`.
pub(crate) fn secret(clock: &dyn Clock) -> String {
    let span = 62u64.pow(DRAW_CHARS);
    let mut text = String::new();
    for _ in 0..DRAWS {
        let mut bits = clock.draw();
        // Draws from the incomplete last span would make some characters likelier.
        while bits >= u64::MAX / span * span {
            bits = clock.draw();
        }
        for _ in 0..DRAW_CHARS {
            text.push(char::from(BASE62[(bits % 62) as usize]));
            bits /= 62;
        }
    }
    text
}

/// SHA-256 of a token in hexadecimal: what is stored of it.
pub(crate) fn hash(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token))
}

/// The record of a key that opens with `token`.
pub(crate) fn api_key(token: &str, name: String, scopes: Vec<String>) -> ApiKey {
    let tail = token.char_indices().rev().nth(3).map_or(0, |(start, _)| start);
    ApiKey {
        name,
        mode: if token.starts_with(TEST_PREFIX) { Mode::Test } else { Mode::Live },
        scopes,
        hash: hash(token),
        last4: token[tail..].to_owned(),
        revoked_at: None,
        last_used_at: None,
    }
}

/// Makes sure that somebody can sign in: the first workspace, and an admin key of it.
///
/// A `given` key is that key. In a store that has another one already it is added, so that a restart with another
/// key lets its holder in. Without a given key one is made up if there is none; only that one is returned.
///
/// # Errors
/// `Unusable` for a given key that is too short or cannot stand in a header. `Store`: call again.
pub async fn first_key(
    store: &dyn Store,
    clock: &dyn Clock,
    given: Option<&str>,
    owner_email: Option<&str>,
) -> Result<Option<String>, FirstKeyFault> {
    let usable = |key: &str| key.len() >= GIVEN_CHARS_MIN && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !given.is_none_or(usable) {
        return Err(FirstKeyFault::Unusable);
    }
    let now = clock.now();
    let workspace = first_workspace(store, clock, owner_email, now).await?;
    let present = match given {
        Some(given) => store.find::<ApiKey>(&hash(given)).await?.is_some(),
        // None at all: an earlier start ended between the workspace and its key.
        None => !store.list::<ApiKey>(Some(workspace), None, Page::newest(1)).await?.items.is_empty(),
    };
    if present {
        return Ok(None);
    }
    let token = given.map_or_else(|| new_token(clock, LIVE_PREFIX), str::to_owned);
    let key = api_key(&token, "First admin key".into(), vec![ADMIN.into()]);
    store.make(Some(workspace), None, key, Tail::from_bits(clock.draw()), now).await?;
    Ok(given.is_none().then_some(token))
}

/// The oldest workspace, made if there is none.
async fn first_workspace(
    store: &dyn Store,
    clock: &dyn Clock,
    owner_email: Option<&str>,
    now: Timestamp,
) -> Result<WorkspaceId, restante_store::Error> {
    if let Some(workspace) = oldest_workspace(store).await? {
        return Ok(workspace);
    }
    let missing = || restante_store::Error::Damaged("the first workspace could not be made".into());
    let owners = owner_email.map(str::to_owned).into_iter().collect();
    let workspace = Workspace { first: true, ..Workspace::new("Default".into(), owners) };
    match store.make(None, None, workspace, Tail::from_bits(clock.draw()), now).await? {
        Written::Done(Record { id, .. }) => Ok(id),
        // By another node that starts at the same time.
        Written::NameTaken => oldest_workspace(store).await?.ok_or_else(missing),
        Written::NotFound | Written::TooMany | Written::Stale => Err(missing()),
    }
}

async fn oldest_workspace(store: &dyn Store) -> Result<Option<WorkspaceId>, restante_store::Error> {
    let oldest = Page { limit: 1, start: Start::Before(Key::from_value(0)), total: false };
    Ok(store.list::<Workspace>(None, None, oldest).await?.items.first().map(|workspace| workspace.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn tokens_are_long_and_differ() {
        let clock = ManualClock::new(Timestamp::from_millis(0), 1);
        let (one, other) = (new_token(&clock, LIVE_PREFIX), new_token(&clock, LIVE_PREFIX));
        assert_ne!(one, other);
        let digits = one.strip_prefix("rst_live_").unwrap();
        assert_eq!(digits.len(), 40);
        assert!(digits.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_key_keeps_a_hash_and_four_characters() {
        let key = api_key("rst_test_abcdef", "n".into(), Vec::new());
        assert_eq!((key.last4.as_str(), key.mode), ("cdef", Mode::Test));
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
