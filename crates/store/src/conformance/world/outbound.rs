//! What a world needs to publish to webhooks.

use bytes::Bytes;
use restante_core::endpoint::{EndpointId, Sealed, SigningSecret, Webhook};
use restante_core::event::{EventType, Filter};
use restante_core::health::Health;
use restante_core::id::{DeliveryId, EventId, ReplayId, RequestId, WebhookId};
use restante_core::message::MessageId;
use restante_core::retry::Schedule;
use restante_core::{Outcome, Timestamp};

use super::World;
use crate::record::{Kind, Notice, NoticeKind, Record, ReplayJob, Written};
use crate::{EventReceipt, NewEvent, Page, Parcel, Published, Publishing, Resent, Window, Withdraw, row};

/// What is published unless a test says otherwise.
const TYPE: &str = "order.paid";

/// A replay or a recovery that was taken on: its record and how many events it is about.
pub fn started(resent: Resent) -> (ReplayId, u64) {
    match resent {
        Resent::Started { id, events } => (id, events),
        refused @ (Resent::NotFound | Resent::Paused | Resent::QuotaExceeded) => panic!("{refused:?}"),
    }
}

/// Filters out of their texts.
pub fn filters(texts: &[&str]) -> Vec<Filter> {
    texts.iter().map(|text| Filter::parse(text).unwrap()).collect()
}

impl Parcel {
    /// The request it is of.
    pub(crate) fn request(&self) -> RequestId {
        match self.message {
            MessageId::Request(id) => id,
            MessageId::Event(_) | MessageId::Email(_) => panic!("{} is no request", self.message),
        }
    }

    /// The event it is of.
    pub(crate) fn event(&self) -> EventId {
        match self.message {
            MessageId::Event(id) => id,
            MessageId::Request(_) | MessageId::Email(_) => panic!("{} is no event", self.message),
        }
    }
}

impl World {
    /// A webhook that wants everything.
    pub async fn webhook(&mut self) -> WebhookId {
        self.webhook_with(|_| {}).await
    }

    pub async fn webhook_with(&mut self, change: impl FnOnce(&mut Webhook)) -> WebhookId {
        let mut webhook = Webhook {
            url: "https://hooks.example/in".into(),
            description: None,
            events: filters(&["*"]),
            secrets: vec![SigningSecret { secret: Sealed("sealed".into()), until: None }],
            paused: false,
            schedule: Schedule::Standard,
            headers: Vec::new(),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 15,
        };
        change(&mut webhook);
        self.make(Some(self.workspace), None, webhook).await.id
    }

    /// A webhook with these filters.
    pub async fn webhook_for(&mut self, events: &[&str]) -> WebhookId {
        self.webhook_with(|it| it.events = filters(events)).await
    }

    /// A webhook that wants everything and whose deliveries have one attempt each.
    pub async fn one_try_webhook(&mut self) -> WebhookId {
        self.webhook_with(|it| it.schedule = Schedule::Custom { waits_seconds: Vec::new(), jitter: 0.0 })
            .await
    }

    pub async fn change_webhook(&self, id: WebhookId, change: impl FnOnce(&mut Webhook)) {
        let mut record = self.store.get::<Webhook>(self.workspace, id).await.unwrap().unwrap();
        change(&mut record.body);
        let written = self.store.put(record, self.now).await.unwrap();
        assert!(matches!(written, Written::Done(_)), "{written:?}");
    }

    pub async fn pause(&self, id: WebhookId) {
        self.change_webhook(id, |it| it.paused = true).await;
    }

    pub async fn activate(&self, id: WebhookId) {
        self.change_webhook(id, |it| it.paused = false).await;
    }

    pub async fn is_paused(&self, id: WebhookId) -> bool {
        self.store.get::<Webhook>(self.workspace, id).await.unwrap().unwrap().body.paused
    }

    pub async fn delete_webhook(&self, id: WebhookId) {
        assert!(
            self.store.delete(Kind::Webhook, self.workspace, id.uuid(), self.now).await.unwrap(),
            "there was no webhook to delete"
        );
    }

    /// What a call looks like that publishes events of these types.
    pub fn publishing(&mut self, types: &[&str]) -> Publishing {
        let event = |name: &&str| NewEvent {
            event_type: EventType::parse(name).unwrap(),
            body: Bytes::from(format!(r#"{{"type":"{name}"}}"#)),
            tail: self.tail(),
        };
        let events = types.iter().map(event).collect();
        Publishing { workspace: self.workspace, events, claim: None, now: self.now }
    }

    pub async fn publish_this(&self, publishing: Publishing) -> Vec<EventReceipt> {
        match self.store.publish(publishing).await.unwrap() {
            Published::Fresh { events, .. } => events,
            other @ (Published::Replayed(_) | Published::KeyReused | Published::NoWorkspace) => {
                panic!("{other:?}")
            }
        }
    }

    pub async fn publish(&mut self, event_type: &str) -> EventReceipt {
        let publishing = self.publishing(&[event_type]);
        self.publish_this(publishing).await.remove(0)
    }

    /// Publishes an event for one webhook and takes its leased delivery.
    pub async fn emit(&mut self) -> Parcel {
        self.publish(TYPE).await;
        self.parcel()
    }

    /// Publishes an event for one webhook; its first attempt takes a second and comes to `outcome`.
    pub async fn emit_and_settle(&mut self, outcome: Outcome) -> Parcel {
        let parcel = self.emit().await;
        self.settle(&parcel, outcome).await;
        parcel
    }

    /// Publishes an event that nothing is leased of: its deliveries are due and have no attempt.
    pub async fn emit_unattempted(&mut self) -> EventId {
        self.store.attach(None).await.unwrap();
        let id = self.publish(TYPE).await.id;
        self.attach().await;
        id
    }

    pub async fn event(&self, id: EventId) -> row::Event {
        self.store.event(self.workspace, id, self.now).await.unwrap().unwrap()
    }

    pub async fn health(&self, id: WebhookId) -> Health {
        self.store.healths(vec![id]).await.unwrap().remove(0)
    }

    /// What the owners were told about a webhook, oldest first.
    pub async fn notices(&self, webhook: WebhookId) -> Vec<NoticeKind> {
        let parent = Some(webhook.uuid());
        let page = Page::newest(100);
        let told = self.store.list::<Notice>(Some(self.workspace), parent, page).await.unwrap();
        assert_eq!(told.next, None, "more notices than a page holds");
        told.items.iter().rev().map(|record| record.body.kind).collect()
    }

    /// All of time, as far as attempts are kept.
    pub fn always(&self) -> Window {
        Window { since: Timestamp::from_millis(0), until: self.now }
    }

    /// Asks for a replay of all that a webhook failed to take.
    pub async fn replay_all(&mut self, webhook: WebhookId) -> Resent {
        let (window, tail) = (self.always(), self.tail());
        self.store.replay_webhook(self.workspace, webhook, window, self.now, tail).await.unwrap()
    }

    /// Asks for a replay of one delivery.
    pub async fn replay_one(&mut self, webhook: WebhookId, delivery: DeliveryId) -> Resent {
        let tail = self.tail();
        self.store.replay_delivery(self.workspace, webhook, delivery, self.now, tail).await.unwrap()
    }

    pub async fn job(&self, id: ReplayId) -> ReplayJob {
        let record: Option<Record<ReplayJob>> = self.store.get(self.workspace, id).await.unwrap();
        record.unwrap().body
    }

    /// Claims as a dispatcher does, for as long as there is reason to at this moment, and takes what was leased.
    pub async fn claim_all(&self) -> Vec<Parcel> {
        for _ in 0..10_000 {
            let claimed = self.claim().await;
            let due = claimed.next_due.is_some_and(|due| due <= self.now);
            if claimed.count == 0 && !due && !self.woken() {
                return self.tray.take();
            }
        }
        panic!("the dispatcher spins");
    }

    /// Claims and settles as a dispatcher does, until nothing is left to do at this moment. Returns what was sent.
    pub async fn run(&mut self, outcome: Outcome) -> Vec<Parcel> {
        let mut sent = Vec::new();
        loop {
            let parcels = self.claim_all().await;
            if parcels.is_empty() {
                return sent;
            }
            let finished = parcels.iter().map(|parcel| self.finished(parcel, outcome.clone())).collect();
            self.store.settle(finished).await.unwrap();
            sent.extend(parcels);
        }
    }

    /// Whether all of a webhook's lane was to be given back since this was last asked.
    pub fn withdrew(&self, webhook: WebhookId) -> bool {
        self.tray.take_withdrawals().contains(&Withdraw::Endpoint(EndpointId::Webhook(webhook)))
    }
}
