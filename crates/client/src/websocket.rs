//! Frames over a WebSocket: the handshake, and what its errors mean.

use std::time::Duration;

use domain::Limits;
use futures_util::{SinkExt, StreamExt, future};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::address::Address;
use crate::dial::{Trust, dial};
use crate::error::TransportError;
use crate::transport::{FrameIn, FrameOut, Heartbeat, Transport};

/// Connects and shakes hands. The caller sets the deadline.
pub(crate) async fn open(
    address: &Address,
    token: Option<&str>,
    trust: &Trust,
    limits: &Limits,
) -> Result<Transport, TransportError> {
    let request = request(address, token)?;
    let stream = dial(address, trust).await?;
    shake_hands(address, request, stream, limits).await
}

fn request(address: &Address, token: Option<&str>) -> Result<Request, TransportError> {
    let bad = |problem| TransportError::BadUrl {
        url: address.url(),
        problem,
    };
    // What is encrypted, and by whom, is no business of the request's.
    let request = format!("ws://{}{}", address.authority, address.path);
    let request = request.into_client_request();
    let mut request = request.map_err(|_| bad("it is not a URL"))?;
    if let Some(token) = token {
        let value = bearer(address, token)?;
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    Ok(request)
}

/// The header that shows a token.
pub(crate) fn bearer(address: &Address, token: &str) -> Result<HeaderValue, TransportError> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| TransportError::BadUrl {
        url: address.url(),
        problem: "the token for it holds characters that cannot be sent",
    })?;
    value.set_sensitive(true);
    Ok(value)
}

async fn shake_hands<S>(
    address: &Address,
    request: Request,
    stream: S,
    limits: &Limits,
) -> Result<Transport, TransportError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(limits.message_bytes_max);
    config.max_frame_size = Some(limits.message_bytes_max);
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(over_socket(socket, limits.ping, limits.client_silence)),
        Err(tungstenite::Error::Http(answer)) => Err(match answer.status() {
            StatusCode::UNAUTHORIZED => TransportError::Unauthorized { url: address.url() },
            status => TransportError::Refused {
                url: address.url(),
                status: status.as_u16(),
            },
        }),
        Err(cause) => Err(TransportError::Unreachable {
            url: address.url(),
            cause: cause.to_string(),
        }),
    }
}

fn over_socket<S>(socket: WebSocketStream<S>, ping: Duration, silence: Duration) -> Transport
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, stream) = socket.split();
    let frames_in = stream.map(|message| match message {
        Ok(Message::Text(text)) => Ok(FrameIn::Text(text.as_str().to_owned())),
        Ok(Message::Close(frame)) => Err(TransportError::ClosedByServer {
            code: frame.as_ref().map(|frame| frame.code.into()),
            reason: frame
                .map(|frame| frame.reason.to_string())
                .unwrap_or_default(),
        }),
        // The library answers pings by itself while we read; binary frames mean nothing in ACP.
        Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_)) => {
            Ok(FrameIn::Life)
        }
        Err(error) => Err(meaning(&error)),
    });
    let frames_out = sink.sink_map_err(|error| meaning(&error)).with(|frame| {
        future::ok::<_, TransportError>(match frame {
            FrameOut::Text(text) => Message::text(text),
            FrameOut::Ping => Message::Ping(tungstenite::Bytes::new()),
        })
    });
    Transport::new(frames_in, frames_out, Some(Heartbeat { ping, silence }))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's errors: only an end differs from a break"
)]
fn meaning(error: &tungstenite::Error) -> TransportError {
    use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    match error {
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Protocol(ResetWithoutClosingHandshake) => {
            TransportError::ClosedByServer {
                code: None,
                reason: String::new(),
            }
        }
        other => TransportError::Broken {
            cause: other.to_string(),
        },
    }
}
