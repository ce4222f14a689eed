//! The rules: what each command means now.

use agent::Note;
use agent::permissions::Ruled;
use domain::event::{
    AnswerOutcome, GroundRule, Grounds, HookRan, ModeChanged, Notice, PermissionAnswered,
    PermissionAsked, PlanEntry, PlanUpdated, PromptDropped, PromptExpanded, PromptQueued,
    QuestionAsked, SessionClosed, SessionUpdated, StopReason, Text, ToolResult, ToolStatus,
    ToolUse, TurnInterrupted, TurnResult, TurnStarted, Usage, UsagePurpose, UsageRecorded,
    UserMessage,
};
use domain::ids::PermissionId;
use domain::limits::QUEUED_PROMPTS_MAX;
use domain::{Event, EventSeq, FailureKind, MessageId, PrincipalId, PromptId, TurnId};
use journal::Entry;
use serde_json::{Map, Value};

use super::command::Proposed;
use super::questions::Said;
use super::{Command, Fate, Rejected, Running, SessionState, TurnOutcome, find_option};
use crate::handle::Label;
use crate::policy::{self, Always, Memory, Ruling};

/// Characters of a title made from a prompt: what fits a list's column.
const TITLE_CHARS_MAX: usize = 60;

/// A prompt about to become a turn.
struct Starting {
    text: String,
    blocks: Vec<Value>,
    message_id: Option<MessageId>,
    prompt_id: Option<PromptId>,
    queued: Option<EventSeq>,
    greeting: Option<String>,
}

impl SessionState {
    /// Says what `command` means now, as entries for the journal. Changes nothing.
    ///
    /// # Errors
    /// If it may not happen, or if there is nothing to do.
    pub fn decide(&self, command: Command) -> Result<Vec<Entry>, Rejected> {
        match command {
            Command::Prompt {
                text,
                blocks,
                message_id,
                prompt_id,
                queue,
                greeting,
                is_spent,
            } => {
                let message_id = Some(message_id);
                let queued = None;
                self.may_prompt(prompt_id.as_ref(), is_spent)?;
                self.prompt(
                    Starting {
                        text,
                        blocks,
                        message_id,
                        prompt_id,
                        queued,
                        greeting,
                    },
                    queue,
                )
            }
            Command::StartQueued { greeting } => self.start_queued(greeting),
            Command::DropQueued(queued) => self.unqueue(queued),
            Command::Cancel => Ok(self.cancel()),
            Command::SetMode(mode) if mode == self.mode => Ok(Vec::new()),
            Command::SetMode(mode) => Ok(vec![entry(ModeChanged {
                mode: mode.name().to_owned(),
            })]),
            Command::SetModel(model) => Ok(self.set_model(model)),
            Command::Label(label) => Ok(self.label(label)),
            Command::Rewind(to) => self.decide_rewind(to),
            Command::Answer { question, said, by } => self.answer(&question, &said, &by),
            Command::Deny(question) => self.close_question(&question, AnswerOutcome::Denied),
            Command::Expire(question) => self.close_question(&question, AnswerOutcome::Expired),
            Command::Propose(calls) => Ok(self.propose(self.current()?, calls)),
            Command::Finish { result, plan } => self.finish(result, plan),
            Command::RecordUsage {
                usage,
                purpose,
                context_window,
            } => self.record_usage(usage, purpose, context_window),
            Command::LinkChild(linked) => self.link_child(linked),
            Command::AskForChild(asked) => self.ask_for_child(*asked),
            Command::AskForServer(asked) => self.ask_for_server(*asked),
            Command::Withdraw(question) => self.withdraw(&question),
            Command::Compact(compaction) => {
                self.current()?;
                Ok(vec![entry(compaction)])
            }
            Command::Note(note) => self.note(note),
            Command::EndMessage => {
                self.current()?;
                Ok(self.end_message(false))
            }
            Command::Say { message, text } => {
                self.current()?;
                let mut entries = self.end_message(false);
                let end = message.clone().ended(Text::Inline(text), false);
                entries.extend([entry(message), Entry::Event(end)]);
                Ok(entries)
            }
            Command::End(outcome) => self.end(outcome),
            Command::Interrupt => self.cut_off(None),
            Command::Fail(kind) => self.cut_off(Some(kind)),
            Command::Close => Ok(vec![entry(SessionClosed {})]),
        }
    }

    fn unqueue(&self, queued: EventSeq) -> Result<Vec<Entry>, Rejected> {
        let waits = self.queue.iter().any(|waiting| waiting.seq == queued);
        waits
            .then(|| vec![dropped(queued, false)])
            .ok_or(Rejected::Late)
    }

    fn set_model(&self, model: String) -> Vec<Entry> {
        if self.model.as_ref() == Some(&model) {
            return Vec::new();
        }
        let config = Map::from_iter([("model".to_owned(), Value::from(model))]);
        vec![entry(SessionUpdated {
            title: None,
            config: Some(config),
            archived: None,
        })]
    }

    fn label(&self, label: Label) -> Vec<Entry> {
        let title = label
            .title
            .filter(|title| self.title.as_ref() != Some(title));
        let archived = label.archived.filter(|now| *now != self.archived);
        if title.is_none() && archived.is_none() {
            return Vec::new();
        }
        let config = None;
        vec![entry(SessionUpdated {
            title,
            config,
            archived,
        })]
    }

    /// A prompt that was sent before is answered as it was; only a new one costs anything.
    fn may_prompt(&self, prompt_id: Option<&PromptId>, is_spent: bool) -> Result<(), Rejected> {
        if let Some(prompt_id) = prompt_id {
            let waiting = self
                .queue
                .iter()
                .find(|queued| queued.prompt_id.as_ref() == Some(prompt_id));
            if let Some(waiting) = waiting {
                return Err(Rejected::Repeated(Fate::Queued(waiting.seq)));
            }
            if let Some(fate) = self.prompts.get(prompt_id) {
                return Err(Rejected::Repeated(fate.clone()));
            }
        }
        match (self.is_child(), is_spent) {
            (true, _) => Err(Rejected::SubAgent),
            (false, true) => Err(Rejected::Spent),
            (false, false) => Ok(()),
        }
    }

    fn prompt(&self, starting: Starting, queue: bool) -> Result<Vec<Entry>, Rejected> {
        match (self.running.is_some() || self.has_queue(), queue) {
            (false, _) => Ok(self.start(starting)),
            (true, false) => Err(Rejected::Busy),
            (true, true) if self.queue.len() >= QUEUED_PROMPTS_MAX => Err(Rejected::QueueFull),
            (true, true) => {
                let Starting {
                    text,
                    blocks,
                    message_id,
                    prompt_id,
                    ..
                } = starting;
                Ok(vec![entry(PromptQueued {
                    message_id,
                    prompt_id,
                    text,
                    blocks,
                })])
            }
        }
    }

    fn start_queued(&self, greeting: Option<String>) -> Result<Vec<Entry>, Rejected> {
        match (&self.running, self.queue.front()) {
            (None, Some(next)) => Ok(self.start(Starting {
                text: next.text.clone(),
                blocks: next.blocks.clone(),
                message_id: next.message_id.clone(),
                prompt_id: next.prompt_id.clone(),
                queued: Some(next.seq),
                greeting,
            })),
            (Some(_), _) | (None, None) => Err(Rejected::Late),
        }
    }

    fn start(&self, starting: Starting) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(4);
        if let (false, Some(text)) = (self.greeted, starting.greeting) {
            let message_id = Some(MessageId::random());
            entries.push(entry(Notice {
                kind: "greeting".to_owned(),
                message_id,
                text,
            }));
        }
        if self.title.is_none() {
            let title = Some(title_of(&starting.text));
            entries.push(entry(SessionUpdated {
                title,
                config: None,
                archived: None,
            }));
        }
        entries.push(entry(UserMessage {
            text: starting.text,
            blocks: starting.blocks,
            message_id: starting.message_id,
            prompt_id: starting.prompt_id.clone(),
        }));
        entries.push(entry(TurnStarted {
            turn: TurnId(self.turns_started + 1),
            prompt_id: starting.prompt_id,
            queued: starting.queued,
        }));
        entries
    }

    /// Closes the open questions and drops the queue; the turn itself ends by its own report.
    fn cancel(&self) -> Vec<Entry> {
        let questions = self.questions.iter();
        let closed = questions.map(|question| question.asked.cancelled());
        let unqueued = self.queue.iter().map(|queued| dropped(queued.seq, false));
        closed.chain(unqueued).collect()
    }

    /// Decides about the call that `asked` is about.
    pub(super) fn permit(
        &self,
        asked: &PermissionAsked,
        said: &Said,
        by: &PrincipalId,
    ) -> Vec<Entry> {
        let option_id = said.option();
        let allowed = option_id
            .and_then(|id| find_option(&asked.options, id))
            .is_some_and(|option| option.kind.allows());
        let outcome = if allowed {
            AnswerOutcome::Allowed
        } else {
            AnswerOutcome::Denied
        };
        let mut entries = vec![entry(PermissionAnswered {
            id: asked.id.clone(),
            outcome,
            option_id: option_id.map(str::to_owned),
            by: Some(by.as_str().to_owned()),
            reason: said.reason().map(str::to_owned),
        })];
        if !allowed {
            entries.extend(denied(asked, said.reason().unwrap_or_default()));
        }
        entries
    }

    /// Nobody decided about the call that `asked` is about.
    pub(super) fn close_permission(asked: &PermissionAsked, outcome: AnswerOutcome) -> Vec<Entry> {
        let mut entries = vec![unanswered(&asked.id, outcome)];
        entries.extend(denied(asked, "The user did not allow it."));
        entries
    }

    fn propose(&self, running: &Running, calls: Vec<Proposed>) -> Vec<Entry> {
        let mut entries = self.end_message(false);
        let mut judged = Vec::new();
        for mut call in calls {
            let (allowed_by, after) = self.judge(&mut call);
            judged.extend(after);
            entries.push(entry(ToolUse {
                turn: running.turn,
                call_id: call.call,
                name: call.name,
                input: call.input,
                title: call.title,
                kind: call.kind,
                locations: call.locations.into(),
                content: call.content.into(),
                allowed_by,
            }));
        }
        entries.extend(judged);
        entries
    }

    /// What allows a call at once, or what follows its record: a question, or its end.
    fn judge(&self, call: &mut Proposed) -> (Option<Box<Grounds>>, Option<Entry>) {
        if let Some(refusal) = &call.refused {
            let (status, why) = refusal.result();
            return (None, Some(result(call.call.clone(), status, why)));
        }
        let wanted = Always::of(&call.name, &call.input);
        let ruling = policy::judge(self.mode, &wanted, &call.ruled, &self.always);
        let after = match (&ruling, call.question.take()) {
            // Asking is all that it does, so nobody is asked whether it may.
            (Ruling::Allow(_) | Ruling::Ask(_), Some(asked)) => entry(QuestionAsked {
                id: PermissionId::random(),
                call_id: call.call.clone(),
                question: asked.question,
                options: asked.options,
                server: None,
                form: None,
            }),
            (Ruling::Allow(grounds), None) if !call.is_uncontained => {
                return (Some(Box::new(grounds.clone())), None);
            }
            (Ruling::Allow(_) | Ruling::Ask(_), None) => entry(PermissionAsked {
                id: PermissionId::random(),
                call_id: call.call.clone(),
                options: policy::options(&wanted, memory(&ruling, call.is_uncontained)),
                title: call.title.clone(),
                kind: call.kind,
                asker: None,
                rule: asking_rule(&call.ruled),
            }),
            (Ruling::Deny(why), _) => result(call.call.clone(), ToolStatus::Denied, why),
        };
        (None, Some(after))
    }

    /// What happens beside the conversation. A hook's event ends the open message: what it changes
    /// is what was said before it.
    fn note(&self, note: Note) -> Result<Vec<Entry>, Rejected> {
        let noted = match note {
            Note::Hook(ran) => {
                let turn = self.running.as_ref().map(|running| running.turn);
                let mut entries = self.end_message(false);
                entries.push(entry(HookRan { turn, ..ran }));
                return Ok(entries);
            }
            Note::Expanded { name, text } => {
                let turn = self.current()?.turn;
                entry(PromptExpanded { turn, name, text })
            }
            Note::Told(text) => entry(Notice {
                kind: "project".to_owned(),
                message_id: None,
                text,
            }),
        };
        Ok(vec![noted])
    }

    fn finish(
        &self,
        result: ToolResult,
        plan: Option<Vec<PlanEntry>>,
    ) -> Result<Vec<Entry>, Rejected> {
        if !self.calls.iter().any(|open| open.id == result.call_id) {
            return Err(Rejected::Late);
        }
        let plan = plan.map(|entries| entry(PlanUpdated { entries }));
        Ok(plan.into_iter().chain([entry(result)]).collect())
    }

    fn record_usage(
        &self,
        usage: Usage,
        purpose: UsagePurpose,
        context_window: u64,
    ) -> Result<Vec<Entry>, Rejected> {
        let turn = self.current()?.turn;
        let mut total = self.usage;
        total += usage;
        Ok(vec![entry(UsageRecorded {
            turn,
            purpose,
            context_window: Some(context_window),
            session_cost_nano_usd: total.cost_nano_usd,
            usage,
        })])
    }

    fn end(&self, outcome: TurnOutcome) -> Result<Vec<Entry>, Rejected> {
        let running = self.current()?;
        let clean = matches!(outcome, Ok(reason) if reason != StopReason::Cancelled);
        let mut entries = self.end_message(!clean);
        entries.extend(self.close_calls(ToolStatus::Cancelled, ToolStatus::Cancelled));
        let (stop_reason, error) = match outcome {
            Ok(reason) => (Some(reason), None),
            Err(error) => (None, Some(error)),
        };
        let usage = Some(running.usage);
        entries.push(entry(TurnResult {
            turn: running.turn,
            stop_reason,
            error,
            usage,
        }));
        Ok(entries)
    }

    /// Ends what could not end by itself: because of a `failure`, or else because the process did.
    fn cut_off(&self, failure: Option<FailureKind>) -> Result<Vec<Entry>, Rejected> {
        let mut entries = self.end_message(true);
        entries.extend(self.close_calls(ToolStatus::NotRun, ToolStatus::Unknown));
        if let Some(Running { turn, usage, .. }) = self.running {
            entries.push(match failure {
                None => entry(TurnInterrupted { turn }),
                Some(kind) => entry(TurnResult {
                    turn,
                    stop_reason: None,
                    error: Some(kind.into()),
                    usage: Some(usage),
                }),
            });
        }
        let unqueued = self.queue.iter().map(|queued| dropped(queued.seq, true));
        entries.extend(unqueued);
        if entries.is_empty() {
            Err(Rejected::Late)
        } else {
            Ok(entries)
        }
    }

    fn end_message(&self, partial: bool) -> Vec<Entry> {
        if self.message_open {
            vec![Entry::EndMessage { partial }]
        } else {
            Vec::new()
        }
    }

    /// Gives every open question and call its end: `waiting` for calls that nobody allowed,
    /// `running` for those that may have begun.
    fn close_calls(&self, waiting: ToolStatus, running: ToolStatus) -> Vec<Entry> {
        let questions = self.questions.iter();
        let mut entries: Vec<Entry> = questions
            .map(|question| question.asked.cancelled())
            .collect();
        entries.extend(self.calls.iter().map(|call| {
            let status = if call.allowed_by.is_some() {
                running
            } else {
                waiting
            };
            result(call.id.clone(), status, "")
        }));
        entries
    }

    fn current(&self) -> Result<&Running, Rejected> {
        self.running.as_ref().ok_or(Rejected::Late)
    }
}

pub(super) fn entry(event: impl Into<Event>) -> Entry {
    Entry::Event(event.into())
}

fn dropped(queued: EventSeq, interrupted: bool) -> Entry {
    entry(PromptDropped {
        queued,
        interrupted,
    })
}

pub(super) fn result(call_id: domain::CallId, status: ToolStatus, text: &str) -> Entry {
    entry(ToolResult {
        call_id,
        status,
        text: text.to_owned(),
        blocks: Vec::new(),
        locations: Vec::new(),
    })
}

/// The end of a call that was not allowed; one that a sub-agent works on goes on.
fn denied(asked: &PermissionAsked, reason: &str) -> Option<Entry> {
    let ended = result(asked.call_id.clone(), ToolStatus::Denied, reason);
    asked.asker.is_none().then_some(ended)
}

pub(super) fn unanswered(id: &PermissionId, outcome: AnswerOutcome) -> Entry {
    entry(PermissionAnswered {
        id: id.clone(),
        outcome,
        option_id: None,
        by: None,
        reason: None,
    })
}

/// The first line of a prompt, as long as a title may be.
pub(crate) fn title_of(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    let mut title: String = line.chars().take(TITLE_CHARS_MAX).collect();
    if title.chars().count() < line.chars().count() {
        title.push('…');
    }
    if title.is_empty() {
        "Untitled".to_owned()
    } else {
        title
    }
}

/// The rule that asks about a call, as it is stored.
fn asking_rule(ruled: &Ruled) -> Option<Box<GroundRule>> {
    match ruled {
        Ruled::Ask(named) => Some(Box::new(GroundRule {
            rule: named.rule.clone(),
            from: named.from.name().to_owned(),
        })),
        Ruled::Silent | Ruled::Allow(_) | Ruled::Protected(_) | Ruled::Deny(_) => None,
    }
}

/// Whether an answer may count for later calls. What nothing contains is asked about every time.
fn memory(ruling: &Ruling, is_uncontained: bool) -> Memory {
    match ruling {
        Ruling::Ask(memory) if !is_uncontained => *memory,
        Ruling::Allow(_) | Ruling::Ask(_) | Ruling::Deny(_) => Memory::None,
    }
}
