//! The last words on a socket, and the patience to let them arrive.
//!
//! A socket that is closed with unread bytes is reset, and a reset overtakes what was written. So
//! the writing half is closed first, and what still comes is read and thrown away for a while.

use axum::http::StatusCode;
use domain::ConnectionId;
use domain::limits::{LINGER_BYTES_MAX, LINGER_WAIT};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::protect;
use super::socket::Socket;

/// Bytes thrown away at a time.
const DISCARD_BYTES: usize = 8 * 1024;

/// Writes `last`, then waits for the client to have read it.
pub(super) async fn farewell(mut socket: Socket, last: &[u8]) {
    let leaving = async {
        socket.write_all(last).await?;
        socket.shutdown().await?;
        let mut room = LINGER_BYTES_MAX;
        let mut waste = [0; DISCARD_BYTES];
        loop {
            let read = socket.read(&mut waste).await?;
            match room.checked_sub(read) {
                Some(left) if read > 0 => room = left,
                Some(_) | None => return std::io::Result::Ok(()),
            }
        }
    };
    // Late or gone, nobody can be told any more.
    let _ = tokio::time::timeout(LINGER_WAIT, leaving).await;
}

/// An answer in HTTP/1.1 for those whose request never got to a route.
pub(super) fn plain(status: StatusCode, error: &str, message: &str) -> String {
    let request = ConnectionId::random();
    let body = json!({"error": error, "message": message, "requestId": request.as_str()});
    let body = body.to_string();
    let (number, reason) = (status.as_u16(), status.canonical_reason().unwrap_or(""));
    let (length, protection) = (body.len(), protect::lines());
    format!(
        "HTTP/1.1 {number} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         {protection}connection: close\r\n\r\n{body}"
    )
}
