//! F30: clients that begin a request and never finish it.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{Outcome, quiet};
use crate::program::Program;
use crate::raw::{RawSocket, connect, ended};

/// Opens `count` connections that send half of their headers; all must be given up `within`,
/// while others are served.
///
/// # Errors
/// If one is not, or nobody else is served meanwhile.
pub async fn slow_headers(server: &Program, count: usize, within: Duration) -> Outcome {
    let mut neighbour = RawSocket::initialized(server).await;
    let started = Instant::now();
    let opening = (0..count).map(|number| async move {
        let mut stream = connect(server).await;
        let begun = &b"GET /acp HTTP/1.1\r\nhost: x\r\nx-slow: y"[..10 + number % 25];
        // One that was refused at once has ended already.
        let _ = stream.write_all(begun).await;
        stream
    });
    let mut slow = join_all(opening).await;
    let opened = started.elapsed();
    let asked = Instant::now();
    neighbour.call("session/list", json!({})).await;
    let served = asked.elapsed();
    join_all(slow.iter_mut().map(ended)).await;
    let took = started.elapsed();
    quiet(server)?;
    if took > within + opened {
        return Err(format!("{count} slow connections were held for {took:?}"));
    }
    Ok(format!(
        "F30 {count} slow headers: all given up after {} ms; a neighbour was answered in {} ms",
        took.as_millis(),
        served.as_millis()
    ))
}
