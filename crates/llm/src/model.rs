//! What an agent and a model say to each other, whatever the provider.
//!
//! [`Provider::open`] gives a session its [`Model`]; [`Model::stream`] is one call, answered by
//! [`Chunk`]s of which the last is [`Chunk::Stop`], unless the call failed.

use std::pin::Pin;
use std::sync::Arc;

use domain::CallId;
use domain::event::Usage;
use futures_util::Stream;
use serde_json::Value;

use crate::content;
use crate::error::ModelError;
use crate::schema::Schema;

/// The context window of a model of which nothing is known: what most of today's have at least.
pub const CONTEXT_WINDOW_DEFAULT: u64 = 128_000;

/// Bytes of English text or code in one token, about.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// What an image counts for: about 1,600 tokens, the most that a provider charges for one that it
/// does not scale down.
const IMAGE_WEIGHT: u64 = 1_600 * BYTES_PER_TOKEN;

/// One entry of the conversation as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What the person said; `blocks` are the same prompt as ACP content blocks.
    User {
        /// The prompt's text.
        text: String,
        /// The prompt as it came, with images and resources.
        blocks: Vec<Value>,
    },
    /// What the model answered.
    Assistant {
        /// The answer's text.
        text: String,
        /// The tools it wanted to run.
        calls: Vec<ToolCall>,
    },
    /// How the calls of the answer before this ended, in their order.
    ToolResults(Vec<ToolOutcome>),
}

/// A tool that the model wants to run, complete with its input.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Our own name for the call, unique in its session.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// Its input: an object, or a string when the model wrote something that is not JSON.
    pub input: Value,
}

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// What the model is told.
    pub text: String,
    /// Whether it failed, was refused, or did not run.
    pub failed: bool,
    /// Images that it found, as ACP content blocks.
    pub images: Vec<Value>,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its input.
    pub input_schema: Schema,
}

/// One call of a model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Standing instructions; may be empty.
    pub system: String,
    /// The conversation so far.
    pub messages: Arc<Vec<Message>>,
    /// What may be called.
    pub tools: Arc<[ToolSpec]>,
}

impl ModelRequest {
    /// How long the request is, in bytes of text; an image counts as much text as it costs.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let tools = self.tools.iter().map(|tool| {
            tool.name.len() + tool.description.len() + tool.input_schema.as_str().len()
        });
        let tools: usize = tools.sum();
        let messages: u64 = self.messages.iter().map(Message::weight).sum();
        self.system.len() as u64 + tools as u64 + messages
    }
}

impl Message {
    fn weight(&self) -> u64 {
        match self {
            Self::User { text, blocks } => {
                let images = blocks
                    .iter()
                    .filter(|block| content::kind(block) == "image");
                text.len() as u64 + IMAGE_WEIGHT * images.count() as u64
            }
            Self::Assistant { text, calls } => {
                let calls = calls
                    .iter()
                    .map(|call| call.name.len() + json_bytes(&call.input));
                let calls: usize = calls.sum();
                (text.len() + calls) as u64
            }
            Self::ToolResults(outcomes) => {
                let texts: usize = outcomes.iter().map(|outcome| outcome.text.len()).sum();
                texts as u64
            }
        }
    }
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Chunk {
    /// More of the answer; never empty.
    Text(String),
    /// More of the thinking before it; never empty.
    Thought(String),
    /// A complete call.
    ToolCall(ToolCall),
    /// Tokens used by this call so far; a later count takes the place of the one before. A call
    /// that breaks off has used them all the same.
    Usage(Usage),
    /// The end, exactly once and last.
    Stop(ModelStop),
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelStop {
    /// It had nothing more to say.
    EndTurn,
    /// It ran into its length limit.
    MaxTokens,
    /// It refused, or was stopped by a filter. Calls that come with it are not to be made.
    Refusal,
    /// It waits for the results of its tool calls.
    ToolUse,
}

/// The chunks of one call. Nothing is sent before the first poll; dropping it cancels the call.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<Chunk, ModelError>> + Send>>;

/// What a model does before its first call.
pub type Preparation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One session's model.
pub trait Model: Send {
    /// Learns from the model's server what is not known of it, such as its window. Takes time only
    /// before the first call, and is bounded then.
    fn prepare(&self) -> Preparation {
        Box::pin(std::future::ready(()))
    }

    /// Asks the model once.
    fn stream(&mut self, request: ModelRequest) -> ChunkStream;

    /// Whether it may write a tool call as the text of its answer, as small models do.
    fn may_write_calls(&self) -> bool {
        false
    }

    /// Tokens that fit into one call, question and answer together.
    fn context_window(&self) -> u64 {
        CONTEXT_WINDOW_DEFAULT
    }

    /// About how many tokens `request` is for this model: estimated from its length, and better
    /// once the model has counted a request of this session itself.
    fn input_tokens(&self, request: &ModelRequest) -> u64 {
        request.weight() / BYTES_PER_TOKEN
    }
}

/// Where models come from; one per process.
pub trait Provider: Send + Sync {
    /// What people read in the greeting, such as `openai-chat:mock`.
    fn label(&self) -> &str;

    /// A model for a session that was just created or loaded.
    fn open(&self) -> Box<dyn Model>;

    /// A model for the sub-agent called `agent`.
    fn open_for(&self, agent: &str) -> Box<dyn Model> {
        let _ = agent;
        self.open()
    }

    /// Tokens that fit into one call of such a model, question and answer together.
    fn context_window(&self) -> u64 {
        CONTEXT_WINDOW_DEFAULT
    }
}

/// How long a value is as JSON, without writing it down: this is asked before every call.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and a value is always JSON.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// What the person said last.
pub(crate) fn last_prompt(messages: &[Message]) -> &str {
    for message in messages.iter().rev() {
        if let Message::User { text, .. } = message {
            return text;
        }
    }
    ""
}

/// A new name for a call: nine letters and digits.
///
/// Providers' own ids may be missing or repeat. Nine alphanumeric characters are accepted by all
/// of them (one accepts nothing else) and hold 53 random bits.
pub(crate) fn fresh_call_id() -> CallId {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bits = random_bits();
    let mut id = String::with_capacity(9);
    for _ in 0..9 {
        id.push(char::from(LETTERS[(bits % 62) as usize]));
        bits /= 62;
    }
    CallId::new(id)
}

/// 64 unpredictable bits, for ids that must not repeat and waits that must not align.
pub(crate) fn random_bits() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Each state has its own keys, drawn from the system's randomness once per thread.
    RandomState::new().hash_one(0_u8)
}
