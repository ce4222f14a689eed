//! Limits of model calls and of turns.

use std::time::Duration;

/// Bytes of an API key; those of all providers are shorter than a fifth of it.
pub const MODEL_KEY_BYTES_MAX: usize = 1_024;

/// Newest tool calls of a turn that a call is compared with: models that go round in circles rarely
/// go round through more.
pub const REPEATED_CALLS_KEPT: usize = 16;

/// How long the result of a search or of a page counts as current while the turn changes nothing:
/// other programs may change what was found, and nothing tells.
pub const UNSEEN_CHANGE_TIME: Duration = Duration::from_secs(60);

/// How many times longer than silence a model call may last whose server sends events without
/// content: such a server is alive, and a model may think for minutes before it speaks.
pub const MODEL_PINGS_FACTOR: u32 = 5;

/// Files of a project that are looked at to learn which tools can do something in it: enough for a
/// small project, and no wait in a large one.
pub const PROJECT_FILES_LOOKED_AT: usize = 500;

/// Time that a model's server has to say how much the model reads. The first turn waits for it, and
/// the connection it opens serves the call itself.
pub const MODEL_WINDOW_WAIT: Duration = Duration::from_secs(2);

/// Time in which a server that takes the place of OpenAI must list its models, where none is named:
/// a start waits for it.
pub const MODEL_LIST_WAIT: Duration = Duration::from_secs(2);

/// Bytes read of such answers: the list of a service with hundreds of models is about a megabyte.
pub const MODEL_LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Fewer tokens than this are no window for an agent, whose instructions and tools alone take more.
pub const MODEL_WINDOW_TOKENS_MIN: u64 = 1_024;

/// More tokens than any model reads; a larger number is a mistake of the server.
pub const MODEL_WINDOW_TOKENS_MAX: u64 = 100_000_000;

/// Answers about windows that are kept: more models than one process speaks to.
pub const MODEL_WINDOWS_KEPT_MAX: usize = 256;
