//! The database that everything goes to.

use std::collections::BTreeSet;
use std::pin::pin;

use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;

use super::Fault;
use super::source::{Marks, Source};
use super::table::{TABLES, Table};
use crate::postgres;
use crate::postgres::migrate::migrate;
use crate::postgres::node::REGISTER_LOCK;
use crate::postgres::partition::{self, make_day};
use crate::postgres::pool::{self, Address};
use crate::postgres::sql::Sql;

/// See the module.
pub(super) struct Target {
    client: Client,
    address: Address,
    /// The epoch that the transfer makes: nodes read what is of it.
    epoch: i64,
    /// The number of a node that is dead: it holds what was in flight. 0 when nothing was.
    node: i32,
}

impl Target {
    /// Connects, makes the tables, and keeps nodes and other transfers away for as long as the connection lasts.
    pub(super) async fn connect(url: &str, tls: rustls::ClientConfig) -> Result<Self, Fault> {
        let address = Address::parse(url, tls)?;
        let mut client = address.connect().await?;
        client
            .batch_execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
            .await?;
        // What others use is not even migrated.
        let made = client.query_one("SELECT to_regclass('record') IS NOT NULL", &[]).await?;
        if made.try_get(0)? {
            refuse_records(&client).await?;
        }
        migrate(&mut client).await?;
        let alone = client.query_one("SELECT pg_try_advisory_lock($1)", &[&REGISTER_LOCK]).await?;
        let alive =
            "SELECT EXISTS (SELECT FROM node WHERE seen_at > clock_timestamp() - interval '15 seconds')";
        if !alone.try_get::<_, bool>(0)? || client.query_one(alive, &[]).await?.try_get(0)? {
            return Err(Fault::Busy);
        }
        Ok(Self { client, address, epoch: 0, node: 0 })
    }

    /// Makes the partitions of some days, a transaction for each: one for all would hold too many locks.
    pub(super) async fn make_partitions(&self, days: &BTreeSet<i64>) -> Result<(), Fault> {
        let sql = Sql::new(pool::take(&self.address.pool()?).await?);
        for day in days {
            sql.batch("BEGIN").await?;
            sql.execute("SELECT pg_advisory_xact_lock($1)", &[&partition::LOCK]).await?;
            make_day(&sql, *day).await?;
            sql.batch("COMMIT").await?;
        }
        Ok(())
    }

    /// Begins the transaction that everything is in.
    pub(super) async fn begin(&mut self, marks: &Marks) -> Result<(), Fault> {
        // The lock keeps away a node that was frozen and is back.
        self.client.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7310306451)").await?;
        refuse_records(&self.client).await?;
        let change = "UPDATE epoch SET value = value + 1 RETURNING value";
        self.epoch = self.client.query_one(change, &[]).await?.try_get(0)?;
        if marks.in_flight > 0 {
            let dead = "INSERT INTO node (slot, started_at, seen_at, floor, last_key, epoch) \
                 SELECT slot, clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 hour', $1, $2, 0 \
                 FROM generate_series(0, 63) AS slot WHERE NOT EXISTS (SELECT FROM node WHERE node.slot = slot.slot) \
                 ORDER BY slot LIMIT 1 RETURNING id";
            let row = self.client.query_opt(dead, &[&marks.floor, &marks.last_key]).await?;
            self.node = row.ok_or(Fault::Busy)?.try_get(0)?;
        }
        Ok(())
    }

    /// Copies a table row by row.
    pub(super) async fn copy(
        &self,
        table: &Table,
        source: &Source,
        mut count_row: impl FnMut(),
    ) -> Result<(), Fault> {
        let (names, types): (Vec<&str>, Vec<Type>) = table.columns.iter().cloned().unzip();
        let copy = format!("COPY {} ({}) FROM STDIN BINARY", table.name, names.join(", "));
        let mut writer = pin!(BinaryCopyInWriter::new(self.client.copy_in(&copy).await?, &types));
        let mut reading = source.conn.prepare(table.select)?;
        for (name, value) in [(":epoch", self.epoch), (":node", self.node.into())] {
            if let Some(index) = reading.parameter_index(name)? {
                reading.raw_bind_parameter(index, value)?;
            }
        }
        let mut rows = reading.raw_query();
        while let Some(row) = rows.next()? {
            writer.as_mut().write_raw(table.cells(row)?).await?;
            count_row();
        }
        writer.finish().await?;
        Ok(())
    }

    pub(super) async fn count(&self, table: &Table) -> Result<u64, Fault> {
        let count = format!("SELECT count(*) FROM {}", table.name);
        Ok(self.client.query_one(&count, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs())
    }

    /// Makes all of it durable, and readies the tables for those who will read them.
    pub(super) async fn commit(self, marks: &Marks) -> Result<(), Fault> {
        for (name, value) in [("key_lead_ms", marks.key_lead_ms), ("last_key", marks.last_key)] {
            let raise = "UPDATE meta SET value = greatest(value, $2) WHERE name = $1";
            self.client.execute(raise, &[&name, &value]).await?;
        }
        if marks.last_row > 0 {
            let next = "SELECT setval(pg_get_serial_sequence('record', 'row'), $1)";
            self.client.execute(next, &[&marks.last_row]).await?;
        }
        self.client.batch_execute("COMMIT").await.map_err(|error| {
            if error.as_db_error().is_some() {
                postgres::Fault::Database(error)
            } else {
                postgres::Fault::CommitUnknown(error.to_string())
            }
        })?;
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        let tidy = format!("VACUUM (ANALYZE) {}", names.join(", "));
        if let Err(error) = self.client.batch_execute(&tidy).await {
            // The database does the same by and by.
            tracing::warn!(error.message = %error, "the tables are not vacuumed yet");
        }
        Ok(())
    }
}

async fn refuse_records(client: &Client) -> Result<(), Fault> {
    let any = "SELECT EXISTS (SELECT FROM record) OR EXISTS (SELECT FROM message)";
    let holds: bool = client.query_one(any, &[]).await?.try_get(0)?;
    if holds { Err(Fault::NotEmpty) } else { Ok(()) }
}
