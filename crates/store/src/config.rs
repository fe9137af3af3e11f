//! The configuration in memory: what has to be known of it for each message.

use std::sync::Arc;

use restante_core::delivery::{self, CancelReason, Over};
use restante_core::endpoint::{
    Answer, Destination, EndpointId, HeldBack, MailTerms, Mailboxes, Receiver, Source, Webhook,
};
use restante_core::event::EventType;
use restante_core::health::Health;
use restante_core::id::{DestinationId, Key, MailboxesId, SourceId, WebhookId, WorkspaceId};
use restante_core::intake::Rules;
use restante_core::{Delivery, Timestamp};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;

use crate::clients::{Clients, Served};
use crate::code::{Damaged, DeliveryRow, mail_feed};
use crate::endpoint::{Endpoint, Feed, Seating, Settings};
use crate::intake::RuleBook;
use crate::record::{MailboxesRow, Raw};

/// Sources, endpoints and workspaces by their rows in the table `record`.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) workspaces: FxHashMap<i64, WorkspaceEntry>,
    pub(crate) workspace_rows: FxHashMap<WorkspaceId, i64>,
    pub(crate) sources: FxHashMap<i64, SourceEntry>,
    pub(crate) source_rows: FxHashMap<SourceId, i64>,
    /// Tokens of living sources.
    pub(crate) tokens: FxHashMap<String, i64>,
    pub(crate) endpoints: FxHashMap<i64, EndpointEntry>,
    /// What the operator decided about mail to any domain.
    pub(crate) mail_terms: MailTerms,
    /// Who listens at this node.
    pub(crate) clients: Clients,
    pub(crate) served: Served,
    pub(crate) book: RuleBook,
}

#[derive(Debug)]
pub(crate) struct WorkspaceEntry {
    pub(crate) id: WorkspaceId,
    /// Changed in memory at once, in the table at the end of the transaction.
    pub(crate) balance: Option<i64>,
    pub(crate) balance_changed: bool,
    /// Living webhooks, oldest first.
    pub(crate) webhooks: Vec<i64>,
    /// By domain, the mailboxes that it wrote to.
    pub(crate) mailboxes: FxHashMap<String, i64>,
    /// Which of the webhooks want which type, as far as it was asked.
    routes: FxHashMap<EventType, Arc<[i64]>>,
}

#[derive(Debug)]
pub(crate) struct SourceEntry {
    pub(crate) workspace: i64,
    pub(crate) token: String,
    pub(crate) answer: Option<Arc<Answer>>,
    pub(crate) rules: Option<Arc<Rules>>,
    pub(crate) takes_pending: bool,
    pub(crate) retention_ms: i64,
    /// Living destinations, oldest first.
    pub(crate) endpoints: Vec<i64>,
    /// When it was deleted.
    pub(crate) gone_at: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct EndpointEntry {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) settings: Arc<Settings>,
    /// The row of the source of a destination, of the workspace of a webhook.
    pub(crate) parent: i64,
    pub(crate) gone: Option<CancelReason>,
    /// Of a webhook: how it stands, and what its last pause did.
    pub(crate) standing: Standing,
    /// Deliveries leased now.
    pub(crate) leased: u32,
    /// A lower bound of the due times of its pending deliveries; `i64::MAX` when there are none.
    pub(crate) next_due: i64,
    /// Where it stands in the agenda.
    pub(crate) listed_at: Option<i64>,
    /// Where it stands among what is planned.
    pub(crate) planned_at: Option<i64>,
    /// Claims look at what is due from here on: before it the index is full of what was claimed. Where one process
    /// writes, it is not.
    pub(crate) low: i64,
    /// How often it was looked in a row and there was nothing to do for it, where slots are shared out.
    pub(crate) idle_looks: u32,
}

/// A row of `health`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) health: Health,
    /// When it was last paused.
    pub(crate) paused_at: Option<i64>,
    /// Pending deliveries with marks up to this were ended by that pause. The mark is what the database can tell
    /// before from after by: where one process writes, the delivery's key; otherwise how often the webhook had been
    /// paused when the delivery was planned.
    pub(crate) cut: Option<i64>,
    /// How often it was paused, where that is the mark.
    pub(crate) pauses: i64,
}

impl Standing {
    /// That of a webhook which was created paused: its creation is its first pause.
    pub(crate) fn paused_from_the_start(record: &RecordRow) -> Self {
        Self { paused_at: Some(record.raw.created_at.millis()), ..Self::default() }
    }

    /// `now`, but not before the last pause: what it skipped is told by the time, and whoever publishes looks at the
    /// clock a little earlier than it is stored.
    pub(crate) fn behind_pause(&self, now: Timestamp) -> Timestamp {
        self.paused_at.map_or(now, |at| now.max(Timestamp::from_millis(at)))
    }
}

impl EndpointEntry {
    /// Why no attempt may begin at this node; `None`: they may, unless it is gone.
    pub(crate) fn holds_back(&self) -> Option<HeldBack> {
        self.endpoint.holds_back_with(&self.settings.receiver)
    }

    /// Whether attempts may begin at this node.
    pub(crate) fn is_open(&self) -> bool {
        self.gone.is_none() && self.holds_back().is_none()
    }

    /// Whether only clients could make attempts, and none is at this node.
    pub(crate) fn lacks_clients(&self) -> bool {
        self.endpoint.seats() == 0
    }

    /// Whether other nodes may have its slots at once. Whoever has its rate next begins no sooner than that allows after
    /// the last attempt here, so those wait.
    pub(crate) fn leaves_slots(&self) -> bool {
        self.lacks_clients() && self.settings.receiver.rate_per_second().is_none()
    }

    /// Whether attempts may begin at this node but for slots, of which it has none.
    pub(crate) fn wants_slots(&self) -> bool {
        self.is_open() && self.endpoint.shared_slots() == 0
    }

    /// The first key of what may be leased here; 0: of all. What a deletion ended is looked for whatever its key.
    pub(crate) fn floor(&self) -> i64 {
        if self.gone.is_some() { 0 } else { self.endpoint.floor() }
    }

    /// Nothing that may be leased here is due before this: what has the key of the floor was made then, or up to
    /// `key_lead_ms` earlier, when the clock went back.
    pub(crate) fn due_floor(&self, key_lead_ms: i64) -> i64 {
        match self.floor() {
            0 => 0,
            floor => Key::from_value(floor).at().millis().saturating_sub(key_lead_ms),
        }
    }

    /// See [`ended`].
    pub(crate) fn ended(&self, row: &DeliveryRow, now: Timestamp) -> Option<Delivery> {
        ended(self.gone, self.standing, row, now)
    }
}

/// Why a pending delivery with this mark is over: its endpoint is gone, or was paused while it was pending.
///
/// What a pause ended has ended: a deletion that comes later finds nothing to cancel.
pub(crate) fn over(gone: Option<CancelReason>, standing: Standing, mark: i64) -> Option<Over> {
    let paused = standing.cut.filter(|cut| mark <= *cut).map(|_| Over::Paused);
    paused.or(gone.map(Over::Gone))
}

/// What a pending delivery came to by a deletion or a pause that has not marked it yet; `None` if neither ended it.
pub(crate) fn ended(
    gone: Option<CancelReason>,
    standing: Standing,
    row: &DeliveryRow,
    now: Timestamp,
) -> Option<Delivery> {
    let over = over(gone, standing, row.mark)?;
    let at = match over {
        Over::Paused => standing.paused_at.map_or(now, Timestamp::from_millis),
        Over::Gone(_) => now,
    };
    delivery::abandon(&row.life, over, at)
}

/// Types whose routes are remembered for each workspace: a caller may make up any number.
const ROUTES_MAX: usize = 4096;

impl WorkspaceEntry {
    /// Forgets which webhooks want what.
    pub(crate) fn forget_routes(&mut self) {
        self.routes.clear();
    }
}

/// A record with its database-internal references.
#[derive(Debug)]
pub(crate) struct RecordRow {
    pub(crate) row: i64,
    pub(crate) kind: i64,
    pub(crate) workspace: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) deleted_at: Option<i64>,
    pub(crate) raw: Raw,
}

pub(crate) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, Damaged> {
    serde_json::from_str(body).map_err(|error| Damaged(format!("record body: {error}")))
}

impl Config {
    pub(crate) fn take_workspace(&mut self, record: &RecordRow, balance: Option<i64>) {
        let id = record.raw.workspace;
        let entry = WorkspaceEntry {
            id,
            balance,
            balance_changed: false,
            webhooks: Vec::new(),
            mailboxes: FxHashMap::default(),
            routes: FxHashMap::default(),
        };
        self.workspaces.insert(record.row, entry);
        self.workspace_rows.insert(id, record.row);
    }

    pub(crate) fn take_source(&mut self, record: &RecordRow) -> Result<(), Damaged> {
        let source: Source = parse(&record.raw.body)?;
        if let Some(old) = self.sources.get(&record.row) {
            self.tokens.remove(&old.token);
            self.book.set(&old.token, None);
        }
        let rules = source.rules().map(Arc::new);
        if record.deleted_at.is_none() {
            self.tokens.insert(source.token.clone(), record.row);
            self.book.set(&source.token, rules.as_ref());
        }
        let endpoints = self.sources.remove(&record.row).map(|old| old.endpoints).unwrap_or_default();
        self.source_rows.insert(SourceId::from_uuid(record.raw.uuid), record.row);
        let retention_ms = i64::try_from(source.retention().as_millis()).unwrap_or(i64::MAX);
        self.sources.insert(
            record.row,
            SourceEntry {
                workspace: record.workspace,
                token: source.token,
                answer: source.response.map(Arc::new),
                rules,
                takes_pending: source.deliver_pending_on_connect,
                retention_ms,
                endpoints,
                gone_at: record.deleted_at,
            },
        );
        Ok(())
    }

    pub(crate) fn take_destination(&mut self, record: &RecordRow, old: &Self) -> Result<(), Damaged> {
        let destination: Destination = parse(&record.raw.body)?;
        let source = record.parent.ok_or_else(|| Damaged("a destination without a source".into()))?;
        let source_id = record.raw.parent.map_or(SourceId::from_uuid(0), SourceId::from_uuid);
        let source_entry = self.sources.get_mut(&source);
        let gone = gone_reason(record.deleted_at, source_entry.as_ref().and_then(|entry| entry.gone_at));
        if let Some(entry) = source_entry.filter(|_| gone.is_none()) {
            entry.endpoints.push(record.row);
        }
        let new = NewEndpoint {
            id: EndpointId::Destination(DestinationId::from_uuid(record.raw.uuid)),
            feed: Feed::Source(source_id),
            receiver: Receiver::Destination(destination),
            parent: source,
            gone,
            standing: Standing::default(),
        };
        self.take_endpoint(record, new, old);
        self.seat(record.row);
        Ok(())
    }

    /// Brings a destination up to date with who listens and with its source's settings. Returns how it was and is, if
    /// that is not the same.
    pub(crate) fn seat(&self, row: i64) -> Option<(Seating, Seating)> {
        let entry = self.endpoints.get(&row)?;
        let Feed::Source(source) = entry.endpoint.feed else { return None };
        let takes_pending = self.sources.get(&entry.parent).is_none_or(|it| it.takes_pending);
        let needs_client = entry.settings.receiver.needs_client();
        let seating = if needs_client {
            self.clients.seating(source, takes_pending)
        } else {
            Seating { takes_pending, ..Seating::ANY }
        };
        self.served.set(&entry.endpoint, needs_client && seating.seats > 0 && entry.gone.is_none());
        let before = entry.endpoint.seat(seating);
        (before != seating).then_some((before, seating))
    }

    /// Living destinations of a source.
    pub(crate) fn destinations(&self, source: SourceId) -> Vec<i64> {
        let entry = self.source_rows.get(&source).and_then(|row| self.sources.get(row));
        entry.map(|entry| entry.endpoints.clone()).unwrap_or_default()
    }

    pub(crate) fn take_webhook(
        &mut self,
        record: &RecordRow,
        standing: Standing,
        old: &Self,
    ) -> Result<(), Damaged> {
        let webhook: Webhook = parse(&record.raw.body)?;
        let gone = record.deleted_at.map(|_| CancelReason::EndpointDeleted);
        if let Some(entry) = self.workspaces.get_mut(&record.workspace).filter(|_| gone.is_none()) {
            entry.webhooks.push(record.row);
            entry.forget_routes();
        }
        let new = NewEndpoint {
            id: EndpointId::Webhook(WebhookId::from_uuid(record.raw.uuid)),
            feed: Feed::Events,
            receiver: Receiver::Webhook(webhook),
            parent: record.workspace,
            gone,
            standing,
        };
        self.take_endpoint(record, new, old);
        Ok(())
    }

    pub(crate) fn take_mailboxes(&mut self, record: &RecordRow, old: &Self) -> Result<(), Damaged> {
        let receiver = self.mailboxes(record)?;
        if let Some(entry) = self.workspaces.get_mut(&record.workspace) {
            entry.mailboxes.insert(receiver.url().to_owned(), record.row);
        }
        let new = NewEndpoint {
            id: EndpointId::Mailboxes(MailboxesId::from_uuid(record.raw.uuid)),
            feed: Feed::Mail,
            receiver,
            parent: record.workspace,
            gone: None,
            standing: Standing::default(),
        };
        self.take_endpoint(record, new, old);
        Ok(())
    }

    /// What a record says of mailboxes.
    pub(crate) fn mailboxes(&self, record: &RecordRow) -> Result<Receiver, Damaged> {
        let MailboxesRow { domain } = parse(&record.raw.body)?;
        Ok(Receiver::Mailboxes(Mailboxes { domain, terms: self.mail_terms.clone() }))
    }

    fn take_endpoint(&mut self, record: &RecordRow, new: NewEndpoint, old: &Self) {
        let settings = Settings {
            receiver: new.receiver,
            version: record.raw.version,
            gone: record.deleted_at.is_some(),
        };
        let endpoint = match old.endpoints.get(&record.row) {
            Some(known) => Arc::clone(&known.endpoint),
            None => Arc::new(Endpoint::new(new.id, new.feed, record.raw.workspace, settings.clone())),
        };
        let entry = EndpointEntry {
            endpoint,
            settings: Arc::new(settings),
            parent: new.parent,
            gone: new.gone,
            standing: new.standing,
            leased: 0,
            next_due: i64::MAX,
            listed_at: None,
            planned_at: None,
            low: 0,
            idle_looks: 0,
        };
        self.endpoints.insert(record.row, entry);
    }

    /// The feed behind another: workspaces have one of events, and one of emails.
    pub(crate) fn feed_behind(&self, feed: i64) -> Option<i64> {
        let feeds = self.workspaces.keys().flat_map(|row| [*row, mail_feed(*row)]);
        feeds.filter(|other| *other > feed).min()
    }

    /// Living webhooks of a workspace that want a type, paused ones included.
    pub(crate) fn subscribers(&mut self, workspace: i64, event_type: &EventType) -> Arc<[i64]> {
        let Some(entry) = self.workspaces.get_mut(&workspace) else { return Arc::from([]) };
        if let Some(known) = entry.routes.get(event_type) {
            return Arc::clone(known);
        }
        let wants = |row: &i64| match self.endpoints.get(row).map(|it| &it.settings.receiver) {
            Some(Receiver::Webhook(webhook)) => webhook.events.iter().any(|it| it.matches(event_type)),
            Some(Receiver::Destination(_) | Receiver::Mailboxes(_)) | None => false,
        };
        let found: Arc<[i64]> = entry.webhooks.iter().copied().filter(wants).collect();
        if entry.routes.len() >= ROUTES_MAX {
            entry.forget_routes();
        }
        entry.routes.insert(event_type.clone(), Arc::clone(&found));
        found
    }

    /// The row of the workspace that an endpoint belongs to.
    pub(crate) fn workspace_of(&self, endpoint: &EndpointEntry) -> Result<i64, Damaged> {
        match endpoint.endpoint.feed {
            Feed::Source(_) => Ok(self.source(endpoint.parent)?.workspace),
            Feed::Events | Feed::Mail => Ok(endpoint.parent),
        }
    }

    /// How long an endpoint's messages are kept from when they came; `None`: not counted from there.
    pub(crate) fn retention_ms(&self, endpoint: &EndpointEntry) -> Result<Option<i64>, Damaged> {
        match endpoint.endpoint.feed {
            Feed::Source(_) => Ok(Some(self.source(endpoint.parent)?.retention_ms)),
            Feed::Events | Feed::Mail => Ok(None),
        }
    }

    fn source(&self, row: i64) -> Result<&SourceEntry, Damaged> {
        self.sources.get(&row).ok_or_else(|| Damaged("an endpoint without a source".into()))
    }
}

/// What differs between a destination and a webhook.
struct NewEndpoint {
    id: EndpointId,
    feed: Feed,
    receiver: Receiver,
    parent: i64,
    gone: Option<CancelReason>,
    standing: Standing,
}

/// Why the deliveries of a deleted destination end: a source takes its destinations with it.
pub(crate) fn gone_reason(deleted_at: Option<i64>, source_deleted_at: Option<i64>) -> Option<CancelReason> {
    deleted_at?;
    Some(if deleted_at == source_deleted_at {
        CancelReason::SourceDeleted
    } else {
        CancelReason::EndpointDeleted
    })
}
