//! What a doctor looks at, once there is a server.

use std::time::Duration;

use restante_sdk::Timestamp;
use restante_sdk::blocking::Client;
use restante_sdk::wire::{ApiKey, Paging, Scope};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::Finding;
use crate::connection::Settled;
use crate::exit;
use crate::times::span;

/// By so much the clock of a receiver of webhooks may differ from that of their sender.
const SKEW_MAX: Duration = Duration::from_secs(300);
/// A date in a header has no parts of a second, and took its time.
const SKEW_UNSURE: Duration = Duration::from_secs(2);
/// From here on a difference is worth a word.
const SKEW_WORTH_TELLING: Duration = Duration::from_secs(30);

/// The store answers, and the disk has room.
pub(super) fn ready(client: &Client) -> Finding {
    match client.system().ready().wait() {
        Ok(_) => Finding::ok("ready", "its store answers and its disk has room".to_owned()),
        Err(error) if error.code() == Some("not_ready") => {
            let hint = match error.message().contains("disk") {
                true => "make room on its disk; RESTANTE_DISK_FREE_BYTES is what it wants free",
                false => "its log says why; what it has acknowledged is kept",
            };
            Finding::fail("ready", error.message().to_owned(), hint, exit::RUNTIME)
        }
        Err(error) => Finding::failed("ready", &error),
    }
}

/// Client and server are made for each other.
pub(super) fn version(client: &Client) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    let described = client.system().openapi().wait();
    let theirs = described.ok().and_then(|json| json.read::<Value>().ok());
    let theirs = theirs.as_ref().and_then(|json| json.pointer("/info/version")).and_then(Value::as_str);
    match theirs {
        Some(theirs) if theirs == own => Finding::ok("version", format!("{own}, as this command")),
        Some(theirs) => Finding::warn(
            "version",
            format!("{theirs}, and this command is {own}"),
            "what one of them does not know is left out",
        ),
        None => Finding::warn("version", "it does not tell".to_owned(), "is this a server of Restante?"),
    }
}

/// By how much our clocks differ.
pub(super) fn clock(date: Option<&str>, now: Timestamp) -> Finding {
    let theirs = date.and_then(|date| OffsetDateTime::parse(date, &Rfc2822).ok());
    let Some(theirs) = theirs else {
        return Finding::warn(
            "clock",
            "the server does not tell its time".to_owned(),
            "compare them yourself",
        );
    };
    let theirs = Timestamp::from_millis(theirs.unix_timestamp().saturating_mul(1000));
    let (behind, ahead) = (theirs.since(now), now.since(theirs));
    let (skew, how) = if behind > ahead { (behind, "behind") } else { (ahead, "ahead of") };
    if skew < SKEW_UNSURE {
        return Finding::ok("clock", "like the server's".to_owned());
    }
    let message = format!("this machine's is {} {how} the server's", span(skew));
    let hint = "set both by NTP: receivers refuse webhooks whose time is more than 5 min off";
    match skew {
        skew if skew >= SKEW_MAX => Finding::fail("clock", message, hint, exit::RUNTIME),
        skew if skew >= SKEW_WORTH_TELLING => Finding::warn("clock", message, hint),
        _ => Finding::ok("clock", message),
    }
}

/// Whether the key counts, whose it is, and what it may do.
pub(super) fn key(client: &Client, settled: &Settled) -> Vec<Finding> {
    let workspace = match client.workspace().get().wait() {
        Ok(workspace) => Finding::ok("workspace", format!("{} ({})", workspace.name, workspace.id)),
        Err(error) if error.status() == Some(403) => Finding::warn(
            "workspace",
            "the key may not see it".to_owned(),
            "this needs the scope workspace:read; other commands may work",
        ),
        Err(error) if error.status() == Some(401) => return vec![Finding::failed("key", &error)],
        Err(error) => Finding::failed("workspace", &error),
    };
    let token = settled.api_key.as_ref().map(|key| key.text.as_str()).unwrap_or_default();
    let mode = if token.starts_with("rst_test_") { "test" } else { "live" };
    vec![Finding::ok("key", format!("{mode} mode; {}", scopes(client, token, mode))), workspace]
}

/// What the key may do: keys are listed without their tokens, so its end must tell it.
fn scopes(client: &Client, token: &str, mode: &str) -> String {
    let unknown = || "what it may do is told only to keys with the scope keys:manage".to_owned();
    let keys: Result<Vec<ApiKey>, _> = client.keys().list(&Paging::default()).items().collect();
    let Ok(keys) = keys else { return unknown() };
    let is_ours =
        |key: &&ApiKey| token.ends_with(&key.last4) && key.mode.as_str() == mode && key.revoked_at.is_none();
    let ours: Vec<&ApiKey> = keys.iter().filter(is_ours).collect();
    match ours[..] {
        [key] => {
            let scopes: Vec<&str> = key.scopes.iter().map(Scope::as_str).collect();
            format!("{} ({}), scopes {}", key.name, key.id, scopes.join(" "))
        }
        // Another workspace's, or several that end alike.
        _ => "it counts, and is not told apart from others".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn clocks_may_differ_by_a_little() {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        let table = [
            ("Mon, 30 Nov 2026 12:00:00 GMT", State::Ok, "like the server's"),
            ("Mon, 30 Nov 2026 11:59:59 GMT", State::Ok, "like the server's"),
            ("Mon, 30 Nov 2026 11:59:50 GMT", State::Ok, "this machine's is 10 s ahead of the server's"),
            ("Mon, 30 Nov 2026 12:01:00 GMT", State::Warn, "this machine's is 1 min behind the server's"),
            ("Mon, 30 Nov 2026 12:05:00 GMT", State::Fail, "this machine's is 5 min behind the server's"),
            ("Mon, 30 Nov 2026 09:00:00 GMT", State::Fail, "this machine's is 3 h ahead of the server's"),
            ("yesterday", State::Warn, "the server does not tell its time"),
        ];
        for (date, state, message) in table {
            let finding = clock(Some(date), now);
            assert_eq!((finding.state, finding.message.as_str()), (state, message), "{date}");
        }
    }
}
