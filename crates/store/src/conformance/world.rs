//! A store with somebody around it: a dispatcher, a clock, a workspace.

mod mail;
mod outbound;
mod reads;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use restante_core::endpoint::{Destination, DestinationKind, IdempotencyHeader, Source};
use restante_core::id::{DeliveryId, DestinationId, RequestId, SourceId, Tail, WorkspaceId};
use restante_core::message::Received;
use restante_core::retry::{Jitter, Schedule};
use restante_core::{Attempt, Outcome, State, Timestamp};

use super::{Home, Tray};
pub use outbound::{filters, started};

use crate::record::{Kept, Kind, Record, Workspace, Written};
use crate::{
    Accepted, Claimed, Finished, Incoming, Judgement, Lease, Listening, Parcel, Policy, Settled, Store, row,
};

/// What one client can do at the same time.
pub(super) const SEATS: u32 = 64;
/// When every world begins.
const BEGINNING: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A store, and all that a test needs around it.
pub struct World {
    pub store: Arc<dyn Store>,
    pub tray: Arc<Tray>,
    pub now: Timestamp,
    pub workspace: WorkspaceId,
    home: Box<dyn Home>,
    policy: Policy,
    tails: u64,
}

/// A source, and how requests get to it.
#[derive(Debug, Clone)]
pub struct Origin {
    pub id: SourceId,
    pub token: String,
}

/// An answer that delivers.
pub fn ok() -> Outcome {
    Outcome::of_status(200, None)
}

/// An answer that does not.
pub fn failed() -> Outcome {
    Outcome::of_status(500, None)
}

impl World {
    /// Opens a store that holds a workspace and nothing else, with a dispatcher attached.
    pub async fn open(home: impl Home + 'static) -> Self {
        let policy = Policy::default();
        let store = home.open(policy).await;
        let tray = Arc::new(Tray::default());
        let workspace = WorkspaceId::from_uuid(0);
        let home = Box::new(home);
        let mut world = Self { store, tray, now: BEGINNING, workspace, home, policy, tails: 0 };
        world.attach().await;
        world.workspace = world.new_workspace("first").await;
        world
    }

    /// The same world around another store that holds the same.
    pub async fn around(&self, home: impl Home + 'static) -> Self {
        let (store, home) = (home.open(self.policy).await, Box::new(home));
        let tray = Arc::new(Tray::default());
        let world = Self { store, tray, home, ..*self };
        world.attach().await;
        world
    }

    pub async fn attach(&self) {
        self.store.attach(Some(Arc::clone(&self.tray) as _)).await.unwrap();
    }

    /// The process dies and starts again. What was leased stays so until it is taken over.
    pub async fn crash(mut self) -> Self {
        self.tray = Arc::new(Tray::default());
        self.home.crash(self.store).await;
        self.store = self.home.open(self.policy).await;
        self.attach().await;
        self
    }

    /// The process dies and starts again under another policy.
    pub async fn restart(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self.crash().await
    }

    pub fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// A tail that no other id has.
    pub fn tail(&mut self) -> Tail {
        self.tails += 1;
        Tail::from_bits(self.tails * 0x9e37_79b9)
    }

    async fn make<T: Kept>(
        &mut self,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        body: T,
    ) -> Record<T> {
        let tail = self.tail();
        match self.store.make(workspace, parent, body, tail, self.now).await.unwrap() {
            Written::Done(record) => record,
            Written::NotFound | Written::NameTaken | Written::TooMany | Written::Stale => {
                panic!("the record was not created")
            }
        }
    }

    pub async fn new_workspace(&mut self, name: &str) -> WorkspaceId {
        self.make(None, None, Workspace::new(name.into(), Vec::new())).await.id
    }

    pub async fn source(&mut self, name: &str) -> Origin {
        self.source_with(name, |_| {}).await
    }

    pub async fn source_with(&mut self, name: &str, change: impl FnOnce(&mut Source)) -> Origin {
        let token = format!("token-{}", self.tail().value());
        let mut source = Source {
            name: name.into(),
            token: token.clone(),
            response: None,
            deliver_pending_on_connect: true,
            retention_days: 30,
            dedupe: None,
            verification: None,
        };
        change(&mut source);
        let id = self.make(Some(self.workspace), None, source).await.id;
        Origin { id, token }
    }

    pub async fn destination(&mut self, source: &Origin) -> DestinationId {
        self.destination_with(source, |_| {}).await
    }

    pub async fn destination_with(
        &mut self,
        source: &Origin,
        change: impl FnOnce(&mut Destination),
    ) -> DestinationId {
        let mut destination = Destination {
            kind: DestinationKind::Http,
            url: "https://a.example/hook".into(),
            schedule: Schedule::Quadratic { attempts: 5 },
            idempotency_header: IdempotencyHeader::Off,
            paused: false,
            headers: Vec::new(),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 30,
        };
        change(&mut destination);
        self.make(Some(self.workspace), Some(source.id.uuid()), destination).await.id
    }

    /// A source with one destination.
    pub async fn pair(&mut self) -> (Origin, DestinationId) {
        let name = format!("source {}", self.tail().value());
        let source = self.source(&name).await;
        let destination = self.destination(&source).await;
        (source, destination)
    }

    pub async fn change_destination(&self, id: DestinationId, change: impl FnOnce(&mut Destination)) {
        let mut record = self.store.get::<Destination>(self.workspace, id).await.unwrap().unwrap();
        change(&mut record.body);
        let written = self.store.put(record, self.now).await.unwrap();
        assert!(matches!(written, Written::Done(_)), "{written:?}");
    }

    pub async fn change_source(&self, id: SourceId, change: impl FnOnce(&mut Source)) {
        let mut record = self.store.get::<Source>(self.workspace, id).await.unwrap().unwrap();
        change(&mut record.body);
        let written = self.store.put(record, self.now).await.unwrap();
        assert!(matches!(written, Written::Done(_)), "{written:?}");
    }

    pub async fn delete_destination(&self, id: DestinationId) {
        assert!(
            self.store.delete(Kind::Destination, self.workspace, id.uuid(), self.now).await.unwrap(),
            "there was no destination to delete"
        );
    }

    pub async fn delete_source(&self, id: SourceId) {
        assert!(
            self.store.delete(Kind::Source, self.workspace, id.uuid(), self.now).await.unwrap(),
            "there was no source to delete"
        );
    }

    /// What a request at the door of `token` looks like.
    pub fn incoming(&mut self, token: &str, body: &str) -> Incoming {
        let received = Received {
            method: "POST".into(),
            path: "/orders".into(),
            query: None,
            headers: [("content-type", &b"text/plain"[..])].into_iter().collect(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            remote_address: "192.0.2.1".into(),
        };
        Incoming {
            token: token.into(),
            received,
            judgement: Judgement::default(),
            now: self.now,
            tail: self.tail(),
        }
    }

    pub async fn receive(&mut self, source: &Origin) -> RequestId {
        let incoming = self.incoming(&source.token, "hello");
        self.receive_this(incoming).await
    }

    pub async fn receive_this(&self, incoming: Incoming) -> RequestId {
        let accepted = self.store.accept(incoming).await.unwrap();
        let Accepted::Fresh { id, .. } = accepted else { panic!("{accepted:?}") };
        id
    }

    /// Receives a request for a source with one destination and takes its leased delivery.
    pub async fn send(&mut self, source: &Origin) -> Parcel {
        self.receive(source).await;
        self.parcel()
    }

    /// The one parcel that was dispatched.
    pub fn parcel(&self) -> Parcel {
        let mut parcels = self.tray.take();
        assert_eq!(parcels.len(), 1, "dispatched parcels");
        parcels.remove(0)
    }

    /// A client of a source connects.
    pub async fn connect(&self, source: &Origin) {
        self.connect_with(source, SEATS).await;
    }

    pub async fn connect_with(&self, source: &Origin, seats: u32) {
        self.store.listen(source.id, Some(Listening { since: self.now, seats })).await.unwrap();
    }

    /// The last client of a source goes.
    pub async fn leave(&self, source: &Origin) {
        self.store.listen(source.id, None).await.unwrap();
    }

    pub async fn claim(&self) -> Claimed {
        self.claim_up_to(1000).await
    }

    pub async fn claim_up_to(&self, most: usize) -> Claimed {
        self.store.claim(self.now, most).await.unwrap()
    }

    /// An attempt that began a second ago and ends now.
    pub fn finished(&self, parcel: &Parcel, outcome: Outcome) -> Finished {
        Finished {
            lease: parcel.lease,
            attempt: Attempt {
                number: parcel.lease.attempt,
                outcome,
                started_at: self.now - Duration::from_secs(1),
                ended_at: self.now,
            },
            endpoint_version: parcel.endpoint.settings().version,
            jitter: Jitter::NONE,
        }
    }

    /// An attempt takes a second and comes to `outcome`.
    pub async fn settle(&mut self, parcel: &Parcel, outcome: Outcome) -> Settled {
        self.pass(1000);
        let finished = self.finished(parcel, outcome);
        self.store.settle(vec![finished]).await.unwrap().remove(0)
    }

    pub async fn release(&self, lease: Lease) {
        self.store.release(vec![lease], self.now).await.unwrap();
    }

    /// Claims the one delivery that is due and lets it come to `outcome`.
    pub async fn claim_and_settle(&mut self, outcome: Outcome) -> Settled {
        assert_eq!(self.claim().await.count, 1, "due deliveries");
        let parcel = self.parcel();
        self.settle(&parcel, outcome).await
    }

    pub async fn find(&self, id: DeliveryId) -> Option<row::Delivery> {
        self.store.delivery(self.workspace, id, self.now).await.unwrap()
    }

    pub async fn delivery(&self, id: DeliveryId) -> row::Delivery {
        self.find(id).await.unwrap()
    }

    pub async fn state(&self, id: DeliveryId) -> State {
        self.delivery(id).await.life.state
    }

    pub async fn request(&self, id: RequestId) -> row::Request {
        self.store.request(self.workspace, id, self.now).await.unwrap().unwrap()
    }

    /// Prunes until nothing is left to do.
    pub async fn prune(&self) {
        while self.store.prune(self.now, 1000).await.unwrap() {}
    }

    /// Whether the dispatcher was woken since this was last asked.
    pub fn woken(&self) -> bool {
        pin!(self.store.due().notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
