//! The loop of one turn.

mod hooked;
mod question;

use std::sync::Arc;

use domain::event::{MessageKind, StopReason, ToolStatus, Usage};
use domain::{FailureKind, TurnError, TurnId};
use futures_util::StreamExt as _;
use llm::{Chunk, ChunkStream, Model, ModelRequest, ModelStop, ToolCall, ToolSpec};
use meters::{ModelCall, ToolRun};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tools::Toolbox;
use tracing::Instrument as _;

use crate::budget::Budget;
use crate::project::{Project, ProjectView};
use hooked::{Go, Prepared};

use crate::report::{Proposal, Report, TurnEnd, Verdict};

/// What a turn works with. The conversation itself it asks of the session, call by call.
pub struct TurnInput {
    /// The session's model.
    pub model: Box<dyn Model>,
    /// The session's tools.
    pub toolbox: Toolbox,
    /// How much it may do.
    pub budget: Budget,
    /// What is around the session.
    pub view: ProjectView,
    /// Its number.
    pub turn: TurnId,
}

/// Runs one turn to its end and reports it.
///
/// Stops soon after `cancel`, and at once when nobody listens to `reports` any more.
pub async fn run(input: TurnInput, reports: mpsc::Sender<Report>, cancel: CancellationToken) {
    let tools = specs(&input.toolbox);
    let mut turn = Turn {
        model: input.model,
        toolbox: input.toolbox,
        tools,
        reports,
        cancel,
        questions: 0,
        system: Arc::from(SYSTEM_PROMPT),
        view: input.view,
        turn: input.turn,
        project: Arc::default(),
        said: String::new(),
    };
    let outcome = match turn.begin_and_go_on(input.budget).await {
        Ok(reason) => Ok(reason),
        Err(Stopped::Cancelled) => Ok(StopReason::Cancelled),
        Err(Stopped::Failed(error)) => Err(error),
        Err(Stopped::Abandoned) => return,
    };
    let Turn { model, reports, .. } = turn;
    // Nobody listening means that the session is gone, and with it the need to tell.
    let _ = reports
        .send(Report::Ended(TurnEnd { outcome, model }))
        .await;
}

/// Why a turn could not go on.
enum Stopped {
    Cancelled,
    Failed(TurnError),
    /// The session no longer listens.
    Abandoned,
}

struct Turn {
    model: Box<dyn Model>,
    toolbox: Toolbox,
    tools: Arc<[ToolSpec]>,
    reports: mpsc::Sender<Report>,
    cancel: CancellationToken,
    /// Questions about finds that were asked so far.
    questions: usize,
    system: Arc<str>,
    view: ProjectView,
    turn: TurnId,
    project: Arc<Project>,
    /// What the model has said in this step, as far as a hook wants to know.
    said: String,
}

impl Turn {
    /// Looks around first, then goes through the steps.
    async fn begin_and_go_on(&mut self, budget: Budget) -> Result<StopReason, Stopped> {
        match self.begin().await? {
            Go::On => self.steps(budget).await,
            Go::NoFurther => Ok(StopReason::Refusal),
        }
    }

    /// Model call after model call until one asks for no tool.
    async fn steps(&mut self, mut budget: Budget) -> Result<StopReason, Stopped> {
        let mut held_up = 0;
        loop {
            budget = match budget.spend_step() {
                Some(left) => left,
                None => return Ok(StopReason::MaxTurnRequests),
            };
            if let Go::NoFurther = self.before_model().await? {
                return Ok(StopReason::Refusal);
            }
            let span = tracing::info_span!("model_call");
            let (calls, stop) = self.ask_model().instrument(span).await?;
            if let Go::NoFurther = self.after_model(&calls).await? {
                return Ok(StopReason::Refusal);
            }
            if calls.is_empty()
                && stop == ModelStop::EndTurn
                && self.is_held_up(&mut held_up).await?
            {
                continue;
            }
            if calls.is_empty() {
                return Ok(match stop {
                    ModelStop::EndTurn | ModelStop::ToolUse => StopReason::EndTurn,
                    ModelStop::MaxTokens => StopReason::MaxTokens,
                    ModelStop::Refusal => StopReason::Refusal,
                });
            }
            self.run_tools(calls).await?;
        }
    }

    /// One model call, streamed into reports.
    async fn ask_model(&mut self) -> Result<(Vec<ToolCall>, ModelStop), Stopped> {
        let (reply, messages) = oneshot::channel();
        self.report(Report::Context { reply }).await?;
        let messages = messages.await.map_err(|_| Stopped::Abandoned)?;
        let request = ModelRequest {
            system: self.system.to_string(),
            messages,
            tools: Arc::clone(&self.tools),
        };
        let mut call = ModelCall::start();
        let mut stream = self.model.stream(request);
        let mut answer = Answer::default();
        loop {
            let chunk = match next_chunk(&mut stream, &self.cancel).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(stopped) => {
                    if matches!(stopped, Stopped::Failed(_)) {
                        call.fail();
                    }
                    return Err(stopped);
                }
            };
            call.heard();
            self.hear(&chunk);
            if let Some(report) = answer.take(chunk) {
                send(&self.reports, report).await?;
            }
        }
        drop(stream);
        call.end();
        if let Some(usage) = answer.usage {
            self.report(Report::Usage(usage)).await?;
        }
        Ok((answer.calls, answer.stop))
    }

    /// Has the calls judged together, then runs them one after the other.
    async fn run_tools(&mut self, calls: Vec<ToolCall>) -> Result<(), Stopped> {
        let mut verdicts = Vec::with_capacity(calls.len());
        let mut proposals = Vec::with_capacity(calls.len());
        for call in calls {
            let Prepared {
                call,
                refused,
                context,
            } = self.before_tool(call).await?;
            let (verdict, judged) = oneshot::channel();
            let shown = self.toolbox.show(&call.name, &call.input);
            proposals.push(Proposal {
                call: call.id.clone(),
                name: call.name.clone(),
                input: call.input.clone(),
                title: shown.title,
                kind: shown.kind,
                locations: shown.locations,
                refused,
                verdict,
            });
            verdicts.push((call, context, judged));
        }
        self.report(Report::Proposed(proposals)).await?;
        let mut stored = Vec::new();
        for (call, context, judged) in verdicts {
            let verdict = unless_cancelled(&self.cancel, judged).await?;
            let permit = match verdict.map_err(|_| Stopped::Abandoned)? {
                Verdict::Run(permit) => permit,
                Verdict::Denied => {
                    meters::tool_denied(&call.name);
                    continue;
                }
            };
            let timed = ToolRun::start(&call.name);
            let span = tracing::info_span!("tool_run", tool = timed.tool());
            let run = self.toolbox.run(permit, &call.name, call.input.clone());
            let outcome = unless_cancelled(&self.cancel, run.instrument(span)).await?;
            timed.end(outcome.status);
            let outcome = self.answered(outcome).await?;
            let outcome = self.after_tool(&call, context, outcome).await?;
            stored.push(self.finished(call.id, outcome.status, outcome.text).await?);
        }
        // The model sees results only once they are stored.
        for told in stored {
            unless_cancelled(&self.cancel, told)
                .await?
                .map_err(|_| Stopped::Abandoned)?;
        }
        Ok(())
    }

    async fn finished(
        &mut self,
        call: domain::CallId,
        status: ToolStatus,
        text: String,
    ) -> Result<oneshot::Receiver<()>, Stopped> {
        let (stored, told) = oneshot::channel();
        self.report(Report::Finished {
            call,
            status,
            text,
            stored,
        })
        .await?;
        Ok(told)
    }

    async fn report(&mut self, report: Report) -> Result<(), Stopped> {
        send(&self.reports, report).await
    }
}

/// Waits for `work`, or for the turn to be cancelled, in which case `work` is dropped.
async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, Stopped> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Stopped::Cancelled),
        done = work => Ok(done),
    }
}

/// What has been gathered of the model's answer.
struct Answer {
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    stop: ModelStop,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            usage: None,
            stop: ModelStop::EndTurn,
        }
    }
}

impl Answer {
    /// Takes a chunk in; what clients should see at once comes back as a report.
    fn take(&mut self, chunk: Chunk) -> Option<Report> {
        match chunk {
            Chunk::Text(delta) => {
                return Some(Report::Text {
                    kind: MessageKind::Text,
                    delta,
                });
            }
            Chunk::Thought(delta) => {
                return Some(Report::Text {
                    kind: MessageKind::Thought,
                    delta,
                });
            }
            Chunk::ToolCall(call) => self.calls.push(call),
            // Providers count as they go; the last count is the whole one.
            Chunk::Usage(usage) => self.usage = Some(usage),
            Chunk::Stop(stop) => self.stop = stop,
        }
        None
    }
}

async fn send(reports: &mpsc::Sender<Report>, report: Report) -> Result<(), Stopped> {
    reports.send(report).await.map_err(|_| Stopped::Abandoned)
}

/// The next chunk, unless the turn is cancelled first. The model's own deadlines end a silence.
async fn next_chunk(
    stream: &mut ChunkStream,
    cancel: &CancellationToken,
) -> Result<Option<Chunk>, Stopped> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Stopped::Cancelled),
        chunk = stream.next() => match chunk {
            None => Ok(None),
            Some(Ok(chunk)) => Ok(Some(chunk)),
            Some(Err(error)) => {
                tracing::warn!(%error, "the model call failed");
                Err(Stopped::Failed(error.to_turn_error()))
            }
        },
    }
}

fn specs(toolbox: &Toolbox) -> Arc<[ToolSpec]> {
    let spec = |tool: &dyn tools::Tool| ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema(),
    };
    toolbox.tools().map(spec).collect()
}

/// The failure of a turn whose task ended without saying how.
#[must_use]
pub fn vanished() -> TurnError {
    TurnError::new(FailureKind::ModelError, "the turn stopped unexpectedly")
}

/// What every model is told first. Project context comes with the context builder.
const SYSTEM_PROMPT: &str = "You are a coding agent working in the user's directory through tools. \
Paths may be relative to it. Be brief and exact, and say plainly when something failed or was not allowed.";
