//! One message to one endpoint, and the tries of it.

use serde::{Deserialize, Serialize};

use super::page::listings;
use super::word::words;
use crate::Timestamp;

words! {
    /// How a delivery stands.
    DeliveryState {
        /// Waits for its next attempt.
        Pending = "pending",
        /// An attempt is in flight.
        Sending = "sending",
        /// The receiver took it.
        Delivered = "delivered",
        /// Over without success; the reason says why.
        Failed = "failed",
        /// Called off; the reason says why.
        Cancelled = "cancelled",
        /// Never attempted: its webhook was paused.
        Skipped = "skipped",
    }

    /// Why a delivery failed or was cancelled.
    DeliveryReason {
        /// Failed: its attempts are used up.
        Exhausted = "exhausted",
        /// Failed: its webhook was paused.
        EndpointPaused = "endpoint_paused",
        /// Failed: the mail server said no for good.
        Refused = "refused",
        /// Failed: all was sent and the mail server's answer did not come. It may have been delivered.
        Uncertain = "uncertain",
        /// Cancelled by a call.
        Requested = "requested",
        /// Cancelled: its destination or webhook was deleted.
        EndpointDeleted = "endpoint_deleted",
        /// Cancelled: its source was deleted.
        SourceDeleted = "source_deleted",
        /// Cancelled: its message's time was over.
        Expired = "expired",
    }

    /// What a pending delivery waits for.
    WaitingFor {
        /// For its time.
        Time = "time",
        /// It is due, and its endpoint is busy.
        Slot = "slot",
        /// For a command-line client to connect.
        Client = "client",
        /// For its destination to be resumed.
        Resume = "resume",
    }

    /// What made an attempt.
    Trigger {
        /// The schedule.
        Automatic = "automatic",
        /// A retry by hand.
        Manual = "manual",
        /// A replay.
        Replay = "replay",
    }

    /// The way to a receiver.
    Channel {
        /// By HTTP.
        Http = "http",
        /// Through a command-line client.
        Cli = "cli",
        /// To a mail server.
        Smtp = "smtp",
    }

    /// How an attempt ended.
    AttemptResult {
        /// The receiver took it.
        Delivered = "delivered",
        /// It did not.
        Failed = "failed",
    }

    /// What went wrong in an attempt.
    AttemptError {
        /// The name has no address, or the resolver did not answer.
        Dns = "dns",
        /// No connection: refused or unreachable.
        Connect = "connect",
        /// The TLS handshake failed.
        Tls = "tls",
        /// Its time was up before the end of the response head.
        Timeout = "timeout",
        /// The connection broke before a response head was read.
        Network = "network",
        /// The address is one that is not dialled.
        RefusedAddress = "refused_address",
        /// A status outside of 200 to 299.
        Status = "status",
        /// A node of the server died meanwhile: the receiver may have got it.
        Lost = "lost",
        /// A command-line client could not reach its local service.
        LocalUnreachable = "local_unreachable",
        /// The mail server said no.
        Smtp = "smtp",
    }
}

/// One message to one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// `delivery`.
    pub object: String,
    /// `dlv_…`.
    pub id: String,
    /// `req_…`, of a delivery to a destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// `whe_…`, of a delivery to a webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// `em_…`, of a delivery to a mailbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email_id: Option<String>,
    /// `dst_…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_id: Option<String>,
    /// `whk_…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_id: Option<String>,
    /// The mailbox it goes to, of an email.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient: Option<String>,
    /// How it stands.
    pub state: DeliveryState,
    /// Why it failed or was cancelled.
    pub reason: Option<DeliveryReason>,
    /// Cancelled while an attempt was in flight, whose result will end it.
    pub cancel_requested: bool,
    /// Attempts so far that count against the schedule.
    pub attempts_used: u32,
    /// How many its schedule has.
    pub attempts_max: u32,
    /// Not before this; `None` unless it is pending.
    pub next_attempt_at: Option<Timestamp>,
    /// `None` unless it is pending.
    pub waiting_for: Option<WaitingFor>,
    /// Why the next attempt is when it is, in one line for people.
    pub wait_because: Option<String>,
    /// The delivery that this one repeats, `dlv_…`.
    pub retry_of: Option<String>,
    /// When its message was accepted, or its retry asked for.
    pub created_at: Timestamp,
    /// `None` until it is over.
    pub ended_at: Option<Timestamp>,
    /// Oldest first. `None` in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
}

/// One try of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// `att_…`.
    pub id: String,
    /// From 1.
    pub number: u32,
    /// What made it.
    pub trigger: Trigger,
    /// The way it took.
    pub channel: Channel,
    /// Where it was sent.
    pub url: String,
    /// When it began.
    pub started_at: Timestamp,
    /// `None` while it is in flight.
    pub duration_ms: Option<u64>,
    /// `None` while it is in flight.
    pub result: Option<AttemptResult>,
    /// What the receiver answered, if it did: an HTTP status or an SMTP reply code.
    pub response_status_code: Option<u16>,
    /// `None` unless it failed.
    pub error_kind: Option<AttemptError>,
    /// Why it failed, for people.
    pub error_message: Option<String>,
    /// Whether it counts against the schedule; `None` while it is in flight.
    pub uses_budget: Option<bool>,
}

listings! {
    /// Which deliveries are wanted, and which page of them.
    ListDeliveries {
        /// Of this request, `req_…`.
        request: Option<String>,
        /// Of this event, `whe_…`.
        event: Option<String>,
        /// Of this email, `em_…`.
        email: Option<String>,
        /// Of requests to this source, `src_…`.
        source: Option<String>,
        /// To this destination, `dst_…`.
        destination: Option<String>,
        /// To this webhook, `whk_…`.
        webhook: Option<String>,
        /// In this state.
        state: Option<DeliveryState>,
        /// Created at this time or later.
        since: Option<Timestamp>,
        /// Created at this time or earlier.
        until: Option<Timestamp>,
    }
}
