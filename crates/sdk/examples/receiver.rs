//! Receives webhooks on 127.0.0.1:4000 and appends them to `events.ndjson`.
//!
//! ```text
//! RESTANTE_WEBHOOK_SECRET=whsec_… cargo run -p restante-sdk --features axum --example receiver
//! ```
//!
//! While secrets are rotated, give both with a space between.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "whoever starts it wants to see how it goes")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{FromRef, State};
use axum::response::IntoResponse;
use axum::routing::post;
use restante_sdk::receiver::axum::{Receiver, Webhook};
use restante_sdk::receiver::{Begun, Deduplicator, Event};
use restante_sdk::signature::{SecretError, Verifier};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const ADDRESS: &str = "127.0.0.1:4000";
const FILE: &str = "events.ndjson";

#[derive(Clone)]
struct App {
    receiver: Receiver,
    events: Events,
}

impl FromRef<App> for Receiver {
    fn from_ref(app: &App) -> Self {
        app.receiver.clone()
    }
}

/// The stored events, one a line, the id with the event: whoever has the one has the other.
#[derive(Clone)]
struct Events(Arc<Mutex<File>>);

#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    r#type: String,
    timestamp: restante_sdk::Timestamp,
    data: Box<RawValue>,
}

impl Events {
    /// Opens the file, and tells `deduplicator` what is in it.
    fn open(path: &Path, deduplicator: &Deduplicator) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        for line in bytes.split(|byte| *byte == b'\n') {
            // A crash may have left half a line. Its event was not acknowledged and comes again.
            let Ok(Line { id, .. }) = serde_json::from_slice(line) else { continue };
            if let Begun::Fresh(ticket) = deduplicator.begin(&id) {
                ticket.commit();
            }
        }
        if bytes.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Returns once the event is on the disk.
    async fn store(&self, event: Event<Box<RawValue>>) -> std::io::Result<()> {
        let Self(file) = self.clone();
        let stored = tokio::task::spawn_blocking(move || {
            let Event { id, event_type, timestamp, data, .. } = event;
            let mut line = serde_json::to_vec(&Line { id, r#type: event_type, timestamp, data })?;
            // Data are kept as written. A line break in them stands between tokens, never in a string.
            line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
            line.push(b'\n');
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes_before = file.metadata()?.len();
            let written = file.write_all(&line).and_then(|()| file.sync_data());
            if written.is_err() {
                // A full disk takes half of a line: the next must not continue it.
                file.set_len(bytes_before)?;
            }
            written
        });
        stored.await?
    }
}

async fn receive(State(app): State<App>, webhook: Webhook<Box<RawValue>>) -> impl IntoResponse {
    // Stored first, then acknowledged. What takes longer reads the file.
    webhook.store(async |event| app.events.store(event).await).await
}

pub(crate) fn verifier(secrets: &str) -> Result<Verifier, SecretError> {
    let mut secrets = secrets.split_ascii_whitespace();
    let first = Verifier::new(secrets.next().unwrap_or_default())?;
    secrets.try_fold(first, |verifier, secret| verifier.and(secret))
}

pub(crate) fn app(verifier: Verifier, path: &Path) -> std::io::Result<Router> {
    let deduplicator = Deduplicator::default();
    let events = Events::open(path, &deduplicator)?;
    let receiver = Receiver::new(verifier, deduplicator);
    Ok(Router::new().route("/", post(receive)).with_state(App { receiver, events }))
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let secrets = std::env::var("RESTANTE_WEBHOOK_SECRET").unwrap_or_default();
    let app = app(verifier(&secrets)?, Path::new(FILE))?;
    let listener = tokio::net::TcpListener::bind(ADDRESS).await?;
    println!("receiving at http://{ADDRESS}/, into {FILE}");
    axum::serve(listener, app).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let Err(fault) = run().await else { return ExitCode::SUCCESS };
    eprintln!("{fault}");
    ExitCode::FAILURE
}
