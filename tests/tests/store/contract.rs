//! The contract suite, on every engine: embedded SQLite, DynamoDB in this process, DynamoDB over HTTP, and
//! the tests' in-memory engine.

macro_rules! on_every_engine {
    ($($clause:ident,)*) => {
        mod embedded {
            $(#[tokio::test]
            async fn $clause() {
                let (engine, _folder) = dues_tests::engines::embedded();
                dues_tests::contract::$clause(engine).await;
            })*
        }
        mod dynamo_in_process {
            $(#[tokio::test]
            async fn $clause() {
                let (engine, _server) = dues_tests::engines::dynoxide().await;
                dues_tests::contract::$clause(engine).await;
            })*
        }
        mod dynamo_over_http {
            $(#[tokio::test]
            async fn $clause() {
                let (engine, ()) = dues_tests::engines::ministack().await;
                dues_tests::contract::$clause(engine).await;
            })*
        }
        mod memory {
            $(#[tokio::test]
            async fn $clause() {
                dues_tests::contract::$clause(dues_tests::engines::memory::Memory::default()).await;
            })*
        }
    };
}

on_every_engine! {
    a_query_can_ask_for_the_sort_keys_that_start_alike,
    an_index_is_read_by_its_sort_key,
    conditions_decide_whether_a_write_happens,
    an_update_changes_what_it_names_and_makes_what_is_missing,
    an_update_that_cannot_be_made_is_invalid_and_changes_nothing,
    updates_at_once_add_up,
    an_index_follows_updates,
    a_transaction_does_all_of_it,
    a_refused_transaction_changes_nothing_and_names_the_failed_condition,
    a_transaction_that_cannot_be_is_invalid_and_does_nothing,
    transactions_at_once_add_up,
    every_kind_of_value_comes_back,
    a_missing_key_is_refused,
    keys_are_listed_and_many_items_are_read_at_once,
    partitions_are_read_in_pages_both_ways,
    an_index_follows_its_items,
    an_index_is_paged_while_its_items_move_on,
    add_writes_both_tables_and_get_by_id_finds_it,
    add_all_moves_colliding_records_apart,
    users_are_listed_by_time_and_not_by_text,
    status_pages_compare_instants,
    a_row_that_cannot_be_read_does_not_stop_the_page,
    an_administrator_moves_a_record,
    an_interrupted_move_is_completed_by_the_next_reader,
    parked_records_come_back_whole,
    rows_of_go_writers_are_taken_over,
    the_sweeper_finishes_what_was_cut_short,
    two_handlers_at_once_end_as_one,
}
