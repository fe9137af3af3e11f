//! `restante requests`: what sources have received.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::blocking::Client;
use restante_sdk::wire::{ListRequests, Request, RequestState};

use super::lookup::source_id_of;
use super::timeline::delivery;
use super::{Act, Session, tail, words};
use crate::confirm::Yes;
use crate::detail::Detail;
use crate::exit;
use crate::output::{self, hinted};
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, harmless, number, text};
use crate::times::{Moment, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List requests, newest first
    List {
        /// To this source: its name or id
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Received at this time or later: a time, or 15m, 2h, 7d ago
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        since: Option<Moment>,
        /// Received at this time or earlier
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        until: Option<Moment>,
        /// Whose deliveries sum up to this
        #[arg(long, value_parser = words::request_state())]
        state: Option<RequestState>,
        /// With this method
        #[arg(long)]
        method: Option<String>,
        /// With this in the path
        #[arg(long, value_name = "TEXT")]
        path: Option<String>,
        /// With this in the body; of the last 24 hours, or of at most 7 days that --since and --until name
        #[arg(long)]
        text: Option<String>,
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one: its headers, and each delivery with its attempts
    Get {
        /// Its id, req_…
        request: String,
    },
    /// Get its body, byte by byte as received
    Body {
        /// Its id, req_…
        request: String,
        /// Write it to this file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Follow requests and their deliveries as they happen; Ctrl-C ends it
    Tail {
        /// Only of this source: its name or id
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
    },
    /// Replay one: a copy goes to the destinations of now, for one credit
    Replay {
        /// Its id, req_…
        request: String,
    },
    /// Delete one for good, with its deliveries and attempts
    Delete {
        /// Its id, req_…
        request: String,
        #[command(flatten)]
        yes: Yes,
    },
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let requests = client.requests();
        match self {
            Self::List { source, since, until, state, method, path, text, paged } => {
                let wanted = ListRequests {
                    source: source_id_of(client, source.as_deref())?,
                    since: since.map(|since| since.on(show.now)),
                    until: until.map(|until| until.on(show.now)),
                    state,
                    method,
                    path,
                    text,
                    limit: paged.page_items(),
                    ..ListRequests::default()
                };
                show.list(paged, requests.list(&wanted))
            }
            Self::Get { request } => show.one(&requests.get(&request).wait()?),
            Self::Body { request, output } => body(client, &request, output),
            Self::Tail { source } => tail::follow(client, *show, source_id_of(client, source.as_deref())?),
            Self::Replay { request } => show.did("replayed as", &requests.replay(&request).wait()?),
            Self::Delete { request, yes } => {
                yes.confirm(&format!("delete the request {request} for good"))?;
                requests.delete(&request).wait()?;
                show.gone("deleted", &request)
            }
        }
    }
}

/// A stranger's bytes are written to files and pipes as they are, and to a terminal only if they cannot steer it.
fn body(client: &Client, request: &str, file: Option<PathBuf>) -> anyhow::Result<()> {
    let body = client.requests().get_body(request).wait()?;
    if let Some(path) = file {
        return std::fs::write(&path, &body).with_context(|| format!("cannot write {}", path.display()));
    }
    if std::io::stdout().is_terminal() {
        let text = std::str::from_utf8(&body).ok();
        let plain = text.filter(|text| {
            text.lines().all(|line| harmless(line.trim_end_matches('\r')) == line.replace('\r', ""))
        });
        let Some(text) = plain else {
            let what = format!("the body is {} bytes that are no plain text", body.len());
            return Err(hinted(what, "pipe it, or write it to a file: --output FILE", exit::RUNTIME));
        };
        return output::line(text.trim_end_matches('\n'));
    }
    output::bytes(&body)
}

/// What sets a request apart from an ordinary one.
pub(super) fn remark(request: &Request) -> Option<&'static str> {
    match request {
        Request { rejected: true, .. } => Some("rejected"),
        Request { duplicate_of: Some(_), .. } => Some("duplicate"),
        Request { replay_of: Some(_), .. } => Some("replay"),
        _ => None,
    }
}

impl Shown for Request {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("received"),
        column("state"),
        column("remark"),
        column("method"),
        number("bytes"),
        text("path"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(relative(self.received_at, now)),
            Cell::state(self.state.as_str()),
            remark(self).map_or_else(|| Cell::maybe(None::<&str>), Cell::state),
            Cell::new(&self.method),
            Cell::new(self.body_bytes.to_string()),
            Cell::new(target(self)),
        ]
    }

    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        detail.fields(self, &["headers", "deliveries"])?;
        if let Some(headers) = &self.headers {
            detail.heading("Headers");
            for (name, value) in headers {
                detail.line(format!("  {}: {}", harmless(name), harmless(value)));
            }
        }
        let deliveries = self.deliveries.as_deref().unwrap_or_default();
        deliveries.iter().for_each(|one| delivery(detail, one));
        if deliveries.is_empty() {
            detail.heading(match self {
                Self { rejected: true, .. } => "No deliveries: it was rejected",
                Self { duplicate_of: Some(_), .. } => "No deliveries: it is a repeat",
                _ => "No deliveries: its source had no destination for it",
            });
        }
        Ok(())
    }
}

/// Path and query.
pub(super) fn target(request: &Request) -> String {
    let path = if request.path.is_empty() { "/" } else { &request.path };
    match &request.query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}
