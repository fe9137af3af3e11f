//! A node: what it has in memory, from its start to its death.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use restante_core::Timestamp;
use restante_core::delivery::Terms;
use restante_core::delivery::{CancelReason, Over};
use restante_core::endpoint::{
    Destination, DestinationKind, EndpointId, IdempotencyHeader, Receiver as Setting,
};
use restante_core::id::{DeliveryId, Id, Key, KeyMaker, Tail};
use restante_core::message::MessageId;
use restante_server::dispatcher::lanes::Lanes;
use restante_store::endpoint::{Endpoint, Feed, Settings};
use restante_store::{Content, Lease, Parcel};

use super::World;
use super::clockwork::{Bell, Owner};
use super::database::{DeliveryRow, EndpointRow, NodeRow};
use super::plan::Plan;
use super::settles::Job;
use super::wire::Fault;
use crate::timeline::Moment;

/// See the module.
pub(super) struct Node {
    pub(super) world: Rc<World>,
    pub(super) host: usize,
    /// Its number in the database: never used again.
    pub(super) life: u32,
    pub(super) state: RefCell<State>,
    pub(super) beat: Bell,
    pub(super) arrived: Bell,
    pub(super) planned: Bell,
    pub(super) finished: Bell,
    pub(super) wanted: Bell,
}

/// All that is gone when the node dies.
pub(super) struct State {
    /// Counts how often it has lapsed. What a transaction leases that began in another term is not dialled.
    pub(super) term: u64,
    /// When the latest answered heartbeat was sent.
    pub(super) heartbeat: Option<Moment>,
    pub(super) epoch: u64,
    pub(super) endpoints: Vec<EndpointRow>,
    /// The endpoints as lanes know them.
    pub(super) shared: Vec<Arc<Endpoint>>,
    pub(super) lanes: Lanes,
    pub(super) slots: Vec<u32>,
    /// Leases, and places kept for those that a transaction is about to make, by endpoint.
    pub(super) leased: Vec<u32>,
    /// When something of an endpoint was last dialled or leased.
    pub(super) used: Vec<Moment>,
    pub(super) dialled: Vec<Option<Moment>>,
    /// Endpoints that have something and no slots.
    pub(super) wants: BTreeSet<usize>,
    /// Leases by a number of their own: a delivery that was released and claimed again has the same attempt's number.
    pub(super) held: BTreeMap<u64, Held>,
    pub(super) latest: BTreeMap<(DeliveryId, u32), u64>,
    pub(super) leases_made: u64,
    /// Keys of open leases since birth.
    pub(super) born: BTreeSet<i64>,
    /// Deliveries that must not be dialled, known here or not yet.
    pub(super) withdrawn: BTreeSet<i64>,
    pub(super) keys: KeyMaker,
    pub(super) intake: Vec<usize>,
    pub(super) jobs: Vec<Job>,
    pub(super) marks: BTreeMap<u32, u64>,
    /// When something that this node knows of is due, by its clock.
    pub(super) due: BTreeSet<Timestamp>,
}

/// A lease, as it was given.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) row: DeliveryRow,
    pub(super) since: Timestamp,
}

impl World {
    /// A process starts at a place where none runs.
    pub(super) fn start(self: &Rc<Self>, host: usize) {
        self.lives.set(self.lives.get() + 1);
        let life = self.lives.get();
        let node = Rc::new(Node {
            world: Rc::clone(self),
            host,
            life,
            state: RefCell::new(State::new(&self.plan)),
            beat: Bell::default(),
            arrived: Bell::default(),
            planned: Bell::default(),
            finished: Bell::default(),
            wanted: Bell::default(),
        });
        self.note(format_args!("n{life} starts at h{host}"));
        self.hosts.borrow_mut()[host].node = Some(Rc::clone(&node));
        self.clockwork.spawn(Owner::Process(life), node.live());
    }

    /// A process is no more.
    pub(super) fn stop(&self, host: usize) -> Option<u32> {
        let node = self.hosts.borrow_mut()[host].node.take()?;
        self.clockwork.kill(Owner::Process(node.life));
        self.story.borrow_mut().died.insert(node.life, super::story::Died { at: self.now() });
        Some(node.life)
    }
}

impl Node {
    async fn live(self: Rc<Self>) {
        while !self.register().await {
            self.world.clockwork.sleep(400).await;
        }
        self.load_configuration().await;
        let node = || Rc::clone(&self);
        self.spawn(node().beat_loop());
        self.spawn(node().accept_loop());
        self.spawn(node().settle_loop());
        self.spawn(node().claim_loop());
        self.spawn(node().limits_loop());
        self.spawn(node().take_over_loop());
        self.spawn(node().withdrawals_loop());
        self.spawn(node().pace_loop());
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.world.clockwork.spawn(Owner::Process(self.life), task);
    }

    pub(super) fn now(&self) -> Moment {
        self.world.now()
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.world.wall(self.world.plan.skews_ms[self.host])
    }

    async fn register(self: &Rc<Self>) -> bool {
        let (sent, life, floor) = (self.now(), self.life, Key::first_at(self.wall()).value());
        let slot = self.once(move |db, tx| {
            let taken = |slot| db.nodes.rows(tx).any(|(id, row)| row.slot == slot && id != life);
            let slot = (0..u16::MAX).find(|slot| !taken(*slot)).unwrap_or(0);
            let row = NodeRow { slot, seen_at: db.clock, floor, epoch: 0 };
            let row = db.nodes.get(tx, life).copied().unwrap_or(row);
            db.nodes.put(tx, life, Some(row))?;
            Ok(row.slot)
        });
        let Ok(slot) = slot.await else { return false };
        let mut state = self.state.borrow_mut();
        state.heartbeat = Some(sent);
        state.keys = KeyMaker::in_slot(slot);
        true
    }

    /// What there is to do about a transaction that failed, before it is tried again.
    pub(super) async fn mend(self: &Rc<Self>, fault: Fault) {
        use super::database::Refusal;
        match fault {
            Fault::Refused(Refusal::Epoch) => self.load_configuration().await,
            Fault::Refused(Refusal::Gone) => self.start_anew().await,
            Fault::Refused(Refusal::Void) | Fault::Broken => {
                self.world.clockwork.sleep(100 + self.world.below(200)).await;
            }
        }
    }

    /// It counts as dead: it drops what it holds, and starts with another number.
    pub(super) async fn start_anew(self: &Rc<Self>) {
        self.world.note(format_args!("n{} finds itself gone", self.life));
        self.world.count("node found itself gone");
        let (world, host) = (Rc::clone(&self.world), self.host);
        world.stop(host);
        world.hang_up_all(host, self.life);
        world.start(host);
        std::future::pending::<()>().await;
    }

    /// The rules an endpoint's deliveries are subject to.
    pub(super) fn terms(endpoint: &EndpointRow) -> Terms<'_> {
        let over = endpoint.gone.then_some(Over::Gone(CancelReason::EndpointDeleted));
        Terms { schedule: &endpoint.schedule, over, watch: None }
    }

    pub(super) fn parcel(&self, held: &Held) -> Parcel {
        let state = self.state.borrow();
        Parcel {
            lease: held.lease(),
            message: MessageId::Request(Id::new(Key::from_value(held.row.message), Tail::from_bits(0))),
            endpoint: Arc::clone(&state.shared[held.row.endpoint]),
            content: content(),
            due_at: held.row.life.attempt_due_at(held.since),
            claimed_at: held.since,
            expires_at: None,
            mailbox: None,
        }
    }
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        Lease { delivery: self.row.id, attempt: self.row.life.attempts_made }
    }
}

impl State {
    fn new(plan: &Plan) -> Self {
        let count = plan.endpoints.len();
        Self {
            term: 0,
            heartbeat: None,
            epoch: 0,
            endpoints: Vec::new(),
            shared: (0..count).map(|place| Arc::new(shared(plan, place))).collect(),
            lanes: Lanes::new(64),
            slots: vec![0; count],
            leased: vec![0; count],
            used: vec![Moment::default(); count],
            dialled: vec![None; count],
            wants: BTreeSet::new(),
            held: BTreeMap::new(),
            latest: BTreeMap::new(),
            leases_made: 0,
            born: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            keys: KeyMaker::in_slot(0),
            intake: Vec::new(),
            jobs: Vec::new(),
            marks: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// How many more deliveries of an endpoint this node may hold: never more than its slots, and none while it may not
    /// dial, for others would take them over as lost, again and again, until their attempts are used up.
    pub(super) fn room(&self, endpoint: usize, may_dial: bool) -> u32 {
        let row = &self.endpoints[endpoint];
        if row.paused || row.gone || !may_dial {
            return 0;
        }
        let most = self.slots[endpoint].min(self.shared[endpoint].leases_max());
        most.saturating_sub(self.leased[endpoint])
    }
}

pub(super) fn endpoint_id(place: usize) -> EndpointId {
    EndpointId::Destination(Id::new(Key::from_value(place as i64 + 1), Tail::from_bits(0)))
}

fn shared(plan: &Plan, place: usize) -> Endpoint {
    let plan = &plan.endpoints[place];
    let receiver = Setting::Destination(Destination {
        kind: DestinationKind::Http,
        url: format!("https://r{place}.example/"),
        schedule: plan.schedule.clone(),
        idempotency_header: IdempotencyHeader::Standard,
        paused: false,
        headers: Vec::new(),
        max_in_flight: plan.max_in_flight,
        rate_per_second: plan.rate_per_second,
        timeout_seconds: plan.timeout_seconds,
    });
    let id = |number| Id::new(Key::from_value(number), Tail::from_bits(0));
    let feed = Feed::Source(Id::new(Key::from_value(1), Tail::from_bits(0)));
    Endpoint::new(endpoint_id(place), feed, id(1), Settings { receiver, version: 1, gone: false })
}

/// The one content all parcels here carry: this world is not about bytes, and only the store makes contents.
fn content() -> Arc<Content> {
    static CONTENT: OnceLock<Arc<Content>> = OnceLock::new();
    Arc::clone(CONTENT.get_or_init(crate::world::some_content))
}

/// A lease, for maps.
pub(super) fn name_of(lease: Lease) -> (DeliveryId, u32) {
    (lease.delivery, lease.attempt)
}
