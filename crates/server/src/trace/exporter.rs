//! From the queue to the collector: many spans in one call, again when it is away, and not for ever.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use restante_core::Outcome;
use tokio::sync::{mpsc, watch};

use super::otlp;
use super::settings::TraceSettings;
use super::span::Span;
use crate::channel::ChannelConfig;
use crate::channel::guard::{PrivateTargets, Rules};
use crate::channel::http::{HttpChannel, Outgoing, SetupFault};
use crate::clock::Clock;
use crate::telemetry::Metrics;
use crate::vault::Secret;

/// Most spans in one call.
const SPANS_PER_EXPORT: usize = 512;
/// How long a span waits for others.
const EXPORT_EVERY: Duration = Duration::from_secs(1);
/// For the collector to answer.
const EXPORT_TIME: Duration = Duration::from_secs(10);
/// How often a call is made at most, and the wait behind the first, which doubles.
const TRIES: u32 = 5;
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// Brings spans to the collector.
pub(super) struct Exporter {
    channel: HttpChannel,
    url: Secret,
    headers: Vec<(HeaderName, HeaderValue)>,
    resource: Vec<u8>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    waiting: mpsc::Receiver<Span>,
    /// Turns true when the server stops: what waits is sent at once, and tried once.
    stopping: watch::Receiver<bool>,
}

/// What became of a call.
enum Told {
    Taken,
    /// The collector may take it later.
    Later(String),
    /// It never will.
    Refused(String),
}

impl Exporter {
    /// # Errors
    /// `SetupFault` when the file of extra certificates cannot be used.
    pub(super) fn new(
        settings: &TraceSettings,
        extra_ca_file: Option<&Path>,
        clock: &Arc<dyn Clock>,
        metrics: &Arc<Metrics>,
        waiting: mpsc::Receiver<Span>,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, SetupFault> {
        // The operator named it, wherever it is; what anybody may have us dial is another matter.
        let rules = Rules { private_targets: PrivateTargets::All, http_targets: true };
        let channel = ChannelConfig { rules, extra_ca_file: extra_ca_file.map(Path::to_owned) };
        let mut headers = settings.headers.clone();
        headers.push((CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf")));
        Ok(Self {
            channel: HttpChannel::new(&channel)?,
            url: settings.url.clone(),
            headers,
            resource: otlp::resource(&settings.resource),
            clock: Arc::clone(clock),
            metrics: Arc::clone(metrics),
            waiting,
            stopping,
        })
    }

    /// Exports until the server stops, and then what still waits.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(SPANS_PER_EXPORT);
        let mut well = true;
        while self.gather(&mut batch).await {
            let fault = self.export(&batch).await;
            if let Some(fault) = &fault {
                self.metrics.spans_dropped(batch.len() as u64);
                if well {
                    tracing::warn!(error.message = %fault, "spans cannot be exported and are dropped");
                }
            } else if !well {
                tracing::info!("spans are exported again");
            }
            well = fault.is_none();
            batch.clear();
        }
    }

    /// Waits for spans and then a moment for more. False: none will come.
    async fn gather(&mut self, batch: &mut Vec<Span>) -> bool {
        let mut stopping = self.stopping.clone();
        let full = async {
            if self.waiting.recv_many(batch, SPANS_PER_EXPORT).await == 0 {
                return;
            }
            let more = async {
                while batch.len() < SPANS_PER_EXPORT {
                    let room = SPANS_PER_EXPORT - batch.len();
                    if self.waiting.recv_many(batch, room).await == 0 {
                        return;
                    }
                }
            };
            // That the time is up is as good as a full batch.
            let _ = tokio::time::timeout(EXPORT_EVERY, more).await;
        };
        let stop = tokio::select! {
            () = full => false,
            _ = stopping.wait_for(|stop| *stop) => true,
        };
        if stop {
            self.waiting.close();
            while batch.len() < SPANS_PER_EXPORT {
                let Ok(span) = self.waiting.try_recv() else { break };
                batch.push(span);
            }
        }
        !batch.is_empty()
    }

    /// Makes the call until it is taken, given up or refused; what went wrong.
    async fn export(&self, batch: &[Span]) -> Option<String> {
        let body = Bytes::from(otlp::request(&self.resource, batch));
        let mut stopping = self.stopping.clone();
        let mut wait = RETRY_WAIT;
        for attempt in 1..=TRIES {
            match self.call(body.clone()).await {
                Told::Taken => return None,
                Told::Refused(fault) => return Some(fault),
                Told::Later(fault) if attempt == TRIES || *self.stopping.borrow() => return Some(fault),
                Told::Later(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stopping.wait_for(|stop| *stop) => {}
            }
            wait *= 2;
        }
        None
    }

    async fn call(&self, body: Bytes) -> Told {
        let outgoing = Outgoing {
            url: self.url.expose().to_owned(),
            method: Method::POST,
            headers: self.headers.clone(),
            body,
            timeout: EXPORT_TIME,
        };
        match self.channel.send(outgoing, || self.clock.now()).await {
            Outcome::Delivered { .. } => Told::Taken,
            Outcome::Failed(failure) | Outcome::Refused(failure) | Outcome::Uncertain(failure) => {
                match failure.status {
                    // OTLP/HTTP names those that pass; without a status no answer came.
                    None | Some(429 | 502 | 503 | 504) => Told::Later(failure.message),
                    Some(_) => Told::Refused(failure.message),
                }
            }
            Outcome::Lost => Told::Refused("lost".into()),
        }
    }
}
