//! TLS: public authorities built in, more on request, nothing that turns checks off.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// A connector that trusts the public authorities and `roots`.
///
/// # Errors
/// If one of `roots` is not a certificate.
pub(crate) fn connector(roots: &[CertificateDer<'static>]) -> Result<TlsConnector, rustls::Error> {
    let mut store = RootCertStore::empty();
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for root in roots {
        store.add(root.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth();
    // HTTP/1.1 only: one connection serves one request to one host, so nothing is ever coalesced.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing of one fetch is carried into another.
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}
