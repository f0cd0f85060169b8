//! Every setting of the server: its unit, its default, and what happens at a limit.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::auth::Rules;
use crate::cors::Cors;
use crate::limits::Limits;

const MIB: u64 = 1024 * 1024;

/// The settings of one server. `Default` is what `headwater serve` does without flags.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    /// Where to listen. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where everything is stored.
    pub data_dir: PathBuf,
    /// What to secure connections with; without it they are plain.
    pub tls: Option<Tls>,
    /// The base of absolute URLs in answers; without it the request's `Host` is used.
    pub public_url: Option<String>,
    /// A bucket to create at the start if it is missing.
    pub bucket: Option<String>,
    /// Who may do what; without it everybody may do everything, which only loopback allows.
    pub auth: Option<Rules>,
    /// Allows to listen beyond loopback without `auth`.
    pub insecure: bool,
    /// Lets anybody scrape the metrics, also where `auth` asks for credentials.
    pub public_metrics: bool,
    /// Logs a line for each request.
    pub access_log: bool,
    /// Which pages of other origins may use which bucket; any page may use all without a rule.
    pub cors: Cors,

    /// How long a long-poll waits for data before it answers 204.
    pub long_poll_timeout: Duration,
    /// How long an SSE response lives, less up to a tenth at random.
    pub sse_max_duration: Duration,
    /// How often an idle SSE response sends a comment line.
    pub sse_keep_alive: Duration,
    /// A client that takes no byte of a response for this long is cut.
    pub slow_reader_timeout: Duration,
    /// An answer older than this is cut; never before an SSE response would end.
    pub response_max_duration: Duration,
    /// How long a connection may take to send a request's head; also how long it may sit idle.
    pub header_timeout: Duration,
    /// How long 64 KiB of a request body, or its rest, may take to arrive: 408.
    pub body_timeout: Duration,
    /// How long a drain waits for requests in flight.
    pub drain_timeout: Duration,

    /// The largest request body of a create, an append or a batch, in bytes: 413.
    pub append_bytes_max: u64,
    /// The largest snapshot body, in bytes: 413.
    pub snapshot_bytes_max: u64,
    /// The largest request head, in bytes: 431.
    pub header_bytes_max: usize,
    /// A page of a read has whole messages up to this many bytes, and at least one.
    pub read_page_bytes: u64,
    /// Request bodies in memory, in bytes, over all connections: 503.
    pub body_bytes_in_flight_max: u64,
    /// Connections at a time; further ones wait in the kernel's queue. Fewer when the process may
    /// not open that many files.
    pub connections_max: usize,
    /// Answers that are compressed at a time; further ones go out as they are. 0 compresses none.
    pub encoders_max: usize,

    /// Requests at a time on one connection of HTTP/2; a client that sends more is told to wait.
    pub http2_connection_streams_max: u32,
    /// Requests at a time over all connections of HTTP/2, live reads among them: 503.
    pub http2_streams_max: usize,
    /// What a client may send on one connection of HTTP/2 before a handler has taken it, in bytes.
    pub http2_window_bytes: u32,
    /// What is kept of an answer that a client of HTTP/2 does not take yet, in bytes. One that does
    /// not take 16 KiB within `slow_reader_timeout` is cut.
    pub http2_send_bytes_max: usize,
    /// How often a connection of HTTP/2 is asked whether the client is still there.
    pub http2_ping_interval: Duration,
    /// How much clients may do and keep.
    pub limits: Limits,

    /// Room allocated for one log file, in bytes.
    pub log_file_bytes: u64,
    /// Free disk bytes that creates, appends, snapshots and attributes leave alone: 507. `None` is
    /// the smaller of 256 MiB and 5 % of the disk.
    pub disk_reserve: Option<u64>,
    /// Refuses to start where there are no data yet.
    pub must_exist: bool,
    /// A checkpoint is due when a restart would replay this many bytes of log.
    pub replay_bytes_max: u64,
}

/// The files that TLS needs, each in PEM form. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate, and behind it those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Authorities of clients. With it, a client without a certificate of theirs is refused.
    pub client_ca: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4437),
            data_dir: PathBuf::from("headwater-data"),
            tls: None,
            public_url: None,
            bucket: None,
            auth: None,
            insecure: false,
            public_metrics: false,
            access_log: false,
            cors: Cors::default(),
            long_poll_timeout: Duration::from_secs(30),
            sse_max_duration: Duration::from_mins(1),
            sse_keep_alive: Duration::from_secs(15),
            slow_reader_timeout: Duration::from_secs(30),
            response_max_duration: Duration::from_hours(1),
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(4),
            append_bytes_max: 32 * MIB,
            snapshot_bytes_max: 128 * MIB,
            header_bytes_max: 64 * 1024,
            read_page_bytes: 4 * MIB,
            body_bytes_in_flight_max: 256 * MIB,
            connections_max: 16_384,
            http2_connection_streams_max: 128,
            http2_streams_max: 16_384,
            http2_window_bytes: 256 * 1024,
            http2_send_bytes_max: 32 * 1024,
            http2_ping_interval: Duration::from_secs(30),
            encoders_max: 128,
            limits: Limits::default(),
            log_file_bytes: 64 * MIB,
            disk_reserve: None,
            must_exist: false,
            replay_bytes_max: 256 * MIB,
        }
    }
}
