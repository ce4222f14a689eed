//! The loop of one turn.
//!
//! [`Turn::steps`] goes through the same stages again and again: may it go on ([`Budget`]), is there
//! room (`compact`), one model call (`answer`), then the calls it asked for (`calls`: propose, run,
//! store). Whatever wants to look in before or after a stage does so there.

mod answer;
mod calls;
mod compact;
mod desk;
mod hooked;
mod question;
mod repeats;
mod sample;
mod summary;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::event::{MessageKind, StopReason, Usage};
use domain::{FailureKind, TurnError, TurnId};
use llm::{Catalog, Model, ModelError, ModelStop, Schema, ToolSpec};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tools::Toolbox;
use tools::client_side::discovery::ClientTool;
use tools::remote::{Patience, RemoteTool};
use tracing::Instrument as _;

use crate::budget::Budget;
use crate::command::Command;
use crate::context::tokens_in;
use crate::project::{Moment, Project, ProjectView};
use crate::report::{Report, TurnEnd};

use answer::Answered;
pub use compact::Room;
use compact::{Compacted, Why};
use desk::Desk;
use hooked::Go;
use repeats::Repeats;

/// What a turn works with. The conversation itself it asks of the session, call by call.
pub struct TurnInput {
    /// The session's model.
    pub model: Box<dyn Model>,
    /// What the model is told first.
    pub system: Arc<str>,
    /// The session's tools.
    pub toolbox: Toolbox,
    /// Where other models come from.
    pub models: OtherModels,
    /// How much it may do.
    pub budget: Budget,
    /// How long the conversation may become.
    pub room: Room,
    /// What to do instead of answering.
    pub command: Option<Command>,
    /// What is around the session.
    pub view: ProjectView,
    /// When it was asked for: what was around the session then is what it goes by, or newer.
    pub asked: Moment,
    /// Its number.
    pub turn: TurnId,
    /// How long it waits for tool servers that are still starting.
    pub patience: Patience,
}

/// Where models other than the session's come from.
#[derive(Clone)]
pub struct OtherModels {
    /// All that the process can open; none if it has nothing to choose from.
    pub catalog: Option<Arc<dyn Catalog>>,
    /// What the session's model is called.
    pub spec: String,
    /// Whether the session takes the model that a project has for its sessions.
    pub takes_project_model: bool,
}

/// Runs one turn to its end and reports it.
///
/// Stops soon after `cancel`, and at once when nobody listens to `reports` any more.
pub async fn run(input: TurnInput, reports: mpsc::Sender<Report>, cancel: CancellationToken) {
    let (desk, samples) = Desk::new(&reports);
    let mut turn = Turn {
        model: input.model,
        // Known once it has looked around, which comes first.
        overhead: 0,
        system: input.system,
        toolbox: input.toolbox.with_asks(Arc::new(desk)),
        samples,
        tools: Arc::new([]),
        models: input.models,
        own_model: None,
        room: input.room,
        reports,
        cancel,
        questions: 0,
        unspent: Usage::default(),
        sampled: None,
        gave_up_at: 0,
        view: input.view,
        asked: input.asked,
        turn: input.turn,
        patience: input.patience,
        project: Arc::default(),
        said: String::new(),
        repeats: Repeats::new(input.budget.repeats_max()),
    };
    let outcome = match turn.go(input.command, input.budget).await {
        Ok(reason) => Ok(reason),
        Err(Stopped::Cancelled) => Ok(StopReason::Cancelled),
        Err(Stopped::Model(error)) => Err(error.to_turn_error()),
        Err(Stopped::Repeats(error)) => Err(error),
        Err(Stopped::Abandoned) => return,
    };
    let Turn {
        model,
        own_model,
        reports,
        ..
    } = turn;
    // What a project says counts for a turn: by the next one its approval may be gone.
    let model = own_model.unwrap_or(model);
    // Nobody listening means that the session is gone, and with it the need to tell.
    let _ = reports
        .send(Report::Ended(TurnEnd { outcome, model }))
        .await;
}

/// Why a turn could not go on.
enum Stopped {
    Cancelled,
    /// The model failed.
    Model(ModelError),
    /// The model repeated itself too often.
    Repeats(TurnError),
    /// The session no longer listens.
    Abandoned,
}

struct Turn {
    model: Box<dyn Model>,
    system: Arc<str>,
    toolbox: Toolbox,
    tools: Arc<[ToolSpec]>,
    /// What tool servers want of the model.
    samples: mpsc::Receiver<desk::Sample>,
    models: OtherModels,
    /// The session's model, while one at a project's address answers in its place.
    own_model: Option<Box<dyn Model>>,
    room: Room,
    /// About how many tokens the model reads besides the conversation.
    overhead: u64,
    reports: mpsc::Sender<Report>,
    cancel: CancellationToken,
    /// Questions about finds that were asked so far.
    questions: usize,
    /// What model calls used and the budget does not know yet: answers, summaries, and all that is
    /// asked apart.
    unspent: Usage,
    /// What a tool server's wish has used so far: if the server gives up, it was used all the same.
    sampled: Option<Usage>,
    /// No summary came about; none is tried again before the conversation is longer than this.
    gave_up_at: u64,
    view: ProjectView,
    asked: Moment,
    turn: TurnId,
    patience: Patience,
    project: Arc<Project>,
    /// What the model has said in this step, as far as a hook wants to know.
    said: String,
    /// Calls that bring nothing new.
    repeats: Repeats,
}

impl Turn {
    /// Looks around first, then does what was asked for.
    async fn go(
        &mut self,
        command: Option<Command>,
        budget: Budget,
    ) -> Result<StopReason, Stopped> {
        self.look_around().await?;
        match command {
            Some(Command::Compact { focus }) => self.compact_now(&focus).await,
            None => match self.begin().await? {
                Go::On => self.steps(budget).await,
                Go::NoFurther => Ok(StopReason::Refusal),
            },
        }
    }

    /// Model call after model call until one asks for no tool.
    async fn steps(&mut self, mut budget: Budget) -> Result<StopReason, Stopped> {
        let mut held_up = 0;
        loop {
            budget = match budget.spend_step() {
                Ok(left) => left,
                Err(reason) => return Ok(reason),
            };
            if let Go::NoFurther = self.before_model().await? {
                return Ok(StopReason::Refusal);
            }
            self.look_at_servers().await?;
            let span = tracing::info_span!("model_call");
            let Answered {
                calls,
                stop,
                untaken,
            } = self.answer().instrument(span).await?;
            budget = self.spend(budget);
            if let Go::NoFurther = self.after_model(&calls).await? {
                return Ok(StopReason::Refusal);
            }
            let is_over = calls.is_empty();
            if is_over && stop == ModelStop::EndTurn && self.is_held_up(&mut held_up).await? {
                continue;
            }
            if is_over {
                return Ok(stop_reason(stop));
            }
            let called = calls.iter().map(|call| call.name.as_str());
            self.toolbox.leave_tokens(budget.tokens_left(), called);
            let others_used = self.run_tools(calls, untaken).await?;
            if let Some(error) = self.repeats.error() {
                return Err(Stopped::Repeats(error));
            }
            budget = self.spend(budget).spend_tokens(others_used);
        }
    }

    /// The budget after all model calls that it does not know of yet.
    fn spend(&mut self, budget: Budget) -> Budget {
        budget.spend_tokens(std::mem::take(&mut self.unspent))
    }

    /// One answer of the model. If it refuses the conversation as too long, it is asked once more
    /// with a shorter one.
    async fn answer(&mut self) -> Result<Answered, Stopped> {
        let context = self.room_to_answer().await?;
        match self.ask_model(context).await {
            Err(Stopped::Model(error @ ModelError::ContextTooLong)) => {
                if self.compact(Why::Refused).await? != Compacted::Shorter {
                    return Err(Stopped::Model(error));
                }
                let context = self.context().await?;
                self.ask_model(context).await
            }
            answered => answered,
        }
    }

    /// The turn of `/compact`.
    async fn compact_now(&mut self, focus: &str) -> Result<StopReason, Stopped> {
        self.prepare_model().await?;
        let before = self.context().await?.tokens;
        let text = match self.compact(Why::Wanted(focus)).await? {
            Compacted::Shorter => {
                let after = self.context().await?.tokens;
                format!("Compacted the conversation: about {before} tokens became {after}.")
            }
            Compacted::Not => "There is nothing to compact yet.".to_owned(),
            Compacted::Stopped(why) => format!("A hook did not let this be compacted: {why}"),
        };
        let kind = MessageKind::Text;
        self.report(Report::Text { kind, delta: text }).await?;
        Ok(StopReason::EndTurn)
    }

    /// Has the model learn what its server says of it, before its window is relied on.
    async fn prepare_model(&mut self) -> Result<(), Stopped> {
        unless_cancelled(&self.cancel, self.model.prepare()).await
    }

    async fn report(&mut self, report: Report) -> Result<(), Stopped> {
        send(&self.reports, report).await
    }
}

/// Why the turn stopped when the model did.
fn stop_reason(stop: ModelStop) -> StopReason {
    match stop {
        ModelStop::EndTurn | ModelStop::ToolUse => StopReason::EndTurn,
        ModelStop::MaxTokens => StopReason::MaxTokens,
        ModelStop::Refusal => StopReason::Refusal,
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

async fn send(reports: &mpsc::Sender<Report>, report: Report) -> Result<(), Stopped> {
    reports.send(report).await.map_err(|_| Stopped::Abandoned)
}

fn specs(toolbox: &Toolbox) -> Arc<[ToolSpec]> {
    let spec = |tool: &dyn tools::Tool| ToolSpec {
        name: tool.name().to_owned(),
        description: toolbox.describe(tool),
        input_schema: schema(tool),
    };
    let client_spec = |tool: &ClientTool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone().into(),
    };
    let remote_spec = |tool: &RemoteTool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: Value::clone(&tool.input_schema).into(),
    };
    let own = toolbox.tools().map(spec);
    own.chain(toolbox.client_tools().map(client_spec))
        .chain(toolbox.remote_tools().map(remote_spec))
        .collect()
}

/// The schema of a built-in tool, which is the same in every session and written down once.
fn schema(tool: &dyn tools::Tool) -> Schema {
    static WRITTEN: Mutex<BTreeMap<&str, Schema>> = Mutex::new(BTreeMap::new());
    // The map is whole at every step, so a panic elsewhere does not spoil it.
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = written.entry(tool.name());
    schema.or_insert_with(|| tool.input_schema().into()).clone()
}

/// The failure of a turn whose task ended without saying how.
#[must_use]
pub fn vanished() -> TurnError {
    TurnError::new(FailureKind::ModelError, "the turn stopped unexpectedly")
}

/// About how many tokens stand beside the conversation in every call.
fn overhead(system: &str, tools: &[ToolSpec]) -> u64 {
    let tool_bytes = |tool: &ToolSpec| {
        tool.name.len() + tool.description.len() + tool.input_schema.as_str().len()
    };
    tokens_in(system.len() + tools.iter().map(tool_bytes).sum::<usize>())
}

#[cfg(test)]
mod tests;
