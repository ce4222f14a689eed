//! What the process counts and measures of itself.
//!
//! Each number is a static of atomics: whoever sees something happen adds to it with one
//! instruction, and no crate needs to be handed anything. [`render`] writes all of them as
//! Prometheus text. Labels come from closed lists ([`label`]), so that no client can make a new
//! series; what has no name of its own is `other`.

pub mod label;
mod numbers;
mod process;
mod text;
mod timers;

#[cfg(test)]
mod tests;

pub use numbers::{Counter, Gauge, Held, Histogram, Per};
pub use process::Process;
pub use text::render;
pub use timers::{ModelCall, QueuedBytes, SessionSeen, ToolRun, tool_answered, tool_denied};

use label::{
    Ignored, Method, ModelOutcome, Outcome, Phase, Reason, Route, Status, Tool, ToolOutcome,
    Transport, TurnOutcome, Way,
};

/// One counter for each value of a label.
pub type Counters<L, const N: usize> = Per<L, Counter, N>;

/// Clients connected now, by transport.
pub static CONNECTIONS: Per<Transport, Gauge, { Transport::COUNT }> = Per::gauges();

/// Clients that ever connected.
pub static CONNECTIONS_EVER: Counters<Transport, { Transport::COUNT }> = Per::counters();

/// Cursors that clients hold on sessions now.
pub static ATTACHMENTS: Gauge = Gauge::new();

/// How often sessions were entered, and how.
pub static ATTACHES: Counters<Way, { Way::COUNT }> = Per::counters();

/// Sessions in memory, by what their newest turn is doing.
pub static SESSIONS: Per<Phase, Gauge, { Phase::COUNT }> = Per::gauges();

/// Turns that ended.
pub static TURNS: Counters<TurnOutcome, { TurnOutcome::COUNT }> = Per::counters();

/// Events that were stored.
pub static EVENTS: Counter = Counter::new();

/// How long turns took.
pub static TURN_TIME: Histogram = Histogram::new();

/// Tool runs that ended.
pub static TOOL_RUNS: Per<Tool, Counters<ToolOutcome, { ToolOutcome::COUNT }>, { Tool::COUNT }> =
    Per::new([const { Per::counters() }; Tool::COUNT]);

/// How long tool runs took, without the wait for permission.
pub static TOOL_TIME: Per<Tool, Histogram, { Tool::COUNT }> = Per::histograms();

/// Model calls that ended.
pub static MODEL_CALLS: Counters<ModelOutcome, { ModelOutcome::COUNT }> = Per::counters();

/// From asking a model to the first piece of its answer, with all tries.
pub static MODEL_FIRST: Histogram = Histogram::new();

/// From asking a model to the end of its answer.
pub static MODEL_TIME: Histogram = Histogram::new();

/// Bytes in memory that wait for clients to take them.
pub static QUEUED_BYTES: Gauge = Gauge::new();

/// Requests of ours that wait for a client's answer.
pub static CLIENT_REQUESTS: Gauge = Gauge::new();

/// What was refused, and why.
pub static REFUSALS: Counters<Reason, { Reason::COUNT }> = Per::counters();

/// What was ignored because it meant nothing.
pub static IGNORED: Counters<Ignored, { Ignored::COUNT }> = Per::counters();

/// How long the disk took to make a session's events durable.
pub static SYNC_TIME: Histogram = Histogram::new();

/// Syncs that failed; each fences its session.
pub static SYNC_FAILURES: Counter = Counter::new();

/// Clean-up steps that failed; the others went on.
pub static CLEANUP_FAILURES: Counter = Counter::new();

/// HTTP requests answered.
pub static HTTP_REQUESTS: Per<Route, Counters<Status, { Status::COUNT }>, { Route::COUNT }> =
    Per::new([const { Per::counters() }; Route::COUNT]);

/// How long HTTP requests took to be answered.
pub static HTTP_TIME: Histogram = Histogram::new();

/// ACP requests answered.
pub static RPC_REQUESTS: Per<Method, Counters<Outcome, { Outcome::COUNT }>, { Method::COUNT }> =
    Per::new([const { Per::counters() }; Method::COUNT]);

/// How long ACP requests other than prompts took to be answered.
pub static RPC_TIME: Histogram = Histogram::new();
