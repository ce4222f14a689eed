//! Servers that lie, flood, compress nothing into everything, or stop in the middle.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use netguard::{End, FetchError, Guard, Limits, Policy, Response};
use tokio::io::{AsyncWriteExt, DuplexStream};

use crate::support::{Pipes, Servers, guard, head_of, public};

const MEBIBYTE: usize = 1 << 20;

/// A guard whose servers all read the request and then send `answer`.
fn sending(answer: impl Into<Vec<u8>>) -> Guard {
    sending_within(Limits::default(), answer)
}

fn sending_within(limits: Limits, answer: impl Into<Vec<u8>>) -> Guard {
    let answer: Vec<u8> = answer.into();
    let pipes = Pipes::to(move |mut stream: DuplexStream| {
        let answer = answer.clone();
        async move {
            head_of(&mut stream).await;
            // The guard may have heard enough before the end.
            let _ = stream.write_all(&answer).await;
        }
    });
    let policy = Policy {
        limits,
        ..Policy::default()
    };
    guard(policy, public(), pipes)
}

pub(crate) async fn get(answer: impl Into<Vec<u8>>) -> Result<Response, FetchError> {
    sending(answer).get("http://a.example/").await
}

fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn the_three_forms_of_compression_are_undone() {
    let text = "a page ".repeat(10_000);
    let bytes = text.as_bytes();
    let halves = [gzip(&bytes[..100]), gzip(&bytes[100..])].concat();
    let forms = [
        ("gzip", gzip(bytes)),
        ("X-GZip", gzip(bytes)),
        ("gzip", halves),
        ("deflate", zlib(bytes)),
        ("deflate", deflate(bytes)),
        ("identity", bytes.to_vec()),
        ("identity, gzip", gzip(bytes)),
    ];
    for (encoding, body) in forms {
        let response = get(encoded(encoding, &body)).await.unwrap();
        assert_eq!(response.body, text, "{encoding}");
        assert_eq!(response.end, End::Whole);
    }
    assert_eq!(get(encoded("gzip", b"")).await.unwrap().body, "");
}

/// Memory that this process holds, or held at most, in bytes.
fn memory(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() << 10
}

/// What the process holds now. From here on its most is counted anew: other stories may have
/// taken more before.
fn memory_from_now_on() -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    memory("VmRSS")
}

#[tokio::test]
pub(crate) async fn a_decompression_bomb_stops_at_the_limit_and_costs_little_memory() {
    // Ten gibibytes of nothing, made of the same compressed mebibyte again and again.
    let member = gzip(&vec![0; MEBIBYTE]);
    let pipes = Pipes::to(move |mut stream: DuplexStream| {
        let member = member.clone();
        async move {
            head_of(&mut stream).await;
            let head = encoded("gzip", b"");
            let mut open = stream.write_all(&head).await.is_ok();
            for _ in 0..10_240 {
                open = open && stream.write_all(&member).await.is_ok();
            }
            assert!(!open, "the guard read all of it");
        }
    });
    let guard = guard(Policy::default(), public(), pipes);
    let before = memory_from_now_on();
    let response = guard.get("http://a.example/").await.unwrap();
    assert_eq!(response.body.len(), 10 * MEBIBYTE);
    assert_eq!(response.end, End::CutAtLimit);
    let grown = memory("VmHWM").saturating_sub(before);
    assert!(grown < 20 * MEBIBYTE, "it took {grown} bytes");
}

#[tokio::test]
async fn compressed_data_that_becomes_nothing_has_an_end_too() {
    let limits = Limits {
        body_bytes_max: 1_000,
        ..Limits::default()
    };
    let nothing = gzip(b"").repeat(1_000);
    let guard = sending_within(limits, encoded("gzip", &nothing));
    let response = guard.get("http://a.example/").await.unwrap();
    assert_eq!((response.body.len(), response.end), (0, End::CutAtLimit));
}

#[tokio::test]
pub(crate) async fn several_or_unknown_encodings_are_refused() {
    let twenty = ["gzip"; 20].join(", ");
    for encoding in ["gzip, gzip", &twenty, "br", "zstd", "gzip,br", "\u{1b}[31m"] {
        let refused = get(encoded(encoding, &gzip(b"x"))).await.unwrap_err();
        let is_typed = matches!(refused, FetchError::Encoding(_) | FetchError::Response(_));
        assert!(is_typed, "{encoding}: {refused:?}");
        assert!(!refused.to_string().contains('\u{1b}'));
    }
    let lines = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-encoding: gzip\r\n\r\n";
    assert!(matches!(get(lines).await, Err(FetchError::Encoding(_))));
}

#[tokio::test]
async fn a_request_asks_only_for_what_would_be_taken() {
    let servers = Servers::saying("hello");
    let guard = guard(Policy::default(), public(), servers.clone());
    guard.get("http://a.example/").await.unwrap();
    let requests = servers.requests();
    let asks = "accept-encoding: gzip, deflate\r\n";
    assert!(requests[0].to_lowercase().contains(asks), "{requests:?}");
}

#[tokio::test]
pub(crate) async fn no_more_is_read_than_the_server_announced() {
    let much = "x".repeat(100_000);
    let response = get(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{much}"
    ))
    .await;
    assert_eq!(response.unwrap().body.len(), 10);
}

#[tokio::test]
pub(crate) async fn a_body_without_end_is_cut_at_the_limit() {
    let limits = Limits {
        body_bytes_max: 1_000,
        ..Limits::default()
    };
    let much = "x".repeat(2_000);
    let heads = [
        "content-length: 10000000000",
        "content-length: 2000",
        "x: y",
    ];
    for head in heads {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{much}");
        let guard = sending_within(limits.clone(), answer);
        let response = guard.get("http://a.example/").await.unwrap();
        assert_eq!(
            (response.body.len(), response.end),
            (1_000, End::CutAtLimit),
            "{head}"
        );
    }
    let exactly = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1_000));
    let response = sending_within(limits, exactly)
        .get("http://a.example/")
        .await
        .unwrap();
    assert_eq!((response.body.len(), response.end), (1_000, End::Whole));
}

#[tokio::test]
pub(crate) async fn a_head_that_is_too_large_is_a_typed_error() {
    let many = "x: y\r\n".repeat(10_000);
    let long = format!("x: {}\r\n", "y".repeat(100 << 10));
    let megabyte = format!("x: {}\r\n", "y".repeat(1000)).repeat(1000);
    for fields in [many, long, megabyte] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let refused = get(answer).await.unwrap_err();
        assert!(matches!(refused, FetchError::HeadTooLarge), "{refused:?}");
    }
    let fine = format!(
        "HTTP/1.1 200 OK\r\nx: {}\r\n\r\nhello",
        "y".repeat(60 << 10)
    );
    assert_eq!(get(fine).await.unwrap().body, "hello");
}

#[tokio::test]
pub(crate) async fn a_head_without_end_is_a_typed_error_and_costs_little_memory() {
    let pipes = Pipes::to(|mut stream: DuplexStream| async move {
        head_of(&mut stream).await;
        let mut open = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await.is_ok();
        while open {
            open = stream.write_all(&[b'y'; 4096]).await.is_ok();
        }
    });
    let guard = guard(Policy::default(), public(), pipes);
    let before = memory_from_now_on();
    let refused = guard.get("http://a.example/").await.unwrap_err();
    assert!(matches!(refused, FetchError::HeadTooLarge), "{refused:?}");
    assert!(memory("VmHWM").saturating_sub(before) < 4 * MEBIBYTE);
}

#[tokio::test]
pub(crate) async fn a_body_that_breaks_off_is_an_error_that_says_how_much_came() {
    let length = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this".to_owned();
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nonly this\r\n5\r\nx";
    for answer in [length, chunked.to_owned()] {
        let broken = get(answer).await.unwrap_err();
        let FetchError::BrokenBody { received_bytes } = broken else {
            panic!("{broken:?}");
        };
        assert!((9..=10).contains(&received_bytes), "{received_bytes}");
    }
    let whole = gzip(&"some text ".repeat(100).into_bytes());
    let half = encoded("gzip", &whole[..whole.len() / 2]);
    assert!(matches!(
        get(half).await,
        Err(FetchError::BrokenBody { .. })
    ));
    let nonsense = encoded("gzip", b"this is not gzip");
    assert!(matches!(
        get(nonsense).await,
        Err(FetchError::BrokenBody { .. })
    ));
    let one = encoded("deflate", b"x");
    assert!(matches!(get(one).await, Err(FetchError::BrokenBody { .. })));
}

#[tokio::test]
async fn what_is_not_http_is_a_typed_error() {
    let wrong = [
        &b""[..],
        b"hello",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 2000 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nxx",
        b"\0\0\0\0",
    ];
    for answer in wrong {
        let refused = get(answer).await;
        assert!(
            matches!(refused, Err(FetchError::Response(_))),
            "{answer:?}: {refused:?}"
        );
    }
}
