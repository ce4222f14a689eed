//! What each stored event changes.

use domain::event::{
    AnswerOutcome, Compaction, MessageStarted, PermissionOptionKind, PromptDropped, PromptQueued,
    SessionForked, SessionUpdated, ToolUse, TurnStarted, Usage, UserMessage,
};
use domain::ids::PermissionId;
use domain::limits::TURN_ENDS_REMEMBERED_MAX;
use domain::{Event, EventSeq};
use serde_json::Value;

use super::{
    Asked, ContextUse, Fate, OpenCall, PROMPT_HEAD_BYTES_MAX, Question, Queued, Recovery, Rewind,
    Running, SessionState, TurnEnd, find_option, outcome_of,
};
use crate::policy::{Always, Remembered};

impl SessionState {
    /// Its turn follows in the same append. If the disk lost that, it never ran, and whoever sends
    /// it again must not have it twice in the conversation.
    fn heard(&mut self, message: &UserMessage) {
        let end = message.text.floor_char_boundary(PROMPT_HEAD_BYTES_MAX);
        self.prompt_head = message.text[..end].into();
        if let Some(prompt_id) = &message.prompt_id {
            self.prompts.set(prompt_id, Fate::interrupted());
        }
    }

    /// The context holds less from now on.
    fn compacted(&mut self, compaction: &Compaction) {
        let known = self.context.map(|context| context.window);
        let window = compaction.context_window.or(known);
        let tokens = compaction.tokens_after;
        self.context = window.map(|window| ContextUse { tokens, window });
    }

    /// A copy belongs to the principal that made it, which has allowed nothing for good. It is no
    /// sub-agent, has none, and was not archived.
    fn forked(&mut self, forked: &SessionForked) {
        self.owner = forked.owner.clone().unwrap_or_else(|| self.owner.clone());
        self.always.clear();
        (self.parent, self.children, self.archived) = (None, Vec::new(), false);
    }

    /// Folds in the event stored at `seq`.
    pub fn apply(&mut self, seq: EventSeq, event: &Event) {
        self.head = seq;
        match event {
            Event::SessionCreated(created) => {
                self.owner = created.owner.clone();
                self.cwd.clone_from(&created.cwd);
                self.additional_directories
                    .clone_from(&created.additional_directories);
                self.real_directories.clone_from(&created.real_directories);
            }
            Event::SessionUpdated(updated) => self.update(updated),
            Event::PromptQueued(queued) => self.enqueue(seq, queued),
            Event::PromptDropped(dropped) => self.drop_queued(dropped),
            Event::TurnStarted(started) => self.start_turn(started),
            Event::MessageStarted(MessageStarted { .. }) => self.message_open = true,
            Event::AssistantMessage(_) | Event::AssistantThought(_) => self.message_open = false,
            Event::ToolUse(used) => self.open_call(seq, used),
            Event::ToolResult(result) => self.calls.retain(|call| call.id != result.call_id),
            Event::PermissionAsked(asked) => self.ask(seq, Asked::Permission(asked.clone())),
            Event::PermissionAnswered(answered) => {
                self.settle(
                    seq,
                    &answered.id,
                    answered.outcome,
                    answered.option_id.as_deref(),
                );
            }
            Event::QuestionAsked(asked) => self.ask(seq, Asked::Person(asked.clone())),
            Event::QuestionAnswered(answered) => {
                self.questions
                    .retain(|question| *question.asked.id() != answered.id);
            }
            Event::ModeChanged(changed) => {
                // A mode of a later version is not ours to grant: fall back to asking.
                self.mode = changed.mode.parse().unwrap_or_default();
            }
            Event::UsageRecorded(recorded) => {
                self.usage += recorded.usage;
                self.context = ContextUse::after(recorded).or(self.context);
                if let Some(running) = &mut self.running {
                    running.usage += recorded.usage;
                }
            }
            Event::TurnResult(result) => {
                self.end_turn(Fate::Ended(outcome_of(result)));
                self.note_end(seq);
            }
            Event::TurnInterrupted(_) => {
                self.end_turn(Fate::interrupted());
                self.note_end(seq);
                self.interrupted = true;
            }
            Event::SessionRewound(rewound) => self.rewind(rewound.to, seq),
            Event::SessionRecovered(recovered) => {
                self.recoveries.push(Recovery {
                    epoch: recovered.epoch,
                    from: recovered.from,
                });
            }
            Event::Notice(notice) => self.greeted |= notice.kind == "greeting",
            Event::SessionForked(forked) => self.forked(forked),
            Event::ChildLinked(linked) => self.linked(linked),
            Event::UserMessage(message) => self.heard(message),
            Event::Compaction(compaction) => self.compacted(compaction),
            Event::HookRan(_)
            | Event::PromptExpanded(_)
            | Event::PlanUpdated(_)
            | Event::SessionClosed(_)
            | Event::Unknown(_) => {}
        }
    }

    /// A turn ended at `seq`.
    fn note_end(&mut self, seq: EventSeq) {
        if self.turn_ends.len() >= TURN_ENDS_REMEMBERED_MAX {
            self.turn_ends.pop_front();
        }
        let context = self.context;
        self.turn_ends.push_back(TurnEnd { seq, context });
    }

    fn rewind(&mut self, to: EventSeq, at: EventSeq) {
        self.context = self.context_at(to);
        self.turn_ends.retain(|end| end.seq <= to);
        self.rewinds.push(Rewind { to, at });
    }

    fn start_turn(&mut self, started: &TurnStarted) {
        self.turns_started = started.turn.0;
        self.interrupted = false;
        if let Some(queued) = started.queued {
            self.take_queued(queued, Fate::Running(started.turn));
        }
        if let Some(prompt_id) = &started.prompt_id {
            self.prompts.set(prompt_id, Fate::Running(started.turn));
        }
        self.running = Some(Running {
            turn: started.turn,
            prompt_id: started.prompt_id.clone(),
            usage: Usage::default(),
        });
    }

    /// A call is allowed by its own record until a question about it is asked beside it.
    fn open_call(&mut self, seq: EventSeq, used: &ToolUse) {
        self.calls.push(OpenCall {
            id: used.call_id.clone(),
            rule: Always::of(&used.name, &used.input),
            allowed_by: Some(seq),
        });
    }

    fn ask(&mut self, seq: EventSeq, asked: Asked) {
        let mut calls = self.calls.iter_mut();
        let call = calls.find(|call| call.id == *asked.call_id());
        // What a sub-agent or a tool server asks is not about the call, which runs.
        if let Some(call) = call.filter(|_| !asked.is_beside_call()) {
            call.allowed_by = None;
        }
        self.questions.push(Question { seq, asked });
    }

    fn settle(
        &mut self,
        seq: EventSeq,
        id: &PermissionId,
        outcome: AnswerOutcome,
        option_id: Option<&str>,
    ) {
        let Some(at) = self
            .questions
            .iter()
            .position(|question| question.asked.id() == id)
        else {
            return;
        };
        let Asked::Permission(asked) = self.questions.remove(at).asked else {
            return;
        };
        // A sub-agent's answer is its own: its journal has what was allowed to it.
        if outcome != AnswerOutcome::Allowed || asked.asker.is_some() {
            return;
        }
        let Some(call) = self.calls.iter_mut().find(|call| call.id == asked.call_id) else {
            return;
        };
        call.allowed_by = Some(seq);
        let chosen = option_id.and_then(|id| find_option(&asked.options, id));
        if chosen.is_some_and(|chosen| chosen.kind == PermissionOptionKind::AllowAlways) {
            self.always.push(Remembered {
                what: call.rule.clone(),
                answer: seq,
            });
        }
    }

    fn take_queued(&mut self, seq: EventSeq, fate: Fate) {
        let Some(at) = self.queue.iter().position(|queued| queued.seq == seq) else {
            return;
        };
        if let Some(Queued {
            prompt_id: Some(prompt_id),
            ..
        }) = self.queue.remove(at)
        {
            self.prompts.set(&prompt_id, fate);
        }
    }

    pub(super) fn end_turn(&mut self, fate: Fate) {
        if let Some(Running {
            prompt_id: Some(prompt_id),
            ..
        }) = self.running.take()
        {
            self.prompts.set(&prompt_id, fate);
        }
        self.running = None;
        self.calls.clear();
        self.questions.clear();
    }

    fn update(&mut self, updated: &SessionUpdated) {
        if let Some(title) = &updated.title {
            self.title = Some(title.clone());
        }
        self.archived = updated.archived.unwrap_or(self.archived);
        let config = updated.config.as_ref();
        let model = config.and_then(|config| config.get("model"));
        if let Some(model) = model.and_then(Value::as_str) {
            self.model = Some(model.to_owned());
        }
    }

    fn enqueue(&mut self, seq: EventSeq, queued: &PromptQueued) {
        self.queue.push_back(Queued {
            seq,
            message_id: queued.message_id.clone(),
            prompt_id: queued.prompt_id.clone(),
            text: queued.text.clone(),
            blocks: queued.blocks.clone(),
        });
    }

    /// Older journals say only by the turn before it that the process's end was why.
    fn drop_queued(&mut self, dropped: &PromptDropped) {
        let fate = match dropped.interrupted || self.interrupted {
            true => Fate::interrupted(),
            false => Fate::Dropped,
        };
        self.take_queued(dropped.queued, fate);
    }
}
