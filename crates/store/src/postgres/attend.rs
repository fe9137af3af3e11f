//! A node among others: heartbeats, notifications, and what others wait for.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use restante_core::id::{DeliveryId, EmailId, EventId, Id, RequestId, WorkspaceId};
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::Fault;
use super::config::EndpointEntry;
use super::node::{Node, lock, monotonic_ms};
use super::tx::EARLIEST_DUE;
use crate::agenda::UNKNOWN_DUE;
use crate::{Change, Changed, Lease, Parcel, Withdraw};

/// How often a node says that it is there.
const BEAT_EVERY: Duration = Duration::from_secs(2);
/// How long a heartbeat may take.
const BEAT_TIME: Duration = Duration::from_secs(4);
/// How often it is looked for due work that this node does not know of.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Endpoints looked at in one poll.
const POLL_MAX: usize = 500;
/// Of so many polls, one looks at all that is due, the others at what is behind the latest claim: beside a snapshot that
/// somebody holds, all that was claimed since is still in the index.
const POLLS_PER_FULL: u64 = 8;
/// How often what is known of lost COMMITs' lanes is tidied up.
const TRIM_EVERY: Duration = Duration::from_secs(2);
/// How often what others should know is sent to them.
const SPEAK_EVERY: Duration = Duration::from_millis(50);
/// Pause before the database is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// Between two looks at what is waited for, growing to the second value.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// What one notification holds, in bytes: the server takes less than 8000.
const NOTICE_BYTES_MAX: usize = 7000;

impl Node {
    /// Starts what goes on for as long as the store is open.
    pub(super) fn attend(self: &Arc<Self>) {
        self.keep(Self::beat, BEAT_EVERY);
        self.keep(Self::poll, POLL_EVERY);
        self.keep(Self::share_slots, POLL_EVERY);
        self.keep(Self::speak, SPEAK_EVERY);
        self.keep(Self::trim_marks, TRIM_EVERY);
        self.keep(Self::listen, PAUSE);
    }

    /// Does something again and again until the store closes.
    fn keep<F>(self: &Arc<Self>, what: impl Fn(Arc<Self>) -> F + Send + 'static, every: Duration)
    where
        F: Future<Output = Result<(), Fault>> + Send,
    {
        let node = Arc::clone(self);
        let mut closing = self.closing.subscribe();
        tokio::spawn(async move {
            loop {
                let pause = tokio::select! {
                    done = what(Arc::clone(&node)) => match done {
                        Ok(()) => every,
                        Err(fault) => {
                            tracing::warn!(error.message = %fault, "the database cannot be attended to");
                            PAUSE.max(every)
                        }
                    },
                    _ = closing.wait_for(|closing| *closing) => return,
                };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = closing.wait_for(|closing| *closing) => return,
                }
            }
        });
    }

    async fn beat(self: Arc<Self>) -> Result<(), Fault> {
        let sent = monotonic_ms();
        let (me, floor, last_key, epoch) = {
            let state = self.state();
            (state.node, state.floor(), state.last_key, state.epoch)
        };
        let watched = self.changes.receiver_count() > 0;
        let asked = async {
            let sql = self.connection().await?;
            let row = sql
                .first(
                    "UPDATE node SET seen_at = clock_timestamp(), floor = $2, epoch = greatest(epoch, $3), watched = $4, \
                     last_key = $5 WHERE id = $1 RETURNING (SELECT value FROM epoch), \
                     (SELECT bool_or(watched) FROM node AS other WHERE other.id <> $1), \
                     EXISTS (SELECT FROM withdrawal WHERE withdrawal.node = $1)",
                    &[&me, &floor, &epoch, &watched, &last_key],
                )
                .await?;
            row.map(|row| {
                Ok::<_, Fault>((
                    row.try_get::<_, i64>(0)?,
                    row.try_get::<_, Option<bool>>(1)?,
                    row.try_get::<_, bool>(2)?,
                ))
            })
            .transpose()
        };
        let late = |_| Fault::NoConnection("a heartbeat was not answered in time".into());
        let answer = tokio::time::timeout(BEAT_TIME, asked).await.map_err(late)??;
        let Some((newest, elsewhere, asked)) = answer else {
            tracing::error!("the node counted as dead; it starts anew");
            return self.register().await;
        };
        self.watched_elsewhere.store(elsewhere.unwrap_or(false), Ordering::Relaxed);
        self.note_beat(sent);
        if newest != epoch {
            self.follow().await?;
        }
        if asked {
            self.process_withdrawals().await?;
        }
        Ok(())
    }

    /// Takes the configuration over and says so.
    async fn follow(&self) -> Result<(), Fault> {
        self.refresh().await?;
        self.tell_epoch().await
    }

    /// Writes down which configuration this node has.
    pub(super) async fn tell_epoch(&self) -> Result<(), Fault> {
        let (me, epoch) = {
            let state = self.state();
            (state.node, state.epoch)
        };
        let sql = self.connection().await?;
        sql.execute("UPDATE node SET epoch = greatest(epoch, $2) WHERE id = $1", &[&me, &epoch]).await?;
        Ok(())
    }

    /// Withdraws what others asked for, and says so.
    async fn process_withdrawals(&self) -> Result<(), Fault> {
        let me = self.state().node;
        let sql = self.connection().await?;
        let rows = sql.query("SELECT id, endpoint, delivery FROM withdrawal WHERE node = $1", &[&me]).await?;
        let mut done: Vec<i64> = Vec::new();
        for row in rows {
            let delivery = DeliveryId::from_uuid(row.try_get::<_, Uuid>(2)?.as_u128());
            let mut state = self.state();
            if let Some(endpoint) = state.endpoint_id(row.try_get(1)?) {
                state.withdraw(Withdraw::Delivery { endpoint, delivery });
            }
            drop(state);
            done.push(row.try_get(0)?);
        }
        sql.execute("DELETE FROM withdrawal WHERE id = ANY($1)", &[&done]).await?;
        Ok(())
    }

    /// Waits until all nodes that may dial have this configuration.
    pub(super) async fn until_epoch(&self, epoch: i64) -> Result<(), Fault> {
        let me = self.state().node;
        let statement = "SELECT EXISTS (SELECT FROM node WHERE id <> $1 AND epoch < $2 \
             AND seen_at > clock_timestamp() - interval '15 seconds')";
        let mut pause = LOOK_EVERY.0;
        let mut told = false;
        loop {
            let sql = self.connection().await?;
            if !sql.one(statement, &[&me, &epoch]).await?.try_get::<_, bool>(0)? {
                return Ok(());
            }
            if !told {
                sql.execute("SELECT pg_notify('restante', 'c')", &[]).await?;
                told = true;
            }
            drop(sql);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY.1);
        }
    }

    /// Waits until other nodes withdrew what they were asked to, or may not dial.
    pub(super) async fn until_withdrawn(&self, asked: &[i64]) -> Result<(), Fault> {
        let statement = "SELECT EXISTS (SELECT FROM withdrawal JOIN node ON node.id = withdrawal.node \
             WHERE withdrawal.id = ANY($1) AND node.seen_at > clock_timestamp() - interval '15 seconds')";
        let mut pause = LOOK_EVERY.0;
        loop {
            let waits: bool = self.connection().await?.one(statement, &[&asked]).await?.try_get(0)?;
            if !waits {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY.1);
        }
    }

    /// Gives leases back without anybody waiting for it.
    pub(super) fn give_back(self: &Arc<Self>, parcels: Vec<Parcel>) {
        let Some(now) = parcels.iter().map(|parcel| parcel.claimed_at).max() else { return };
        let leases: Vec<Lease> = parcels.iter().map(|parcel| parcel.lease).collect();
        let node = Arc::clone(self);
        tokio::spawn(async move {
            while let Err(fault) = node.release(leases.clone(), now).await {
                tracing::warn!(error.message = %fault, "leases cannot be given back yet");
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    /// Finds what is due and open before anybody asks.
    pub(super) async fn poll_all(&self) -> Result<(), Fault> {
        let endpoints = self.state().next_to_poll(usize::MAX);
        for some in endpoints.chunks(POLL_MAX) {
            self.poll_some(some, true).await?;
        }
        Ok(())
    }

    /// Finds due work that others left, and replays that others began.
    async fn poll(self: Arc<Self>) -> Result<(), Fault> {
        let endpoints = self.state().next_to_poll(POLL_MAX);
        let full = self.polls.fetch_add(1, Ordering::Relaxed).is_multiple_of(POLLS_PER_FULL);
        self.poll_some(&endpoints, full).await
    }

    /// `full`: what was released with a due time in front of the latest claim is found, too.
    async fn poll_some(&self, endpoints: &[i64], full: bool) -> Result<(), Fault> {
        let (lows, floors): (Vec<i64>, Vec<i64>) = {
            let state = self.state();
            let from = |entry: &EndpointEntry| {
                let low = if full { 0 } else { entry.low };
                (low.max(entry.due_floor(state.key_lead_ms)), entry.floor())
            };
            endpoints.iter().map(|row| state.config.endpoints.get(row).map_or((0, 0), from)).unzip()
        };
        let sql = self.connection().await?;
        let rows = sql.query(EARLIEST_DUE, &[&endpoints, &lows, &floors]).await?;
        let open = sql.query("SELECT DISTINCT endpoint FROM open_job", &[]).await?;
        {
            let mut guard = self.state();
            let state = &mut *guard;
            for row in rows {
                if let Some(due) = row.try_get::<_, Option<i64>>(2)? {
                    state.agenda.plan(&mut state.config, row.try_get(0)?, due);
                }
            }
            state.replays.open.clear();
            for row in open {
                state.replays.open.insert(row.try_get(0)?);
            }
            state.replays.ready |= !state.replays.open.is_empty();
        }
        self.wake();
        Ok(())
    }

    /// Sends others what they should know.
    async fn speak(self: Arc<Self>) -> Result<(), Fault> {
        let hints = std::mem::take(&mut *lock(&self.hints));
        let changes = std::mem::take(&mut *lock(&self.outbox));
        if hints.is_empty() && changes.is_empty() {
            return Ok(());
        }
        let me = self.state().node;
        let mut notices = Vec::new();
        let words = hints.iter().map(|row| row.to_string());
        pack(&mut notices, &format!("d{me}"), words);
        pack(&mut notices, &format!("e{me}"), changes.iter().map(write_change));
        let sql = self.connection().await?;
        for notice in notices {
            sql.execute("SELECT pg_notify('restante', $1)", &[&notice]).await?;
        }
        Ok(())
    }

    /// Listens to other nodes until the connection ends.
    async fn listen(self: Arc<Self>) -> Result<(), Fault> {
        let (client, mut connection) = self.address.open().await?;
        let (heard, mut notices) = tokio::sync::mpsc::unbounded_channel();
        let driving = tokio::spawn(async move {
            let mut messages = poll_fn(move |context| connection.poll_message(context));
            while let Some(message) = messages.next().await {
                match message {
                    Ok(AsyncMessage::Notification(notice)) => {
                        if heard.send(notice.payload().to_owned()).is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        let _end = AbortOnDrop(driving);
        client.batch_execute("LISTEN restante").await?;
        // What was said before anybody listened.
        for entry in self.state().config.endpoints.values_mut() {
            entry.low = 0;
        }
        self.follow().await?;
        self.process_withdrawals().await?;
        while let Some(notice) = notices.recv().await {
            self.hear(&notice).await?;
        }
        Err(Fault::NoConnection("nobody speaks any more".into()))
    }

    async fn hear(self: &Arc<Self>, notice: &str) -> Result<(), Fault> {
        let me = self.state().node;
        let mut words = notice.split(' ');
        let head = words.next().unwrap_or_default();
        let own = head.get(1..).and_then(|node| node.parse().ok()) == Some(me);
        match head.as_bytes().first() {
            Some(b'c') => self.follow().await?,
            Some(b'w') => self.process_withdrawals().await?,
            Some(b'd') if !own => {
                let mut slotless = Vec::new();
                {
                    let mut guard = self.state();
                    let state = &mut *guard;
                    for endpoint in words.filter_map(|word| word.parse().ok()) {
                        // A due time in memory may be too early.
                        state.agenda.plan(&mut state.config, endpoint, UNKNOWN_DUE);
                        // Whoever said so may have no client, as others: those that have one go first.
                        let entry = state.config.endpoints.get(&endpoint);
                        let asks =
                            |it: &&EndpointEntry| it.settings.receiver.needs_client() && it.wants_slots();
                        slotless.extend(entry.filter(asks).map(|_| endpoint));
                    }
                }
                self.wake();
                self.ask_once_for_slots(slotless).await?;
            }
            Some(b'e') if !own => {
                for change in words.filter_map(read_change) {
                    let _ = self.changes.send(change);
                }
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Fills as few notifications as hold all words.
fn pack(notices: &mut Vec<String>, head: &str, words: impl Iterator<Item = String>) {
    let mut notice = head.to_owned();
    for word in words {
        if notice.len() + word.len() >= NOTICE_BYTES_MAX {
            notices.push(std::mem::replace(&mut notice, head.to_owned()));
        }
        notice.push(' ');
        notice.push_str(&word);
    }
    if notice.len() > head.len() {
        notices.push(notice);
    }
}

fn write_change(change: &Change) -> String {
    let (kind, uuid) = match change.what {
        Changed::Request(id) => ('r', id.uuid()),
        Changed::Event(id) => ('e', id.uuid()),
        Changed::Email(id) => ('m', id.uuid()),
        Changed::Delivery(id) => ('d', id.uuid()),
    };
    format!("{kind}{:032x}{uuid:032x}", change.workspace.uuid())
}

fn read_change(word: &str) -> Option<Change> {
    let uuid = |from: usize| u128::from_str_radix(word.get(from..from + 32)?, 16).ok();
    let (workspace, id) = (WorkspaceId::from_uuid(uuid(1)?), uuid(33)?);
    let what = match word.as_bytes().first()? {
        b'r' => Changed::Request(RequestId::from_uuid(id)),
        b'e' => Changed::Event(EventId::from_uuid(id)),
        b'm' => Changed::Email(EmailId::from_uuid(id)),
        b'd' => Changed::Delivery(Id::from_uuid(id)),
        _ => return None,
    };
    Some(Change { workspace, what })
}
