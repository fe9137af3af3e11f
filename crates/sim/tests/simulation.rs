//! The system holds under all seeds; the planted bugs do not get through; found bugs stay fixed.

use std::ops::Range;

use restante_sim::met::Met;
use restante_sim::plant::Plant;
use restante_sim::{Run, independence, run};

/// What any fifty seeds have in them: a promise about something else holds because nothing happened.
const MET: [&str; 23] = [
    "acknowledged before its replay",
    "attempt by a client",
    "attempt delivered",
    "attempt failed",
    "call accepted",
    "call without an answer",
    "delivery kept from clients that came later",
    "event cancelled",
    "event delivered",
    "event ended by a pause",
    "event exhausted",
    "event past its time",
    "event skipped",
    "key repeated",
    "key reused",
    "notice of a pause",
    "notice of degradation",
    "recovery",
    "replay beyond the quota",
    "replay lost",
    "replay of failures",
    "replay of one",
    "resend while paused",
];

fn holds(seeds: Range<u64>) -> Met {
    let mut met = Met::new();
    for seed in seeds {
        let run = run(seed, None);
        assert!(run.violations.is_empty(), "{}", story(&run));
        run.met.iter().for_each(|(what, times)| *met.entry(what).or_default() += times);
    }
    met
}

/// As [`holds`], over seeds enough for everything to happen.
fn holds_and_meets_all(seeds: Range<u64>) {
    let met = holds(seeds);
    for what in MET {
        assert!(met.get(what).is_some_and(|times| *times > 0), "{what}: never met, {met:?}");
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
    holds_and_meets_all(0..50);
}

#[test]
fn promises_hold_under_seeds_50_to_99() {
    holds_and_meets_all(50..100);
}

#[test]
fn promises_hold_under_seeds_100_to_149() {
    holds_and_meets_all(100..150);
}

#[test]
fn promises_hold_under_seeds_150_to_199() {
    holds_and_meets_all(150..200);
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

/// A seed under which a webhook was created paused, the clock went back, and a recovery passed over what was skipped.
#[test]
fn a_recovery_takes_what_was_skipped_by_a_webhook_that_was_created_paused() {
    holds(1308..1309);
}

/// Seeds under which the checker wanted a replay, or a recovery, of events that were past their time.
#[test]
fn what_is_past_its_time_is_not_sent_again() {
    for seed in [1206, 1400] {
        holds(seed..seed + 1);
    }
}

/// A seed under which the checker wanted a request to reach a destination created behind it in the same commit.
#[test]
fn a_request_goes_to_the_destinations_that_were_there_before_it() {
    holds(2228..2229);
}

fn are_independent(seeds: Range<u64>) {
    for seed in seeds {
        let found = independence::check(seed, None);
        assert!(found.is_empty(), "seed {seed}\n{}", found.join("\n"));
    }
}

#[test]
fn a_failing_endpoint_changes_nothing_for_the_others() {
    are_independent(0..30);
}

#[test]
fn a_failing_endpoint_changes_nothing_for_the_others_under_more_seeds() {
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
fn a_key_that_is_kept_after_its_message_is_seen() {
    caught_by(Plant::KeyKeptLater, &[3], 20);
}

#[test]
fn a_replay_of_what_was_acknowledged_is_seen() {
    caught_by(Plant::AcknowledgedReplayed, &[11], 60);
}

#[test]
fn a_window_without_its_last_millisecond_is_seen() {
    caught_by(Plant::WindowOpenAtEnd, &[11], 20);
}

#[test]
fn a_replay_that_is_made_again_after_a_crash_is_seen() {
    caught_by(Plant::ReplayRepeated, &[11], 60);
}

#[test]
fn a_notice_for_each_failure_of_an_episode_is_seen() {
    caught_by(Plant::NoticeRepeated, &[12], 20);
}

#[test]
fn a_webhook_that_makes_good_for_its_pause_by_itself_is_seen() {
    caught_by(Plant::ResumeRecovers, &[7], 60);
}

#[test]
fn a_failing_run_that_a_crash_forgets_is_seen() {
    caught_by(Plant::RunForgotten, &[12], 20);
}

#[test]
fn an_attempt_while_no_client_is_connected_is_seen() {
    caught_by(Plant::ClientKept, &[9], 40);
}

#[test]
fn what_waited_given_to_clients_that_are_not_to_have_it_is_seen() {
    caught_by(Plant::PendingAlways, &[9], 40);
}

#[test]
fn a_slot_shared_by_all_endpoints_is_seen() {
    let seen = (0..20).find(|seed| !independence::check(*seed, Some(Plant::OneSlot)).is_empty());
    assert!(seen.is_some());
}
