//! What to do about a refusal: the next command, for the codes that people meet.

use ureq::http::StatusCode;

use crate::address::StreamAddress;
use crate::failure::Problem;

/// What a request was about, as it is written on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    bucket: Option<String>,
    stream: Option<String>,
}

impl Subject {
    /// A request about a bucket.
    pub(crate) fn bucket(name: &str) -> Self {
        Self { bucket: Some(shell(name)), stream: None }
    }

    /// A request about a stream.
    pub(crate) fn stream(address: &StreamAddress) -> Self {
        Self { bucket: address.bucket().map(shell), stream: Some(shell(&address.to_string())) }
    }
}

/// The hint for the server's `problem`, if we have one: the next command, or what to change.
pub(crate) fn for_refusal(
    status: StatusCode,
    problem: &Problem,
    subject: &Subject,
) -> Option<String> {
    let code = problem.code.as_deref().unwrap_or_default();
    next_command(code, subject)
        .or_else(|| advice(code).map(str::to_owned))
        .or_else(|| for_status(status).map(str::to_owned))
}

/// A command about the very bucket or stream.
fn next_command(code: &str, subject: &Subject) -> Option<String> {
    let bucket = subject.bucket.as_deref().unwrap_or("BUCKET");
    let stream = subject.stream.as_deref().unwrap_or("STREAM");
    let hint = match code {
        "BUCKET_NOT_FOUND" => format!("`headwater bucket create {bucket}` creates it"),
        "BUCKET_EXISTS" => format!("`headwater bucket show {bucket}` shows it"),
        "BUCKET_NOT_EMPTY" => format!(
            "`headwater ls {bucket}` lists its streams; delete them, and the forks that hold \
             deleted ones, first"
        ),
        "STREAM_NOT_FOUND" if subject.bucket.is_none() => {
            format!("`headwater create {stream}` creates it")
        }
        "STREAM_NOT_FOUND" => format!(
            "`headwater create {stream}` creates it; `headwater ls {bucket}` lists what is there"
        ),
        "STREAM_EXISTS" => format!("`headwater head {stream}` shows how it was created"),
        "STREAM_CLOSED" => format!("`headwater fork {stream} NEW` continues it under another name"),
        "OFFSET_TRIMMED" => {
            format!("`headwater bootstrap {stream}` reads the snapshot and all that follows it")
        }
        "OFFSET_NOT_A_BOUNDARY" => format!(
            "use an offset that the server gave out; `headwater head {stream}` shows the newest"
        ),
        "OFFSET_BEYOND_TAIL" | "RECORD_OUT_OF_RANGE" | "RECORD_MISMATCH" => {
            format!("`headwater head {stream}` shows where it ends")
        }
        "SNAPSHOT_NOT_FOUND" => {
            format!("`headwater snapshot put {stream} FILE --offset OFFSET` publishes one")
        }
        "SNAPSHOT_STALE" | "SNAPSHOT_CONFLICT" | "SNAPSHOT_MATCH_FAILED" => {
            format!("`headwater snapshot show {stream}` shows the visible one")
        }
        "RETENTION_NEEDS_SNAPSHOT" => format!(
            "publish what the discarded part amounts to first: `headwater snapshot put {stream} \
             FILE --offset OFFSET`"
        ),
        "RETENTION_BEYOND_SNAPSHOT" => format!(
            "`headwater snapshot show {stream}` shows up to where the stream may be discarded"
        ),
        "RETENTION_BACKWARDS" => {
            format!("`headwater head {stream}` shows the boundary; it only moves forward")
        }
        _ => return None,
    };
    Some(hint)
}

/// What to change in the command that was refused.
fn advice(code: &str) -> Option<&'static str> {
    let hint = match code {
        "INVALID_BUCKET_ID" => "a bucket is named with 4 to 64 of a-z, 0-9, _ and -",
        "STREAM_DELETED" | "STREAM_HELD" | "FORK_SOURCE_DELETED" => {
            "the name is free again once the last fork of that stream is deleted"
        }
        "CONTENT_TYPE_MISMATCH" => "leave --content-type away to use the stream's own",
        "RECORDS_NEED_JSON" => "only application/json streams have records; use --offset",
        "PRODUCER_FENCED" => {
            "a newer epoch of this producer is at work; to take over, raise --producer-epoch and \
             begin with --producer-seq 0"
        }
        "PRODUCER_EPOCH_START" => "a new epoch begins with --producer-seq 0",
        "PRODUCER_GAP" => "send the missing sequence numbers first",
        "STREAM_SEQ_CONFLICT" => "--seq must be greater than the last one, compared byte by byte",
        "INVALID_JSON" => {
            "one append to a JSON stream is one JSON value; --lines sends each line by itself"
        }
        "BODY_TOO_LARGE" => {
            "--lines or --batch append in smaller pieces; `headwater serve` has the limits, \
             --max-append-size and --max-snapshot-size"
        }
        "MESSAGE_TOO_LARGE" | "TOO_MANY_MESSAGES" => "--lines or --batch append in smaller pieces",
        "FORK_SOURCE_NOT_FOUND" => "`headwater ls` shows what there is to fork",
        "FORK_OFFSET_BEYOND_TAIL" => "`headwater head SOURCE` shows where the source ends",
        "FORK_UNCOVERED" | "FORK_OFFSET_TRIMMED" => {
            "what lies before the source's snapshot is gone; fork at its offset or above"
        }
        _ => return None,
    };
    Some(hint)
}

/// The hint for an answer whose code says nothing to us.
fn for_status(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Some("set STREAM_AUTH or --auth to the Authorization header, like \"Bearer TOKEN\"")
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            Some("the server's disk is full and nothing was changed; deletes still work")
        }
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            Some("the server is busy; try again in a moment")
        }
        _ => None,
    }
}

/// `word` as one word of a shell command.
pub(crate) fn shell(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(status: u16, code: &str, subject: &Subject) -> Option<String> {
        let problem = Problem { code: Some(code.to_owned()), ..Problem::default() };
        for_refusal(StatusCode::from_u16(status).unwrap(), &problem, subject)
    }

    #[test]
    fn a_hint_is_a_command_that_can_be_pasted() {
        let address: StreamAddress = "demo/a b".parse().unwrap();
        let subject = Subject::stream(&address);
        assert_eq!(
            hint(404, "BUCKET_NOT_FOUND", &subject).unwrap(),
            "`headwater bucket create demo` creates it"
        );
        assert_eq!(
            hint(410, "OFFSET_TRIMMED", &subject).unwrap(),
            "`headwater bootstrap 'demo/a b'` reads the snapshot and all that follows it"
        );
    }

    #[test]
    fn unknown_codes_fall_back_to_the_status() {
        let subject = Subject::bucket("demo");
        assert!(hint(401, "NEW", &subject).unwrap().contains("STREAM_AUTH"));
        assert!(hint(507, "NEW", &subject).unwrap().contains("disk"));
        assert_eq!(hint(400, "NEW", &subject), None);
    }

    #[test]
    fn shell_words_survive_the_shell() {
        assert_eq!(shell("demo/hello-1.2"), "demo/hello-1.2");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell("$(x)"), "'$(x)'");
        assert_eq!(shell(""), "''");
    }
}
