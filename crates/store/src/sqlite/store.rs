//! The trait's methods: what is written goes through the writer, what is read does not.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use restante_core::Timestamp;
use restante_core::endpoint::Sealed;
use restante_core::health::Health;
use restante_core::id::{
    DeliveryId, DestinationId, EmailId, EventId, ReplayId, RequestId, SourceId, Tail, WebhookId, WorkspaceId,
};
use restante_core::intake::Rules;
use restante_core::stats::Span;
use rusqlite::OptionalExtension;
use tokio::sync::{Notify, broadcast};

use super::engine::Engine;
use super::read::{self, Reader};
use super::writer::Task;
use super::{Sqlite, bulk, health, lock, resend};
use crate::email::{EmailChange, EmailChanged, Sending, Sent};
use crate::record::{Draft, Kind, Mode, Raw};
use crate::{
    Accepted, BulkRetry, Cancelled, Change, Claimed, Commits, Connections, Created, Dispatch, Error,
    Finished, Grant, Incoming, KeyClaim, Lease, Listening, Page, Paged, Published, Publishing, Recovery,
    Replayed, Resent, Retried, Room, Settled, Store, Updated, Vitals, Window, row, stats,
};

/// Leases settled as lost in one transaction when taking over.
const TAKE_OVER_CHUNK: usize = 1000;
/// Rows of the tally written in one transaction: others commit in between.
const ROLL_UP_ROWS: usize = 500;

#[async_trait]
impl Store for Sqlite {
    async fn accept(&self, incoming: Incoming) -> Result<Accepted, Error> {
        self.write_new(Task::Grouped, move |engine| engine.accept(incoming)).await
    }

    fn rules(&self, token: &str) -> Option<Arc<Rules>> {
        self.book.of(token)
    }

    async fn publish(&self, publishing: Publishing) -> Result<Published, Error> {
        self.write_new(Task::Grouped, move |engine| engine.publish(publishing)).await
    }

    async fn send(&self, sending: Sending) -> Result<Sent, Error> {
        self.write_new(Task::Alone, move |engine| engine.send(sending)).await
    }

    async fn known_send(
        &self,
        workspace: WorkspaceId,
        mode: Mode,
        claim: KeyClaim,
    ) -> Result<Option<Sent>, Error> {
        let policy = self.policy;
        self.read(move |conn| {
            Reader::new(conn, policy, Timestamp::default()).known_send(workspace, mode, &claim)
        })
        .await
    }

    async fn cancel_email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<EmailChanged, Error> {
        self.write(Task::Alone, move |engine| engine.cancel_email(workspace, email, now)).await
    }

    async fn change_email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        change: EmailChange,
        now: Timestamp,
    ) -> Result<EmailChanged, Error> {
        self.write(Task::Alone, move |engine| engine.change_email(workspace, email, change, now)).await
    }

    async fn data_sent(&self, lease: Lease) -> Result<bool, Error> {
        self.write(Task::Grouped, move |engine| engine.data_sent(lease)).await
    }

    async fn email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<row::Email>, Error> {
        let policy = self.policy;
        self.read(move |conn| Reader::new(conn, policy, now).email(workspace, email)).await
    }

    async fn email_mime(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<Bytes>, Error> {
        let policy = self.policy;
        let mime = self.read(move |conn| Reader::new(conn, policy, now).email_mime(workspace, email)).await?;
        Ok(mime.map(Bytes::from))
    }

    async fn emails(
        &self,
        workspace: WorkspaceId,
        filter: row::EmailFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Email>, Error> {
        let policy = self.policy;
        self.read(move |conn| Reader::new(conn, policy, now).emails(workspace, &filter, page)).await
    }

    async fn email_events(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<Vec<row::Event>>, Error> {
        let policy = self.policy;
        self.read(move |conn| Reader::new(conn, policy, now).email_events(workspace, email)).await
    }

    async fn claim(&self, now: Timestamp, most: usize) -> Result<Claimed, Error> {
        // A row that cannot be read must not take the accepts of the same commit with it.
        self.write(Task::Alone, move |engine| engine.claim(now, most)).await
    }

    async fn settle(&self, finished: Vec<Finished>) -> Result<Vec<Settled>, Error> {
        self.write(Task::Grouped, move |engine| finished.iter().map(|one| engine.settle(one)).collect()).await
    }

    async fn release(&self, leases: Vec<Lease>, now: Timestamp) -> Result<(), Error> {
        self.write(Task::Grouped, move |engine| engine.release(&leases, now)).await
    }

    async fn take_over(&self, now: Timestamp) -> Result<usize, Error> {
        let mut total = 0;
        loop {
            let settled =
                self.write(Task::Alone, move |engine| engine.take_over(now, TAKE_OVER_CHUNK)).await?;
            total += settled;
            if settled < TAKE_OVER_CHUNK {
                return Ok(total);
            }
        }
    }

    async fn cancel(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Cancelled, Error> {
        self.write(Task::Alone, move |engine| engine.cancel(workspace, delivery, now)).await
    }

    async fn retry(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Retried, Error> {
        self.write(Task::Alone, move |engine| engine.retry(workspace, delivery, now)).await
    }

    async fn count_bulk_retry(
        &self,
        workspace: WorkspaceId,
        destination: DestinationId,
        bulk: BulkRetry,
    ) -> Result<u64, Error> {
        self.read(move |conn| bulk::count_bulk_retry(conn, workspace, destination, &bulk)).await
    }

    async fn advance_bulk_retry(&self, id: ReplayId, now: Timestamp, most: usize) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.advance_bulk_retry(id, now, most)).await
    }

    async fn replay(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Replayed, Error> {
        self.write_new(Task::Alone, move |engine| engine.replay(workspace, request, now, tail)).await
    }

    async fn replay_webhook(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error> {
        self.write(Task::Alone, move |engine| engine.replay_webhook(workspace, webhook, window, now, tail))
            .await
    }

    async fn count_replay(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
    ) -> Result<Option<u64>, Error> {
        let cutoff = self.policy.events_cutoff(now);
        self.read(move |conn| resend::count_replay(conn, workspace, webhook, window, now, cutoff)).await
    }

    async fn replay_delivery(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        delivery: DeliveryId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error> {
        self.write(Task::Alone, move |engine| engine.replay_delivery(workspace, webhook, delivery, now, tail))
            .await
    }

    async fn recover(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        recovery: Recovery,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error> {
        self.write(Task::Alone, move |engine| engine.recover(workspace, webhook, recovery, now, tail)).await
    }

    async fn clear_run(&self, workspace: WorkspaceId, webhook: WebhookId) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.clear_run(workspace, webhook)).await
    }

    async fn healths(&self, webhooks: Vec<WebhookId>) -> Result<Vec<Health>, Error> {
        self.read(move |conn| health::healths(conn, &webhooks)).await
    }

    async fn erase(&self, workspace: WorkspaceId, request: RequestId, now: Timestamp) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.erase(workspace, request, now)).await
    }

    async fn prune(&self, now: Timestamp, most: usize) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.prune(now, most)).await
    }

    async fn create(&self, draft: Draft, now: Timestamp) -> Result<Created, Error> {
        self.write(Task::Alone, move |engine| engine.create(&draft, now)).await
    }

    async fn update(&self, kind: Kind, new: Raw, now: Timestamp) -> Result<Updated, Error> {
        self.write(Task::Alone, move |engine| engine.update(kind, &new, now)).await
    }

    async fn delete(
        &self,
        kind: Kind,
        workspace: WorkspaceId,
        uuid: u128,
        now: Timestamp,
    ) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.delete(kind, workspace, uuid, now)).await
    }

    async fn record(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Option<Raw>, Error> {
        self.read(move |conn| read::record(conn, kind, workspace, uuid)).await
    }

    async fn record_by_lookup(&self, kind: Kind, lookup: &str) -> Result<Option<Raw>, Error> {
        let lookup = lookup.to_owned();
        self.read(move |conn| read::record_by_lookup(conn, kind, &lookup)).await
    }

    async fn records(
        &self,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        page: Page,
    ) -> Result<Paged<Raw>, Error> {
        self.read(move |conn| read::records(conn, kind, workspace, parent, page)).await
    }

    async fn balance(&self, workspace: WorkspaceId) -> Result<Option<i64>, Error> {
        self.read(move |conn| read::balance(conn, workspace)).await
    }

    async fn ledger(&self, workspace: WorkspaceId, page: Page) -> Result<Paged<row::Charge>, Error> {
        self.read(move |conn| read::ledger(conn, workspace, page)).await
    }

    async fn grant(
        &self,
        workspace: WorkspaceId,
        grant: Grant,
        note: String,
        now: Timestamp,
    ) -> Result<Option<i64>, Error> {
        self.write(Task::Alone, move |engine| engine.grant(workspace, grant, note, now)).await
    }

    async fn request(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<row::Request>, Error> {
        let policy = self.policy;
        let mut found =
            self.read(move |conn| Reader::new(conn, policy, now).request(workspace, request)).await?;
        let deliveries = found.iter_mut().flat_map(|request| &mut request.deliveries);
        deliveries.for_each(|it| self.served.show(it));
        Ok(found)
    }

    async fn requests(
        &self,
        workspace: WorkspaceId,
        filter: row::RequestFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Request>, Error> {
        let policy = self.policy;
        let mut found =
            self.read(move |conn| Reader::new(conn, policy, now).requests(workspace, &filter, page)).await?;
        let deliveries = found.items.iter_mut().flat_map(|request| &mut request.deliveries);
        deliveries.for_each(|it| self.served.show(it));
        Ok(found)
    }

    async fn request_body(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<Bytes>, Error> {
        let policy = self.policy;
        let body =
            self.read(move |conn| Reader::new(conn, policy, now).request_body(workspace, request)).await?;
        Ok(body.map(Bytes::from))
    }

    async fn event(
        &self,
        workspace: WorkspaceId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<row::Event>, Error> {
        let policy = self.policy;
        self.read(move |conn| Reader::new(conn, policy, now).event(workspace, event)).await
    }

    async fn events(
        &self,
        workspace: WorkspaceId,
        filter: row::EventFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Event>, Error> {
        let policy = self.policy;
        self.read(move |conn| Reader::new(conn, policy, now).events(workspace, &filter, page)).await
    }

    async fn attempts(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        filter: row::LogFilter,
        behind: Option<row::LogPlace>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Option<(Vec<row::Logged>, Option<row::LogPlace>)>, Error> {
        let policy = self.policy;
        self.read(move |conn| Reader::new(conn, policy, now).log(workspace, webhook, filter, behind, limit))
            .await
    }

    async fn delivery(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<row::Delivery>, Error> {
        let policy = self.policy;
        let mut found =
            self.read(move |conn| Reader::new(conn, policy, now).delivery(workspace, delivery)).await?;
        found.iter_mut().for_each(|it| self.served.show(it));
        Ok(found)
    }

    async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: row::DeliveryFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Delivery>, Error> {
        let policy = self.policy;
        let mut found = self
            .read(move |conn| Reader::new(conn, policy, now).deliveries(workspace, &filter, page))
            .await?;
        found.items.iter_mut().for_each(|it| self.served.show(it));
        Ok(found)
    }

    async fn roll_up(&self, now: Timestamp) -> Result<(), Error> {
        // A server where nothing happens writes nothing.
        if !self.tally.lock().begin_round(now) {
            return Ok(());
        }
        while self.write(Task::Alone, |engine| engine.roll_up(ROLL_UP_ROWS)).await? {}
        Ok(())
    }

    async fn stats(
        &self,
        workspace: WorkspaceId,
        scope: stats::Scope,
        span: Span,
    ) -> Result<Option<stats::Stats>, Error> {
        let tally = self.tally.clone();
        self.read(move |conn| read::stats(conn, &tally, workspace, scope, span)).await
    }

    async fn endpoint_stats(
        &self,
        workspace: WorkspaceId,
        span: Span,
    ) -> Result<Vec<stats::EndpointStats>, Error> {
        let tally = self.tally.clone();
        self.read(move |conn| read::endpoint_stats(conn, &tally, workspace, span)).await
    }

    async fn secret_check(&self, fresh: Option<Sealed>) -> Result<Option<Sealed>, Error> {
        self.write(Task::Alone, move |engine| engine.secret_check(fresh)).await
    }

    async fn attach(&self, dispatch: Option<Arc<dyn Dispatch>>) -> Result<(), Error> {
        self.write(Task::Grouped, move |engine| {
            engine.attach(dispatch);
            Ok(())
        })
        .await
    }

    async fn listen(&self, source: SourceId, clients: Option<Listening>) -> Result<(), Error> {
        self.write(Task::Grouped, move |engine| engine.listen(source, clients)).await
    }

    fn due(&self) -> &Notify {
        &self.shared.due
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }

    async fn health(&self) -> Result<Vitals, Error> {
        if lock(&self.shared.broken).is_some() || self.has_ended() {
            // Only a write that works ends a fault, and there may be no other.
            self.write(Task::Grouped, Engine::write_lease_floor).await?;
        }
        self.read(|conn| Ok(conn.query_row("SELECT 1 FROM meta", [], |_| Ok(())).optional()?)).await?;
        let wal_bytes = std::fs::metadata(&self.wal).map_or(0, |file| file.len());
        Ok(Vitals { wal_bytes, ..*lock(&self.shared.vitals) })
    }

    fn commits(&self) -> &Commits {
        &self.shared.commits
    }

    fn connections(&self) -> Connections {
        self.readers.connections()
    }

    fn room(&self) -> Room {
        self.shared.room.room()
    }
}
