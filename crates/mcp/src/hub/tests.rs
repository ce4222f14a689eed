//! A session's servers as its turns see them.

mod again;
mod beginning;
mod neighbours;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use domain::CallId;
use domain::event::ToolStatus;
use domain::limits::{MCP_GRACE, MCP_PAGES_MAX, MCP_TOOLS_SHOWN_MAX};
use domain::tool_server::{NamedBy, ServerUrl, ServerWay, Speech, ToolServer};
use netguard::{Guard, Policy};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tools::output::Output;
use tools::progress::Place;
use tools::remote::{Patience, RemoteCall, RemoteHome, RemoteTools as _};
use tools::roots::Roots;

use super::Hub;
use crate::connect::Servers;
use crate::faults::AT_ONCE;
use crate::faults::server::{Connection, Request, answer, called, listen, result, tool};
use crate::supervise::Phase;

/// How long something may take on a busy machine.
const WAIT: Duration = Duration::from_secs(20);

/// A server that has `count` tools.
async fn server_with(count: usize) -> String {
    let base = listen(move |mut connection| async move {
        while let Some(request) = connection.request().await {
            let body = &request.body;
            let said = match body["method"].as_str() {
                Some("tools/list") => {
                    let tools = (0..count).map(|number| tool(&format!("tool_{number}")));
                    let tools: Vec<Value> = tools.collect();
                    Some(json!({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": tools}}))
                }
                Some("tools/call") => Some(result(&body["id"], "ran")),
                _ => answer(body),
            };
            let (status, said) = match (request.method.as_str(), said) {
                ("POST", Some(said)) => ("200 OK", said.to_string()),
                ("POST", None) => ("202 Accepted", String::new()),
                _ => ("405 Method Not Allowed", String::new()),
            };
            connection.respond(status, "application/json", &said).await;
        }
    });
    format!("{}/mcp", base.await)
}

fn named(name: &str, url: String, speech: Speech) -> ToolServer {
    let at = ServerUrl {
        url,
        headers: Vec::new(),
        speech,
        client: None,
    };
    ToolServer::new(name, ServerWay::Url(at), NamedBy::Operator)
}

fn hub_with(named: Vec<ToolServer>) -> Arc<Hub> {
    let guard = Guard::new(Policy::default()).unwrap();
    Servers::new(guard).hub(RemoteHome {
        roots: Roots::new("/".into(), Vec::new(), Vec::new()),
        shell: None,
        named,
    })
}

fn hub_of(url: String) -> Arc<Hub> {
    hub_with(vec![named("s", url, Speech::Streamable)])
}

/// Waits until `happened`, which is known whenever something about a server has changed.
async fn until(hub: &Hub, happened: impl Fn() -> bool) {
    let waiting = async {
        loop {
            let changed = hub.changed.notified();
            if happened() {
                return;
            }
            changed.await;
        }
    };
    tokio::time::timeout(WAIT, waiting).await.unwrap();
}

/// Has time pass at once, so that nothing that is under way on the network is late for it.
async fn skip(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    // Whoever waited for that time hears of it.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
}

/// Whether the tool `name` is offered.
fn offers(hub: &Hub, name: &str) -> bool {
    hub.offered().find(name).is_some()
}

fn call(name: &str, input: Value) -> RemoteCall {
    RemoteCall {
        call: CallId::random(),
        name: name.to_owned(),
        input,
        place: Place::nowhere(),
        output: Output::new(std::path::PathBuf::new()),
        asks: None,
    }
}

#[tokio::test]
async fn of_many_tools_the_model_is_told_of_the_search_and_of_what_it_found() {
    for (count, is_searched) in [
        (MCP_TOOLS_SHOWN_MAX, false),
        (MCP_TOOLS_SHOWN_MAX + 1, true),
    ] {
        let hub = hub_of(server_with(count).await);
        hub.begun().await;
        let shown = || -> Vec<String> {
            let offered = hub.offered();
            let shown = offered.tools.iter().filter(|tool| tool.is_shown);
            shown.map(|tool| tool.name.clone()).collect()
        };
        if !is_searched {
            assert_eq!(shown().len(), count);
            continue;
        }
        assert_eq!(shown(), ["tool_search"]);
        let before = hub.offered().version;
        let found = hub
            .run(call("tool_search", json!({"query": "tool_7", "limit": 1})))
            .await;
        assert!(found.text.contains("mcp__s__tool_7"), "{}", found.text);
        assert_eq!(shown(), ["mcp__s__tool_7", "tool_search"]);
        assert_ne!(hub.offered().version, before, "turns see that it changed");
        let ran = hub.run(call("mcp__s__tool_9", json!({}))).await;
        assert_eq!(
            ran.text, "ran",
            "what is not shown can be called all the same"
        );
    }
}

#[tokio::test]
async fn a_server_that_restarts_in_mid_call_is_reached_again_and_nothing_is_sent_twice() {
    let (restarted, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (is_new, counted) = (Arc::clone(&restarted), Arc::clone(&calls));
    let base = listen(move |mut connection| {
        let (is_new, counted) = (Arc::clone(&is_new), Arc::clone(&counted));
        async move {
            while let Some(request) = connection.request().await {
                let body = &request.body;
                if body["method"] == "initialize" {
                    is_new.store(false, Ordering::SeqCst);
                }
                if let Some(name) = called(body) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    if name == "hang" {
                        is_new.store(true, Ordering::SeqCst);
                        return connection.reset();
                    }
                }
                // After a restart it does not know the session any more.
                let is_lost = is_new.load(Ordering::SeqCst) && request.session.is_some();
                let (status, said) = match (request.method.as_str(), answer(body), called(body)) {
                    _ if is_lost => ("404 Not Found", String::new()),
                    ("POST", _, Some(_)) => ("200 OK", result(&body["id"], "here").to_string()),
                    ("POST", Some(said), _) => ("200 OK", said.to_string()),
                    ("POST", None, _) => ("202 Accepted", String::new()),
                    _ => ("405 Method Not Allowed", String::new()),
                };
                connection.respond(status, "application/json", &said).await;
            }
        }
    });
    let hub = hub_of(format!("{}/mcp", base.await));
    hub.begun().await;
    let begun = Instant::now();
    let broken = hub.run(call("mcp__s__hang", json!({}))).await;
    assert_eq!(broken.status, ToolStatus::Unknown, "{}", broken.text);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let begun = Instant::now();
    let forgotten = hub.run(call("mcp__s__echo", json!({}))).await;
    assert!(forgotten.text.contains("forgotten"), "{}", forgotten.text);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let again = hub.run(call("mcp__s__echo", json!({}))).await;
    assert_eq!(again.text, "here");
    assert_eq!(
        calls.load(Ordering::SeqCst),
        3,
        "three calls, three requests"
    );
}

#[tokio::test]
async fn a_list_without_end_is_read_as_far_as_pages_go() {
    let pages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pages);
    let base = listen(move |mut connection| {
        let counted = Arc::clone(&counted);
        async move {
            while let Some(request) = connection.request().await {
                let body = &request.body;
                let said = match body["method"].as_str() {
                    Some("tools/list") => {
                        let page = counted.fetch_add(1, Ordering::SeqCst);
                        let tools = [tool(&format!("tool_{page}"))];
                        let page = json!({"tools": tools, "nextCursor": page.to_string()});
                        Some(json!({"jsonrpc": "2.0", "id": body["id"], "result": page}))
                    }
                    _ => answer(body),
                };
                respond(&mut connection, &request, said).await;
            }
        }
    });
    let hub = hub_of(format!("{}/mcp", base.await));
    hub.begun().await;
    assert_eq!(hub.reports()[0].phase, Phase::Ready);
    assert_eq!(pages.load(Ordering::SeqCst), MCP_PAGES_MAX);
}

async fn respond(connection: &mut Connection, request: &Request, said: Option<Value>) {
    let (status, said) = match (request.method.as_str(), said) {
        ("POST", Some(said)) => ("200 OK", said.to_string()),
        ("POST", None) => ("202 Accepted", String::new()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    connection.respond(status, "application/json", &said).await;
}

#[tokio::test]
async fn however_many_calls_wait_a_lost_server_is_greeted_once() {
    let (greetings, is_lost) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counted, losing) = (Arc::clone(&greetings), Arc::clone(&is_lost));
    let base = listen(move |mut connection| {
        let (counted, losing) = (Arc::clone(&counted), Arc::clone(&losing));
        async move {
            while let Some(request) = connection.request().await {
                let body = &request.body;
                if body["method"] == "initialize" {
                    counted.fetch_add(1, Ordering::SeqCst);
                    losing.store(false, Ordering::SeqCst);
                }
                if losing.load(Ordering::SeqCst) && request.session.is_some() {
                    connection.respond("404 Not Found", "text/plain", "").await;
                    continue;
                }
                let said = match called(body) {
                    Some(_) => Some(result(&body["id"], "here")),
                    None => answer(body),
                };
                respond(&mut connection, &request, said).await;
            }
        }
    });
    let hub = hub_of(format!("{}/mcp", base.await));
    hub.begun().await;
    is_lost.store(true, Ordering::SeqCst);
    let lost = hub.run(call("mcp__s__echo", json!({}))).await;
    assert!(lost.text.contains("forgotten"), "{}", lost.text);
    let waiting = (0..20).map(|_| hub.run(call("mcp__s__echo", json!({}))));
    for ran in futures_util::future::join_all(waiting).await {
        assert_eq!(ran.text, "here");
    }
    assert_eq!(
        greetings.load(Ordering::SeqCst),
        2,
        "at first, and once more"
    );
}

#[tokio::test]
async fn other_servers_of_a_session_do_not_notice_that_one_breaks() {
    let arrived = Arc::new(Semaphore::new(0));
    let arriving = Arc::clone(&arrived);
    let broken = listen(move |mut connection| {
        let arriving = Arc::clone(&arriving);
        async move {
            while let Some(request) = connection.request().await {
                if called(&request.body).is_some() {
                    arriving.add_permits(1);
                    return std::future::pending().await;
                }
                respond(&mut connection, &request, answer(&request.body)).await;
            }
        }
    });
    let (broken, whole) = (format!("{}/mcp", broken.await), server_with(1).await);
    let hub = hub_with(vec![
        named("broken", broken, Speech::Streamable),
        named("whole", whole, Speech::Streamable),
    ]);
    hub.begun().await;
    let hanging = (0..200).map(|_| hub.run(call("mcp__broken__hang", json!({}))));
    let hanging = futures_util::future::join_all(hanging);
    let others = async {
        arrived.acquire_many(200).await.unwrap().forget();
        for _ in 0..50 {
            let begun = Instant::now();
            let ran = hub.run(call("mcp__whole__tool_0", json!({}))).await;
            assert_eq!(ran.text, "ran");
            assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        }
    };
    tokio::select! {
        _ = hanging => panic!("nobody answered"),
        () = others => {}
    }
    let phases: Vec<Phase> = hub.reports().iter().map(|report| report.phase).collect();
    assert_eq!(phases, [Phase::Ready, Phase::Ready]);
}

#[tokio::test]
async fn a_server_that_is_not_needed_is_not_waited_for_and_joins_when_it_is_ready() {
    let may_begin = Arc::new(Semaphore::new(0));
    let beginning = Arc::clone(&may_begin);
    let base = listen(move |mut connection| {
        let beginning = Arc::clone(&beginning);
        async move {
            while let Some(request) = connection.request().await {
                let _begun = beginning.acquire().await.unwrap();
                respond(&mut connection, &request, answer(&request.body)).await;
            }
        }
    });
    let url = format!("{}/mcp", base.await);
    let slow = named("s", url.clone(), Speech::Streamable);
    let hub = hub_with(vec![slow]);
    let begun = Instant::now();
    hub.settle(Vec::new(), Patience::Brief).await;
    assert!(
        begun.elapsed() < MCP_GRACE + AT_ONCE,
        "{:?}",
        begun.elapsed()
    );
    assert!(!offers(&hub, "mcp__s__echo"));
    let begun = Instant::now();
    hub.settle(Vec::new(), Patience::Brief).await;
    assert!(
        begun.elapsed() < AT_ONCE,
        "the next turn does not wait again"
    );
    may_begin.add_permits(1);
    until(&hub, || offers(&hub, "mcp__s__echo")).await;
}

/// What a server says has changed, again and again.
fn changed(more: Value) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": more})
        .to_string()
}

#[tokio::test]
async fn tools_that_change_are_listed_anew_once_however_often_that_is_said() {
    for is_newer in [false, true] {
        let (lists, grows) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, growing) = (Arc::clone(&lists), Arc::clone(&grows));
        let base = listen(move |connection| {
            changing(
                connection,
                is_newer,
                Arc::clone(&counted),
                Arc::clone(&growing),
            )
        });
        let hub = hub_of(format!("{}/mcp", base.await));
        hub.begun().await;
        assert!(offers(&hub, "mcp__s__tool_0"), "{is_newer}");
        grows.add_permits(1);
        until(&hub, || offers(&hub, "mcp__s__tool_1")).await;
        assert_eq!(lists.load(Ordering::SeqCst), 2, "newer: {is_newer}");
    }
}

/// A server that says five times that its tools have changed, once `growing`: on the stream on which it speaks
/// first, or to who has subscribed.
async fn changing(
    mut connection: Connection,
    is_newer: bool,
    lists: Arc<AtomicUsize>,
    growing: Arc<Semaphore>,
) {
    let listener = "io.modelcontextprotocol/subscriptionId";
    while let Some(request) = connection.request().await {
        let (body, id) = (&request.body, &request.body["id"]);
        let kept = json!({"ttlMs": 3_600_000, "cacheScope": "private", "resultType": "complete"});
        let said = |mut result: Value| {
            if let (true, Some(result)) = (is_newer, result.as_object_mut()) {
                result.extend(kept.as_object().unwrap().clone());
            }
            Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        };
        let answer = match body["method"].as_str() {
            Some("server/discover") if is_newer => {
                said(json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}}}))
            }
            Some("tools/list") => {
                let number = lists.fetch_add(1, Ordering::SeqCst);
                said(json!({"tools": [tool(&format!("tool_{number}"))]}))
            }
            Some("subscriptions/listen") => {
                connection.begin_events().await;
                let params = json!({"_meta": {listener: id},
                    "notifications": body["params"]["notifications"]});
                let taken = json!({"jsonrpc": "2.0", "params": params,
                    "method": "notifications/subscriptions/acknowledged"});
                connection.event("message", &taken.to_string()).await;
                let changed = changed(json!({"_meta": {listener: id}}));
                return repeat(connection, &changed, &growing).await;
            }
            _ if request.method == "GET" && !is_newer => {
                connection.begin_events().await;
                return repeat(connection, &changed(json!({})), &growing).await;
            }
            _ => answer(body),
        };
        respond(&mut connection, &request, answer).await;
    }
}

async fn repeat(mut connection: Connection, changed: &str, growing: &Semaphore) {
    growing.acquire().await.unwrap().forget();
    for _ in 0..5 {
        connection.event("message", changed).await;
    }
    std::future::pending().await
}
