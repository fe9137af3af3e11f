//! `restante requests tail`: what happens, as it happens.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use restante_sdk::blocking::Client;
use restante_sdk::wire::{Delivery, FollowStream, ListRequests, Request, StreamEvent};
use restante_sdk::{Error, Timestamp};

use super::requests::{remark, target};
use super::timeline::stands;
use crate::exit;
use crate::output;
use crate::paint::Tone;
use crate::show::{Show, Shown};
use crate::table::harmless;
use crate::times::{clock, relative, took};

/// Between tries to connect again; the last one is repeated.
const WAITS_SECONDS: [u64; 5] = [1, 2, 4, 8, 15];
/// Requests and deliveries that are remembered, to show none twice.
const REMEMBERED_MAX: usize = 10_000;

/// Follows until Ctrl-C.
///
/// # Errors
/// The first connection fails, or the server does not let us follow.
pub(super) fn follow(client: &Client, show: Show, source: Option<String>) -> anyhow::Result<()> {
    exit_at_ctrl_c()?;
    let wanted = FollowStream { source };
    let mut tail = Tail {
        client,
        show,
        source: wanted.source.clone(),
        seen: HashSet::new(),
        latest: None,
        said: HashMap::new(),
    };
    let (mut connected_once, mut failures) = (false, 0);
    tell(&show, "connecting");
    tail.begin()?;
    loop {
        let live = client.stream().follow(&wanted).wait();
        let why = match live.and_then(|live| Ok((live, tail.missed()?))) {
            Ok((live, missed)) => {
                failures = 0;
                tell(&show, if connected_once { "connected again" } else { "connected; Ctrl-C ends it" });
                connected_once = true;
                missed.iter().rev().try_for_each(|request| tail.request(request))?;
                tail.show_all(live)?
            }
            Err(error) if !connected_once || is_final(&error) => return Err(error.into()),
            Err(error) => error.message().to_owned(),
        };
        let wait = WAITS_SECONDS[failures.min(WAITS_SECONDS.len() - 1)];
        failures += 1;
        tell(&show, &format!("not connected: {why}; next try in {wait} s"));
        std::thread::sleep(Duration::from_secs(wait));
    }
}

/// The key does not count any more, or the source is gone.
fn is_final(error: &Error) -> bool {
    error.status().is_some_and(|status| (400..500).contains(&status) && status != 429)
}

fn tell(show: &Show, text: &str) {
    if !show.flags.quiet {
        output::talk(text);
    }
}

fn exit_at_ctrl_c() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let wait = move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            std::process::exit(exit::INTERRUPTED.into());
        }
    };
    std::thread::Builder::new().name("restante-ctrl-c".to_owned()).spawn(wait)?;
    Ok(())
}

struct Tail<'a> {
    client: &'a Client,
    show: Show,
    source: Option<String>,
    seen: HashSet<String>,
    /// When the newest request so far was received, seen or from before; `None`: there was none.
    latest: Option<Timestamp>,
    /// What was last said of a delivery: a change may be told twice.
    said: HashMap<String, String>,
}

impl Tail<'_> {
    /// Shows what comes until the stream ends; gives why.
    fn show_all(&mut self, live: restante_sdk::client::Live<Client>) -> anyhow::Result<String> {
        for event in live {
            match event {
                Ok(StreamEvent::Request(request)) => self.request(&request)?,
                Ok(StreamEvent::Delivery(delivery)) if delivery.request_id.is_some() => {
                    self.delivery(&delivery)?
                }
                Ok(StreamEvent::Lagged(lagged)) => {
                    tell(&self.show, &format!("{} changes came too fast to be shown", lagged.missed));
                }
                Ok(_) => {}
                Err(error) => return Ok(error.message().to_owned()),
            }
        }
        Ok("the server has ended the stream".to_owned())
    }

    /// Looks where it begins: what came until now is not shown. By the server's clock, which is that of all requests.
    fn begin(&mut self) -> Result<(), Error> {
        let wanted = ListRequests { source: self.source.clone(), limit: Some(1), ..ListRequests::default() };
        if let Some(newest) = self.client.requests().list(&wanted).items().next().transpose()? {
            self.latest = Some(newest.received_at);
            self.seen.insert(newest.id);
        }
        Ok(())
    }

    /// Requests that came while there was no connection, newest first.
    fn missed(&self) -> Result<Vec<Request>, Error> {
        let wanted =
            ListRequests { source: self.source.clone(), since: self.latest, ..ListRequests::default() };
        let mut missed = Vec::new();
        for request in self.client.requests().list(&wanted).items() {
            let request = request?;
            if !self.seen.contains(&request.id) {
                missed.push(request);
            }
        }
        Ok(missed)
    }

    fn request(&mut self, request: &Request) -> anyhow::Result<()> {
        if self.seen.len() >= REMEMBERED_MAX {
            self.seen.clear();
        }
        if !self.seen.insert(request.id.clone()) {
            return Ok(());
        }
        self.latest = self.latest.max(Some(request.received_at));
        if !self.show.for_people() {
            return self.show.one(request);
        }
        let remark = remark(request).map(|remark| format!("  {remark}")).unwrap_or_default();
        output::line(&format!(
            "{}  request   {}  {} {}  {} bytes{remark}",
            clock(request.received_at),
            request.id(),
            harmless(&request.method),
            harmless(&target(request)),
            request.body_bytes,
        ))
    }

    fn delivery(&mut self, delivery: &Delivery) -> anyhow::Result<()> {
        if !self.show.for_people() {
            return self.show.one(delivery);
        }
        let last = delivery.attempts.iter().flatten().next_back();
        let now = last.map_or(delivery.created_at, |attempt| {
            attempt.started_at.after(Duration::from_millis(attempt.duration_ms.unwrap_or(0)))
        });
        let mut line = format!(
            "{}  delivery  {}  {}",
            clock(now),
            delivery.id,
            self.show.paint.tone(Tone::of(delivery.state.as_str()), &stands(delivery))
        );
        if let Some(attempt) = last {
            let status = attempt.response_status_code.map(|code| code.to_string());
            let kind = attempt.error_kind.as_ref().map(|kind| kind.as_str().to_owned());
            let answer = status.or(kind).unwrap_or_else(|| "in flight".to_owned());
            line.push_str(&format!("  attempt {} of {}: {answer}", attempt.number, delivery.attempts_max));
            line.extend(attempt.duration_ms.map(|ms| format!(" after {}", took(ms))));
        }
        line.extend(delivery.next_attempt_at.map(|at| format!("  next {}", relative(at, now))));
        line.extend(delivery.request_id.as_ref().map(|id| format!("  of {id}")));
        if self.said.len() >= REMEMBERED_MAX {
            self.said.clear();
        }
        if self.said.insert(delivery.id.clone(), line.clone()).as_ref() == Some(&line) {
            return Ok(());
        }
        output::line(&line)
    }
}
