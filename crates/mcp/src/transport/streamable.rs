//! Streamable HTTP: the requests that `rmcp`'s worker makes, sent through the guard.
//!
//! What the worker would wait for in vain is answered here: an error without the id of its request
//! gets it, a stream that ends without an answer ends with an error, and a session that the server
//! no longer knows ends the connection, for the keeper to make a new one.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::limits::{MCP_MESSAGE_BYTES_MAX, MCP_REQUESTS_MAX, MCP_STREAM_WAIT};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcError, JsonRpcResponse, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::sse::SseParser;

use super::http::{Answer, Door, EVENT_STREAM, HttpError, JSON};
use super::{Probe, Watched};
use crate::error::quoted;
use crate::life::Life;

/// Tries to take a stream up again that broke, before the call that it belongs to fails.
const RESUMES_MAX: usize = 3;

/// How long after a break the first try comes.
const RESUME_WAIT: Duration = Duration::from_millis(100);

type Fault = StreamableHttpError<HttpError>;

/// The transport to the server behind `door`.
pub(crate) fn open(door: Door, life: Life) -> Watched<StreamableHttpClientTransport<Posts>> {
    let url = door.target().url().as_str().to_owned();
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(MCP_REQUESTS_MAX)
        .max_sse_event_size(MCP_MESSAGE_BYTES_MAX)
        // A request that a lost session answers is not sent again by anybody but its caller.
        .reinit_on_expired_session(false);
    let mut resume = ExponentialBackoff::default();
    resume.max_times = Some(RESUMES_MAX);
    resume.base_duration = RESUME_WAIT;
    config.retry_config = Arc::new(resume);
    let posts = Posts {
        door,
        life: life.clone(),
        settled: CancellationToken::new(),
    };
    Watched {
        inner: StreamableHttpClientTransport::with_client(posts, config),
        life,
        probe: Probe::default(),
    }
}

/// One server's requests.
#[derive(Clone)]
pub(crate) struct Posts {
    door: Door,
    life: Life,
    /// Whether there is a stream on which the server can speak first is known.
    settled: CancellationToken,
}

impl Posts {
    /// Waits, though not for long, until the server can speak first, where it is going to be able to. A
    /// request that overtakes the stream may be answered on it, and what the server says before is lost.
    async fn settle(&self, message: &ClientJsonRpcMessage, session: Option<&str>) {
        if session.is_none() || request_id(message).is_none() {
            return;
        }
        if timeout(MCP_STREAM_WAIT, self.settled.cancelled())
            .await
            .is_err()
        {
            // Nor does the next request wait.
            self.settled.cancel();
        }
    }

    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let body = Bytes::from(serde_json::to_vec(message)?);
        let headers = headers_with(headers, session, None)?;
        let sent = self.send(Method::POST, &headers, Some(body)).await;
        let answer = sent.map_err(StreamableHttpError::Client)?;
        let id = request_id(message);
        if let Some(fault) = self.auth_fault(&answer) {
            return Err(fault);
        }
        if answer.status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(self.forgotten());
        }
        if !answer.status.is_success() {
            return self.refused(answer, message, session.is_some()).await;
        }
        let new_session = answer.header("mcp-session-id").map(str::to_owned);
        if answer.is(EVENT_STREAM) {
            let events = events(answer, id.cloned());
            return Ok(StreamableHttpPostResponse::Sse(events, new_session));
        }
        let is_json = answer.is(JSON);
        let Some(id) = id else {
            // Nobody waits for more than that it was taken.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        if matches!(answer.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let kind = answer.header("content-type").map(str::to_owned);
        if !is_json {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let body = answer.whole().await.map_err(StreamableHttpError::Client)?;
        let answer = answer_to(id, serde_json::from_slice(&body)?);
        let answer = match is_probe(message) {
            true => understood(answer),
            false => answer,
        };
        Ok(StreamableHttpPostResponse::Json(answer, new_session))
    }

    /// Sends a request; a server that cannot be reached at all ends the connection.
    async fn send(
        &self,
        method: Method,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Answer, HttpError> {
        let target = self.door.target();
        let sent = self.door.send(target, method, headers, body).await;
        if let Err(
            error @ (HttpError::Unreachable(_) | HttpError::Refused(_) | HttpError::NotRenewed(_)),
        ) = &sent
        {
            self.life.end(error.to_string());
        }
        sent
    }

    /// Reads what a server says that does not do what it was asked.
    async fn refused(
        &self,
        answer: Answer,
        message: &ClientJsonRpcMessage,
        has_session: bool,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let (status, is_json) = (answer.status, answer.is(JSON));
        let retry_after = answer.header("retry-after").map(str::to_owned);
        let body = answer.whole().await.map_err(StreamableHttpError::Client)?;
        let said = match serde_json::from_slice(&body) {
            Ok(ServerJsonRpcMessage::Error(said)) if is_json => Some(said),
            _ => None,
        };
        // A server that has restarted does not know the session, and often says so in this way.
        let is_without_id = said.as_ref().is_some_and(|said| said.id.is_none());
        if has_session && status == StatusCode::BAD_REQUEST && is_without_id {
            return Err(self.forgotten());
        }
        let (Some(id), true) = (request_id(message), status.is_client_error()) else {
            return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
        };
        let error = match said {
            Some(said) => said.error,
            None if is_probe(message) => {
                let said = quoted(&String::from_utf8_lossy(&body));
                ErrorData::invalid_request(format!("HTTP {status}: {said}"), None)
            }
            None => return Err(HttpStatusError::new(status.as_u16(), retry_after).into()),
        };
        let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
        Ok(StreamableHttpPostResponse::Json(error, None))
    }

    /// What is wrong, if the server does not let us in.
    fn auth_fault(&self, answer: &Answer) -> Option<Fault> {
        let is_auth = matches!(
            answer.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        );
        is_auth.then(|| {
            let hint = self.door.login_hint(answer);
            StreamableHttpError::AuthRequired(AuthRequiredError::new(hint))
        })
    }

    fn forgotten(&self) -> Fault {
        self.life.end("the server has forgotten the session");
        StreamableHttpError::SessionExpired
    }
}

impl StreamableHttpClient for Posts {
    type Error = HttpError;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        self.settle(&message, session.as_deref()).await;
        self.post(&message, session.as_deref(), headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Fault> {
        let headers = headers_with(headers, Some(&session), None)?;
        let target = self.door.target();
        let sent = self.door.send(target, Method::DELETE, &headers, None).await;
        sent.map(drop).map_err(StreamableHttpError::Client)
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        let headers = headers_with(headers, session.as_deref(), last_event.as_deref())?;
        let sent = self.send(Method::GET, &headers, None).await;
        self.settled.cancel();
        let answer = sent.map_err(StreamableHttpError::Client)?;
        if let Some(fault) = self.auth_fault(&answer) {
            return Err(fault);
        }
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if session.is_some() => Err(self.forgotten()),
            status if !status.is_success() => {
                Err(HttpStatusError::new(status.as_u16(), None).into())
            }
            _ if !answer.is(EVENT_STREAM) => {
                let kind = answer.header("content-type").map(str::to_owned);
                Err(StreamableHttpError::UnexpectedContentType(kind))
            }
            _ => Ok(events(answer, None)),
        }
    }
}

/// A stream of events while it is read.
struct Reading {
    answer: Answer,
    parser: SseParser,
    ready: VecDeque<Sse>,
    /// The request that is answered here, until it is.
    wanted: Option<RequestId>,
    /// Whether the stream can be taken up again where it broke.
    has_ids: bool,
    is_over: bool,
}

/// The events of `answer`, in which `wanted` is answered, one way or the other.
fn events(answer: Answer, wanted: Option<RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
    let reading = Reading {
        answer,
        parser: SseParser::new(MCP_MESSAGE_BYTES_MAX),
        ready: VecDeque::new(),
        wanted,
        has_ids: false,
        is_over: false,
    };
    stream::unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Some((next, reading))
    })
    .boxed()
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            let why = match self.answer.piece().await {
                Some(Ok(piece)) => match self.parser.push(&piece) {
                    Ok(events) => {
                        for event in events {
                            self.take(event);
                        }
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
                Some(Err(error)) => error.to_string(),
                None => "the stream ended".to_owned(),
            };
            self.is_over = true;
            match self.wanted.take().filter(|_| !self.has_ids) {
                Some(id) => self.ready.push_back(unanswered(id, &why)),
                None => return None,
            }
        }
    }

    fn take(&mut self, event: wire::sse::SseEvent) {
        self.has_ids |= event.id.is_some();
        let mut data = event.data;
        if let Some(id) = &self.wanted
            && !data.is_empty()
            && let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(&data)
        {
            match &message {
                ServerJsonRpcMessage::Error(error) if error.id.is_none() => {
                    data = serde_json::to_string(&with_id(message, id)).unwrap_or(data);
                    self.wanted = None;
                }
                ServerJsonRpcMessage::Response(JsonRpcResponse { id: said, .. })
                | ServerJsonRpcMessage::Error(JsonRpcError { id: Some(said), .. }) => {
                    match said == id {
                        true => self.wanted = None,
                        // It answers something else, and would be taken for the end of this.
                        false => data.clear(),
                    }
                }
                ServerJsonRpcMessage::Error(_) => {}
                ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => {}
            }
        }
        self.ready.push_back(Sse {
            event: event.event,
            data: Some(data),
            id: event.id,
            retry: event.retry,
        });
    }
}

/// The answer to a request whose stream has ended without one.
fn unanswered(id: RequestId, why: &str) -> Sse {
    let error = ErrorData::internal_error(format!("no answer came: {why}"), None);
    let error = ServerJsonRpcMessage::error(error, Some(id));
    Sse {
        event: None,
        data: serde_json::to_string(&error).ok(),
        id: None,
        retry: None,
    }
}

/// The message, with the id of the request that it answers if it is an error without any.
pub(super) fn with_id(message: ServerJsonRpcMessage, id: &RequestId) -> ServerJsonRpcMessage {
    if let ServerJsonRpcMessage::Error(JsonRpcError {
        id: None, error, ..
    }) = message
    {
        return ServerJsonRpcMessage::error(error, Some(id.clone()));
    }
    message
}

/// What `message` says to the request `id`, to which it came as the only answer.
fn answer_to(id: &RequestId, message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    let message = with_id(message, id);
    let said = match &message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    };
    if said == Some(id) {
        return message;
    }
    let error = ErrorData::internal_error("no answer came, but one to something else", None);
    ServerJsonRpcMessage::error(error, Some(id.clone()))
}

pub(super) fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(&request.id),
        ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => None,
    }
}

/// Whether it asks what the server speaks.
fn is_probe(message: &ClientJsonRpcMessage) -> bool {
    matches!(
        message,
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_))
    )
}

/// The answer to such a question. Some older servers answer whatever they are asked with something
/// empty; that they do not know it is what they mean.
fn understood(answer: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    match answer {
        ServerJsonRpcMessage::Response(response)
            if !matches!(response.result, ServerResult::DiscoverResult(_)) =>
        {
            let error = ErrorData::invalid_request("it is not understood", None);
            ServerJsonRpcMessage::error(error, Some(response.id))
        }
        other @ (ServerJsonRpcMessage::Response(_)
        | ServerJsonRpcMessage::Error(_)
        | ServerJsonRpcMessage::Request(_)
        | ServerJsonRpcMessage::Notification(_)) => other,
    }
}

fn headers_with(
    headers: HashMap<HeaderName, HeaderValue>,
    session: Option<&str>,
    last_event: Option<&str>,
) -> Result<HeaderMap, Fault> {
    let mut all: HeaderMap = headers.into_iter().collect();
    let named = [("mcp-session-id", session), ("last-event-id", last_event)];
    for (name, value) in named {
        let Some(value) = value else { continue };
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|_| {
            StreamableHttpError::UnexpectedServerResponse(Cow::Borrowed("an id is no header"))
        })?;
        all.insert(HeaderName::from_static(name), value);
    }
    Ok(all)
}
