//! Traces: what happened to a message from its intake to its last attempt, told to a collector in OTLP.
//!
//! The trace of a message is its id. Both have 128 bits, so each node knows the trace of an attempt, and the span that
//! the attempt hangs on, without asking anybody: an attempt may be made days after the intake and on another machine,
//! and a stored context would cost every message bytes for what few look at. Whether a trace is kept is decided by
//! the id's random bits, so all nodes decide alike, and a trace is whole or not there.
//!
//! For the same reason a caller's `traceparent` is not where a message's trace begins. A webhook's sender is a stranger:
//! what it sends becomes a link. Whoever calls the API with a key is not: the span of the call hangs on the caller's,
//! and each message the call made has a trace of its own that is linked with it.
//!
//! Nothing waits for this. A span is put into a queue; when that is full it is dropped and counted.

mod attempt;
mod call;
mod context;
mod exporter;
mod intake;
mod otlp;
mod sampler;
mod settings;
mod span;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use restante_core::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::channel::http::SetupFault;
use crate::clock::Clock;
use crate::telemetry::Metrics;
use exporter::Exporter;
use span::Span;

pub(crate) use call::Call;
pub(crate) use intake::Intake;
pub use settings::TraceSettings;
pub(crate) use settings::{Unusable, VARIABLES};

/// Most spans that wait to be exported; with what they carry, some ten megabytes.
const SPANS_WAITING_MAX: usize = 16_384;

/// Makes spans and hands them to the exporter.
pub(crate) struct Tracer {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    sampler: sampler::Sampler,
    queue: mpsc::Sender<Span>,
    stop: watch::Sender<bool>,
    exporter: Mutex<Option<JoinHandle<()>>>,
}

/// A moment by both clocks: spans begin by the time of day, and what follows is measured from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    pub(crate) monotonic: Duration,
}

impl Moment {
    /// Nanoseconds since 1970 when the steady clock showed `monotonic`.
    fn nanos(self, monotonic: Duration) -> u64 {
        let at = u64::try_from(self.at.millis()).unwrap_or(0).saturating_mul(1_000_000);
        let since = monotonic.saturating_sub(self.monotonic).as_nanos();
        at.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

impl Tracer {
    /// Starts to export on the given runtime thread.
    ///
    /// # Errors
    /// `SetupFault` when the file of extra certificates cannot be used.
    pub(crate) fn start(
        settings: &TraceSettings,
        extra_ca_file: Option<&Path>,
        clock: &Arc<dyn Clock>,
        metrics: &Arc<Metrics>,
        handle: &Handle,
    ) -> Result<Arc<Self>, SetupFault> {
        let (queue, waiting) = mpsc::channel(SPANS_WAITING_MAX);
        let (stop, stopping) = watch::channel(false);
        let exporter = Exporter::new(settings, extra_ca_file, clock, metrics, waiting, stopping)?;
        Ok(Arc::new(Self {
            clock: Arc::clone(clock),
            metrics: Arc::clone(metrics),
            sampler: settings.sampler,
            queue,
            stop,
            exporter: Mutex::new(Some(handle.spawn(exporter.run()))),
        }))
    }

    /// Exports what waits, for so long at most. What comes later is dropped.
    pub(crate) async fn stop(&self, time: Duration) {
        self.stop.send_replace(true);
        let Some(exporter) = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let abort = exporter.abort_handle();
        if tokio::time::timeout(time, exporter).await.is_err() {
            abort.abort();
            tracing::warn!("the last spans are not exported");
        }
    }

    fn now(&self) -> Moment {
        Moment { at: self.clock.now(), monotonic: self.clock.monotonic() }
    }

    fn put(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.metrics.spans_dropped(1);
        }
    }

    /// A number for a span or half a trace; 0 stands for none.
    fn draw(&self) -> u64 {
        self.clock.draw().max(1)
    }
}
