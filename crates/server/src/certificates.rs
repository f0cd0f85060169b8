//! The certificate that the server shows: read from its files, and read again when they change.

pub mod self_signed;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::config::Tls;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What a client may choose, the best first.
const PROTOCOLS: [&[u8]; 2] = [HTTP_2, b"http/1.1"];

/// The name of HTTP/2 in a handshake.
pub(crate) const HTTP_2: &[u8] = b"h2";

/// What connections are secured with from now on.
pub(crate) type Current = watch::Receiver<Arc<ServerConfig>>;

/// A file of a certificate that is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCertificate {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for BadCertificate {}

/// The files, and what was made of them.
pub(crate) struct Certificates {
    files: Tls,
    /// What the files looked like when they were read.
    seen: Vec<Option<Stamp>>,
    current: watch::Sender<Arc<ServerConfig>>,
}

/// What differs when a file was replaced or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Certificates {
    /// Reads the files.
    pub(crate) fn load(files: Tls) -> Result<Self, BadCertificate> {
        let seen = stamps(&files);
        let current = watch::Sender::new(Arc::new(read(&files)?));
        Ok(Self { files, seen, current })
    }

    /// What follows the files.
    pub(crate) fn current(&self) -> Current {
        self.current.subscribe()
    }

    /// Reads the files again whenever they have changed, and when `asked` says so. As long as they
    /// are of no use, what was good before stays. Never ends.
    pub(crate) async fn follow(mut self, mut asked: Asked) {
        loop {
            let was_asked = tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => false,
                () = asked.next() => true,
            };
            let files = self.files.clone();
            // A disk that hangs must not hold up the accepting of connections.
            let Ok(seen) = tokio::task::spawn_blocking(move || stamps(&files)).await else {
                return;
            };
            if !was_asked && seen == self.seen {
                continue;
            }
            self.seen = seen;
            let files = self.files.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || read(&files)).await else { return };
            match read {
                Ok(config) => {
                    self.current.send_replace(Arc::new(config));
                    let file = self.files.certificate.display();
                    tracing::info!(%file, "the certificate was read again");
                }
                Err(error) => tracing::error!(%error, "the new certificate is not used"),
            }
        }
    }
}

/// SIGHUP, if the process is the server's own.
pub(crate) struct Asked(Option<Signal>);

impl Asked {
    /// By SIGHUP.
    pub(crate) fn by_signal() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(|signal| Self(Some(signal)))
    }

    /// By nobody.
    pub(crate) fn never() -> Self {
        Self(None)
    }

    async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

fn stamps(files: &Tls) -> Vec<Option<Stamp>> {
    let all = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
    all.into_iter().flatten().map(|file| Stamp::of(file)).collect()
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let found = fs::metadata(file).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        Some(Self { inode: found.ino(), bytes: found.len(), modified })
    }
}

/// Makes of the files what a connection needs. Tickets and sessions of an older certificate, or of
/// clients that an older authority had vouched for, are not honoured: their keys are new.
fn read(files: &Tls) -> Result<ServerConfig, BadCertificate> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| bad(&files.key, pem_problem(&error, "private key")))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&files.certificate, error.to_string()))?;
    let builder = match &files.client_ca {
        Some(file) => builder.with_client_cert_verifier(verifier(file, provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = files.certificate.display();
            bad(&files.key, format!("the key is not that of the certificate in {certificate}"))
        }
        rustls::Error::InvalidCertificate(_) => bad(&files.certificate, error.to_string()),
        _ => bad(&files.key, error.to_string()),
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // Without state here, a client that comes back costs no memory while it is away.
    config.ticketer =
        ring::Ticketer::new().map_err(|error| bad(&files.certificate, error.to_string()))?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(config)
}

/// Clients must have a certificate by an authority in `file`.
fn verifier(
    file: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, BadCertificate> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| bad(file, error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| bad(file, error.to_string()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    let all = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(file, pem_problem(&error, "certificate")))?;
    if all.is_empty() {
        return Err(bad(file, pem_problem(&pem::Error::NoItemsFound, "certificate")));
    }
    Ok(all)
}

fn pem_problem(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("there is no {wanted} in PEM form in it"),
        other => format!("is not PEM: {other}"),
    }
}

fn bad(file: &Path, why: String) -> BadCertificate {
    BadCertificate { file: file.to_owned(), why }
}
