//! A resolver that changes its mind changes nothing: one question per hop, and only what was judged
//! is dialled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netguard::{FetchError, Policy, Refusal, ResolutionFault};

use crate::support::{Answers, PUBLIC, Servers, guard, ips, ok, redirect};

type Answer = io::Result<Vec<std::net::IpAddr>>;

#[tokio::test]
pub(crate) async fn a_name_is_resolved_once_and_what_was_judged_is_what_is_dialled() {
    let resolver = Answers::new(|_, count| Ok(ips(&[[PUBLIC, "127.0.0.1"][count.min(1)]])));
    let asked = Arc::clone(&resolver.asked);
    let servers = Servers::saying("hello");
    let guard = guard(Policy::default(), resolver, servers.clone());
    let response = guard.get("http://rb.example/").await.unwrap();
    assert_eq!(response.body, "hello");
    assert_eq!(servers.dialled(), [format!("{PUBLIC}:80").parse().unwrap()]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);

    let refused = guard.get("http://rb.example/").await.unwrap_err();
    assert!(matches!(refused.refusal(), Some(Refusal::Answer(_))));
    assert_eq!(
        (servers.dialled().len(), asked.load(Ordering::Relaxed)),
        (1, 2)
    );
}

#[tokio::test]
pub(crate) async fn each_hop_asks_anew_and_exactly_once() {
    let resolver = Answers::new(|_, _| Ok(ips(&[PUBLIC])));
    let asked = Arc::clone(&resolver.asked);
    let servers = Servers::new(|_, request| {
        let is_first = request.starts_with("GET /a ");
        Ok(if is_first {
            redirect(302, "/b")
        } else {
            ok("b")
        })
    });
    let guard = guard(Policy::default(), resolver, servers.clone());
    let response = guard.get("http://rb.example/a").await.unwrap();
    assert_eq!((response.url.path(), response.redirects.len()), ("/b", 1));
    assert_eq!(
        (servers.dialled().len(), asked.load(Ordering::Relaxed)),
        (2, 2)
    );
}

#[tokio::test]
pub(crate) async fn a_thousand_fetches_from_a_fickle_resolver_never_reach_loopback() {
    let fickle = |_: &str, count: usize| Ok(ips(&[["127.0.0.1", PUBLIC][count % 2]]));
    let servers = Servers::saying("x");
    let guard = guard(Policy::default(), Answers::new(fickle), servers.clone());
    let mut fetched = 0;
    for _ in 0..1_000 {
        fetched += usize::from(guard.get("http://rb.example/").await.is_ok());
    }
    assert_eq!(fetched, 500);
    assert!(
        servers
            .dialled()
            .iter()
            .all(|address| !address.ip().is_loopback())
    );
}

#[tokio::test]
pub(crate) async fn after_a_failed_connection_only_the_other_judged_addresses_are_tried() {
    let resolver = Answers::new(|_, count| {
        let answers: &[&str] = if count == 0 {
            &["1.1.1.1", "1.0.0.1"]
        } else {
            &["127.0.0.1"]
        };
        Ok(ips(answers))
    });
    let asked = Arc::clone(&resolver.asked);
    let servers = Servers::new(|_, _| Err(io::ErrorKind::ConnectionRefused.into()));
    let guard = guard(Policy::default(), resolver, servers.clone());
    let failed = guard.get("http://rb.example/").await.unwrap_err();
    assert!(matches!(failed, FetchError::Connect(_)), "{failed}");
    let dialled = ["1.1.1.1:80", "1.0.0.1:80"].map(|address| address.parse().unwrap());
    assert_eq!(servers.dialled(), dialled);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
pub(crate) async fn a_resolver_that_fails_or_knows_nothing_refuses() {
    let servfail: fn() -> Answer = || Err(io::Error::other("SERVFAIL from 10.0.0.53"));
    let nothing: fn() -> Answer = || Ok(Vec::new());
    let cases = [
        (servfail, ResolutionFault::Failed),
        (nothing, ResolutionFault::Empty),
    ];
    for (answer, fault) in cases {
        let servers = Servers::saying("x");
        let guard = guard(
            Policy::default(),
            Answers::new(move |_, _| answer()),
            servers.clone(),
        );
        let error = guard.get("http://rb.example/").await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::Resolution(fault)));
        assert!(!format!("{error} {error:?}").contains("10.0.0.53"));
        assert!(servers.dialled().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_does_not_answer_is_given_up_after_five_seconds() {
    struct Silent;
    impl netguard::Resolver for Silent {
        fn resolve<'a>(
            &'a self,
            _: &'a str,
        ) -> netguard::BoxFuture<'a, io::Result<Vec<std::net::IpAddr>>> {
            Box::pin(std::future::pending())
        }
    }
    let guard = guard(Policy::default(), Silent, Servers::saying("x"));
    let started = tokio::time::Instant::now();
    let refused = guard.check("http://rb.example/").await.unwrap_err();
    assert_eq!(refused, Refusal::Resolution(ResolutionFault::TooSlow));
    assert_eq!(started.elapsed().as_secs(), 5);
}
