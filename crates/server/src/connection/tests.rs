//! A connection that fails on our side, and what is left of it; a stream whose reader comes and goes
//! as the client leaves the session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auth::{Door, Gate};
use bytes::Bytes;
use domain::limits::BATCH_EVENTS_MAX;
use domain::{ConnectionId, Limits};
use futures_util::{Stream, StreamExt as _};
use journal::FileStore;
use journal::storage::power::PowerStorage;
use llm::{Model, Provider};
use serde_json::{Value, json};
use session::{Catalog, Engine, OneModel, Sessions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::sse::SseParser;

use super::lanes::Lanes;
use super::outbox::{Frame, Gone, Next, Outbox};
use super::{Inbound, Opening, Reach, Source, serve};
use crate::roster::Roster;
use crate::service::Service;
use crate::slots::Slots;
use crate::transport::pipe::{self, Ends};
use crate::transport::streamable::Remotes;
use crate::transport::streamable::within::Within;

struct NoModel;

impl Provider for NoModel {
    fn label(&self) -> &'static str {
        "none"
    }

    fn open(&self) -> Box<dyn Model> {
        panic!("nobody prompts here")
    }
}

/// A service with room for one client.
pub(crate) fn service() -> Service {
    service_with(Limits {
        connections_max: 1,
        ..Limits::default()
    })
}

fn service_with(limits: Limits) -> Service {
    let gate = Arc::new(Gate::this_process_only());
    let provider: Arc<dyn Provider> = Arc::new(NoModel);
    let catalog: Arc<dyn Catalog> = Arc::new(OneModel(Arc::clone(&provider)));
    let sessions = Sessions::start(Engine {
        store: FileStore::with_storage(Arc::new(PowerStorage::new(1))),
        catalog: Arc::clone(&catalog),
        provider,
        limits: limits.clone(),
        greeting: None,
        hidden: Vec::new(),
        base: None,
        gate: Arc::clone(&gate),
        web: None,
        operator: Arc::default(),
        shell: None,
        remotes: None,
    });
    Service {
        sessions,
        gate,
        door: Door::new(0, &[], &[]),
        slots: Slots::new(&limits),
        limits,
        catalog,
        model_login: Arc::new(crate::LoginState::Ready),
        data_dir: "/nowhere".into(),
        cwd: "/".into(),
        tokens_changed: tokio::sync::watch::Sender::new(()),
        closing: CancellationToken::new(),
        remotes: Remotes::default(),
        roster: Roster::default(),
        connections: TaskTracker::new(),
    }
}

/// A client whose very first message cannot be taken.
struct Broken;

impl Source for Broken {
    async fn next(&mut self) -> Option<Inbound> {
        panic!("injected")
    }
}

#[tokio::test]
async fn b_07_a_connection_that_fails_at_the_start_closes_with_1011_and_leaks_nothing() {
    let service = Arc::new(service());
    let principal = service.admit(&auth::Credential::ThisProcess).unwrap();
    let outbox = Outbox::new(1_000);
    let slot = service.take_slot(&principal);
    assert!(
        service.take_slot(&principal).is_none(),
        "there is one place"
    );
    let opening = Opening {
        id: ConnectionId::random(),
        principal: principal.clone(),
        source: Broken,
        lanes: Lanes::One(outbox.clone()),
        reach: Reach::Network,
        trace: None,
    };
    let serving = tokio::spawn({
        let service = Arc::clone(&service);
        async move {
            serve(service, opening).await;
            drop(slot);
        }
    });
    assert!(serving.await.is_err_and(|error| error.is_panic()));
    assert!(matches!(outbox.next().await, Next::Close(1011)));
    let mut frames = VecDeque::from([Frame::once("too late".to_owned())]);
    assert_eq!(outbox.stream(&mut frames).await, Err(Gone));
    assert!(
        service.take_slot(&principal).is_some(),
        "its place is free again"
    );
}

/// What a client hears, by its number or by what changed.
fn heard(message: &Value) -> Value {
    match message["method"].is_null() {
        true => message["id"].clone(),
        false => message["params"]["update"]["currentModeId"].clone(),
    }
}

/// Reads a stream up to the message that `is_last`; gives what came, and the name of the last event.
async fn read_to(
    stream: impl Stream<Item = Bytes>,
    is_last: impl Fn(&Value) -> bool,
) -> (Vec<Value>, Option<String>) {
    let mut stream = std::pin::pin!(stream);
    let mut parser = SseParser::new(1_000_000);
    let mut messages = Vec::new();
    loop {
        let bytes = stream.next().await.expect("more to come");
        for event in parser.push(&bytes).unwrap() {
            let message = serde_json::from_str(&event.data).unwrap();
            let last = is_last(&message);
            messages.push(heard(&message));
            if last {
                return (messages, event.id);
            }
        }
    }
}

/// A request.
fn ask(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn hello() -> String {
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    ask(1, "initialize", &params)
}

/// Somebody in a session whose mode it changes again and again.
struct Changer {
    ends: Ends,
    session: String,
    asked: u64,
}

impl Changer {
    async fn in_new_session(service: &Arc<Service>) -> Self {
        let mut changer = Self {
            ends: pipe::connect(service).unwrap(),
            session: String::new(),
            asked: 1,
        };
        changer.ends.0.send(hello()).await.unwrap();
        let new = json!({"cwd": "/", "mcpServers": []});
        let made = changer.answer("session/new", &new).await;
        changer.session = made["sessionId"].as_str().unwrap().to_owned();
        changer
    }

    async fn answer(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let frame = ask(self.asked, method, params);
        self.ends.0.send(frame).await.unwrap();
        loop {
            let frame = self.ends.1.recv().await.unwrap();
            let message: Value = serde_json::from_str(&frame).unwrap();
            if message["id"] == self.asked {
                return message["result"].clone();
            }
        }
    }

    /// Changes the mode so often; gives what it was each time.
    async fn change(&mut self, times: usize) -> Vec<Value> {
        let modes = ["plan", "default"].map(Value::from);
        let modes: Vec<Value> = modes.into_iter().cycle().take(times).collect();
        for mode in &modes {
            let params = json!({"sessionId": self.session, "modeId": mode});
            self.answer("session/set_mode", &params).await;
        }
        modes
    }

    fn load(&self) -> Value {
        json!({"sessionId": self.session, "cwd": "/", "mcpServers": []})
    }
}

/// A service whose streams have room for a few updates only, so that sessions wait for readers.
fn tight_service() -> Arc<Service> {
    Arc::new(service_with(Limits {
        outbox_bytes_max: 8 * 1024,
        ..Limits::default()
    }))
}

/// A session whose mode was changed, what it was each time, and a client that comes by single requests.
async fn changed_and_entered_by_requests() -> (Changer, Vec<Value>, Within) {
    let service = tight_service();
    let mut changer = Changer::in_new_session(&service).await;
    let modes = changer.change(40).await;
    let principal = service.admit(&auth::Credential::ThisProcess).unwrap();
    let opened = Within::open(&service, principal, &hello()).await;
    (changer, modes, opened.unwrap().0)
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_stream_up_again_while_it_leaves_the_session_misses_nothing() {
    let (changer, modes, leaver) = changed_and_entered_by_requests().await;
    let session = &changer.session;
    let stream = leaver.read(Some(session), None).unwrap();
    let load = ask(2, "session/load", &changer.load());
    assert!(leaver.post(&load).await);
    let (first, last) = read_to(stream, |message| heard(message) == "plan").await;
    let close = ask(3, "session/close", &json!({"sessionId": session}));
    assert!(leaver.post(&close).await);
    // The session has said how far to read, and its stream waits for room.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = leaver.read(Some(session), last.as_deref()).unwrap();
    let (rest, _) = read_to(again, |message| heard(message) == 3).await;
    let told = first.iter().chain(&rest).filter(|one| one.is_string());
    assert_eq!(told.collect::<Vec<_>>(), modes.iter().collect::<Vec<_>>());
    assert!(rest.contains(&2.into()), "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_a_session_is_loaded_is_told_after_the_answer() {
    let service = tight_service();
    let mut changer = Changer::in_new_session(&service).await;
    // More than is read at once, so that the rest is read with what comes later.
    let history = changer.change(BATCH_EVENTS_MAX + 10).await;
    let principal = service.admit(&auth::Credential::ThisProcess).unwrap();
    let (to_agent, mut from_agent) = pipe::connect_as(&service, principal, 1);
    to_agent.send(hello()).await.unwrap();
    let load = ask(2, "session/load", &changer.load());
    to_agent.send(load).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    changer.change(5).await;
    let mut told = Vec::new();
    while !told.ends_with(&[2.into()]) {
        let frame = from_agent.recv().await.unwrap();
        told.push(heard(&serde_json::from_str(&frame).unwrap()));
    }
    told.retain(Value::is_string);
    assert_eq!(told, history);
}

#[tokio::test(start_paused = true)]
async fn who_closes_a_session_and_reads_its_stream_no_more_can_enter_it_again() {
    let (changer, modes, leaver) = changed_and_entered_by_requests().await;
    let session = &changer.session;
    let main = leaver.read(None, None).unwrap();
    let stream = leaver.read(Some(session), None).unwrap();
    let load = ask(2, "session/load", &changer.load());
    assert!(leaver.post(&load).await);
    read_to(stream, |message| heard(message) == "plan").await;
    let close = ask(3, "session/close", &json!({"sessionId": session}));
    assert!(leaver.post(&close).await);
    let load = ask(4, "session/load", &changer.load());
    assert!(leaver.post(&load).await);
    let (mut told, _) = read_to(main, |message| heard(message) == 4).await;
    told.retain(Value::is_string);
    assert_eq!(told, modes);
}
