//! `GET {stream}/bootstrap`: the snapshot, then every later message in a part of its own, which
//! also shows that the boundaries of messages are where they were.

use std::sync::Arc;

use crate::audit::ask;
use crate::http::{Client, Request};
use crate::log::{Checked, breach};
use crate::message::excerpt;
use crate::world::{Stream, World};

/// Reads the bootstrap answer of a stream and compares all of it.
pub fn check(world: &World, client: &mut Client, stream: &Arc<Stream>) -> Checked {
    let sight = stream.ledger().sight();
    let answer = ask(client, &Request::new("GET", stream.place.below("bootstrap", false)))?;
    if answer.status != 200 {
        return breach!("bootstrap: {}", answer.brief());
    }
    let kind = answer.header("content-type").unwrap_or("");
    let Some(boundary) = kind.strip_prefix("multipart/mixed; boundary=") else {
        return breach!("bootstrap has the content type {kind}");
    };
    let parts = parts(&answer.body, boundary.trim_matches('"'))?;
    let Some((image, messages)) = parts.split_first() else {
        return breach!("bootstrap has no part");
    };
    let snapshot = answer.number("stream-snapshot-offset");
    let told = snapshot.zip(answer.header("stream-snapshot-digest"));
    let (visible, retained) = {
        let mut ledger = stream.ledger();
        let visible = ledger.life.snapshot_is(&sight, told, None)?;
        (visible, ledger.life.retained)
    };
    let expected = visible.map(|visible| world.recipe.blob(visible.stream, visible.k));
    if *image != expected.unwrap_or_default() {
        return breach!("bootstrap has another snapshot than {told:?}: {}", excerpt(image));
    }
    world.tail_told(stream, &sight, &answer)?;
    let from = snapshot.unwrap_or(retained);
    let tail = answer.number("stream-next-offset").unwrap_or(0);
    world.count("bootstraps", 1);
    world.observed_parts(stream, (from, tail), messages)
}

/// The bodies of the parts. Content never has a line end followed by dashes, so a plain search is
/// exact.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Checked<Vec<&'a [u8]>> {
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    let Some(mut rest) = body.strip_prefix(&delimiter[2..]) else {
        return breach!("bootstrap does not begin with its boundary: {}", excerpt(body));
    };
    let mut parts = Vec::new();
    while rest != b"--\r\n" {
        let Some(start) = find(rest, b"\r\n\r\n") else {
            return breach!("bootstrap ends inside a part's head: {}", excerpt(rest));
        };
        let content = &rest[start + 4..];
        let Some(end) = find(content, &delimiter) else {
            return breach!("bootstrap ends inside a part");
        };
        parts.push(&content[..end]);
        rest = &content[end + delimiter.len()..];
    }
    Ok(parts)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_apart() {
        let body = b"--B\r\nContent-Type: a/b\r\n\r\n\r\n--B\r\nX: y\r\n\r\none\r\n--B--\r\n";
        assert_eq!(parts(body, "B").unwrap(), [b"".as_slice(), b"one"]);
        assert!(parts(&body[..body.len() - 3], "B").is_err());
    }
}
