//! Requests to a client: none is lost, none stays behind, none is written in vain.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use domain::SessionId;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use session::client_side::{
    ClientError, ClientSide, ReadTextFile, TerminalCommand, TerminalExit, TerminalId,
};
use tokio_util::task::TaskTracker;
use wire::acp::ClientCapabilities;
use wire::rpc::{RequestId, RpcError};

use super::{Asking, Lane, Port, Reply};

const TIME_MAX: Duration = Duration::from_secs(30);

/// A client that only listens.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<Vec<Value>>>);

impl Lane for Silent {
    fn send(&self, _: SessionId, frame: String) {
        let frame = serde_json::from_str(&frame).unwrap();
        self.0.lock().unwrap().push(frame);
    }
}

impl Silent {
    /// What it was sent since the last time, each as its method.
    fn methods(&self) -> Vec<String> {
        let frames = std::mem::take(&mut *self.0.lock().unwrap());
        let method = |frame: &Value| frame["method"].as_str().unwrap_or_default().to_owned();
        frames.iter().map(method).collect()
    }

    fn last_id(&self) -> RequestId {
        let frames = self.0.lock().unwrap();
        let last = frames.iter().rfind(|frame| frame.get("id").is_some());
        RequestId::string(last.unwrap()["id"].as_str().unwrap())
    }
}

/// A client that answers before the write is done.
struct Instant(Weak<Asking>, Arc<AtomicUsize>);

impl Lane for Instant {
    fn send(&self, _: SessionId, frame: String) {
        let frame: Value = serde_json::from_str(&frame).unwrap();
        let id = RequestId::string(frame["id"].as_str().unwrap());
        let reply = result(&json!({"content": frame["id"]}));
        let taken = self.0.upgrade().unwrap().settle(&id, reply).is_ok();
        self.1.fetch_add(usize::from(taken), Ordering::Relaxed);
    }
}

fn port(asking: &Arc<Asking>) -> Port {
    let capabilities = ClientCapabilities {
        read_text_file: true,
        terminal: true,
        ..ClientCapabilities::default()
    };
    let tasks = TaskTracker::new();
    Port::new(asking, SessionId::random(), capabilities, TIME_MAX, &tasks).unwrap()
}

fn silent() -> (Arc<Asking>, Port, Silent) {
    let client = Silent::default();
    let asking = Arc::new(Asking::new(client.clone()));
    let port = port(&asking);
    (asking, port, client)
}

fn result(value: &Value) -> Reply {
    Ok(RawValue::from_string(value.to_string()).unwrap())
}

fn file() -> ReadTextFile {
    ReadTextFile {
        path: "/w/a".to_owned(),
        line: None,
        limit: None,
    }
}

fn command() -> TerminalCommand {
    TerminalCommand {
        command: "bash".to_owned(),
        args: Vec::new(),
        cwd: "/w".to_owned(),
        output_bytes_max: 1,
    }
}

impl Asking {
    fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

/// Asks a client that answers within the write; gives how many answers were used.
async fn ask_instantly(times: usize) -> usize {
    let used = Arc::new(AtomicUsize::new(0));
    let lane = |asking: &Weak<Asking>| Instant(asking.clone(), Arc::clone(&used));
    let asking = Arc::new_cyclic(|asking| Asking::new(lane(asking)));
    let port = port(&asking);
    let mut ids = HashSet::new();
    for _ in 0..times {
        let id = port.read_text_file(file()).await.unwrap();
        assert!(ids.insert(id), "an id was used twice");
    }
    assert_eq!(asking.waiting(), 0);
    used.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_03_a_peer_that_answers_inside_the_write_is_heard() {
    assert_eq!(ask_instantly(1_000).await, 1_000);
}

#[tokio::test]
async fn f31_no_answer_is_lost_however_early_it_comes() {
    assert_eq!(ask_instantly(100_000).await, 100_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f31_no_answer_is_lost_when_another_thread_gives_it() {
    let (frames, mut written) = tokio::sync::mpsc::channel::<String>(64);
    struct Queue(tokio::sync::mpsc::Sender<String>);
    impl Lane for Queue {
        fn send(&self, _: SessionId, frame: String) {
            self.0.try_send(frame).unwrap();
        }
    }
    let asking = Arc::new(Asking::new(Queue(frames)));
    let answering = Arc::clone(&asking);
    let peer = tokio::spawn(async move {
        for _ in 0..20_000 {
            let frame: Value = serde_json::from_str(&written.recv().await.unwrap()).unwrap();
            let id = RequestId::string(frame["id"].as_str().unwrap());
            assert!(
                answering
                    .settle(&id, result(&json!({"content": ""})))
                    .is_ok()
            );
        }
    });
    let port = port(&asking);
    for _ in 0..20_000 {
        port.read_text_file(file()).await.unwrap();
    }
    peer.await.unwrap();
    assert_eq!(asking.waiting(), 0);
}

#[tokio::test]
async fn a_05_ids_are_version_4_uuids_and_unknown_ids_are_given_back() {
    let (asking, port, client) = silent();
    let mut reads: Vec<_> = (0..1_000).map(|_| port.read_text_file(file())).collect();
    for read in &mut reads {
        assert!(futures_util::poll!(read).is_pending());
    }
    let ids: HashSet<String> = {
        let frames = client.0.lock().unwrap();
        let id = |frame: &Value| frame["id"].as_str().unwrap().to_owned();
        frames.iter().map(id).collect()
    };
    assert_eq!(ids.len(), 1_000);
    for id in &ids {
        let parts: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!("89ab".contains(&id[19..20]), "{id}");
    }
    let unknown = RequestId::string("00000000-0000-4000-8000-000000000000");
    assert!(asking.settle(&unknown, result(&json!({}))).is_err());
    let number = RequestId::integer(1);
    let refusal = Err(RpcError::internal());
    assert!(asking.settle(&number, refusal).is_err());
    assert_eq!(asking.waiting(), 1_000);
}

#[tokio::test]
async fn an_answer_counts_once() {
    let (asking, port, client) = silent();
    let mut read = port.read_text_file(file());
    assert!(futures_util::poll!(&mut read).is_pending());
    let id = client.last_id();
    let answer = || result(&json!({"content": "x"}));
    assert!(asking.settle(&id, answer()).is_ok());
    assert!(asking.settle(&id, answer()).is_err());
    assert_eq!(read.await, Ok("x".to_owned()));
    assert_eq!(client.methods(), ["fs/read_text_file"]);
}

#[tokio::test(start_paused = true)]
async fn a_10_nothing_stays_behind_after_a_hundred_timeouts() {
    let (asking, port, client) = silent();
    let began = tokio::time::Instant::now();
    let reads = (0..100).map(|_| port.read_text_file(file()));
    let answers = futures_util::future::join_all(reads).await;
    assert_eq!(began.elapsed(), TIME_MAX);
    let timeout = ClientError::Timeout {
        method: "fs/read_text_file",
        waited: TIME_MAX,
    };
    assert!(answers.iter().all(|answer| *answer == Err(timeout.clone())));
    assert_eq!(asking.waiting(), 0);
    let taken_back = client.methods();
    let taken_back = taken_back.iter().filter(|m| *m == "$/cancel_request");
    assert_eq!(taken_back.count(), 100);
}

#[tokio::test]
async fn a_10_nothing_stays_behind_after_replies_errors_and_nonsense() {
    let (asking, port, client) = silent();
    let refused = Err(RpcError {
        code: -32002,
        message: "nf".to_owned(),
        data: Some(Box::new(json!({"uri": "x"}))),
    });
    let stories = [
        (result(&json!({"content": "x"})), Ok("x".to_owned())),
        (
            result(&json!({"text": "x"})),
            Err(ClientError::Malformed {
                method: "fs/read_text_file",
            }),
        ),
        (
            refused,
            Err(ClientError::Peer {
                code: -32002,
                message: "nf".to_owned(),
                data: Some(json!({"uri": "x"})),
            }),
        ),
    ];
    for (reply, expected) in stories {
        let mut read = port.read_text_file(file());
        assert!(futures_util::poll!(&mut read).is_pending());
        assert!(asking.settle(&client.last_id(), reply).is_ok());
        assert_eq!(read.await, expected);
    }
    assert_eq!(asking.waiting(), 0);
    assert_eq!(client.methods(), ["fs/read_text_file"; 3]);
}

#[tokio::test]
async fn a_request_that_is_dropped_is_taken_back() {
    let (asking, port, client) = silent();
    let mut read = port.read_text_file(file());
    assert!(futures_util::poll!(&mut read).is_pending());
    drop(read);
    assert_eq!(asking.waiting(), 0);
    assert_eq!(client.methods(), ["fs/read_text_file", "$/cancel_request"]);
}

#[tokio::test]
async fn a_17_a_request_to_a_client_that_left_fails_at_once_and_nothing_is_written() {
    let (asking, port, client) = silent();
    asking.abort();
    assert!(port.is_gone());
    let mut read = port.read_text_file(file());
    let answer = futures_util::poll!(&mut read);
    assert_eq!(answer, std::task::Poll::Ready(Err(ClientError::Gone)));
    port.show_terminal(&domain::CallId::new("c"), &TerminalId("t".to_owned()));
    port.let_go(&TerminalId("t".to_owned()));
    assert_eq!(client.methods().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn f32_a_thousand_pending_requests_fail_with_the_connection() {
    let (asking, port, client) = silent();
    let mut reads: Vec<_> = (0..1_000).map(|_| port.read_text_file(file())).collect();
    for read in &mut reads {
        assert!(futures_util::poll!(read).is_pending());
    }
    let began = tokio::time::Instant::now();
    assert_eq!(asking.abort(), 1_000);
    let answers = futures_util::future::join_all(reads).await;
    assert!(
        answers
            .iter()
            .all(|answer| *answer == Err(ClientError::Gone))
    );
    // The clock moves only when everybody waits for it.
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!((asking.waiting(), asking.abort()), (0, 0));
    assert_eq!(client.methods().len(), 1_000, "nothing is taken back");
}

#[tokio::test]
async fn what_waits_for_one_client_is_bounded() {
    let (asking, port, _client) = silent();
    let max = domain::limits::CLIENT_REQUESTS_MAX;
    let mut reads: Vec<_> = (0..max).map(|_| port.read_text_file(file())).collect();
    for read in &mut reads {
        assert!(futures_util::poll!(read).is_pending());
    }
    assert_eq!(port.read_text_file(file()).await, Err(ClientError::TooMany));
    drop(reads);
    assert_eq!(asking.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_command_may_take_longer_than_an_answer() {
    let (asking, port, client) = silent();
    let waiting = tokio::spawn(port.wait_for_exit(&TerminalId("t".to_owned())));
    tokio::time::sleep(10 * TIME_MAX).await;
    assert!(
        asking
            .settle(&client.last_id(), result(&json!({"exitCode": 3})))
            .is_ok()
    );
    let (code, signal) = (Some(3), None);
    assert_eq!(waiting.await.unwrap(), Ok(TerminalExit { code, signal }));
}

#[tokio::test]
async fn a_terminal_made_too_late_is_killed_and_released() {
    let (asking, port, client) = silent();
    let mut creating = port.create_terminal(command());
    assert!(futures_util::poll!(&mut creating).is_pending());
    let id = client.last_id();
    drop(creating);
    until(|| client.0.lock().unwrap().len() == 2).await;
    assert_eq!(client.methods(), ["terminal/create", "$/cancel_request"]);
    // The client had made it before it read that nobody wants it.
    assert!(
        asking
            .settle(&id, result(&json!({"terminalId": "t"})))
            .is_ok()
    );
    until(|| client.0.lock().unwrap().len() == 2).await;
    assert_eq!(client.methods(), ["terminal/kill", "terminal/release"]);
    asking.abort();
    until(|| asking.waiting() == 0).await;
}

#[tokio::test]
async fn a_client_that_offers_nothing_has_no_port() {
    let (asking, ..) = silent();
    let nothing = ClientCapabilities::default();
    let tasks = TaskTracker::new();
    assert!(Port::new(&asking, SessionId::random(), nothing, TIME_MAX, &tasks).is_none());
}

/// Lets the other tasks run until they have done it.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}
