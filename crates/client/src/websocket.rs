//! Frames over a WebSocket: the address, the handshake, and what its errors mean.

use std::path::PathBuf;
use std::time::Duration;

use domain::Limits;
use futures_util::{SinkExt, StreamExt, future};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, Uri, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::error::TransportError;
use crate::transport::{FrameIn, FrameOut, Heartbeat, Transport};

/// Where the server listens when the address does not say.
const DEFAULT_PORT: u16 = 80;
/// Where ACP lives when the address names only a host.
const DEFAULT_PATH: &str = "/acp";

impl Transport {
    /// Connects to the server at `url`, in the way that its scheme names:
    ///
    /// * `ws://HOST:PORT` or `http://HOST:PORT`: a WebSocket; the path defaults to `/acp`
    /// * `unix:PATH`: a WebSocket over a socket of this machine, where no token is needed
    ///
    /// # Errors
    /// If the address is not usable, nobody answers there, or the server refuses.
    pub async fn open(
        url: &str,
        token: Option<&str>,
        limits: &Limits,
    ) -> Result<Self, TransportError> {
        Self::websocket(url, token, limits).await
    }

    /// Connects to the server at `url` (`ws://`, `http://` or `unix:`) over a WebSocket.
    ///
    /// The whole of connecting and shaking hands ends within `limits.client_connect`.
    ///
    /// # Errors
    /// If the address is not usable, nobody answers there, or the server refuses.
    pub async fn websocket(
        url: &str,
        token: Option<&str>,
        limits: &Limits,
    ) -> Result<Self, TransportError> {
        let address = Address::parse(url)?;
        let transport = tokio::time::timeout(limits.client_connect, open(&address, token, limits))
            .await
            .map_err(|_| TransportError::ConnectTimeout {
                url: address.url(),
                seconds: limits.client_connect.as_secs_f64(),
            })??;
        tracing::debug!(url = %address.url(), "connected");
        Ok(transport)
    }
}

/// Where to connect, in parts.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    place: Place,
    /// Host and port as the Host header wants them.
    authority: String,
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Tcp {
        /// Without the brackets of an IPv6 address.
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

impl Address {
    fn parse(url: &str) -> Result<Self, TransportError> {
        let bad = |problem| TransportError::BadUrl {
            url: url.to_owned(),
            problem,
        };
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(bad("it names no socket"));
            }
            return Ok(Self {
                place: Place::Unix(path.into()),
                authority: "localhost".to_owned(),
                path: DEFAULT_PATH.to_owned(),
            });
        }
        let uri: Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
        match uri.scheme_str() {
            Some("ws" | "http") => {}
            Some("wss" | "https") => return Err(bad("TLS is not supported yet; use ws://")),
            _ => return Err(bad("it must start with ws://, http:// or unix:")),
        }
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(TransportError::BadUrl {
                // Whatever stands before the `@` may be a secret.
                url: format!("…@{}", authority.host()),
                problem: "a name or password does not belong in it; use a token",
            });
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("" | "/") => DEFAULT_PATH,
            Some(path) => path,
        };
        Ok(Self {
            place: Place::Tcp {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: authority.port_u16().unwrap_or(DEFAULT_PORT),
            },
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
        })
    }

    /// The address as people write it.
    fn url(&self) -> String {
        match &self.place {
            Place::Tcp { .. } => self.request_url(),
            Place::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// What stands in the request.
    fn request_url(&self) -> String {
        format!("ws://{}{}", self.authority, self.path)
    }

    fn request(&self, token: Option<&str>) -> Result<Request, TransportError> {
        let bad = |problem| TransportError::BadUrl {
            url: self.url(),
            problem,
        };
        let mut request = self
            .request_url()
            .into_client_request()
            .map_err(|_| bad("it is not a URL"))?;
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| bad("the token for it holds characters that cannot be sent"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        Ok(request)
    }
}

async fn open(
    address: &Address,
    token: Option<&str>,
    limits: &Limits,
) -> Result<Transport, TransportError> {
    let request = address.request(token)?;
    let unreachable = |cause: std::io::Error| TransportError::Unreachable {
        url: address.url(),
        cause: cause.to_string(),
    };
    match &address.place {
        Place::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.map_err(unreachable)?;
            // Small messages that wait for an answer: Nagle's delay would be felt in each.
            stream.set_nodelay(true).map_err(unreachable)?;
            shake_hands(address, request, stream, limits).await
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            shake_hands(address, request, stream, limits).await
        }
    }
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

#[cfg(test)]
mod tests {
    use super::{Address, Place};

    #[test]
    fn an_address_needs_only_a_scheme_and_a_host() {
        let url = |text: &str| Address::parse(text).map(|address| address.url());
        for (given, meant) in [
            ("http://127.0.0.1:4600", "ws://127.0.0.1:4600/acp"),
            ("ws://127.0.0.1:4600/", "ws://127.0.0.1:4600/acp"),
            ("ws://[::1]:4600/ws", "ws://[::1]:4600/ws"),
            ("http://host", "ws://host/acp"),
            ("unix:run/socket", "unix:run/socket"),
            ("unix:///run/socket", "unix:/run/socket"),
        ] {
            assert_eq!(url(given).as_deref(), Ok(meant));
        }
        let host = "::1".to_owned();
        let place = Address::parse("ws://[::1]:1").unwrap().place;
        assert_eq!(place, Place::Tcp { host, port: 1 });
    }

    #[test]
    fn addresses_that_cannot_work_say_why() {
        for (given, problem) in [
            ("127.0.0.1:4600", "it must start with ws://"),
            ("unix:", "it names no socket"),
            ("https://host", "TLS is not supported yet"),
            ("ws://me:secret@host", "use a token"),
            ("ws://", "it is not a URL"),
        ] {
            let error = Address::parse(given).unwrap_err().to_string();
            assert!(error.contains(problem), "{given}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
