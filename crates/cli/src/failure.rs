//! What a failed call means at the command line: one line, one hint, one exit code.

use restante_sdk::{Error, ErrorKind};

use crate::exit;
use crate::table::harmless;

/// What a person is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) line: String,
    pub(crate) hint: String,
    pub(crate) code: u8,
}

/// What to say of a call that failed.
pub(crate) fn told(error: &Error) -> Told {
    Told { line: line(error), hint: hint(error), code: code(error) }
}

/// What is wrong, where, and how the server's log names it.
fn line(error: &Error) -> String {
    let mut line = error.message().to_owned();
    let others = error.details().iter().skip(1).map(|it| format!("; {}: {}", it.param, it.message));
    line.extend(others);
    let answered = error.status().map(|status| match error.code() {
        Some(code) => format!("{status} {code}"),
        None => status.to_string(),
    });
    let mut about: Vec<String> = answered.into_iter().collect();
    about.extend(error.request_id().map(|id| format!("request {id}")));
    if error.attempts() > 1 {
        about.push(format!("{} tries", error.attempts()));
    }
    if !about.is_empty() {
        line.push_str(&format!(" ({})", about.join(", ")));
    }
    harmless(&line)
}

/// No whole answer came.
fn is_lost(error: &Error) -> bool {
    [ErrorKind::Network, ErrorKind::Timeout].contains(&error.kind())
}

fn code(error: &Error) -> u8 {
    if is_lost(error) {
        return exit::NETWORK;
    }
    if error.kind() == ErrorKind::Invalid {
        return exit::USAGE;
    }
    match (error.status(), error.code()) {
        (Some(401 | 403), _) => exit::AUTH,
        (Some(404), _) => exit::NOT_FOUND,
        (Some(409), _) | (Some(422), Some("idempotency_key_reuse")) => exit::CONFLICT,
        (Some(400 | 413 | 422), _) => exit::USAGE,
        _ => exit::RUNTIME,
    }
}

fn hint(error: &Error) -> String {
    let (noun, verb) = error.call().split_once('.').unwrap_or((error.call(), ""));
    if is_lost(error) {
        let unsure = error.attempts() > 0 && !error.message().starts_with("no connection");
        return match error.idempotency_key() {
            Some(key) if unsure => {
                format!(
                    "whether it was sent is not known; the same command with --idempotency-key {key} tells"
                )
            }
            _ => "is the server running, and is its URL right? restante doctor tells".to_owned(),
        };
    }
    if error.kind() == ErrorKind::Answer {
        return "restante doctor tells whether this is a server of this version".to_owned();
    }
    match (error.status(), error.code().unwrap_or_default()) {
        (Some(401), _) => "restante doctor shows which key is used, and from where".to_owned(),
        (Some(403), "insufficient_scope") => match error.message().rsplit_once(' ') {
            Some((_, scope)) => format!("restante keys create NAME --scope {scope} makes a key that may"),
            None => "restante doctor shows what the key may do".to_owned(),
        },
        (Some(403), "domain_not_verified") => {
            "restante domains create NAME, set its records, restante domains verify ID".to_owned()
        }
        (Some(403), _) => "restante doctor shows what the key may do".to_owned(),
        (Some(402), _) => "restante credits shows what they were used for".to_owned(),
        (Some(404), _) => missing(noun),
        (Some(409 | 429), code) => in_the_way(noun, code, error.retry_after_seconds()),
        (Some(422), "idempotency_key_reuse") => {
            "another --idempotency-key sends this; the first command, unchanged, tells what became of that"
                .to_owned()
        }
        (None | Some(400 | 413 | 422), _) => match error.param() {
            Some(param) => format!("restante {} --help says what {param} takes", command(noun, verb)),
            None => format!("restante {} --help says what it takes", command(noun, verb)),
        },
        (Some(500..), _) => "restante doctor tells how the server is; its log has the request".to_owned(),
        _ => "restante doctor looks at settings, server and key".to_owned(),
    }
}

/// Where to look for what is not there.
fn missing(noun: &str) -> String {
    match noun {
        "destinations" => "restante destinations list --source NAME shows those there are".to_owned(),
        "workspace" | "workspaces" => "--workspace and RESTANTE_WORKSPACE name the workspace".to_owned(),
        _ => format!("restante {noun} list shows those there are; what has expired is gone"),
    }
}

fn in_the_way(noun: &str, code: &str, retry_after_seconds: Option<f64>) -> String {
    match code {
        "name_taken" => format!("choose another name; restante {noun} list shows those taken"),
        "webhook_paused" => "restante webhooks resume ID, and repeat this".to_owned(),
        "webhook_replay_quota_exceeded" => {
            "the quota is new at midnight UTC; restante webhooks replays ID shows those of today".to_owned()
        }
        "too_many_secrets" => "each old secret ends 24 hours after it was replaced".to_owned(),
        "destination_deleted" | "source_deleted" => {
            "restante requests body ID gets what was received; it can be sent to another source".to_owned()
        }
        "not_retryable" => "restante deliveries get ID shows how it stands".to_owned(),
        "not_cancellable" | "not_changeable" => format!("restante {noun} get ID shows how it stands"),
        "limit_reached" => format!("delete some; restante {noun} list shows those there are"),
        _ => match retry_after_seconds {
            Some(seconds) => format!("repeat this in {seconds} s"),
            None => format!("restante {noun} get ID shows how it stands"),
        },
    }
}

/// The command that makes a call.
fn command(noun: &str, verb: &str) -> String {
    match (noun, verb) {
        ("emails", "send") => "send email".to_owned(),
        ("events", "publish") => "send event".to_owned(),
        ("webhooks", "list_attempts") => "webhooks attempts".to_owned(),
        ("webhooks", "list_deliveries") => "webhooks deliveries".to_owned(),
        ("workspace", "get_credits") => "credits".to_owned(),
        ("stream", "follow") => "requests tail".to_owned(),
        _ => format!("{noun} {}", verb.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_next_command() {
        let table = [
            (missing("sources"), "restante sources list shows those there are; what has expired is gone"),
            (
                in_the_way("sources", "name_taken", None),
                "choose another name; restante sources list shows those taken",
            ),
            (in_the_way("emails", "not_cancellable", None), "restante emails get ID shows how it stands"),
            (in_the_way("requests", "too_many", Some(3.0)), "repeat this in 3 s"),
            (command("emails", "send"), "send email"),
            (command("sources", "rotate_token"), "sources rotate-token"),
        ];
        for (hint, expected) in table {
            assert_eq!(hint, expected);
        }
    }
}
