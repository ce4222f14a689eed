//! Real certificates over real sockets: whoever answers has to be who the URL names.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use netguard::{Exception, FetchError, FixedResolver, Guard, Policy, RedirectFault, Refusal};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{head_of, ips, ok, public, redirect};

/// A certificate authority of this test.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// A server with a certificate for `names` that answers requests as `serve` says.
    async fn server(
        &self,
        names: &[&str],
        serve: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Server {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.server_with(CertificateParams::new(names).unwrap(), serve)
            .await
    }

    async fn server_with(
        &self,
        params: CertificateParams,
        serve: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Server {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let server = Server {
            address,
            seen: Arc::clone(&seen),
        };
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(socket).await else {
                    continue;
                };
                let session = stream.get_ref().1;
                let mut one = Seen {
                    name: session.server_name().map(str::to_owned),
                    protocol: session.alpn_protocol().map(<[u8]>::to_vec),
                    request: String::new(),
                };
                one.request = head_of(&mut stream).await;
                let answer = serve(&one.request);
                seen.lock().unwrap().push(one);
                // The guard may have gone already.
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        server
    }
}

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// What a server saw of a client.
#[derive(Clone, Debug)]
struct Seen {
    name: Option<String>,
    protocol: Option<Vec<u8>>,
    request: String,
}

impl Server {
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// A guard that trusts `authority` and reaches `hosts` on this machine, as an operator may allow.
fn guard(authority: Option<&Authority>, hosts: &[(&str, &Server)]) -> Guard {
    let entry = |host: &str, server: &Server| format!("{host}:{}", server.address.port());
    let entries = hosts.iter().map(|(host, server)| entry(host, server));
    let policy = Policy {
        exceptions: entries
            .map(|text| text.parse::<Exception>().unwrap())
            .collect(),
        ..Policy::default()
    };
    let mut resolver = FixedResolver::before(Arc::new(public()));
    for (host, _) in hosts {
        resolver = resolver.answer(host, ips(&["127.0.0.1"]));
    }
    let mut builder = Guard::builder(policy).resolver(resolver);
    if let Some(authority) = authority {
        builder = builder.root(authority.certificate.clone());
    }
    builder.build().unwrap()
}

fn url(host: &str, server: &Server) -> String {
    format!("https://{host}:{}/path?q", server.address.port())
}

#[tokio::test]
pub(crate) async fn sni_host_and_certificate_are_about_the_name_while_the_judged_address_is_dialled()
 {
    let authority = Authority::new();
    let server = authority.server(&["site.example"], |_| ok("hello")).await;
    let guard = guard(Some(&authority), &[("site.example", &server)]);
    let response = guard.get(&url("SITE.example.", &server)).await.unwrap();
    assert_eq!(response.body, "hello");
    let seen = server.seen().remove(0);
    assert_eq!(seen.name.as_deref(), Some("site.example"));
    assert_eq!(
        seen.protocol.as_deref(),
        Some(&b"http/1.1"[..]),
        "HTTP/2 is not offered"
    );
    let host = format!("\r\nhost: site.example:{}\r\n", server.address.port());
    assert!(
        seen.request.starts_with("GET /path?q HTTP/1.1\r\n"),
        "{seen:?}"
    );
    assert!(seen.request.contains(&host), "{seen:?}");
}

#[tokio::test]
pub(crate) async fn a_certificate_for_another_name_or_from_a_stranger_fails_before_anything_is_sent()
 {
    let authority = Authority::new();
    let wrong = authority
        .server(&["other.example", "127.0.0.1"], |_| ok("x"))
        .await;
    let right = authority.server(&["site.example"], |_| ok("x")).await;
    let mut old = CertificateParams::new(vec!["site.example".to_owned()]).unwrap();
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let expired = authority.server_with(old, |_| ok("x")).await;
    for (trusted, server) in [
        (Some(&authority), &wrong),
        (None, &right),
        (Some(&authority), &expired),
    ] {
        let guard = guard(trusted, &[("site.example", server)]);
        let failed = guard.get(&url("site.example", server)).await.unwrap_err();
        assert!(matches!(failed, FetchError::Tls(_)), "{failed:?}");
        assert!(!failed.to_string().contains("127.0.0.1"), "{failed}");
        assert!(server.seen().is_empty(), "a request was sent");
    }
}

#[tokio::test]
pub(crate) async fn an_address_in_an_https_url_has_to_stand_in_the_certificate() {
    let authority = Authority::new();
    let with = authority.server(&["127.0.0.1"], |_| ok("by address")).await;
    let without = authority.server(&["site.example"], |_| ok("x")).await;
    let guard = guard(
        Some(&authority),
        &[("127.0.0.1", &with), ("127.0.0.1", &without)],
    );
    let response = guard.get(&url("127.0.0.1", &with)).await.unwrap();
    assert_eq!(response.body, "by address");
    assert_eq!(with.seen()[0].name, None, "an address is no server name");
    let failed = guard.get(&url("127.0.0.1", &without)).await.unwrap_err();
    assert!(matches!(failed, FetchError::Tls(_)), "{failed:?}");
}

#[tokio::test]
pub(crate) async fn a_redirect_from_https_to_http_is_refused() {
    let authority = Authority::new();
    let server = authority
        .server(&["site.example"], |_| redirect(302, "http://b.example/"))
        .await;
    let guard = guard(Some(&authority), &[("site.example", &server)]);
    let refused = guard
        .get(&url("site.example", &server))
        .await
        .unwrap_err()
        .refusal();
    assert_eq!(refused, Some(Refusal::Redirect(RedirectFault::Downgrade)));
}

#[tokio::test]
pub(crate) async fn each_hop_proves_its_own_name_over_its_own_connection() {
    let authority = Authority::new();
    let end = authority.server(&["end.example"], |_| ok("the end")).await;
    let there = url("end.example", &end);
    let start = authority
        .server(&["start.example", "end.example"], move |_| {
            redirect(307, &there)
        })
        .await;
    let hosts = [("start.example", &start), ("end.example", &end)];
    let response = guard(Some(&authority), &hosts)
        .get(&url("start.example", &start))
        .await;
    assert_eq!(response.unwrap().body, "the end");
    // The first certificate is good for both names, yet the second name has its own connection.
    assert_eq!((start.seen().len(), end.seen().len()), (1, 1));
    assert_eq!(end.seen()[0].name.as_deref(), Some("end.example"));

    let impostor = authority.server(&["start.example"], |_| ok("x")).await;
    let there = url("end.example", &impostor);
    let start = authority
        .server(&["start.example"], move |_| redirect(302, &there))
        .await;
    let hosts = [("start.example", &start), ("end.example", &impostor)];
    let failed = guard(Some(&authority), &hosts)
        .get(&url("start.example", &start))
        .await;
    assert!(matches!(failed, Err(FetchError::Tls(_))), "{failed:?}");
}
