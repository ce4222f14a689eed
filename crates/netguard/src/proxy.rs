//! Speaking to the operator's proxy: who we are there, and the tunnel for TLS.
//!
//! Behind a proxy this side cannot judge what a name resolves to. URLs, names, ports and addresses
//! written in the URL are judged as ever; the proxy has to refuse the rest.

use std::io;

use egress::Proxy;
use http::HeaderValue;
use rustls::pki_types::{DnsName, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::dial::Stream;
use crate::error::FetchError;
use crate::limits::PROXY_HEAD_BYTES_MAX;
use crate::target::Target;

/// The `Proxy-Authorization` for `proxy`, if it has a login. Logs do not show it.
///
/// # Errors
/// If it cannot be in a header.
pub(crate) fn authorization(proxy: &Proxy) -> Result<Option<HeaderValue>, FetchError> {
    let Some(text) = proxy.authorization() else {
        return Ok(None);
    };
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| FetchError::Proxy("its login cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// What the certificate of a proxy has to be for.
///
/// # Errors
/// If no certificate can be for its name.
pub(crate) fn server_name(proxy: &Proxy) -> Result<ServerName<'static>, FetchError> {
    match proxy.host() {
        url::Host::Ipv4(ip) => Ok(ServerName::IpAddress((*ip).into())),
        url::Host::Ipv6(ip) => Ok(ServerName::IpAddress((*ip).into())),
        url::Host::Domain(name) => {
            let name = DnsName::try_from(name.clone());
            let name = name.map_err(|error| FetchError::Tls(io::Error::other(error)))?;
            Ok(ServerName::DnsName(name))
        }
    }
}

/// Asks the proxy at the other end of `stream` for a tunnel to `target`.
///
/// # Errors
/// If it does not open one.
pub(crate) async fn open_tunnel(
    stream: &mut Box<dyn Stream>,
    target: &Target,
    authorization: Option<&HeaderValue>,
) -> Result<(), FetchError> {
    let host = target.url().host_str().unwrap_or_default();
    let port = target.port();
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some(value) = authorization.and_then(|value| value.to_str().ok()) {
        request.push_str("Proxy-Authorization: ");
        request.push_str(value);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    let broken = |error: io::Error| FetchError::Proxy(error.kind().to_string());
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    // TLS to the proxy may hold it back until then.
    stream.flush().await.map_err(broken)?;
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
    match status {
        _ if is_version && status.len() == 3 && status.starts_with('2') => Ok(()),
        "407" => Err(FetchError::ProxyLogin {
            is_sent: authorization.is_some(),
        }),
        _ => Err(FetchError::Proxy(format!("it answered {status:.3}"))),
    }
}
