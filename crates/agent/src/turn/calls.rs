//! The calls of one answer: judged together, run in order, looking at things side by side.
//!
//! Neighbours that only look ([`Toolbox::only_looks`](tools::Toolbox::only_looks)) run at the same
//! time, and so do tasks of agents; any other call runs alone, after everything before it and before
//! everything after it. Results are stored as they come; the fold puts them into the order of the calls.

use std::collections::VecDeque;

use domain::event::{ToolStatus, Usage};
use domain::limits::{PARALLEL_CALLS_MAX, PARALLEL_TASKS_MAX};
use futures_util::{StreamExt as _, stream};
use llm::ToolCall;
use meters::ToolRun;
use serde_json::Value;
use tokio::sync::oneshot;
use tools::{Outcome, Toolbox};
use tracing::Instrument as _;

use super::hooked::Prepared;
use super::repeats::RESULT_IS_ABOVE;
use super::{Stopped, Turn, unless_cancelled};
use crate::permissions::{Call, Ruled};
use crate::report::{Finished, Proposal, Refusal, Report, Verdict};

/// A call on its way to its verdict.
struct Proposed {
    call: ToolCall,
    /// What a hook wants the model to read with its result.
    context: Option<String>,
    /// It is over before anybody judges it.
    is_refused: bool,
    /// Whether the model may be shown a file that it wants to change and has not read.
    may_read: bool,
    verdict: oneshot::Receiver<Verdict>,
}

/// A call that is over.
enum Ran {
    /// It ran.
    Ended(Box<Ended>),
    /// It was not allowed; the session has stored that.
    Denied(ToolCall),
    /// It was over before, or a person gave its outcome; the session has stored that.
    Settled {
        /// Whether a person gave it.
        is_answered: bool,
    },
    /// Nobody judges any more.
    Abandoned,
}

/// A call that ran.
struct Ended {
    call: ToolCall,
    context: Option<String>,
    may_read: bool,
    outcome: Outcome,
}

impl Turn {
    /// Has the calls judged together, then runs them group by group. Gives what models of others
    /// used for them.
    pub(super) async fn run_tools(
        &mut self,
        calls: Vec<ToolCall>,
        untaken: Option<&'static str>,
    ) -> Result<Usage, Stopped> {
        let mut stored = Vec::with_capacity(calls.len());
        let mut used = Usage::default();
        let proposed = self.propose(calls, untaken).await?;
        for group in groups(proposed, |name| Company::of(&self.toolbox, name)) {
            used += self.run_group(group, &mut stored).await?;
        }
        // The model sees results only once they are stored.
        for told in stored {
            unless_cancelled(&self.cancel, told)
                .await?
                .map_err(|_| Stopped::Abandoned)?;
        }
        Ok(used)
    }

    async fn propose(
        &mut self,
        calls: Vec<ToolCall>,
        untaken: Option<&'static str>,
    ) -> Result<Vec<Proposed>, Stopped> {
        let mut proposed = Vec::with_capacity(calls.len());
        let mut proposals = Vec::with_capacity(calls.len());
        for call in calls {
            let Prepared {
                call,
                refused,
                context,
            } = self.before_tool(call).await?;
            let refused = match refused {
                Some(why) => Some(Refusal::Hook(why)),
                None => self.refuse(&call, untaken).await,
            };
            self.note_proposed(&call, refused.as_ref()).await;
            let is_refused = refused.is_some();
            let (verdict, judged) = oneshot::channel();
            let showing = self.toolbox.show(&call.name, &call.input);
            let shown = unless_cancelled(&self.cancel, showing).await?;
            let ruled = self.rule_on(&call.name, &call.input).await;
            let may_read = self.may_read(&call).await;
            let uncontained = self.toolbox.runs_uncontained(&call.name).await;
            let question = self.toolbox.question(&call.name, &call.input);
            let title = match (uncontained, &ruled) {
                (Some(why), _) => format!("{} ({why})", shown.title),
                (None, Ruled::Protected(why)) => format!("{} (protected: {why})", shown.title),
                (None, _) => shown.title,
            };
            proposals.push(Proposal {
                call: call.id.clone(),
                name: call.name.clone(),
                input: call.input.clone(),
                title,
                kind: shown.kind,
                locations: shown.locations,
                content: shown.content,
                ruled,
                refused,
                is_uncontained: uncontained.is_some(),
                question,
                verdict,
            });
            let verdict = judged;
            proposed.push(Proposed {
                call,
                context,
                is_refused,
                may_read,
                verdict,
            });
        }
        self.report(Report::Proposed(proposals)).await?;
        Ok(proposed)
    }

    /// Why a call is over before anybody judges it, if it is.
    async fn refuse(&mut self, call: &ToolCall, untaken: Option<&str>) -> Option<Refusal> {
        if let Some(missing) = self.toolbox.missing(&call.name) {
            return Some(Refusal::NoTool(missing));
        }
        if let Some(problem) = self.toolbox.invalid(&call.name, &call.input) {
            return Some(Refusal::Input(problem));
        }
        if let Some(why) = untaken {
            return Some(Refusal::Written(why.to_owned()));
        }
        if !self.toolbox.only_looks(&call.name) {
            return None;
        }
        let freshness = self.toolbox.freshness(&call.name, &call.input).await;
        let is_above = self.repeats.has_result(call, &freshness);
        is_above.then_some(Refusal::Repeated(RESULT_IS_ABOVE))
    }

    /// Remembers a call that is about to be judged, or that is over already.
    async fn note_proposed(&mut self, call: &ToolCall, refused: Option<&Refusal>) {
        match refused {
            Some(Refusal::Repeated(_)) => self.repeats.not_run(call),
            Some(refusal) => self.repeats.ended(call, refusal.result().1, false),
            None if self.toolbox.only_looks(&call.name) => {
                let freshness = self.toolbox.freshness(&call.name, &call.input).await;
                self.repeats.looks(call, freshness);
            }
            None => {
                self.repeats.proposed(call);
                if self.toolbox.may_change(&call.name) {
                    self.repeats.forget_looks();
                }
            }
        }
    }

    /// What rules say of a call, as the hooks have left it. Here and not where it is decided, for
    /// where a path leads is on the disk.
    async fn rule_on(&mut self, tool: &str, input: &Value) -> Ruled {
        let rules = &self.project.rules;
        let mut touched = None;
        if rules.needs_files(tool) {
            touched = self.toolbox.touched(tool, input).await;
        }
        rules.judge(&Call {
            tool,
            input,
            touched: touched.as_ref(),
        })
    }

    /// Whether rules let the model read what it wants to change without being asked.
    async fn may_read(&mut self, call: &ToolCall) -> bool {
        if !matches!(call.name.as_str(), "edit" | "notebook_edit") {
            return false;
        }
        match self.rule_on("read", &call.input).await {
            Ruled::Silent | Ruled::Allow(_) => true,
            Ruled::Protected(_) | Ruled::Ask(_) | Ruled::Deny(_) => false,
        }
    }

    /// Runs calls that may overlap. Those whose result the model or a hook is to look at are
    /// looked at last, one by one: the others must not wait for that.
    async fn run_group(
        &mut self,
        (company, group): (Company, Vec<Proposed>),
        stored: &mut Vec<oneshot::Receiver<()>>,
    ) -> Result<Usage, Stopped> {
        let toolbox = &self.toolbox;
        let mut used = Usage::default();
        let runs = group.into_iter().map(|call| run_one(toolbox.clone(), call));
        let runs: Vec<_> = runs.collect();
        let mut running = stream::iter(runs).buffer_unordered(company.at_once_max());
        let mut to_look_at = Vec::new();
        let mut early = VecDeque::new();
        loop {
            let ran = match early.pop_front() {
                Some(ran) => Some(ran),
                None => tokio::select! {
                    ran = unless_cancelled(&self.cancel, running.next()) => ran?,
                    Some(sample) = self.samples.recv() => {
                        self.sample_beside(sample, &mut running, &mut early).await?;
                        continue;
                    }
                },
            };
            let Some(ran) = ran else { break };
            match ran {
                Ran::Ended(ended) => {
                    used += ended.outcome.used.as_deref().copied().unwrap_or_default();
                    let has_question = ended.outcome.question.is_some();
                    if has_question || self.is_looked_at(&ended.call) {
                        to_look_at.push(*ended);
                    } else {
                        stored.push(self.finished(*ended).await?);
                    }
                }
                Ran::Denied(call) => self.repeats.ended(&call, "denied", false),
                Ran::Settled { is_answered: true } => self.repeats.begin_anew(),
                Ran::Settled { is_answered: false } => {}
                Ran::Abandoned => return Err(Stopped::Abandoned),
            }
        }
        for ended in to_look_at {
            let outcome = self.answered(ended.outcome).await?;
            stored.push(self.finished(Ended { outcome, ..ended }).await?);
        }
        Ok(used)
    }

    async fn finished(&mut self, ended: Ended) -> Result<oneshot::Receiver<()>, Stopped> {
        let Ended {
            call,
            context,
            may_read,
            mut outcome,
        } = ended;
        if let Some(unread) = outcome.unread.take().filter(|_| may_read) {
            outcome.text.push_str(&unread.show());
        }
        let outcome = self.after_tool(&call, context, outcome).await?;
        let is_good = outcome.status == ToolStatus::Completed;
        self.repeats.ended(&call, &outcome.text, is_good);
        let (stored, told) = oneshot::channel();
        self.report(Report::Finished(Finished {
            call: call.id,
            status: outcome.status,
            text: outcome.text,
            blocks: outcome.blocks,
            locations: outcome
                .found
                .map(|found| found.locations)
                .unwrap_or_default(),
            plan: outcome.plan,
            stored,
        }))
        .await?;
        Ok(told)
    }
}

/// Waits for the verdict about one call and, if it may, runs it.
async fn run_one(toolbox: Toolbox, proposed: Proposed) -> Ran {
    let Proposed {
        call,
        context,
        is_refused,
        may_read,
        verdict,
    } = proposed;
    let permit = match verdict.await {
        Ok(Verdict::Run(permit)) => permit,
        Ok(Verdict::Denied) => {
            meters::tool_denied(&call.name);
            return match is_refused {
                true => Ran::Settled { is_answered: false },
                false => Ran::Denied(call),
            };
        }
        Ok(Verdict::Answered) => {
            // A call that was not run again has a result as well, which no person gave.
            if !is_refused {
                meters::tool_answered(&call.name);
            }
            return Ran::Settled {
                is_answered: !is_refused,
            };
        }
        Err(_) => return Ran::Abandoned,
    };
    let timed = ToolRun::start(&call.name);
    let span = tracing::info_span!("tool_run", tool = timed.tool());
    let run = toolbox.run(permit, &call.name, call.input.clone());
    let outcome = run.instrument(span).await;
    timed.end(outcome.status);
    Ran::Ended(Box::new(Ended {
        call,
        context,
        may_read,
        outcome,
    }))
}

/// Beside which others a call may run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    /// Those that only look, as it does.
    Looks,
    /// Other agents at work.
    Tasks,
    /// None.
    Alone,
}

impl Company {
    fn of(toolbox: &Toolbox, name: &str) -> Self {
        match (toolbox.only_looks(name), toolbox.is_task(name)) {
            (true, _) => Self::Looks,
            (false, true) => Self::Tasks,
            (false, false) => Self::Alone,
        }
    }

    fn at_once_max(self) -> usize {
        match self {
            Self::Looks => PARALLEL_CALLS_MAX,
            Self::Tasks => PARALLEL_TASKS_MAX,
            Self::Alone => 1,
        }
    }
}

/// Neighbours that keep each other company, together; each other call alone.
fn groups(
    calls: Vec<Proposed>,
    company: impl Fn(&str) -> Company,
) -> Vec<(Company, Vec<Proposed>)> {
    let mut groups: Vec<(Company, Vec<Proposed>)> = Vec::new();
    for call in calls {
        let wants = company(&call.call.name);
        match groups.last_mut() {
            Some((has, group)) if *has == wants && wants != Company::Alone => group.push(call),
            Some(_) | None => groups.push((wants, vec![call])),
        }
    }
    groups
}
