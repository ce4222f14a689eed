//! The streams of events: one of the connection, one of each session, all into one queue.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::sse::SseParser;

use super::exchange::Caller;
use crate::error::TransportError;
use crate::transport::FrameIn;

type Heard = mpsc::Sender<Result<FrameIn, TransportError>>;

/// Streams that are open, and whoever opens more.
#[derive(Clone)]
pub(super) struct Streams {
    caller: Arc<Caller>,
    heard: Heard,
    sessions: Arc<Mutex<HashMap<String, Life>>>,
}

/// What the end of a session's stream means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Something broke: there may have been more.
    Needed,
    /// The session was closed or deleted.
    MayEnd,
}

impl Streams {
    pub(super) fn new(caller: Arc<Caller>, heard: Heard) -> Self {
        Self {
            caller,
            heard,
            sessions: Arc::default(),
        }
    }

    /// Opens the connection's own stream.
    pub(super) async fn open_own(&self) -> Result<(), TransportError> {
        let opened = self.get(None).await?;
        let body = opened.map_err(|status| self.caller.refused(status))?;
        tokio::spawn(self.clone().reading(None, body));
        Ok(())
    }

    /// Opens a session's stream, unless it is open.
    pub(super) async fn open(&self, session: &str) -> Result<(), TransportError> {
        if self.set(session, Life::Needed).is_some() {
            return Ok(());
        }
        match self.get(Some(session)).await? {
            Ok(body) => {
                tokio::spawn(self.clone().reading(Some(session.to_owned()), body));
            }
            Err(StatusCode::UNAUTHORIZED) => {
                return Err(self.caller.refused(StatusCode::UNAUTHORIZED));
            }
            // The request that follows says in words what is wrong with the session.
            Err(_) => {
                self.forget(session);
            }
        }
        Ok(())
    }

    /// From now on the end of a session's stream is nothing to worry about.
    pub(super) fn may_end(&self, session: &str) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(life) = sessions.get_mut(session) {
            *life = Life::MayEnd;
        }
    }

    /// Hands a message to whoever reads frames.
    pub(super) async fn hand_on(&self, text: String) -> Result<(), TransportError> {
        let frame = Ok(FrameIn::Text(text));
        let handed = self.heard.send(frame).await;
        handed.map_err(|_| TransportError::ClosedHere)
    }

    /// Ends the transport; if the queue is full, its reader hears of the end by the other way.
    pub(super) fn fail(&self, error: TransportError) {
        let _ = self.heard.try_send(Err(error));
    }

    /// Asks for a stream; the inner error is the server's status.
    async fn get(
        &self,
        session: Option<&str>,
    ) -> Result<Result<Incoming, StatusCode>, TransportError> {
        let mut line = self.caller.dial().await?;
        let request = self.caller.request(Method::GET, session, Bytes::new())?;
        let wait = self.caller.limits.client_request;
        let answer = timeout(wait, line.exchange(request)).await;
        let answer = answer.map_err(|_| TransportError::Silent {
            seconds: wait.as_secs_f64(),
        })?;
        let answer = answer.map_err(|error| self.caller.broken(&error))?;
        Ok(match answer.status() {
            StatusCode::OK => Ok(answer.into_body()),
            status => Err(status),
        })
    }

    /// [`Self::read`] with a type of its own: reading one stream may lead to opening another.
    fn reading(
        self,
        session: Option<String>,
        body: Incoming,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.read(session, body))
    }

    /// Reads a stream to its end, which ends the transport unless it was expected.
    async fn read(self, session: Option<String>, body: Incoming) {
        let end = tokio::select! {
            end = self.pump(body) => end,
            () = self.heard.closed() => return,
        };
        let life = session.as_deref().and_then(|session| self.forget(session));
        if life == Some(Life::MayEnd) {
            return;
        }
        let _ = self.heard.send(Err(end)).await;
    }

    async fn pump(&self, mut body: Incoming) -> TransportError {
        let mut parser = SseParser::new(self.caller.limits.message_bytes_max);
        let silence = self.caller.limits.client_silence;
        let closed = TransportError::ClosedByServer {
            code: None,
            reason: String::new(),
        };
        loop {
            let frame = match timeout(silence, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return self.caller.broken(&error),
                Ok(None) => return closed,
                Err(_) => {
                    return TransportError::Silent {
                        seconds: silence.as_secs_f64(),
                    };
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let events = match parser.push(&data) {
                Ok(events) => events,
                Err(error) => {
                    return TransportError::Broken {
                        cause: error.to_string(),
                    };
                }
            };
            let mut frames: Vec<FrameIn> = Vec::with_capacity(events.len());
            for event in events {
                if let Err(error) = self.follow(&event.data).await {
                    return error;
                }
                frames.push(FrameIn::Text(event.data));
            }
            if frames.is_empty() {
                frames.push(FrameIn::Life);
            }
            for frame in frames {
                if self.heard.send(Ok(frame)).await.is_err() {
                    return TransportError::ClosedHere;
                }
            }
        }
    }

    /// A session that an answer tells of has a stream of its own from now on.
    async fn follow(&self, text: &str) -> Result<(), TransportError> {
        // Few messages are answers; the others need not be parsed.
        if !text.contains("\"result\"") {
            return Ok(());
        }
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        match message["result"]["sessionId"].as_str() {
            Some(session) => self.open(session).await,
            None => Ok(()),
        }
    }

    fn set(&self, session: &str, life: Life) -> Option<Life> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session.to_owned(), life)
    }

    fn forget(&self, session: &str) -> Option<Life> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.remove(session)
    }
}
