//! The promises of [`Store`], as tests that every store must pass.
//!
//! A promise is an async function that gets a [`World`]: a store that holds nothing yet, a dispatcher that keeps
//! what it is given, and a clock that only moves when it is told to. [`for_each_promise!`](crate::for_each_promise)
//! names them all.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests, compiled into the crate so that others can run them"
)]

pub mod accept;
pub mod claim;
pub mod config;
pub mod erase;
pub mod filter;
pub mod prune;
pub mod read;
pub mod replay;
pub mod retry;
pub mod settle;
pub mod take_over;
mod tray;
mod world;

use std::sync::Arc;

use async_trait::async_trait;

use crate::Store;
pub use tray::Tray;
pub use world::{Origin, World, failed, ok};

/// Where a store keeps its things.
#[async_trait]
pub trait Home: Send + Sync {
    /// Opens what is kept there; the first time nothing is.
    async fn open(&self) -> Arc<dyn Store>;

    /// Ends a store as the death of its process would. What it had committed is found by the next `open`.
    async fn crash(&self, store: Arc<dyn Store>);
}

/// Calls `$each` with the names of all promises, by module.
#[macro_export]
macro_rules! for_each_promise {
    ($each:ident) => {
        $each! {
            accept {
                a_request_goes_to_every_destination_of_its_source
                what_is_leased_at_birth_leaves_after_the_commit
                an_unknown_token_stores_nothing
                a_source_without_destinations_is_an_inbox
                headers_and_body_come_back_byte_for_byte
                the_answer_of_the_source_comes_with_the_request
                credits_run_down_to_nothing_and_no_further
                credits_are_not_overdrawn_by_calls_at_the_same_time
                the_ledger_adds_up_to_the_balance
                without_a_dispatcher_everything_is_due_and_nothing_leased
                what_a_lane_has_no_room_for_follows_in_order
                who_comes_later_leaves_room_for_what_is_due
                a_paused_destination_is_not_sent_to
                a_client_destination_is_not_sent_to
                ids_rise_when_the_clock_goes_back
                listeners_are_told_of_requests_and_deliveries
            }
            claim {
                nothing_is_claimed_before_its_time
                a_claim_takes_no_more_than_was_asked_for
                a_claim_is_an_attempt_begun
                one_full_lane_does_not_hold_up_another
                a_widened_lane_claims_more
                a_pause_holds_back_what_is_due_until_it_ends
                what_becomes_due_earlier_wakes_the_dispatcher
                a_shortened_schedule_ends_without_another_attempt
                an_expired_request_is_not_sent
            }
            settle {
                a_2xx_ends_a_delivery
                a_failure_waits_for_its_schedule_from_its_end
                used_up_attempts_end_a_delivery
                a_lost_attempt_is_due_at_once_and_costs_nothing
                the_third_lost_in_a_row_uses_one_attempt
                a_stale_lease_cannot_settle
                answers_are_in_the_order_of_the_attempts
                an_attempt_shows_the_url_it_was_made_with
                retry_after_lengthens_the_wait
                a_cancelled_delivery_ends_with_its_attempt
                a_release_leaves_no_trace
                a_release_after_a_cancel_ends_the_delivery
                an_attempt_never_starts_before_the_one_before_ended
                every_kind_of_failure_is_read_back
            }
            take_over {
                leases_of_a_dead_process_are_settled_as_lost
                orphans_go_on_where_they_were
                a_cancel_before_the_crash_still_counts
                todays_leases_are_left_alone
                an_expired_orphan_ends
            }
            retry {
                a_pending_delivery_is_cancelled_at_once
                a_cancel_withdraws_before_it_returns
                what_ended_otherwise_cannot_be_cancelled
                what_ended_can_be_retried
                what_has_not_ended_cannot_be_retried
                a_retry_is_paid_for_or_does_not_happen
                a_retry_has_a_fresh_budget_and_the_same_request
                nothing_is_retried_to_a_deleted_destination
                a_retry_to_a_paused_destination_waits
                a_bulk_retry_creates_what_it_counted
                a_bulk_retry_goes_on_after_a_crash
                a_bulk_retry_ends_with_the_credits
                a_bulk_retry_takes_only_what_matches
            }
            replay {
                a_replay_copies_to_the_destinations_of_now
                a_replay_is_paid_for_once_or_does_not_happen
                a_replay_to_a_deleted_source_is_refused
                what_is_not_there_is_not_replayed
            }
            erase {
                nothing_finds_an_erased_request
                a_late_settle_of_an_erased_request_changes_nothing
                an_erased_lease_is_withdrawn_and_gives_its_room_back
                erasing_touches_no_other_request
            }
            config {
                names_are_unique_among_the_living_of_a_workspace
                a_lookup_is_unique_among_the_living
                an_old_version_does_not_overwrite
                a_parent_must_be_living_and_of_the_same_workspace
                records_are_listed_newest_first_by_parent
                a_changed_source_keeps_its_destinations
                a_rotated_token_lets_in_only_the_new_one
                deleting_a_destination_cancels_what_is_pending
                deleting_a_source_takes_everything_along
                a_destination_that_died_first_keeps_its_reason
                an_attempt_in_flight_outlives_its_destination
                workspaces_do_not_see_each_others_records
                endpoints_follow_a_change_at_once
            }
            read {
                pages_are_newest_first_and_stay_put
                pages_go_back_and_forth
                a_total_counts_all_matches
                both_sides_of_the_index_are_read
                workspaces_do_not_see_each_others_messages
                an_id_with_another_random_part_is_not_found
                a_ledger_is_read_by_pages
                vitals_count_leases
            }
            filter {
                requests_by_source
                requests_by_time_to_the_millisecond
                requests_by_state
                requests_by_method_path_and_text
                requests_of_a_clock_that_went_back
                deliveries_by_what_they_belong_to
                deliveries_by_state_and_time
                times_without_end
            }
            prune {
                a_request_is_there_until_its_very_end
                a_late_settle_of_an_expired_request_changes_nothing
                an_expired_request_cannot_be_touched
                pruning_takes_the_oldest_and_leaves_the_rest
                a_changed_retention_counts_for_what_is_there
                what_a_deletion_left_pending_is_swept
                pruning_gives_leases_back
            }
        }
    };
}
