//! From judged addresses to a connection: staggered dialling, the proxy's tunnel, TLS by name.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::pki_types::{DnsName, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout};

use crate::dial::{Dialer, Stream};
use crate::error::{FetchError, Phase};
use crate::guard::Parts;
use crate::judge::{Admitted, JudgedAddr, Route};
use crate::limits::ATTEMPT_DELAY;
use crate::proxy::{self, Proxy};
use crate::target::{Host, Target};

/// A connection to an admitted target, ready for HTTP/1.1; with TLS if the target is https.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// Whether requests name the whole URL, because a proxy reads them.
    pub(crate) is_to_proxy: bool,
}

impl Connection {
    /// Whether requests must name the whole URL, because a proxy reads them.
    #[must_use]
    pub fn names_whole_url(&self) -> bool {
        self.is_to_proxy
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
    let (mut stream, is_proxied) = match &admitted.route {
        Route::Direct(addresses) => (dial(&*parts.dialer, addresses).await?, false),
        Route::Proxy => (
            dial(&*parts.dialer, &proxy_addresses(parts).await?).await?,
            true,
        ),
    };
    if !target.is_secure() {
        return Ok(Connection {
            stream,
            is_to_proxy: is_proxied,
        });
    }
    if is_proxied {
        proxy::open_tunnel(&mut stream, target).await?;
    }
    let name = server_name(target)?;
    let secured = parts.tls.connect(name, stream).await;
    Ok(Connection {
        stream: Box::new(secured.map_err(FetchError::Tls)?),
        is_to_proxy: false,
    })
}

/// Tries the addresses in order, each with a head start before the next joins; the first that
/// answers wins and the others are dropped.
async fn dial(
    dialer: &dyn Dialer,
    addresses: &[JudgedAddr],
) -> Result<Box<dyn Stream>, FetchError> {
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
                    None if is_last => return Err(FetchError::Connect(failure)),
                    None => break,
                },
                () = sleep(ATTEMPT_DELAY), if !is_last => break,
            }
        }
    }
}

/// Where the operator's proxy is. The operator may put it wherever they like.
async fn proxy_addresses(parts: &Parts) -> Result<Vec<JudgedAddr>, FetchError> {
    let Some(Proxy { host, port }) = &parts.policy.proxy else {
        return Err(FetchError::Proxy("none is set".to_owned()));
    };
    let addresses: Vec<IpAddr> = match host {
        url::Host::Ipv4(ip) => vec![(*ip).into()],
        url::Host::Ipv6(ip) => vec![(*ip).into()],
        url::Host::Domain(name) => {
            let found = timeout(parts.policy.limits.resolve, parts.resolver.resolve(name)).await;
            let found = found.ok().and_then(Result::ok);
            found.ok_or_else(|| FetchError::Proxy("its name could not be resolved".to_owned()))?
        }
    };
    let judged = |ip| JudgedAddr::of_operators_proxy(SocketAddr::new(ip, *port));
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
