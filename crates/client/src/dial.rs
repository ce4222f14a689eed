//! Bytes to a server and back: TCP, TLS over it, or a socket of this machine; and whom TLS trusts.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use egress::{Roots, RootsError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::address::{Address, Place};
use crate::error::TransportError;

/// Bytes in both directions, whatever carries them.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// Which certificates are trusted. The TLS configuration is made when it is first needed.
#[derive(Clone, Default)]
pub struct Trust {
    roots: Roots,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Trust {
    /// Trusts `roots`.
    ///
    /// # Errors
    /// If a file that a setting names holds no certificate.
    pub fn new(roots: Roots) -> Result<Self, RootsError> {
        roots.check()?;
        Ok(Self {
            roots,
            config: Arc::default(),
        })
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let roots = self.roots.load().map_err(io::Error::other)?.store();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust(…)")
    }
}

/// Connects to the place of an address. The caller sets the deadline.
pub(crate) async fn dial(
    address: &Address,
    trust: &Trust,
) -> Result<Box<dyn Bytes>, TransportError> {
    let unreachable = |cause: io::Error| TransportError::Unreachable {
        url: address.url(),
        cause: cause.to_string(),
    };
    match &address.place {
        Place::Tcp { host, port, is_tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.map_err(unreachable)?;
            // Small messages that wait for an answer: Nagle's delay would be felt in each.
            stream.set_nodelay(true).map_err(unreachable)?;
            if !is_tls {
                return Ok(Box::new(stream));
            }
            let name = ServerName::try_from(host.clone());
            let name = name.map_err(|_| TransportError::BadUrl {
                url: address.url(),
                problem: "its host has no name that a certificate could hold",
            })?;
            let connector = TlsConnector::from(trust.config().map_err(unreachable)?);
            let stream = connector.connect(name, stream).await;
            Ok(Box::new(stream.map_err(|cause| shaken(address, &cause))?))
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            Ok(Box::new(stream))
        }
    }
}

/// What a failed handshake means: a certificate that is not believed today is not tomorrow either.
fn shaken(address: &Address, cause: &io::Error) -> TransportError {
    let inner = cause.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let url = address.url();
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => TransportError::Untrusted {
            url,
            cause: format!("{why:?}"),
        },
        Some(_) | None => TransportError::Unreachable {
            url,
            cause: cause.to_string(),
        },
    }
}
