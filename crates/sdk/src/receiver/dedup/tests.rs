use std::future::pending;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use tokio::sync::oneshot;

use super::*;
use crate::receiver::{NotStored, process_in};

fn fresh(deduplicator: &Deduplicator, id: &str) -> Ticket {
    let begun = deduplicator.begin(id);
    let Begun::Fresh(ticket) = begun else { panic!("{id} is {begun:?}") };
    ticket
}

fn is_duplicate(deduplicator: &Deduplicator, id: &str) -> bool {
    matches!(deduplicator.begin(id), Begun::Duplicate)
}

fn is_in_progress(deduplicator: &Deduplicator, id: &str) -> bool {
    matches!(deduplicator.begin(id), Begun::InProgress)
}

#[test]
fn only_a_committed_event_is_a_duplicate() {
    let deduplicator = Deduplicator::default();
    let ticket = fresh(&deduplicator, "a");
    assert_eq!(ticket.id(), "a");
    assert!(is_in_progress(&deduplicator, "a"));
    drop(ticket);
    let ticket = fresh(&deduplicator, "a");
    assert!(is_in_progress(&deduplicator.clone(), "a"), "clones share what they know");
    drop(fresh(&deduplicator, "b"));
    ticket.commit();
    assert!(is_duplicate(&deduplicator, "a"));
    assert!(is_duplicate(&deduplicator.clone(), "a"));
}

#[test]
fn the_oldest_committed_is_forgotten_first_and_nothing_in_progress() {
    let deduplicator = Deduplicator::new(2);
    let held = fresh(&deduplicator, "held");
    for id in ["a", "b", "c"] {
        fresh(&deduplicator, id).commit();
        assert!(is_in_progress(&deduplicator, "held"));
    }
    assert!(is_duplicate(&deduplicator, "b") && is_duplicate(&deduplicator, "c"));
    fresh(&deduplicator, "a").commit();
    assert!(is_duplicate(&deduplicator, "c") && is_duplicate(&deduplicator, "a"));
    held.commit();
    assert!(is_duplicate(&deduplicator, "a") && is_duplicate(&deduplicator, "held"));
    let shown = format!("{deduplicator:?}");
    assert_eq!(shown, "Deduplicator { capacity: 2, committed: 2, in_progress: 0 }");
    drop(fresh(&deduplicator, "c"));
}

#[test]
fn without_room_simultaneous_deliveries_are_told_apart_still() {
    let deduplicator = Deduplicator::new(0);
    let ticket = fresh(&deduplicator, "a");
    assert!(is_in_progress(&deduplicator, "a"));
    ticket.commit();
    let again = fresh(&deduplicator, "a");
    assert!(is_in_progress(&deduplicator, "a"));
    drop(again);
}

#[test]
fn of_many_threads_with_one_event_one_works() {
    for _ in 0..50 {
        const THREADS: usize = 8;
        let deduplicator = Deduplicator::default();
        let together = Barrier::new(THREADS);
        let (works, in_progress, duplicates) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    let count = match deduplicator.begin("a") {
                        Begun::Fresh(ticket) => {
                            ticket.commit();
                            &works
                        }
                        Begun::InProgress => &in_progress,
                        Begun::Duplicate => &duplicates,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(works.into_inner(), 1);
        assert_eq!(in_progress.into_inner() + duplicates.into_inner(), THREADS - 1);
        assert!(is_duplicate(&deduplicator, "a"));
    }
}

/// Tickets that push each other out of the memory never take each other's place in progress.
#[test]
fn at_most_one_works_on_an_event_at_any_moment() {
    let deduplicator = Deduplicator::new(0);
    let working = AtomicUsize::new(0);
    let works = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..20_000 {
                    let Begun::Fresh(ticket) = deduplicator.begin("a") else { continue };
                    assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0);
                    works.fetch_add(1, Ordering::Relaxed);
                    for _ in 0..20 {
                        thread::yield_now();
                    }
                    working.fetch_sub(1, Ordering::SeqCst);
                    if round % 3 == 0 { drop(ticket) } else { ticket.commit() }
                }
            });
        }
    });
    assert!(works.into_inner() > 0);
    drop(fresh(&deduplicator, "a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_tasks_with_one_event_one_works() {
    let deduplicator = Deduplicator::default();
    let works = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (deduplicator, works) = (deduplicator.clone(), Arc::clone(&works));
            tokio::spawn(async move {
                let work = async || {
                    works.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok::<_, ()>(())
                };
                deduplicator.process("a", work).await.unwrap()
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        let processed = task.await.unwrap();
        assert_eq!(processed.may_acknowledge(), processed != Processed::InProgress);
        done += usize::from(processed == Processed::Done(()));
    }
    assert_eq!((done, works.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn work_that_failed_is_done_again() {
    let deduplicator = Deduplicator::default();
    assert_eq!(deduplicator.process("a", async || Err::<(), _>("disk full")).await, Err("disk full"));
    assert_eq!(deduplicator.process("a", async || Ok::<_, ()>(7)).await, Ok(Processed::Done(7)));
    let never = async || -> Result<(), ()> { panic!("a duplicate is not worked on") };
    assert_eq!(deduplicator.process("a", never).await, Ok(Processed::Duplicate));
}

#[tokio::test]
async fn while_one_works_the_others_are_told_so() {
    let deduplicator = Deduplicator::default();
    let (begun, has_begun) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let first = tokio::spawn({
        let deduplicator = deduplicator.clone();
        async move {
            let work = async || {
                begun.send(()).unwrap();
                finished.await
            };
            deduplicator.process("a", work).await
        }
    });
    has_begun.await.unwrap();
    assert_eq!(deduplicator.process("a", async || Ok::<_, ()>(())).await, Ok(Processed::InProgress));
    finish.send(()).unwrap();
    assert_eq!(first.await.unwrap(), Ok(Processed::Done(())));
    assert_eq!(deduplicator.process("a", async || Ok::<_, ()>(())).await, Ok(Processed::Duplicate));
}

#[tokio::test]
async fn work_that_panicked_or_was_cancelled_is_done_again() {
    let deduplicator = Deduplicator::default();
    let panicking = tokio::spawn({
        let deduplicator = deduplicator.clone();
        async move { deduplicator.process("a", async || -> Result<(), ()> { panic!("a bug") }).await }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    let (begun, has_begun) = oneshot::channel();
    let cancelled = tokio::spawn({
        let deduplicator = deduplicator.clone();
        async move {
            let work = async || {
                begun.send(()).unwrap();
                pending::<Result<(), ()>>().await
            };
            deduplicator.process("a", work).await
        }
    });
    has_begun.await.unwrap();
    assert!(is_in_progress(&deduplicator, "a"));
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    assert_eq!(deduplicator.process("a", async || Ok::<_, ()>(())).await, Ok(Processed::Done(())));
}

#[test]
fn a_poisoned_lock_holds_nobody_up() {
    let deduplicator = Deduplicator::default();
    let ids = Arc::clone(&deduplicator.ids);
    let poisoner = thread::spawn(move || {
        let _held = ids.lock().unwrap();
        panic!("on purpose");
    });
    assert!(poisoner.join().is_err());
    fresh(&deduplicator, "a").commit();
    assert!(is_duplicate(&deduplicator, "a"));
}

/// A database as far as a receiver sees it: rows that a transaction adds when it commits, and ids among them.
#[derive(Default)]
struct Database {
    rows: Mutex<Vec<String>>,
    out_of_order: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("connection lost")]
struct ConnectionLost;

impl Store for Database {
    type Ticket = Vec<String>;
    type Error = ConnectionLost;

    async fn begin(&self, id: &str) -> Result<Begun<Vec<String>>, ConnectionLost> {
        let id = format!("id {id}");
        let known = self.rows.lock().unwrap().contains(&id);
        Ok(if known { Begun::Duplicate } else { Begun::Fresh(vec![id]) })
    }

    async fn commit(&self, transaction: Vec<String>) -> Result<(), ConnectionLost> {
        if self.out_of_order {
            return Err(ConnectionLost);
        }
        self.rows.lock().unwrap().extend(transaction);
        Ok(())
    }
}

#[tokio::test]
async fn a_callers_store_gets_the_id_with_the_work_or_neither() {
    let mut database = Database::default();
    let failed = process_in(&database, "a", async |transaction| {
        transaction.push("half of the work".to_owned());
        Err::<(), _>("no")
    });
    assert!(matches!(failed.await, Err(NotStored::Work("no"))));
    database.out_of_order = true;
    let failed = process_in(&database, "a", async |transaction| {
        transaction.push("work".to_owned());
        Ok::<_, ()>(())
    });
    assert!(matches!(failed.await, Err(NotStored::Store(_))));
    database.out_of_order = false;
    assert_eq!(database.rows.lock().unwrap().len(), 0);
    for expected in [Processed::Done(1), Processed::Duplicate] {
        let processed = process_in(&database, "a", async |transaction| {
            transaction.push("work".to_owned());
            Ok::<_, ()>(transaction.len() - 1)
        });
        assert_eq!(processed.await.unwrap(), expected);
    }
    assert_eq!(*database.rows.lock().unwrap(), ["id a", "work"]);
}

#[tokio::test]
async fn a_deduplicator_is_a_store_too() {
    let deduplicator = Deduplicator::default();
    for expected in [Processed::Done("a".to_owned()), Processed::Duplicate] {
        let work = async |ticket: &mut Ticket| Ok::<_, ()>(ticket.id().to_owned());
        assert_eq!(process_in(&deduplicator, "a", work).await.unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a list: what is in progress, and the last few committed.
    #[test]
    fn it_knows_what_is_in_progress_and_the_last_committed(
        capacity in 0..4usize,
        steps in prop::collection::vec((0..3u8, 0..6usize), 0..60),
    ) {
        const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        let deduplicator = Deduplicator::new(capacity);
        let mut tickets: [Option<Ticket>; 6] = Default::default();
        let mut committed: Vec<usize> = Vec::new();
        for (step, index) in steps {
            match step {
                0 => match deduplicator.begin(IDS[index]) {
                    Begun::Fresh(ticket) => {
                        prop_assert!(tickets[index].is_none() && !committed.contains(&index));
                        tickets[index] = Some(ticket);
                    }
                    Begun::InProgress => prop_assert!(tickets[index].is_some()),
                    Begun::Duplicate => prop_assert!(committed.contains(&index)),
                },
                1 => drop(tickets[index].take()),
                _ => {
                    if let Some(ticket) = tickets[index].take() {
                        ticket.commit();
                        committed.push(index);
                        committed.drain(..committed.len().saturating_sub(capacity));
                    }
                }
            }
            let ids = lock(&deduplicator.ids);
            prop_assert_eq!(ids.states.len(), committed.len() + tickets.iter().flatten().count());
            prop_assert!(ids.committed.len() <= capacity);
        }
    }
}
