//! Every metric by its name: the sheets of all workers summed up, and what the engine, the disk and
//! the operating system tell when they are asked. `docs/metrics.md` has the same list.

use std::collections::BTreeMap;

use prometheus_client::registry::Unit;

use super::count::{Count, Durations, Total};
use super::disk::KINDS;
use super::family::{Family, Value, real};
use super::sheet::{CLASSES, DENIALS, LiveKind, Pace, Refused, Sheet};
use super::{Metrics, system};
use crate::http::{App, BUDGET_UNIT, Verb};

/// Takes stock. May wait for the disk.
pub(crate) fn gather(app: &App) -> Vec<Family> {
    let mut families = Vec::from(requests(&app.metrics));
    families.extend(appends(&app.metrics));
    families.extend(refusals(&app.metrics));
    families.extend(connections(app));
    families.extend(log(app));
    families.extend(storage(app));
    families.extend(contents(app));
    families.extend(process());
    families
}

/// The sheets as one.
fn sum(metrics: &Metrics, what: impl Fn(&Sheet) -> u64) -> u64 {
    metrics.sheets.lock().iter().map(|sheet| what(sheet)).sum()
}

fn count(metrics: &Metrics, what: impl Fn(&Sheet) -> &Count) -> Value {
    Value::Count(sum(metrics, |sheet| what(sheet).get()))
}

fn durations(metrics: &Metrics, what: impl Fn(&Sheet) -> &Durations) -> Value {
    let mut total = Total::default();
    for sheet in &*metrics.sheets.lock() {
        what(sheet).add_to(&mut total);
    }
    Value::Durations(total)
}

fn level(number: u64) -> Value {
    Value::Level(real(number))
}

fn requests(metrics: &Metrics) -> [Family; 2] {
    let verbs = Verb::ALL.iter().map(|verb| (Some(*verb), verb.name())).chain([(None, "none")]);
    let rows = verbs.flat_map(|(verb, route)| {
        // No answer is final with a 1xx.
        (1..CLASSES.len()).map(move |class| {
            let labels = vec![("route", route), ("status", CLASSES[class])];
            (labels, Value::Count(sum(metrics, |sheet| sheet.requests(verb, class))))
        })
    });
    let paces = Pace::ALL.iter().map(|pace| {
        let labels = vec![("kind", pace.name())];
        (labels, durations(metrics, |sheet| sheet.durations(*pace)))
    });
    [
        Family::counter(
            "headwater_http_requests",
            None,
            "Requests answered, by what was asked and the hundred of the status.",
        )
        .each(rows),
        Family::histogram(
            "headwater_http_request_duration",
            Some(Unit::Seconds),
            "From a request's head to its answer's; live includes the wait for news.",
        )
        .each(paces),
    ]
}

fn appends(metrics: &Metrics) -> [Family; 6] {
    [
        Family::histogram(
            "headwater_ack_duration",
            Some(Unit::Seconds),
            "From the decision of an append until it is durable.",
        )
        .only(durations(metrics, |sheet| &sheet.ack)),
        Family::counter(
            "headwater_appended",
            Some(Unit::Bytes),
            "Bytes of messages that appends have stored, repetitions left out.",
        )
        .only(count(metrics, |sheet| &sheet.appended_bytes)),
        Family::counter(
            "headwater_appended_messages",
            None,
            "Messages that appends have stored, repetitions left out.",
        )
        .only(count(metrics, |sheet| &sheet.appended_messages)),
        Family::counter(
            "headwater_producer_duplicates",
            None,
            "Appends of producers that had been stored before.",
        )
        .only(count(metrics, |sheet| &sheet.producer_duplicates)),
        Family::counter(
            "headwater_producer_fenced",
            None,
            "Appends refused since a newer epoch of the producer exists.",
        )
        .only(count(metrics, |sheet| &sheet.producer_fenced)),
        Family::counter(
            "headwater_producer_gaps",
            None,
            "Appends refused since earlier ones of the producer are missing.",
        )
        .only(count(metrics, |sheet| &sheet.producer_gaps)),
    ]
}

fn refusals(metrics: &Metrics) -> [Family; 3] {
    let mut refused = BTreeMap::<&'static str, Refused>::new();
    for sheet in &*metrics.sheets.lock() {
        sheet.add_refused(&mut refused);
    }
    let by = |label: &'static str, only_limits: bool| {
        refused
            .iter()
            .filter(move |(_, refused)| refused.is_limit || !only_limits)
            .map(move |(code, refused)| (vec![(label, *code)], Value::Count(refused.times)))
    };
    let denials = (0..DENIALS.len()).map(|at| {
        let times = sum(metrics, |sheet| sheet.denials(at));
        (vec![("reason", DENIALS[at])], Value::Count(times))
    });
    [
        Family::counter(
            "headwater_refusals",
            None,
            "Answers that are no success, by their code (docs/errors.md).",
        )
        .each(by("code", false)),
        Family::counter(
            "headwater_limits_refused",
            None,
            "The refusals among these that a limit of the server caused, by their code.",
        )
        .each(by("limit", true)),
        Family::counter(
            "headwater_auth_failures",
            None,
            "Requests turned away: no credential, one that is not good, or one without the scope.",
        )
        .each(denials),
    ]
}

fn connections(app: &App) -> [Family; 9] {
    let metrics = &app.metrics;
    let readers = LiveKind::ALL.iter().map(|kind| {
        let labels = vec![("kind", kind.name())];
        (labels, level(sum(metrics, |sheet| sheet.live(*kind).get())))
    });
    let memory = app.config.body_bytes_in_flight_max;
    let free = (app.body_budget.available_permits() as u64).saturating_mul(BUDGET_UNIT);
    [
        Family::gauge("headwater_connections", None, "Connections that are open.")
            .only(level(sum(metrics, |sheet| sheet.connections.get()))),
        Family::gauge(
            "headwater_connections_max",
            None,
            "Connections that may be open; others wait in the kernel.",
        )
        .only(level(app.shares.connections as u64)),
        Family::counter("headwater_connections_accepted", None, "Connections taken in.")
            .only(count(metrics, |sheet| &sheet.accepted)),
        Family::gauge("headwater_live_readers", None, "Readers that wait for news.").each(readers),
        Family::counter(
            "headwater_slow_readers_cut",
            None,
            "Connections ended since their client took no byte for too long.",
        )
        .only(count(metrics, |sheet| &sheet.slow_readers)),
        Family::counter(
            "headwater_old_answers_cut",
            None,
            "Connections ended since an answer took too long as a whole.",
        )
        .only(count(metrics, |sheet| &sheet.old_answers)),
        Family::gauge(
            "headwater_body_memory",
            Some(Unit::Bytes),
            "Memory that bodies of requests have, of headwater_body_memory_max_bytes.",
        )
        .only(level(memory.saturating_sub(free))),
        Family::gauge(
            "headwater_body_memory_max",
            Some(Unit::Bytes),
            "Memory that bodies of requests may have.",
        )
        .only(level(memory)),
        Family::gauge("headwater_draining", None, "1 while the server drains.")
            .only(level(u64::from(*app.draining.borrow()))),
    ]
}

fn log(app: &App) -> [Family; 5] {
    let (commits, written) = (&app.metrics.commits, &app.metrics.written);
    let (mut took, mut groups) = (Total::default(), Total::default());
    commits.took.add_to(&mut took);
    commits.groups.add_to(&mut groups);
    let syncs = (0..KINDS.len()).map(|at| {
        let mut total = Total::default();
        written.kind(at).syncs.add_to(&mut total);
        (vec![("file", KINDS[at])], Value::Durations(total))
    });
    [
        Family::histogram(
            "headwater_commit_duration",
            Some(Unit::Seconds),
            "One commit: a write, a sync, and waking whoever waits for it.",
        )
        .only(Value::Durations(took)),
        Family::histogram(
            "headwater_commit_groups",
            None,
            "Groups of entries (an append is one) in a commit.",
        )
        .only(Value::Sizes(groups)),
        Family::counter("headwater_commit", Some(Unit::Bytes), "Bytes of the log's frames.")
            .only(Value::Count(commits.bytes.get())),
        Family::histogram(
            "headwater_fsync_duration",
            Some(Unit::Seconds),
            "Syncs of files that this server has made, by what they are.",
        )
        .each(syncs),
        Family::gauge(
            "headwater_replay",
            Some(Unit::Bytes),
            "Bytes of the log that a restart would replay.",
        )
        .only(level(app.engine.store().replay_debt())),
    ]
}

fn storage(app: &App) -> [Family; 7] {
    let written = (0..KINDS.len()).map(|at| {
        let bytes = app.metrics.written.kind(at).bytes.get();
        (vec![("file", KINDS[at])], Value::Count(bytes))
    });
    // A blob is a stream's snapshot, and there may be as many: they are not looked at one by one.
    let kinds = KINDS.iter().filter(|kind| !matches!(**kind, "blob" | "other"));
    let found: Vec<_> =
        kinds.map(|kind| (*kind, system::files(&app.config.data_dir.join(kind)))).collect();
    let files = found.iter().map(|(kind, (files, _))| (vec![("file", *kind)], level(*files)));
    let bytes = found.iter().map(|(kind, (_, bytes))| (vec![("file", *kind)], level(*bytes)));
    let store = app.engine.store();
    let recovery = app.metrics.recovery.lock().as_secs_f64();
    [
        Family::counter(
            "headwater_disk_written",
            Some(Unit::Bytes),
            "Bytes written to files, by what they are; segments are what compaction writes.",
        )
        .each(written),
        Family::gauge("headwater_files", None, "Files, by what they are.").each(files),
        Family::gauge(
            "headwater_files",
            Some(Unit::Bytes),
            "Length of the files, room that a log file has ahead included.",
        )
        .each(bytes),
        Family::gauge(
            "headwater_disk_free",
            Some(Unit::Bytes),
            "Free bytes of the disk, the reserve included.",
        )
        // Unknown is told as nothing, so that no alert takes it for a number.
        .each(store.available().ok().map(|free| (Vec::new(), level(free)))),
        Family::gauge(
            "headwater_disk_reserve",
            Some(Unit::Bytes),
            "Free bytes that new data leave alone.",
        )
        .each(store.reserve_bytes().ok().map(|reserve| (Vec::new(), level(reserve)))),
        Family::gauge(
            "headwater_disk_writable",
            None,
            "1 while the log runs and more than the reserve is free.",
        )
        .only(level(u64::from(store.check_writable().is_ok()))),
        Family::gauge(
            "headwater_recovery",
            Some(Unit::Seconds),
            "What the last start took until all data were there.",
        )
        .only(Value::Level(recovery)),
    ]
}

fn contents(app: &App) -> [Family; 4] {
    let contents = app.engine.contents();
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    [
        Family::gauge("headwater_streams", None, "Streams, those that only forks hold included.")
            .only(level(contents.streams)),
        Family::gauge("headwater_buckets", None, "Buckets.").only(level(contents.buckets)),
        Family::gauge("headwater_snapshots", None, "Bodies of snapshots.")
            .only(level(contents.snapshots)),
        Family::gauge("headwater_build_info", None, "1, with the version of the server.")
            .with(version, level(1)),
    ]
}

/// Named as every client library names them.
fn process() -> [Family; 7] {
    let process = system::process();
    let known = |value: Option<u64>| value.map(|value| (Vec::new(), level(value)));
    let real = |value: Option<f64>| value.map(|value| (Vec::new(), Value::Level(value)));
    let bytes = Some(Unit::Bytes);
    let seconds = || Some(Unit::Seconds);
    let cpu = process.cpu_seconds.map(|cpu| (Vec::new(), Value::Sum(cpu)));
    [
        Family::counter("process_cpu", seconds(), "Time of processors that was used.").each(cpu),
        Family::gauge("process_start_time", seconds(), "When it began, since the Unix epoch.")
            .each(real(process.start_seconds)),
        Family::gauge("process_resident_memory", bytes.clone(), "Memory that is in use.")
            .each(known(process.resident_bytes)),
        Family::gauge("process_virtual_memory", bytes, "Memory that has an address.")
            .each(known(process.virtual_bytes)),
        Family::gauge("process_open_fds", None, "Descriptors that are open.")
            .each(known(process.open_fds)),
        Family::gauge("process_max_fds", None, "Descriptors that may be open.")
            .each(known(process.max_fds)),
        Family::gauge("process_threads", None, "Threads.").each(known(process.threads)),
    ]
}
