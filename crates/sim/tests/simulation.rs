//! The system holds under all seeds; the planted bugs do not get through; found bugs stay fixed.

use std::ops::Range;

use restante_sim::plant::Plant;
use restante_sim::{Run, independence, run};

fn holds(seeds: Range<u64>) {
    for seed in seeds {
        let run = run(seed, None);
        assert!(run.violations.is_empty(), "{}", story(&run));
    }
}

fn story(run: &Run) -> String {
    let mut text =
        format!("seed {} fails; cargo run -p restante-sim -- --seed {0} --trace tells all\n", run.seed);
    for violation in &run.violations {
        text.push_str(&format!("{violation}\n"));
        run.trace.about(&violation.words).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

/// The seed, of the first `seeds`, by which the checker sees a plant as a breach of one of the invariants.
fn caught_by(plant: Plant, invariants: &[u8], seeds: u64) {
    let sees = |seed| run(seed, Some(plant)).violations.iter().any(|it| invariants.contains(&it.invariant));
    let seed = (0..seeds).find(|seed| sees(*seed));
    assert!(seed.is_some(), "{plant:?} gets through {seeds} seeds");
}

#[test]
fn promises_hold_under_seeds_0_to_49() {
    holds(0..50);
}

#[test]
fn promises_hold_under_seeds_50_to_99() {
    holds(50..100);
}

#[test]
fn promises_hold_under_seeds_100_to_149() {
    holds(100..150);
}

#[test]
fn promises_hold_under_seeds_150_to_199() {
    holds(150..200);
}

/// Seeds under which a lane that waited for its rate waited for as long as the clock had gone back.
#[test]
fn a_clock_that_goes_back_does_not_hold_a_paced_lane() {
    for seed in [405, 1006] {
        holds(seed..seed + 1);
    }
}

/// Seeds under which a lane began one more attempt after its `max_in_flight` had been lowered.
#[test]
fn a_lowered_max_in_flight_holds_for_the_next_attempt() {
    for seed in [239, 254, 627] {
        holds(seed..seed + 1);
    }
}

fn are_independent(seeds: Range<u64>) {
    for seed in seeds {
        let found = independence::check(seed, None);
        assert!(found.is_empty(), "seed {seed}\n{}", found.join("\n"));
    }
}

#[test]
fn a_failing_destination_changes_nothing_for_the_others() {
    are_independent(0..30);
}

#[test]
fn a_failing_destination_changes_nothing_for_the_others_under_more_seeds() {
    are_independent(30..60);
}

#[test]
fn two_runs_of_a_seed_are_identical() {
    for seed in 0..12 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert_eq!(first.trace.lines(), second.trace.lines(), "seed {seed}");
        assert_eq!(first.trace.hash(), second.trace.hash());
        assert!(first.tally.events > 50, "seed {seed} is empty");
    }
}

#[test]
fn two_seeds_differ() {
    assert_ne!(run(1, None).trace.hash(), run(2, None).trace.hash());
}

#[test]
fn an_answer_before_its_commit_is_seen() {
    caught_by(Plant::AckBeforeCommit, &[1], 20);
}

#[test]
fn a_settle_without_a_fence_is_seen() {
    caught_by(Plant::NoFence, &[13], 20);
}

#[test]
fn a_retry_one_wait_early_is_seen() {
    caught_by(Plant::RetryEarly, &[6], 20);
}

#[test]
fn an_attempt_sent_before_its_claim_is_durable_is_seen() {
    caught_by(Plant::SendBeforeCommit, &[5], 40);
}

#[test]
fn a_cancel_that_leaves_the_queue_alone_is_seen() {
    caught_by(Plant::CancelLeavesQueue, &[7], 100);
}

#[test]
fn leases_that_nobody_takes_over_are_seen() {
    caught_by(Plant::NoTakeOver, &[1, 15], 20);
}

#[test]
fn a_connection_to_a_forbidden_address_is_seen() {
    caught_by(Plant::NoGuard, &[17], 40);
}

#[test]
fn a_retry_after_that_is_ignored_is_seen() {
    caught_by(Plant::RetryAfterIgnored, &[6], 40);
}

#[test]
fn a_slot_shared_by_all_destinations_is_seen() {
    let seen = (0..20).find(|seed| !independence::check(*seed, Some(Plant::OneSlot)).is_empty());
    assert!(seen.is_some());
}
