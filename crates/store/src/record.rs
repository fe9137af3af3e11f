//! Configuration records: typed bodies over one generic shape.

use restante_core::endpoint::{Destination, Sealed, Source, Webhook};
use restante_core::health;
use restante_core::id::{self, Id, Key, WorkspaceId};
use restante_core::{Timestamp, limits};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{BulkRetry, Created, Error, Page, Paged, Recovery, Store, Updated, Window};

/// What a record is. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Workspace = 1,
    Source = 2,
    Destination = 3,
    ApiKey = 4,
    BulkRetry = 5,
    Webhook = 6,
    Replay = 7,
    Notice = 8,
    Mailboxes = 9,
    Domain = 10,
    Template = 11,
    TemplateVersion = 12,
    Suppression = 13,
}

impl Kind {
    /// What a record of this kind belongs to, besides its workspace.
    pub(crate) const fn parent(self) -> Option<Self> {
        match self {
            Self::Destination => Some(Self::Source),
            Self::BulkRetry => Some(Self::Destination),
            Self::Replay | Self::Notice => Some(Self::Webhook),
            Self::TemplateVersion => Some(Self::Template),
            Self::Workspace
            | Self::Source
            | Self::ApiKey
            | Self::Webhook
            | Self::Mailboxes
            | Self::Domain
            | Self::Template
            | Self::Suppression => None,
        }
    }

    /// How many may live under one parent, or in one workspace for a kind without parents; `None`: any number. A
    /// workspace's [`Quotas`] may allow fewer.
    ///
    /// As many endpoints as one message may fan out to.
    pub(crate) const fn most(self) -> Option<usize> {
        match self {
            Self::Destination => Some(limits::DESTINATIONS_PER_SOURCE_MAX),
            Self::Webhook => Some(limits::WEBHOOKS_PER_WORKSPACE_MAX),
            Self::Workspace
            | Self::Source
            | Self::ApiKey
            | Self::BulkRetry
            | Self::Replay
            | Self::Notice
            | Self::Mailboxes
            | Self::Domain
            | Self::Template
            | Self::TemplateVersion
            | Self::Suppression => None,
        }
    }

    /// Whether nodes keep such records in memory.
    pub(crate) const fn is_configuration(self) -> bool {
        match self {
            Self::Workspace | Self::Source | Self::Destination | Self::Webhook | Self::Mailboxes => true,
            Self::ApiKey
            | Self::BulkRetry
            | Self::Replay
            | Self::Notice
            | Self::Domain
            | Self::Template
            | Self::TemplateVersion
            | Self::Suppression => false,
        }
    }
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw {
    pub uuid: u128,
    pub workspace: WorkspaceId,
    pub parent: Option<u128>,
    /// Counts changes from 1.
    pub version: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Unique among the living of its kind in the workspace.
    pub name: Option<String>,
    /// Unique among the living of its kind.
    pub lookup: Option<String>,
    /// JSON.
    pub body: String,
}

impl Raw {
    pub(crate) fn key(&self) -> Key {
        Id::<id::kind::Source>::from_uuid(self.uuid).key()
    }
}

/// A record to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub kind: Kind,
    /// `None` only for a workspace, which owns itself.
    pub workspace: Option<WorkspaceId>,
    pub parent: Option<u128>,
    pub name: Option<String>,
    pub lookup: Option<String>,
    pub body: String,
    /// Random part of the new id.
    pub tail: id::Tail,
}

/// A type that is kept as a record.
pub trait Kept: Serialize + DeserializeOwned + Send {
    const KIND: Kind;
    type IdKind: id::Kind;
    /// Unique among the living of its kind in the workspace.
    fn name(&self) -> Option<String> {
        None
    }
    /// Unique among the living of its kind.
    fn lookup(&self) -> Option<String> {
        None
    }
}

/// A typed record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<T: Kept> {
    pub id: Id<T::IdKind>,
    pub workspace: WorkspaceId,
    pub parent: Option<u128>,
    pub version: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub body: T,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workspace {
    pub name: String,
    /// Mail addresses.
    pub owners: Vec<String>,
    /// Upper bound for its sources, 1 to 365 days.
    pub retention_days_max: u32,
    #[serde(default, skip_serializing_if = "Quotas::are_unlimited")]
    pub quotas: Quotas,
    /// Made by the first start. There is one at most, also when several nodes start at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

impl Workspace {
    pub fn new(name: String, owners: Vec<String>) -> Self {
        let retention_days_max = *limits::RETENTION_DAYS.end();
        Self { name, owners, retention_days_max, quotas: Quotas::default(), first: false }
    }
}

/// How many of each may live in a workspace; `None`: as many as there may be anyway. What lives when a quota is lowered
/// stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quotas {
    pub sources: Option<u32>,
    pub webhooks: Option<u32>,
    pub domains: Option<u32>,
    pub templates: Option<u32>,
}

impl Quotas {
    fn are_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// How many records of a kind may live in the workspace.
    pub(crate) const fn of(&self, kind: Kind) -> Option<u32> {
        match kind {
            Kind::Source => self.sources,
            Kind::Webhook => self.webhooks,
            Kind::Domain => self.domains,
            Kind::Template => self.templates,
            // What is below one of these, what is never made by hand, and what is safer to have than to lack.
            Kind::Workspace
            | Kind::Destination
            | Kind::ApiKey
            | Kind::BulkRetry
            | Kind::Replay
            | Kind::Notice
            | Kind::Mailboxes
            | Kind::TemplateVersion
            | Kind::Suppression => None,
        }
    }
}

/// A credential. The secret itself is never stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    pub name: String,
    pub mode: Mode,
    pub scopes: Vec<String>,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// The token's last four characters.
    pub last4: String,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

/// What a key's mails do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Live,
    Test,
}

/// A bulk retry and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BulkRetryJob {
    pub bulk: BulkRetry,
    /// Key of the last delivery looked at.
    pub cursor: i64,
    /// Deliveries created by the job itself have keys from here on and are left alone.
    pub end: i64,
    /// How many matched when it was asked for.
    pub total: u64,
    pub created: u64,
    pub state: BulkRetryState,
}

/// Where a bulk retry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BulkRetryState {
    Running,
    Done,
    /// Ended early: the credits ran out or the destination is gone.
    Ended,
}

/// A replay or a recovery and how far it is. Its parent is the webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayJob {
    pub kind: ReplayKind,
    /// Inclusive: on attempt time for a replay, on accept time for a recovery.
    pub since: Timestamp,
    /// Inclusive.
    pub until: Timestamp,
    pub state: ReplayState,
    /// Events when it was asked for.
    pub total: u64,
    /// Deliveries that it delivered so far.
    pub delivered: u64,
    /// Deliveries that failed all the same.
    pub failed: u64,
    /// Events that had been acknowledged, or were past their time, when their turn came.
    pub skipped: u64,
    /// Of a recovery: `since` is on the time at which deliveries were skipped.
    pub by_skip: bool,
    /// Of a recovery by skip: they were accepted up to then, inclusive; `None`: at any time.
    pub accepted_until: Option<Timestamp>,
    /// Of a recovery: key of the last delivery looked at.
    pub cursor: i64,
    /// Of a recovery: deliveries beyond this key came later.
    pub end: i64,
}

impl ReplayJob {
    /// A replay of nothing yet.
    pub(crate) const fn new(window: Window) -> Self {
        Self {
            kind: ReplayKind::Replay,
            since: window.since,
            until: window.until,
            state: ReplayState::Queued,
            total: 0,
            delivered: 0,
            failed: 0,
            skipped: 0,
            by_skip: false,
            accepted_until: None,
            cursor: -1,
            end: -1,
        }
    }

    /// A recovery. Where it has no bounds of its own, it shows `since`, the last pause, and `now`, the call.
    pub(crate) fn of_recovery(recovery: Recovery, since: Timestamp, now: Timestamp) -> Self {
        let (window, by_skip, accepted_until) = match recovery {
            Recovery::Accepted(window) => (window, false, None),
            Recovery::SincePause { until } => (Window { since, until: until.unwrap_or(now) }, true, until),
        };
        Self { kind: ReplayKind::Recover, by_skip, accepted_until, ..Self::new(window) }
    }
}

/// What a [`ReplayJob`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayKind {
    /// One attempt for each event that failed in the window.
    Replay,
    /// One attempt for one delivery, whatever its state.
    Single,
    /// The normal schedule for each event that was skipped.
    Recover,
}

/// Where a [`ReplayJob`] stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// Another one of the same webhook comes first.
    Queued,
    Running,
    /// A replay: all attempts have ended. A recovery: all are on their schedules.
    Done,
    /// Ended early: the webhook was paused or deleted, or was paused from the start.
    Ended,
}

impl ReplayState {
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Ended)
    }
}

/// Something that the owners of a workspace are told. Its parent is the webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub kind: NoticeKind,
    /// When it was mailed to the owners.
    pub mailed_at: Option<Timestamp>,
}

/// What a [`Notice`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    WebhookDegraded,
    WebhookPaused,
}

/// The mailboxes of one domain that a workspace writes to. Made by the first email to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MailboxesRow {
    pub domain: String,
}

/// A domain that a workspace sends mail from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// In lower case and as A-labels.
    pub name: String,
    /// Under which name its key is published.
    pub selector: String,
    /// What signs its mail (RSA-2048, PKCS#8).
    pub private_key: Sealed,
    /// What is published, in base64.
    pub public_key: String,
    /// When its records were first found to be right.
    pub verified_at: Option<Timestamp>,
    /// When they were last looked up.
    pub checked_at: Option<Timestamp>,
    /// What was wrong with them then.
    pub error: Option<String>,
}

/// What emails are made from. What is published of it is a [`TemplateVersion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    pub name: String,
    pub slug: String,
    pub description: Option<String>,
    /// What is being worked on.
    pub draft: TemplateText,
    /// The number of the version that is sent; `None`: nothing was published yet.
    pub published: Option<u32>,
}

/// A template as it was published. Its parent is the template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TemplateVersion {
    /// From 1.
    pub version: u32,
    pub text: TemplateText,
}

/// What is rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateText {
    pub subject: String,
    pub html: Option<String>,
    pub text: Option<String>,
    /// Values for what a caller leaves out: a JSON object.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub props: serde_json::Map<String, serde_json::Value>,
}

/// A mailbox that gets nothing. Its name is the address as it is compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suppression {
    pub email: String,
    pub reason: SuppressionReason,
    /// What the mail server said.
    pub detail: Option<String>,
}

/// Why a mailbox gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuppressionReason {
    /// A mail server said that there is no such mailbox.
    HardBounce,
    /// Somebody put it there.
    Manual,
}

impl From<health::Notice> for NoticeKind {
    fn from(notice: health::Notice) -> Self {
        match notice {
            health::Notice::Degraded => Self::WebhookDegraded,
            health::Notice::Paused => Self::WebhookPaused,
        }
    }
}

impl Kept for Workspace {
    const KIND: Kind = Kind::Workspace;
    type IdKind = id::kind::Workspace;
    fn lookup(&self) -> Option<String> {
        self.first.then(|| "first".to_owned())
    }
}

impl Kept for Source {
    const KIND: Kind = Kind::Source;
    type IdKind = id::kind::Source;
    fn name(&self) -> Option<String> {
        Some(self.name.clone())
    }
    fn lookup(&self) -> Option<String> {
        Some(self.token.clone())
    }
}

impl Kept for Destination {
    const KIND: Kind = Kind::Destination;
    type IdKind = id::kind::Destination;
}

impl Kept for ApiKey {
    const KIND: Kind = Kind::ApiKey;
    type IdKind = id::kind::ApiKey;
    fn lookup(&self) -> Option<String> {
        Some(self.hash.clone())
    }
}

impl Kept for BulkRetryJob {
    const KIND: Kind = Kind::BulkRetry;
    type IdKind = id::kind::Replay;
}

impl Kept for Webhook {
    const KIND: Kind = Kind::Webhook;
    type IdKind = id::kind::Webhook;
}

impl Kept for ReplayJob {
    const KIND: Kind = Kind::Replay;
    type IdKind = id::kind::Replay;
}

impl Kept for Notice {
    const KIND: Kind = Kind::Notice;
    type IdKind = id::kind::Notice;
}

impl Kept for Domain {
    const KIND: Kind = Kind::Domain;
    type IdKind = id::kind::Domain;
    fn name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

impl Kept for Template {
    const KIND: Kind = Kind::Template;
    type IdKind = id::kind::Template;
    fn name(&self) -> Option<String> {
        Some(self.slug.clone())
    }
}

impl Kept for TemplateVersion {
    const KIND: Kind = Kind::TemplateVersion;
    type IdKind = id::kind::TemplateVersion;
}

impl Kept for Suppression {
    const KIND: Kind = Kind::Suppression;
    type IdKind = id::kind::Suppression;
    fn name(&self) -> Option<String> {
        Some(crate::email::suppression_key(&self.email))
    }
}

impl<T: Kept> Record<T> {
    pub(crate) fn from_raw(raw: Raw) -> Result<Self, Error> {
        let body = serde_json::from_str(&raw.body).map_err(|error| Error::Damaged(error.to_string()))?;
        Ok(Self {
            id: Id::from_uuid(raw.uuid),
            workspace: raw.workspace,
            parent: raw.parent,
            version: raw.version,
            created_at: raw.created_at,
            updated_at: raw.updated_at,
            body,
        })
    }

    fn into_raw(self) -> Result<Raw, Error> {
        Ok(Raw {
            uuid: self.id.uuid(),
            workspace: self.workspace,
            parent: self.parent,
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
            name: self.body.name(),
            lookup: self.body.lookup(),
            body: to_json(&self.body)?,
        })
    }
}

/// What became of a typed create or update.
#[derive(Debug, Clone, PartialEq)]
pub enum Written<T: Kept> {
    Done(Record<T>),
    NotFound,
    NameTaken,
    TooMany,
    /// Somebody else changed it since it was read: read it again.
    Stale,
}

fn to_json<T: Serialize>(body: &T) -> Result<String, Error> {
    serde_json::to_string(body).map_err(|error| Error::Damaged(error.to_string()))
}

/// The typed face of the record methods.
impl dyn Store {
    /// Creates a record; see [`Store::create`].
    pub async fn make<T: Kept>(
        &self,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        body: T,
        tail: id::Tail,
        now: Timestamp,
    ) -> Result<Written<T>, Error> {
        let draft = Draft {
            kind: T::KIND,
            workspace,
            parent,
            name: body.name(),
            lookup: body.lookup(),
            body: to_json(&body)?,
            tail,
        };
        Ok(match self.create(draft, now).await? {
            Created::Done(raw) => Written::Done(Record::from_raw(raw)?),
            Created::NameTaken => Written::NameTaken,
            Created::ParentGone => Written::NotFound,
            Created::TooMany => Written::TooMany,
        })
    }

    /// Replaces a record that was read before; see [`Store::update`].
    pub async fn put<T: Kept>(&self, record: Record<T>, now: Timestamp) -> Result<Written<T>, Error> {
        Ok(match self.update(T::KIND, record.into_raw()?, now).await? {
            Updated::Done(raw) => Written::Done(Record::from_raw(raw)?),
            Updated::NotFound => Written::NotFound,
            Updated::NameTaken => Written::NameTaken,
            Updated::Stale => Written::Stale,
        })
    }

    /// One living record.
    pub async fn get<T: Kept>(
        &self,
        workspace: WorkspaceId,
        id: Id<T::IdKind>,
    ) -> Result<Option<Record<T>>, Error> {
        self.record(T::KIND, workspace, id.uuid()).await?.map(Record::from_raw).transpose()
    }

    /// One living record of any workspace.
    pub async fn find<T: Kept>(&self, lookup: &str) -> Result<Option<Record<T>>, Error> {
        self.record_by_lookup(T::KIND, lookup).await?.map(Record::from_raw).transpose()
    }

    /// Living records, newest first.
    pub async fn list<T: Kept>(
        &self,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        page: Page,
    ) -> Result<Paged<Record<T>>, Error> {
        let paged = self.records(T::KIND, workspace, parent, page).await?;
        let items = paged.items.into_iter().map(Record::from_raw).collect::<Result<_, _>>()?;
        Ok(Paged { items, next: paged.next, prev: paged.prev, total: paged.total })
    }
}
