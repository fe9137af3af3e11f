//! `restante doctor`: what is used, whether it works, and what to do where it does not.

mod checks;

use std::time::Duration;

use anyhow::Context;
use restante_sdk::blocking::Client;
use restante_server::clock::{Clock, SystemClock};
use serde::Serialize;

use super::{now, profiles::key_end};
use crate::connection::{self, Settled, Value};
use crate::exit;
use crate::failure;
use crate::output::{self, Ended, Hint};
use crate::paint::Tone;
use crate::show::{self, Show};
use crate::table::harmless;

/// A doctor does not wait long.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    connection: connection::Flags,
    #[command(flatten)]
    show: show::Flags,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Exit code if it is the worst.
    #[serde(skip)]
    code: u8,
}

impl Finding {
    fn ok(check: &'static str, message: String) -> Self {
        Self { check, state: State::Ok, message, hint: None, code: 0 }
    }

    fn warn(check: &'static str, message: String, hint: &str) -> Self {
        Self { check, state: State::Warn, message, hint: Some(hint.to_owned()), code: 0 }
    }

    fn fail(check: &'static str, message: String, hint: &str, code: u8) -> Self {
        Self { check, state: State::Fail, message, hint: Some(hint.to_owned()), code }
    }

    /// A call that failed.
    fn failed(check: &'static str, error: &restante_sdk::Error) -> Self {
        let failure::Told { line, hint, code } = failure::told(error);
        Self::fail(check, line, &hint, code)
    }

    /// Settings that make no client.
    fn refused(check: &'static str, error: &anyhow::Error) -> Self {
        let hint = error.chain().find_map(|cause| cause.downcast_ref::<Hint>());
        let (hint, code) = hint.map_or(("", exit::RUNTIME), |hint| (&hint.text, hint.code));
        Self::fail(check, error.to_string(), hint, code)
    }
}

impl Doctor {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let clock = SystemClock::start();
        let mut round = Round { show: Show::new(self.show, now(&clock)), clock, code: 0 };
        round.look(&self.connection)?;
        match round.code {
            0 => Ok(()),
            code => Err(Ended { code }.into()),
        }
    }
}

/// A look at everything. The first failure that stands in the way of others decides the exit code.
struct Round {
    show: Show,
    clock: SystemClock,
    code: u8,
}

impl Round {
    fn look(&mut self, flags: &connection::Flags) -> anyhow::Result<()> {
        let settled = match flags.settled() {
            Ok(settled) => settled,
            Err(error) => return self.tell(Finding::refused("settings", &error)),
        };
        self.tell(settings(&settled))?;
        // Whether the server lives is told without a key.
        let nobody = Value { text: "none".to_owned(), origin: connection::Origin::Default };
        let with_key = Settled { api_key: settled.api_key.clone().or(Some(nobody)), ..settled.clone() };
        let client = match with_key.impatient_client(TIMEOUT) {
            Ok(client) => client,
            Err(error) => return self.tell(Finding::refused("settings", &error)),
        };
        if !self.reach(&client, &settled)? {
            return Ok(());
        }
        self.tell(checks::ready(&client))?;
        self.tell(checks::version(&client))?;
        if settled.api_key.is_some() {
            for finding in checks::key(&client) {
                self.tell(finding)?;
            }
        }
        Ok(())
    }

    /// Whether there is a server to look at.
    fn reach(&mut self, client: &Client, settled: &Settled) -> anyhow::Result<bool> {
        let url = &settled.url.text;
        let began = self.clock.monotonic();
        let answered = client.request(restante_sdk::Method::GET, "/healthz").wait();
        let took = self.clock.monotonic().saturating_sub(began);
        match answered {
            Ok(answer) => {
                self.tell(Finding::ok("server", format!("{url} answers after {} ms", took.as_millis())))?;
                let date = answer.headers.get("date").and_then(|date| date.to_str().ok());
                self.tell(checks::clock(date, now(&self.clock)))?;
                Ok(true)
            }
            Err(error) => {
                let mut finding = Finding::failed("server", &error);
                finding.message = format!("{url}: {}", finding.message);
                if error.status().is_none() {
                    finding.hint = Some(format!(
                        "start it with restante serve, or name another with --server or RESTANTE_URL; this one is from {}",
                        settled.url.origin
                    ));
                }
                self.tell(finding)?;
                Ok(false)
            }
        }
    }

    fn tell(&mut self, finding: Finding) -> anyhow::Result<()> {
        if self.code == 0 {
            self.code = finding.code;
        }
        if self.show.flags.json {
            return self.show.json(&finding);
        }
        let word = match finding.state {
            State::Ok if self.show.flags.quiet => return Ok(()),
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        };
        let word = self.show.paint.tone(Tone::of(word), &format!("{word:<4}"));
        let mut line = format!("{word}  {:<9} {}", finding.check, harmless(&finding.message));
        if let Some(hint) = &finding.hint {
            line.push_str(&format!("\n      hint: {}", harmless(hint)));
        }
        output::line(&line).context("cannot write")
    }
}

/// Which settings are used, and from where.
fn settings(settled: &Settled) -> Finding {
    let mut parts = vec![format!("server {} (from {})", settled.url.text, settled.url.origin)];
    if let Some(Value { text, origin }) = &settled.api_key {
        parts.push(format!("key {} (from {origin})", key_end(text)));
    }
    if let Some(Value { text, origin }) = &settled.workspace {
        parts.push(format!("workspace {text} (from {origin})"));
    }
    if let Some(Value { text, origin }) = &settled.profile {
        let in_use = matches!(origin, connection::Origin::Profile(_));
        let from = if in_use { "in use".to_owned() } else { format!("from {origin}") };
        parts.push(format!("profile {text} ({from})"));
    }
    let message = parts.join(", ");
    match settled.api_key {
        Some(_) => Finding::ok("settings", message),
        None => Finding::fail(
            "settings",
            format!("{message}; there is no API key"),
            "set RESTANTE_API_KEY, or keep one: restante profiles set NAME --api-key -",
            exit::AUTH,
        ),
    }
}
