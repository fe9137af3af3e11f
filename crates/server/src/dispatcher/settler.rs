//! From the channel back to the store: results are brought until the store has them, then logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use restante_store::{Finished, Lease, Parcel, Store};
use tokio::sync::mpsc;

use super::STORE_PAUSE;
use crate::clock::Clock;
use crate::telemetry::{Attempted, Channel, Metrics};
use crate::trace::Tracer;

/// Most attempts in one settle.
const SETTLE_MAX: usize = 512;

/// What a lease came to.
pub(super) enum Done {
    Attempted(Box<Report>),
    /// It never dialled.
    Released(Vec<Lease>),
}

/// A finished attempt with what its log line and its span say.
pub(super) struct Report {
    pub(super) finished: Finished,
    pub(super) parcel: Parcel,
    pub(super) channel: Channel,
    /// By the steady clock.
    pub(super) took: Duration,
}

/// Brings results to the store until it has them.
pub(super) struct Settler {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) unsettled: Arc<AtomicUsize>,
}

impl Settler {
    pub(super) async fn run(self, mut done: mpsc::UnboundedReceiver<Done>) {
        let mut batch = Vec::new();
        while done.recv_many(&mut batch, SETTLE_MAX).await > 0 {
            let taken = batch.len();
            let (mut reports, mut leases) = (Vec::new(), Vec::new());
            for one in batch.drain(..) {
                match one {
                    Done::Attempted(report) => reports.push(*report),
                    Done::Released(released) => leases.extend(released),
                }
            }
            if !reports.is_empty() {
                self.settle(reports).await;
            }
            if !leases.is_empty() {
                self.release(leases).await;
            }
            self.unsettled.fetch_sub(taken, Ordering::AcqRel);
        }
    }

    async fn settle(&self, reports: Vec<Report>) {
        let finished: Vec<Finished> = reports.iter().map(|report| report.finished.clone()).collect();
        let mut pause = STORE_PAUSE.0;
        let settled = loop {
            match self.store.settle(finished.clone()).await {
                Ok(settled) => break settled,
                Err(error) => {
                    tracing::warn!(error.message = %error, "results cannot be recorded yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(STORE_PAUSE.1);
                }
            }
        };
        for (report, settled) in reports.iter().zip(&settled) {
            self.metrics.settled(settled);
            let attempted = Attempted::new(&report.parcel, &report.finished.attempt, settled, report.channel);
            attempted.log();
            if let Some(tracer) = &self.tracer {
                tracer.attempted(&attempted, report.channel, report.took);
            }
        }
    }

    async fn release(&self, leases: Vec<Lease>) {
        let mut pause = STORE_PAUSE.0;
        while let Err(error) = self.store.release(leases.clone(), self.clock.now()).await {
            tracing::warn!(error.message = %error, "leases cannot be given back yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(STORE_PAUSE.1);
        }
    }
}
