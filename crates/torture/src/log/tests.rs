use super::*;

const LEN: u64 = 10;

fn key(writer: u32, n: u32) -> Key {
    Key { writer, n }
}

fn seen(start: u64, writer: u32, n: u32) -> Seen {
    Seen { start, end: start + LEN, key: key(writer, n), record: None }
}

/// Three acknowledged messages: two of writer 1, one of writer 2.
fn three() -> Log {
    let mut log = Log::default();
    for message in [seen(0, 1, 0), seen(10, 2, 0), seen(20, 1, 1)] {
        log.acked(log.floor(), &[message]).unwrap();
    }
    log
}

#[track_caller]
fn broken(checked: Checked, says: &str) {
    let breach = checked.expect_err(says);
    assert!(breach.0.contains(says), "{breach}");
}

#[test]
fn a_log_that_is_as_it_was_passes() {
    let mut log = three();
    log.tail(30, 30).unwrap();
    log.observed(0, 30, &[seen(0, 1, 0), seen(10, 2, 0), seen(20, 1, 1)]).unwrap();
    log.observed(10, 30, &[seen(10, 2, 0), seen(20, 1, 1)]).unwrap();
    log.observed(30, 40, &[seen(30, 1, 2)]).unwrap();
    log.no_gap(1, 0).unwrap();
}

#[test]
fn a_lost_ack_is_found_at_the_end_and_in_the_middle() {
    broken(three().tail(30, 20), "w1 n1 at 20..30 is the first to be lost");
    let in_the_middle = [seen(0, 1, 0), Seen { start: 10, end: 20, ..seen(20, 1, 1) }];
    broken(three().observed(0, 20, &in_the_middle), "where w2 n0 at 10..20 was");
    broken(three().observed(10, 30, &[seen(10, 2, 0)]), "ends at 20");
}

#[test]
fn a_duplicate_is_found() {
    broken(three().observed(30, 40, &[seen(30, 2, 0)]), "is there twice, also at 10");
    let mut log = three();
    let floor = log.floor();
    broken(log.acked(floor, &[seen(30, 1, 1)]), "is there twice");
}

#[test]
fn a_rollback_of_what_a_reader_saw_is_found() {
    let mut log = three();
    log.observed(30, 40, &[seen(30, 3, 0)]).unwrap();
    let floor = log.floor();
    broken(log.tail(floor, 30), "went back from 40 to 30");
    broken(log.observed(30, 40, &[seen(30, 4, 0)]), "where w3 n0 at 30..40 was");
}

#[test]
fn reordering_is_found_within_a_writer_and_in_real_time() {
    broken(three().observed(30, 40, &[seen(30, 1, 3), seen(40, 1, 2)]), "written after it");
    let mut log = Log::default();
    log.acked(0, &[seen(10, 1, 0)]).unwrap();
    let later_began_at = log.floor();
    broken(log.acked(later_began_at, &[seen(0, 2, 0)]), "lies below 20");
}

#[test]
fn a_stale_read_is_found() {
    let mut log = three();
    let began_at = log.floor();
    log.acked(began_at, &[seen(30, 1, 2)]).unwrap();
    // It began before the append ended, so either tail is right.
    log.tail(began_at, 30).unwrap();
    broken(log.tail(40, 30), "went back");
}

#[test]
fn moved_boundaries_are_found() {
    let longer = Seen { end: 15, ..seen(0, 1, 0) };
    broken(three().observed(0, 15, &[longer]), "where w1 n0 at 0..10 was");
    let between = Seen { start: 5, end: 25, ..seen(5, 9, 0) };
    broken(three().observed(5, 25, &[between]), "there is now w9 n0");
}

#[test]
fn a_refused_append_may_not_appear_whichever_is_told_first() {
    let mut log = three();
    log.refused(key(5, 0)).unwrap();
    broken(log.observed(30, 40, &[seen(30, 5, 0)]), "had refused");
    broken(log.refused(key(2, 0)), "was read at 10");
}

#[test]
fn a_gap_in_a_producers_messages_is_found_where_all_is_retained() {
    let mut log = three();
    log.observed(30, 40, &[seen(30, 1, 3)]).unwrap();
    broken(log.no_gap(1, 0), "from w1 n1 to w1 n3");
    log.no_gap(1, 30).unwrap();
}

#[test]
fn a_record_that_changes_its_number_is_found() {
    let numbered = |record| Seen { record: Some(record), ..seen(30, 1, 2) };
    let mut log = three();
    log.observed(30, 40, &[numbered(3)]).unwrap();
    log.observed(30, 40, &[seen(30, 1, 2)]).unwrap();
    broken(log.observed(30, 40, &[numbered(4)]), "was record 3 and is now record 4");
}
