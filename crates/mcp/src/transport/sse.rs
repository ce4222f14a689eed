//! HTTP with server-sent events, as of 2024-11-05: one stream of messages from the server, which
//! begins by naming the address that takes messages to it. A stream that breaks is taken up again if
//! the server numbers its messages and goes on with the same session; else the connection ends.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use domain::limits::{
    MCP_INCOMING_MAX, MCP_MESSAGE_BYTES_MAX, MCP_OUTGOING_MAX, MCP_REQUESTS_MAX, MCP_RESUME_WAIT,
    MCP_WRITE_WAIT,
};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use netguard::Target;
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::streamable_http_client::AuthRequiredError;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use wire::sse::{SseEvent, SseParser};

use super::http::{Answer, Door, EVENT_STREAM, HttpError};
use super::{Outgoing, Pipe, is_of_use};
use crate::error::ConnectError;
use crate::life::Life;

/// Opens the stream and waits for the address that it begins with.
///
/// # Errors
/// If there is no such stream, or the address is somebody else's.
pub(crate) async fn open(door: Door, life: Life) -> Result<Pipe, ConnectError> {
    let mut events = stream(&door, None).await?;
    let endpoint = loop {
        let event = events.next().await.map_err(ConnectError::Failed)?;
        if event.event.as_deref() == Some("endpoint") {
            break endpoint(door.target(), event.data.trim())?;
        }
    };
    let (incoming_sender, incoming) = mpsc::channel(MCP_INCOMING_MAX);
    let (outgoing, outgoing_receiver) = mpsc::channel(MCP_OUTGOING_MAX);
    let source = Source {
        door: door.clone(),
        endpoint: endpoint.clone(),
    };
    tokio::spawn(read(source, events, incoming_sender, life.clone()));
    tokio::spawn(write(door, endpoint, outgoing_receiver, life.clone()));
    Ok(Pipe::new(incoming, outgoing, life))
}

/// Opens the stream, after the message with the id `last` if one is named.
async fn stream(door: &Door, last: Option<&str>) -> Result<Events, ConnectError> {
    let mut headers = HeaderMap::new();
    if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
        headers.insert(HeaderName::from_static("last-event-id"), last);
    }
    let sent = door.send(door.target(), Method::GET, &headers, None);
    let answer = sent.await.map_err(|error| match error {
        HttpError::Refused(why) => ConnectError::Refused(why),
        HttpError::Unreachable(_)
        | HttpError::Broken(_)
        | HttpError::NotRenewed(_)
        | HttpError::TooLong
        | HttpError::Malformed(_) => ConnectError::Failed(error.to_string()),
    })?;
    match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(ConnectError::LoginNeeded(door.login_hint(&answer)));
        }
        status if !status.is_success() => {
            return Err(ConnectError::Failed(format!("it answered with {status}")));
        }
        _ if !answer.is(EVENT_STREAM) => {
            let why = "it has no stream of events".to_owned();
            return Err(ConnectError::Failed(why));
        }
        _ => {}
    }
    Ok(Events::new(answer))
}

/// Where messages go, which is where the stream came from: what is meant for one server is not sent
/// to another because the first says so.
fn endpoint(target: &Target, said: &str) -> Result<Target, ConnectError> {
    let refused = |why: String| ConnectError::Refused(format!("where it takes messages: {why}"));
    let url = target.url().join(said);
    let url = url.map_err(|error| refused(error.to_string()))?;
    let endpoint = Target::parse(url.as_str()).map_err(|error| refused(error.to_string()))?;
    match endpoint.has_origin_of(target) {
        true => Ok(endpoint),
        false => Err(refused("it is another server".to_owned())),
    }
}

/// A stream of events while it is read.
struct Events {
    answer: Answer,
    parser: SseParser,
    ready: std::collections::VecDeque<SseEvent>,
    /// The id of the newest message that has one.
    last: Option<String>,
}

impl Events {
    fn new(answer: Answer) -> Self {
        Self {
            answer,
            parser: SseParser::new(MCP_MESSAGE_BYTES_MAX),
            ready: std::collections::VecDeque::new(),
            last: None,
        }
    }

    /// The next event, or why there is none. Cancel safe.
    async fn next(&mut self) -> Result<SseEvent, String> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if event.id.is_some() {
                    self.last.clone_from(&event.id);
                }
                return Ok(event);
            }
            match self.answer.piece().await {
                Some(Ok(piece)) => {
                    let events = self.parser.push(&piece);
                    self.ready
                        .extend(events.map_err(|error| error.to_string())?);
                }
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("it ended its stream".to_owned()),
            }
        }
    }
}

/// Where a stream comes from, to take it up again.
struct Source {
    door: Door,
    endpoint: Target,
}

impl Source {
    /// Takes the stream up after the message `last`.
    async fn again(&self, last: &str) -> Option<Events> {
        let again = timeout(MCP_RESUME_WAIT, stream(&self.door, Some(last))).await;
        let mut events = again.ok()?.ok()?;
        events.last = Some(last.to_owned());
        Some(events)
    }

    /// Whether the server goes on with the same session, where it says again where messages go.
    fn goes_on(&self, said: &str) -> bool {
        let said = endpoint(self.door.target(), said.trim());
        said.is_ok_and(|said| said.url() == self.endpoint.url())
    }
}

async fn read(
    source: Source,
    mut events: Events,
    incoming: mpsc::Sender<ServerJsonRpcMessage>,
    life: Life,
) {
    // Taken up again without anything new, it would break for ever.
    let mut resumed_at = None;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = life.ended() => return,
        };
        let event = match event {
            Ok(event) => event,
            Err(why) => {
                let last = events
                    .last
                    .take()
                    .filter(|last| resumed_at.as_ref() != Some(last));
                let Some(last) = last else {
                    return life.end(why);
                };
                let again = tokio::select! {
                    again = source.again(&last) => again,
                    () = life.ended() => return,
                };
                match again {
                    Some(again) => (events, resumed_at) = (again, Some(last)),
                    None => return life.end(why),
                }
                continue;
            }
        };
        if event.event.as_deref() == Some("endpoint") && !source.goes_on(&event.data) {
            return life.end("it began anew");
        }
        if !matches!(event.event.as_deref(), None | Some("message")) {
            continue;
        }
        let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(&event.data) else {
            life.complained(event.data.as_bytes());
            continue;
        };
        if is_of_use(&message, &life) && incoming.send(message).await.is_err() {
            return;
        }
    }
}

/// Sends each message by itself: one that hangs must not hold up the others.
async fn write(door: Door, to: Target, mut outgoing: mpsc::Receiver<Outgoing>, life: Life) {
    let (to, room) = (Arc::new(to), Arc::new(Semaphore::new(MCP_REQUESTS_MAX)));
    loop {
        let next = tokio::select! {
            next = outgoing.recv() => next,
            () = life.ended() => None,
        };
        let Some(Outgoing { message, written }) = next else {
            return;
        };
        let permit = tokio::select! {
            permit = Arc::clone(&room).acquire_owned() => permit,
            () = life.ended() => return,
        };
        let (door, to, life) = (door.clone(), Arc::clone(&to), life.clone());
        tokio::spawn(async move {
            let posting = timeout(MCP_WRITE_WAIT, post((&door, &to), &message, &life));
            let posted = tokio::select! {
                posted = posting => posted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
                () = life.ended() => Err(io::ErrorKind::BrokenPipe.into()),
            };
            let _ = written.send(posted);
            drop(permit);
        });
    }
}

async fn post(
    (door, to): (&Door, &Target),
    message: &TxJsonRpcMessage<RoleClient>,
    life: &Life,
) -> io::Result<()> {
    let body = Bytes::from(serde_json::to_vec(message)?);
    let headers = HeaderMap::new();
    let sent = door.send(to, Method::POST, &headers, Some(body));
    let answer = sent.await.map_err(io::Error::other)?;
    let status = answer.status;
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let needed = AuthRequiredError::new(door.login_hint(&answer));
        return Err(io::Error::other(needed));
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        // A stream that is still there belongs to nobody, for the keeper to open another.
        life.end("the server has forgotten the session");
    }
    if !status.is_success() {
        return Err(io::Error::other(format!("it answered with {status}")));
    }
    // What it says here nobody waits for; read, it leaves the connection to the next message.
    let _ = answer.whole().await;
    Ok(())
}
