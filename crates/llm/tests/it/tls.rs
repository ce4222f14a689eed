//! TLS: HTTP/2 where the server offers it, and a company's own certificate authority.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::Limits;
use egress::{RootSources, Roots};
use llm::{ModelSettings, choose};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::formats::{HELLO, OPENAI};
use crate::support::{settings, show};

#[tokio::test]
async fn a_companys_own_authority_is_trusted_and_http_2_shares_one_connection() {
    let server = SecureServer::start().await;
    let settings = ModelSettings {
        roots: trusting(&server.authority),
        ..settings("openai:mock", &server.base, Limits::default())
    };
    let provider = choose(settings).await.unwrap().provider;
    // The first call makes the connection, the others run on it at the same time.
    assert_eq!(show(provider.open().as_mut()).await, HELLO);
    let calls = (0..8).map(|_| async { show(provider.open().as_mut()).await });
    for shown in futures_util::future::join_all(calls).await {
        assert_eq!(shown, HELLO);
    }
    assert_eq!(server.requests.load(Ordering::Relaxed), 9);
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_gets_no_key() {
    let server = SecureServer::start().await;
    let limits = Limits {
        model_call: Duration::from_millis(400),
        ..Limits::default()
    };
    let settings = settings("openai:mock", &server.base, limits);
    let provider = choose(settings).await.unwrap().provider;
    let shown = show(provider.open().as_mut()).await;
    let expected = "error the certificate of the model's server is not trusted";
    assert_eq!(shown.trim_end(), expected);
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
}

fn trusting(authority: &std::path::Path) -> Roots {
    Roots::new(RootSources {
        ca_file: Some(authority.to_owned()),
        ..RootSources::default()
    })
}

/// A server that speaks HTTP/2 over TLS with a certificate of its own making.
struct SecureServer {
    base: String,
    authority: PathBuf,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    _directory: tempfile::TempDir,
}

impl SecureServer {
    async fn start() -> Self {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let authority = directory.path().join("ca.pem");
        std::fs::write(&authority, own.cert.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(AtomicUsize::new(0));
        let (accepted, asked) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(acceptor.clone(), socket, Arc::clone(&asked)));
            }
        });
        Self {
            base,
            authority,
            connections,
            requests,
            _directory: directory,
        }
    }
}

async fn serve(acceptor: TlsAcceptor, socket: TcpStream, asked: Arc<AtomicUsize>) {
    let Ok(socket) = acceptor.accept(socket).await else {
        return;
    };
    let mut connection = h2::server::handshake(socket).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.version(), http::Version::HTTP_2);
        let head = http::Response::builder().header("content-type", "text/event-stream");
        let mut body = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        let bytes = Bytes::from(OPENAI.bytes(OPENAI.hello));
        body.send_data(bytes, true).unwrap();
    }
}
