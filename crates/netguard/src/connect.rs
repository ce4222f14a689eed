//! From judged addresses to a connection: staggered dialling, the proxy's tunnel, TLS by name.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use egress::Proxy;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::HeaderValue;
use rustls::pki_types::{DnsName, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout};

use crate::dial::{Dialer, Stream};
use crate::error::{FetchError, Phase};
use crate::guard::Parts;
use crate::judge::{Admitted, JudgedAddr, Route};
use crate::limits::ATTEMPT_DELAY;
use crate::proxy;
use crate::target::{Host, Target};

/// A connection to an admitted target, ready for HTTP/1.1; with TLS if the target is https.
pub struct Connection {
    stream: Box<dyn Stream>,
    reader: Reader,
}

/// What reads the requests on a connection.
enum Reader {
    /// The server itself, perhaps through a tunnel.
    Server,
    /// A proxy, which wants this header if it has a login.
    Proxy(Option<HeaderValue>),
}

impl Connection {
    /// Whether requests must name the whole URL, because a proxy reads them.
    #[must_use]
    pub fn names_whole_url(&self) -> bool {
        matches!(self.reader, Reader::Proxy(_))
    }

    /// The `Proxy-Authorization` that each request on it must carry, if there is one.
    #[must_use]
    pub fn proxy_authorization(&self) -> Option<&HeaderValue> {
        match &self.reader {
            Reader::Proxy(authorization) => authorization.as_ref(),
            Reader::Server => None,
        }
    }
}

/// Connects to an admitted target within the limit for connecting.
///
/// # Errors
/// If nobody answers, the proxy declines, or the certificate is not the name's.
pub(crate) async fn open(parts: &Parts, admitted: &Admitted) -> Result<Connection, FetchError> {
    let limit = parts.policy.limits.connect;
    let opened = timeout(limit, open_unbounded(parts, admitted)).await;
    let phase = Phase::Connect;
    opened.map_err(|_| FetchError::Timeout { phase, limit })?
}

async fn open_unbounded(parts: &Parts, admitted: &Admitted) -> Result<Connection, FetchError> {
    let target = &admitted.target;
    let stream = match &admitted.route {
        Route::Direct(addresses) => {
            let stream = dial(&*parts.dialer, addresses).await;
            stream.map_err(FetchError::Connect)?
        }
        Route::Proxy(named) => {
            let proxy = &named.proxy;
            let authorization = proxy::authorization(proxy)?;
            let mut stream = dial_proxy(parts, proxy).await?;
            if !target.is_secure() {
                let reader = Reader::Proxy(authorization);
                return Ok(Connection { stream, reader });
            }
            proxy::open_tunnel(&mut stream, target, authorization.as_ref()).await?;
            stream
        }
    };
    let stream = match target.is_secure() {
        true => secured(parts, server_name(target)?, stream).await?,
        false => stream,
    };
    let reader = Reader::Server;
    Ok(Connection { stream, reader })
}

/// A connection to the proxy itself, with TLS if its URL says so.
async fn dial_proxy(parts: &Parts, proxy: &Proxy) -> Result<Box<dyn Stream>, FetchError> {
    let addresses = proxy_addresses(parts, proxy).await?;
    let stream = dial(&*parts.dialer, &addresses).await;
    let stream = stream
        .map_err(|cause| FetchError::Proxy(format!("it cannot be reached ({})", cause.kind())))?;
    if !proxy.is_secure() {
        return Ok(stream);
    }
    let name = proxy::server_name(proxy)?;
    let stream = secured(parts, name, stream).await;
    stream.map_err(|_| FetchError::Proxy("its certificate is not trusted".to_owned()))
}

async fn secured(
    parts: &Parts,
    name: ServerName<'static>,
    stream: Box<dyn Stream>,
) -> Result<Box<dyn Stream>, FetchError> {
    let stream = parts.tls.connector()?.connect(name, stream).await;
    Ok(Box::new(stream.map_err(FetchError::Tls)?))
}

/// Tries the addresses in order, each with a head start before the next joins; the first that
/// answers wins and the others are dropped.
async fn dial(dialer: &dyn Dialer, addresses: &[JudgedAddr]) -> io::Result<Box<dyn Stream>> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = waiting.next();
        let is_last = next.is_none();
        attempts.extend(next.map(|address| dialer.dial(address)));
        loop {
            tokio::select! {
                biased;
                ended = attempts.next() => match ended {
                    Some(Ok(stream)) => return Ok(stream),
                    Some(Err(error)) => {
                        failure = error;
                        if !is_last {
                            break;
                        }
                    }
                    None if is_last => return Err(failure),
                    None => break,
                },
                () = sleep(ATTEMPT_DELAY), if !is_last => break,
            }
        }
    }
}

/// Where the operator's proxy is. The operator may put it wherever they like.
async fn proxy_addresses(parts: &Parts, proxy: &Proxy) -> Result<Vec<JudgedAddr>, FetchError> {
    let addresses: Vec<IpAddr> = match proxy.host() {
        url::Host::Ipv4(ip) => vec![(*ip).into()],
        url::Host::Ipv6(ip) => vec![(*ip).into()],
        url::Host::Domain(name) => {
            let found = timeout(parts.policy.limits.resolve, parts.resolver.resolve(name)).await;
            let found = found.ok().and_then(Result::ok);
            found.ok_or_else(|| FetchError::Proxy("its name could not be resolved".to_owned()))?
        }
    };
    let judged = |ip| JudgedAddr::of_operators_proxy(SocketAddr::new(ip, proxy.port()));
    Ok(addresses.into_iter().map(judged).collect())
}

/// What the certificate has to be for: the name, or the address that the URL itself names.
fn server_name(target: &Target) -> Result<ServerName<'static>, FetchError> {
    match target.host() {
        Host::Literal(ip) => Ok(ServerName::IpAddress((*ip).into())),
        Host::Name(name) => match DnsName::try_from(name.clone()) {
            Ok(name) => Ok(ServerName::DnsName(name)),
            Err(error) => Err(FetchError::Tls(io::Error::other(error))),
        },
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
