//! What a node knows of the configuration follows what the tables say.

use std::sync::Arc;

use restante_core::delivery::CancelReason;
use restante_core::endpoint::{Destination, Receiver, Webhook};
use restante_core::id::SourceId;

use super::Fault;
use super::config::{
    Config, RECORD_COLUMNS, RECORD_TABLES, RecordRow, STANDING_COLUMNS, Standing, gone_reason, parse,
    read_record, read_standing,
};
use super::node::Node;
use super::sql::Sql;
use super::state::State;
use crate::Withdraw;
use crate::endpoint::Settings;

/// What changed since an epoch.
struct News {
    epoch: i64,
    /// With the balance of a workspace.
    records: Vec<(RecordRow, Option<i64>)>,
    /// By the row of the endpoint.
    standings: Vec<(i64, Standing)>,
    key_lead_ms: i64,
}

impl Node {
    /// Takes over what changed in the configuration since this was last done. Endpoints that may not be dialled any
    /// more are withdrawn before this returns.
    pub(super) async fn refresh(&self) -> Result<(), Fault> {
        // One after the other: older news must not come last.
        let _turn = self.refreshing.lock().await;
        let known = self.state().epoch;
        let sql = self.connection().await?;
        let news = match read_news(&sql, known).await {
            Ok(news) => news,
            Err(fault) => {
                sql.throw_away();
                return Err(fault);
            }
        };
        if let Some(news) = news {
            self.state().take_over(news)?;
        }
        self.wake();
        Ok(())
    }
}

async fn read_news(sql: &Sql, known: i64) -> Result<Option<News>, Fault> {
    let epoch: i64 = sql.one("SELECT value FROM epoch", &[]).await?.try_get(0)?;
    if epoch == known {
        return Ok(None);
    }
    sql.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let epoch: i64 = sql.one("SELECT value FROM epoch", &[]).await?.try_get(0)?;
    let key_lead_ms = sql.one("SELECT value FROM meta WHERE name = 'key_lead_ms'", &[]).await?.try_get(0)?;
    let statement = format!(
        "SELECT {RECORD_COLUMNS}, credit.balance FROM {RECORD_TABLES} \
         LEFT JOIN credit ON record.kind = 1 AND credit.workspace = record.row \
         WHERE record.kind IN (1, 2, 3, 6, 9) AND record.epoch > $1 ORDER BY record.row"
    );
    let mut records = Vec::new();
    for row in sql.query(&statement, &[&known]).await? {
        records.push((read_record(&row)?, row.try_get(14)?));
    }
    let statement = format!("SELECT endpoint, {STANDING_COLUMNS} FROM health WHERE epoch > $1");
    let mut standings = Vec::new();
    for row in sql.query(&statement, &[&known]).await? {
        standings.push((row.try_get(0)?, read_standing(&row, 1)?));
    }
    sql.batch("COMMIT").await?;
    Ok(Some(News { epoch, records, standings, key_lead_ms }))
}

impl State {
    fn take_over(&mut self, news: News) -> Result<(), Fault> {
        for (record, balance) in &news.records {
            match record.kind {
                1 => self.take_workspace(record, *balance),
                2 => {
                    self.config.take_source(record)?;
                    self.seat_all(SourceId::from_uuid(record.raw.uuid));
                }
                3 => self.take_destination(record)?,
                9 => self.take_mailboxes(record)?,
                _ => {
                    let standing = news.standings.iter().find(|(row, _)| *row == record.row);
                    self.take_webhook(record, standing.map(|(_, standing)| *standing).unwrap_or_default())?;
                }
            }
        }
        for (row, standing) in news.standings {
            if let Some(entry) = self.config.endpoints.get_mut(&row) {
                entry.standing = standing;
            }
            if standing.cut.is_some() {
                self.unswept.insert(row);
            }
        }
        self.key_lead_ms = self.key_lead_ms.max(news.key_lead_ms);
        self.epoch = news.epoch;
        Ok(())
    }

    fn take_workspace(&mut self, record: &RecordRow, balance: Option<i64>) {
        match self.config.workspaces.get_mut(&record.row) {
            Some(entry) => entry.balance = balance,
            None => self.config.take_workspace(record, balance),
        }
    }

    fn take_destination(&mut self, record: &RecordRow) -> Result<(), Fault> {
        let destination: Destination = parse(&record.raw.body)?;
        let source = record.parent.unwrap_or(0);
        if !self.config.endpoints.contains_key(&record.row) {
            self.config.take_destination(record, &Config::default())?;
            self.welcome(record);
            return Ok(());
        }
        let source_gone_at = self.config.sources.get(&source).and_then(|source| source.gone_at);
        let gone = gone_reason(record.deleted_at, source_gone_at);
        if let Some(source) = self.config.sources.get_mut(&source).filter(|_| gone.is_some()) {
            source.endpoints.retain(|row| *row != record.row);
        }
        self.change_endpoint(record, Receiver::Destination(destination), gone);
        Ok(())
    }

    fn take_webhook(&mut self, record: &RecordRow, standing: Standing) -> Result<(), Fault> {
        let webhook: Webhook = parse(&record.raw.body)?;
        if !self.config.endpoints.contains_key(&record.row) {
            self.config.take_webhook(record, standing, &Config::default())?;
            self.welcome(record);
            return Ok(());
        }
        let gone = record.deleted_at.map(|_| CancelReason::EndpointDeleted);
        if let Some(workspace) = self.config.workspaces.get_mut(&record.workspace) {
            if gone.is_some() {
                workspace.webhooks.retain(|row| *row != record.row);
            }
            workspace.forget_routes();
        }
        self.change_endpoint(record, Receiver::Webhook(webhook), gone);
        Ok(())
    }

    /// They never change.
    fn take_mailboxes(&mut self, record: &RecordRow) -> Result<(), Fault> {
        if !self.config.endpoints.contains_key(&record.row) {
            self.config.take_mailboxes(record, &Config::default())?;
            self.welcome(record);
        }
        Ok(())
    }

    /// An endpoint that was not known here: other nodes may have planned something for it, and have all its slots.
    fn welcome(&mut self, record: &RecordRow) {
        if let Some(entry) = self.config.endpoints.get(&record.row) {
            entry.endpoint.set_slots(0);
        }
        if record.deleted_at.is_some() {
            self.unswept.insert(record.row);
        }
    }

    fn change_endpoint(&mut self, record: &RecordRow, receiver: Receiver, gone: Option<CancelReason>) {
        let Some(entry) = self.config.endpoints.get_mut(&record.row) else { return };
        let settings = Settings { receiver, version: record.raw.version, gone: gone.is_some() };
        let opened = entry.is_open();
        entry.gone = gone;
        entry.settings = Arc::new(settings);
        entry.endpoint.set(Arc::clone(&entry.settings));
        if gone.is_some() {
            self.unswept.insert(record.row);
        }
        self.seat(record.row);
        self.agenda.relist(&mut self.config, record.row);
        let entry = self.config.endpoints.get(&record.row).filter(|entry| opened && !entry.is_open());
        if let Some(endpoint) = entry.map(|entry| entry.endpoint.id) {
            self.withdraw(Withdraw::Endpoint(endpoint));
        }
    }
}
