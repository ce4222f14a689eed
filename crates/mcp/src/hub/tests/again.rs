//! Servers that were lost and are reached again: after a restart, after a rest, and after the stream of their
//! changes has ended.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use domain::event::ToolStatus;
use domain::limits::{MCP_FAILURES_MAX, MCP_REST, MCP_STEADY};
use domain::tool_server::Speech;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tools::remote::{Patience, RemoteTools as _};

use super::{call, hub_of, hub_with, named, offers, respond, skip, until};
use crate::faults::AT_ONCE;
use crate::faults::server::{Connection, answer, called, listen, result, tool};
use crate::hub::Hub;
use crate::supervise::Phase;

/// A server over events that can go and come back. Back, it knows nothing of what was before.
#[derive(Clone, Debug, Default)]
struct Leaving {
    is_down: Arc<AtomicBool>,
    /// How many came in vain while it was down, and a bell for that.
    in_vain: Arc<AtomicUsize>,
    came: Arc<Notify>,
    /// The number of the newest stream, and what it says.
    sessions: Arc<AtomicUsize>,
    stream: Arc<Mutex<Option<mpsc::Sender<Value>>>>,
    /// The tools that were called.
    calls: Arc<Mutex<Vec<String>>>,
}

impl Leaving {
    /// Begins to serve; gives the session that uses it.
    async fn hub(&self) -> Arc<Hub> {
        let server = self.clone();
        let base = listen(move |connection| server.clone().serve(connection));
        let url = format!("{}/sse", base.await);
        hub_with(vec![named("s", url, Speech::Sse)])
    }

    fn go(&self) {
        self.is_down.store(true, Ordering::SeqCst);
        *self.stream.lock().unwrap() = None;
    }

    fn come_back(&self) {
        self.is_down.store(false, Ordering::SeqCst);
    }

    fn in_vain(&self) -> usize {
        self.in_vain.load(Ordering::SeqCst)
    }

    async fn serve(self, mut connection: Connection) {
        while let Some(request) = connection.request().await {
            if self.is_down.load(Ordering::SeqCst) {
                self.in_vain.fetch_add(1, Ordering::SeqCst);
                self.came.notify_one();
                return connection.reset();
            }
            if request.method == "GET" {
                return self.speak(connection).await;
            }
            let session = self.sessions.load(Ordering::SeqCst);
            let stream = self.stream.lock().unwrap().clone();
            let is_known = request.path == format!("/messages?session={session}");
            let (true, Some(stream)) = (is_known, stream) else {
                connection.respond("404 Not Found", "text/plain", "").await;
                continue;
            };
            let said = match called(&request.body) {
                Some(name) => {
                    self.calls.lock().unwrap().push(name.to_owned());
                    if name == "hang" {
                        self.go();
                        return connection.reset();
                    }
                    Some(result(&request.body["id"], "here"))
                }
                None => answer(&request.body),
            };
            if let Some(said) = said {
                stream.send(said).await.unwrap();
            }
            connection.respond("202 Accepted", "text/plain", "").await;
        }
    }

    async fn speak(&self, mut connection: Connection) {
        let (stream, mut said) = mpsc::channel(64);
        let session = self.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        *self.stream.lock().unwrap() = Some(stream);
        connection.begin_events().await;
        let endpoint = format!("/messages?session={session}");
        connection.event("endpoint", &endpoint).await;
        while let Some(message) = said.recv().await {
            connection.event("message", &message.to_string()).await;
        }
    }
}

#[tokio::test]
async fn c_02_a_server_over_events_that_restarts_in_mid_call_is_reached_again_and_told_nothing_twice()
 {
    let server = Leaving::default();
    let hub = server.hub().await;
    hub.begun().await;
    let begun = Instant::now();
    let broken = hub.run(call("mcp__s__hang", json!({}))).await;
    assert_eq!(broken.status, ToolStatus::Unknown, "{}", broken.text);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    // A call that comes while it is down waits for it.
    let back = async {
        server.came.notified().await;
        server.come_back();
    };
    let again = hub.run(call("mcp__s__echo", json!({})));
    let (again, ()) = tokio::join!(again, back);
    assert_eq!(again.text, "here");
    assert_eq!(*server.calls.lock().unwrap(), ["hang", "echo"]);
    let sessions = server.sessions.load(Ordering::SeqCst);
    assert_eq!(sessions, 2, "at first, and once more");
}

#[tokio::test]
async fn c_02_a_server_over_events_that_has_forgotten_the_session_is_greeted_anew() {
    let server = Leaving::default();
    let hub = server.hub().await;
    hub.begun().await;
    // Its stream stays, as on a road on which nobody hears of a restart.
    server.sessions.fetch_add(1, Ordering::SeqCst);
    let begun = Instant::now();
    let lost = hub.run(call("mcp__s__echo", json!({}))).await;
    assert!(lost.text.contains("forgotten"), "{}", lost.text);
    let again = hub.run(call("mcp__s__echo", json!({}))).await;
    assert_eq!(again.text, "here");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(*server.calls.lock().unwrap(), ["echo"]);
}

fn phase(hub: &Hub) -> Phase {
    hub.reports()[0].phase
}

/// Lets time pass until the server is not tried any more.
async fn until_given_up(hub: &Hub) {
    loop {
        until(hub, || {
            matches!(phase(hub), Phase::BackingOff { .. } | Phase::Failed { .. })
        })
        .await;
        let Phase::BackingOff { until: due } = phase(hub) else {
            return;
        };
        skip(due.saturating_duration_since(Instant::now())).await;
        until(hub, || phase(hub) != Phase::BackingOff { until: due }).await;
    }
}

#[tokio::test]
async fn a_server_that_fails_too_often_rests_and_then_gets_one_try_with_a_turn() {
    let server = Leaving::default();
    let hub = server.hub().await;
    hub.begun().await;
    assert!(offers(&hub, "mcp__s__echo"));
    server.go();
    until(&hub, || phase(&hub) != Phase::Ready).await;
    until_given_up(&hub).await;
    // That its connection ended was the first failure.
    let tries = MCP_FAILURES_MAX as usize - 1;
    assert_eq!(server.in_vain(), tries);
    assert!(!offers(&hub, "mcp__s__echo"), "it has nothing to offer");

    let rests = phase(&hub);
    hub.settle(Vec::new(), Patience::Brief).await;
    assert_eq!((phase(&hub), server.in_vain()), (rests, tries), "it rests");
    skip(MCP_REST).await;
    assert_eq!(server.in_vain(), tries, "nobody wants it");
    hub.settle(Vec::new(), Patience::Brief).await;
    assert_eq!(server.in_vain(), tries + 1, "one try");
    assert!(matches!(phase(&hub), Phase::Failed { .. }));

    server.come_back();
    skip(MCP_REST).await;
    hub.settle(Vec::new(), Patience::Brief).await;
    assert!(offers(&hub, "mcp__s__echo"));
    let ran = hub.run(call("mcp__s__echo", json!({}))).await;
    assert_eq!(ran.text, "here");
}

/// A server of 2026-07-28 that can be listened to, but does not always want to be.
#[derive(Clone, Debug)]
struct Telling {
    /// How many tools it has.
    tools: watch::Sender<usize>,
    /// How often somebody began to listen, and a bell for that.
    listeners: Arc<AtomicUsize>,
    came: Arc<Semaphore>,
    /// Has it leave the first who listens.
    leave: Arc<Notify>,
}

impl Telling {
    async fn serve(self, mut connection: Connection) {
        let kept = json!({"ttlMs": 3_600_000, "cacheScope": "private", "resultType": "complete"});
        while let Some(request) = connection.request().await {
            let (body, id) = (&request.body, &request.body["id"]);
            let said = |mut result: Value| {
                let all = result.as_object_mut().unwrap();
                all.extend(kept.as_object().unwrap().clone());
                Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
            };
            let answer = match body["method"].as_str() {
                Some("server/discover") => said(json!({"supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {"listChanged": true}}})),
                Some("tools/list") => {
                    let tools = 0..*self.tools.borrow();
                    let tools: Vec<Value> = tools.map(|at| tool(&format!("tool_{at}"))).collect();
                    said(json!({"tools": tools}))
                }
                Some("subscriptions/listen") => return self.tell(connection, body).await,
                _ => answer(body),
            };
            respond(&mut connection, &request, answer).await;
        }
    }

    /// The first who listens is left soon, the second refused, others are told of changes.
    async fn tell(&self, mut connection: Connection, body: &Value) {
        let (number, mut tools) = (
            self.listeners.fetch_add(1, Ordering::SeqCst),
            self.tools.subscribe(),
        );
        self.came.add_permits(1);
        if number == 1 {
            return connection.respond("503 Busy", "text/plain", "").await;
        }
        connection.begin_events().await;
        let about = json!({"io.modelcontextprotocol/subscriptionId": body["id"]});
        let heard = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": about, "notifications": body["params"]["notifications"]}});
        connection.event("message", &heard.to_string()).await;
        if number == 0 {
            return self.leave.notified().await;
        }
        let changed = json!({"jsonrpc": "2.0", "params": {"_meta": about},
            "method": "notifications/tools/list_changed"});
        while tools.changed().await.is_ok() {
            connection.event("message", &changed.to_string()).await;
        }
    }
}

#[tokio::test]
async fn who_listens_for_changes_goes_on_listening_when_that_stream_has_ended() {
    let server = Telling {
        tools: watch::Sender::new(1),
        listeners: Arc::default(),
        came: Arc::new(Semaphore::new(0)),
        leave: Arc::default(),
    };
    let serving = server.clone();
    let base = listen(move |connection| serving.clone().serve(connection));
    let hub = hub_of(format!("{}/mcp", base.await));
    server.came.acquire().await.unwrap().forget();
    // The stream ends, and there is a tool more of which nobody is told.
    server.leave.notify_one();
    server.tools.send_replace(2);
    // Time passes in steps for which nothing that is under way is late.
    for _ in 0..30 {
        skip(MCP_STEADY).await;
        let came = tokio::time::timeout(AT_ONCE, server.came.acquire_many(2)).await;
        if let Ok(came) = came {
            came.unwrap().forget();
            break;
        }
    }
    assert_eq!(server.listeners.load(Ordering::SeqCst), 3);
    until(&hub, || offers(&hub, "mcp__s__tool_1")).await;
    server.tools.send_replace(3);
    until(&hub, || offers(&hub, "mcp__s__tool_2")).await;
}
