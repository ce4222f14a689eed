//! What differs between providers: how a request is worded and how an answer is put together.
//!
//! A [`Dialect`] is one wire format; [`crate::call`] does the rest the same way for all of them.

use std::collections::VecDeque;

use domain::limits::MODEL_EVENT_BYTES_MAX;
use serde::Serialize;
use wire::lines::LineParser;
use wire::sse::SseParser;

use crate::error::ModelError;
use crate::memory::{Memory, Piece};
use crate::model::{Chunk, ModelRequest};
use crate::window;

/// One provider's wire format.
pub(crate) trait Dialect: Send + Sync {
    /// How the answer is cut into events.
    fn framing(&self) -> Framing;

    /// Headers of every request, by their names in lower case.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The request's body.
    fn body(&self, asked: &Asked<'_>) -> Vec<u8>;

    /// An answer of which nothing has come yet.
    fn reply(&self) -> Box<dyn Reply>;

    /// Whether models that speak it may write tool calls as text: small ones on local servers do.
    fn may_write_calls(&self) -> bool {
        false
    }

    /// Where its servers say how much a model reads.
    fn windows(&self) -> &'static [window::Source] {
        window::COMPATIBLE
    }

    /// What to leave out when a server answered 400 with `said`, in lower case.
    fn refused_extra(&self, said: &str) -> Option<Extra>;
}

/// What a request is made of.
pub(crate) struct Asked<'a> {
    /// The model's name.
    pub(crate) model: &'a str,
    /// The conversation.
    pub(crate) request: &'a ModelRequest,
    /// What the provider must see again.
    pub(crate) memory: &'a Memory,
    /// What not every model takes.
    pub(crate) extras: Extras,
    /// Tokens that fit into the call.
    pub(crate) window: u64,
    /// Tokens that the answer may have.
    pub(crate) output: Output,
}

/// How long an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// Tokens.
    pub(crate) tokens_max: u64,
    /// The server's own limit may be far too small, or none.
    pub(crate) is_default_unknown: bool,
}

impl Output {
    /// The limit to send to a server that may have none, or too small a one, by itself.
    pub(crate) fn where_default_is_unknown(self, extras: Extras) -> Option<u64> {
        (self.is_default_unknown && extras.output_limit).then_some(self.tokens_max)
    }
}

/// A part of a request that some models refuse, and without which they can still answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    Thoughts,
    Tools,
    /// Images that tools found.
    Images,
    /// The name under which a provider keeps what it has read.
    CacheKey,
    /// How long the answer may be.
    OutputLimit,
}

/// The extras that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) thoughts: bool,
    pub(crate) tools: bool,
    pub(crate) images: bool,
    pub(crate) cache_key: bool,
    pub(crate) output_limit: bool,
}

/// Room for the request of a young session, most of which are the tools it offers.
const BODY_BYTES: usize = 16 * 1024;

/// `body` as JSON. Dialects describe a request by types that borrow from the conversation: it is
/// as long as the session, and to make values of it first would cost several times as much.
pub(crate) fn written(body: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(BODY_BYTES);
    match serde_json::to_writer(&mut json, body) {
        Ok(()) => json,
        // Nothing in a request can fail to be JSON.
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
impl<'a> Asked<'a> {
    /// A request with everything in it.
    pub(crate) fn of(model: &'a str, request: &'a ModelRequest, memory: &'a Memory) -> Self {
        Self {
            model,
            request,
            memory,
            extras: Extras {
                thoughts: true,
                tools: true,
                images: true,
                cache_key: true,
                output_limit: true,
            },
            window: 100_000,
            output: Output {
                tokens_max: 1_000,
                is_default_unknown: true,
            },
        }
    }
}

impl Extras {
    pub(crate) fn has(self, extra: Extra) -> bool {
        match extra {
            Extra::Thoughts => self.thoughts,
            Extra::Tools => self.tools,
            Extra::Images => self.images,
            Extra::CacheKey => self.cache_key,
            Extra::OutputLimit => self.output_limit,
        }
    }

    pub(crate) fn without(mut self, extra: Extra) -> Self {
        match extra {
            Extra::Thoughts => self.thoughts = false,
            Extra::Tools => self.tools = false,
            Extra::Images => self.images = false,
            Extra::CacheKey => self.cache_key = false,
            Extra::OutputLimit => self.output_limit = false,
        }
        self
    }
}

/// An answer as it comes.
pub(crate) trait Reply: Send {
    /// Takes one event's data and adds the chunks that it completes.
    fn take(&mut self, data: &str, ready: &mut VecDeque<Chunk>) -> Result<(), ModelError>;

    /// Grows with everything that has come of it and was not given as a chunk: pieces of tool calls,
    /// sealed thoughts, the end.
    fn heard(&self) -> usize;

    /// How far it has come.
    fn stage(&self) -> Stage;

    /// The last chunks, once no more bytes come.
    fn end(&mut self) -> Result<Ending, ModelError>;
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// More of it is to come.
    Open,
    /// All that people see is there; only usage can follow.
    Complete,
    /// Nothing can follow.
    Done,
}

/// What an answer ends with.
pub(crate) struct Ending {
    /// Tool calls, usage, and the stop.
    pub(crate) chunks: Vec<Chunk>,
    /// The answer in pieces, if the provider must see it again exactly so.
    pub(crate) pieces: Vec<Piece>,
}

/// How a stream is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value per line.
    Lines,
}

/// The bytes of an answer on their way to being events.
pub(crate) enum Frames {
    Events(SseParser),
    Lines(LineParser),
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Events => Self::Events(SseParser::new(MODEL_EVENT_BYTES_MAX)),
            Framing::Lines => Self::Lines(LineParser::new(MODEL_EVENT_BYTES_MAX)),
        }
    }

    /// The data of the events that `piece` completes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, ModelError> {
        let frames = match self {
            Self::Events(parser) => parser
                .push(piece)
                .map(|events| events.into_iter().map(|event| event.data).collect())
                .ok(),
            Self::Lines(parser) => parser.push(piece).ok(),
        };
        frames.ok_or(ModelError::Unusable {
            what: "an event is too long",
        })
    }

    /// The data of an event that had no end.
    pub(crate) fn finish(self) -> Option<String> {
        match self {
            Self::Events(parser) => parser.finish().ok()?.map(|event| event.data),
            Self::Lines(parser) => parser.finish().ok()?,
        }
    }
}
