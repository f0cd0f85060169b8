//! What happens at the limits that requests and live readers have together ([`crate::limits`]).

use std::net::IpAddr;

use headwater_core::ids::StreamId;
use http::request::Parts;
use http::{Request, StatusCode};
use tokio::net::TcpStream;

use super::App;
use super::respond::Failure;
use super::routes::Verb;
use crate::auth::Access;
use crate::limits::{Client, Seat, Turn};

/// Where a request comes from; known while clients are counted by their addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    /// Notes it with a request.
    pub(crate) fn mark<B>(self, request: &mut Request<B>) {
        request.extensions_mut().insert(self);
    }
}

impl App {
    /// Who is at the other end, if that matters.
    pub(crate) fn peer(&self, socket: &TcpStream) -> Option<Peer> {
        if self.gate.is_patient() {
            return None;
        }
        socket.peer_addr().ok().map(|address| Peer(address.ip()))
    }

    /// Lets a request in, while there are not too many; live readers are counted elsewhere.
    pub(super) fn turn(&self, head: &Parts, verb: Verb) -> Result<Option<Turn<'_>>, Failure> {
        if verb == Verb::Read && is_live(head.uri.query()) {
            return Ok(None);
        }
        let turn = self.gate.enter(!super::is_get(&head.method)).map_err(|limit| {
            let detail = "Too many requests are being answered. Reads may be when writes are not.";
            Failure::busy(detail, limit as u64).named("max-requests").closing()
        });
        turn.map(Some)
    }

    /// Counts a request of whoever has a key, or of an address: links are handed to many, and what
    /// is turned away has no key.
    pub(super) fn count_request(
        &self,
        head: &Parts,
        access: Option<&Access>,
    ) -> Result<(), Failure> {
        let Some(rate) = self.config.limits.rate else { return Ok(()) };
        let key = access.filter(|access| !access.is_link()).and_then(Access::key);
        let client = match (key, head.extensions.get::<Peer>()) {
            (Some(key), _) => Client::Key(key),
            (None, Some(Peer(address))) => Client::at(*address),
            // A connection that was gone before it could be asked.
            (None, None) => Client::at(IpAddr::from([0; 4])),
        };
        self.gate.ask(client, self.engine.now().node).map_err(|wait| {
            let limit = u64::from(rate.per_second.get());
            let detail = format!("This client may send {limit} requests a second in the long run.");
            let status = StatusCode::TOO_MANY_REQUESTS;
            Failure::limit(status, "RATE_LIMITED", "Too many requests", detail, limit)
                .named("max-request-rate")
                .retry_after(wait.as_secs() + 1)
        })
    }

    /// Lets a live reader of a stream in, while there are not too many.
    pub(super) fn seat(&self, stream: StreamId) -> Result<Seat, Failure> {
        let seat = self.gate.sit().map_err(|limit| {
            let detail = "Too many live readers are connected.";
            Failure::busy(detail, limit as u64).named("max-live-readers")
        })?;
        let max = self.config.limits.stream_readers_max;
        if let Some(max) = max.filter(|max| self.engine.readers(stream) >= *max) {
            let detail = "The stream has as many live readers as it may.";
            let status = StatusCode::TOO_MANY_REQUESTS;
            let failure =
                Failure::limit(status, "TOO_MANY_READERS", "Too many readers", detail, max as u64);
            return Err(failure.named("max-stream-readers").retry_after(1));
        }
        Ok(seat)
    }
}

/// Whether a read asks to stay.
fn is_live(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.starts_with("live=")))
}
