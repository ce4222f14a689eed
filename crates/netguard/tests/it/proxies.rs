//! The operator's proxy: used only when it is set, and what is still judged on this side.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netguard::{Bypass, FetchError, Network, Policy, Proxies, Refusal};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use crate::support::{Answers, Pipes, Servers, guard, head_of, ips, ok};

fn through() -> Policy {
    by("http://10.0.0.9:3128", "")
}

fn by(proxy: &str, no_proxy: &str) -> Policy {
    let bypass = Bypass::parse(no_proxy);
    Policy {
        proxies: Proxies::all(proxy.parse().unwrap(), "a test", bypass),
        ..Policy::default()
    }
}

#[tokio::test]
async fn plain_requests_name_the_whole_url_and_only_the_proxy_is_dialled() {
    let resolver = Answers::new(|_, _| Ok(ips(&["127.0.0.1"])));
    let asked = Arc::clone(&resolver.asked);
    let servers = Servers::saying("by proxy");
    let guard = guard(through(), resolver, servers.clone());
    let response = guard.get("http://a.example/x?y").await.unwrap();
    assert_eq!(response.body, "by proxy");
    assert_eq!(servers.dialled(), ["10.0.0.9:3128".parse().unwrap()]);
    assert!(servers.requests()[0].starts_with("GET http://a.example/x?y HTTP/1.1\r\n"));
    assert_eq!(asked.load(Ordering::Relaxed), 0, "the proxy resolves");
}

#[tokio::test]
pub(crate) async fn names_ports_and_literal_addresses_are_judged_before_the_proxy_is_asked() {
    let servers = Servers::saying("x");
    let resolver = Answers::new(|_, _| Err(io::ErrorKind::NotFound.into()));
    let guard = guard(through(), resolver, servers.clone());
    let closed = [
        "http://localhost/",
        "http://a.internal/",
        "http://10.0.0.1/",
        "http://a.example:22/",
        "http://[::1]/",
        "http://169.254.169.254/",
    ];
    for url in closed {
        let refused = guard.get(url).await.unwrap_err().refusal();
        let fits = matches!(
            refused,
            Some(Refusal::Name(_) | Refusal::Address(_) | Refusal::Port(_))
        );
        assert!(fits, "{url}: {refused:?}");
    }
    assert!(servers.dialled().is_empty());
}

#[tokio::test]
pub(crate) async fn https_goes_through_a_tunnel_to_the_name() {
    let (report, mut reports) = mpsc::channel(4);
    let pipes = Pipes::to(move |mut stream: DuplexStream| {
        let report = report.clone();
        async move {
            report.send(head_of(&mut stream).await).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 200 Connected\r\nx: y\r\n\r\n")
                .await
                .unwrap();
            let first = stream.read_u8().await.unwrap();
            report.send(format!("then {first}")).await.unwrap();
        }
    });
    let guard = guard(through(), Answers::new(|_, _| Ok(Vec::new())), pipes);
    let failed = guard.get("https://a.example/secret").await.unwrap_err();
    assert!(matches!(failed, FetchError::Tls(_)), "{failed:?}");
    let connect = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
    assert_eq!(reports.recv().await.unwrap(), connect);
    assert_eq!(
        reports.recv().await.unwrap(),
        "then 22",
        "a TLS handshake follows"
    );
}

#[tokio::test]
async fn a_proxy_that_declines_or_babbles_is_a_typed_error() {
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(100_000));
    let answers = [
        "HTTP/1.1 403 Forbidden\r\n\r\n".to_owned(),
        "SOCKS?\r\n\r\n".to_owned(),
        String::new(),
        endless,
    ];
    for answer in answers {
        let pipes = Pipes::to(move |mut stream: DuplexStream| {
            let answer = answer.clone();
            async move {
                head_of(&mut stream).await;
                // The guard may have heard enough.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let guard = guard(through(), Answers::new(|_, _| Ok(Vec::new())), pipes);
        let failed = guard.get("https://a.example/").await.unwrap_err();
        assert!(matches!(failed, FetchError::Proxy(_)), "{failed:?}");
        assert!(!failed.to_string().contains("10.0.0.9"), "{failed}");
    }
}

#[tokio::test]
pub(crate) async fn without_a_proxy_the_server_itself_is_dialled() {
    let servers = Servers::new(|_, _| Ok(ok("x")));
    let resolver = Answers::new(|_, _| Ok(ips(&["1.1.1.1"])));
    let guard = guard(Policy::default(), resolver, servers.clone());
    guard.get("http://a.example/").await.unwrap();
    assert_eq!(servers.dialled(), ["1.1.1.1:80".parse().unwrap()]);
    assert!(servers.requests()[0].starts_with("GET / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn no_proxy_hosts_are_resolved_judged_and_dialled_directly() {
    let servers = Servers::saying("x");
    let resolver = Answers::new(|name, _| match name {
        "inside.example" => Ok(ips(&["10.0.0.1"])),
        _ => Ok(ips(&["1.1.1.1"])),
    });
    let policy = by("http://10.0.0.9:3128", "direct.example, inside.example");
    let guard = guard(policy, resolver, servers.clone());
    guard.get("http://direct.example/").await.unwrap();
    assert_eq!(servers.dialled(), ["1.1.1.1:80".parse().unwrap()]);
    assert!(servers.requests()[0].starts_with("GET / HTTP/1.1\r\n"));
    let refused = guard.get("http://inside.example/").await.unwrap_err();
    let private = Refusal::Answer(Network::Private);
    assert_eq!(refused.refusal(), Some(private));
    assert_eq!(servers.dialled().len(), 1);
}

#[tokio::test]
async fn names_that_resolve_inside_are_refused_before_an_environment_proxy() {
    let servers = Servers::saying("by proxy");
    let resolver = Answers::new(|name, _| match name {
        "inside.example" => Ok(ips(&["1.1.1.1", "10.0.0.1"])),
        "outside.example" => Ok(ips(&["1.1.1.1"])),
        _ => Err(io::ErrorKind::NotFound.into()),
    });
    let policy = Policy {
        judges_before_proxy: true,
        exceptions: vec!["inside.example:8443".parse().unwrap()],
        ..through()
    };
    let guard = guard(policy, resolver, servers.clone());
    let refused = guard.get("http://inside.example/").await.unwrap_err();
    let private = Refusal::Answer(Network::Private);
    assert_eq!(refused.refusal(), Some(private));
    assert!(servers.dialled().is_empty());
    // What this machine cannot resolve is the proxy's to resolve, and what the operator named is theirs.
    for url in [
        "http://outside.example/",
        "http://unknown.example/",
        "http://inside.example:8443/",
    ] {
        assert_eq!(guard.get(url).await.unwrap().body, "by proxy", "{url}");
    }
    let proxy = "10.0.0.9:3128".parse().unwrap();
    assert_eq!(servers.dialled(), [proxy; 3]);
}

#[tokio::test]
async fn proxy_login_goes_to_the_proxy_alone() {
    let servers = Servers::saying("x");
    let resolver = || Answers::new(|_, _| Ok(ips(&["1.1.1.1"])));
    let policy = by("http://me:hunter2@10.0.0.9:3128", "direct.example");
    let through = guard(policy.clone(), resolver(), servers.clone());
    through.get("http://a.example/").await.unwrap();
    through.get("http://direct.example/").await.unwrap();
    let [proxied, direct] = servers.requests().try_into().unwrap();
    // me:hunter2
    let login = "proxy-authorization: Basic bWU6aHVudGVyMg==\r\n";
    assert!(proxied.contains(login), "{proxied}");
    assert!(!direct.contains("proxy-authorization"), "{direct}");
    let (report, mut reports) = mpsc::channel(4);
    let pipes = Pipes::to(move |mut stream: DuplexStream| {
        let report = report.clone();
        async move { report.send(head_of(&mut stream).await).await.unwrap() }
    });
    let through = guard(policy, resolver(), pipes);
    through.get("https://a.example/").await.unwrap_err();
    let connect = reports.recv().await.unwrap();
    let login = "\r\nProxy-Authorization: Basic bWU6aHVudGVyMg==\r\n\r\n";
    assert!(connect.ends_with(login), "{connect}");
}

#[tokio::test]
async fn a_refused_proxy_login_is_a_typed_error_without_the_password() {
    for url in ["http://a.example/", "https://a.example/"] {
        for (proxy, expected) in [
            ("http://me:hunter2@10.0.0.9:3128", true),
            ("http://10.0.0.9:3128", false),
        ] {
            let pipes = Pipes::to(move |mut stream: DuplexStream| async move {
                head_of(&mut stream).await;
                let answer =
                    b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
            });
            let policy = by(proxy, "");
            let guard = guard(policy, Answers::new(|_, _| Ok(Vec::new())), pipes);
            let failed = guard.get(url).await.unwrap_err();
            let FetchError::ProxyLogin { is_sent } = failed else {
                panic!("{url}: {failed:?}");
            };
            assert_eq!(is_sent, expected, "{url}");
            assert!(!format!("{failed:?} {failed}").contains("hunter2"));
        }
    }
}
