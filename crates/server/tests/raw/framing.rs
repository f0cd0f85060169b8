//! Runs the corpus: whatever stands behind an unclear message is never taken for a request.

use std::time::Duration;

use crate::corpus::{Case, Want, cases};
use crate::support::{Headwater, request};

#[test]
fn no_bytes_are_ever_read_as_two_requests() {
    let server = Headwater::with(|config| config.body_timeout = Duration::from_secs(2));
    let cases = cases();
    assert!(cases.len() >= 120, "only {} cases", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .enumerate()
        .filter_map(|(number, case)| run(&server, number, case).err())
        .collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Sends a case and looks at what came of it.
fn run(server: &Headwater, number: usize, case: &Case) -> Result<(), String> {
    let (target, hidden) = (format!("/demo/t{number:03}"), format!("/demo/s{number:03}"));
    server.create(&target);
    let smuggled = request("PUT", &hidden, "", b"");
    let mut wire = server.connect();
    wire.send(fill(&case.bytes, target.as_bytes(), &smuggled));
    if matches!(case.want, Want::Cut) {
        wire.half_close();
    }
    let method = if case.bytes.starts_with(b"HEAD") { "HEAD" } else { "POST" };
    let first = wire.next(method);
    let status = first.as_ref().map(|answer| answer.status);
    let mut more = Vec::new();
    let mut open = false;
    if first.as_ref().is_some_and(|answer| !answer.closes()) {
        wire.send(request("GET", "/-/version", "Connection: close\r\n", b""));
        while let Some(answer) = wire.next("GET") {
            open = answer.status == 200 && answer.text().contains("version");
            more.push(answer.status);
        }
    } else {
        wire.ended();
    }
    let content = server.content(&target);
    let smuggled = server.ask("GET", &hidden, "", b"").status != 404;
    let seen = format!("{status:?} then {more:?}, content {content:?}, smuggled {smuggled}");
    let one = more.is_empty() || (open && more.len() == 1);
    let good = match case.want {
        Want::Gone | Want::Cut => {
            status.is_none_or(|s| [400, 408, 413, 414, 431, 501, 505].contains(&s))
                && more.is_empty()
                && content.is_empty()
        }
        Want::Is(want) => status == Some(want) && one && content.is_empty(),
        Want::Stored(text) => status == Some(204) && one && content == text,
        Want::StoredThenClosed(text) => status == Some(204) && more.is_empty() && content == text,
    };
    if good && !smuggled { Ok(()) } else { Err(format!("{}: {seen}", case.name)) }
}

/// Puts the target for `{T}` and a whole request for `{S}`.
fn fill(bytes: &[u8], target: &[u8], smuggled: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"{T}") {
            out.extend_from_slice(target);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(b"{S}") {
            out.extend_from_slice(smuggled);
            rest = behind;
        } else {
            out.push(*first);
            rest = behind;
        }
    }
    out
}
