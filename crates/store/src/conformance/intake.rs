//! Promises of [`Store::accept`](crate::Store::accept) about sources that know repeats or ask for signatures.

use std::sync::Arc;

use restante_core::endpoint::{Sealed, Source};
use restante_core::id::RequestId;
use restante_core::intake::{Dedupe, Mark, Value};
use restante_core::verification::{Scheme, Verification};
use tokio::task::JoinSet;

use super::{Origin, World};
use crate::row::{RequestFilter, RequestState};
use crate::stats::Scope;
use crate::{Accepted, Change, Changed, Grant, Incoming, Judgement, Page, Replayed, Verdict};

const HOUR_MS: u64 = 3_600_000;
const BECAUSE: &str = "the header X-Hub-Signature-256 is missing";

impl World {
    /// A source that knows repeats for two hours, with a destination.
    pub async fn careful(&mut self, name: &str) -> Origin {
        self.careful_with(name, |_| {}).await
    }

    /// As [`World::careful`], changed further.
    pub async fn careful_with(&mut self, name: &str, change: impl FnOnce(&mut Source)) -> Origin {
        let source = self.source_with(name, |source| {
            source.dedupe = Some(Dedupe { by: mark(), hours: 2 });
            change(source);
        });
        let source = source.await;
        self.destination(&source).await;
        source
    }

    /// A request at the door, judged by the rules of its source.
    pub fn judged(&mut self, source: &Origin, verdict: Verdict) -> Incoming {
        let judgement = Judgement { by: self.store.rules(&source.token), verdict };
        Incoming { judgement, ..self.incoming(&source.token, "hello") }
    }

    pub fn bringing(&mut self, source: &Origin, text: &str) -> Incoming {
        self.judged(source, Verdict::Marked(value(text)))
    }

    /// Receives a request with a value: its id, and whether it was the first.
    pub async fn bring(&mut self, source: &Origin, text: &str) -> (RequestId, bool) {
        let incoming = self.bringing(source, text);
        stored(self.store.accept(incoming).await.unwrap())
    }

    /// Receives a request that is rejected.
    pub async fn reject(&mut self, source: &Origin) -> RequestId {
        let incoming = self.judged(source, Verdict::Rejected(BECAUSE.into()));
        let accepted = self.store.accept(incoming).await.unwrap();
        let Accepted::Rejected { id } = accepted else { panic!("{accepted:?}") };
        id
    }

    async fn accepted(&self) -> u64 {
        let span = restante_core::stats::Span::last(1, Scope::Workspace.breadth(), self.now);
        let stats = self.store.stats(self.workspace, Scope::Workspace, span).await.unwrap().unwrap();
        stats.steps.iter().map(|step| step.accepted).sum()
    }
}

fn mark() -> Mark {
    Mark::Header("X-Id".into())
}

fn value(text: &str) -> Value {
    mark().value(text.as_bytes()).unwrap()
}

/// What was stored, and whether it was the first.
#[track_caller]
fn stored(accepted: Accepted) -> (RequestId, bool) {
    match accepted {
        Accepted::Fresh { id, .. } => (id, true),
        Accepted::Duplicate { id, .. } => (id, false),
        refused @ (Accepted::Rejected { .. }
        | Accepted::RulesChanged(_)
        | Accepted::UnknownSource
        | Accepted::CreditsExhausted) => panic!("{refused:?}"),
    }
}

pub async fn a_repeat_is_stored_and_not_delivered(mut world: World) {
    let source = world.careful("careful").await;
    let (first, fresh) = world.bring(&source, "a").await;
    assert!(fresh && world.tray.take().len() == 1);
    let (repeat, fresh) = world.bring(&source, "a").await;
    assert!(!fresh && world.tray.take().is_empty() && world.claim().await.count == 0);
    let shown = world.request(repeat).await;
    assert_eq!((shown.duplicate_of, shown.rejected_because.clone()), (Some(first), None));
    assert_eq!((shown.state(), shown.body_bytes), (RequestState::None, 5));
    assert_eq!(world.request(first).await.duplicate_of, None);
    assert!(world.bring(&source, "b").await.1, "another value is another request");
    let none = world.judged(&source, Verdict::Taken);
    assert!(stored(world.store.accept(none).await.unwrap()).1, "without a value there is no repeat");
    let listed = world.store.requests(world.workspace, RequestFilter::default(), Page::newest(9), world.now);
    let of: Vec<_> = listed.await.unwrap().items.iter().map(|it| it.duplicate_of).collect();
    assert_eq!(of, [None, None, Some(first), None]);
}

pub async fn a_repeat_is_answered_like_the_first(mut world: World) {
    let answer =
        restante_core::endpoint::Answer { status: 201, content_type: "a/b".into(), body: "ok".into() };
    let own = answer.clone();
    let source = world.careful_with("own answer", |source| source.response = Some(own)).await;
    world.bring(&source, "a").await;
    let again = world.bringing(&source, "a");
    let accepted = world.store.accept(again).await.unwrap();
    assert!(matches!(&accepted, Accepted::Duplicate { answer: Some(given), .. } if **given == answer));
}

pub async fn of_many_at_the_same_time_one_is_the_first(mut world: World) {
    let source = world.careful("careful").await;
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let (store, incoming) = (Arc::clone(&world.store), world.bringing(&source, "a"));
        calls.spawn(async move { stored(store.accept(incoming).await.unwrap()) });
    }
    let all = calls.join_all().await;
    let firsts: Vec<_> = all.iter().filter(|(_, fresh)| *fresh).collect();
    assert_eq!((firsts.len(), world.tray.take().len()), (1, 1));
    for (id, _) in all.iter().filter(|(_, fresh)| !fresh) {
        assert_eq!(world.request(*id).await.duplicate_of, Some(firsts[0].0));
    }
}

pub async fn a_value_is_known_for_its_hours_to_the_millisecond(mut world: World) {
    let source = world.careful("careful").await;
    let (first, _) = world.bring(&source, "a").await;
    world.pass(2 * HOUR_MS - 1);
    world.prune().await;
    let (repeat, fresh) = world.bring(&source, "a").await;
    assert!(!fresh && world.request(repeat).await.duplicate_of == Some(first));
    world.pass(1);
    let (second, fresh) = world.bring(&source, "a").await;
    assert!(fresh, "a repeat does not lengthen the time");
    world.pass(1);
    let (repeat, _) = world.bring(&source, "a").await;
    assert_eq!(world.request(repeat).await.duplicate_of, Some(second));
    world.pass(2 * HOUR_MS);
    world.prune().await;
    assert!(world.bring(&source, "a").await.1);
}

pub async fn a_value_is_known_after_a_crash(mut world: World) {
    let source = world.careful("careful").await;
    let (first, _) = world.bring(&source, "a").await;
    let mut world = world.crash().await;
    let (repeat, fresh) = world.bring(&source, "a").await;
    assert!(!fresh && world.request(repeat).await.duplicate_of == Some(first));
}

pub async fn a_value_belongs_to_its_source(mut world: World) {
    let (one, other) = (world.careful("one").await, world.careful("other").await);
    assert!(world.bring(&one, "a").await.1 && world.bring(&other, "a").await.1);
    assert!(!world.bring(&other, "a").await.1);
}

pub async fn an_erased_request_takes_its_value_along(mut world: World) {
    let source = world.careful("careful").await;
    let (first, _) = world.bring(&source, "a").await;
    let (repeat, _) = world.bring(&source, "a").await;
    assert!(world.store.erase(world.workspace, repeat, world.now).await.unwrap());
    assert!(!world.bring(&source, "a").await.1, "the first is still there");
    assert!(world.store.erase(world.workspace, first, world.now).await.unwrap());
    assert!(world.bring(&source, "a").await.1);
}

pub async fn an_expired_request_takes_its_value_along(mut world: World) {
    let day = |source: &mut Source| {
        source.retention_days = 1;
        source.dedupe = Some(Dedupe { by: mark(), hours: 48 });
    };
    let source = world.careful_with("short", day).await;
    for pruned in [false, true] {
        assert!(world.bring(&source, "a").await.1);
        world.pass(24 * HOUR_MS - 1);
        assert!(!world.bring(&source, "a").await.1);
        world.pass(1);
        if pruned {
            world.prune().await;
        }
    }
    assert!(world.bring(&source, "a").await.1);
}

pub async fn a_shorter_time_counts_at_once(mut world: World) {
    let source = world.careful("careful").await;
    world.bring(&source, "a").await;
    world.pass(HOUR_MS);
    assert!(!world.bring(&source, "a").await.1);
    world.change_source(source.id, |it| it.dedupe = Some(Dedupe { by: mark(), hours: 1 })).await;
    assert!(world.bring(&source, "a").await.1);
}

pub async fn what_is_rejected_is_stored_and_not_delivered(mut world: World) {
    let source = world.careful("careful").await;
    let before = world.accepted().await;
    let id = world.reject(&source).await;
    assert!(world.tray.take().is_empty() && world.claim().await.count == 0);
    let shown = world.request(id).await;
    assert_eq!((shown.rejected_because.as_deref(), shown.state()), (Some(BECAUSE), RequestState::None));
    assert_eq!(world.accepted().await, before, "it was not accepted");
    assert!(world.bring(&source, "a").await.1);
    world.bring(&source, "a").await;
    assert_eq!(world.accepted().await, before + 2, "a repeat was");
}

pub async fn repeats_and_what_is_rejected_are_free(mut world: World) {
    let source = world.careful("careful").await;
    world.store.grant(world.workspace, Grant::Delta(1), "note".into(), world.now).await.unwrap();
    world.reject(&source).await;
    world.bring(&source, "a").await;
    assert_eq!(world.store.balance(world.workspace).await.unwrap(), Some(0));
    assert!(!world.bring(&source, "a").await.1, "also when there is nothing left to pay with");
    world.reject(&source).await;
    for _ in 0..2 {
        let new = world.bringing(&source, "b");
        assert_eq!(world.store.accept(new).await.unwrap(), Accepted::CreditsExhausted);
    }
    world.store.grant(world.workspace, Grant::Delta(1), "note".into(), world.now).await.unwrap();
    assert!(world.bring(&source, "b").await.1, "what was not stored brought no value");
    assert_eq!(world.store.ledger(world.workspace, Page::newest(9)).await.unwrap().items.len(), 4);
}

pub async fn a_replay_asks_for_neither(mut world: World) {
    let source = world.careful("careful").await;
    world.bring(&source, "a").await;
    let (repeat, _) = world.bring(&source, "a").await;
    let rejected = world.reject(&source).await;
    world.tray.take();
    for id in [repeat, rejected] {
        let (now, tail) = (world.now, world.tail());
        let replayed = world.store.replay(world.workspace, id, now, tail).await.unwrap();
        let Replayed::Fresh(copy) = replayed else { panic!("{replayed:?}") };
        assert_eq!(world.parcel().request(), copy);
        let shown = world.request(copy).await;
        assert_eq!((shown.replay_of, shown.duplicate_of, shown.rejected_because), (Some(id), None, None));
    }
    assert!(!world.bring(&source, "a").await.1, "the first is the first still");
}

pub async fn what_was_judged_by_other_rules_is_not_stored(mut world: World) {
    let source = world.careful("careful").await;
    let (plain, _) = world.pair().await;
    let marked = world.bringing(&source, "a");
    let taken = world.incoming(&plain.token, "hello");
    let github = Verification { scheme: Scheme::Github, secrets: vec![Sealed("s1.x".into())] };
    world.change_source(plain.id, |it| it.verification = Some(github.clone())).await;
    world.change_source(source.id, |it| it.dedupe = None).await;
    for (source, incoming) in [(&source, marked), (&plain, taken)] {
        let accepted = world.store.accept(incoming).await.unwrap();
        let Accepted::RulesChanged(received) = accepted else { panic!("{accepted:?}") };
        assert_eq!(received.body, "hello");
        let anew = world.judged(source, Verdict::Taken);
        assert!(stored(world.store.accept(anew).await.unwrap()).1);
    }
    assert_eq!(world.store.rules(&source.token), None);
    assert_eq!(world.store.rules(&plain.token).unwrap().verification, Some(github));
    world.delete_source(plain.id).await;
    assert_eq!(world.store.rules(&plain.token), None);
}

pub async fn listeners_are_told_of_what_is_not_delivered(mut world: World) {
    let source = world.careful("careful").await;
    world.bring(&source, "a").await;
    let mut changes = world.store.changes();
    let mut told = Vec::new();
    for id in [world.bring(&source, "a").await.0, world.reject(&source).await] {
        let Change { workspace, what } = changes.recv().await.unwrap();
        told.push((workspace, what, id));
    }
    for (workspace, what, id) in told {
        assert_eq!((workspace, what), (world.workspace, Changed::Request(id)));
    }
}
