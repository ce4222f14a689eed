//! Inside a company: certificates of the system's store, and a proxy that wants a login.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use testkit::model::{ModelReply, RecordingModel, Speech, text};
use testkit::{AcpClient, Home, Program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::hooks::configure;
use crate::project::run;
use crate::support::binary;

/// The name of the model's server that only the proxy can resolve.
const HOST: &str = "models.company.test";
/// `me:open sesame`, as `Proxy-Authorization` has it.
const LOGIN: &str = "Basic bWU6b3BlbiBzZXNhbWU=";
const USER: &str = "me:open%20sesame";

/// A model behind TLS whose certificate was signed by an authority of this test.
struct Company {
    model: RecordingModel,
    /// Where TLS is spoken.
    address: SocketAddr,
    /// The authority, in PEM.
    authority: String,
}

impl Company {
    async fn start() -> Self {
        let says = ModelReply::Says(vec![text("from the company")]);
        let model = RecordingModel::speaking(Speech::OpenAiChat, vec![says]).await;
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), HOST.to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let behind = model.url().trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    let mut outer = acceptor.accept(socket).await.ok()?;
                    let mut inner = TcpStream::connect(behind).await.ok()?;
                    copy_bidirectional(&mut outer, &mut inner).await.ok()
                });
            }
        });
        Self {
            model,
            address,
            authority,
        }
    }

    /// A home whose model is reached at `base`.
    fn home(&self, base: &str) -> Home {
        let home = Home::new(binary(), testkit::Script::says("unused"));
        home.model("openai-chat:mock")
            .env("OPENAI_BASE_URL", base)
            .env("OPENAI_API_KEY", "sk-the-key-of-this-test")
    }

    /// The base of the model without a proxy.
    fn direct(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }
}

/// Has every program of `home` see `store` as the system's certificate store.
fn with_system_store(home: Home, store: &Path) -> Home {
    let store = store.to_str().unwrap().to_owned();
    let mut wrapper = vec!["bwrap", "--die-with-parent", "--dev-bind", "/", "/"];
    wrapper.extend(["--bind", store.as_str(), "/etc/ssl/certs", "--"]);
    home.under(&wrapper)
}

#[tokio::test]
async fn a_ca_that_only_the_system_store_has_is_trusted() {
    let company = Company::start().await;
    let store = tempfile_dir();
    std::fs::write(store.path().join("company.crt"), &company.authority).unwrap();
    let home = with_system_store(company.home(&company.direct()), store.path());
    let (told, code) = run(&home, "ask", &["hello"]).await;
    assert_eq!(code, Some(0), "bubblewrap is needed: {told}");
    assert!(told.contains("from the company"), "{told}");
    assert_eq!(company.model.requests().len(), 1);
    let (told, _) = run(&home, "doctor", &[]).await;
    let expected = format!(
        "{} answers (trusting 1 certificates of the system store)",
        company.direct()
    );
    assert!(told.contains(&expected), "{told}");
}

#[tokio::test]
async fn bundled_roots_are_used_when_the_system_store_is_empty() {
    let company = Company::start().await;
    let store = tempfile_dir();
    let home = with_system_store(company.home(&company.direct()), store.path());
    let (told, _) = run(&home, "doctor", &[]).await;
    assert!(
        told.contains("bundled certificates (the system store is empty)"),
        "{told}"
    );
    assert!(
        told.contains("has a certificate that is not trusted"),
        "{told}"
    );
    let (told, code) = run(&home, "ask", &["hello"]).await;
    assert_eq!(code, Some(1), "{told}");
    let expected = "the certificate of the model's server is not trusted";
    assert!(told.contains(expected), "{told}");
    assert!(company.model.requests().is_empty(), "no key was sent");
}

#[tokio::test]
async fn ssl_cert_dir_and_ssl_cert_file_add_to_the_system_store() {
    for variable in ["SSL_CERT_DIR", "SSL_CERT_FILE"] {
        let company = Company::start().await;
        let store = tempfile_dir();
        let file = store.path().join("company.pem");
        std::fs::write(&file, &company.authority).unwrap();
        let value = match variable {
            "SSL_CERT_FILE" => file.display().to_string(),
            _ => format!("/nowhere:{}", store.path().display()),
        };
        let home = company.home(&company.direct()).env(variable, value);
        let (told, code) = run(&home, "ask", &["hello"]).await;
        assert_eq!(code, Some(0), "{variable}: {told}");
        assert!(told.contains("from the company"), "{told}");
        let (told, _) = run(&home, "doctor", &[]).await;
        assert!(told.contains("and 1 of your own"), "{variable}: {told}");
    }
}

/// A proxy that wants a login, and connects every name to one address.
struct LocalProxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl LocalProxy {
    async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(tunnel(socket, target, Arc::clone(&seen)));
            }
        });
        Self { address, heads }
    }

    fn url(&self, user: &str) -> String {
        format!("http://{user}@{}", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn tunnel(
    mut socket: TcpStream,
    target: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16_384 {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    seen.lock().unwrap().push(head.clone());
    let mut lines = head.lines().map(str::to_ascii_lowercase);
    let login = format!("proxy-authorization: {LOGIN}").to_ascii_lowercase();
    if !lines.any(|line| line == login) {
        let answer = "HTTP/1.1 407 Proxy Authentication Required\r\n\
             Proxy-Authenticate: Basic realm=\"company\"\r\nContent-Length: 0\r\n\r\n";
        socket.write_all(answer.as_bytes()).await.ok()?;
        return Some(());
    }
    let mut inner = TcpStream::connect(target).await.ok()?;
    match head.starts_with("CONNECT ") {
        true => {
            let answer = b"HTTP/1.1 200 Connected\r\n\r\n";
            socket.write_all(answer).await.ok()?;
        }
        false => inner.write_all(head.as_bytes()).await.ok()?,
    }
    copy_bidirectional(&mut socket, &mut inner).await.ok()?;
    Some(())
}

fn tempfile_dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A company's model that is reached by a name which only the proxy resolves.
async fn behind_proxy() -> (Company, LocalProxy, Home, tempfile::TempDir) {
    let company = Company::start().await;
    let proxy = LocalProxy::start(company.address).await;
    let store = tempfile_dir();
    let file = store.path().join("company.pem");
    std::fs::write(&file, &company.authority).unwrap();
    let home = company
        .home(&format!("https://{HOST}"))
        .env("SSL_CERT_FILE", file.display());
    (company, proxy, home, store)
}

#[tokio::test]
async fn models_are_reached_through_the_proxy_of_https_proxy_with_a_login() {
    let (company, proxy, home, _store) = behind_proxy().await;
    let home = home
        .env("HTTPS_PROXY", proxy.url(USER))
        .env("FASTNESS_LOG", "trace");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(
        client.prompt(&session, "hello").await.text,
        "from the company"
    );
    assert_eq!(company.model.requests().len(), 1);
    let heads = proxy.heads();
    let connect = format!("CONNECT {HOST}:443 HTTP/1.1\r\n");
    assert!(heads[0].starts_with(&connect), "{heads:?}");
    assert!(
        !heads[0].contains("sk-the-key"),
        "the key travels within TLS"
    );

    // Neither log nor journal holds the login.
    let mut server = server;
    let log = server.whole_log().await;
    let journal = format!("{:?}", server.home().events(&session));
    for text in [&log, &journal] {
        for secret in ["open sesame", "open%20sesame", "bWU6b3BlbiBzZXNhbWU"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    assert!(
        log.contains("TRACE") || log.contains("DEBUG") || log.contains("trace"),
        "{log}"
    );
}

#[tokio::test]
async fn doctor_names_the_proxy_and_the_certificates_without_the_login() {
    let (_company, proxy, home, _store) = behind_proxy().await;
    configure(
        &home,
        &format!("[network]\nproxy = \"{}\"\n", proxy.url(USER)),
    );
    let (told, _) = run(&home, "doctor", &[]).await;
    let expected = format!(
        "https://{HOST}:443 answers (through the proxy http://{} of network.proxy, trusting ",
        proxy.address
    );
    assert!(told.contains(&expected), "{told}");
    assert!(told.contains("and 1 of your own)"), "{told}");
    assert!(!told.contains("sesame"), "{told}");
}

#[tokio::test]
async fn a_wrong_proxy_password_is_a_clear_error_and_not_retried() {
    let (company, proxy, home, _store) = behind_proxy().await;
    let home = home.env("HTTPS_PROXY", proxy.url("me:hunter2"));
    let (told, code) = run(&home, "ask", &["hello", "--log", "trace"]).await;
    assert_eq!(code, Some(1), "{told}");
    let expected = "the proxy refused the connection to the model: its user name or password";
    assert!(told.contains(expected), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    // One for the model's window and one for its answer, neither retried.
    assert_eq!(proxy.heads().len(), 2, "{:?}", proxy.heads());
    let (told, code) = run(&home, "doctor", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("the proxy refused the user name or password"),
        "{told}"
    );
    assert!(told.contains("into HTTPS_PROXY"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    assert!(company.model.requests().is_empty());
}

#[tokio::test]
async fn plain_http_models_go_through_the_proxy_with_a_login_too() {
    let says = ModelReply::Says(vec![text("in the clear")]);
    let model = RecordingModel::speaking(Speech::OpenAiChat, vec![says]).await;
    let target = model.url().trim_start_matches("http://").parse().unwrap();
    let proxy = LocalProxy::start(target).await;
    for (user, expected) in [(USER, "in the clear"), ("me:no", "the proxy refused")] {
        let home = Home::new(binary(), testkit::Script::says("unused"));
        let home = home
            .model("openai-chat:mock")
            .env("OPENAI_BASE_URL", format!("http://{HOST}"))
            .env("http_proxy", proxy.url(user));
        let (told, _) = run(&home, "ask", &["hello"]).await;
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn no_proxy_and_this_machine_are_reached_directly() {
    let company = Company::start().await;
    let proxy = LocalProxy::start(company.address).await;
    let store = tempfile_dir();
    let file = store.path().join("company.pem");
    std::fs::write(&file, &company.authority).unwrap();
    // This machine needs no entry; a name that nothing resolves shows that no proxy is asked.
    let home = company
        .home(&company.direct())
        .env("SSL_CERT_FILE", file.display())
        .env("HTTPS_PROXY", proxy.url(USER));
    let (told, code) = run(&home, "ask", &["hello"]).await;
    assert_eq!(code, Some(0), "{told}");
    let home = company
        .home(&format!("https://{HOST}"))
        .env("HTTPS_PROXY", proxy.url(USER))
        .env("NO_PROXY", "other.test, .company.test");
    let (told, code) = run(&home, "doctor", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains(&format!("https://{HOST}:443 cannot be reached")),
        "{told}"
    );
    assert!(!told.contains("through the proxy"), "{told}");
    assert!(proxy.heads().is_empty(), "{:?}", proxy.heads());
}

#[tokio::test]
async fn web_fetch_never_uses_a_proxy_of_the_environment() {
    let company = Company::start().await;
    let proxy = LocalProxy::start(company.address).await;
    let home = Home::new(binary(), testkit::Script::says("unused"));
    let home = home
        .env("HTTPS_PROXY", proxy.url(USER))
        .env("HTTP_PROXY", proxy.url(USER))
        .env("ALL_PROXY", proxy.url(USER));
    for url in [format!("https://{HOST}/"), format!("http://{HOST}/")] {
        let resolve = format!("{HOST}=10.1.2.3");
        let (told, code) = run(&home, "fetch", &["--resolve", &resolve, &url]).await;
        assert_eq!(code, Some(3), "{told}");
    }
    assert!(proxy.heads().is_empty(), "{:?}", proxy.heads());
    // The operator's setting is what opens that way.
    configure(
        &home,
        &format!("[network]\nproxy = \"{}\"\n", proxy.url(USER)),
    );
    run(&home, "fetch", &[&format!("http://{HOST}/")]).await;
    assert_eq!(proxy.heads().len(), 1);
}

#[tokio::test]
async fn mcp_servers_of_the_settings_go_through_the_proxy_with_a_login() {
    let model = RecordingModel::start().await;
    let target = model.url().trim_start_matches("http://").parse().unwrap();
    for (user, expected) in [
        (USER, "is not ready"),
        ("me:hunter2", "the proxy refused the user name or password"),
    ] {
        let proxy = LocalProxy::start(target).await;
        let home = Home::new(binary(), testkit::Script::says("unused"));
        let home = home.env("HTTP_PROXY", proxy.url(user));
        configure(&home, &format!("[mcp.far]\nurl = \"http://{HOST}/mcp\"\n"));
        let (told, _) = run(&home, "doctor", &[]).await;
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        let heads = proxy.heads();
        let first = heads.first().map(String::as_str).unwrap_or_default();
        assert!(
            first.starts_with(&format!("POST http://{HOST}/mcp HTTP/1.1\r\n")),
            "{heads:?}"
        );
    }
    assert!(!model.requests().is_empty(), "the login let it through");
}
