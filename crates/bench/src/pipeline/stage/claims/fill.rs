//! Rows in masses, written straight into the tables: copies of what the store itself has written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use restante_core::endpoint::{Destination, DestinationKind, IdempotencyHeader, Source};
use restante_core::id::Tail;
use restante_core::message::Received;
use restante_core::retry::Schedule;
use restante_store::record::{Kept, Record, Workspace, Written};
use restante_store::{Accepted, Incoming, Judgement, Store};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::Client;

use super::hands::Hands;
use super::{FEED_ROWS, now};
use crate::body;
use crate::pipeline::postgres::Database;

const BODY_BYTES: usize = 512;
const TOKEN: &str = "token";
/// Rows of one statement.
const STATEMENT_ROWS: u64 = 50_000;
/// How long before now the first row is due, in milliseconds.
const DUE_SINCE_MS: i64 = 3_600_000;
const FEED_EVERY: Duration = Duration::from_millis(20);

/// Has the store write one of everything, with nobody to take the delivery. Returns the message's key.
pub(super) async fn model(store: &dyn Store) -> Result<i64> {
    let workspace = make(store, None, None, Workspace::new("bench".into(), Vec::new())).await?.id;
    let source = Source {
        name: "bench".into(),
        token: TOKEN.into(),
        response: None,
        deliver_pending_on_connect: true,
        retention_days: 30,
        dedupe: None,
        verification: None,
    };
    let source = make(store, Some(workspace), None, source).await?.id;
    let destination = Destination {
        kind: DestinationKind::Http,
        url: "http://127.0.0.1:9/".into(),
        schedule: Schedule::Quadratic { attempts: 5 },
        idempotency_header: IdempotencyHeader::Off,
        paused: false,
        headers: Vec::new(),
        max_in_flight: 64,
        rate_per_second: None,
        timeout_seconds: 30,
    };
    make(store, Some(workspace), Some(source.uuid()), destination).await?;
    let received = Received {
        method: "POST".into(),
        path: "/".into(),
        query: None,
        headers: [("content-type", &b"application/json"[..])].into_iter().collect(),
        body: body::write(0, 0, BODY_BYTES),
        remote_address: "127.0.0.1".into(),
    };
    let (token, judgement, tail) = (TOKEN.into(), Judgement::default(), Tail::from_bits(1));
    let incoming = Incoming { token, received, judgement, now: now(), tail };
    let Accepted::Fresh { id, .. } = store.accept(incoming).await? else {
        bail!("the model was not accepted")
    };
    Ok(id.key().value())
}

async fn make<T: Kept>(
    store: &dyn Store,
    workspace: Option<restante_core::id::WorkspaceId>,
    parent: Option<u128>,
    body: T,
) -> Result<Record<T>> {
    match store.make(workspace, parent, body, Tail::from_bits(1), now()).await? {
        Written::Done(record) => Ok(record),
        Written::NotFound | Written::NameTaken | Written::TooMany | Written::Stale => {
            bail!("a record of the model was not created")
        }
    }
}

/// Copies of the model, numbered from 0.
pub(super) struct Fill {
    client: Client,
    copies: Copies,
    /// The number of the next one.
    pub(super) next: u64,
}

/// How copy `n` for one of `lanes` endpoints is made.
#[derive(Clone)]
struct Copies {
    statements: [String; 3],
}

impl Fill {
    /// Makes so many endpoints like the model's. `model_key`: of the model's message.
    pub(super) async fn new(client: Client, model_key: i64, endpoints: u64) -> Result<Self> {
        let model = "FROM delivery WHERE message = $1";
        let row = client
            .query_one(&format!("SELECT endpoint, key, due_at, workspace {model}"), &[&model_key])
            .await?;
        let (endpoint, key, due_at): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        // With both columns of the primary key: what is copied is found without looking through the table.
        let workspace: i64 = row.get(3);
        let numbers = format!("generate_series(1, {endpoints}) AS n");
        let columns =
            columns(&client, "record", &[("uuid", "gen_random_uuid()"), ("key", "key + n")]).await?;
        let made = client
            .query_one(
                &format!(
                    "WITH made AS (INSERT INTO record ({}) SELECT {} FROM record, {numbers} WHERE row = $1 RETURNING row) \
                     SELECT min(row), max(row) - min(row) + 1 = count(*) FROM made",
                    columns.0, columns.1
                ),
                &[&endpoint],
            )
            .await?;
        let first_endpoint: i64 = made.get(0);
        if !made.get::<_, bool>(1) {
            bail!("the endpoints do not follow each other");
        }
        client
            .execute(
                &format!(
                    "INSERT INTO endpoint_url (endpoint, version, url) SELECT {first_endpoint} + n - 1, version, url \
                     FROM endpoint_url, {numbers} WHERE endpoint = $1"
                ),
                &[&endpoint],
            )
            .await?;
        // The model itself is not in the way.
        client.execute("DELETE FROM work WHERE key = $1", &[&key]).await?;
        client.execute("UPDATE delivery SET state = 2 WHERE key = $1", &[&key]).await?;

        // Keys follow the model's, in the millisecond after it and the next ones.
        let base = ((model_key >> 21) + 1) << 21;
        let message = format!("{base} + 2 * n");
        let delivery = format!("{base} + 2 * n + 1");
        let to = format!("{first_endpoint} + n % $3");
        let due = format!("{} + n / 1000", due_at - DUE_SINCE_MS);
        let of_delivery =
            [("key", &*delivery), ("message", &message), ("endpoint", &to), ("due_at", &due), ("state", "0")];
        let its_key = format!("workspace = {workspace} AND key = {key}");
        let from = "generate_series($1::bigint, $2::bigint) AS n";
        let (into, values) = self::columns(&client, "message", &[("key", &message)]).await?;
        let messages = format!(
            "INSERT INTO message ({into}) SELECT {values} FROM message, {from} \
             WHERE workspace = {workspace} AND key = {model_key} AND $3::bigint > 0"
        );
        let (into, values) = self::columns(&client, "delivery", &of_delivery).await?;
        let deliveries =
            format!("INSERT INTO delivery ({into}) SELECT {values} FROM delivery, {from} WHERE {its_key}");
        let work = format!(
            "INSERT INTO work (workspace, key, endpoint, due_at) SELECT workspace, {delivery}, {to}, {due} \
             FROM delivery, {from} WHERE {its_key}"
        );
        Ok(Self { client, copies: Copies { statements: [messages, deliveries, work] }, next: 0 })
    }

    /// Adds so many due deliveries, in turn to the first `lanes` endpoints.
    pub(super) async fn rows(&mut self, count: u64, lanes: u64) -> Result<()> {
        self.next = self.copies.add(&mut self.client, self.next, count, lanes).await?;
        Ok(())
    }

    /// Rows that are due.
    pub(super) async fn count(&self) -> Result<u64> {
        let row = self.client.query_one("SELECT count(*) FROM work WHERE node IS NULL", &[]).await?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    /// Does what the server does by itself within minutes of such a change.
    pub(super) async fn tidy(&self) -> Result<()> {
        self.client.batch_execute("VACUUM (ANALYZE)").await?;
        Ok(self.client.batch_execute("CHECKPOINT").await?)
    }

    /// Adds as many rows as are claimed, until `stop`. Gives the next number.
    pub(super) async fn feed(
        &self,
        database: &Database,
        lanes: u64,
        hands: Arc<Hands>,
        stop: Arc<AtomicBool>,
    ) -> Result<JoinHandle<Result<u64>>> {
        let (mut client, copies, mut next) = (database.connect().await?, self.copies.clone(), self.next);
        let mut fed = hands.taken();
        Ok(tokio::spawn(async move {
            while !stop.load(Ordering::Acquire) {
                if hands.taken() - fed >= FEED_ROWS {
                    next = copies.add(&mut client, next, FEED_ROWS, lanes).await?;
                    fed += FEED_ROWS;
                } else {
                    sleep(FEED_EVERY).await;
                }
            }
            Ok(next)
        }))
    }
}

impl Copies {
    /// Adds copies from `next` on, and gives the number behind them.
    async fn add(&self, client: &mut Client, next: u64, count: u64, lanes: u64) -> Result<u64> {
        let end = next + count;
        let mut from = next;
        while from < end {
            let to = end.min(from + STATEMENT_ROWS);
            let [first, last, lanes] = [from, to - 1, lanes].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
            let transaction = client.transaction().await?;
            for statement in &self.statements {
                transaction.execute(statement, &[&first, &last, &lanes]).await?;
            }
            transaction.commit().await?;
            from = to;
        }
        Ok(end)
    }
}

/// The columns of a table that a copy names, and what they are filled with: what `instead` says, or what is copied.
async fn columns(client: &Client, table: &str, instead: &[(&str, &str)]) -> Result<(String, String)> {
    let rows = client
        .query(
            "SELECT column_name::text FROM information_schema.columns WHERE table_name = $1 AND is_identity = 'NO' \
             ORDER BY ordinal_position",
            &[&table],
        )
        .await?;
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let values: Vec<&str> = names
        .iter()
        .map(|name| instead.iter().find(|(it, _)| it == name).map_or(&**name, |(_, value)| *value))
        .collect();
    Ok((names.join(", "), values.join(", ")))
}
