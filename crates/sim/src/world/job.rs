//! What waits for the writer: each job is one caller's share of a commit.

use restante_core::Timestamp;
use restante_core::endpoint::{Destination, Source};
use restante_core::id::{DeliveryId, DestinationId, ReplayId, RequestId, SourceId, Tail, WorkspaceId};
use restante_store::record::{BulkRetryJob, BulkRetryState, Draft, Kind};
use restante_store::sqlite::Fault;
use restante_store::sqlite::engine::Engine;
use restante_store::{
    Accepted, BulkRetry, Cancelled, Claimed, Created, Finished, Grant, Incoming, Judgement, Lease, Replayed,
    Retried, Settled, Updated,
};

use super::outbound::errand::{Errand, Report};
use super::outbound::plants;
use crate::cast::Cast;
use crate::plant::Plant;
use crate::story::Story;

/// Deliveries claimed at once.
const CLAIM_MAX: usize = 512;
/// Requests erased, or deliveries created, in one transaction: few, so that crashes come in between.
const UPKEEP_MAX: usize = 5;

/// See the module. Places are those in the story or the cast.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Accept {
        publish: usize,
        token: String,
        now: Timestamp,
        tail: Tail,
    },
    Claim {
        now: Timestamp,
    },
    Settle {
        finished: Box<Finished>,
        dialled: usize,
    },
    Release {
        leases: Vec<Lease>,
        now: Timestamp,
    },
    Cancel {
        order: usize,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    },
    Retry {
        retry: usize,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    },
    Replay {
        known: usize,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
        tail: Tail,
    },
    Erase {
        order: usize,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    },
    Change {
        destination: usize,
        entry: usize,
        at: Owned<DestinationId>,
        setting: Box<Destination>,
        now: Timestamp,
    },
    Delete {
        destination: usize,
        entry: usize,
        at: Owned<DestinationId>,
        now: Timestamp,
    },
    DeleteSource {
        entries: Vec<(usize, usize)>,
        at: Owned<SourceId>,
        now: Timestamp,
    },
    Create {
        destination: usize,
        entry: usize,
        at: Owned<SourceId>,
        setting: Box<Destination>,
        tail: Tail,
        now: Timestamp,
    },
    Grant {
        workspace: WorkspaceId,
        grant: Grant,
        now: Timestamp,
    },
    StartBulk {
        at: Owned<DestinationId>,
        bulk: BulkRetry,
        tail: Tail,
        now: Timestamp,
    },
    Bulk {
        id: ReplayId,
        now: Timestamp,
    },
    Prune {
        now: Timestamp,
    },
    /// Who listens to a source when it comes to that.
    Listen {
        source: usize,
        entry: usize,
    },
    TakePending {
        source: usize,
        entry: usize,
        at: Owned<SourceId>,
        pending: bool,
        now: Timestamp,
    },
    /// Of publishers and owners of webhooks.
    Errand(Box<Errand>),
}

/// A record's id and its workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned<I> {
    pub(super) workspace: WorkspaceId,
    pub(super) id: I,
}

/// What a job finds around it when its turn comes.
#[derive(Clone, Copy)]
pub(super) struct Within<'a> {
    pub(super) story: &'a Story,
    pub(super) cast: &'a Cast,
    pub(super) plant: Option<Plant>,
}

/// What a job's caller is told after the commit.
#[derive(Debug)]
pub(super) enum Answer {
    Accepted(Accepted),
    Claimed(Claimed),
    Settled(Settled),
    Cancelled(Cancelled),
    Retried(Retried),
    Replayed(Replayed),
    /// Whether it was there and is done.
    Done(bool),
    Created(Created),
    /// Whether more is left.
    More(bool),
    Errand(Report),
}

impl Job {
    /// Does its share of the running transaction.
    pub(super) fn run(&self, engine: &mut Engine, world: Within<'_>) -> Result<Answer, Fault> {
        let story = world.story;
        Ok(match self {
            Self::Accept { publish, token, now, tail } => {
                let received = story.publishes[*publish].received.clone();
                let (token, judgement, now, tail) = (token.clone(), Judgement::default(), *now, *tail);
                let incoming = Incoming { token, received, judgement, now, tail };
                Answer::Accepted(engine.accept(incoming)?)
            }
            Self::Claim { now } => Answer::Claimed(engine.claim(*now, CLAIM_MAX)?),
            Self::Settle { finished, .. } => {
                let settled = engine.settle(finished)?;
                if world.plant == Some(Plant::NoticeRepeated) {
                    plants::repeat_notice(engine, finished, world)?;
                }
                Answer::Settled(settled)
            }
            Self::Release { leases, now } => {
                engine.release(leases, *now)?;
                Answer::Done(true)
            }
            Self::Cancel { workspace, delivery, now, .. } => {
                Answer::Cancelled(engine.cancel(*workspace, *delivery, *now)?)
            }
            Self::Retry { workspace, delivery, now, .. } => {
                Answer::Retried(engine.retry(*workspace, *delivery, *now)?)
            }
            Self::Replay { workspace, request, now, tail, .. } => {
                Answer::Replayed(engine.replay(*workspace, *request, *now, *tail)?)
            }
            Self::Erase { workspace, request, now, .. } => {
                Answer::Done(engine.erase(*workspace, *request, *now)?)
            }
            Self::Change { at, setting, now, .. } => change(engine, *at, setting, *now)?,
            Self::Delete { at, now, .. } => {
                Answer::Done(engine.delete(Kind::Destination, at.workspace, at.id.uuid(), *now)?)
            }
            Self::DeleteSource { at, now, .. } => {
                Answer::Done(engine.delete(Kind::Source, at.workspace, at.id.uuid(), *now)?)
            }
            Self::Create { at, setting, tail, now, .. } => {
                let draft = draft(Kind::Destination, at.workspace, at.id.uuid(), json(setting), *tail);
                Answer::Created(engine.create(&draft, *now)?)
            }
            Self::Grant { workspace, grant, now } => {
                engine.grant(*workspace, *grant, "simulated".into(), *now)?;
                Answer::Done(true)
            }
            Self::StartBulk { at, bulk, tail, now } => {
                let job = BulkRetryJob {
                    bulk: bulk.clone(),
                    cursor: 0,
                    end: i64::MAX,
                    total: 0,
                    created: 0,
                    state: BulkRetryState::Running,
                };
                let draft = draft(Kind::BulkRetry, at.workspace, at.id.uuid(), json(&job), *tail);
                Answer::Created(engine.create(&draft, *now)?)
            }
            Self::Bulk { id, now } => Answer::More(engine.advance_bulk_retry(*id, *now, UPKEEP_MAX)?),
            Self::Prune { now } => Answer::More(engine.prune(*now, UPKEEP_MAX)?),
            Self::Listen { source, .. } => {
                let source = &world.cast.sources[*source];
                let heard = source.heard();
                if heard.is_some() || world.plant != Some(Plant::ClientKept) {
                    engine.listen(source.id, heard)?;
                }
                Answer::Done(true)
            }
            Self::TakePending { at, pending, now, .. } => {
                let pending = *pending || world.plant == Some(Plant::PendingAlways);
                take_pending(engine, *at, pending, *now)?
            }
            Self::Errand(errand) => Answer::Errand(errand.run(engine, world)?),
        })
    }
}

fn change(
    engine: &mut Engine,
    at: Owned<DestinationId>,
    setting: &Destination,
    now: Timestamp,
) -> Result<Answer, Fault> {
    let Some(mut raw) = engine.record(Kind::Destination, at.workspace, at.id.uuid())? else {
        return Ok(Answer::Done(false));
    };
    raw.body = json(setting);
    let updated = engine.update(Kind::Destination, &raw, now)?;
    Ok(Answer::Done(matches!(updated, Updated::Done(_))))
}

fn take_pending(
    engine: &mut Engine,
    at: Owned<SourceId>,
    pending: bool,
    now: Timestamp,
) -> Result<Answer, Fault> {
    let Some(mut raw) = engine.record(Kind::Source, at.workspace, at.id.uuid())? else {
        return Ok(Answer::Done(false));
    };
    let mut source: Source = serde_json::from_str(&raw.body).expect("a record can be read");
    source.deliver_pending_on_connect = pending;
    raw.body = json(&source);
    let updated = engine.update(Kind::Source, &raw, now)?;
    Ok(Answer::Done(matches!(updated, Updated::Done(_))))
}

pub(super) fn draft(kind: Kind, workspace: WorkspaceId, parent: u128, body: String, tail: Tail) -> Draft {
    Draft { kind, workspace: Some(workspace), parent: Some(parent), name: None, lookup: None, body, tail }
}

pub(super) fn json<T: serde::Serialize>(body: &T) -> String {
    serde_json::to_string(body).expect("records can be written as JSON")
}
