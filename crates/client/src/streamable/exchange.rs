//! One HTTP exchange after another with the server, and what its refusals mean.

use std::sync::{Arc, OnceLock};

use domain::Limits;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::{CONNECTION, SESSION};
use crate::address::Address;
use crate::dial::{Trust, dial};
use crate::error::TransportError;
use crate::websocket::bearer;

/// What the server answers.
pub(super) type Answer = Response<Incoming>;

/// Who calls, whom, and on which connection.
pub(super) struct Caller {
    address: Address,
    authorization: Option<HeaderValue>,
    trust: Trust,
    pub(super) limits: Limits,
    /// Named by the server in its answer to `initialize`.
    connection: OnceLock<HeaderValue>,
}

impl Caller {
    pub(super) fn new(
        address: &Address,
        token: Option<&str>,
        trust: &Trust,
        limits: &Limits,
    ) -> Result<Self, TransportError> {
        let authorization = token.map(|token| bearer(address, token));
        Ok(Self {
            address: address.clone(),
            authorization: authorization.transpose()?,
            trust: trust.clone(),
            limits: limits.clone(),
            connection: OnceLock::new(),
        })
    }

    pub(super) fn connection(&self) -> Option<&HeaderValue> {
        self.connection.get()
    }

    pub(super) fn name_connection(&self, name: HeaderValue) {
        // Only the first answer names it.
        let _ = self.connection.set(name);
    }

    /// A connection for requests, one at a time.
    pub(super) async fn dial(self: &Arc<Self>) -> Result<Line, TransportError> {
        let wait = self.limits.client_connect;
        let dialled = timeout(wait, dial(&self.address, &self.trust)).await;
        let stream = dialled.map_err(|_| TransportError::ConnectTimeout {
            url: self.address.url(),
            seconds: wait.as_secs_f64(),
        })??;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(&error))?;
        // It ends when the sender and the body of the last answer are dropped.
        tokio::spawn(connection);
        Ok(Line { sender })
    }

    /// A request in the name of the connection, about a session if one is named.
    pub(super) fn request(
        &self,
        method: Method,
        session: Option<&str>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, TransportError> {
        let mut request = Request::builder()
            .uri(&self.address.path)
            .header(HOST, &self.address.authority);
        request = match method {
            Method::GET => request.header(ACCEPT, "text/event-stream"),
            _ => request.header(CONTENT_TYPE, "application/json"),
        };
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(connection) = self.connection() {
            request = request.header(CONNECTION, connection);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let request = request.method(method).body(Full::new(body));
        request.map_err(|_| TransportError::BadUrl {
            url: self.address.url(),
            problem: "it cannot be asked for",
        })
    }

    /// What an answer means that is not the expected one.
    pub(super) fn refused(&self, status: StatusCode) -> TransportError {
        let url = self.address.url();
        match status {
            StatusCode::UNAUTHORIZED => TransportError::Unauthorized { url },
            // The server that knew us is gone.
            StatusCode::NOT_FOUND if self.connection().is_some() => {
                TransportError::ClosedByServer {
                    code: None,
                    reason: String::new(),
                }
            }
            status => TransportError::Refused {
                url,
                status: status.as_u16(),
            },
        }
    }

    pub(super) fn broken(&self, error: &hyper::Error) -> TransportError {
        // The library's words are few; the cause says what happened.
        let cause = std::error::Error::source(error);
        let cause = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        TransportError::Broken { cause }
    }
}

/// One connection.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
}

impl Line {
    /// Asks, and waits for the head of the answer. The caller sets the deadline.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Answer> {
        // The last answer must have been read, and the server must not have left since.
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}

/// The body of an answer that is one message.
pub(super) async fn read_whole(answer: Answer, caller: &Caller) -> Result<String, TransportError> {
    let body = Limited::new(answer.into_body(), caller.limits.message_bytes_max);
    let body = body
        .collect()
        .await
        .map_err(|error| TransportError::Broken {
            cause: error.to_string(),
        })?;
    String::from_utf8(body.to_bytes().into()).map_err(|_| TransportError::Broken {
        cause: "the server's answer is not text".to_owned(),
    })
}
