//! The bounds of agents and their tasks.

/// Agents of a session: each is a line in every request.
pub const AGENTS_MAX: usize = 64;

/// Bytes of one agent's file: its role, about eight thousand tokens, in every request of its tasks.
pub const AGENT_FILE_BYTES_MAX: usize = 32 * 1024;

/// Bytes of what an agent is asked to do: a page or many, but no book.
pub const TASK_PROMPT_BYTES_MAX: usize = 64 * 1024;

/// Tasks of one answer that run at the same time: each is a session with a model at work.
pub const PARALLEL_TASKS_MAX: usize = 4;

/// Tasks that one session may ever give: their names are kept, so that they are deleted with it.
pub const CHILDREN_MAX: usize = 4_096;

/// Bytes of one text in the input of a sub-agent's call that are told with its question: enough for
/// a path or a command; the whole of it is in the sub-agent's own journal.
pub const ASKER_INPUT_BYTES_MAX: usize = 4 * 1024;
