//! Measuring what takes time: each timer ends exactly once, at the latest when it is dropped.

use std::time::Instant;

use domain::event::ToolStatus;

use crate::label::{Label as _, ModelOutcome, Phase, Tool, ToolOutcome};

/// A tool that runs. Dropped before its end, it counts as cancelled.
#[derive(Debug)]
pub struct ToolRun {
    tool: Tool,
    started: Instant,
    outcome: ToolOutcome,
}

impl ToolRun {
    /// The tool of that name starts now.
    #[must_use]
    pub fn start(name: &str) -> Self {
        Self {
            tool: Tool::named(name).unwrap_or(Tool::Other),
            started: Instant::now(),
            outcome: ToolOutcome::Cancelled,
        }
    }

    /// The tool's name, or `other`.
    #[must_use]
    pub fn tool(&self) -> &'static str {
        self.tool.name()
    }

    /// It has ended like this.
    pub fn end(mut self, status: ToolStatus) {
        self.outcome = status.into();
    }
}

impl Drop for ToolRun {
    fn drop(&mut self) {
        crate::TOOL_RUNS.of(self.tool).of(self.outcome).count();
        crate::TOOL_TIME
            .of(self.tool)
            .observe(self.started.elapsed());
    }
}

/// A call of the tool `name` was not allowed to run.
pub fn tool_denied(name: &str) {
    let tool = Tool::named(name).unwrap_or(Tool::Other);
    crate::TOOL_RUNS.of(tool).of(ToolOutcome::Denied).count();
}

/// A person answered the question that a call of the tool `name` was. How long people think is not
/// how long tools take.
pub fn tool_answered(name: &str) {
    let tool = Tool::named(name).unwrap_or(Tool::Other);
    crate::TOOL_RUNS.of(tool).of(ToolOutcome::Completed).count();
}

/// A model that is being asked. Dropped before its end, it counts as cancelled.
#[derive(Debug)]
pub struct ModelCall {
    started: Instant,
    answers: bool,
    outcome: ModelOutcome,
}

impl ModelCall {
    /// It is asked now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            answers: false,
            outcome: ModelOutcome::Cancelled,
        }
    }

    /// A piece of the answer came; the first one is measured.
    pub fn heard(&mut self) {
        if !self.answers {
            self.answers = true;
            crate::MODEL_FIRST.observe(self.started.elapsed());
        }
    }

    /// It has answered to the end.
    pub fn end(mut self) {
        self.outcome = ModelOutcome::Completed;
    }

    /// It answered with an error, or not in time.
    pub fn fail(mut self) {
        self.outcome = ModelOutcome::Failed;
    }
}

impl Drop for ModelCall {
    fn drop(&mut self) {
        crate::MODEL_CALLS.of(self.outcome).count();
        crate::MODEL_TIME.observe(self.started.elapsed());
    }
}

/// Bytes that wait for a client, counted until they are dropped.
#[derive(Debug)]
pub struct QueuedBytes(usize);

impl QueuedBytes {
    /// So many more.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        crate::QUEUED_BYTES.add(bytes);
        Self(bytes)
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        crate::QUEUED_BYTES.sub(self.0);
    }
}

/// A session in memory, counted under what it is doing until it is dropped.
#[derive(Debug)]
pub struct SessionSeen(Phase);

impl SessionSeen {
    /// It is there, and idle.
    #[must_use]
    pub fn loaded() -> Self {
        crate::SESSIONS.of(Phase::Idle).add(1);
        Self(Phase::Idle)
    }

    /// It is doing this now.
    pub fn is(&mut self, phase: Phase) {
        if self.0 != phase {
            crate::SESSIONS.of(self.0).sub(1);
            crate::SESSIONS.of(phase).add(1);
            self.0 = phase;
        }
    }
}

impl Drop for SessionSeen {
    fn drop(&mut self) {
        crate::SESSIONS.of(self.0).sub(1);
    }
}
