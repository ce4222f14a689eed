//! Time: every phase has an end, and a fetch that nobody waits for any more is gone.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use netguard::{BoxFuture, Dialer, FetchError, Guard, JudgedAddr, Phase, Policy, Resolver, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::support::{Answers, Pipes, guard, head_of, ips, ok, public};

/// How long a fetch took to fail, and how.
async fn failure(guard: &Guard, url: &str) -> (Phase, u64) {
    let started = Instant::now();
    match guard.get(url).await {
        Err(FetchError::Timeout { phase, .. }) => (phase, started.elapsed().as_secs()),
        other => panic!("{other:?}"),
    }
}

/// A dialer that gets no answer.
struct BlackHole;

impl Dialer for BlackHole {
    fn dial(&self, _: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
pub(crate) async fn connecting_ends_after_ten_seconds() {
    let guard = guard(Policy::default(), public(), BlackHole);
    assert_eq!(
        failure(&guard, "http://a.example/").await,
        (Phase::Connect, 10)
    );
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_that_never_comes_counts_as_connecting() {
    let pipes = Pipes::to(|mut stream: DuplexStream| async move {
        let mut hello = [0; 64];
        stream.read_exact(&mut hello).await.unwrap();
        pending::<()>().await;
    });
    let guard = guard(Policy::default(), public(), pipes);
    assert_eq!(
        failure(&guard, "https://a.example/").await,
        (Phase::Connect, 10)
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_address_delays_the_next_one_by_a_quarter_of_a_second() {
    struct FirstIsDead(AtomicUsize);
    impl Dialer for FirstIsDead {
        fn dial(&self, _: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
            if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                return Box::pin(pending());
            }
            let (near, mut far) = tokio::io::duplex(4096);
            tokio::spawn(async move {
                head_of(&mut far).await;
                far.write_all(ok("second").as_bytes()).await.unwrap();
            });
            Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
        }
    }
    let two = Answers::new(|_, _| Ok(ips(&["2606:4700::1111", "1.1.1.1"])));
    let guard = guard(Policy::default(), two, FirstIsDead(AtomicUsize::new(0)));
    let started = Instant::now();
    assert_eq!(guard.get("http://a.example/").await.unwrap().body, "second");
    assert_eq!(started.elapsed(), Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
pub(crate) async fn a_head_has_ten_seconds_also_when_it_dribbles_or_is_preceded_by_others() {
    let dribble = |mut stream: DuplexStream| async move {
        head_of(&mut stream).await;
        for byte in b"HTTP/1.1 200 OK\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n\r\n" {
            sleep(Duration::from_secs(1)).await;
            if stream.write_u8(*byte).await.is_err() {
                return;
            }
        }
    };
    let guarded = guard(Policy::default(), public(), Pipes::to(dribble));
    assert_eq!(
        failure(&guarded, "http://a.example/").await,
        (Phase::Head, 10)
    );

    let hundred = |mut stream: DuplexStream| async move {
        head_of(&mut stream).await;
        let hints = "HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n".repeat(100);
        stream.write_all(hints.as_bytes()).await.unwrap();
        pending::<()>().await;
    };
    let guarded = guard(Policy::default(), public(), Pipes::to(hundred));
    assert_eq!(
        failure(&guarded, "http://a.example/").await,
        (Phase::Head, 10)
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_body_ends_after_ten_seconds_and_a_slow_one_after_thirty() {
    let silent = |mut stream: DuplexStream| async move {
        head_of(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nx").await.unwrap();
        pending::<()>().await;
    };
    let guarded = guard(Policy::default(), public(), Pipes::to(silent));
    assert_eq!(
        failure(&guarded, "http://a.example/").await,
        (Phase::Body, 10)
    );

    let slow = |mut stream: DuplexStream| async move {
        head_of(&mut stream).await;
        let mut open = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_ok();
        while open {
            sleep(Duration::from_secs(4)).await;
            open = stream.write_u8(b'x').await.is_ok();
        }
    };
    let guarded = guard(Policy::default(), public(), Pipes::to(slow));
    assert_eq!(
        failure(&guarded, "http://a.example/").await,
        (Phase::Total, 30)
    );
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_slow_redirects_shares_the_thirty_seconds() {
    let slow = |mut stream: DuplexStream| async move {
        head_of(&mut stream).await;
        sleep(Duration::from_secs(9)).await;
        let answer = "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n";
        // The last one comes after the guard has gone.
        let _ = stream.write_all(answer.as_bytes()).await;
    };
    let guarded = guard(Policy::default(), public(), Pipes::to(slow));
    assert_eq!(
        failure(&guarded, "http://a.example/").await,
        (Phase::Total, 30)
    );
}

#[tokio::test(start_paused = true)]
async fn four_fetches_run_at_once_and_the_fifth_waits_its_turn() {
    let (arrived, mut arrivals) = mpsc::channel(8);
    let pipes = Pipes::to(move |mut stream: DuplexStream| {
        let arrived = arrived.clone();
        async move {
            head_of(&mut stream).await;
            arrived.send(()).await.unwrap();
            sleep(Duration::from_secs(5)).await;
            stream.write_all(ok("x").as_bytes()).await.unwrap();
        }
    });
    let guard = guard(Policy::default(), public(), pipes).for_session(Vec::new());
    let fetches: Vec<_> = (0..5)
        .map(|_| {
            let guard = guard.clone();
            tokio::spawn(async move { guard.get("http://a.example/").await })
        })
        .collect();
    for _ in 0..4 {
        arrivals.recv().await.unwrap();
    }
    let fifth = tokio::time::timeout(Duration::from_secs(4), arrivals.recv()).await;
    assert!(fifth.is_err(), "a fifth fetch ran beside four");
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap().unwrap().body, "x");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_turn_too_long_is_told() {
    let guarded = guard(Policy::default(), public(), BlackHole);
    let policy = Policy {
        limits: netguard::Limits {
            parallel_max: 0,
            ..netguard::Limits::default()
        },
        ..Policy::default()
    };
    let full = guard(policy, public(), BlackHole);
    assert!(matches!(
        full.get("http://a.example/").await,
        Err(FetchError::Busy)
    ));
    // Another session is not held up by it.
    assert_eq!(
        failure(&guarded, "http://a.example/").await,
        (Phase::Connect, 10)
    );
}

/// The phases in which a fetch can be when nobody waits for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Resolve,
    Connect,
    Tls,
    Head,
    Body,
}

/// A resolver or server that goes silent at one stage, reports that it did, and reports again when
/// it is let go.
struct Silence {
    stage: Stage,
    report: mpsc::Sender<&'static str>,
}

impl Silence {
    fn forever<T: Send + 'static>(&self) -> BoxFuture<'static, T> {
        struct Let(mpsc::Sender<&'static str>);
        impl Drop for Let {
            fn drop(&mut self) {
                self.0.try_send("gone").unwrap();
            }
        }
        let held = Let(self.report.clone());
        Box::pin(async move {
            let held = held;
            held.0.try_send("silent").unwrap();
            pending().await
        })
    }
}

impl Resolver for Silence {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<std::net::IpAddr>>> {
        if self.stage == Stage::Resolve {
            return self.forever();
        }
        Box::pin(async { Ok(ips(&["1.1.1.1"])) })
    }
}

impl Dialer for Silence {
    fn dial(&self, _: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        if self.stage == Stage::Connect {
            return self.forever();
        }
        let (near, mut far) = tokio::io::duplex(4096);
        let (stage, report) = (self.stage, self.report.clone());
        tokio::spawn(async move {
            if stage == Stage::Tls {
                far.read_u8().await.unwrap();
            } else {
                head_of(&mut far).await;
            }
            if stage == Stage::Body {
                far.write_all(b"HTTP/1.1 200 OK\r\n\r\nx").await.unwrap();
            }
            report.send("silent").await.unwrap();
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).await.unwrap();
            report.send("gone").await.unwrap();
        });
        Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
    }
}

#[tokio::test]
pub(crate) async fn a_fetch_that_is_dropped_closes_at_once_in_every_phase_and_leaves_no_task() {
    let stages = [
        Stage::Resolve,
        Stage::Connect,
        Stage::Tls,
        Stage::Head,
        Stage::Body,
    ];
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = alive();
    for stage in stages {
        for _ in 0..20 {
            let (report, mut reports) = mpsc::channel(4);
            let silence = |report| Silence { stage, report };
            let parts = (silence(report.clone()), silence(report));
            let guard = Arc::new(guard(Policy::default(), parts.0, parts.1));
            let url = if stage == Stage::Tls {
                "https://a.example/"
            } else {
                "http://a.example/"
            };
            tokio::select! {
                biased;
                silent = reports.recv() => assert_eq!(silent, Some("silent")),
                done = guard.get(url) => panic!("{done:?}"),
            }
            let gone = tokio::time::timeout(Duration::from_millis(100), reports.recv()).await;
            assert_eq!(gone.unwrap(), Some("gone"), "{stage:?}");
        }
    }
    tokio::task::yield_now().await;
    assert_eq!(alive(), before, "a task was left behind");
}
