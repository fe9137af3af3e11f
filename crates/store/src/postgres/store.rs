//! The trait's methods.

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
use tokio::sync::{Notify, broadcast, oneshot};

use super::Postgres;
use super::job::Job;
use super::node::lock;
use super::read::{self, Reader};
use super::tx::Access;
use crate::email::{EmailChange, EmailChanged, Sending, Sent};
use crate::record::{Draft, Kind, Mode, Raw};
use crate::{
    Accepted, BulkRetry, Cancelled, Change, Claimed, Commits, Connections, Created, Dispatch, Error,
    Finished, Grant, Incoming, KeyClaim, Lease, Listening, Page, Paged, Published, Publishing, Recovery,
    Replayed, Resent, Retried, Settled, Store, Updated, Vitals, Window, row, stats,
};

/// What has to be alone to change a kind of record: nodes keep these in memory.
const fn access(kind: Kind) -> Access {
    if kind.is_configuration() { Access::Configuration } else { Access::Messages }
}

impl Postgres {
    /// Has a job done in a batch and waits for its answer.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let jobs = lock(&self.jobs).clone().ok_or_else(|| Error::Unavailable("closed".into()))?;
        jobs.send(job(reply)).await.map_err(|_| Error::Unavailable("closed".into()))?;
        answer.await.map_err(|_| {
            let broken = lock(&self.node.broken).clone();
            Error::Unavailable(broken.unwrap_or_else(|| "the change was refused by the database".into()))
        })
    }
}

#[async_trait]
impl Store for Postgres {
    async fn accept(&self, incoming: Incoming) -> Result<Accepted, Error> {
        self.ask(|reply| Job::accept(&self.node, incoming, reply)).await
    }

    fn rules(&self, token: &str) -> Option<Arc<Rules>> {
        self.node.book.of(token)
    }

    async fn publish(&self, publishing: Publishing) -> Result<Published, Error> {
        self.ask(|reply| Job::publish(&self.node, publishing, reply)).await
    }

    async fn send(&self, sending: Sending) -> Result<Sent, Error> {
        self.node.send(sending).await
    }

    async fn known_send(
        &self,
        workspace: WorkspaceId,
        mode: Mode,
        claim: KeyClaim,
    ) -> Result<Option<Sent>, Error> {
        let claim = Arc::new(claim);
        self.node
            .read(move |sql| {
                let claim = Arc::clone(&claim);
                Box::pin(async move { read::known_send(sql, workspace, mode, &claim).await })
            })
            .await
    }

    async fn cancel_email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<EmailChanged, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.cancel_email(workspace, email, now))).await
    }

    async fn change_email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        change: EmailChange,
        now: Timestamp,
    ) -> Result<EmailChanged, Error> {
        let change = Arc::new(change);
        self.node
            .write(Access::Messages, move |tx| {
                let change = Arc::clone(&change);
                Box::pin(async move { tx.change_email(workspace, email, &change, now).await })
            })
            .await
    }

    async fn data_sent(&self, lease: Lease) -> Result<bool, Error> {
        self.node.data_sent(lease).await
    }

    async fn email(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<row::Email>, Error> {
        let policy = self.node.policy;
        self.node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).email(workspace, email).await })
            })
            .await
    }

    async fn email_mime(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<Bytes>, Error> {
        let policy = self.node.policy;
        let mime = self
            .node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).email_mime(workspace, email).await })
            })
            .await?;
        Ok(mime.map(Bytes::from))
    }

    async fn emails(
        &self,
        workspace: WorkspaceId,
        filter: row::EmailFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Email>, Error> {
        let (policy, filter) = (self.node.policy, Arc::new(filter));
        self.node
            .read(move |sql| {
                let filter = Arc::clone(&filter);
                Box::pin(async move { Reader::new(sql, policy, now).emails(workspace, &filter, page).await })
            })
            .await
    }

    async fn email_events(
        &self,
        workspace: WorkspaceId,
        email: EmailId,
        now: Timestamp,
    ) -> Result<Option<Vec<row::Event>>, Error> {
        let policy = self.node.policy;
        self.node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).email_events(workspace, email).await })
            })
            .await
    }

    async fn claim(&self, now: Timestamp, most: usize) -> Result<Claimed, Error> {
        self.node.claim(now, most).await
    }

    async fn settle(&self, finished: Vec<Finished>) -> Result<Vec<Settled>, Error> {
        self.ask(|reply| Job::settle(finished, reply)).await
    }

    fn may_dial(&self) -> bool {
        self.node.may_dial()
    }

    async fn release(&self, leases: Vec<Lease>, now: Timestamp) -> Result<(), Error> {
        Ok(self.node.release(leases, now).await?)
    }

    async fn take_over(&self, now: Timestamp) -> Result<usize, Error> {
        self.node.take_over(now).await
    }

    async fn cancel(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Cancelled, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.cancel(workspace, delivery, now))).await
    }

    async fn retry(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Retried, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.retry(workspace, delivery, now))).await
    }

    async fn count_bulk_retry(
        &self,
        workspace: WorkspaceId,
        destination: DestinationId,
        bulk: BulkRetry,
    ) -> Result<u64, Error> {
        let bulk = Arc::new(bulk);
        self.node
            .read(move |sql| {
                let bulk = Arc::clone(&bulk);
                Box::pin(async move { read::count_bulk_retry(sql, workspace, destination, &bulk).await })
            })
            .await
    }

    async fn advance_bulk_retry(&self, id: ReplayId, now: Timestamp, most: usize) -> Result<bool, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.advance_bulk_retry(id, now, most))).await
    }

    async fn replay(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Replayed, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.replay(workspace, request, now, tail))).await
    }

    async fn replay_webhook(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error> {
        self.node
            .write(Access::Messages, move |tx| {
                Box::pin(tx.replay_webhook(workspace, webhook, window, now, tail))
            })
            .await
    }

    async fn count_replay(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
    ) -> Result<Option<u64>, Error> {
        let cutoff = self.node.policy.events_cutoff(now);
        self.node
            .read(move |sql| Box::pin(read::count_replay(sql, workspace, webhook, window, now, cutoff)))
            .await
    }

    async fn replay_delivery(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        delivery: DeliveryId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Error> {
        self.node
            .write(Access::Messages, move |tx| {
                Box::pin(tx.replay_delivery(workspace, webhook, delivery, now, tail))
            })
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
        self.node
            .write(Access::Messages, move |tx| Box::pin(tx.recover(workspace, webhook, recovery, now, tail)))
            .await
    }

    async fn clear_run(&self, workspace: WorkspaceId, webhook: WebhookId) -> Result<bool, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.clear_run(workspace, webhook))).await
    }

    async fn healths(&self, webhooks: Vec<WebhookId>) -> Result<Vec<Health>, Error> {
        let webhooks: Arc<[WebhookId]> = webhooks.into();
        self.node
            .read(move |sql| {
                let webhooks = Arc::clone(&webhooks);
                Box::pin(async move { read::healths(sql, &webhooks).await })
            })
            .await
    }

    async fn erase(&self, workspace: WorkspaceId, request: RequestId, now: Timestamp) -> Result<bool, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.erase(workspace, request, now))).await
    }

    async fn prune(&self, now: Timestamp, most: usize) -> Result<bool, Error> {
        self.node.prune(now, most).await
    }

    async fn create(&self, draft: Draft, now: Timestamp) -> Result<Created, Error> {
        let access = access(draft.kind);
        let draft = Arc::new(draft);
        self.node
            .write(access, move |tx| {
                let draft = Arc::clone(&draft);
                Box::pin(async move { tx.create(&draft, now).await })
            })
            .await
    }

    async fn update(&self, kind: Kind, new: Raw, now: Timestamp) -> Result<Updated, Error> {
        let new = Arc::new(new);
        self.node
            .write(access(kind), move |tx| {
                let new = Arc::clone(&new);
                Box::pin(async move { tx.update(kind, &new, now).await })
            })
            .await
    }

    async fn delete(
        &self,
        kind: Kind,
        workspace: WorkspaceId,
        uuid: u128,
        now: Timestamp,
    ) -> Result<bool, Error> {
        self.node.write(access(kind), move |tx| Box::pin(tx.delete(kind, workspace, uuid, now))).await
    }

    async fn record(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Option<Raw>, Error> {
        self.node.read(move |sql| Box::pin(read::record(sql, kind, workspace, uuid))).await
    }

    async fn record_by_lookup(&self, kind: Kind, lookup: &str) -> Result<Option<Raw>, Error> {
        let lookup: Arc<str> = lookup.into();
        self.node
            .read(move |sql| {
                let lookup = Arc::clone(&lookup);
                Box::pin(async move { read::record_by_lookup(sql, kind, &lookup).await })
            })
            .await
    }

    async fn records(
        &self,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        page: Page,
    ) -> Result<Paged<Raw>, Error> {
        self.node.read(move |sql| Box::pin(read::records(sql, kind, workspace, parent, page))).await
    }

    async fn balance(&self, workspace: WorkspaceId) -> Result<Option<i64>, Error> {
        self.node.read(move |sql| Box::pin(read::balance(sql, workspace))).await
    }

    async fn ledger(&self, workspace: WorkspaceId, page: Page) -> Result<Paged<row::Charge>, Error> {
        self.node.read(move |sql| Box::pin(read::ledger(sql, workspace, page))).await
    }

    async fn grant(
        &self,
        workspace: WorkspaceId,
        grant: Grant,
        note: String,
        now: Timestamp,
    ) -> Result<Option<i64>, Error> {
        self.node
            .write(Access::Configuration, move |tx| Box::pin(tx.grant(workspace, grant, note.clone(), now)))
            .await
    }

    async fn request(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<row::Request>, Error> {
        let policy = self.node.policy;
        let mut found = self
            .node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).request(workspace, request).await })
            })
            .await?;
        let deliveries = found.iter_mut().flat_map(|request| &mut request.deliveries);
        deliveries.for_each(|it| self.node.served.show(it));
        Ok(found)
    }

    async fn requests(
        &self,
        workspace: WorkspaceId,
        filter: row::RequestFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Request>, Error> {
        let (policy, filter) = (self.node.policy, Arc::new(filter));
        let mut found = self
            .node
            .read(move |sql| {
                let filter = Arc::clone(&filter);
                Box::pin(
                    async move { Reader::new(sql, policy, now).requests(workspace, &filter, page).await },
                )
            })
            .await?;
        let deliveries = found.items.iter_mut().flat_map(|request| &mut request.deliveries);
        deliveries.for_each(|it| self.node.served.show(it));
        Ok(found)
    }

    async fn request_body(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<Bytes>, Error> {
        let policy = self.node.policy;
        let body = self
            .node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).request_body(workspace, request).await })
            })
            .await?;
        Ok(body.map(Bytes::from))
    }

    async fn event(
        &self,
        workspace: WorkspaceId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<row::Event>, Error> {
        let policy = self.node.policy;
        self.node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).event(workspace, event).await })
            })
            .await
    }

    async fn events(
        &self,
        workspace: WorkspaceId,
        filter: row::EventFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Event>, Error> {
        let (policy, filter) = (self.node.policy, Arc::new(filter));
        self.node
            .read(move |sql| {
                let filter = Arc::clone(&filter);
                Box::pin(async move { Reader::new(sql, policy, now).events(workspace, &filter, page).await })
            })
            .await
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
        let policy = self.node.policy;
        self.node
            .read(move |sql| {
                Box::pin(async move {
                    Reader::new(sql, policy, now).log(workspace, webhook, filter, behind, limit).await
                })
            })
            .await
    }

    async fn delivery(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<row::Delivery>, Error> {
        let policy = self.node.policy;
        let mut found = self
            .node
            .read(move |sql| {
                Box::pin(async move { Reader::new(sql, policy, now).delivery(workspace, delivery).await })
            })
            .await?;
        found.iter_mut().for_each(|it| self.node.served.show(it));
        Ok(found)
    }

    async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: row::DeliveryFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Delivery>, Error> {
        let (policy, filter) = (self.node.policy, Arc::new(filter));
        let mut found = self
            .node
            .read(move |sql| {
                let filter = Arc::clone(&filter);
                Box::pin(
                    async move { Reader::new(sql, policy, now).deliveries(workspace, &filter, page).await },
                )
            })
            .await?;
        found.items.iter_mut().for_each(|it| self.node.served.show(it));
        Ok(found)
    }

    async fn roll_up(&self, now: Timestamp) -> Result<(), Error> {
        Ok(self.node.roll_up(now).await?)
    }

    async fn stats(
        &self,
        workspace: WorkspaceId,
        scope: stats::Scope,
        span: Span,
    ) -> Result<Option<stats::Stats>, Error> {
        let tally = self.node.tally.clone();
        self.node
            .read(move |sql| {
                let tally = tally.clone();
                Box::pin(async move { read::stats(sql, &tally, workspace, scope, span).await })
            })
            .await
    }

    async fn endpoint_stats(
        &self,
        workspace: WorkspaceId,
        span: Span,
    ) -> Result<Vec<stats::EndpointStats>, Error> {
        let tally = self.node.tally.clone();
        self.node
            .read(move |sql| {
                let tally = tally.clone();
                Box::pin(async move { read::endpoint_stats(sql, &tally, workspace, span).await })
            })
            .await
    }

    async fn secret_check(&self, fresh: Option<Sealed>) -> Result<Option<Sealed>, Error> {
        self.node.write(Access::Messages, move |tx| Box::pin(tx.secret_check(fresh.clone()))).await
    }

    async fn attach(&self, dispatch: Option<Arc<dyn Dispatch>>) -> Result<(), Error> {
        let mut guard = self.node.state();
        let state = &mut *guard;
        state.replays.ready = true;
        state.agenda.attach(&mut state.config, dispatch.is_some());
        state.dispatch = dispatch;
        drop(guard);
        self.node.wake();
        Ok(())
    }

    async fn listen(&self, source: SourceId, clients: Option<Listening>) -> Result<(), Error> {
        Ok(self.node.listen_to(source, clients).await?)
    }

    fn due(&self) -> &Notify {
        &self.node.due
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.node.changes.subscribe()
    }

    async fn health(&self) -> Result<Vitals, Error> {
        let orphans = self.node.orphans().await.map_err(Error::from)?;
        let vitals = self.node.state().agenda.vitals();
        Ok(Vitals { leased: vitals.leased + orphans, ..vitals })
    }

    fn commits(&self) -> &Commits {
        &self.node.commits
    }

    fn connections(&self) -> Connections {
        self.node.connections()
    }
}
