//! `openai-chat:NAME`: chat completions, as OpenAI and many other servers speak them.
//!
//! [`Endpoint`] is where requests go, [`request`] what they say, [`Reply`] what comes back;
//! [`Call`] is one call: tries, deadlines, and the answer's bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::Limits;
use domain::limits::{
    MODEL_CLOSE_WAIT, MODEL_ERROR_BYTES_MAX, MODEL_EVENT_BYTES_MAX, MODEL_TAIL_WAIT,
    MODEL_TRIES_MAX,
};
use futures_util::stream;
use reqwest::Url;
use tokio::time::{Instant, timeout_at};
use wire::sse::SseParser;

use crate::deadline::Deadlines;
use crate::error::ModelError;
use crate::http::{self, Answer, Http};
use crate::model::{Chunk, ChunkStream, Model, ModelRequest, Provider};
use crate::retry;
use crate::secret::Secret;

mod reply;
mod request;

use reply::Reply;

/// One model of one server.
pub(crate) struct OpenAiChat {
    label: String,
    endpoint: Arc<Endpoint>,
}

/// Where requests go and with what.
pub(crate) struct Endpoint {
    url: Url,
    key: Option<Secret>,
    model: String,
    limits: Arc<Limits>,
    http: Http,
}

/// A base URL that is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotABase;

impl OpenAiChat {
    /// The model `name` at `base`, which may or may not end in `/v1`.
    pub(crate) fn new(
        label: String,
        name: &str,
        base: &str,
        key: Option<Secret>,
        limits: Arc<Limits>,
    ) -> Result<Self, NotABase> {
        let endpoint = Endpoint {
            url: completions_url(base).ok_or(NotABase)?,
            key: key.filter(|key| !key.is_empty()),
            model: name.to_owned(),
            http: Http::new(&limits),
            limits,
        };
        Ok(Self {
            label,
            endpoint: Arc::new(endpoint),
        })
    }
}

impl Provider for OpenAiChat {
    fn label(&self) -> &str {
        &self.label
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(OpenAiChatModel(Arc::clone(&self.endpoint)))
    }
}

struct OpenAiChatModel(Arc<Endpoint>);

impl Model for OpenAiChatModel {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let call = Box::new(Call {
            endpoint: Arc::clone(&self.0),
            deadlines: Deadlines::start(&self.0.limits),
            state: State::Unsent(request),
            events: SseParser::new(MODEL_EVENT_BYTES_MAX),
            reply: Reply::default(),
            ready: VecDeque::new(),
            complete_since: None,
        });
        Box::pin(stream::unfold(call, async |mut call| {
            let chunk = call.next().await?;
            Some((chunk, call))
        }))
    }
}

/// One call on its way.
struct Call {
    endpoint: Arc<Endpoint>,
    deadlines: Deadlines,
    state: State,
    events: SseParser,
    reply: Reply,
    /// Chunks of the bytes that have come and were not handed over yet.
    ready: VecDeque<Chunk>,
    complete_since: Option<Instant>,
}

enum State {
    Unsent(ModelRequest),
    Reading(Answer),
    /// What is left to say, after the chunks that are ready.
    Over(Option<ModelError>),
}

/// A try that failed before the answer's first byte.
struct Refused {
    error: ModelError,
    may_try_again: bool,
    retry_after: Option<std::time::Duration>,
}

impl Call {
    async fn next(&mut self) -> Option<Result<Chunk, ModelError>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            let outcome = match &mut self.state {
                State::Unsent(request) => {
                    let json = request::body(&self.endpoint.model, request);
                    self.send(json)
                        .await
                        .map(|answer| self.state = State::Reading(answer))
                }
                State::Reading(_) => self.read().await,
                State::Over(error) => return error.take().map(Err),
            };
            if let Err(error) = outcome {
                self.state = State::Over(Some(error));
            }
        }
    }

    /// Sends the request until an answer begins or trying again would not help.
    async fn send(&mut self, json: Vec<u8>) -> Result<Answer, ModelError> {
        let unusable = ModelError::Unusable {
            what: "the key holds characters that a header cannot carry",
        };
        let request = http::post(&self.endpoint.url, self.endpoint.key.as_ref(), json);
        let request = request.ok_or(unusable)?;
        let mut tries = 1;
        loop {
            // The body is bytes, so a copy shares them and never fails.
            let Some(copy) = request.try_clone() else {
                return Err(ModelError::Unreachable { tries });
            };
            let attempt = try_once(&self.endpoint, copy, tries);
            match self.deadlines.within(attempt).await? {
                Ok(answer) => return Ok(answer),
                Err(refused) if refused.may_try_again && tries < MODEL_TRIES_MAX => {
                    let pause = retry::wait_after(tries, refused.retry_after);
                    tracing::info!(tries, ?pause, "the model call is tried again");
                    self.deadlines.pause(pause).await?;
                    self.deadlines.try_again();
                    tries += 1;
                }
                Err(refused) => return Err(refused.error),
            }
        }
    }

    /// Waits for more of the answer and takes what came apart.
    async fn read(&mut self) -> Result<(), ModelError> {
        let State::Reading(answer) = &mut self.state else {
            return Ok(());
        };
        let piece = if self.reply.is_complete() {
            // Only usage and the end can follow. A server that sends neither, or breaks off
            // here, has answered all the same.
            let since = *self.complete_since.get_or_insert_with(Instant::now);
            let wait = if self.reply.is_done() {
                MODEL_CLOSE_WAIT
            } else {
                MODEL_TAIL_WAIT
            };
            let tail = timeout_at(since + wait, answer.piece()).await;
            tail.unwrap_or(Ok(None)).unwrap_or(None)
        } else {
            let piece = self.deadlines.within(answer.piece()).await?;
            piece.map_err(|_| ModelError::Cut)?
        };
        let Some(piece) = piece else {
            return self.end();
        };
        self.deadlines.heard();
        let events = self.events.push(piece.as_ref());
        let events = events.map_err(|_| ModelError::Unusable {
            what: "an event is too long",
        })?;
        for event in events {
            self.reply.take(&event.data, &mut self.ready)?;
        }
        Ok(())
    }

    /// No more bytes come: says what is left to say, if the answer is whole.
    fn end(&mut self) -> Result<(), ModelError> {
        let events = std::mem::replace(&mut self.events, SseParser::new(0));
        if let Ok(Some(last)) = events.finish() {
            // Without its blank line an event may have been cut short.
            let taken = self.reply.take(&last.data, &mut self.ready);
            taken.map_err(|_| ModelError::Cut)?;
        }
        self.ready.extend(self.reply.end()?);
        self.state = State::Over(None);
        Ok(())
    }
}

/// Sends the request once. An answer that is not a stream is a refusal.
async fn try_once(
    endpoint: &Endpoint,
    request: reqwest::Request,
    tries: u32,
) -> Result<Answer, Refused> {
    let Ok(answer) = endpoint.http.send(request).await else {
        return Err(Refused {
            error: ModelError::Unreachable { tries },
            may_try_again: true,
            retry_after: None,
        });
    };
    let status = answer.status();
    let is_json = answer
        .header("content-type")
        .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/json"));
    if (200..300).contains(&status) && !is_json {
        return Ok(answer);
    }
    let retry_after = retry::retry_after(|name| answer.header(name));
    let body = answer.text(MODEL_ERROR_BYTES_MAX).await;
    let body = match &endpoint.key {
        Some(key) => body.replace(key.expose(), "***"),
        None => body,
    };
    Err(Refused {
        error: reply::refusal(status, &body),
        // An empty purse does not fill by waiting.
        may_try_again: retry::may_help(status) && !body.contains("insufficient_quota"),
        retry_after,
    })
}

/// Where chat completions are, for a base with or without its version.
fn completions_url(base: &str) -> Option<Url> {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/chat/completions").unwrap_or(base);
    let mut url = Url::parse(base).ok()?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return None;
    }
    let is_version = |segment: &str| {
        let digits = segment.strip_prefix('v').unwrap_or("");
        digits.starts_with(|c: char| c.is_ascii_digit())
    };
    let has_version = url
        .path_segments()
        .is_some_and(|mut path| path.any(is_version));
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty();
    if !has_version {
        path.push("v1");
    }
    path.extend(["chat", "completions"]);
    drop(path);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::completions_url;

    #[test]
    fn a_base_works_with_or_without_its_version() {
        let cases = [
            (
                "http://127.0.0.1:4010",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:4010/",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:4010/v1",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:4010/v1/",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "https://a.example/api/v1",
                "https://a.example/api/v1/chat/completions",
            ),
            (
                "https://a.example/v1beta/openai",
                "https://a.example/v1beta/openai/chat/completions",
            ),
            (
                "http://a/v1/chat/completions",
                "http://a/v1/chat/completions",
            ),
        ];
        for (base, expected) in cases {
            let url = completions_url(base).map(String::from);
            assert_eq!(url.as_deref(), Some(expected), "{base}");
        }
        for wrong in ["", "127.0.0.1:4010", "file:///etc", "http://", "ftp://a"] {
            assert_eq!(completions_url(wrong), None, "{wrong}");
        }
    }
}
