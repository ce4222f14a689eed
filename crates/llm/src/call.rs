//! One call of a model behind HTTP: tries, deadlines, and the answer's bytes.
//!
//! The first byte of an answer is the first byte of its body. A head alone is none: some servers
//! send it at once and think afterwards, so the deadline for the first byte runs on, and a
//! connection that is lost before any of the body came is tried again. From the first byte on
//! nothing is repeated. What counts as progress is said in [`crate::deadline`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::limits::{
    MODEL_CLOSE_WAIT, MODEL_ERROR_BYTES_MAX, MODEL_RETRY_AFTER_MAX, MODEL_TAIL_WAIT,
    MODEL_TRIES_MAX,
};
use reqwest::Method;
use tokio::time::{Instant, timeout_at};

use crate::deadline::{Deadlines, Progress};
use crate::dialect::{Asked, Ending, Extra, Extras, Frames, Framing, Reply, Stage};
use crate::error::ModelError;
use crate::hosted::Endpoint;
use crate::http::{self, Answer, Broken, PROXY_LOGIN_WANTED};
use crate::known;
use crate::memory::SharedMemory;
use crate::model::{Chunk, ModelRequest};
use crate::{refusal, retry};

/// One call on its way.
pub(crate) struct Call {
    endpoint: Arc<Endpoint>,
    memory: SharedMemory,
    deadlines: Deadlines,
    state: State,
    frames: Frames,
    reply: Box<dyn Reply>,
    /// Chunks of the bytes that have come and were not handed over yet.
    ready: VecDeque<Chunk>,
    complete_since: Option<Instant>,
    /// The request's length, to learn from what the provider counts.
    weight: u64,
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
    next: Next,
}

/// What may help after a failed try.
enum Next {
    /// The same again, after as long as the server wishes.
    Again(Option<Duration>),
    /// The same without this.
    Without(Extra),
    Nothing,
}

impl Call {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        memory: SharedMemory,
        request: ModelRequest,
    ) -> Self {
        Self {
            deadlines: Deadlines::start(&endpoint.limits),
            weight: request.weight(),
            state: State::Unsent(request),
            frames: Frames::new(endpoint.dialect.framing()),
            reply: endpoint.dialect.reply(),
            ready: VecDeque::new(),
            complete_since: None,
            memory,
            endpoint,
        }
    }

    /// The next chunk, or the error that ends the call.
    pub(crate) async fn next(&mut self) -> Option<Result<Chunk, ModelError>> {
        loop {
            if let Some(mut chunk) = self.ready.pop_front() {
                self.count(&mut chunk);
                return Some(Ok(chunk));
            }
            let outcome = match &mut self.state {
                State::Unsent(_) => self.send().await,
                State::Reading(_) => self.read().await,
                State::Over(error) => return error.take().map(Err),
            };
            if let Err(error) = outcome {
                let error = error.without_key(&self.endpoint.login);
                self.state = State::Over(Some(error));
            }
        }
    }

    /// If the provider counted, says what that costs and learns from it.
    fn count(&self, chunk: &mut Chunk) {
        if let Chunk::Usage(usage) = chunk {
            usage.cost_nano_usd = known::cost_nano_usd(&self.endpoint.model, usage);
            let mut memory = self.memory.lock();
            memory.count(self.weight, usage.input_tokens);
        }
    }

    /// Sends the request until an answer begins or trying again would not help.
    async fn send(&mut self) -> Result<(), ModelError> {
        let mut tries = 1;
        let mut extras = self.endpoint.extras();
        loop {
            let request = self.request(extras)?;
            let attempt = try_once(&self.endpoint, request, extras, tries);
            let refused = match self.deadlines.within(attempt).await? {
                Ok((answer, first)) => {
                    self.state = State::Reading(answer);
                    return match first {
                        Some(first) => self.take(&first),
                        None => self.end(),
                    };
                }
                Err(refused) => refused,
            };
            match refused.next {
                Next::Without(extra) => {
                    tracing::info!(?extra, "the model refuses it and is asked without");
                    self.endpoint.refuse(extra);
                    extras = extras.without(extra);
                }
                Next::Again(asked) if tries < MODEL_TRIES_MAX => {
                    let pause = retry::wait_after(tries, asked);
                    tracing::info!(tries, ?pause, "the model call is tried again");
                    self.deadlines.pause(pause).await?;
                    tries += 1;
                }
                Next::Again(_) | Next::Nothing => return Err(refused.error),
            }
            self.deadlines.try_again();
        }
    }

    fn request(&self, extras: Extras) -> Result<reqwest::Request, ModelError> {
        let State::Unsent(request) = &self.state else {
            return Err(ModelError::Cut);
        };
        let endpoint = &self.endpoint;
        let accept = match endpoint.dialect.framing() {
            Framing::Events => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        };
        let sent = http::request(Method::POST, &endpoint.url, &endpoint.login, accept);
        let mut sent = sent.ok_or(ModelError::Unusable {
            what: "the key holds characters that a header cannot carry",
        })?;
        let window = endpoint.window.tokens();
        let memory = self.memory.lock();
        let body = endpoint.dialect.body(&Asked {
            model: &endpoint.model,
            request,
            extras,
            window,
            output: known::output(&endpoint.model, window, memory.tokens(self.weight)),
            memory: &memory,
        });
        drop(memory);
        for (name, value) in endpoint.dialect.headers() {
            let value = reqwest::header::HeaderValue::from_static(value);
            sent.headers_mut().insert(*name, value);
        }
        *sent.body_mut() = Some(body.into());
        Ok(sent)
    }

    /// Waits for more of the answer and takes what came apart.
    async fn read(&mut self) -> Result<(), ModelError> {
        let State::Reading(answer) = &mut self.state else {
            return Ok(());
        };
        let stage = self.reply.stage();
        let piece = if stage == Stage::Open {
            let piece = self.deadlines.within(answer.piece()).await?;
            piece.map_err(|_| ModelError::Cut)?
        } else {
            // Only usage and the end can follow. A server that sends neither, or breaks off
            // here, has answered all the same.
            let since = *self.complete_since.get_or_insert_with(Instant::now);
            let wait = if stage == Stage::Done {
                MODEL_CLOSE_WAIT
            } else {
                MODEL_TAIL_WAIT
            };
            let tail = timeout_at(since + wait, answer.piece()).await;
            tail.unwrap_or(Ok(None)).unwrap_or(None)
        };
        match piece {
            Some(piece) => self.take(&piece),
            None => self.end(),
        }
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), ModelError> {
        let had = self.heard();
        let frames = self.frames.push(piece)?;
        let mut progress = Progress::Bytes;
        for data in frames {
            // A keep-alive of some servers: an event with nothing in it.
            if !data.trim().is_empty() {
                progress = Progress::Event;
            }
            self.reply.take(&data, &mut self.ready)?;
        }
        if self.heard() != had {
            progress = Progress::Content;
        }
        self.deadlines.heard(progress);
        Ok(())
    }

    /// A number that changes with everything that comes of the answer.
    fn heard(&self) -> (usize, usize) {
        (self.ready.len(), self.reply.heard())
    }

    /// No more bytes come: says what is left to say, if the answer is whole.
    fn end(&mut self) -> Result<(), ModelError> {
        let framing = self.endpoint.dialect.framing();
        let frames = std::mem::replace(&mut self.frames, Frames::new(framing));
        if let Some(last) = frames.finish() {
            // Without its end an event may have been cut short.
            let taken = self.reply.take(&last, &mut self.ready);
            taken.map_err(|_| ModelError::Cut)?;
        }
        let Ending { chunks, pieces } = self.reply.end()?;
        self.memory.lock().remember(pieces);
        self.ready.extend(chunks);
        self.state = State::Over(None);
        Ok(())
    }
}

/// Sends the request once and waits for the first byte of the answer; `None` for an empty one. An
/// answer that is not a stream is a refusal.
async fn try_once(
    endpoint: &Endpoint,
    request: reqwest::Request,
    extras: Extras,
    tries: u32,
) -> Result<(Answer, Option<Bytes>), Refused> {
    let lost = |error| Refused {
        error,
        next: Next::Again(None),
    };
    let final_error = |error| Refused {
        error,
        next: Next::Nothing,
    };
    let mut answer = endpoint
        .http
        .send(request)
        .await
        .map_err(|broken| match broken {
            Broken::Unreachable | Broken::Lost => lost(ModelError::Unreachable { tries }),
            Broken::ProxyLogin => final_error(ModelError::ProxyLogin),
            Broken::Untrusted => final_error(ModelError::Untrusted),
        })?;
    let status = answer.status();
    if status == PROXY_LOGIN_WANTED {
        return Err(final_error(ModelError::ProxyLogin));
    }
    if (200..300).contains(&status) && is_stream(&answer, endpoint.dialect.framing()) {
        let first = answer.piece().await.map_err(|_| lost(ModelError::Cut))?;
        return Ok((answer, first));
    }
    let retry_after = retry::retry_after(|name| answer.header(name));
    let body = answer.text(MODEL_ERROR_BYTES_MAX).await;
    let error = refusal::of_answer(status, &body);
    let extra = endpoint.dialect.refused_extra(&body.to_ascii_lowercase());
    // Some servers fail over an image instead of refusing it.
    let is_refusal = |extra: &Extra| status == 400 || *extra == Extra::Images;
    let next = match extra.filter(|extra| is_refusal(extra) && extras.has(*extra)) {
        Some(extra) => Next::Without(extra),
        // An empty purse does not fill by waiting, and a long text does not shrink.
        None if !retry::may_help(status)
            || error == ModelError::ContextTooLong
            || body.contains("insufficient_quota") =>
        {
            Next::Nothing
        }
        // Coming back sooner than the server wishes would only be refused again.
        None if retry_after.is_some_and(|asked| asked > MODEL_RETRY_AFTER_MAX) => Next::Nothing,
        None => Next::Again(retry_after),
    };
    Err(Refused { error, next })
}

/// Whether the body is a stream of the dialect's events, as far as the head says.
fn is_stream(answer: &Answer, framing: Framing) -> bool {
    let kind = answer.header("content-type").unwrap_or_default();
    // A whole JSON document is an error, or an answer of a server that does not stream; lines of
    // JSON are sometimes called by the same name.
    framing == Framing::Lines || !kind.to_ascii_lowercase().starts_with("application/json")
}
