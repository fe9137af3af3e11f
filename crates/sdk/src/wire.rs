//! The shapes of what is sent and answered.
//!
//! Answers are `#[non_exhaustive]`: a newer server may add fields, which an older client ignores. What is null on the
//! wire is `None`; what a newer server calls by a word that this version does not know is `Other`. Requests are plain,
//! to be written with `..Default::default()`. Times are [`Timestamp`](crate::Timestamp), ids are texts, and fields that
//! measure carry their unit in their name.

mod attachment;
mod attempt_log;
mod bulk_retry;
mod change;
mod credits;
mod delivery;
mod destination;
mod domain;
mod email;
mod event;
mod health;
mod json;
mod key;
mod mailbox;
mod notice;
mod page;
mod replay;
mod request;
mod rules;
mod schedule;
mod secret;
mod send_email;
mod server;
mod source;
mod stats;
mod stream;
mod suppression;
mod template;
#[cfg(test)]
mod tests;
mod webhook;
mod word;
mod workspace;

pub use attachment::Attachment;
pub use attempt_log::{AttemptLog, AttemptStatus, ListAttempts, LoggedAttempt};
pub use bulk_retry::{BulkRetry, BulkRetryPreview, BulkRetryState, NewBulkRetry};
pub use change::Change;
pub use credits::{Charge, ChargeReason, Credits, Grant};
pub use delivery::{
    Attempt, AttemptError, AttemptResult, Channel, Delivery, DeliveryReason, DeliveryState, ListDeliveries,
    Trigger, WaitingFor,
};
pub use destination::{Destination, DestinationChange, DestinationKind, IdempotencyHeader, NewDestination};
pub use domain::{
    Domain, DomainChange, DomainRecord, DomainSending, DomainStatus, NewDomain, RecordKind, RecordPurpose,
};
pub use email::{
    BatchEmail, BatchError, BatchStatus, Email, EmailAttachment, EmailContent, EmailEvent, EmailStatus,
    EmailStream, GoneEmail, ListEmails, Recipient, RecipientKind, RecipientStatus, SentBatch, SentEmail,
    Transport,
};
pub use event::{
    Event, EventDeliveries, ListEvents, PublishEvent, PublishedBatch, PublishedEvent, PublishedItem,
};
pub use health::Health;
pub use json::Json;
pub use key::{ApiKey, KeyChange, Mode, NewKey, Scope};
pub use mailbox::{Address, Mailbox};
pub use notice::{Notice, NoticeKind};
pub use page::{Page, Paging};
pub use replay::{Recovery, Replay, ReplayKind, ReplayPreview, ReplayState, Window};
pub use request::{ListRequests, Request, RequestState};
pub use rules::{Dedupe, HmacAlgorithm, HmacEncoding, NewVerification, VerificationKind};
pub use schedule::Schedule;
pub use secret::Secret;
pub use send_email::{EmailChange, SendEmail, SendTemplate, UseTemplate};
pub use server::{Found, OwnKey, PrivateTargets, Server};
pub use source::{NewSource, Source, SourceAnswer, SourceChange};
pub use stats::{
    Backlog, EndpointKind, EndpointStats, EndpointStatsList, Figures, Stats, StatsPoint, WantedStats,
};
pub use stream::{FollowStream, Lagged, StreamEvent};
pub use suppression::{NewSuppression, Suppression, SuppressionReason};
pub use template::{
    CopyTemplate, NewTemplate, PreviewTemplate, RenderTemplate, Template, TemplateChange, TemplateContent,
    TemplatePreview, TemplateState, TemplateVersion,
};
pub use webhook::{
    ListWebhookDeliveries, ListWebhooks, NewSecret, NewWebhook, Order, TestWebhook, Webhook, WebhookChange,
    WebhookSort, WebhookStatus, WebhookTest,
};
pub use workspace::{NewWorkspace, Quotas, Workspace, WorkspaceChange};
