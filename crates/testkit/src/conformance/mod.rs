//! The suite every backend must pass: one function a behaviour, named as a sentence.
//!
//! A backend runs it in one line, `conformance_suite!(harness)`, where `harness` makes a
//! [`Harness`]. What a behaviour does not say is not promised.

pub mod agents;
pub mod attempts;
pub mod commits;
pub mod events;
mod given;
mod given_agents;
mod handles;
pub mod leases;
pub mod lists;
pub mod nodes;
pub mod queue;
pub mod records;
pub mod sessions;
pub mod steps;
pub mod texts;

use std::sync::Arc;

use async_trait::async_trait;
use relight_core::time::Span;
use relight_store::{MemoryStore, Store};

pub use self::handles::Handles;

/// One store under test, empty when the harness is made.
#[async_trait]
pub trait Harness: Send + Sync {
    /// One more handle onto the store, as another process would open it.
    async fn open(&self) -> Arc<dyn Store>;

    /// Moves the clock by which the store measures leases, for all handles. It may go on by itself
    /// too: the suite takes anything under a hundred seconds for the noise of a busy machine.
    async fn advance(&self, span: Span);
}

#[async_trait]
impl Harness for MemoryStore {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    async fn advance(&self, span: Span) {
        Self::advance(self, span);
    }
}

/// Runs the whole suite as one `#[tokio::test]` a behaviour. Takes the name of a function that
/// makes a fresh harness: `conformance_suite!(memory)` with `fn memory() -> impl Harness`.
///
/// The list is kept complete by a test of this crate.
#[macro_export]
macro_rules! conformance_suite {
    ($harness:ident) => {
        $crate::conformance_tests! { $harness;
            commits: [
                a_commit_is_seen_by_every_handle,
                what_was_asked_for_comes_back_whole,
                every_change_means_what_apply_says,
                a_task_is_created_once,
                a_commit_to_an_absent_task_is_refused,
                an_idempotency_key_makes_one_task,
                two_creators_of_one_key_make_one_task,
                a_key_is_free_again_once_its_task_has_another,
                a_task_may_keep_its_own_key,
                a_key_taken_later_in_a_commit_refuses_all_of_it,
                a_commit_that_stands_on_an_old_read_is_refused,
                the_fence_is_compared_before_the_sequence_number,
                a_refused_commit_changes_nothing,
                a_failing_operation_fails_alone,
                every_commit_moves_the_sequence_number_by_one,
                an_empty_commit_writes_nothing,
                commit_soon_is_there_after_the_next_commit,
                commit_soon_keeps_its_order,
                commit_soon_gets_there_by_itself,
                commit_soon_that_is_refused_harms_nobody,
                what_was_cancelled_is_never_made,
                a_commit_may_hold_everything_at_once,
            ]
            leases: [
                late_write_of_a_dead_holder_is_refused,
                two_takers_one_wins,
                a_lease_that_ran_out_but_was_not_taken_still_writes,
                a_lease_that_was_given_back_writes_no_more,
                a_raised_fence_shuts_out_the_holder,
                fences_only_grow,
                a_fence_from_the_future_is_refused,
                the_time_left_counts_down_to_nothing,
                every_fenced_commit_renews_the_lease,
                an_empty_fenced_commit_renews_the_lease,
                an_unfenced_commit_renews_nothing,
                a_refused_commit_renews_nothing,
                renewal_is_not_progress,
                renewal_after_the_lease_was_lost_is_refused,
                no_clock_ends_a_lease_without_time,
                holders_come_back_as_they_were,
                a_successor_starts_with_a_whole_lease,
            ]
            steps: [
                steps_keep_their_order,
                a_task_is_read_with_its_step,
                a_step_shows_its_newest_record,
                a_skipped_step_is_closed,
                an_observed_call_is_kept_while_it_is_open,
                a_step_says_under_which_lease_it_was_written,
                a_new_try_has_no_exit_code_of_the_old_one,
                the_output_of_the_newest_end_is_kept_through_a_new_begin,
                a_resolved_step_gave_nothing,
                an_end_without_output_hides_the_one_before,
                a_cleared_task_has_no_steps_but_its_history,
                a_step_begun_after_clearing_is_new,
                occurrences_are_steps_of_their_own,
                tasks_do_not_share_steps,
                large_outputs_come_back_whole,
                every_field_of_an_output_comes_back,
                an_empty_output_is_not_no_output,
                a_thousand_steps_are_all_there,
                steps_of_one_holder_go_side_by_side,
                of_two_ends_of_one_step_one_counts,
                nothing_follows_a_finished_step,
                what_is_not_there_is_nothing,
            ]
            events: [
                each_change_leaves_one_event,
                events_tell_step_and_fence,
                events_come_in_commit_order_and_are_never_reused,
                a_forgotten_task_is_told_of,
                an_event_of_no_known_kind_is_read_as_such,
                events_can_be_read_in_pages,
                events_can_be_read_back_in_pages,
                events_can_be_asked_for_by_task_and_kind,
                the_newest_events_come_oldest_first,
                forgotten_events_are_the_old_ones_that_are_no_record_of_a_step,
                the_newest_event_is_never_forgotten,
                a_waiter_is_woken_by_another_handle,
                a_waiter_for_what_is_there_does_not_wait,
            ]
            lists: [
                tasks_come_in_the_order_they_were_added,
                tasks_can_be_read_in_pages,
                a_page_after_a_task_that_is_gone_is_empty,
                tasks_can_be_asked_for_by_status_agent_and_folder,
                tasks_can_be_asked_for_by_lease_and_doubt,
                tasks_can_be_found_by_a_part_of_their_text,
                tasks_can_be_read_newest_first,
                unfinished_lists_every_non_terminal_task,
                forget_leaves_a_task_that_moved_on,
                a_forgotten_task_leaves_nothing_behind,
                a_forgotten_task_can_be_added_anew,
                the_inventory_counts_what_is_there,
            ]
            queue: [
                the_queue_goes_by_priority_then_by_age,
                the_queue_has_what_is_anybodys_or_ones_own,
                a_pinned_task_is_for_its_agent_alone,
                a_failed_task_is_in_the_queue_while_retries_are_left,
                a_held_task_is_not_in_the_queue,
                a_task_whose_lease_ran_out_is_in_the_queue_again,
                a_task_is_in_the_queue_from_its_time_on,
                the_queue_tells_when_the_next_task_is_due,
                an_expired_task_is_not_in_the_queue,
                the_queue_gives_no_more_than_was_asked_for,
            ]
            texts: [
                texts_of_every_script_come_back,
                empty_and_long_texts_come_back,
                ids_are_compared_byte_by_byte,
                workflows_and_their_agents_have_any_name,
                the_far_ends_of_time_come_back,
                the_far_ends_of_numbers_come_back,
                a_payload_keeps_its_shape_and_order,
                texts_that_look_like_sql_are_texts,
                a_thousand_declared_steps_come_back_in_order,
            ]
            agents: [
                an_agent_is_created_once,
                a_commit_to_an_absent_agent_is_refused,
                what_an_agent_was_asked_to_be_comes_back_whole,
                every_change_of_an_agent_means_what_apply_says,
                late_write_of_a_lost_supervisor_is_refused,
                two_supervisors_one_wins,
                two_creators_of_one_agent_make_one,
                a_supervisor_that_gave_back_writes_no_more,
                a_wish_is_for_one_lease,
                a_commit_upon_an_old_read_of_an_agent_is_refused,
                an_empty_commit_to_an_agent_only_compares,
                a_timed_lease_of_an_agent_is_renewed_by_its_holder_alone,
                no_clock_ends_a_supervisors_lease,
                each_change_of_an_agent_that_is_told_leaves_one_event,
                events_can_be_asked_for_by_agent,
                agents_come_in_the_order_of_their_names,
                the_inventory_counts_agents_by_state,
                a_thousand_agents_commit_at_the_same_time,
                an_agent_that_is_held_or_moved_on_is_not_forgotten,
                a_forgotten_agent_leaves_nothing_behind,
                a_forgotten_agent_can_be_created_anew,
                the_mark_of_agents_changes_with_their_holders,
            ]
            attempts: [
                an_attempt_keeps_what_was_begun_started_and_ended,
                the_facts_of_a_death_come_back_whole,
                attempts_come_newest_first,
                attempts_are_read_in_pages,
                deaths_are_the_attempts_that_ended,
                agents_do_not_share_attempts,
                an_attempt_that_is_begun_again_keeps_its_place,
                what_is_said_of_an_attempt_that_is_not_there_changes_nothing,
                a_tag_is_given_once,
                old_deaths_are_forgotten_but_the_newest_attempt_of_each_agent,
                tasks_can_be_asked_for_by_the_attempt_that_holds_them,
            ]
            records: [
                a_record_is_kept_if_it_is_still_what_was_read,
                no_record_of_two_keepers_is_lost,
                what_is_told_of_a_record_is_told_if_it_was_kept,
                records_come_back_as_they_were,
                records_are_listed_and_removed_by_their_names,
            ]
            sessions: [
                a_session_is_seen_by_every_handle,
                every_state_of_a_session_comes_back_whole,
                a_session_is_created_once,
                a_change_upon_an_old_read_of_a_session_is_not_made,
                of_two_begins_upon_one_read_one_is_made,
                changes_of_many_sessions_are_made_together,
                each_change_of_a_session_is_told,
                the_mark_of_a_time_lease_counts_down_and_is_renewed,
                no_clock_ends_the_mark_of_a_process,
                sessions_come_in_the_order_of_their_keys,
                sessions_can_be_asked_for_by_state_and_by_being_seen,
                a_session_that_is_not_there_is_nothing,
                old_sessions_are_forgotten_unless_somebody_wrote_them,
                the_inventory_counts_sessions_by_state,
                a_thousand_sessions_begin_and_end_at_the_same_time,
            ]
            nodes: [
                nodes_are_seen_by_every_handle,
                a_renewed_lease_of_a_node_has_its_whole_time,
                a_lease_of_a_node_that_ran_out_is_never_renewed,
                a_name_belongs_to_one_installation_while_its_lease_lasts,
                a_process_that_another_one_overtook_does_not_join_anew,
                a_copy_of_an_installation_on_another_machine_waits_for_the_lease,
                a_node_that_was_removed_joins_anew_with_a_larger_number,
                a_node_that_left_is_not_waited_for,
                a_node_is_drained_through_restarts_and_removed_when_gone,
                what_happens_to_a_node_is_told,
                a_glance_at_the_nodes_tells_everything_but_renewals,
            ]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($harness:ident; $($group:ident: [$($behaviour:ident,)*])*) => {$(
        mod $group {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    let harness = super::$harness();
                    $crate::conformance::$group::$behaviour(&harness).await;
                }
            )*
        }
    )*};
}

#[cfg(test)]
mod tests {
    const FILES: [(&str, &str); 12] = [
        ("commits", include_str!("commits.rs")),
        ("leases", include_str!("leases.rs")),
        ("steps", include_str!("steps.rs")),
        ("events", include_str!("events.rs")),
        ("lists", include_str!("lists.rs")),
        ("queue", include_str!("queue.rs")),
        ("texts", include_str!("texts.rs")),
        ("agents", include_str!("agents.rs")),
        ("attempts", include_str!("attempts.rs")),
        ("records", include_str!("records.rs")),
        ("sessions", include_str!("sessions.rs")),
        ("nodes", include_str!("nodes.rs")),
    ];

    #[test]
    fn no_behaviour_is_left_out_of_the_suite() {
        let listed = include_str!("mod.rs");
        for (group, text) in FILES {
            for line in text
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
            {
                let (behaviour, _) = line.split_once('(').unwrap();
                assert!(
                    listed.contains(&format!(" {behaviour},\n")),
                    "{group}::{behaviour}"
                );
            }
        }
    }
}
