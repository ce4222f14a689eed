//! What a server does in one session, and what the servers of another session notice of it: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::tool_server::Speech;
use netguard::{Guard, Policy};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;
use tools::remote::{RemoteHome, RemoteTools as _};
use tools::roots::Roots;

use super::{call, named, respond, server_with};
use crate::connect::Servers;
use crate::faults::AT_ONCE;
use crate::faults::server::{Connection, answer, called, listen};
use crate::supervise::Phase;

/// What a server does about a call, for as long as anybody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Says one thing after the other, and no answer.
    Flood,
    /// Begins an answer that does not end.
    Endless,
    /// Ends the connection.
    Leaves,
    /// Nothing.
    Hangs,
}

const FAULTS: [Fault; 4] = [Fault::Flood, Fault::Endless, Fault::Leaves, Fault::Hangs];

async fn misbehave(mut connection: Connection, fault: Fault, is_over: &AtomicBool) {
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "x".repeat(100)}});
    let flood = format!("data: {log}\n\n").repeat(100);
    let piece = "x".repeat(64 * 1024);
    let said = match fault {
        Fault::Leaves => return connection.reset(),
        Fault::Hangs => return std::future::pending().await,
        Fault::Flood => &flood,
        Fault::Endless => &piece,
    };
    connection.begin_events().await;
    if fault == Fault::Endless {
        connection.send("data: ").await;
    }
    while !is_over.load(Ordering::SeqCst) {
        connection.send(said).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_a_server_does_in_one_session_no_other_session_notices() {
    for fault in FAULTS {
        let (is_over, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (ending, beginning) = (Arc::clone(&is_over), Arc::clone(&begun));
        let base = listen(move |mut connection| {
            let (ending, beginning) = (Arc::clone(&ending), Arc::clone(&beginning));
            async move {
                while let Some(request) = connection.request().await {
                    if called(&request.body).is_some() {
                        beginning.notify_one();
                        return misbehave(connection, fault, &ending).await;
                    }
                    respond(&mut connection, &request, answer(&request.body)).await;
                }
            }
        });
        let servers = Servers::new(Guard::new(Policy::default()).unwrap());
        let session = |url| {
            servers.hub(RemoteHome {
                roots: Roots::new("/".into(), Vec::new(), Vec::new()),
                shell: None,
                named: vec![named("s", url, Speech::Streamable)],
            })
        };
        let (one, other) = (session(format!("{}/mcp", base.await)), server_with(1).await);
        let other = session(other);
        one.begun().await;
        other.begun().await;
        let calls = (0..20).map(|_| one.run(call("mcp__s__hang", json!({}))));
        let calls = futures_util::future::join_all(calls);
        let calmly = async {
            begun.notified().await;
            for _ in 0..50 {
                let asked = Instant::now();
                let ran = other.run(call("mcp__s__tool_0", json!({}))).await;
                assert_eq!(ran.text, "ran", "{fault:?}");
                let took = asked.elapsed();
                assert!(took < AT_ONCE, "{fault:?}: {took:?}");
            }
            is_over.store(true, Ordering::SeqCst);
        };
        // Those calls may end before or stay; who is elsewhere does not care.
        let calling = async {
            calls.await;
            std::future::pending::<()>().await
        };
        tokio::select! {
            () = calmly => {}
            () = calling => {}
        }
        assert_eq!(other.reports()[0].phase, Phase::Ready, "{fault:?}");
    }
}
