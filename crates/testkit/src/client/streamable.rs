//! ACP over single HTTP requests: a POST per message, a GET per stream.
//!
//! Streams can be cut and taken up again where they were, as a client on a bad network does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use wire::sse::SseParser;

use super::transport::Received;
use crate::raw::HttpAnswer;

/// Messages that streams may have read ahead of the test.
const READ_AHEAD: usize = 4;

/// Longest event that is taken.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long one request may take that is not a stream.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// One client's requests and streams.
pub(super) struct Streamable {
    http: reqwest::Client,
    url: String,
    token: String,
    pub(super) connection: Option<String>,
    incoming: mpsc::Receiver<Received>,
    heard: mpsc::Sender<Received>,
    /// By session; the connection's own has none.
    streams: HashMap<Option<String>, OpenStream>,
    /// Opens a session's stream only once a message of it has come, as some clients do.
    pub(super) is_late: bool,
}

struct OpenStream {
    task: JoinHandle<()>,
    /// Dropped to cut it.
    stop: Option<oneshot::Sender<()>>,
    last_id: Arc<Mutex<Option<String>>>,
}

impl Streamable {
    pub(super) fn new(url: String, token: String) -> Self {
        let built = reqwest::Client::builder().no_proxy().build();
        let (heard, incoming) = mpsc::channel(READ_AHEAD);
        Self {
            http: built.unwrap_or_else(|error| panic!("no HTTP client: {error}")),
            url,
            token,
            connection: None,
            incoming,
            heard,
            streams: HashMap::new(),
            is_late: false,
        }
    }

    /// Posts one message; `false` if the server does not take it.
    pub(super) async fn send(&mut self, text: &str) -> bool {
        let is_first = self.connection.is_none();
        let Some(answer) = self.post(text).await else {
            return false;
        };
        if !is_first || answer.status != 200 {
            return answer.status == 202;
        }
        let named = answer.header("acp-connection-id");
        self.connection = named.map(str::to_owned);
        self.open(None).await;
        self.heard.try_send(Received::Message(answer.body)).is_ok()
    }

    /// Posts one message and gives the answer to the request itself; `None` if there is none.
    pub(super) async fn post(&mut self, text: &str) -> Option<HttpAnswer> {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        if session.is_some() && self.connection.is_some() && !self.is_late {
            self.open(session.clone()).await;
        }
        let mut post = self
            .http
            .post(&self.url)
            .timeout(REQUEST_TIME)
            .bearer_auth(&self.token);
        if let Some(connection) = &self.connection {
            post = post.header("acp-connection-id", connection);
        }
        if let Some(session) = session {
            post = post.header("acp-session-id", session);
        }
        let post = post
            .header("content-type", "application/json")
            .body(text.to_owned());
        let response = post.send().await.ok()?;
        let headers = response.headers().iter();
        let headers = headers.filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        Some(HttpAnswer {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: response.text().await.ok()?,
        })
    }

    /// The next message of any stream. Cancel safe.
    pub(super) async fn receive(&mut self) -> Received {
        let received = self.incoming.recv().await.unwrap_or(Received::End(None));
        if let Received::Message(text) = &received {
            let message: Value = serde_json::from_str(text).unwrap_or_default();
            let places = [
                &message["params"]["sessionId"],
                &message["result"]["sessionId"],
            ];
            let named = places
                .into_iter()
                .find_map(Value::as_str)
                .map(str::to_owned);
            if named.is_some() {
                self.open(named).await;
            }
        }
        received
    }

    /// Cuts every stream of a session, as a bad network does.
    pub(super) fn cut(&mut self) {
        let streams = self.streams.values_mut();
        streams.for_each(|stream| drop(stream.stop.take()));
    }

    /// Takes the streams that were cut up again after the last event that came.
    pub(super) async fn take_up(&mut self) {
        for session in self.streams.keys().cloned().collect::<Vec<_>>() {
            let Some(stream) = self.streams.remove(&session) else {
                continue;
            };
            drop(stream.stop);
            // What it has read is ours; what it has not is in the stream that follows.
            let _ = stream.task.await;
            let last = stream
                .last_id
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            self.open_after(session, last).await;
        }
    }

    pub(super) async fn leave(&mut self) {
        self.cut();
        if let Some(connection) = &self.connection {
            let delete = self
                .http
                .delete(&self.url)
                .timeout(REQUEST_TIME)
                .bearer_auth(&self.token);
            // The server may be gone already, which is as good.
            let _ = delete.header("acp-connection-id", connection).send().await;
        }
    }

    async fn open(&mut self, session: Option<String>) {
        if !self.streams.contains_key(&session) {
            self.open_after(session, None).await;
        }
    }

    async fn open_after(&mut self, session: Option<String>, last: Option<String>) {
        let connection = self.connection.clone().unwrap_or_default();
        let mut get = self.http.get(&self.url).bearer_auth(&self.token);
        get = get
            .header("accept", "text/event-stream")
            .header("acp-connection-id", connection);
        if let Some(session) = &session {
            get = get.header("acp-session-id", session);
        }
        if let Some(last) = &last {
            get = get.header("last-event-id", last);
        }
        let last_id = Arc::new(Mutex::new(last));
        let opened = tokio::time::timeout(REQUEST_TIME, get.send()).await;
        let response = match opened {
            Ok(Ok(response)) if response.status() == 200 => response,
            other => panic!("the stream of {session:?} was not opened: {other:?}"),
        };
        let is_connection = session.is_none();
        let (stop, stopped) = oneshot::channel();
        let reading = read(
            response,
            Arc::clone(&last_id),
            self.heard.clone(),
            is_connection,
        );
        let task = tokio::spawn(async move {
            tokio::select! {
                _ = stopped => {}
                () = reading => {}
            }
        });
        let stop = Some(stop);
        self.streams.insert(
            session,
            OpenStream {
                task,
                stop,
                last_id,
            },
        );
    }
}

/// Hands on each event's message, then notes its id: cut in between, it comes again.
async fn read(
    mut response: reqwest::Response,
    last_id: Arc<Mutex<Option<String>>>,
    heard: mpsc::Sender<Received>,
    is_connection: bool,
) {
    let mut parser = SseParser::new(EVENT_BYTES_MAX);
    while let Ok(Some(chunk)) = response.chunk().await {
        for event in parser.push(&chunk).unwrap_or_default() {
            // Taking a place is where this may be cut; what follows happens at once.
            let Ok(place) = heard.reserve().await else {
                return;
            };
            place.send(Received::Message(event.data));
            *last_id.lock().unwrap_or_else(PoisonError::into_inner) = event.id;
        }
    }
    if is_connection {
        let _ = heard.send(Received::End(None)).await;
    }
}
