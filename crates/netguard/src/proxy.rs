//! The operator's proxy: set on purpose, never taken from the environment.
//!
//! Behind a proxy this side cannot judge what a name resolves to. URLs, names, ports and addresses
//! written in the URL are judged as ever; the proxy has to refuse the rest.

use std::str::FromStr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::dial::Stream;
use crate::error::FetchError;
use crate::limits::PROXY_HEAD_BYTES_MAX;
use crate::target::Target;

/// An HTTP proxy, written `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) host: url::Host,
    pub(crate) port: u16,
}

/// Why a proxy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write the proxy as http://host:port, without user name or path")]
pub struct ProxyError;

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = url::Url::parse(text).map_err(|_| ProxyError)?;
        let is_plain = url.scheme() == "http"
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none();
        let host = url.host().filter(|_| is_plain).ok_or(ProxyError)?;
        Ok(Self {
            host: host.to_owned(),
            port: url.port_or_known_default().ok_or(ProxyError)?,
        })
    }
}

/// Asks the proxy at the other end of `stream` for a tunnel to `target`.
///
/// # Errors
/// If it does not open one.
pub(crate) async fn open_tunnel(
    stream: &mut Box<dyn Stream>,
    target: &Target,
) -> Result<(), FetchError> {
    let host = target.url().host_str().unwrap_or_default();
    let port = target.port();
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    let broken = |error: std::io::Error| FetchError::Proxy(error.kind().to_string());
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_HEAD_BYTES_MAX {
            return Err(FetchError::Proxy("its answer is too long".to_owned()));
        }
        // One at a time: what follows the head belongs to the tunnel.
        head.push(stream.read_u8().await.map_err(broken)?);
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let is_version = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
    let status = line.split(' ').nth(1).unwrap_or_default();
    if is_version && status.len() == 3 && status.starts_with('2') {
        return Ok(());
    }
    Err(FetchError::Proxy(format!("it answered {status:.3}")))
}
