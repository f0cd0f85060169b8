//! Reading a whole stream: page after page, from its beginning until it is up to date.

use std::io;

use super::connection::Connection;
use super::target::Target;

/// What a read of a whole stream took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Whole {
    /// Of all bodies.
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
}

/// Reads `stream`; `on_bytes` is told of each piece of a body.
pub(crate) async fn read_whole(
    target: &Target,
    stream: &str,
    connection: &mut Connection,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<Whole> {
    let mut whole = Whole::default();
    let mut offset = "-1".to_owned();
    loop {
        connection.send(&target.request("GET", &format!("{stream}?offset={offset}"))).await?;
        let mut head = connection.head().await?;
        while let Some(piece) = connection.piece(&mut head.framing).await? {
            let len = piece.len() as u64;
            whole.bytes += len;
            on_bytes(len);
        }
        if !head.keep_alive {
            connection.reopen().await?;
        }
        whole.requests += 1;
        if !head.is_success() {
            return Err(io::Error::other(format!("the server answered {}", head.status)));
        }
        match head.next_offset {
            _ if head.up_to_date => return Ok(whole),
            Some(next) if next != offset => offset = next,
            Some(_) => return Err(io::Error::other("the read stands still")),
            None => return Err(io::Error::other("an answer without Stream-Next-Offset")),
        }
    }
}
