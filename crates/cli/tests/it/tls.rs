//! TLS: both protocols by ALPN, WebSocket inside it, and what happens without a good certificate.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName};
use testkit::tunnel::websocket_over;
use testkit::{Home, Program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http2::{connect_over, status};
use crate::support::{binary, echo};

/// A server with a certificate of its own, and the certificate.
struct Certified {
    home: Home,
    certificate: CertificateDer<'static>,
}

fn certified() -> Certified {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let home = Home::new(binary(), echo());
    home.write("cert.pem", &made.cert.pem());
    home.write("key.pem", &made.signing_key.serialize_pem());
    let home = home.arg("--tls-cert").arg("cert.pem");
    Certified {
        home: home.arg("--tls-key").arg("key.pem"),
        certificate: made.cert.der().clone(),
    }
}

async fn serve_tls() -> (Program, CertificateDer<'static>) {
    let made = certified();
    (Program::serve_in(made.home).await, made.certificate)
}

/// A connection that trusts that certificate and offers these protocols.
async fn dial(
    server: &Program,
    certificate: &CertificateDer<'static>,
    protocols: &[&[u8]],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let address = server.url().strip_prefix("https://").unwrap();
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, socket).await.unwrap()
}

fn host(server: &Program) -> &str {
    server.url().strip_prefix("https://").unwrap()
}

#[tokio::test]
async fn a_websocket_works_over_tls_and_the_ready_line_says_https() {
    let (server, certificate) = serve_tls().await;
    assert!(server.url().starts_with("https://127.0.0.1:"));
    let stream = dial(&server, &certificate, &[b"http/1.1"]).await;
    let bearer = [("authorization", format!("Bearer {}", server.token()))];
    let url = format!("ws://{}/acp", host(&server));
    let client = websocket_over(stream, &url, &bearer).await.unwrap();
    let mut client = client.in_directory(server.home().workspace());
    client.initialize().await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");

    let stream = dial(&server, &certificate, &[]).await;
    let refused = websocket_over(stream, &url, &[]).await.err();
    assert_eq!(refused.and_then(|error| error.status), Some(401));
}

#[tokio::test]
async fn alpn_chooses_http_2_or_http_1() {
    let (server, certificate) = serve_tls().await;
    let stream = dial(&server, &certificate, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = connect_over(stream).await;
    let url = |path: &str| format!("https://{}{path}", host(&server));
    assert_eq!(status(&mut client, "GET", &url("/health"), &[]).await, 200);
    assert_eq!(status(&mut client, "GET", &url("/acp"), &[]).await, 401);
    let foreign = "https://evil.example/acp";
    assert_eq!(status(&mut client, "GET", foreign, &[]).await, 403);

    for offered in [&[&b"http/1.1"[..]][..], &[]] {
        let mut stream = dial(&server, &certificate, offered).await;
        assert_ne!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let request = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

#[tokio::test]
async fn a_handshake_that_never_comes_is_given_up() {
    let made = certified();
    let home = made.home.env("FASTNESS_LIMITS_HANDSHAKE_MS", 300);
    let server = Program::serve_in(home).await;
    for begun in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut socket = TcpStream::connect(host(&server)).await.unwrap();
        socket.write_all(begun).await.unwrap();
        testkit::raw::ended(&mut socket).await;
    }
    let mut client = connect_over(dial(&server, &made.certificate, &[b"h2"]).await).await;
    let url = format!("https://{}/health", host(&server));
    assert_eq!(status(&mut client, "GET", &url, &[]).await, 200);
}

#[tokio::test]
async fn without_a_good_certificate_it_does_not_start_and_says_why() {
    let made = certified();
    let home = made.home;
    let refused = async |what: &str| {
        let mut command = home.command("serve");
        let output = command.args(["--listen", "127.0.0.1:0"]).output();
        let output = output.await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(what), "{said}");
    };
    let certificate = home.read("cert.pem").unwrap();
    home.write("cert.pem", "nothing");
    refused("holds no certificate").await;
    home.write("cert.pem", &certificate);
    home.write("key.pem", &certificate);
    refused("holds no private key").await;
    let other = rcgen::KeyPair::generate().unwrap();
    home.write("key.pem", &other.serialize_pem());
    refused("cannot be used together").await;
}

#[tokio::test]
async fn beyond_this_machine_it_is_reached_by_the_names_it_was_given() {
    let made = certified();
    let home = made.home.arg("--allow-host").arg("box.example");
    let home = home.arg("--listen").arg("0.0.0.0:0");
    let mut command = home.command("serve");
    let mut process = command.spawn().unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(
        process.stdout.take().unwrap(),
    ));
    let ready = lines.next_line().await.unwrap().unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let url = ready["url"].as_str().unwrap();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    process.start_kill().unwrap();
}
