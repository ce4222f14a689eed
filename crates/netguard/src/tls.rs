//! TLS: the shared root store, and nothing that turns checks off.

use std::io;
use std::sync::{Arc, OnceLock};

use egress::Roots;
use rustls::ClientConfig;
use rustls::client::Resumption;
use tokio_rustls::TlsConnector;

use crate::error::FetchError;

/// The TLS configuration of a guard, made when it is first needed: roots take milliseconds to load.
pub(crate) struct Tls {
    roots: Roots,
    connector: OnceLock<TlsConnector>,
}

impl Tls {
    /// TLS that trusts `roots`.
    pub(crate) fn new(roots: Roots) -> Self {
        Self {
            roots,
            connector: OnceLock::new(),
        }
    }

    /// The connector.
    ///
    /// # Errors
    /// If the roots cannot be used.
    pub(crate) fn connector(&self) -> Result<&TlsConnector, FetchError> {
        if let Some(connector) = self.connector.get() {
            return Ok(connector);
        }
        let made = connector(&self.roots).map_err(FetchError::Tls)?;
        Ok(self.connector.get_or_init(|| made))
    }
}

fn connector(roots: &Roots) -> io::Result<TlsConnector> {
    let store = roots.load().map_err(io::Error::other)?.store();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(store)
        .with_no_client_auth();
    // HTTP/1.1 only: one connection serves one request to one host, so nothing is ever coalesced.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing of one fetch is carried into another.
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}
