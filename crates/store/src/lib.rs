//! Everything Restante keeps, behind one trait of promises.
//!
//! Each method of [`Store`] that changes something is one transaction, and its documentation is the promise that
//! transaction keeps. Rules are not made here: the store reads rows, asks `restante-core` what becomes of them,
//! and writes the answer.

mod agenda;
pub mod backup;
mod clients;
mod code;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod email;
pub mod endpoint;
mod intake;
pub mod meter;
pub mod page;
mod parcel;
mod policy;
pub mod postgres;
mod receipts;
pub mod record;
mod recovery;
pub mod row;
pub mod sqlite;
pub mod stats;
mod tally;
#[cfg(feature = "conformance")]
pub mod testbed;
pub mod transfer;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use restante_core::endpoint::Sealed;
use restante_core::event::EventType;
use restante_core::health::Health;
use restante_core::id::{
    DeliveryId, DestinationId, EmailId, EventId, ReplayId, RequestId, SourceId, Tail, WebhookId, WorkspaceId,
};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_core::intake::Rules;
use restante_core::retry::Jitter;
use restante_core::stats::Span;
use restante_core::{Attempt, Delivery, State, Timestamp};
use tokio::sync::{Notify, broadcast};

pub use clients::Listening;
pub use endpoint::Endpoint;
pub use intake::{Accepted, Incoming, Judgement, Verdict};
pub use meter::{Commits, Connections, Room};
pub use page::{Page, Paged, Start};
pub use parcel::{Content, Dispatch, Parcel, Withdraw};
pub use policy::{Disk, Policy};
pub use recovery::Recovery;

use record::{Draft, Kind, Raw};

/// What broke. Nothing of the call was stored unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot write or read at the moment, or is stopping. After a write the change may, rarely, have
    /// been stored: repeat the call.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored cannot be read. A person must look.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
}

/// Events that one call publishes, all or none.
#[derive(Debug)]
pub struct Publishing {
    pub workspace: WorkspaceId,
    /// At least one.
    pub events: Vec<NewEvent>,
    pub claim: Option<KeyClaim>,
    pub now: Timestamp,
}

/// An event to be stored.
#[derive(Debug)]
pub struct NewEvent {
    pub event_type: EventType,
    /// What receivers get.
    pub body: Bytes,
    /// Random part of the new ids.
    pub tail: Tail,
}

/// The caller's key for a call, and what the call asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    pub key: IdempotencyKey,
    pub fingerprint: Fingerprint,
}

/// What became of a publishing call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// Stored durably, with a delivery for each webhook that wants it. `crowded`: as for [`Accepted::Fresh`].
    Fresh {
        events: Vec<EventReceipt>,
        crowded: bool,
    },
    /// An earlier call with this key asked for the same: these are its events.
    Replayed(Vec<EventReceipt>),
    /// An earlier call with this key asked for something else. Nothing was stored.
    KeyReused,
    NoWorkspace,
}

/// A stored event, as its caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventReceipt {
    pub id: EventId,
    /// Webhooks that wanted it, paused ones included.
    pub deliveries: u32,
}

/// The right to settle one attempt: a delivery and its running attempt's number. The number is the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    pub delivery: DeliveryId,
    pub attempt: u32,
}

/// What a claim found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Claimed {
    /// Deliveries leased and dispatched.
    pub count: usize,
    /// When to claim again; `None`: only when [`Store::due`] says so.
    pub next_due: Option<Timestamp>,
}

/// A finished attempt on its way to the store.
#[derive(Debug, Clone)]
pub struct Finished {
    pub lease: Lease,
    pub attempt: Attempt,
    /// Version of the endpoint's settings the attempt was made with.
    pub endpoint_version: u32,
    pub jitter: Jitter,
}

/// What became of a finished attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Done(Delivery),
    /// Somebody else settled this attempt, or the delivery is gone. Nothing changed.
    LeaseLost,
}

/// What became of a cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    Done,
    NotFound,
    Conflict(State),
}

/// What became of a manual retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    Fresh(DeliveryId),
    NotFound,
    Conflict(State),
    /// Only deliveries of requests are retried by hand.
    OfAnEvent,
    DestinationDeleted,
    CreditsExhausted,
}

/// What became of a replay of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    Fresh(RequestId),
    NotFound,
    SourceDeleted,
    CreditsExhausted,
}

/// A span of time, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub since: Timestamp,
    pub until: Timestamp,
}

/// What became of a call to replay or recover a webhook's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// It goes on in the background, for so many events.
    Started {
        id: ReplayId,
        events: u64,
    },
    NotFound,
    /// The webhook is paused: nothing was started.
    Paused,
    /// The workspace used up what it has for this day.
    QuotaExceeded,
}

/// Which deliveries of a destination a bulk retry takes: the latest delivery of each request, created within
/// both bounds (inclusive) and in one of the states.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct BulkRetry {
    pub since: Timestamp,
    pub until: Timestamp,
    /// `failed`, `cancelled` or `delivered`.
    pub state: String,
}

/// What became of a created record.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    Done(Raw),
    /// Its name, or its lookup, is that of another living record.
    NameTaken,
    ParentGone,
    /// The parent, or the workspace, holds as many as it may.
    TooMany,
}

/// What became of an updated record.
#[derive(Debug, Clone, PartialEq)]
pub enum Updated {
    Done(Raw),
    NotFound,
    /// Its name, or its lookup, is that of another living record.
    NameTaken,
    /// Somebody else changed it since it was read: read it again.
    Stale,
}

/// A change of a credit balance by an administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// From then on there is a balance, changed by this much. It never falls below nothing.
    Delta(i64),
    /// From then on nothing is counted.
    Unlimited,
}

/// Something that listeners of the live stream are told.
#[derive(Debug, Clone)]
pub struct Change {
    pub workspace: WorkspaceId,
    pub what: Changed,
}

/// What a [`Change`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Request(RequestId),
    Event(EventId),
    Email(EmailId),
    Delivery(DeliveryId),
}

/// How the store is, for metrics and health.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Deliveries leased to this node.
    pub leased: u64,
    /// Bytes of content in memory for them.
    pub content_bytes: u64,
    /// Earliest due time of what is pending here and only lacks its time or room: no pause, no client that is missing.
    pub oldest_due: Option<Timestamp>,
    /// Size of the write-ahead log in bytes.
    pub wal_bytes: u64,
}

/// All that is kept, and the promises about it.
///
/// Methods that name a workspace see nothing of others: what belongs to another is not found.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Stores a request with one delivery for each destination its source has now, and charges for it: one
    /// durable transaction, over before this returns. What the node has room for is leased at birth and
    /// dispatched; the rest is due in the table.
    ///
    /// A repeat of a value that the source knows, and what was judged to be rejected, are stored and shown without
    /// deliveries, and are free. Of several requests with one value, at any number of nodes, one is the first: the same
    /// transaction decides. A rejected request brings no value; an erased or expired one takes its value along.
    async fn accept(&self, incoming: Incoming) -> Result<Accepted, Error>;

    /// What the source with this token asks of requests; `None`: nothing, or there is no such source. Memory only.
    fn rules(&self, token: &str) -> Option<Arc<Rules>>;

    /// Stores events, each with one delivery for each webhook of the workspace that wants its type, and claims the
    /// caller's key: one durable transaction, over before this returns. Paused webhooks get a delivery that is
    /// skipped. What the node has room for is leased at birth and dispatched; the rest is due in the table.
    async fn publish(&self, publishing: Publishing) -> Result<Published, Error>;

    /// Stores emails, each with one delivery for each recipient, tells webhooks of them, and claims the caller's key: one
    /// durable transaction, over before this returns. A recipient on the list of suppressions gets a delivery that is
    /// refused. What the node has room for is leased at birth and dispatched; the rest is due in the table.
    async fn send(&self, sending: email::Sending) -> Result<email::Sent, Error>;

    /// What a call with this key was answered, `Replayed` or `KeyReused`; `None`: the key is free. A fresh call still has
    /// to be ready for either from [`Store::send`].
    async fn known_send(
        &self,
        workspace: WorkspaceId,
        mode: record::Mode,
        claim: KeyClaim,
    ) -> Result<Option<email::Sent>, Error>;

    /// Cancels an email of which no attempt has begun. Once this returned, none does. A cancelled one stays as it is.
    async fn cancel_email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<email::EmailChanged, Error>;

    /// Changes an email that waits for its time: its bytes, its time, or both.
    async fn change_email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        change: email::EmailChange,
        now: Timestamp,
    ) -> Result<email::EmailChanged, Error>;

    /// Notes that an attempt is about to send the end of a message: if it is lost from then on, the mail may have arrived.
    /// Durable when this returns. `false`: the lease does not hold, and the end must not be sent.
    async fn data_sent(&self, lease: Lease) -> Result<bool, Error>;

    /// Leases due deliveries of endpoints that have room, up to `most`, and dispatches them, then what replays have
    /// not begun, and goes on with recoveries. Each begun attempt is durable before it is dispatched.
    async fn claim(&self, now: Timestamp, most: usize) -> Result<Claimed, Error>;

    /// Records finished attempts and what follows from them. The answers are in the order of the attempts.
    ///
    /// # Errors
    /// Nothing was recorded: call again with the same attempts until it works; a repeated settle changes nothing.
    async fn settle(&self, finished: Vec<Finished>) -> Result<Vec<Settled>, Error>;

    /// Whether attempts may start now: the leases of this node surely hold for as long as an attempt takes.
    fn may_dial(&self) -> bool {
        true
    }

    /// Takes back claims that never dialled; their attempts are as if they had not been.
    async fn release(&self, leases: Vec<Lease>, now: Timestamp) -> Result<(), Error>;

    /// Settles as lost whatever was leased when the store was last open, and nothing that was leased since. Returns
    /// how many.
    async fn take_over(&self, now: Timestamp) -> Result<usize, Error>;

    /// Cancels a delivery. Once this returned, no attempt of it starts.
    async fn cancel(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Cancelled, Error>;

    /// Delivers a request to one of its destinations again, as a new delivery, and charges for it.
    async fn retry(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Retried, Error>;

    /// How many deliveries a bulk retry would create, each for one credit.
    async fn count_bulk_retry(
        &self,
        workspace: WorkspaceId,
        destination: DestinationId,
        bulk: BulkRetry,
    ) -> Result<u64, Error>;

    /// Continues a bulk retry (a record of kind [`Kind::BulkRetry`]) by up to `most` deliveries: they, their
    /// charges and the progress are one transaction, so a crash repeats nothing. Returns whether more is left.
    async fn advance_bulk_retry(&self, id: ReplayId, now: Timestamp, most: usize) -> Result<bool, Error>;

    /// Stores a copy of a request as a new one, delivered to the destinations of now, and charges for it. The source's
    /// rules do not count for it.
    async fn replay(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Replayed, Error>;

    /// Replays a webhook's failures: one attempt for each event that has a failed attempt in the window (by the
    /// start of the attempt) and no delivered one, the oldest [`limits::REPLAY_EVENTS_MAX`] of them by their first
    /// failure in it. The list is fixed, and counts against the workspace's quota of the UTC day, in this
    /// transaction. A paused webhook: started, counted, and over at once with nothing to send.
    ///
    /// [`limits::REPLAY_EVENTS_MAX`]: restante_core::limits::REPLAY_EVENTS_MAX
    async fn replay_webhook(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error>;

    /// How many events [`Store::replay_webhook`] would take; `None`: there is no such webhook.
    async fn count_replay(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
    ) -> Result<Option<u64>, Error>;

    /// One more attempt of one delivery of a webhook, whatever its state, once none is in flight.
    async fn replay_delivery(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        delivery: DeliveryId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error>;

    /// Puts skipped deliveries of a webhook on its schedule after all.
    async fn recover(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        recovery: Recovery,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error>;

    /// Clears a webhook's failing run, because it was seen to work. `false`: there is no such webhook.
    async fn clear_run(&self, workspace: WorkspaceId, webhook: WebhookId) -> Result<bool, Error>;

    /// How webhooks stand, in their order. Unknown ones stand well.
    async fn healths(&self, webhooks: Vec<WebhookId>) -> Result<Vec<Health>, Error>;

    /// Erases a request with its deliveries and attempts. `false`: there is none.
    async fn erase(&self, workspace: WorkspaceId, request: RequestId, now: Timestamp) -> Result<bool, Error>;

    /// Erases up to `most` messages, and as many attempts, keys and counts, that are past their time, and finishes what
    /// deletions and pauses left pending. Returns whether more is left.
    async fn prune(&self, now: Timestamp, most: usize) -> Result<bool, Error>;

    /// Creates a configuration record; unique names and lookups are checked in the same transaction.
    async fn create(&self, draft: Draft, now: Timestamp) -> Result<Created, Error>;

    /// Replaces a record's body if it still has `version`. Endpoints follow at once.
    async fn update(&self, kind: Kind, new: Raw, now: Timestamp) -> Result<Updated, Error>;

    /// Deletes a record and what belongs to it. `false`: there is none.
    async fn delete(
        &self,
        kind: Kind,
        workspace: WorkspaceId,
        uuid: u128,
        now: Timestamp,
    ) -> Result<bool, Error>;

    /// One living record.
    async fn record(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Option<Raw>, Error>;

    /// One living record of any workspace by its unique lookup.
    async fn record_by_lookup(&self, kind: Kind, lookup: &str) -> Result<Option<Raw>, Error>;

    /// Living records, newest first. `workspace: None`: of all.
    async fn records(
        &self,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        page: Page,
    ) -> Result<Paged<Raw>, Error>;

    /// The balance; `None`: unlimited.
    async fn balance(&self, workspace: WorkspaceId) -> Result<Option<i64>, Error>;

    /// What changed the balance, newest first. A total is given of up to a hundred thousand lines.
    async fn ledger(&self, workspace: WorkspaceId, page: Page) -> Result<Paged<row::Charge>, Error>;

    /// Changes a balance and writes to the ledger what that changed: its sum is the balance. Returns the new one.
    async fn grant(
        &self,
        workspace: WorkspaceId,
        grant: Grant,
        note: String,
        now: Timestamp,
    ) -> Result<Option<i64>, Error>;

    /// A request that has not expired, with deliveries and attempts.
    async fn request(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<row::Request>, Error>;

    /// Requests that have not expired, newest first, without headers and body. Looks at a bounded number of rows:
    /// a page may be short of matches though more follow, and then says where to go on.
    async fn requests(
        &self,
        workspace: WorkspaceId,
        filter: row::RequestFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Request>, Error>;

    /// The body of a request that has not expired.
    async fn request_body(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<Bytes>, Error>;

    /// An event that has not expired, with deliveries and attempts.
    async fn event(
        &self,
        workspace: WorkspaceId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<row::Event>, Error>;

    /// Events that have not expired, newest first, without deliveries. Bounded as `requests`.
    async fn events(
        &self,
        workspace: WorkspaceId,
        filter: row::EventFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Event>, Error>;

    /// An email that has not expired, with its recipients.
    async fn email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<row::Email>, Error>;

    /// An email's bytes as they leave, but for what signs them.
    async fn email_mime(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<Bytes>, Error>;

    /// Emails that have not expired, newest first. Bounded as `requests`.
    async fn emails(
        &self,
        workspace: WorkspaceId,
        filter: row::EmailFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Email>, Error>;

    /// What webhooks were told about an email, oldest first, without deliveries.
    async fn email_events(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<Vec<row::Event>>, Error>;

    /// A webhook's attempts of the last [`limits::ATTEMPTS_KEPT`], newest first, from behind a place, up to `limit`,
    /// and where to go on. Bounded as `requests`. `None`: there is no such webhook.
    ///
    /// [`limits::ATTEMPTS_KEPT`]: restante_core::limits::ATTEMPTS_KEPT
    async fn attempts(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        filter: row::LogFilter,
        behind: Option<row::LogPlace>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Option<(Vec<row::Logged>, Option<row::LogPlace>)>, Error>;

    /// A delivery of a message that has not expired, with attempts.
    async fn delivery(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<row::Delivery>, Error>;

    /// Deliveries of messages that have not expired, newest first, without attempts. Bounded as `requests`.
    async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: row::DeliveryFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Delivery>, Error>;

    /// Writes down what was counted since this was last called. Whoever asks for [`Store::stats`] at this node sees it
    /// anyway, those at others from then on, and what was not written is lost in a crash: the counts, nothing else.
    ///
    /// # Errors
    /// Some of it may not be written: call again. What is written twice counts once.
    async fn roll_up(&self, now: Timestamp) -> Result<(), Error>;

    /// What a workspace, or a part of it, did in the steps of a span, and what it has pending now. `None`: there is no
    /// such source, destination or webhook. What nodes counted that died before they wrote it down is missing.
    async fn stats(
        &self,
        workspace: WorkspaceId,
        scope: stats::Scope,
        span: Span,
    ) -> Result<Option<stats::Stats>, Error>;

    /// How the destinations and webhooks of a workspace did in all of a span that counts in ten minutes, and what they
    /// have pending now: at most [`stats::ENDPOINTS_MAX`], those that do worst first. Those without an attempt and
    /// without anything pending are left out.
    async fn endpoint_stats(
        &self,
        workspace: WorkspaceId,
        span: Span,
    ) -> Result<Vec<stats::EndpointStats>, Error>;

    /// What tells whether secrets can be opened: the sealed word that is kept. Keeps `fresh` if there is none yet.
    async fn secret_check(&self, fresh: Option<Sealed>) -> Result<Option<Sealed>, Error>;

    /// Says where leased deliveries go. Until then, and after `None`, nothing is leased.
    async fn attach(&self, dispatch: Option<Arc<dyn Dispatch>>) -> Result<(), Error>;

    /// Says who listens to a source at this node from now on; `None`: nobody. Deliveries to its `cli` destinations are
    /// leased only while somebody does: with `deliver_pending_on_connect` all that are due, oldest first, without it
    /// those created since `since`. Who may have less than before gives back what has not dialled. Nothing is stored:
    /// with many nodes each leases for its own clients.
    ///
    /// # Errors
    /// Attempts begin as was said, but what is to be given back may not have been: call again.
    async fn listen(&self, source: SourceId, clients: Option<Listening>) -> Result<(), Error>;

    /// Wakes when there may be something to claim earlier than the last claim was told.
    fn due(&self) -> &Notify;

    /// What happens from now on. A listener that falls behind is told how much it missed.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// Whether the store answers. Touches the database.
    async fn health(&self) -> Result<Vitals, Error>;

    /// What was counted of its commits since it was opened.
    fn commits(&self) -> &Commits;

    /// Its connections of the moment.
    fn connections(&self) -> Connections;

    /// Whether there is room for what is new. While there is none, what would make a message is `Unavailable`, and all
    /// else goes on.
    fn room(&self) -> Room {
        Room::default()
    }
}
