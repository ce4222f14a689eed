//! What an operator may open, and what stays closed whatever they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use netguard::{Clock, Exception, ExceptionError, NameFault, Network, Policy, Refusal};

use crate::support::{Answers, Servers, builder, guard, ips, ok, public, redirect};

fn entry(text: &str) -> Exception {
    text.parse().unwrap()
}

fn with(entries: &[&str]) -> Policy {
    Policy {
        exceptions: entries.iter().map(|text| entry(text)).collect(),
        ..Policy::default()
    }
}

fn private() -> Policy {
    Policy {
        allow_private_networks: true,
        ..Policy::default()
    }
}

async fn open(policy: Policy, url: &str) -> Result<(), Refusal> {
    let guard = guard(policy, public(), Servers::saying("x"));
    guard.check(url).await.map(|_| ())
}

#[tokio::test]
pub(crate) async fn an_entry_opens_exactly_that_host_and_port() {
    let dev = with(&["127.0.0.1:3000"]);
    let same = [
        "http://127.0.0.1:3000/",
        "http://2130706433:3000/",
        "http://[::ffff:127.0.0.1]:3000/x",
    ];
    for url in same {
        assert_eq!(open(dev.clone(), url).await, Ok(()), "{url}");
    }
    let others = [
        "http://127.0.0.1:3001/",
        "http://127.0.0.1/",
        "http://127.0.0.2:3000/",
        "http://localhost:3000/",
        "http://[::1]:3000/",
        "http://10.0.0.1:3000/",
        "http://example.com:3000/",
    ];
    for url in others {
        assert!(open(dev.clone(), url).await.is_err(), "{url}");
    }
}

#[tokio::test]
pub(crate) async fn a_name_in_an_entry_matches_whole() {
    let private = |_: &str, _| Ok(ips(&["10.0.0.5"]));
    let servers = Servers::saying("x");
    let guard = guard(
        with(&["Docs.Python.org:443", "wiki.internal:8443"]),
        Answers::new(private),
        servers,
    );
    for url in [
        "https://docs.python.org/",
        "https://DOCS.python.org.:443/",
        "https://wiki.internal:8443/",
    ] {
        assert!(guard.check(url).await.is_ok(), "{url}");
    }
    let others = [
        "https://docs.python.org.evil.com/",
        "https://evildocs.python.org/",
        "https://python.org/",
        "http://docs.python.org/",
        "https://a.wiki.internal:8443/",
        "https://wiki.internal/",
    ];
    for url in others {
        assert!(guard.check(url).await.is_err(), "{url}");
    }
}

#[tokio::test]
pub(crate) async fn a_redirect_out_of_an_entry_is_judged_like_any_other() {
    let servers = Servers::new(|_, request| {
        let is_first = request.starts_with("GET / ");
        Ok(if is_first {
            redirect(302, "http://127.0.0.1:3001/")
        } else {
            ok("x")
        })
    });
    let guard = guard(with(&["127.0.0.1:3000"]), public(), servers.clone());
    let refused = guard.get("http://127.0.0.1:3000/").await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::Port(3001)));
    assert_eq!(
        refused.to_string(),
        "blocked port: 3001 is not one that web servers use (redirect 1)"
    );
    assert_eq!(servers.dialled().len(), 1);
}

#[tokio::test]
pub(crate) async fn an_entry_ends_with_its_time() {
    #[derive(Clone, Default)]
    struct Seconds(Arc<AtomicU64>);
    impl Clock for Seconds {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }
    let clock = Seconds::default();
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
    let policy = Policy {
        exceptions: vec![entry("127.0.0.1:3000").until(until)],
        ..Policy::default()
    };
    let guard = builder(policy, public(), Servers::saying("x"));
    let guard = guard.clock(clock.clone()).build().unwrap();
    clock.0.store(99, Ordering::Relaxed);
    assert!(guard.check("http://127.0.0.1:3000/").await.is_ok());
    clock.0.store(100, Ordering::Relaxed);
    assert_eq!(
        guard.check("http://127.0.0.1:3000/").await.err(),
        Some(Refusal::Port(3000))
    );
}

#[tokio::test]
pub(crate) async fn an_entry_of_one_session_is_not_one_of_another() {
    let guard = guard(Policy::default(), public(), Servers::saying("x"));
    let one = guard.for_session(vec![entry("127.0.0.1:3000")]);
    let other = guard.for_session(Vec::new());
    assert!(one.check("http://127.0.0.1:3000/").await.is_ok());
    assert!(other.check("http://127.0.0.1:3000/").await.is_err());
    assert!(guard.check("http://127.0.0.1:3000/").await.is_err());
}

#[tokio::test]
async fn private_networks_can_be_opened_at_once() {
    let opened = [
        "http://127.0.0.1/",
        "http://[::1]:8080/",
        "http://10.1.2.3/",
        "http://192.168.0.1:8443/",
        "http://100.64.0.1/",
        "http://[fd12::1]/",
        "http://localhost:8000/",
        "http://nas.lan/",
        "http://intranet/",
    ];
    for url in opened {
        assert_eq!(open(private(), url).await, Ok(()), "{url}");
    }
    let closed = [
        "http://10.1.2.3:22/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://[ff02::1]/",
        "http://[2002:7f00:1::]/",
        "http://[64:ff9b::10.0.0.1]/",
        "http://192.0.2.1/",
    ];
    for url in closed {
        assert!(open(private(), url).await.is_err(), "{url}");
    }
}

const METADATA: &[&str] = &[
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.23",
    "169.254.1.1",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fe80::a9fe:a9fe",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "fd00:42::42",
];

#[tokio::test]
pub(crate) async fn nothing_opens_a_metadata_service() {
    for ip in METADATA {
        let host = if ip.contains(':') {
            format!("[{ip}]")
        } else {
            (*ip).to_owned()
        };
        let url = format!("http://{host}/");
        assert!(
            matches!(open(private(), &url).await, Err(Refusal::Address(_))),
            "{ip}"
        );
        let entry = format!("{host}:80").parse::<Exception>();
        assert!(
            matches!(entry, Err(ExceptionError::Never(_))),
            "{ip}: {entry:?}"
        );

        let answers = |_: &str, _| Ok(ips(&[ip]));
        let mut policy = with(&["innocent.example:80"]);
        policy.allow_private_networks = true;
        let guard = guard(policy, Answers::new(answers), Servers::saying("x"));
        let refused = guard.check("http://innocent.example/").await.err();
        assert!(
            matches!(refused, Some(Refusal::Answer(_))),
            "{ip}: {refused:?}"
        );
    }
    let named = open(private(), "http://metadata.google.internal/").await;
    assert_eq!(named, Err(Refusal::Name(NameFault::Metadata)));
    let entry = "metadata.google.internal:80".parse::<Exception>();
    assert_eq!(entry, Err(ExceptionError::Metadata));
}

#[tokio::test]
pub(crate) async fn the_server_that_uses_the_guard_is_out_of_its_reach() {
    let mut policy = with(&["127.0.0.1:4600", "localhost:4600"]);
    policy.allow_private_networks = true;
    policy.own_listeners = vec!["127.0.0.1:4600".parse().unwrap()];
    let here = |_: &str, _| Ok(ips(&["127.0.0.1"]));
    let guard = guard(policy, Answers::new(here), Servers::saying("x"));
    let refused = guard.check("http://127.0.0.1:4600/").await.err();
    assert_eq!(refused, Some(Refusal::Address(Network::OwnServer)));
    let refused = guard.check("http://localhost:4600/").await.err();
    assert_eq!(refused, Some(Refusal::Answer(Network::OwnServer)));
    assert!(guard.check("http://127.0.0.1:8080/").await.is_ok());
}

#[test]
fn an_entry_that_is_not_exact_is_refused_when_it_is_read() {
    let wrong = [
        "",
        "example.com",
        "example.com:",
        ":80",
        "example.com:0",
        "example.com:+80",
        "*.example.com:80",
        "example.com:80-90",
        "http://example.com:80",
        "example.com:65536",
        "a b:80",
        "[::1]",
        "::1:80",
        "user@example.com:80",
        "example.com/:80",
    ];
    for text in wrong {
        let read = text.parse::<Exception>();
        assert_eq!(read, Err(ExceptionError::Form), "{text:?}");
    }
    for text in [
        "localhost:3000",
        "[::1]:3000",
        "10.0.0.1:22",
        "example.com.:80",
        "0x7f.1:80",
    ] {
        assert!(text.parse::<Exception>().is_ok(), "{text}");
    }
}
