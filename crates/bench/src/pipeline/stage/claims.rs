//! Claims at the store itself, without HTTP: among many due rows, beside a held snapshot, and with full lanes.
//!
//! In all three the claims come one after the other, as those of a dispatcher do, while others settle what was claimed
//! and new rows take the place of what was claimed.

mod fill;
mod hands;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use restante_core::Timestamp;
use restante_store::postgres::{Postgres, trust_nobody};
use restante_store::{Policy, Store};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use self::fill::Fill;
use self::hands::Hands;
use crate::clock;
use crate::latency::{Latencies, Percentiles};
use crate::load::per_second;
use crate::pipeline::postgres::{Cluster, Database};
use crate::pipeline::statistics::float;
use crate::pipeline::{Bench, progress};

/// Most deliveries of one claim.
const CLAIM_MAX: usize = 64;
/// Claims before each part that are not counted, in seconds.
const WARM_UP_SECONDS: f64 = 3.0;
/// One of so many lanes is not full in the part with full lanes.
const HEALTHY_SHARE: u64 = 100;
/// How long lanes take to fill, in seconds.
const FILL_SECONDS: f64 = 10.0;
/// Of the rows, one of so many is added for the lanes that are not full.
const HEALTHY_ROWS_SHARE: u64 = 4;
/// Rows that are added at once when as many were claimed: as in a full batch of a server.
const FEED_ROWS: u64 = 256;
/// Endpoints that a node looks at in one second when it looks for what others left.
const POLLED_PER_SECOND: u64 = 500;
/// Longest wait for something to claim.
const WAIT_MAX: Duration = Duration::from_millis(20);

#[derive(Serialize)]
pub(crate) struct Claims {
    /// Due rows before each part.
    pub(in crate::pipeline) rows: u64,
    pub(in crate::pipeline) endpoints: u64,
    /// All lanes are free.
    pub(in crate::pipeline) due: Claiming,
    /// The same while another session holds a snapshot, from so many seconds of claiming beside it on.
    pub(in crate::pipeline) held: Claiming,
    pub(in crate::pipeline) held_seconds: f64,
    /// All lanes but `healthy` are full, and have due rows.
    pub(in crate::pipeline) saturated: Claiming,
    healthy: u64,
}

/// Claims one after the other.
#[derive(Serialize)]
pub(crate) struct Claiming {
    /// Time of each claim that found something.
    pub(in crate::pipeline) latency: Percentiles,
    /// Time of each claim that found nothing.
    empty: Percentiles,
    rows: u64,
    /// Rows over the time of all claims, the waits between them included.
    rows_per_second: f64,
    /// Time of each settle beside them; up to 256 attempts each.
    settle: Percentiles,
}

pub(in crate::pipeline) async fn measure(bench: &Bench, cluster: &Cluster) -> Result<Claims> {
    cluster.make_log_files().await?;
    let database = cluster.database().await?;
    let scale = bench.scale;
    let claims = tokio::task::spawn_blocking({
        let database = Arc::clone(&database);
        move || {
            // As in the server: whoever claims and settles is on other threads than the connections.
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(async {
                let mut stage = Stage::prepare(&database, scale).await?;
                let claims = stage.measure().await;
                stage.store.abandon();
                claims
            })
        }
    });
    let claims = claims.await??;
    database.discard().await?;
    Ok(claims)
}

struct Stage {
    scale: crate::pipeline::scale::Scale,
    database: Arc<Database>,
    fill: Fill,
    store: Arc<Postgres>,
    hands: Arc<Hands>,
}

impl Stage {
    /// A store with all endpoints and a first delivery of each claimed and settled: each has a lane.
    async fn prepare(database: &Arc<Database>, scale: crate::pipeline::scale::Scale) -> Result<Self> {
        progress(&format!("claims: {} endpoints", scale.claim_endpoints))?;
        let model = open(database).await?;
        let model_key = fill::model(&*model).await?;
        model.close().await;
        let mut fill = Fill::new(database.connect().await?, model_key, scale.claim_endpoints).await?;
        fill.rows(scale.claim_endpoints, scale.claim_endpoints).await?;
        let store = open(database).await?;
        let hands = Hands::start(&store);
        store.attach(Some(Arc::clone(&hands) as _)).await?;
        let mut left = scale.claim_endpoints;
        while left > 0 {
            let claimed = store.claim(now(), CLAIM_MAX).await?.count as u64;
            ensure!(claimed > 0, "{left} endpoints have nothing to claim");
            left = left.saturating_sub(claimed);
        }
        hands.until_empty().await;
        Ok(Self { scale, database: Arc::clone(database), fill, store, hands })
    }

    async fn measure(&mut self) -> Result<Claims> {
        let (rows, endpoints) = (self.scale.claim_rows, self.scale.claim_endpoints);
        self.refill(endpoints).await?;
        let due = self.part("among many due rows", endpoints, WARM_UP_SECONDS).await?;

        self.refill(endpoints).await?;
        let holder = self.database.connect().await?;
        holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await?;
        let held = self.part("beside a held snapshot", endpoints, self.scale.held_seconds).await?;
        holder.batch_execute("COMMIT").await?;

        let healthy = (endpoints / HEALTHY_SHARE).max(1);
        self.hands.keep_one_of_all_but(healthy);
        // Each of them takes the one delivery that fills it.
        self.claim(endpoints, FILL_SECONDS).await?;
        self.fill.rows(rows / HEALTHY_ROWS_SHARE, healthy).await?;
        self.refill(healthy).await?;
        let saturated = self.part("with full lanes", healthy, WARM_UP_SECONDS).await?;
        let held_seconds = self.scale.held_seconds;
        Ok(Claims { rows, endpoints, due, held, held_seconds, saturated, healthy })
    }

    /// Has as many due rows as the scale says, the new ones spread over the first `lanes` endpoints, and the node know
    /// of them.
    async fn refill(&mut self, lanes: u64) -> Result<()> {
        let due = self.fill.count().await?;
        let missing = self.scale.claim_rows.saturating_sub(due);
        progress(&format!("  {due} rows are due, {missing} more for {lanes} endpoints"))?;
        self.fill.rows(missing, lanes).await?;
        self.fill.tidy().await?;
        let polls = self.scale.claim_endpoints.div_ceil(POLLED_PER_SECOND) + 2;
        sleep(Duration::from_secs(polls)).await;
        Ok(())
    }

    async fn part(&mut self, name: &str, lanes: u64, warm_up: f64) -> Result<Claiming> {
        self.claim(lanes, warm_up).await?;
        self.hands.forget_latencies();
        let claiming = self.claim(lanes, self.scale.claim_seconds).await?;
        let (ms, at) = (|us: u64| float(us) / 1e3, claiming.latency);
        progress(&format!(
            "  {name}: claim p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms, {:.0} rows/s",
            ms(at.p50_us),
            ms(at.p99_us),
            ms(at.max_us),
            claiming.rows_per_second
        ))?;
        Ok(claiming)
    }

    async fn claim(&mut self, lanes: u64, seconds: f64) -> Result<Claiming> {
        let stop = Arc::new(AtomicBool::new(false));
        let feeding =
            self.fill.feed(&self.database, lanes, Arc::clone(&self.hands), Arc::clone(&stop)).await?;
        let (mut found, mut empty, mut rows) = (Latencies::new(), Latencies::new(), 0);
        let (start, start_us) = (clock::now(), clock::steady_us());
        while clock::now().duration_since(start).as_secs_f64() < seconds {
            self.hands.until_room().await;
            let begun = clock::now();
            let claimed = self.store.claim(now(), CLAIM_MAX).await?;
            let took_us = clock::micros_since(begun);
            rows += claimed.count as u64;
            if claimed.count > 0 {
                found.record(took_us);
            } else {
                empty.record(took_us);
                let _ = timeout(WAIT_MAX, self.store.due().notified()).await;
            }
        }
        let rows_per_second = per_second(rows, start_us, clock::steady_us());
        stop.store(true, Ordering::Release);
        self.fill.next = feeding.await.context("the rows could not be added")??;
        let settle = self.hands.settle_latencies();
        let (latency, empty) = (found.percentiles(), empty.percentiles());
        Ok(Claiming { latency, empty, rows, rows_per_second, settle })
    }
}

async fn open(database: &Database) -> Result<Arc<Postgres>> {
    Ok(Arc::new(Postgres::open(&database.url(), trust_nobody(), Policy::default()).await?))
}

fn now() -> Timestamp {
    Timestamp::from_millis(clock::unix_ms())
}
