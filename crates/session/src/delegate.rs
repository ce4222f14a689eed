//! Having an agent work on a task: a session of its own, followed until it ends.
//!
//! [`Nursery`] is what a turn holds; each task is a [`Watch`] over one sub-agent, which passes its
//! questions and its usage on to the session that called, and shows how far it is. Dropped at any
//! point, it takes the sub-agent with it ([`Hold`]).

mod log;

use std::collections::{HashMap, VecDeque};

use agent::agents::{Delegate, Task};
use agent::progress::Place;
use agent::{Outcome, Running};
use domain::event::{
    Asker, ChildLinked, MessageKind, PermissionAnswered, PermissionAsked, PermissionOption,
    StopReason, ToolUse, TurnResult, Usage, UsageRecorded,
};
use domain::ids::PermissionId;
use domain::limits::{ASKER_INPUT_BYTES_MAX, PROGRESS_EVERY, TOOL_RESULT_BYTES_MAX};
use domain::{CallId, Event, MessageId, SessionId, TurnId};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;

use crate::directory::DirectoryLink;
use crate::family::{ChildAnswer, ChildBirth, Family, Guarded, Hold, LinkError, Role, Terms};
use crate::handle::{Envelope, Mailbox};
use crate::mode::Mode;
use crate::state::outcome_of;
use crate::subscription::{Delivery, Item, Subscription};
use log::Log;

/// Where the sub-agents of one turn come from.
#[derive(Clone)]
pub(crate) struct Nursery {
    /// The session that calls, and the turn in which it does.
    pub(crate) parent: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) mailbox: Mailbox,
    pub(crate) directory: DirectoryLink,
}

impl Delegate for Nursery {
    fn run(&self, task: Task) -> Running {
        Box::pin(self.clone().work(task))
    }
}

impl Nursery {
    async fn work(self, task: Task) -> Outcome {
        let child = SessionId::random();
        let name = task.agent.name.clone();
        let linked = ChildLinked {
            call_id: task.call.clone(),
            agent: name.clone(),
            child: Some(child),
            parent: None,
        };
        // Known to the journal of the caller before there is anything to know of; so who reads of
        // it there may come for it too early.
        let expected = self.directory.expect(child).await;
        let terms = match self.link(linked).await {
            Ok(terms) => terms,
            Err(error) => return Outcome::failed(format!("The agent cannot begin: {error}.")),
        };
        let mode = terms.mode.clone();
        let birth = ChildBirth {
            parent: self.parent,
            call: task.call.clone(),
            terms,
            role: Role {
                agent: task.agent,
                seat: task.seat.map(|seat| seat.on_behalf_of(&task.call)),
                remote: task.remote,
                tokens_left: task.tokens_left,
            },
            prompt: task.prompt,
        };
        let Guarded { hold, subscription } = match expected.raise(birth).await {
            Ok(guarded) => guarded,
            Err(error) => return Outcome::failed(format!("The agent cannot begin: {error}.")),
        };
        let watch = Watch {
            nursery: self,
            hold,
            subscription,
            place: task.place,
            mode: Some(mode),
            child,
            agent: name,
            call: task.call,
            log: Log::default(),
            uses: HashMap::new(),
            waiting: VecDeque::new(),
            open: None,
            used: Usage::default(),
            said: Said::default(),
        };
        watch.follow().await
    }

    async fn link(&self, linked: ChildLinked) -> Result<Terms, LinkError> {
        let (reply, terms) = oneshot::channel();
        let turn = self.turn;
        self.tell(Family::Link {
            turn,
            linked,
            reply,
        })
        .await;
        terms.await.unwrap_or(Err(LinkError::Over))
    }

    /// Tells the session that called. One that has left needs to know nothing.
    async fn tell(&self, message: Family) {
        let envelope = Box::new(Envelope::Family(message));
        let _ = self.mailbox.send(envelope).await;
    }
}

/// One sub-agent at work.
struct Watch {
    nursery: Nursery,
    hold: Hold,
    subscription: Subscription,
    place: Place,
    /// The mode of the session that called, while that can still change.
    mode: Option<watch::Receiver<Mode>>,
    child: SessionId,
    agent: String,
    /// The call that all this is.
    call: CallId,
    log: Log,
    /// Its calls that have not ended.
    uses: HashMap<CallId, ToolUse>,
    /// Its questions that were not passed on yet: people are asked one by one.
    waiting: VecDeque<PermissionAsked>,
    open: Option<(PermissionId, oneshot::Receiver<ChildAnswer>)>,
    used: Usage,
    said: Said,
}

/// The newest thing that it said, as much of it as a result may hold.
#[derive(Default)]
struct Said {
    message: Option<MessageId>,
    text: String,
}

/// What happened.
enum Step {
    Came(Option<Vec<Delivery>>),
    Answered(Option<ChildAnswer>),
    Mode(Option<Mode>),
    Show,
}

impl Watch {
    async fn follow(mut self) -> Outcome {
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = tokio::select! {
                biased;
                answer = answered(&mut self.open) => Step::Answered(answer),
                mode = changed(&mut self.mode) => Step::Mode(mode),
                _ = tick.tick(), if self.log.has_news() => Step::Show,
                next = self.subscription.next() => Step::Came(next.ok().flatten()),
            };
            match step {
                Step::Show => self.place.show(self.log.newest()),
                Step::Mode(Some(mode)) => self.hold.follow(mode).await,
                // The turn that called is gone, and with it soon this.
                Step::Mode(None) => self.mode = None,
                Step::Answered(answer) => self.pass_back(answer).await,
                Step::Came(Some(deliveries)) => {
                    for delivery in deliveries {
                        if let Some(outcome) = self.take(delivery.item).await {
                            return outcome.having_used(self.used);
                        }
                    }
                }
                Step::Came(None) => {
                    let text = "The agent's session ended before its task did.";
                    return Outcome::unknown(text).having_used(self.used);
                }
            }
        }
    }

    /// Takes note of what the sub-agent did; gives the outcome once there is one.
    async fn take(&mut self, item: Item) -> Option<Outcome> {
        match item {
            Item::Text {
                message,
                kind: MessageKind::Text,
                text,
            } => {
                self.said.hear(&message, &text);
                self.log.say(&text);
            }
            Item::Text {
                kind: MessageKind::Thought,
                ..
            }
            | Item::Progress(_) => {}
            Item::Failed(kind) => {
                let text = format!("The agent's session failed: {}.", kind.name());
                return Some(Outcome::failed(text));
            }
            Item::Event(stored) => return self.take_event(&stored.event).await,
        }
        None
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others are the sub-agent's own affair"
    )]
    async fn take_event(&mut self, event: &Event) -> Option<Outcome> {
        match event {
            Event::ToolUse(used) => {
                self.log.act(&used.title);
                self.uses.insert(used.call_id.clone(), used.clone());
            }
            Event::ToolResult(result) => drop(self.uses.remove(&result.call_id)),
            Event::UsageRecorded(recorded) => self.account(recorded).await,
            Event::PermissionAsked(asked) => {
                self.waiting.push_back(asked.clone());
                self.ask_next().await;
            }
            Event::PermissionAnswered(answered) => self.settle(answered).await,
            Event::TurnResult(result) => return Some(self.ended(result)),
            Event::TurnInterrupted(_) => {
                let text = "The agent was interrupted. What it did until then stays.";
                return Some(Outcome::unknown(text));
            }
            _ => {}
        }
        None
    }

    async fn account(&mut self, recorded: &UsageRecorded) {
        self.used += recorded.usage;
        let message = Family::Used {
            turn: self.nursery.turn,
            usage: recorded.usage,
            context_window: recorded.context_window.unwrap_or_default(),
        };
        self.nursery.tell(message).await;
    }

    /// Passes the oldest question on, unless one is open.
    async fn ask_next(&mut self) {
        if self.open.is_some() {
            return;
        }
        let Some(asked) = self.waiting.pop_front() else {
            return;
        };
        let (answer, answered) = oneshot::channel();
        let id = asked.id.clone();
        let message = Family::Ask {
            turn: self.nursery.turn,
            asked: Box::new(self.as_asked(asked)),
            answer,
        };
        self.nursery.tell(message).await;
        self.open = Some((id, answered));
    }

    /// The question as it is put to the people of the session that called.
    fn as_asked(&self, asked: PermissionAsked) -> PermissionAsked {
        let used = self.uses.get(&asked.call_id);
        let asker = Asker {
            agent: self.agent.clone(),
            session_id: self.child,
            tool: used.map(|used| used.name.clone()).unwrap_or_default(),
            input: used.map_or(Value::Null, |used| shortened(&used.input)),
            content: used.map(|used| used.content.to_vec()).unwrap_or_default(),
            call_id: asked.call_id,
        };
        // What is allowed always is allowed to this sub-agent, which ends with its task.
        let options = asked.options.into_iter().map(|option| PermissionOption {
            name: option.name.replace("this session", "this task"),
            ..option
        });
        PermissionAsked {
            call_id: self.call.clone(),
            options: options.collect(),
            title: format!("{}: {}", self.agent, asked.title),
            asker: Some(Box::new(asker)),
            ..asked
        }
    }

    /// The people of the session that called have answered, or cannot any more.
    async fn pass_back(&mut self, answer: Option<ChildAnswer>) {
        let Some((id, _)) = self.open.take() else {
            return;
        };
        let nobody = || ChildAnswer {
            outcome: domain::event::AnswerOutcome::Denied,
            option_id: None,
            by: None,
            reason: None,
        };
        let answer = answer.unwrap_or_else(nobody);
        tracing::debug!(child = %self.child, outcome = ?answer.outcome, "a question was answered");
        self.hold.answer(id, answer).await;
        self.ask_next().await;
    }

    /// A question of the sub-agent's has its end, perhaps from somebody who looks at it directly.
    async fn settle(&mut self, answered: &PermissionAnswered) {
        self.waiting.retain(|asked| asked.id != answered.id);
        let is_open = |(id, _): &mut (PermissionId, _)| *id == answered.id;
        if let Some((id, _)) = self.open.take_if(is_open) {
            self.nursery.tell(Family::Withdraw(id)).await;
            self.ask_next().await;
        }
    }

    fn ended(&mut self, result: &TurnResult) -> Outcome {
        let said = std::mem::take(&mut self.said.text);
        let said = match said.trim() {
            "" => "[The agent said nothing.]",
            said => said,
        };
        let why = match outcome_of(result) {
            Ok(StopReason::EndTurn) => return Outcome::completed(said),
            Ok(StopReason::MaxTokens) => "it has used up its tokens".to_owned(),
            Ok(StopReason::MaxTurnRequests) => "it has used up its steps or its time".to_owned(),
            Ok(StopReason::Refusal) => "its model refused to go on".to_owned(),
            Ok(StopReason::Cancelled) => "it was cancelled".to_owned(),
            Err(error) => error.message,
        };
        Outcome::failed(format!(
            "[The agent did not finish: {why}. What it said last:]\n{said}"
        ))
    }
}

impl Said {
    fn hear(&mut self, message: &MessageId, text: &str) {
        if self.message.as_ref() != Some(message) {
            self.message = Some(message.clone());
            self.text.clear();
        }
        let room = TOOL_RESULT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

/// The input of a call without what is long in it.
fn shortened(input: &Value) -> Value {
    match input {
        Value::String(text) if text.len() > ASKER_INPUT_BYTES_MAX => Value::Null,
        Value::Object(fields) => {
            let fields = fields.iter().take(ASKER_FIELDS_MAX);
            fields
                .map(|(key, value)| (key.clone(), shortened(value)))
                .collect()
        }
        // No tool is judged by a list.
        Value::Array(_) => Value::Null,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => input.clone(),
    }
}

/// Fields of an input that are told: no tool of ours has more.
const ASKER_FIELDS_MAX: usize = 16;

/// How the open question ended; without one, never.
async fn answered(
    open: &mut Option<(PermissionId, oneshot::Receiver<ChildAnswer>)>,
) -> Option<ChildAnswer> {
    match open {
        Some((_, answer)) => answer.await.ok(),
        None => std::future::pending().await,
    }
}

/// The next mode; `None` once there is no next.
async fn changed(mode: &mut Option<watch::Receiver<Mode>>) -> Option<Mode> {
    match mode {
        Some(mode) => {
            mode.changed().await.ok()?;
            Some(*mode.borrow_and_update())
        }
        None => std::future::pending().await,
    }
}
