//! A session's servers as its turns see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use domain::CallId;
use domain::event::ToolStatus;
use domain::limits::MCP_TOOLS_SHOWN_MAX;
use domain::tool_server::{NamedBy, ServerUrl, ServerWay, Speech, ToolServer};
use netguard::{Guard, Policy};
use serde_json::{Value, json};
use tokio::time::Instant;
use tools::output::Output;
use tools::progress::Place;
use tools::remote::{RemoteCall, RemoteHome, RemoteTools as _};
use tools::roots::Roots;

use super::Hub;
use crate::connect::Servers;
use crate::faults::AT_ONCE;
use crate::faults::server::{answer, called, listen, result, tool};

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

fn hub_of(url: String) -> Arc<Hub> {
    let at = ServerUrl {
        url,
        headers: Vec::new(),
        speech: Speech::Streamable,
        client: None,
    };
    let named = ToolServer::new("s", ServerWay::Url(at), NamedBy::Operator);
    let guard = Guard::new(Policy::default()).unwrap();
    Servers::new(guard).hub(RemoteHome {
        roots: Roots::new("/".into(), Vec::new(), Vec::new()),
        shell: None,
        named: vec![named],
    })
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
