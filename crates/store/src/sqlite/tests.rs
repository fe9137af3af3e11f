//! What the promises of the trait do not show: memory against the tables, files, and the one writer.

mod files;
mod history;
mod leases;
mod lists;
mod migration;
mod random;
mod rollback;
mod tally;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use restante_core::endpoint::{Destination, DestinationKind, IdempotencyHeader, Source, Webhook};
use restante_core::event::{EventType, Filter};
use restante_core::id::{Id, Tail, WorkspaceId};
use restante_core::message::{Headers, Received};
use restante_core::retry::{Jitter, Schedule};
use restante_core::{Attempt, Outcome, Timestamp};
use rusqlite::Connection;
use tempfile::TempDir;

use super::config::Standing;
use super::engine::Engine;
use super::{DATABASE_FILE, Fault};
use crate::conformance::Tray;
use crate::record::{Draft, Kind, Raw, Workspace};
use crate::{
    Accepted, Created, EventReceipt, Finished, Incoming, Judgement, NewEvent, Parcel, Policy, Published,
    Publishing, Updated,
};

/// An engine in a directory of its own, with a workspace.
struct Rig {
    engine: Engine,
    tray: Arc<Tray>,
    now: Timestamp,
    workspace: WorkspaceId,
    policy: Policy,
    tails: u64,
    directory: TempDir,
}

impl Rig {
    fn new() -> Self {
        Self::with(Policy::default())
    }

    fn with(policy: Policy) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(&directory.path().join(DATABASE_FILE), policy);
        let (tray, now) = (Arc::new(Tray::default()), Timestamp::from_millis(1_800_000_000_000));
        let workspace = WorkspaceId::from_uuid(0);
        let mut rig = Self { engine, tray, now, workspace, policy, tails: 0, directory };
        rig.engine.attach(Some(Arc::clone(&rig.tray) as _));
        let body = serde_json::to_string(&Workspace::new("first".into(), Vec::new())).unwrap();
        let made = rig.create(Kind::Workspace, None, None, None, body);
        rig.workspace = WorkspaceId::from_uuid(made.uuid);
        rig
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(DATABASE_FILE)
    }

    /// A second engine on the same file: what a process would find that started now.
    fn fresh(&self) -> Engine {
        let mut engine = open(&self.path(), self.policy);
        engine.attach(Some(Arc::new(Tray::default())));
        engine
    }

    /// The process dies and starts again.
    fn crash(&mut self) {
        self.tray = Arc::new(Tray::default());
        self.engine = open(&self.path(), self.policy);
        self.engine.attach(Some(Arc::clone(&self.tray) as _));
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    fn tail(&mut self) -> Tail {
        self.tails += 1;
        Tail::from_bits(self.tails * 0x9e37_79b9)
    }

    fn run<T>(&mut self, work: impl FnOnce(&mut Engine) -> Result<T, Fault>) -> T {
        self.engine.transaction(work).unwrap()
    }

    fn create(
        &mut self,
        kind: Kind,
        parent: Option<u128>,
        name: Option<String>,
        lookup: Option<String>,
        body: String,
    ) -> Raw {
        let workspace = (kind != Kind::Workspace).then_some(self.workspace);
        let (tail, now) = (self.tail(), self.now);
        let draft = Draft { kind, workspace, parent, name, lookup, body, tail };
        match self.run(|engine| engine.create(&draft, now)) {
            Created::Done(raw) => raw,
            refused @ (Created::NameTaken | Created::ParentGone | Created::TooMany) => panic!("{refused:?}"),
        }
    }

    fn source(&mut self, token: &str) -> Raw {
        let body = Source {
            name: token.into(),
            token: token.into(),
            response: None,
            deliver_pending_on_connect: true,
            retention_days: 1,
            dedupe: None,
            verification: None,
        };
        let body = serde_json::to_string(&body).unwrap();
        self.create(Kind::Source, None, Some(token.into()), Some(token.into()), body)
    }

    fn destination(&mut self, source: &Raw) -> Raw {
        let body = Destination {
            kind: DestinationKind::Http,
            url: "https://a.example/hook".into(),
            schedule: Schedule::Quadratic { attempts: 3 },
            idempotency_header: IdempotencyHeader::Off,
            paused: false,
            headers: Vec::new(),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 30,
        };
        let body = serde_json::to_string(&body).unwrap();
        self.create(Kind::Destination, Some(source.uuid), None, None, body)
    }

    /// A webhook that wants everything; its deliveries have three attempts.
    fn webhook(&mut self) -> Raw {
        let body = Webhook {
            url: "https://hooks.example/in".into(),
            description: None,
            events: vec![Filter::parse("*").unwrap()],
            secrets: Vec::new(),
            paused: false,
            schedule: Schedule::Custom { waits_seconds: vec![60.0, 600.0], jitter: 0.0 },
            headers: Vec::new(),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 15,
        };
        self.create(Kind::Webhook, None, None, None, serde_json::to_string(&body).unwrap())
    }

    /// A call that publishes as many events.
    fn publishing(&mut self, count: usize) -> Publishing {
        let event = |_| NewEvent {
            event_type: EventType::parse("order.paid").unwrap(),
            body: Bytes::from_static(b"{}"),
            tail: self.tail(),
        };
        let events = (0..count).map(event).collect();
        Publishing { workspace: self.workspace, events, claim: None, now: self.now }
    }

    fn publish(&mut self, count: usize) -> Vec<EventReceipt> {
        let publishing = self.publishing(count);
        match self.run(|engine| engine.publish(publishing)) {
            Published::Fresh { events, .. } => events,
            other @ (Published::Replayed(_) | Published::KeyReused | Published::NoWorkspace) => {
                panic!("{other:?}")
            }
        }
    }

    fn change_destination(&mut self, raw: &mut Raw, change: impl FnOnce(&mut Destination)) {
        let mut body: Destination = serde_json::from_str(&raw.body).unwrap();
        change(&mut body);
        raw.body = serde_json::to_string(&body).unwrap();
        self.update(Kind::Destination, raw);
    }

    fn change_webhook(&mut self, raw: &mut Raw, change: impl FnOnce(&mut Webhook)) {
        // It may have been paused meanwhile.
        *raw = self.engine.record(Kind::Webhook, self.workspace, raw.uuid).unwrap().unwrap();
        let mut body: Webhook = serde_json::from_str(&raw.body).unwrap();
        change(&mut body);
        raw.body = serde_json::to_string(&body).unwrap();
        self.update(Kind::Webhook, raw);
    }

    fn update(&mut self, kind: Kind, raw: &mut Raw) {
        let (new, now) = (raw.clone(), self.now);
        match self.run(|engine| engine.update(kind, &new, now)) {
            Updated::Done(changed) => *raw = changed,
            refused @ (Updated::NotFound | Updated::NameTaken | Updated::Stale) => panic!("{refused:?}"),
        }
    }

    fn incoming(&mut self, token: &str, body: &[u8]) -> Incoming {
        let received = Received {
            method: "POST".into(),
            path: String::new(),
            query: None,
            headers: Headers::default(),
            body: Bytes::copy_from_slice(body),
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

    fn accept(&mut self, token: &str) -> Accepted {
        let incoming = self.incoming(token, b"hello");
        self.run(|engine| engine.accept(incoming))
    }

    /// Accepts a request of a source with one destination and takes its leased delivery.
    fn send(&mut self, token: &str) -> Parcel {
        self.accept(token);
        let mut parcels = self.tray.take();
        assert_eq!(parcels.len(), 1);
        parcels.remove(0)
    }

    fn finished(&self, parcel: &Parcel, outcome: Outcome) -> Finished {
        finished(parcel, outcome, self.now)
    }

    fn settle(&mut self, parcel: &Parcel, outcome: Outcome) -> crate::Settled {
        let finished = self.finished(parcel, outcome);
        self.run(|engine| engine.settle(&finished))
    }

    /// How many rows each table has that messages fill.
    fn rows(&self) -> [i64; 4] {
        ["message", "delivery", "attempt", "history"].map(|table| count(&self.engine.conn, table))
    }
}

/// An engine that leaves writing to the disk to the system: nobody cuts the power here.
fn open(path: &Path, policy: Policy) -> Engine {
    let engine = Engine::open(path, policy).unwrap();
    engine.conn.execute_batch("PRAGMA synchronous = OFF").unwrap();
    engine
}

fn finished(parcel: &Parcel, outcome: Outcome, now: Timestamp) -> Finished {
    let attempt = Attempt { number: parcel.lease.attempt, outcome, started_at: now, ended_at: now };
    let endpoint_version = parcel.endpoint.settings().version;
    Finished { lease: parcel.lease, attempt, endpoint_version, jitter: Jitter::NONE }
}

fn count(conn: &Connection, table: &str) -> i64 {
    let count = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    super::plans::excuse();
    count
}

/// The memory of an engine, as far as the tables decide it.
#[derive(Debug, PartialEq)]
struct Memory {
    leased: u32,
    agenda: BTreeSet<(i64, i64)>,
    crowded: BTreeSet<i64>,
    unswept: BTreeSet<i64>,
    born: BTreeSet<i64>,
    balances: BTreeMap<i64, Option<i64>>,
    tokens: BTreeMap<String, i64>,
    /// Leases, next due time, URL and whether it is gone, for each endpoint.
    endpoints: BTreeMap<i64, (u32, i64, String, bool)>,
    standings: BTreeMap<i64, Standing>,
    subscribed: BTreeMap<i64, Vec<i64>>,
    /// Open replays and recoveries by endpoint, and what of them is in flight.
    jobs: (BTreeMap<i64, Vec<i64>>, BTreeMap<i64, u32>),
}

impl Memory {
    fn of(engine: &Engine) -> Self {
        let config = &engine.config;
        Self {
            leased: engine.agenda.leased,
            agenda: engine.agenda.listed.clone(),
            crowded: engine.agenda.crowded.clone(),
            unswept: engine.unswept.clone(),
            born: engine.born.clone(),
            balances: config.workspaces.iter().map(|(row, entry)| (*row, entry.balance)).collect(),
            tokens: config.tokens.iter().map(|(token, row)| (token.clone(), *row)).collect(),
            endpoints: config
                .endpoints
                .iter()
                .map(|(row, entry)| {
                    let url = entry.settings.receiver.url().to_owned();
                    (*row, (entry.leased, entry.next_due, url, entry.gone.is_some()))
                })
                .collect(),
            standings: config.endpoints.iter().map(|(row, entry)| (*row, entry.standing)).collect(),
            subscribed: config.workspaces.iter().map(|(row, it)| (*row, it.webhooks.clone())).collect(),
            jobs: engine.jobs.seen(),
        }
    }
}

/// An id of some kind out of a record's.
fn id<K: restante_core::id::Kind>(raw: &Raw) -> Id<K> {
    Id::from_uuid(raw.uuid)
}
