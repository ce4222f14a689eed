//! An ACP client over a WebSocket on any stream: TLS, a Unix socket, whatever carries bytes.

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::client::{AcpClient, DialError};
use crate::program::DEADLINE;

/// Bytes on their way between the client and the socket: more than a story sends at once.
const TUNNEL_BYTES: usize = 1024 * 1024;

/// Opens a WebSocket at `url` through `stream`, with more headers, and says nothing yet. The
/// client sees its end as the end of its input, without a close code.
///
/// # Errors
/// If the server refuses, with its status.
pub async fn websocket_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    url: &str,
    headers: &[(&'static str, String)],
) -> Result<AcpClient, DialError> {
    let mut request = url.into_client_request()?;
    for (name, value) in headers {
        match HeaderValue::from_str(value) {
            Ok(value) => request.headers_mut().append(*name, value),
            Err(error) => panic!("{value} is no header: {error}"),
        };
    }
    let opening = timeout(DEADLINE, client_async(request, stream)).await;
    let (socket, _) = opening.map_err(|_| DialError {
        status: None,
        message: "no answer in time".into(),
    })??;
    let (near, far) = tokio::io::duplex(TUNNEL_BYTES);
    tokio::spawn(carry(socket, far));
    let (reader, writer) = tokio::io::split(near);
    Ok(AcpClient::over(reader, writer))
}

/// Lines one way, frames the other, until either ends.
async fn carry<S>(mut socket: WebSocketStream<S>, tunnel: tokio::io::DuplexStream)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, mut writer) = tokio::io::split(tunnel);
    let mut lines = BufReader::new(reader).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                if socket.send(Message::text(line)).await.is_err() {
                    break;
                }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let line = format!("{text}\n");
                    if writer.write_all(line.as_bytes()).await.is_err() {
                        break;
                    }
                }
                // Pings are answered by the library.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => {}
                Some(Ok(Message::Close(_) | Message::Frame(_)) | Err(_)) | None => break,
            },
        }
    }
    // The server may be gone already, which is as good.
    let _ = socket.close(None).await;
}
