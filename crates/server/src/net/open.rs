//! The beginning of a connection: what the client speaks.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::io::Io;
use super::patient::Patient;
use crate::certificates::{Current, HTTP_2};

/// What the first bytes of HTTP/2 are (RFC 9113 §3.4), as far as no request of HTTP/1.1 begins with
/// them: the method is reserved for this.
const PREFACE: &[u8; 3] = b"PRI";

/// How long to rest when less than that has come.
const REST: Duration = Duration::from_millis(10);

/// The answer to a client that speaks plain HTTP where TLS is expected.
const PLAIN_HTTP: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Connection: close\r\nContent-Length: 41\r\n\r\nThis port speaks TLS: use an https: URL.\n\n";

/// A connection whose client has said what it speaks.
pub(super) enum Opened {
    Http1(Io),
    Http2(Io),
    /// It speaks neither, and was told so.
    Refused(Io),
    /// It was gone before anything could be told.
    Gone,
}

/// Finds out what the client speaks. Waits for its first bytes, and for a handshake if there is to
/// be one: for as long as the caller lets it.
pub(super) async fn open(patient: Patient, tls: Option<&Current>) -> Opened {
    match tls {
        None => match begins_with_preface(patient.socket()).await {
            Ok(true) => Opened::Http2(Io::Plain(patient)),
            // Also when there is nothing more: hyper knows how to end.
            Ok(false) | Err(_) => Opened::Http1(Io::Plain(patient)),
        },
        // In a box, since a plain connection does not need its room.
        Some(current) => Box::pin(secure(patient, current)).await,
    }
}

async fn begins_with_preface(socket: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let read = socket.peek(&mut first).await?;
        if read == 0 || first[..read] != PREFACE[..read] {
            return Ok(false);
        }
        if read == first.len() {
            return Ok(true);
        }
        if socket.ready(Interest::READABLE).await?.is_read_closed() {
            return Ok(false);
        }
        // The socket stays readable by what is there, and so cannot tell of more.
        tokio::time::sleep(REST).await;
    }
}

async fn secure(mut patient: Patient, current: &Current) -> Opened {
    let mut first = [0];
    match patient.socket().peek(&mut first).await {
        // A handshake begins with 22, a request with its method.
        Ok(1) if first[0].is_ascii_uppercase() => {
            let _gone = patient.write_all(PLAIN_HTTP.as_bytes()).await.is_err();
            return Opened::Refused(Io::Plain(patient));
        }
        Ok(1..) => {}
        Ok(0) | Err(_) => return Opened::Gone,
    }
    let config = Arc::clone(&current.borrow());
    match TlsAcceptor::from(config).accept(patient).into_fallible().await {
        Ok(tls) if tls.get_ref().1.alpn_protocol() == Some(HTTP_2) => {
            Opened::Http2(Io::Secure(Box::new(tls)))
        }
        Ok(tls) => Opened::Http1(Io::Secure(Box::new(tls))),
        Err((error, patient)) => {
            tracing::debug!(%error, "a handshake failed");
            Opened::Refused(Io::Plain(patient))
        }
    }
}
