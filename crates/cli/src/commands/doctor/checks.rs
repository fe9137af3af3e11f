//! What a doctor looks at, once there is a server.

use std::time::Duration;

use restante_sdk::Timestamp;
use restante_sdk::blocking::Client;
use restante_sdk::wire::{PrivateTargets, Scope, Server};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::Finding;
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

/// Whether the key counts and what it may do, whose workspace it acts in, and what the server lets targets be.
pub(super) fn key(client: &Client) -> Vec<Finding> {
    let server = match client.system().server().wait() {
        Ok(server) => server,
        Err(error) => return vec![Finding::failed("key", &error)],
    };
    let key = &server.key;
    let scopes: Vec<&str> = key.scopes.iter().map(Scope::as_str).collect();
    let may = format!("{} mode; {} ({}), scopes {}", key.mode, key.name, key.id, scopes.join(" "));
    vec![Finding::ok("key", may), workspace(client, &server.workspace_id), targets(&server)]
}

fn workspace(client: &Client, id: &str) -> Finding {
    match client.workspace().get().wait() {
        Ok(workspace) => Finding::ok("workspace", format!("{} ({})", workspace.name, workspace.id)),
        // The key may not see more of it, and need not.
        Err(error) if error.status() == Some(403) => Finding::ok("workspace", id.to_owned()),
        Err(error) => Finding::failed("workspace", &error),
    }
}

fn targets(server: &Server) -> Finding {
    let addresses = match &server.private_targets {
        PrivateTargets::None => "public addresses only",
        PrivateTargets::Some => "public addresses, and private ones that are listed",
        PrivateTargets::All => "any address",
        other @ (PrivateTargets::Other(_) | _) => other.as_str(),
    };
    let schemes = if server.http_targets { "https and http" } else { "https only" };
    let message = format!("{addresses}, {schemes}");
    if server.private_targets == PrivateTargets::All || server.http_targets {
        let hint = "fine for development; elsewhere unset RESTANTE_ALLOW_PRIVATE_TARGETS and RESTANTE_ALLOW_HTTP_TARGETS";
        return Finding::warn("targets", message, hint);
    }
    Finding::ok("targets", message)
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
