//! Reading a whole stream: page after page, from its beginning until it is up to date.

use std::io;

use super::connection::Connection;
use super::target::Target;

/// Reads `stream`; `on_bytes` is told of each piece of a body. Returns the length of all bodies.
pub(crate) async fn read_whole(
    target: &Target,
    stream: &str,
    connection: &mut Connection,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<u64> {
    let mut bytes = 0;
    let mut offset = "-1".to_owned();
    loop {
        connection.send(&target.request("GET", &format!("{stream}?offset={offset}"))).await?;
        let mut head = connection.head().await?;
        while let Some(piece) = connection.piece(&mut head.framing).await? {
            let len = piece.len() as u64;
            bytes += len;
            on_bytes(len);
        }
        if !head.keep_alive {
            connection.reopen().await?;
        }
        if !head.is_success() {
            return Err(io::Error::other(format!("the server answered {}", head.status)));
        }
        match head.next_offset {
            _ if head.up_to_date => return Ok(bytes),
            Some(next) if next != offset => offset = next,
            Some(_) => return Err(io::Error::other("the read stands still")),
            None => return Err(io::Error::other("an answer without Stream-Next-Offset")),
        }
    }
}
