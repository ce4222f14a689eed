//! TLS: the certificate and its key, and the choice of HTTP/2 or HTTP/1.1 by ALPN.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::sniff::Protocol;

/// The name of HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

/// What a server shows to prove who it is.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

/// The certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate in the file.
    #[error("{} holds no certificate in PEM form", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// What was wrong, if it could not even be read.
        source: Option<pem::Error>,
    },
    /// There is no private key in the file.
    #[error("{} holds no private key in PEM form", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        source: pem::Error,
    },
    /// They are not what TLS needs, or do not belong together.
    #[error("the certificate and the key cannot be used together")]
    Unusable(#[from] rustls::Error),
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and its key.
    ///
    /// # Errors
    /// If they are not there or do not belong together.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let no_certificate = |source| TlsError::NoCertificate {
            path: certificate.to_owned(),
            source,
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| no_certificate(Some(error)))?;
        if chain.is_empty() {
            return Err(no_certificate(None));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::NoKey {
            path: key.to_owned(),
            source,
        })?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    /// Shakes hands, and says what the client wants to speak.
    pub(super) async fn accept(
        &self,
        socket: TcpStream,
    ) -> std::io::Result<(TlsStream<TcpStream>, Protocol)> {
        let stream = self.acceptor.accept(socket).await?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(H2) => Protocol::Http2,
            Some(_) | None => Protocol::Http1,
        };
        Ok((stream, protocol))
    }
}
