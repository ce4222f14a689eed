//! Every number that bounds something, with its reason.
//!
//! Constants are promises of the format or the protocol; [`Limits`] are settings, each a key under
//! `[limits]` and an environment variable `FASTNESS_LIMITS_<KEY>`.

use std::time::Duration;

mod agents;
mod clients;
mod http;
mod library;
mod lsp;
mod mcp;
mod models;
mod tools;

pub use agents::*;
pub use clients::*;
pub use http::*;
pub use library::*;
pub use lsp::*;
pub use mcp::*;
pub use models::*;
pub use tools::*;

/// Deepest JSON nesting accepted: one less than what would overflow a recursive reader's budget.
pub const JSON_DEPTH_MAX: usize = 127;

/// Most values in one JSON text. Decoded, each takes up to about 80 bytes however short it was
/// written (`0,`), so this keeps the decoded form of any frame near the size of the largest one.
pub const JSON_VALUES_MAX: usize = 256 * 1024;

/// Longest JSON-RPC id, so that echoing it cannot be used to make large answers.
pub const RPC_ID_BYTES_MAX: usize = 256;

/// Longest prompt id: it is stored with every prompt and kept in memory while the session is.
pub const PROMPT_ID_BYTES_MAX: usize = 64;

/// Strings longer than this stand in a file of their own, so that journal lines stay readable.
pub const BLOB_BYTES_MIN: usize = 256 * 1024;

/// Longest journal line: four times the largest message accepted, for what escaping adds; bounds
/// what one damaged line can make a reader hold.
pub const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Appends of one session that share one sync; the others wait for the next, so that no caller
/// writes for ever on behalf of others.
pub const GROUP_APPENDS_MAX: usize = 256;

/// Most events handed to a subscriber at once; bounds one client's share of memory.
pub const BATCH_EVENTS_MAX: usize = 256;

/// Most bytes of events handed to a subscriber at once; one larger event still passes alone.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;

/// Most recent events kept in memory for clients that keep up; the rest read the file.
pub const RING_EVENTS_MAX: usize = 64;

/// Most bytes of recent events in memory per session.
pub const RING_BYTES_MAX: usize = 128 * 1024;

/// Chunks of the open message kept apart in memory; a client further behind gets them merged.
pub const TAIL_CHUNKS_MAX: usize = 4_096;

/// Bytes of the open message kept in memory; a client further behind reads `partial`.
pub const TAIL_BYTES_MAX: usize = 256 * 1024;

/// Largest piece of text in one update when chunks are merged or a message is replayed.
pub const MERGED_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Text of one turn taken per second: far more than any model writes, and little enough that a flood
/// leaves the cores and the disk to the other sessions.
pub const TEXT_BYTES_PER_SECOND_MAX: u64 = 8 * 1024 * 1024;

/// How far a turn's text may run ahead of that rate: what makes waiting worth a timer.
pub const TEXT_BURST_TIME: Duration = Duration::from_millis(4);

/// Commands waiting for one session: as many as one connection may have in flight.
pub const MAILBOX_COMMANDS_MAX: usize = 1_024;

/// Reports of a running turn that wait for the session; small, so that the model waits early.
pub const TURN_REPORTS_MAX: usize = 256;

/// Messages a stream over HTTP keeps beside what the journal has, for a reader that comes back.
pub const KEPT_MESSAGES_MAX: usize = 256;

/// Bytes of such messages.
pub const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Streams of one connection over HTTP that may wait for sessions it is not attached to.
pub const WAITING_STREAMS_MAX: usize = 16;

/// Prompts that may wait behind a running turn.
pub const QUEUED_PROMPTS_MAX: usize = 16;

/// Bytes of a queued prompt that clients are shown before its turn starts. Few prompts are longer, and a
/// full queue (256 KiB) still fits in one frame.
pub const QUEUED_PROMPT_SHOWN_BYTES_MAX: usize = 16 * 1024;

/// Prompts of a session whose `promptId` is remembered: a request is sent again soon or never, and
/// each takes about 200 bytes while the session is in memory. Older ones are in the journal.
pub const PROMPT_IDS_REMEMBERED_MAX: usize = 1_024;

/// Bits that tell whether a `promptId` may be one of the older ones: 16 KiB for a session that has
/// some, and of 10,000 of them one new prompt in a hundred is looked up for nothing.
pub const PROMPT_IDS_FILTER_BITS: usize = 128 * 1024;

/// Ends of turns that a session remembers to go back to; eight bytes each, and nobody undoes more.
pub const TURN_ENDS_REMEMBERED_MAX: usize = 4_096;

/// Requests of one connection that may wait for their answer.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 64;

/// Prompts of one connection that may wait for their answer.
pub const PROMPTS_IN_FLIGHT_MAX: usize = 1_024;

/// Sessions one `session/list` page shows.
pub const LIST_PAGE_MAX: usize = 100;

/// A conversation larger than this is read from the journal for each model call instead of kept:
/// four times what the largest windows of today hold.
pub const CONVERSATION_CACHE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A conversation longer than this loses its oldest messages when it is read from the journal, so
/// that a session of any length can be prompted: more than any model reads, and it fits into memory.
pub const CONVERSATION_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What remains then. Half, so that it does not happen again with every message.
pub const CONVERSATION_BYTES_KEPT: usize = CONVERSATION_BYTES_MAX / 2;

/// Threads that wait for the disk: more would not make it faster.
pub const DISK_THREADS_MAX: usize = 32;

/// How long such a thread waits for work before it ends; a new one takes a tenth of a millisecond.
pub const DISK_THREAD_IDLE_TIME: Duration = Duration::from_secs(10);

/// How long after a turn a session keeps its conversation and newest events in memory: a person
/// who goes on does so by then, and ten thousand idle sessions must not hold theirs for ever.
pub const SESSION_WARM_TIME: Duration = Duration::from_secs(60);

/// Characters of a web page in one tool result: about ten thousand tokens; the rest is read by
/// offset.
pub const WEB_WINDOW_CHARS_MAX: usize = 40_000;

/// Questions about web pages in one turn: each is a model call that no step counts.
pub const QUESTIONS_PER_TURN_MAX: usize = 20;

/// Results of one web search; no provider gives more at once.
pub const WEB_SEARCH_RESULTS_MAX: usize = 20;

/// Requests of ours that may wait for one client: a turn has [`PARALLEL_CALLS_MAX`] at a
/// time and cleans up with two more, so this is a hundred turns at work through one connection.
pub const CLIENT_REQUESTS_MAX: usize = 1_024;

/// Bytes of a client's error message, and of its data, that the model is told: a client may send
/// a whole frame of either.
pub const CLIENT_ERROR_BYTES_MAX: usize = 4 * 1024;

/// Most a summary of a conversation may say: far more than a good one does.
pub const SUMMARY_BYTES_MAX: usize = 32 * 1024;

/// Bytes of one tool's output that whoever summarises is shown: how it began is what matters.
pub const SUMMARY_OUTPUT_BYTES_MAX: usize = 2 * 1024;

/// Entries of a plan: more is no plan that a person reads.
pub const PLAN_ENTRIES_MAX: usize = 200;

/// Bytes of one entry of a plan.
pub const PLAN_ENTRY_BYTES_MAX: usize = 2 * 1024;

/// Calls of one answer that run at the same time: enough to hide the wait for a disk or a client,
/// few enough that one turn does not crowd out others.
pub const PARALLEL_CALLS_MAX: usize = 8;

/// Tokens of the newest tool output that pruning leaves alone: what the model works with now.
pub const PRUNE_PROTECTED_TOKENS: u64 = 40_000;

/// Tokens that pruning must free to be done at all: it costs the provider's prompt cache.
pub const PRUNE_TOKENS_MIN: u64 = 20_000;

/// Longest name of a terminal: it is sent back with every request about it.
pub const TERMINAL_ID_BYTES_MAX: usize = 256;

/// Hooks in one settings file: each may start a process at every step.
pub const HOOKS_MAX: usize = 64;

/// How long a hook may take that does not say how long it may: a person waits for it.
pub const HOOK_TIME_DEFAULT: Duration = Duration::from_secs(10);

/// How long a hook may take at most, whatever it says: a turn waits for it.
pub const HOOK_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// How long all hooks of a session's end may take together: whoever closes it waits for them.
pub const HOOK_END_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes that a hook may print: what a tool result may hold, which it may rewrite.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 2 * TOOL_RESULT_BYTES_MAX;

/// Bytes of what a hook gives the model to read, and of a prompt that it rewrites.
pub const HOOK_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a hook's reason: a sentence or a short list.
pub const HOOK_REASON_BYTES_MAX: usize = 4 * 1024;

/// Times that hooks may keep one turn from ending: a hook that is never content must not make a
/// turn without end.
pub const STOP_BLOCKS_MAX: u32 = 3;

/// Bytes of a settings file: a few hundred settings.
pub const SETTINGS_FILE_BYTES_MAX: usize = 64 * 1024;

/// Directories looked at from a session's own upward.
pub const PROJECT_LEVELS_MAX: usize = 32;

/// Bytes of one file of instructions that the model is shown: about eight thousand tokens.
pub const INSTRUCTION_BYTES_MAX: usize = 32 * 1024;

/// Bytes of all instructions together: they are a part of every request.
pub const INSTRUCTIONS_BYTES_MAX: usize = 96 * 1024;

/// Longest `--model script:` file, read whole at the start.
pub const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Times one model call is sent before it is given up; only until the answer's first byte.
pub const MODEL_TRIES_MAX: u32 = 4;

/// Longest wait before the second try; each further one may be twice as long.
pub const MODEL_BACKOFF_MIN: Duration = Duration::from_millis(500);

/// Longest wait between two tries that we choose ourselves: a person is watching.
pub const MODEL_BACKOFF_MAX: Duration = Duration::from_secs(8);

/// Longest `Retry-After` that is waited for; a server may ask for hours.
pub const MODEL_RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long usage and the end are waited for once a model's last word has come.
pub const MODEL_TAIL_WAIT: Duration = Duration::from_secs(2);

/// How long the end of the body is waited for once the model has said that it is done: a body
/// read to its end leaves the connection usable.
pub const MODEL_CLOSE_WAIT: Duration = Duration::from_millis(100);

/// Bytes read of a model server's error: enough for its message.
pub const MODEL_ERROR_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a model server's error that people are shown: a sentence or two.
pub const MODEL_ERROR_MESSAGE_BYTES_MAX: usize = 400;

/// Bytes of one server-sent event of a model: a long tool input may come as one.
pub const MODEL_EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of all tool inputs in one answer of a model; they are kept until they are complete.
pub const TOOL_INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Tool calls in one answer of a model: far more than any useful answer has.
pub const TOOL_CALLS_MAX: usize = 128;

/// Time in which a model server on this machine must answer to be found; a start waits for it.
pub const MODEL_PROBE_WAIT: Duration = Duration::from_millis(300);

/// Bytes read of a local model server's list of models.
pub const MODEL_PROBE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes that one session's model keeps of its sealed thoughts: they are a few kilobytes per step,
/// and only those of the running turn are needed.
pub const MODEL_MEMORY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Models of a local server that are offered for choosing: a list that a person can still read.
pub const MODELS_OFFERED_MAX: usize = 64;

/// The settings that bound waiting, size and number. See the contract for what a breach does.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A reader that makes no progress this long while something waits for it is dropped.
    pub stall: Duration,
    /// A connection without an attachment is closed after this.
    pub idle: Duration,
    /// Time for `initialize`, and for request headers.
    pub handshake: Duration,
    /// Time for a request body, from its headers to its last byte.
    pub body: Duration,
    /// How long an HTTP connection on which nothing is asked is kept.
    pub keep_alive: Duration,
    /// Time a client has to answer a request of ours that is not a question to a person.
    pub client_request: Duration,
    /// How long a turn whose client left waits for it to come back before a call to it fails.
    pub client_back: Duration,
    /// Time a language server has for one question, its start included.
    pub lsp: Duration,
    /// How long a session's first turn waits for tool servers that it does not need.
    pub mcp_grace: Duration,
    /// Time to a model's first byte.
    pub model_first_byte: Duration,
    /// Time between two chunks of a model's answer.
    pub model_between_chunks: Duration,
    /// Time for one whole model call.
    pub model_call: Duration,
    /// How long a permission question stays open.
    pub permission: Duration,
    /// How long a session that nobody uses stays in memory.
    pub grace: Duration,
    /// Time between two WebSocket pings.
    pub ping: Duration,
    /// Time to answer one.
    pub pong: Duration,
    /// Time that running turns get when the server shuts down.
    pub drain: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once that show the same named token.
    pub connections_per_token_max: usize,
    /// Requests per second: of each network connection that speaks ACP, and of each principal over
    /// REST.
    pub requests_per_second: u32,
    /// Model calls in one turn.
    pub steps_max: u32,
    /// Tool calls in a row that may bring nothing new before the turn ends; 0 means any number.
    pub repeats_max: u32,
    /// Tokens, read and written, in one turn; 0 is no bound.
    pub turn_tokens_max: u64,
    /// Tokens, read and written, in one session; 0 is no bound.
    pub session_tokens_max: u64,
    /// Time after which a turn asks the model no more.
    pub turn: Duration,
    /// Tokens that count as a model's context window, if it is to be less than it is; 0 is as it is.
    pub context_window: u64,
    /// How full the window may be, in per cent, before the conversation is compacted; 0 is never.
    pub compact_percent: u32,
    /// Free disk space below which prompts are refused, in bytes.
    pub disk_free_min: u64,
    /// Processes and threads that one command may have at once.
    pub command_processes_max: u64,
    /// Bytes of memory that one process of a command may fill.
    pub command_memory_bytes_max: u64,
    /// Bytes of memory that all processes of a command may fill together, shared memory included.
    pub command_total_memory_bytes_max: u64,
    /// Bytes of the largest file that a command may write.
    pub command_file_bytes_max: u64,
    /// Bytes of one WebSocket message or ACP POST.
    pub message_bytes_max: usize,
    /// Bytes of one stdio line.
    pub line_bytes_max: usize,
    /// Bytes of one streamed message.
    pub streamed_message_bytes_max: u64,
    /// Bytes in memory that wait for one connection, beyond the message being sent.
    pub outbox_bytes_max: usize,
    /// How long streamed text may be unsynced.
    pub partial_sync: Duration,
    /// How long a server that a client started for itself stays when nobody uses it.
    pub spawned_idle: Duration,
    /// Client library: time to connect.
    pub client_connect: Duration,
    /// Client library: longest silence on the wire.
    pub client_silence: Duration,
    /// Client library: time before the first try to connect again; each further one doubles it.
    pub reconnect_first: Duration,
    /// Client library: longest time between two tries.
    pub reconnect_most: Duration,
    /// Client library: tries before it gives up.
    pub reconnect_tries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            stall: seconds(60),
            idle: seconds(300),
            handshake: seconds(10),
            body: seconds(10),
            keep_alive: seconds(75),
            client_request: seconds(30),
            client_back: seconds(30),
            lsp: seconds(60),
            mcp_grace: MCP_GRACE,
            model_first_byte: seconds(120),
            model_between_chunks: seconds(60),
            model_call: seconds(30 * 60),
            permission: seconds(24 * 3_600),
            grace: seconds(300),
            ping: seconds(20),
            pong: seconds(20),
            drain: seconds(10),
            connections_max: 10_000,
            connections_per_token_max: 1_000,
            requests_per_second: 1_000,
            steps_max: 50,
            repeats_max: 8,
            turn_tokens_max: 0,
            session_tokens_max: 0,
            turn: seconds(24 * 3_600),
            context_window: 0,
            compact_percent: 80,
            disk_free_min: 256 * 1024 * 1024,
            // A large build has hundreds; more is a mistake or an attack.
            command_processes_max: 2_048,
            // What compilers and linkers of large programs take.
            command_memory_bytes_max: 8 * 1024 * 1024 * 1024,
            // A parallel build of a large program: two linkers and a dozen compilers.
            command_total_memory_bytes_max: 16 * 1024 * 1024 * 1024,
            // Larger than what builds write, smaller than most disks.
            command_file_bytes_max: 16 * 1024 * 1024 * 1024,
            message_bytes_max: 16 * 1024 * 1024,
            line_bytes_max: 64 * 1024 * 1024,
            streamed_message_bytes_max: 64 * 1024 * 1024,
            outbox_bytes_max: 1024 * 1024,
            partial_sync: seconds(1),
            spawned_idle: seconds(30 * 60),
            client_connect: seconds(10),
            client_silence: seconds(300),
            reconnect_first: seconds(1),
            reconnect_most: seconds(30),
            reconnect_tries: 10,
        }
    }
}

/// A setting under `[limits]` that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no such key.
    #[error("there is no limit `{key}`; did you mean `{nearest}`?")]
    Unknown {
        /// What was asked for.
        key: String,
        /// The known key that looks most like it.
        nearest: &'static str,
    },
    /// The value is not a whole number that fits.
    #[error("limit `{key}` takes a whole number, not `{value}`")]
    NotANumber {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
    },
}

impl Limits {
    /// Sets the limit named `key` (lower case, times in milliseconds) from text.
    ///
    /// # Errors
    /// If there is no such key or the value is not a whole number.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LimitError> {
        let Some((known, slot)) = self.slots().into_iter().find(|(known, _)| *known == key) else {
            let nearest = nearest_key(key, self.slots().into_iter().map(|(known, _)| known));
            return Err(LimitError::Unknown {
                key: key.to_owned(),
                nearest,
            });
        };
        slot.set(value).ok_or_else(|| LimitError::NotANumber {
            key: known,
            value: value.to_owned(),
        })
    }

    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        let Self {
            command_processes_max: processes,
            command_memory_bytes_max: memory,
            command_total_memory_bytes_max: total,
            command_file_bytes_max: file,
            ..
        } = self;
        vec![
            ("stall_ms", Slot::Time(&mut self.stall)),
            ("idle_ms", Slot::Time(&mut self.idle)),
            ("handshake_ms", Slot::Time(&mut self.handshake)),
            ("body_ms", Slot::Time(&mut self.body)),
            ("keep_alive_ms", Slot::Time(&mut self.keep_alive)),
            ("client_request_ms", Slot::Time(&mut self.client_request)),
            ("client_back_ms", Slot::Time(&mut self.client_back)),
            ("lsp_ms", Slot::Time(&mut self.lsp)),
            ("mcp_grace_ms", Slot::Time(&mut self.mcp_grace)),
            (
                "model_first_byte_ms",
                Slot::Time(&mut self.model_first_byte),
            ),
            (
                "model_between_chunks_ms",
                Slot::Time(&mut self.model_between_chunks),
            ),
            ("model_call_ms", Slot::Time(&mut self.model_call)),
            ("permission_ms", Slot::Time(&mut self.permission)),
            ("grace_ms", Slot::Time(&mut self.grace)),
            ("ping_ms", Slot::Time(&mut self.ping)),
            ("pong_ms", Slot::Time(&mut self.pong)),
            ("drain_ms", Slot::Time(&mut self.drain)),
            ("partial_sync_ms", Slot::Time(&mut self.partial_sync)),
            ("spawned_idle_ms", Slot::Time(&mut self.spawned_idle)),
            ("client_connect_ms", Slot::Time(&mut self.client_connect)),
            ("client_silence_ms", Slot::Time(&mut self.client_silence)),
            ("reconnect_first_ms", Slot::Time(&mut self.reconnect_first)),
            ("reconnect_most_ms", Slot::Time(&mut self.reconnect_most)),
            ("reconnect_tries", Slot::Small(&mut self.reconnect_tries)),
            ("connections_max", Slot::Count(&mut self.connections_max)),
            (
                "connections_per_token_max",
                Slot::Count(&mut self.connections_per_token_max),
            ),
            (
                "message_bytes_max",
                Slot::Count(&mut self.message_bytes_max),
            ),
            ("line_bytes_max", Slot::Count(&mut self.line_bytes_max)),
            ("outbox_bytes_max", Slot::Count(&mut self.outbox_bytes_max)),
            (
                "requests_per_second",
                Slot::Small(&mut self.requests_per_second),
            ),
            ("steps_max", Slot::Small(&mut self.steps_max)),
            ("repeats_max", Slot::Small(&mut self.repeats_max)),
            ("turn_tokens_max", Slot::Large(&mut self.turn_tokens_max)),
            (
                "session_tokens_max",
                Slot::Large(&mut self.session_tokens_max),
            ),
            ("turn_ms", Slot::Time(&mut self.turn)),
            ("context_window", Slot::Large(&mut self.context_window)),
            ("compact_percent", Slot::Small(&mut self.compact_percent)),
            ("disk_free_min", Slot::Large(&mut self.disk_free_min)),
            ("command_processes_max", Slot::Large(processes)),
            ("command_memory_bytes_max", Slot::Large(memory)),
            ("command_total_memory_bytes_max", Slot::Large(total)),
            ("command_file_bytes_max", Slot::Large(file)),
        ]
    }
}

/// One limit, by the type of its value.
enum Slot<'a> {
    Time(&'a mut Duration),
    Count(&'a mut usize),
    Small(&'a mut u32),
    Large(&'a mut u64),
}

impl Slot<'_> {
    fn set(self, value: &str) -> Option<()> {
        match self {
            Self::Time(slot) => *slot = Duration::from_millis(value.parse().ok()?),
            Self::Count(slot) => *slot = value.parse().ok()?,
            Self::Small(slot) => *slot = value.parse().ok()?,
            Self::Large(slot) => *slot = value.parse().ok()?,
        }
        Some(())
    }
}

/// The known key with the most letters in common with `key`, by edit distance.
fn nearest_key(key: &str, known: impl Iterator<Item = &'static str>) -> &'static str {
    known
        .min_by_key(|candidate| edit_distance(key, candidate))
        .unwrap_or("stall_ms")
}

/// Fewest single-character edits that turn one word into the other.
#[must_use]
pub fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replace = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LimitError, Limits};

    #[test]
    fn a_limit_is_set_by_key_and_an_unknown_key_names_its_neighbour() {
        let mut limits = Limits::default();
        limits.set("grace_ms", "250").unwrap();
        assert_eq!(limits.grace, Duration::from_millis(250));
        let wrong = limits.set("grase_ms", "1");
        assert_eq!(
            wrong,
            Err(LimitError::Unknown {
                key: "grase_ms".into(),
                nearest: "grace_ms"
            })
        );
        assert!(matches!(
            limits.set("steps_max", "many"),
            Err(LimitError::NotANumber { .. })
        ));
    }
}
