//! What is promised of requests that meet (`extensions.md` §4 to §7): one of them is first, and
//! nobody sees anything in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Headwater, delete, eventually, get, head, offset, parts, post, put};

const MEBIBYTE: usize = 1024 * 1024;

#[test]
fn of_publishes_over_the_same_snapshot_exactly_one_wins() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    let digest = server.publish(&format!("/demo/s/snapshot/{}", ends[0]), "first");
    let publish = |end: &str| {
        let publish = put(format!("/demo/s/snapshot/{end}"));
        server.send(publish.header("Stream-Snapshot-Match", &digest).text(end))
    };
    let winners: Vec<String> = thread::scope(|scope| {
        let publish = &publish;
        let all: Vec<_> =
            ends[1..].iter().map(|end| scope.spawn(move || (end, publish(end)))).collect();
        let ended = all.into_iter().map(|publish| publish.join().unwrap());
        let (won, lost): (Vec<_>, Vec<_>) = ended.partition(|(_, answer)| answer.status == 204);
        for (_, answer) in lost {
            answer.problem(409, "SNAPSHOT_MATCH_FAILED");
        }
        won.into_iter().map(|(end, _)| end.clone()).collect()
    });
    assert_eq!(winners.len(), 1);
    let path = format!("/demo/s/snapshot/{}", winners[0]);
    assert_eq!(server.send(get(path)).expect(200).text(), winners[0]);
}

#[test]
fn on_ds_nobody_sees_a_snapshot_without_its_boundary() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"; 60]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let told = server.send(head("/ds/demo/s")).expect(200);
                    let snapshot = told.header("stream-snapshot-offset");
                    assert_eq!(snapshot, told.header("stream-retained-offset"));
                }
            });
        }
        for end in &ends {
            server.publish(&format!("/ds/demo/s/snapshot/{end}"), end);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn readers_never_meet_a_snapshot_that_is_half_gone() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"; 100]);
    server.publish(&format!("/ds/demo/s/snapshot/{}", ends[0]), &ends[0]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let latest = server.send(get("/ds/demo/s/snapshot")).expect(307);
                let read = server.send(get(latest.need("location")));
                if read.status == 404 {
                    // Replaced in between, which is the truth.
                    read.problem(404, "SNAPSHOT_NOT_FOUND");
                } else {
                    let read = read.expect(200);
                    assert_eq!(read.text(), read.need("stream-snapshot-offset"));
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let answer = server.send(get("/ds/demo/s/bootstrap")).expect(200);
                let at = answer.need("stream-snapshot-offset").to_owned();
                assert_eq!(parts(&answer)[0].body, at.as_bytes());
            }
        });
        for end in &ends[1..] {
            server.publish(&format!("/ds/demo/s/snapshot/{end}"), end);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_a_superseded_or_refused_snapshot_took_is_given_back() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b", "c"]);
    for end in &ends {
        server.publish(&format!("/demo/s/snapshot/{end}"), &"x".repeat(6 * MEBIBYTE));
    }
    let conflict = put(format!("/demo/s/snapshot/{}", ends[2])).text("y".repeat(6 * MEBIBYTE));
    server.send(conflict).problem(409, "SNAPSHOT_CONFLICT");
    eventually("one body is left", || server.files_of(5 * MEBIBYTE as u64) == 1);
    // A client that goes away leaves nothing behind either.
    let next = server.append("/demo/s", "text/plain", "d");
    let mut gone = server.connect();
    gone.send(&put(format!("/demo/s/snapshot/{next}")).header("Content-Length", 8 * MEBIBYTE));
    gone.write(&vec![b'z'; 6 * MEBIBYTE]);
    drop(gone);
    eventually("one body is left", || server.files_of(5 * MEBIBYTE as u64) == 1);
    server.send(delete("/demo/s")).expect(204);
    eventually("none is left", || server.files_of(5 * MEBIBYTE as u64) == 0);
}

#[test]
fn an_append_and_a_delete_happen_one_after_the_other() {
    let server = Headwater::start();
    for round in 0..20 {
        let path = format!("/demo/{round}");
        server.create(&path, "text/plain", "a");
        let (deleted, appended) = thread::scope(|scope| {
            let append = scope.spawn(|| server.send(post(&path).text("b")).status);
            (server.send(delete(&path)).status, append.join().unwrap())
        });
        assert!(deleted == 204 && matches!(appended, 204 | 404), "{deleted} {appended}");
        server.send(get(&path)).problem(404, "STREAM_NOT_FOUND");
    }
}

#[test]
fn of_creations_at_once_one_is_the_first_and_the_others_find_it() {
    let server = Headwater::start();
    for round in 0..10 {
        let path = format!("/demo/{round}");
        let statuses: Vec<u16> = thread::scope(|scope| {
            let create = || server.send(put(&path).text("same")).status;
            let all: Vec<_> = (0..6).map(|_| scope.spawn(create)).collect();
            all.into_iter().map(|create| create.join().unwrap()).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 200 | 201)));
        // Each of the others found what the first had stored, once.
        assert_eq!(server.send(head(&path)).next_offset(), offset(4));
    }
}
