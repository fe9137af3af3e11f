//! A store as it is after a busy week: written through the store itself, with the clock of that week.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use hyper::Method;
use restante_core::email::{Address, Role};
use restante_core::endpoint::{Destination, DestinationKind, IdempotencyHeader, Source, Webhook};
use restante_core::event::{EventType, Filter};
use restante_core::id::{EmailId, EventId, RequestId, Tail, WorkspaceId};
use restante_core::message::{Content, Received};
use restante_core::retry::{Jitter, Schedule};
use restante_core::{Attempt, Outcome, Timestamp};
use restante_store::email::{Details, Frozen, Mailbox, NewEmail, Sending, Sent};
use restante_store::postgres::{Postgres, trust_nobody};
use restante_store::record::{Kept, Mode, Record, Workspace, Written};
use restante_store::sqlite::Sqlite;
use restante_store::{
    Accepted, Dispatch, Finished, Grant, Incoming, Judgement, NewEvent, Parcel, Policy, Published,
    Publishing, Store, Withdraw,
};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::clock;
use crate::pipeline::server::{Server, Stopped};
use crate::pipeline::{Bench, progress};

const SOURCES: u64 = 20;
const WEBHOOKS: u64 = 50;
const SPAN_MS: u64 = 7 * 24 * 3_600_000;
/// Requests that come at the same time.
const CHUNK: u64 = 256;
/// Deliveries leased at once beyond those that were leased at birth.
const CLAIM_MAX: usize = 1_024;
/// In flight to one endpoint.
const LANE: u32 = 256;
/// Waits after attempts that fail; with the last one a failure of the last two days is still pending.
const WAITS_SECONDS: [f64; 4] = [60.0, 600.0, 3_600.0, 172_800.0];
const ID_PLACE: &str = "em_00000000000000000000000000";

/// What was stored.
#[derive(Serialize)]
pub(crate) struct Seeded {
    requests: u64,
    sources: u64,
    events: u64,
    webhooks: u64,
    emails: u64,
    attempts_delivered: u64,
    attempts_failed: u64,
    seconds: f64,
}

/// Ids that pages are about, as the API writes them.
pub(super) struct Found {
    pub(super) source: String,
    /// A source that nothing came to.
    pub(super) quiet: String,
    pub(super) sources: Vec<String>,
    pub(super) destination: String,
    pub(super) webhook: String,
    /// One that every event goes to.
    pub(super) busy_webhook: String,
    pub(super) request: String,
    pub(super) failed_request: String,
    pub(super) delivery: String,
    pub(super) event: String,
    pub(super) email: String,
    /// A time shortly after the first request.
    pub(super) early: String,
}

/// Where messages come from and go to.
#[derive(Default)]
struct Site {
    sources: Vec<String>,
    tokens: Vec<String>,
    quiet: String,
    webhooks: Vec<String>,
}

/// Fills a store and starts a server on it.
pub(super) async fn store(bench: &Bench, requests: u64) -> Result<(Server, Seeded, Found)> {
    let place = Stopped::empty(bench).await?;
    progress(&format!("storing {requests} requests"))?;
    let begun = clock::now();
    let mut seed = Seed::open(&place, requests).await?;
    seed.settle_down(bench).await?;
    seed.fill().await?;
    let mut seeded = seed.close(&place).await?;
    seeded.seconds = clock::now().duration_since(begun).as_secs_f64();
    progress(&format!("stored in {:.0} s", seeded.seconds))?;
    let mut server = place.start(bench).await?;
    let found = find(&mut server, &seed).await?;
    Ok((server, seeded, found))
}

fn event_type(index: u64) -> String {
    format!("bench.t{index}")
}

/// What is told to happen to a message, written into its path or body.
const FAILS: &str = "fails";

struct Seed {
    store: Arc<dyn Store>,
    /// The same store, to be closed.
    sqlite: Option<Arc<Sqlite>>,
    postgres: Option<Arc<Postgres>>,
    tray: Arc<Tray>,
    workspace: WorkspaceId,
    site: Site,
    requests: u64,
    now: Timestamp,
    begin: Timestamp,
    tails: u64,
    seeded: Seeded,
    last: Last,
}

/// The latest of each.
#[derive(Default)]
struct Last {
    request: Option<RequestId>,
    failed_request: Option<RequestId>,
    event: Option<EventId>,
    email: Option<EmailId>,
}

impl Seed {
    async fn open(place: &Stopped, requests: u64) -> Result<Self> {
        let (mut sqlite, mut postgres) = (None, None);
        let store: Arc<dyn Store> = match &place.database {
            Some(database) => {
                let open = Postgres::open(&database.url(), trust_nobody(), Policy::default()).await?;
                Arc::clone(postgres.insert(Arc::new(open))) as _
            }
            None => Arc::clone(sqlite.insert(Arc::new(Sqlite::open(&place.data, Policy::default())?))) as _,
        };
        // Keys rise with the clock of whoever writes: nothing here may be of a later time than what follows.
        let begin = Timestamp::from_millis(wall().millis() - i64::try_from(SPAN_MS)?);
        let workspace = Workspace { first: true, ..Workspace::new("bench".into(), Vec::new()) };
        let workspace = made(store.make(None, None, workspace, Tail::from_bits(1), begin).await?)?.id;
        if sqlite.is_some() {
            // With a balance each request has its line in the ledger; on PostgreSQL that is a transaction each.
            let much = i64::try_from(requests * 10)?;
            store.grant(workspace, Grant::Delta(much), "bench".into(), begin).await?;
        }
        let tray = Arc::new(Tray::default());
        store.attach(Some(Arc::clone(&tray) as _)).await?;
        let seeded = Seeded {
            requests,
            sources: SOURCES,
            events: requests / 10,
            webhooks: WEBHOOKS,
            emails: requests / 50,
            attempts_delivered: 0,
            attempts_failed: 0,
            seconds: 0.0,
        };
        let (tails, last, site) = (1, Last::default(), Site::default());
        Ok(Self {
            store,
            sqlite,
            postgres,
            tray,
            workspace,
            site,
            requests,
            now: begin,
            begin,
            tails,
            seeded,
            last,
        })
    }

    /// Makes sources and webhooks.
    async fn settle_down(&mut self, bench: &Bench) -> Result<()> {
        let waits_seconds = WAITS_SECONDS.to_vec();
        let schedule = Schedule::Custom { waits_seconds, jitter: 0.0 };
        let (workspace, begin) = (Some(self.workspace), self.begin);
        // The one before the last gets requests and has no destination, the last gets nothing.
        for index in 0..SOURCES + 2 {
            let token = format!("token-of-the-benchmark-{index:0>4}");
            let source = Source {
                name: format!("source {index}"),
                token: token.clone(),
                response: None,
                deliver_pending_on_connect: true,
                retention_days: 30,
                dedupe: None,
                verification: None,
            };
            let tail = self.tail();
            let source = made(self.store.make(workspace, None, source, tail, begin).await?)?.id;
            for path in ["/d/1", "/d/2"].into_iter().filter(|_| index < SOURCES) {
                let destination = Destination {
                    kind: DestinationKind::Http,
                    url: bench.sink.url(path),
                    schedule: schedule.clone(),
                    idempotency_header: IdempotencyHeader::Off,
                    paused: false,
                    headers: Vec::new(),
                    max_in_flight: LANE,
                    rate_per_second: None,
                    timeout_seconds: 30,
                };
                let tail = self.tail();
                made(self.store.make(workspace, Some(source.uuid()), destination, tail, begin).await?)?;
            }
            if index > SOURCES {
                self.site.quiet = source.to_string();
            } else {
                self.site.tokens.push(token);
            }
            self.site.sources.push(source.to_string());
        }
        for index in 0..WEBHOOKS {
            let wanted = if index == 0 { "*".to_owned() } else { event_type(index) };
            let webhook = Webhook {
                url: bench.sink.url("/w"),
                description: None,
                events: vec![Filter::parse(&wanted)?],
                secrets: Vec::new(),
                paused: false,
                schedule: schedule.clone(),
                headers: Vec::new(),
                max_in_flight: LANE,
                rate_per_second: None,
                timeout_seconds: 15,
            };
            let tail = self.tail();
            let id = made(self.store.make(workspace, None, webhook, tail, begin).await?)?.id;
            self.site.webhooks.push(id.to_string());
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<()> {
        let mut next = 0;
        while next < self.requests {
            let end = self.requests.min(next + CHUNK);
            self.now = self.begin + Duration::from_millis(SPAN_MS * end / self.requests);
            self.receive(next, end).await?;
            self.publish(next / 10, end / 10).await?;
            self.send(next / 50, end / 50).await?;
            self.settle().await?;
            while self.store.claim(self.now, CLAIM_MAX).await?.count > 0 {
                self.settle().await?;
            }
            if end / 100_000 > next / 100_000 {
                progress(&format!("  {end}"))?;
            }
            next = end;
        }
        Ok(())
    }

    fn tail(&mut self) -> Tail {
        self.tails += 1;
        Tail::from_bits(self.tails.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Whether what comes as number `index` of `of` fails: in the first third of the week one of eight does, for good;
    /// lately three of five do, and wait.
    fn fails(index: u64, of: u64) -> bool {
        let scattered = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        index < of / 3 && scattered.is_multiple_of(8) || index >= of - of / 20 && scattered % 5 < 3
    }

    async fn receive(&mut self, from: u64, end: u64) -> Result<()> {
        let mut under_way = JoinSet::new();
        for index in from..end {
            let failing = Self::fails(index, self.requests);
            let token = usize::try_from(index)? % self.site.tokens.len();
            let received = Received {
                method: if index % 10 == 3 { "PUT" } else { "POST" }.into(),
                path: format!("/orders/{}", index % 1000),
                query: failing.then(|| FAILS.into()),
                headers: [("content-type", &b"application/json"[..]), ("user-agent", b"bench/1")]
                    .into_iter()
                    .collect(),
                body: Bytes::from(format!(r#"{{"order":{},"text":"{:0>400}"}}"#, index % 1000, index)),
                remote_address: "192.0.2.1".into(),
            };
            let (now, tail) = (self.now, self.tail());
            let (to, judgement) = (self.site.tokens[token].clone(), Judgement::default());
            let incoming = Incoming { token: to, received, judgement, now, tail };
            let store = Arc::clone(&self.store);
            let has_destinations = token + 1 < self.site.tokens.len();
            under_way.spawn(async move { (store.accept(incoming).await, failing, has_destinations) });
        }
        while let Some(done) = under_way.join_next().await {
            let (accepted, failing, has_destinations) = done?;
            let Accepted::Fresh { id, .. } = accepted? else { bail!("a request was not accepted") };
            if !has_destinations {
                continue;
            }
            if !failing {
                self.last.request = Some(id);
            } else if end < self.requests / 3 {
                self.last.failed_request = Some(id);
            }
        }
        Ok(())
    }

    async fn publish(&mut self, from: u64, end: u64) -> Result<()> {
        let mut events = Vec::new();
        for index in from..end {
            let fails = if Self::fails(index, self.seeded.events) { FAILS } else { "" };
            events.push(NewEvent {
                event_type: EventType::parse(&event_type(index % (WEBHOOKS + 5)))?,
                body: Bytes::from(format!(r#"{{"type":"bench","data":{{"n":{index},"is":"{fails}"}}}}"#)),
                tail: self.tail(),
            });
        }
        if events.is_empty() {
            return Ok(());
        }
        let publishing = Publishing { workspace: self.workspace, events, claim: None, now: self.now };
        match self.store.publish(publishing).await? {
            Published::Fresh { events, .. } => self.last.event = events.last().map(|it| it.id),
            Published::Replayed(_) | Published::KeyReused | Published::NoWorkspace => {
                bail!("events were not published")
            }
        }
        Ok(())
    }

    async fn send(&mut self, from: u64, end: u64) -> Result<()> {
        let mut items = Vec::new();
        for index in from..end {
            let email = format!("reader{index}@d{}.example", index % 20);
            items.push(Ok(NewEmail {
                frozen: frozen(index),
                recipients: vec![(Role::To, Address { email, name: None })],
                scheduled_at: None,
                tail: self.tail(),
            }));
        }
        if items.is_empty() {
            return Ok(());
        }
        let (workspace, now) = (self.workspace, self.now);
        match self.store.send(Sending { workspace, mode: Mode::Live, items, claim: None, now }).await? {
            Sent::Fresh(items) => self.last.email = items.into_iter().filter_map(Result::ok).next_back(),
            Sent::Replayed(_) | Sent::KeyReused | Sent::NoWorkspace => bail!("emails were not sent"),
        }
        Ok(())
    }

    /// Ends all attempts that have begun.
    async fn settle(&mut self) -> Result<()> {
        let parcels = self.tray.take();
        let mut finished = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            let fails = match &parcel.content.message {
                Content::Request(received) => received.query.as_deref() == Some(FAILS),
                Content::Event(event) => event.body.windows(FAILS.len()).any(|it| it == FAILS.as_bytes()),
                Content::Email(_) => false,
            };
            *if fails { &mut self.seeded.attempts_failed } else { &mut self.seeded.attempts_delivered } += 1;
            let at = self.now.max(parcel.claimed_at);
            finished.push(Finished {
                lease: parcel.lease,
                attempt: Attempt {
                    number: parcel.lease.attempt,
                    outcome: Outcome::of_status(if fails { 503 } else { 200 }, None),
                    started_at: at,
                    ended_at: at + Duration::from_millis(40),
                },
                endpoint_version: parcel.endpoint.settings().version,
                jitter: Jitter::NONE,
            });
        }
        if !finished.is_empty() {
            self.store.settle(finished).await?;
        }
        Ok(())
    }

    async fn close(&mut self, place: &Stopped) -> Result<Seeded> {
        self.store.attach(None).await?;
        if let Some(sqlite) = &self.sqlite {
            sqlite.close();
        }
        if let Some(postgres) = &self.postgres {
            postgres.close().await;
        }
        if let Some(database) = &place.database {
            // What the server does by itself within minutes.
            let client = database.connect().await?;
            client.batch_execute("VACUUM (ANALYZE)").await?;
            client.batch_execute("CHECKPOINT").await?;
        }
        let Seeded { requests, sources, events, webhooks, emails, .. } = self.seeded;
        let Seeded { attempts_delivered, attempts_failed, seconds, .. } = self.seeded;
        Ok(Seeded {
            requests,
            sources,
            events,
            webhooks,
            emails,
            attempts_delivered,
            attempts_failed,
            seconds,
        })
    }
}

async fn find(server: &mut Server, seed: &Seed) -> Result<Found> {
    let (site, missing) = (&seed.site, "the store is too small");
    let Last { request, failed_request, event, email } = &seed.last;
    let request = request.context(missing)?.to_string();
    let failed_request = failed_request.context(missing)?.to_string();
    let shown = server.call(Method::GET, &format!("/v1/requests/{failed_request}"), &Value::Null).await?;
    ensure!(shown["state"] == "failed", "a request that was to fail is {}", shown["state"]);
    let shown = server.call(Method::GET, &format!("/v1/requests/{request}"), &Value::Null).await?;
    let first = |name: &str| {
        let id = shown["deliveries"][0][name].as_str();
        id.map(str::to_owned).with_context(|| format!("the latest request has no {name}: {shown}"))
    };
    let early = seed.begin + Duration::from_millis(SPAN_MS / 5);
    Ok(Found {
        source: shown["source_id"].as_str().context("a request has no source")?.to_owned(),
        quiet: site.quiet.clone(),
        sources: site.sources.clone(),
        destination: first("destination_id")?,
        webhook: site.webhooks[7].clone(),
        busy_webhook: site.webhooks[0].clone(),
        delivery: first("id")?,
        request,
        failed_request,
        event: event.context(missing)?.to_string(),
        email: email.context(missing)?.to_string(),
        early: early.to_string(),
    })
}

fn made<T: Kept>(written: Written<T>) -> Result<Record<T>> {
    match written {
        Written::Done(record) => Ok(record),
        Written::NotFound | Written::NameTaken | Written::TooMany | Written::Stale => {
            bail!("a record was not made")
        }
    }
}

fn frozen(index: u64) -> Frozen {
    let head = format!("Subject: number {index}\r\nMessage-ID: <{ID_PLACE}@from.example>\r\n\r\n");
    let details = Details {
        from: Mailbox { email: "shop@from.example".into(), name: None },
        reply_to: Vec::new(),
        subject: Some(format!("number {index}")),
        headers: Vec::new(),
        tags: BTreeMap::new(),
        metadata: None,
        template: None,
        has_html: false,
        has_text: true,
        attachments: 0,
    };
    let id_at = head.find(ID_PLACE).unwrap_or_default();
    let mime = format!("{head}{}\r\n", "hello ".repeat(100));
    Frozen { sender: "shop@from.example".into(), mime: mime.into(), id_at, details }
}

fn wall() -> Timestamp {
    Timestamp::from_millis(clock::unix_ms())
}

/// Holds what was leased until it is settled.
#[derive(Default)]
struct Tray(Mutex<Vec<Parcel>>);

impl Tray {
    fn take(&self) -> Vec<Parcel> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Dispatch for Tray {
    fn dispatch(&self, parcels: Vec<Parcel>) {
        for parcel in &parcels {
            parcel.endpoint.set_leases_max(LANE);
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(parcels);
    }

    fn withdraw(&self, _what: Withdraw) {}
}
