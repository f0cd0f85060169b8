//! The settings that say how much clients may do at a time, how often, and how much they may keep.

use std::num::NonZeroU32;
use std::sync::LazyLock;

use headwater_server::engine::Quotas;
use headwater_server::limits::{Limits, Rate};

use crate::settings::LIMITS;
use crate::units::Size;

/// What a flag that is not given means.
static DEFAULTS: LazyLock<Limits> = LazyLock::new(Limits::default);

/// How much clients may do and keep.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "each is named like its flag")]
pub(crate) struct LimitArgs {
    /// Requests at a time, a quarter of them for reads alone (then 503).
    #[arg(
        long, env = "HEADWATER_MAX_REQUESTS", value_name = "COUNT",
        default_value_t = DEFAULTS.requests_max, help_heading = LIMITS
    )]
    max_requests: usize,

    /// Live readers at a time (then 503) [default: three quarters of the connections].
    #[arg(
        long, env = "HEADWATER_MAX_LIVE_READERS", value_name = "COUNT", help_heading = LIMITS
    )]
    max_live_readers: Option<usize>,

    /// Live readers of one stream (then 429) [default: no limit].
    #[arg(
        long, env = "HEADWATER_MAX_STREAM_READERS", value_name = "COUNT", help_heading = LIMITS
    )]
    max_stream_readers: Option<usize>,

    /// Requests a second of one API key, or of one address without a key (then 429)
    /// [default: no limit].
    #[arg(
        long, env = "HEADWATER_MAX_REQUEST_RATE", value_name = "COUNT", help_heading = LIMITS
    )]
    max_request_rate: Option<NonZeroU32>,

    /// Requests at once after a rest [default: those of a second].
    #[arg(
        long, env = "HEADWATER_MAX_REQUEST_BURST", value_name = "COUNT",
        requires = "max_request_rate", help_heading = LIMITS
    )]
    max_request_burst: Option<NonZeroU32>,

    /// Streams on the server (then 409) [default: no limit].
    #[arg(long, env = "HEADWATER_MAX_STREAMS", value_name = "COUNT", help_heading = LIMITS)]
    max_streams: Option<u64>,

    /// Streams in a bucket (then 409) [default: no limit].
    #[arg(
        long, env = "HEADWATER_MAX_BUCKET_STREAMS", value_name = "COUNT", help_heading = LIMITS
    )]
    max_bucket_streams: Option<u64>,

    /// Bytes that a bucket retains before it takes no more (then 507) [default: no limit].
    #[arg(long, env = "HEADWATER_MAX_BUCKET_SIZE", value_name = "SIZE", help_heading = LIMITS)]
    max_bucket_size: Option<Size>,
}

impl LimitArgs {
    /// The limits.
    pub(crate) fn into_limits(self) -> Limits {
        Limits {
            requests_max: self.max_requests,
            live_readers_max: self.max_live_readers,
            stream_readers_max: self.max_stream_readers,
            rate: self.max_request_rate.map(|per_second| Rate {
                per_second,
                burst: self.max_request_burst.unwrap_or(per_second),
            }),
            quotas: Quotas {
                streams_max: self.max_streams,
                bucket_streams_max: self.max_bucket_streams,
                bucket_bytes_max: self.max_bucket_size.map(|size| size.0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn limits(flags: &str) -> Limits {
        let flags = Flags::try_parse_from(format!("x {flags}").split_whitespace());
        flags.expect("valid flags").limits.into_limits()
    }

    #[test]
    fn without_flags_every_limit_is_its_default() {
        assert_eq!(limits(""), Limits::default());
    }

    #[test]
    fn every_flag_reaches_its_own_limit() {
        let number = |n| NonZeroU32::new(n).unwrap();
        let mut expected = Limits {
            requests_max: 1,
            live_readers_max: Some(2),
            stream_readers_max: Some(3),
            rate: Some(Rate { per_second: number(4), burst: number(5) }),
            quotas: Quotas {
                streams_max: Some(6),
                bucket_streams_max: Some(7),
                bucket_bytes_max: Some(8),
            },
        };
        let flags = "--max-requests 1 --max-live-readers 2 --max-stream-readers 3 \
            --max-request-rate 4 --max-streams 6 --max-bucket-streams 7 --max-bucket-size 8";
        assert_eq!(limits(&format!("{flags} --max-request-burst 5")), expected);
        expected.rate = Some(Rate { per_second: number(4), burst: number(4) });
        assert_eq!(limits(flags), expected);
    }
}
