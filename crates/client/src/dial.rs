//! Bytes to a server and back: TCP, TLS over it, or a socket of this machine; and whom TLS trusts.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::address::{Address, Place};
use crate::error::TransportError;

/// Bytes in both directions, whatever carries them.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// Which certificates are believed: the public authorities, and those that the person named.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file holds none.
    #[error("{} holds no certificate in PEM form", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// TLS cannot be set up with them.
    #[error("TLS cannot be set up: {0}")]
    Unusable(#[from] rustls::Error),
}

impl Trust {
    /// The public authorities, which are built in.
    ///
    /// # Errors
    /// If TLS cannot be set up at all.
    pub fn public() -> Result<Self, TrustError> {
        static PUBLIC: OnceLock<Trust> = OnceLock::new();
        if let Some(public) = PUBLIC.get() {
            return Ok(public.clone());
        }
        let public = Self::with(RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        })?;
        Ok(PUBLIC.get_or_init(|| public).clone())
    }

    /// The public authorities and the certificates in a file, in PEM form.
    ///
    /// # Errors
    /// If there is no certificate in it that can be used.
    pub fn public_and(path: &Path) -> Result<Self, TrustError> {
        let no_certificate = || TrustError::NoCertificate {
            path: path.to_owned(),
        };
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let found = found.map_err(|_| no_certificate())?;
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        let (added, _) = roots.add_parsable_certificates(found);
        match added {
            0 => Err(no_certificate()),
            _ => Self::with(roots),
        }
    }

    fn with(roots: RootCertStore) -> Result<Self, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
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
            let connector = TlsConnector::from(Arc::clone(&trust.config));
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
