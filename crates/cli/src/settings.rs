//! Every setting of the server as a flag and an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use headwater_server::config::{Config, Tls};
use headwater_server::cors::{Cors, Rule};

use crate::access::Access;
use crate::limits::LimitArgs;
use crate::logging::LogArgs;
use crate::units::{Size, Span};

/// What a flag that is not given means.
static DEFAULTS: LazyLock<Config> = LazyLock::new(Config::default);

/// Everything that `serve` can be told: on the command line, by the environment, and in a file,
/// where a setting has the name of its flag. Whatever has a variable and stands in here is a
/// setting in all three; one whose `hide_env_values` is set is a secret and shown nowhere.
#[derive(Debug, clap::Args)]
pub(crate) struct Told {
    /// A TOML file with settings; the environment and flags win over it
    /// [default: headwater.toml or else /etc/headwater/config.toml, if there is one].
    #[arg(long, env = "HEADWATER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    settings: Settings,
}

impl Told {
    /// The server's configuration.
    pub(crate) fn into_config(self) -> Config {
        self.settings.into_config(self.place)
    }
}

/// Where the server listens and keeps its data.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// Where to listen; port 0 picks a free one.
    #[arg(
        long,
        env = "HEADWATER_LISTEN",
        value_name = "ADDRESS",
        default_value_t = DEFAULTS.listen
    )]
    pub(crate) listen: SocketAddr,

    /// Where everything is stored; created if it is missing.
    #[arg(
        long,
        env = "HEADWATER_DATA_DIR",
        value_name = "DIR",
        default_value = DEFAULTS.data_dir.as_os_str()
    )]
    pub(crate) data_dir: PathBuf,
}

/// The settings that `serve` has beyond its [`Place`].
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// Base of the absolute URLs in answers; without it the Host of the request is used.
    #[arg(long, env = "HEADWATER_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,

    /// A bucket to create at the start if it is missing.
    #[arg(long, env = "HEADWATER_BUCKET", value_name = "BUCKET")]
    bucket: Option<String>,

    #[command(flatten)]
    access: Access,

    /// The certificate chain to serve HTTPS with, a PEM file; read again when it changes, and at
    /// SIGHUP.
    #[arg(
        long, env = "HEADWATER_TLS_CERT", value_name = "FILE", requires = "tls_key",
        help_heading = TLS
    )]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, a PEM file.
    #[arg(
        long, env = "HEADWATER_TLS_KEY", value_name = "FILE", requires = "tls_cert",
        help_heading = TLS
    )]
    tls_key: Option<PathBuf>,

    /// Authorities of clients, a PEM file: clients without a certificate of theirs are refused.
    #[arg(
        long, env = "HEADWATER_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert",
        help_heading = TLS
    )]
    tls_client_ca: Option<PathBuf>,

    /// Let anybody scrape /-/metrics, also with --auth.
    #[arg(long, env = "HEADWATER_PUBLIC_METRICS", help_heading = WATCHING)]
    public_metrics: bool,

    /// Log a line for each request, with the tokens of signed links left out.
    #[arg(long, env = "HEADWATER_ACCESS_LOG", help_heading = WATCHING)]
    access_log: bool,

    /// Which pages of other origins may use a bucket: `/` is the streams in no bucket, `*` every
    /// bucket without a rule; repeated, or rules separated by spaces. Any page may without rules.
    #[arg(
        long = "cors", env = "HEADWATER_CORS", value_name = "BUCKET=ORIGIN,…",
        value_parser = Rule::parse, value_delimiter = ' '
    )]
    cors: Vec<Rule>,

    /// How long a long-poll waits for data before it answers 204.
    #[arg(
        long, env = "HEADWATER_LONG_POLL_TIMEOUT", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.long_poll_timeout), help_heading = TIMES
    )]
    long_poll_timeout: Span,

    /// How long an SSE response lives, less up to a tenth at random.
    #[arg(
        long, env = "HEADWATER_SSE_MAX_DURATION", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.sse_max_duration), help_heading = TIMES
    )]
    sse_max_duration: Span,

    /// How often an idle SSE response sends a comment line.
    #[arg(
        long, env = "HEADWATER_SSE_KEEP_ALIVE", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.sse_keep_alive), help_heading = TIMES
    )]
    sse_keep_alive: Span,

    /// A client that takes no byte of a response for this long is cut.
    #[arg(
        long, env = "HEADWATER_SLOW_READER_TIMEOUT", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.slow_reader_timeout), help_heading = TIMES
    )]
    slow_reader_timeout: Span,

    /// A bootstrap or snapshot response older than this is cut.
    #[arg(
        long, env = "HEADWATER_RESPONSE_MAX_DURATION", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.response_max_duration), help_heading = TIMES
    )]
    response_max_duration: Span,

    /// How long a connection may take to send the head of a request, or sit idle.
    #[arg(
        long, env = "HEADWATER_HEADER_TIMEOUT", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.header_timeout), help_heading = TIMES
    )]
    header_timeout: Span,

    /// How long the body of a request may make no progress (then 408).
    #[arg(
        long, env = "HEADWATER_BODY_TIMEOUT", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.body_timeout), help_heading = TIMES
    )]
    body_timeout: Span,

    /// How long a shutdown waits for the requests in flight.
    #[arg(
        long, env = "HEADWATER_DRAIN_TIMEOUT", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.drain_timeout), help_heading = TIMES
    )]
    drain_timeout: Span,

    /// How often a connection of HTTP/2 is asked whether its client is still there.
    #[arg(
        long, env = "HEADWATER_HTTP2_PING_INTERVAL", value_name = "DURATION",
        default_value_t = Span(DEFAULTS.http2_ping_interval), help_heading = TIMES
    )]
    http2_ping_interval: Span,

    /// The largest body of a create, an append or a batch (then 413).
    #[arg(
        long, env = "HEADWATER_MAX_APPEND_SIZE", value_name = "SIZE",
        default_value_t = Size(DEFAULTS.append_bytes_max), help_heading = LIMITS
    )]
    max_append_size: Size,

    /// The largest snapshot (then 413).
    #[arg(
        long, env = "HEADWATER_MAX_SNAPSHOT_SIZE", value_name = "SIZE",
        default_value_t = Size(DEFAULTS.snapshot_bytes_max), help_heading = LIMITS
    )]
    max_snapshot_size: Size,

    /// The largest head of a request (then 431).
    #[arg(
        long, env = "HEADWATER_MAX_HEADER_SIZE", value_name = "SIZE",
        default_value_t = size(DEFAULTS.header_bytes_max), help_heading = LIMITS
    )]
    max_header_size: Size,

    /// A page of a read has whole messages up to this many bytes, and at least one.
    #[arg(
        long, env = "HEADWATER_READ_PAGE_SIZE", value_name = "SIZE",
        default_value_t = Size(DEFAULTS.read_page_bytes), help_heading = LIMITS
    )]
    read_page_size: Size,

    /// Bodies of requests in memory, over all connections (then 503).
    #[arg(
        long, env = "HEADWATER_MAX_BODY_MEMORY", value_name = "SIZE",
        default_value_t = Size(DEFAULTS.body_bytes_in_flight_max), help_heading = LIMITS
    )]
    max_body_memory: Size,

    /// Connections at a time; further ones wait.
    #[arg(
        long, env = "HEADWATER_MAX_CONNECTIONS", value_name = "COUNT",
        default_value_t = DEFAULTS.connections_max, help_heading = LIMITS
    )]
    max_connections: usize,

    /// Requests at a time on one connection of HTTP/2; a client that has more waits.
    #[arg(
        long, env = "HEADWATER_HTTP2_MAX_CONNECTION_STREAMS", value_name = "COUNT",
        default_value_t = DEFAULTS.http2_connection_streams_max, help_heading = LIMITS
    )]
    http2_max_connection_streams: u32,

    /// Requests at a time over all connections of HTTP/2, live reads among them (then 503).
    #[arg(
        long, env = "HEADWATER_HTTP2_MAX_STREAMS", value_name = "COUNT",
        default_value_t = DEFAULTS.http2_streams_max, help_heading = LIMITS
    )]
    http2_max_streams: usize,

    /// What a client of HTTP/2 may send on a connection before it is taken.
    #[arg(
        long, env = "HEADWATER_HTTP2_WINDOW_SIZE", value_name = "SIZE",
        default_value_t = size(DEFAULTS.http2_window_bytes as usize), help_heading = LIMITS
    )]
    http2_window_size: Size,

    /// What is kept of an answer that a client of HTTP/2 does not take yet.
    #[arg(
        long, env = "HEADWATER_HTTP2_SEND_BUFFER", value_name = "SIZE",
        default_value_t = size(DEFAULTS.http2_send_bytes_max), help_heading = LIMITS
    )]
    http2_send_buffer: Size,

    /// Answers that are compressed at a time; further ones go out as they are; 0 turns it off.
    #[arg(
        long, env = "HEADWATER_MAX_ENCODERS", value_name = "COUNT",
        default_value_t = DEFAULTS.encoders_max, help_heading = LIMITS
    )]
    max_encoders: usize,

    #[command(flatten)]
    limits: LimitArgs,

    /// Room allocated for one log file.
    #[arg(
        long, env = "HEADWATER_LOG_FILE_SIZE", value_name = "SIZE",
        default_value_t = Size(DEFAULTS.log_file_bytes), help_heading = STORAGE
    )]
    log_file_size: Size,

    /// Free disk space that writes of new data leave alone (then 507)
    /// [default: the smaller of 256MiB and 5 % of the disk].
    #[arg(long, env = "HEADWATER_DISK_RESERVE", value_name = "SIZE", help_heading = STORAGE)]
    disk_reserve: Option<Size>,

    /// Refuse to start where there are no data yet: a disk that is not mounted looks like that.
    #[arg(long, env = "HEADWATER_MUST_EXIST", help_heading = STORAGE)]
    must_exist: bool,

    /// A checkpoint is due when a restart would replay this much of the log.
    #[arg(
        long, env = "HEADWATER_REPLAY_MAX", value_name = "SIZE",
        default_value_t = Size(DEFAULTS.replay_bytes_max), help_heading = STORAGE
    )]
    replay_max: Size,
}

const TLS: &str = "TLS";
const WATCHING: &str = "Watching";
const TIMES: &str = "Times";
pub(crate) const LIMITS: &str = "Limits";
const STORAGE: &str = "Storage";

impl Settings {
    /// The server's configuration. Names every field, so that a new one cannot be forgotten here.
    pub(crate) fn into_config(self, place: Place) -> Config {
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let tls = self.tls_cert.zip(self.tls_key);
        Config {
            listen: place.listen,
            data_dir: place.data_dir,
            tls: tls.map(|(certificate, key)| Tls {
                certificate,
                key,
                client_ca: self.tls_client_ca,
            }),
            public_url: self.public_url,
            bucket: self.bucket,
            insecure: self.access.insecure,
            auth: self.access.rules(),
            public_metrics: self.public_metrics,
            access_log: self.access_log,
            cors: Cors::new(self.cors),
            long_poll_timeout: self.long_poll_timeout.0,
            sse_max_duration: self.sse_max_duration.0,
            sse_keep_alive: self.sse_keep_alive.0,
            slow_reader_timeout: self.slow_reader_timeout.0,
            response_max_duration: self.response_max_duration.0,
            header_timeout: self.header_timeout.0,
            body_timeout: self.body_timeout.0,
            drain_timeout: self.drain_timeout.0,
            append_bytes_max: self.max_append_size.0,
            snapshot_bytes_max: self.max_snapshot_size.0,
            header_bytes_max: bytes(self.max_header_size),
            read_page_bytes: self.read_page_size.0,
            body_bytes_in_flight_max: self.max_body_memory.0,
            connections_max: self.max_connections,
            http2_connection_streams_max: self.http2_max_connection_streams,
            http2_streams_max: self.http2_max_streams,
            http2_window_bytes: u32::try_from(self.http2_window_size.0).unwrap_or(u32::MAX),
            http2_send_bytes_max: bytes(self.http2_send_buffer),
            http2_ping_interval: self.http2_ping_interval.0,
            encoders_max: self.max_encoders,
            limits: self.limits.into_limits(),
            log_file_bytes: self.log_file_size.0,
            disk_reserve: self.disk_reserve.map(|size| size.0),
            must_exist: self.must_exist,
            replay_bytes_max: self.replay_max.0,
        }
    }
}

fn size(bytes: usize) -> Size {
    Size(u64::try_from(bytes).expect("a size in memory fits into 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use headwater_server::auth::{JwtRules, RootKey, Rules, Scopes, Source};
    use headwater_server::limits::Limits;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        settings: Settings,
    }

    fn config(flags: &[&str]) -> Config {
        let flags = Flags::try_parse_from([&["x"], flags].concat()).expect("valid flags");
        flags.settings.into_config(flags.place)
    }

    #[test]
    fn without_flags_every_setting_is_its_default() {
        assert_eq!(config(&[]), Config::default());
    }

    #[test]
    fn a_certificate_and_its_key_come_together() {
        for alone in [["x", "--tls-cert", "c"], ["x", "--tls-key", "k"]] {
            assert!(Flags::try_parse_from(alone).is_err(), "{alone:?}");
        }
    }

    #[test]
    fn every_flag_reaches_its_own_setting() {
        let seconds = std::time::Duration::from_secs;
        let expected = Config {
            listen: "[::1]:7".parse().unwrap(),
            data_dir: "d".into(),
            tls: Some(Tls {
                certificate: "c".into(),
                key: "k".into(),
                client_ca: Some("a".into()),
            }),
            public_url: Some("https://x".into()),
            bucket: Some("demo".into()),
            auth: Some(Rules {
                root: RootKey::new(&"k".repeat(32)),
                anonymous: Scopes::parse("demo:read /x:read").unwrap(),
                jwt: Some(JwtRules {
                    keys: Source::Url("https://x/keys".into()),
                    audience: "a".into(),
                    issuer: Some("i".into()),
                }),
                conceal: true,
            }),
            insecure: true,
            public_metrics: true,
            access_log: true,
            cors: Cors::new([Rule::parse("demo=https://a.b").unwrap()]),
            long_poll_timeout: seconds(1),
            sse_max_duration: seconds(2),
            sse_keep_alive: seconds(3),
            slow_reader_timeout: seconds(4),
            response_max_duration: seconds(5),
            header_timeout: seconds(6),
            body_timeout: seconds(7),
            drain_timeout: seconds(8),
            append_bytes_max: 9,
            snapshot_bytes_max: 10,
            header_bytes_max: 11,
            read_page_bytes: 12,
            body_bytes_in_flight_max: 13,
            connections_max: 14,
            http2_connection_streams_max: 18,
            http2_streams_max: 19,
            http2_window_bytes: 20,
            http2_send_bytes_max: 21,
            http2_ping_interval: seconds(22),
            encoders_max: 23,
            limits: Limits { requests_max: 24, ..Limits::default() },
            log_file_bytes: 15,
            disk_reserve: Some(16),
            must_exist: true,
            replay_bytes_max: 17,
        };
        let flags = "--listen [::1]:7 --data-dir d --public-url https://x --bucket demo \
            --long-poll-timeout 1s --sse-max-duration 2s --sse-keep-alive 3s \
            --slow-reader-timeout 4s --response-max-duration 5s --header-timeout 6s \
            --body-timeout 7s --drain-timeout 8s --max-append-size 9 --max-snapshot-size 10 \
            --max-header-size 11 --read-page-size 12 --max-body-memory 13 --max-connections 14 \
            --log-file-size 15 --disk-reserve 16 --must-exist --replay-max 17 --auth --conceal \
            --insecure --jwt-keys https://x/keys --jwt-audience a --jwt-issuer i \
            --tls-cert c --tls-key k --tls-client-ca a --http2-max-connection-streams 18 \
            --http2-max-streams 19 --http2-window-size 20 --http2-send-buffer 21 \
            --http2-ping-interval 22s --public-metrics --access-log \
            --max-encoders 23 --max-requests 24 \
            --cors demo=https://a.b";
        let root_key = "k".repeat(32);
        let access = ["--anonymous", "demo:read /x:read", "--root-key", &root_key];
        let flags: Vec<&str> = flags.split_whitespace().chain(access).collect();
        assert_eq!(config(&flags), expected);
    }
}
