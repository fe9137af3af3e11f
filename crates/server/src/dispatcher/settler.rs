//! From the channel back to the store: results are brought until the store has them, then logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use restante_core::Outcome;
use restante_core::endpoint::EndpointId;
use restante_core::message::MessageId;
use restante_store::endpoint::Feed;
use restante_store::{Finished, Lease, Parcel, Settled, Store};
use tokio::sync::mpsc;

use super::STORE_PAUSE;
use crate::clock::Clock;
use crate::telemetry::Metrics;

/// Most attempts in one settle.
const SETTLE_MAX: usize = 512;

/// What a lease came to.
pub(super) enum Done {
    Attempted(Box<Report>),
    /// It never dialled.
    Released(Vec<Lease>),
}

/// A finished attempt with what its log line says.
pub(super) struct Report {
    pub(super) finished: Finished,
    pub(super) parcel: Parcel,
}

/// Brings results to the store until it has them.
pub(super) struct Settler {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
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
            log_attempt(report, settled);
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

/// The wide line of each attempt.
fn log_attempt(report: &Report, settled: &Settled) {
    let Report { finished, parcel } = report;
    let attempt = &finished.attempt;
    let (result, status, error_kind, error_message) = match &attempt.outcome {
        Outcome::Delivered { status } => ("delivered", *status, None, None),
        Outcome::Uncertain(failure) => {
            ("uncertain", failure.status, Some(failure.kind.name()), Some(&failure.message))
        }
        Outcome::Failed(failure) | Outcome::Refused(failure) => {
            ("failed", failure.status, Some(failure.kind.name()), Some(&failure.message))
        }
        Outcome::Lost => ("failed", None, Some("lost"), None),
    };
    let (state, next_attempt_at) = match settled {
        Settled::Done(life) if life.state.is_final() => (life.state.name(), None),
        Settled::Done(life) => (life.state.name(), Some(life.due_at)),
        Settled::LeaseLost => ("lease_lost", None),
    };
    let source = match parcel.endpoint.feed {
        Feed::Source(source) => Some(source),
        Feed::Events | Feed::Mail => None,
    };
    let (destination, webhook) = match parcel.endpoint.id {
        EndpointId::Destination(id) => (Some(id), None),
        EndpointId::Webhook(id) => (None, Some(id)),
        EndpointId::Mailboxes(_) => (None, None),
    };
    let (request, event, email) = match parcel.message {
        MessageId::Request(id) => (Some(id), None, None),
        MessageId::Event(id) => (None, Some(id), None),
        MessageId::Email(id) => (None, None, Some(id)),
    };
    tracing::info!(
        event = "delivery.attempted",
        workspace.id = %parcel.endpoint.workspace,
        source.id = source.map(tracing::field::display),
        destination.id = destination.map(tracing::field::display),
        webhook.id = webhook.map(tracing::field::display),
        request.id = request.map(tracing::field::display),
        event.id = event.map(tracing::field::display),
        email.id = email.map(tracing::field::display),
        delivery.id = %parcel.lease.delivery,
        attempt.number = attempt.number,
        attempt.started_at = %attempt.started_at,
        attempt.duration_ms = attempt.ended_at.since(attempt.started_at).as_millis() as u64,
        attempt.result = result,
        http.status = status,
        error.kind = error_kind,
        error.message = error_message.map(String::as_str),
        delivery.state = state,
        delivery.next_attempt_at = next_attempt_at.map(tracing::field::display),
        "delivery attempted"
    );
}
