//! The extensions document that the project began with, sentence by sentence, on its own surface
//! (`/ds`). Each sentence is followed by the tests that defend it.
//!
//! - 1.1 `bucket_id` MUST match `^[a-z0-9_-]{4,64}$`:
//!   `a_bucket_id_matches_its_pattern`
//! - 1.1 `stream_id` MUST NOT exceed 122 bytes, nor contain `/`, NUL, `..`; with its bucket
//!   MUST NOT exceed 122:
//!   `a_stream_id_keeps_its_limits`
//! - 1.1 `streams` is reserved:
//!   `the_stream_id_streams_is_reserved`
//! - 1.2 buckets MUST be created explicitly; a stream MUST NOT create one; 201, 400, 409:
//!   `buckets_are_created_explicitly`
//! - 1.3 metadata: `bucket_id`, `streams`; 200, 400, 404:
//!   `a_bucket_tells_how_many_streams_it_has`
//! - 1.4 prefix, after (exclusive), limit; the body; sorted:
//!   `a_listing_is_sorted_filtered_and_paged`
//! - 1.4 400, 404:
//!   `a_listing_refuses_bad_parameters_and_missing_buckets`
//! - 1.5 MUST be empty; 204, 400, 404, 409:
//!   `only_an_empty_bucket_is_deleted`
//! - 1.6 all operations apply; a missing bucket MUST be 404:
//!   `all_stream_operations_work_in_a_bucket`
//!   `every_operation_in_a_missing_bucket_is_404`
//! - 2.1 MUST use one boundary model:
//!   `reads_snapshots_and_bootstrap_share_their_boundaries`
//! - 2.2 content type MUST be stored and returned; the default:
//!   `the_content_type_of_a_snapshot_is_kept`
//! - 2.2 204, 400, 404, 409, 410, 413:
//!   `publishing_answers_as_listed`
//! - 2.2 the offset MUST become the earliest retained; below, `-1` included, MUST be 410:
//!   `publishing_advances_retention`
//! - 2.2 it replaces the visible snapshot at once:
//!   `a_newer_snapshot_replaces_the_older_at_once`
//! - 2.2 MUST NOT block appends; later updates MUST NOT be folded in:
//!   `publishing_does_not_block_appends`
//! - 2.3 307 or 404:
//!   `the_latest_snapshot_is_a_redirect`
//! - 2.4 HEAD SHOULD name it; absence means none; MUST be what the redirect names:
//!   `head_names_the_snapshot_that_the_redirect_leads_to`
//! - 2.5 the headers; 200, 404:
//!   `a_snapshot_is_read_with_its_headers`
//! - 2.6 404, 409:
//!   `the_visible_snapshot_cannot_be_deleted`
//! - 3.1, 3.3 SHOULD reject `live` with 400:
//!   `bootstrap_takes_no_live_parameter`
//! - 3.2 the headers; the parts; MUST NOT wrap or reframe:
//!   `bootstrap_is_the_snapshot_and_one_part_a_message`
//! - 3.2 without a snapshot: an empty part, `-1`:
//!   `bootstrap_without_a_snapshot_begins_with_an_empty_part`
//! - 3.2 404:
//!   `bootstrap_of_a_missing_stream_is_404`
//! - 3.3 clients MUST go on from `Stream-Next-Offset`:
//!   `a_client_goes_on_where_bootstrap_ended`
//! - 3.4 reads MUST NOT return snapshot bytes:
//!   `an_ordinary_read_never_returns_snapshot_bytes`
//! - 3.4 where reads are 410, bootstrap MUST cover it:
//!   `bootstrap_covers_what_reads_refuse`
//! - 4 binary SSE is base64 and MUST say so:
//!   `binary_sse_is_base64_and_says_so`
//! - 5 offsets in paths MUST be decoded:
//!   `an_offset_in_a_path_is_percent_decoded`

mod bootstrap;
mod buckets;
mod snapshots;

#[test]
fn every_sentence_names_a_test_that_exists() {
    let tests = concat!(
        include_str!("seed_000/bootstrap.rs"),
        include_str!("seed_000/buckets.rs"),
        include_str!("seed_000/snapshots.rs"),
    );
    crate::support::check_table(include_str!("seed_000.rs"), tests);
}
