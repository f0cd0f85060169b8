//! A certificate for this machine alone, which no authority vouches for: to try TLS with.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rcgen::{CertificateParams, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::config::Tls;

/// Who may read the directory and the files.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A certificate that was made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfSigned {
    /// Its files.
    pub tls: Tls,
    /// The SHA-256 of the certificate, as browsers show it: `AB:CD:…`.
    pub fingerprint: String,
}

/// The certificate in `directory`, made anew if there is none. It is for `localhost`, for the
/// addresses of loopback, and for `address` if that names one of this machine.
pub fn obtain(directory: &Path, address: IpAddr) -> io::Result<SelfSigned> {
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    if !(certificate.exists() && key.exists()) {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        let pair = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(names(address)).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, "headwater dev");
        let made = params.self_signed(&pair).map_err(io::Error::other)?;
        write(&key, &pair.serialize_pem())?;
        write(&certificate, &made.pem())?;
    }
    let der = CertificateDer::from_pem_file(&certificate)
        .map_err(|error| io::Error::other(format!("{}: {error}", certificate.display())))?;
    let fingerprint: Vec<String> =
        digest(&SHA256, &der).as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    let fingerprint = fingerprint.join(":");
    Ok(SelfSigned { tls: Tls { certificate, key, client_ca: None }, fingerprint })
}

fn names(address: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    names
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    options.open(file)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_certificate_stays_the_same_and_nobody_else_may_read_its_key() {
        let home =
            std::env::temp_dir().join(format!("headwater-self-signed-{}", std::process::id()));
        let first = obtain(&home, "127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(first.fingerprint.len(), 32 * 3 - 1);
        for file in [&first.tls.certificate, &first.tls.key] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, FILE_MODE);
        }
        assert_eq!(obtain(&home, "127.0.0.1".parse().unwrap()).unwrap(), first);
        fs::remove_dir_all(&home).unwrap();
    }
}
