//! Bodies that leave compressed (RFC 9110 §8.4): pages of catch-up reads and bootstraps. An answer
//! is compressed as its client takes it, in constant memory, a small piece at a time.

use std::io::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use headwater_core::content::ContentType;
use headwater_core::stream::read::Facts;
use headwater_core::wire::coding::{Coding, is_compressed};
use headwater_core::wire::headers::Fields;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::App;
use super::body::Body;
use super::respond::Reply;

/// A body of fewer bytes is not worth it.
const CODED_BYTES_MIN: u64 = 1024;

/// How much is compressed before other connections of the worker have their turn: below a
/// millisecond, whatever the bytes.
const STEP_BYTES: usize = 32 * 1024;

/// Most of what gzip gains, for a third of what its best costs.
const GZIP_LEVEL: u32 = 4;

/// Faster than gzip and smaller.
const ZSTD_LEVEL: i32 = 1;

/// Bytes that zstd looks back, as a power of two: this, and not the length of the body, decides
/// about the memory of an encoder, which is less than a megabyte.
const ZSTD_WINDOW_LOG: u32 = 17;

/// What would be sent, and whether it may be compressed.
pub(super) struct Candidate {
    /// Bytes of the body as it is, or about so many.
    pub(super) bytes: u64,
    /// Whether that is worth it.
    pub(super) compressible: bool,
}

impl Candidate {
    pub(super) fn new(bytes: u64, contents: &[&ContentType]) -> Self {
        Self { bytes, compressible: !contents.iter().any(|content| is_compressed(content)) }
    }
}

/// The right to compress a body: one of the encoders that there may be at a time.
pub(super) struct Right {
    encoder: Encoder,
    /// Its name in headers.
    coding: &'static str,
    permit: OwnedSemaphorePermit,
}

/// A number of permits for encoders.
pub(super) fn encoders(max: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)))
}

impl App {
    /// The coding that the answer to `head` has if an encoder is free.
    pub(super) fn coding(&self, head: &Parts, body: &Candidate) -> Coding {
        if self.config.encoders_max == 0 || !body.compressible || body.bytes == 0 {
            return Coding::Identity;
        }
        let accepted = Fields::of(&head.headers).accepted_codings();
        // Whoever refuses bodies as they are gets small ones compressed, too.
        if body.bytes < CODED_BYTES_MIN && accepted.identity {
            return Coding::Identity;
        }
        accepted.best
    }

    /// Takes an encoder for that coding; nothing when none is needed, or none is free: the body
    /// goes out as it is then, which any client can read.
    pub(super) fn encoder(&self, coding: Coding) -> Option<Right> {
        let name = coding.name()?;
        let permit = Arc::clone(&self.encoders).try_acquire_owned().ok()?;
        let encoder = Encoder::new(coding).ok()?;
        Some(Right { encoder, coding: name, permit })
    }

    /// Tells caches what else than its URL decides about an answer, whether this one is compressed
    /// or not.
    pub(super) fn vary(&self, headers: &mut HeaderMap, facts: &Facts) {
        let coded = self.config.encoders_max > 0 && !is_compressed(&facts.content);
        let value = match (facts.is_json(), coded) {
            (true, true) => "accept, accept-encoding",
            (true, false) => "accept",
            (false, true) => "accept-encoding",
            (false, false) => return,
        };
        headers.insert(header::VARY, HeaderValue::from_static(value));
    }
}

/// Compresses the body of an answer, whose length is not known any more.
pub(super) fn encode(reply: &mut Reply, right: Right) {
    let Right { encoder, coding, permit } = right;
    let headers = reply.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    let body = std::mem::replace(reply.body_mut(), Body::empty());
    let state = Encoding { body, piece: Bytes::new(), encoder, _permit: permit };
    *reply.body_mut() = Body::pieces(stream::unfold(Some(state), |state| async {
        let mut state = state?;
        match state.step().await {
            Ok(Step::Piece(bytes)) => Some((Ok(bytes), Some(state))),
            Ok(Step::Last(bytes)) => Some((Ok(bytes), None)),
            // Cut without the coding's own end, so that the client can tell.
            Err(error) => Some((Err(error), None)),
        }
    }));
}

/// A body that is being compressed.
struct Encoding {
    body: Body,
    /// What was taken from the body and not yet compressed.
    piece: Bytes,
    encoder: Encoder,
    /// Held as long as the encoder is.
    _permit: OwnedSemaphorePermit,
}

enum Step {
    Piece(Bytes),
    Last(Bytes),
}

impl Encoding {
    /// The next bytes to send; an encoder may take much before it gives any.
    async fn step(&mut self) -> io::Result<Step> {
        loop {
            while !self.piece.is_empty() {
                let part = self.piece.split_to(self.piece.len().min(STEP_BYTES));
                self.encoder.write(&part)?;
                tokio::task::yield_now().await;
                let out = self.encoder.take();
                if !out.is_empty() {
                    return Ok(Step::Piece(out));
                }
            }
            let Some(frame) = self.body.frame().await else {
                self.encoder.finish()?;
                return Ok(Step::Last(self.encoder.take()));
            };
            self.piece = frame?.into_data().unwrap_or_default();
        }
    }
}

/// Compresses into memory, from where it is taken.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(coding: Coding) -> io::Result<Self> {
        let out = Vec::new();
        match coding {
            Coding::Gzip => Ok(Self::Gzip(GzEncoder::new(out, Compression::new(GZIP_LEVEL)))),
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
                encoder.window_log(ZSTD_WINDOW_LOG)?;
                Ok(Self::Zstd(encoder))
            }
            Coding::Identity => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// Ends the coding; what is left can be taken then.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.try_finish(),
            Self::Zstd(encoder) => encoder.do_finish(),
        }
    }

    /// What has been compressed since this was asked last.
    fn take(&mut self) -> Bytes {
        let out = match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        };
        std::mem::take(out).into()
    }
}
