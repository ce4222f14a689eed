//! How the servers of a session begin: at the same time, and waited for where they are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::limits::MCP_GRACE;
use domain::tool_server::Speech;
use tokio::sync::{Barrier, Semaphore};
use tokio::time::Instant;
use tools::remote::{Patience, RemoteTools as _};

use super::{WAIT, hub_with, named, offers, respond, skip, until};
use crate::faults::server::{answer, listen};
use crate::supervise::Phase;

#[tokio::test]
async fn a_server_that_is_needed_is_waited_for_also_while_it_is_tried_again() {
    let (is_down, may_begin) = (Arc::new(AtomicBool::new(true)), Arc::new(Semaphore::new(0)));
    let (failing, beginning) = (Arc::clone(&is_down), Arc::clone(&may_begin));
    let greeted = Arc::new(Semaphore::new(0));
    let greeting = Arc::clone(&greeted);
    let base = listen(move |mut connection| {
        let (failing, beginning) = (Arc::clone(&failing), Arc::clone(&beginning));
        let greeting = Arc::clone(&greeting);
        async move {
            while let Some(request) = connection.request().await {
                if failing.load(Ordering::SeqCst) {
                    return connection.reset();
                }
                greeting.add_permits(1);
                let _begun = beginning.acquire().await.unwrap();
                respond(&mut connection, &request, answer(&request.body)).await;
            }
        }
    });
    let mut needed = named("s", format!("{}/mcp", base.await), Speech::Streamable);
    needed.is_required = true;
    let hub = hub_with(vec![needed]);
    let has_settled = AtomicBool::new(false);
    let settling = async {
        hub.settle(Vec::new(), Patience::Brief).await;
        has_settled.store(true, Ordering::SeqCst);
    };
    let helping = async {
        let phase = || hub.reports()[0].phase;
        until(&hub, || matches!(phase(), Phase::BackingOff { .. })).await;
        is_down.store(false, Ordering::SeqCst);
        if let Phase::BackingOff { until: due } = phase() {
            skip(due.saturating_duration_since(Instant::now())).await;
        }
        greeted.acquire().await.unwrap().forget();
        // Longer than others get.
        skip(MCP_GRACE * 3).await;
        assert!(!has_settled.load(Ordering::SeqCst), "it is not waited for");
        may_begin.add_permits(1);
    };
    tokio::join!(settling, helping);
    assert!(offers(&hub, "mcp__s__echo"));
}

#[tokio::test]
async fn the_servers_of_a_session_begin_at_the_same_time() {
    const COUNT: usize = 8;
    // Each answers once all are greeted.
    let all = Arc::new(Barrier::new(COUNT));
    let mut servers = Vec::new();
    for number in 0..COUNT {
        let (all, is_greeted) = (Arc::clone(&all), Arc::new(AtomicBool::new(false)));
        let base = listen(move |mut connection| {
            let (all, is_greeted) = (Arc::clone(&all), Arc::clone(&is_greeted));
            async move {
                while let Some(request) = connection.request().await {
                    if !is_greeted.swap(true, Ordering::SeqCst) {
                        all.wait().await;
                    }
                    respond(&mut connection, &request, answer(&request.body)).await;
                }
            }
        });
        let url = format!("{}/mcp", base.await);
        servers.push(named(&format!("s{number}"), url, Speech::Streamable));
    }
    let hub = hub_with(servers);
    tokio::time::timeout(WAIT, hub.begun()).await.unwrap();
    let reports = hub.reports();
    assert_eq!(reports.len(), COUNT);
    let is_ready = |report: &crate::ServerReport| report.phase == Phase::Ready;
    assert!(reports.iter().all(is_ready), "{reports:?}");
}
