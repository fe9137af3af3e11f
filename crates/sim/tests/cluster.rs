//! Several nodes on a model of PostgreSQL: the protocol of docs/nodes.md holds under all seeds, and bugs planted into
//! it do not get through.

use std::ops::Range;

use restante_sim::cluster::plant::Plant;
use restante_sim::cluster::run;
use restante_sim::met::Met;

/// What any hundred seeds have in them: a promise about something else holds because nothing happened.
const MET: [&str; 12] = [
    "attempt lost",
    "cancel answered",
    "cancel waited for another node",
    "commit of unknown result",
    "delivery tried by two nodes",
    "idle transaction ended",
    "node gone",
    "node lapsed and came back",
    "stale settle or release",
    "statement waited for a lock",
    "take-over",
    "unknown commit had taken effect",
];

fn holds_and_meets_all(seeds: Range<u64>) {
    let mut met = Met::new();
    for seed in seeds {
        let run = run(seed, None);
        let told = "cargo run -p restante-sim -- --only cluster --seed";
        assert!(run.violations.is_empty(), "{told} {seed} --trace\n{:#?}", run.violations);
        run.met.iter().for_each(|(what, times)| *met.entry(what).or_default() += times);
    }
    for what in MET {
        assert!(met.get(what).is_some_and(|times| *times > 0), "{what}: never met, {met:?}");
    }
}

/// Some of these seeds shows a plant as a breach of one of the invariants.
fn caught_by(plant: Plant, invariants: &[u8], seeds: impl IntoIterator<Item = u64>) {
    let sees = |seed| run(seed, Some(plant)).violations.iter().any(|it| invariants.contains(&it.invariant));
    assert!(seeds.into_iter().any(sees), "{plant:?} gets through");
}

#[test]
fn nodes_keep_their_promises_under_seeds_0_to_99() {
    holds_and_meets_all(0..100);
}

#[test]
fn nodes_keep_their_promises_under_seeds_100_to_199() {
    holds_and_meets_all(100..200);
}

#[test]
fn two_runs_of_a_cluster_are_identical() {
    for seed in 0..8 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert_eq!(first.trace.lines(), second.trace.lines(), "seed {seed}");
        assert_eq!(first.trace.hash(), second.trace.hash());
        assert_eq!(first.tally.events, second.tally.events);
        assert!(first.tally.attempts > 0, "seed {seed} is empty");
    }
    assert_ne!(run(1, None).trace.hash(), run(2, None).trace.hash());
}

#[test]
fn a_settle_without_a_fence_is_seen_in_a_cluster() {
    caught_by(Plant::NoFence, &[13], 20..60);
}

#[test]
fn a_dial_after_the_heartbeats_stopped_is_seen() {
    caught_by(Plant::NoHeartbeatRule, &[5, 7, 13], 20..60);
}

#[test]
fn a_row_that_two_nodes_claim_is_seen() {
    caught_by(Plant::ClaimUnlocked, &[5, 13], 0..20);
}

#[test]
fn a_take_over_before_the_end_of_the_lease_is_seen() {
    caught_by(Plant::TakeOverEarly, &[13], 80..160);
}

#[test]
fn a_cancel_that_does_not_wait_for_the_holder_is_seen() {
    caught_by(Plant::CancelDoesNotWait, &[7], (18..20).chain(250..300));
}

#[test]
fn nodes_that_ignore_their_slots_are_seen() {
    caught_by(Plant::SlotsIgnored, &[5], 0..20);
}

#[test]
fn a_transaction_made_again_after_a_commit_of_unknown_result_is_seen() {
    caught_by(Plant::UnknownIsNo, &[3], 0..30);
}

#[test]
fn a_batch_written_with_the_configuration_of_yesterday_is_seen() {
    caught_by(Plant::NoEpochCheck, &[7], 90..170);
}

#[test]
fn slots_shared_out_without_a_lock_are_seen() {
    caught_by(Plant::SlotsUnlocked, &[5], 0..40);
}

#[test]
fn slots_kept_through_a_lapse_are_seen() {
    caught_by(Plant::SlotsKept, &[5], (410..415).chain(430..445));
}

#[test]
fn a_withdrawal_of_what_is_not_known_yet_must_be_remembered() {
    caught_by(Plant::WithdrawalForgotten, &[7], (20..22).chain(650..652));
}

#[test]
fn a_rate_that_is_forgotten_from_node_to_node_is_seen() {
    caught_by(Plant::RateHandedOver, &[5], 40..60);
}

#[test]
fn leases_of_a_node_that_may_not_dial_are_seen() {
    caught_by(Plant::LeasesWhileLapsed, &[5], (205..215).chain(310..326));
}
