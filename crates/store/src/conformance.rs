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
pub mod health;
pub mod idempotency;
pub mod intake;
pub mod listen;
pub mod log;
pub mod mail;
pub mod mail_told;
pub mod pause;
pub mod prune;
pub mod prune_events;
pub mod publish;
pub mod read;
pub mod recover;
pub mod replay;
pub mod replay_one;
pub mod replay_run;
pub mod replay_webhook;
pub mod retry;
pub mod scan;
pub mod settle;
pub mod stats;
pub mod take_over;
mod tray;
mod world;

use std::sync::Arc;

use async_trait::async_trait;

use crate::{Policy, Store};
pub use tray::Tray;
pub use world::{Origin, World, failed, filters, ok, started};

/// Where a store keeps its things.
#[async_trait]
pub trait Home: Send + Sync {
    /// Opens what is kept there; the first time nothing is.
    async fn open(&self, policy: Policy) -> Arc<dyn Store>;

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
            intake {
                a_repeat_is_stored_and_not_delivered
                a_repeat_is_answered_like_the_first
                of_many_at_the_same_time_one_is_the_first
                a_value_is_known_for_its_hours_to_the_millisecond
                a_value_is_known_after_a_crash
                a_value_belongs_to_its_source
                an_erased_request_takes_its_value_along
                an_expired_request_takes_its_value_along
                a_shorter_time_counts_at_once
                what_is_rejected_is_stored_and_not_delivered
                repeats_and_what_is_rejected_are_free
                a_replay_asks_for_neither
                what_was_judged_by_other_rules_is_not_stored
                listeners_are_told_of_what_is_not_delivered
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
            listen {
                nothing_is_leased_while_nobody_listens
                who_listens_is_given_what_is_due_oldest_first
                a_connection_makes_nothing_late_that_did_not_wait
                what_comes_while_somebody_listens_is_leased_at_birth
                without_pending_only_what_was_created_since_is_leased
                what_was_created_since_is_told_also_when_the_clock_went_back
                switching_pending_on_acts_at_once
                switching_pending_off_gives_back_what_is_older
                a_manual_retry_and_a_replay_are_new
                what_has_not_dialled_is_given_back_when_nobody_listens_any_more
                a_pause_holds_back_also_while_somebody_listens
                seats_bound_what_is_leased
                a_source_without_destinations_for_clients_goes_on_as_it_was
                a_new_destination_of_a_source_that_is_listened_to_is_served
                a_destination_may_turn_to_clients_and_back
                a_deletion_ends_what_waits_for_a_client
                nobody_listens_after_a_restart
            }
            mail {
                an_email_goes_to_each_of_its_recipients
                an_emails_bytes_carry_its_id
                a_delivery_names_its_mailbox
                domains_have_lanes_of_their_own
                n_calls_with_one_key_make_one_email
                a_key_used_for_something_else_stores_nothing
                keys_of_the_two_modes_are_apart
                a_key_remembers_the_items_that_were_none
                a_scheduled_email_waits_for_its_time
                what_has_not_begun_can_be_cancelled
                what_has_begun_cannot_be_cancelled
                a_scheduled_email_can_be_moved_and_changed
                lists_show_what_was_asked_for
                another_workspace_sees_nothing
                emails_go_when_their_time_is_over
            }
            mail_told {
                what_happens_to_a_recipient_is_told
                a_refusal_ends_a_delivery_and_a_hard_one_suppresses_the_mailbox
                a_suppressed_mailbox_gets_nothing
                a_mailbox_suppressed_later_gets_nothing_either
                what_was_sent_and_not_answered_is_uncertain
                a_lost_attempt_that_had_sent_the_message_is_uncertain
                the_operator_may_have_what_is_uncertain_sent_again
                only_who_holds_the_lease_may_end_a_message
                used_up_attempts_fail_a_recipient
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
            stats {
                what_goes_through_is_counted
                a_repeated_settle_counts_nothing
                every_kind_of_message_counts
                our_own_faults_and_cancels_do_not_count
                a_replay_of_what_was_delivered_is_no_arrival
                what_a_pause_ends_counts_as_failed
                rolling_up_twice_changes_nothing
                a_crash_loses_what_was_not_rolled_up
                what_comes_late_is_added
                what_waits_is_counted
                a_pause_leaves_nothing_waiting
                a_long_backlog_is_not_counted_to_its_end
                the_worst_endpoints_come_first
                what_is_gone_is_not_told_of
                counts_leave_when_their_time_is_over
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
                a_workspace_has_at_most_a_thousand_webhooks
                a_quota_holds_also_for_calls_at_the_same_time
                a_lowered_quota_takes_nothing_away
                the_first_word_for_secrets_is_kept
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
                what_finds_no_room_is_late_too
                commits_are_counted
                connections_that_read_are_counted
                a_parcel_knows_when_its_attempt_was_due
            }
            filter {
                requests_by_source
                requests_by_time_to_the_millisecond
                requests_by_state
                requests_by_method_path_and_text
                requests_of_a_clock_that_went_back
                deliveries_by_what_they_belong_to
                deliveries_by_email
                deliveries_by_state_and_time
                times_without_end
            }
            scan {
                no_read_looks_through_a_table
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
            publish {
                an_event_goes_to_every_webhook_that_wants_its_type
                an_event_that_nobody_wants_is_stored
                every_receiver_gets_the_same_bytes_at_every_attempt
                a_batch_is_stored_whole_and_in_order
                an_unknown_workspace_stores_nothing
                a_paused_webhook_gets_a_delivery_that_is_skipped
                subscriptions_count_from_the_next_event
                webhooks_of_other_workspaces_see_nothing
                events_are_listed_newest_first_by_type_and_time
                requests_and_events_are_kept_apart
                a_delivery_of_an_event_is_not_retried_by_hand
                deleting_a_webhook_cancels_what_is_pending
                listeners_are_told_of_events_and_their_deliveries
                one_slow_webhook_does_not_hold_up_another
                a_large_batch_is_delivered_bit_by_bit
            }
            idempotency {
                the_same_call_again_gives_the_same_events
                another_call_with_the_key_stores_nothing
                a_call_without_a_key_is_never_a_repeat
                one_key_covers_a_batch
                a_key_belongs_to_its_workspace
                of_calls_at_the_same_time_one_is_fresh
                of_different_calls_at_the_same_time_one_is_refused
                a_key_is_held_for_a_day_at_least
                a_key_is_held_as_long_as_its_event
            }
            health {
                five_failures_over_five_minutes_degrade_once
                the_next_episode_has_its_own_notice
                a_failure_after_120_hours_pauses
                a_settlement_that_does_both_tells_both_in_order
                the_failures_of_one_settle_count_one_after_another
                lost_attempts_never_count
                replays_that_fail_never_count
                a_delivered_attempt_clears
                failures_of_a_paused_webhook_do_not_count
                a_changed_url_clears_and_other_changes_do_not
                a_resumed_webhook_starts_without_a_run
                a_delivered_test_clears
                a_failing_run_outlives_the_process
                webhooks_stand_each_for_itself
            }
            pause {
                what_is_pending_ends_at_once
                an_automatic_pause_ends_what_is_pending
                what_is_in_flight_ends_by_its_result
                what_was_in_flight_ends_also_if_the_webhook_was_resumed_meanwhile
                what_a_dead_process_had_in_flight_ends_too
                nothing_of_it_starts_once_the_pause_was_acknowledged
                a_resumed_webhook_gets_only_what_comes_from_then_on
                what_a_pause_ended_stays_ended_after_a_crash
                what_a_pause_ended_looks_the_same_whoever_marks_it
                what_a_pause_ended_cannot_be_cancelled
                what_a_pause_ended_is_not_cancelled_by_a_deletion
                a_second_pause_ends_what_came_in_between
                a_cancelled_delivery_in_flight_stays_cancelled
                a_pause_leaves_other_webhooks_alone
            }
            replay_run {
                there_is_one_attempt_each_whatever_its_result
                a_planned_attempt_stays_unless_the_replay_delivers
                a_replay_begins_no_more_than_its_lane_has_room_for
                what_is_due_comes_before_what_is_replayed
                replays_of_one_webhook_run_one_after_another
                replays_of_different_webhooks_run_side_by_side
                a_replay_of_nothing_is_done_at_once
                a_crash_neither_skips_nor_doubles
                a_replay_whose_last_attempt_a_crash_took_ends
                a_release_puts_it_back
                what_was_released_goes_on_after_a_crash
                a_pause_ends_a_replay
                a_deletion_ends_a_replay
                a_cancel_takes_a_delivery_out_of_what_is_left
                a_cancelled_attempt_that_never_dialled_does_not_come_back
                a_delivery_that_ended_cannot_be_cancelled_while_it_is_replayed
                a_replay_goes_on_when_a_dispatcher_is_back
                what_a_pause_ended_and_nobody_marked_is_replayed_as_ended
                the_last_of_many_that_a_pause_ended_is_replayed_as_ended
            }
            replay_webhook {
                the_window_is_on_the_start_of_attempts_and_inclusive
                what_was_acknowledged_is_left_out
                what_is_acknowledged_before_its_turn_is_skipped
                what_never_failed_is_not_covered
                the_oldest_by_their_first_failure_in_the_window_come_first
                nothing_older_than_attempts_are_kept_is_reached
                one_replay_takes_the_oldest_ten_thousand
                a_workspace_has_twenty_replays_a_day
                of_calls_at_the_same_time_twenty_are_taken
                a_paused_webhook_takes_the_call_and_nothing_more
                a_webhook_of_another_workspace_is_not_found
                an_acknowledged_event_that_is_sent_again_stays_acknowledged
            }
            recover {
                what_was_skipped_since_the_last_pause_is_delivered
                the_window_is_on_acceptance_and_inclusive
                the_window_is_exact_also_when_the_clock_went_back
                a_window_takes_what_a_pause_skipped_by_when_it_was_accepted
                an_end_alone_takes_what_the_last_pause_skipped_up_to_then
                what_is_recovered_runs_its_schedule
                a_recovery_counts_what_became_of_it
                nothing_is_recovered_of_a_paused_or_unknown_webhook
                a_recovery_uses_no_quota
                many_are_recovered
                a_recovery_waits_for_no_upkeep
                a_recovery_goes_on_when_upkeep_marked_the_rest
                a_crash_neither_skips_nor_doubles
                what_a_pause_skipped_is_recovered_also_after_a_crash
                a_pause_ends_a_recovery
                recoveries_and_replays_take_turns
                what_was_skipped_by_a_clock_that_runs_behind_is_of_this_pause
                what_a_webhook_skipped_that_was_created_paused_is_recovered_when_the_clock_went_back
                a_recovered_delivery_can_be_cancelled
            }
            replay_one {
                it_is_sent_again_from_every_state
                the_attempt_that_delivered_first_is_still_listed
                it_waits_for_what_is_in_flight_and_is_sent_whatever_that_came_to
                it_does_not_wait_for_other_replays
                it_uses_no_quota
                nothing_is_sent_to_a_paused_webhook
                what_is_not_the_webhooks_is_not_found
                it_outlives_the_process
            }
            log {
                every_attempt_is_a_line
                a_status_picks_lines
                the_bounds_are_strict
                pages_have_neither_gaps_nor_repeats
                pages_stay_put_while_newer_attempts_come
                a_first_attempt_that_started_late_is_where_it_started
                nothing_older_than_three_days_is_listed
                a_log_is_of_one_webhook
                a_clock_that_went_back_hides_nothing
                a_log_is_what_happened
                a_log_is_what_happened_also_when_the_clock_goes_back
            }
            prune_events {
                an_event_is_kept_from_the_end_of_its_last_delivery
                an_event_without_deliveries_is_kept_from_its_acceptance
                an_event_is_there_as_long_as_it_is_being_delivered
                a_replay_of_an_old_event_keeps_it
                an_expired_event_cannot_be_touched
                an_expired_event_is_not_sent_again
                what_expires_before_its_turn_is_skipped_by_a_replay
                what_is_erased_before_its_turn_is_skipped_by_a_replay
                pruning_takes_a_few_at_a_time_and_leaves_the_rest
                a_changed_policy_counts_for_what_is_there
                attempts_go_after_three_days_and_deliveries_stay
                attempts_to_destinations_are_kept_as_long_as_their_requests
                what_a_pause_left_pending_is_swept
                events_of_a_deleted_webhook_are_pruned_too
            }
        }
    };
}
