//! `cargo xtask bench netguard`: what judging costs, and a guarded fetch beside a bare one.
//!
//! Both clients fetch from the same server on loopback, in turns, so that a busy moment meets both.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netguard::{FixedResolver, Guard, Policy, SystemResolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::table::{Row, Samples, Table};
use super::{Group, Plan, because};
use crate::Failure;

/// What is measured, by the name that `--only` looks at.
pub(super) const GROUPS: &[(&str, Group)] = &[("judging", judging), ("fetching", fetching)];

/// The body that is fetched: a large page.
const BODY_BYTES: usize = 1_000_000;

/// Judgements in one sample, so that the clock costs nothing.
const BATCH: u32 = 1_000;

/// What is judged: a name, a literal, and what most refusals are.
const URLS: &[(&str, &str)] = &[
    (
        "judging a name with two answers",
        "https://docs.example.org/guide/start?page=2#top",
    ),
    (
        "judging a literal address",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/",
    ),
    (
        "refusing a spelling of loopback",
        "http://0177.0.0.01/admin",
    ),
];

fn judging(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let answers = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"];
    let answers = answers.iter().filter_map(|ip| ip.parse().ok()).collect();
    let resolver = FixedResolver::before(Arc::new(SystemResolver::default()));
    let guard = Guard::builder(Policy::default())
        .resolver(resolver.answer("docs.example.org", answers))
        .build()
        .map_err(because("cannot make a guard"))?;
    let runtime = runtime()?;
    for (what, url) in URLS {
        let mut samples = Vec::new();
        let mut parses = Vec::new();
        for _ in 0..plan.rounds {
            let started = Instant::now();
            runtime.block_on(async {
                for _ in 0..BATCH {
                    let _ = black_box(guard.check(black_box(url)).await);
                }
            });
            samples.push(started.elapsed() / BATCH);
            let started = Instant::now();
            for _ in 0..BATCH {
                let _ = black_box(url::Url::parse(black_box(url)));
            }
            parses.push(started.elapsed() / BATCH);
        }
        let (samples, parses) = (Samples::new(samples), Samples::new(parses));
        table.push(Row {
            what,
            measured: microseconds(samples.p50()),
            beside: format!("parsing it {}", microseconds(parses.p50())),
            ratio: samples.ratio(&parses),
            aim: "< 5 µs",
        });
    }
    Ok(())
}

fn fetching(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(because("cannot listen"))?;
        let address = listener.local_addr().map_err(because("cannot listen"))?;
        tokio::spawn(serve(listener));
        let url = format!("http://{address}/");
        let policy = Policy {
            exceptions: address.to_string().parse().into_iter().collect(),
            ..Policy::default()
        };
        let guard = Guard::new(policy).map_err(because("cannot make a guard"))?;
        // The bare client takes whichever provider the process has; one may be there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bare = reqwest::Client::new();
        let (mut guarded, mut pooled) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let started = Instant::now();
            let response = guard.get(&url).await.map_err(because("the guard failed"))?;
            guarded.push(started.elapsed());
            let started = Instant::now();
            let response_bare = bare.get(&url).send().await;
            let response_bare = response_bare.map_err(because("reqwest failed"))?;
            let body = response_bare
                .bytes()
                .await
                .map_err(because("reqwest failed"))?;
            pooled.push(started.elapsed());
            if response.body.len() != BODY_BYTES || body.len() != BODY_BYTES {
                return Err("a body was not whole".to_owned());
            }
        }
        let (guarded, pooled) = (Samples::new(guarded), Samples::new(pooled));
        table.push(Row {
            what: "fetching 1 MB over loopback, by exception",
            measured: guarded.to_string(),
            beside: format!("bare reqwest, connection kept {pooled}"),
            ratio: guarded.ratio(&pooled),
            aim: "≤ 1.5×",
        });
        Ok(())
    })
}

/// Answers every request on every connection with the same body.
async fn serve(listener: TcpListener) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    let answer: Arc<[u8]> = [head.into_bytes(), vec![b'x'; BODY_BYTES]].concat().into();
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(answer_all(socket, Arc::clone(&answer)));
    }
}

async fn answer_all(mut socket: TcpStream, answer: Arc<[u8]>) {
    let mut request = Vec::new();
    while let Ok(1..) = socket.read_buf(&mut request).await {
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if socket.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.enable_all().build();
    built.map_err(because("cannot start the runtime"))
}

fn microseconds(duration: Duration) -> String {
    format!("{:.2} µs", duration.as_secs_f64() * 1e6)
}
