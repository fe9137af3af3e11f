//! Whether what is on record is what senders were told and receivers saw.

mod record;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::task::JoinSet;

use super::ledger::Sent;
use super::world::World;
use crate::process::{Caller, KEY, Process};
use record::Record;

const JUDGES: usize = 4;

/// Who is asked beside the records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Against {
    Receivers,
    /// A copy is judged.
    Nobody,
}

/// What all came to.
#[derive(Default)]
pub(super) struct Judged {
    /// How many are in each state.
    pub(super) deliveries: BTreeMap<String, u64>,
    pub(super) attempts: u64,
    pub(super) lost: u64,
    pub(super) visits: u64,
    pub(super) duplicates: u64,
    /// Events about emails among all.
    pub(super) events_of_emails: u64,
    pub(super) emails_restored: Option<u64>,
}

/// One thing to be judged.
enum Case {
    Request(Sent),
    /// With when its acknowledgement came, if it was published.
    Event(String, Option<Duration>),
}

/// What all judges share.
struct Court {
    world: Arc<World>,
    caller: Caller,
    against: Against,
    cases: Mutex<Vec<Case>>,
    judged: Mutex<Judged>,
    /// By a sender's number: the requests that others repeat, or that nothing repeats. There must be one.
    firsts: Mutex<HashMap<u64, HashSet<String>>>,
}

impl Judged {
    /// All that was acknowledged, after it has come to its end.
    pub(super) async fn of(world: &Arc<World>, server: &Process, against: Against) -> Self {
        let court = Arc::new(Court {
            world: Arc::clone(world),
            caller: server.caller(),
            against,
            cases: Mutex::default(),
            judged: Mutex::default(),
            firsts: Mutex::default(),
        });
        court.collect().await;
        let mut judges = JoinSet::new();
        for _ in 0..JUDGES {
            judges.spawn(Arc::clone(&court).sit());
        }
        while let Some(judge) = judges.join_next().await {
            judge.unwrap();
        }
        for (number, firsts) in court.firsts.lock().unwrap().iter() {
            if firsts.len() != 1 {
                let at = court.acknowledged_at(*number);
                world.diary.fault(at, format!("number {number} is not one request: {firsts:?}"));
            }
        }
        std::mem::take(&mut *court.judged.lock().unwrap())
    }
}

impl Court {
    async fn collect(&self) {
        let mut cases: Vec<Case> =
            self.world.ledger.requests.lock().unwrap().iter().cloned().map(Case::Request).collect();
        let published: HashMap<u64, _> =
            self.world.ledger.events.lock().unwrap().iter().map(|it| (it.number, it.clone())).collect();
        let mut found = HashMap::new();
        for event in self.events().await {
            let id = event["id"].as_str().unwrap().to_owned();
            let Some(number) = event["data"]["n"].as_u64() else {
                self.judged.lock().unwrap().events_of_emails += 1;
                cases.push(Case::Event(id, None));
                continue;
            };
            let told = published.get(&number);
            if let Some(other) = found.insert(number, id.clone()) {
                let what = format!("key soak:{number} made {id} and {other}");
                self.world.diary.fault(told.map(|it| it.at), what);
            }
            if told.is_none_or(|told| told.id != id) {
                self.world.diary.fault(None, format!("{id} with key soak:{number} was told to nobody"));
            }
            cases.push(Case::Event(id, told.map(|it| it.at)));
        }
        for event in published.values().filter(|it| !found.contains_key(&it.number)) {
            self.world.diary.fault(Some(event.at), format!("{} was acknowledged and is lost", event.id));
        }
        *self.cases.lock().unwrap() = cases;
    }

    /// All of them, newest first.
    async fn events(&self) -> Vec<Value> {
        let (mut all, mut path) = (Vec::new(), "/v1/events?limit=100".to_owned());
        loop {
            let (status, page) = self.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            all.extend_from_slice(page["data"].as_array().unwrap());
            let Some(cursor) = page["next_cursor"].as_str() else { return all };
            path = format!("/v1/events?limit=100&cursor={cursor}");
        }
    }

    /// Judges case after case.
    async fn sit(self: Arc<Self>) {
        loop {
            let Some(case) = self.cases.lock().unwrap().pop() else { return };
            match case {
                Case::Request(sent) => self.request(&sent).await,
                Case::Event(id, at) => self.event(&id, at).await,
            }
        }
    }

    async fn request(&self, sent: &Sent) {
        let erased = self.world.ledger.erased.lock().unwrap().get(&sent.id).copied();
        let (status, shown) = self.get(&format!("/v1/requests/{}", sent.id)).await;
        match (status, erased) {
            (StatusCode::NOT_FOUND, Some(_)) => return,
            (StatusCode::OK, None | Some(false)) => {}
            _ => {
                let what = format!("{}, asked to be erased {erased:?}: {status} {shown}", sent.id);
                return self.world.diary.fault(Some(sent.at), what);
            }
        }
        let source = &self.world.sources[sent.source];
        if source.dedupes && !sent.is_replay {
            let first = shown["duplicate_of"].as_str().unwrap_or(&sent.id).to_owned();
            self.firsts.lock().unwrap().entry(sent.number).or_default().insert(first);
        }
        if shown["duplicate_of"].is_string() {
            self.judged.lock().unwrap().duplicates += 1;
            return;
        }
        let record = Record::of_request(&shown, source, Some(&sent.body));
        self.pass(&record, Some(sent.at));
        let retried = self.world.ledger.retried.lock().unwrap().get(&sent.id).cloned().unwrap_or_default();
        for id in retried.iter().filter(|id| !record.has(id)) {
            self.world.diary.fault(Some(sent.at), format!("the retry {id} is lost: {shown:#}"));
        }
    }

    async fn event(&self, id: &str, at: Option<Duration>) {
        let (status, shown) = self.get(&format!("/v1/events/{id}")).await;
        if status != StatusCode::OK {
            return self.world.diary.fault(at, format!("{id} is lost: {status} {shown}"));
        }
        self.pass(&Record::of_event(&shown, &self.world.webhooks), at);
    }

    fn pass(&self, record: &Record<'_>, at: Option<Duration>) {
        let mut faults = record.faults();
        faults.extend(record.open(&self.world.ledger));
        if self.against == Against::Receivers {
            let visits = record.visits(&self.world.receiver);
            faults.extend(record.unseen(&visits));
            self.judged.lock().unwrap().visits += visits.iter().map(|it| it.len() as u64).sum::<u64>();
        }
        for fault in faults {
            self.world.diary.fault(at, format!("{fault}: {:#}", record.shown));
        }
        record.count(&mut self.judged.lock().unwrap());
    }

    fn acknowledged_at(&self, number: u64) -> Option<Duration> {
        let requests = self.world.ledger.requests.lock().unwrap();
        requests.iter().find(|sent| sent.number == number).map(|sent| sent.at)
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let authorization = format!("Bearer {KEY}");
        let headers = [("authorization", authorization.as_str())];
        let answer = self.caller.ask((Method::GET, path), &headers, Bytes::new()).await;
        let (status, answer) = answer.expect("the server is there");
        (status, serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }
}

/// While all goes on: what holds of a request at any moment.
pub(super) async fn audit(world: Arc<World>) {
    let mut dice = world.plan.dice(3);
    while !world.is_stopped() {
        tokio::time::sleep(world.plan.until_visitor(&mut dice)).await;
        let Some(sent) = world.ledger.recent_request(&mut dice, usize::MAX) else { continue };
        let path = format!("/v1/requests/{}", sent.id);
        let Some((status, before)) = world.ask((Method::GET, &path), &[], Bytes::new()).await else {
            continue;
        };
        if status == StatusCode::NOT_FOUND && !world.ledger.is_erased(&sent.id) {
            world.diary.fault(Some(sent.at), format!("{} was acknowledged and is lost", sent.id));
        }
        if status != StatusCode::OK {
            continue;
        }
        // An attempt is on record before its receiver sees it: who asks the receiver first may compare.
        let source = &world.sources[sent.source];
        let visits = Record::of_request(&before, source, None).visits(&world.receiver);
        let Some(after) = world.get(&path).await else { continue };
        let record = Record::of_request(&after, source, Some(&sent.body));
        let mut faults = record.faults();
        faults.extend(record.unrecorded(&visits));
        for fault in faults {
            world.diary.fault(Some(sent.at), format!("{fault}: {after:#}"));
        }
        world.diary.count("audits");
    }
}
