//! A session and its sub-agents: what it does as the one that calls, and as the one that was called.
//! What tool servers ask while they work for it takes the same way.

use std::collections::HashMap;
use std::sync::Arc;

use agent::agents::Delegate;
use agent::{Asking, Patience, PersonAnswer};
use domain::clock::Timestamp;
use domain::event::{
    ChildLinked, ModeChanged, PermissionAnswered, QuestionAnswered, QuestionOutcome,
    SessionCreated, SessionUpdated, TurnStarted, UsagePurpose, UserMessage,
};
use domain::ids::PermissionId;
use domain::{Event, MessageId, TurnId};
use journal::{StoreError, Stored};
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};

use super::{LiveTurn, OpenSession, Prompter, SessionActor};
use crate::attach;
use crate::delegate::Nursery;
use crate::family::{
    ChildAnswer, ChildBirth, Family, GuardReply, Guarded, Hold, LinkError, Role, Terms,
};
use crate::handle::{AttachError, AttachmentId, From, Presence};
use crate::mode::Mode;
use crate::session_roots;
use crate::state::{Command, Rejected, SessionState, title_of};
use crate::store_task::blocking;
use crate::subscription::Subscription;

/// What a running turn has of its sub-agents.
pub(super) struct Caller {
    /// The session's mode, which they have too.
    mode: watch::Sender<Mode>,
    /// Who waits for the answers to their questions.
    answers: HashMap<PermissionId, oneshot::Sender<ChildAnswer>>,
    /// Who waits for the answers to questions of tool servers.
    asking: HashMap<PermissionId, oneshot::Sender<PersonAnswer>>,
}

impl Caller {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode: watch::Sender::new(mode),
            answers: HashMap::new(),
            asking: HashMap::new(),
        }
    }
}

impl SessionActor {
    /// Where the sub-agents of `turn` come from; none for a sub-agent.
    pub(super) fn nursery(&self, turn: TurnId) -> Option<Arc<dyn Delegate>> {
        let nursery = || -> Arc<dyn Delegate> {
            Arc::new(Nursery {
                parent: self.id,
                turn,
                mailbox: self.mailbox_sender.clone(),
                directory: self.directory.clone(),
            })
        };
        self.role.is_none().then(nursery)
    }

    pub(super) fn on_family(&mut self, message: Family) {
        match message {
            Family::Link {
                turn,
                linked,
                reply,
            } => self.on_link(turn, linked, reply),
            Family::Used {
                turn,
                usage,
                context_window,
            } => {
                if self.is_running(turn) {
                    let purpose = UsagePurpose::Task;
                    self.stage(Command::RecordUsage {
                        usage,
                        purpose,
                        context_window,
                    });
                }
            }
            Family::Ask {
                turn,
                asked,
                answer,
            } => {
                let id = asked.id.clone();
                // Dropping the sender says that nobody can answer.
                if self.is_running(turn)
                    && self.try_stage(Command::AskForChild(asked)).is_ok()
                    && let Some(turn) = &mut self.turn
                {
                    turn.caller.answers.insert(id, answer);
                }
            }
            Family::Withdraw(question) => self.stage(Command::Withdraw(question)),
            Family::Mode(mode) => self.stage(Command::SetMode(mode)),
        }
    }

    /// A tool server asks the person. Dropping the reply says that nobody can answer.
    pub(super) fn on_asked(&mut self, asking: Asking) {
        let Asking { asked, reply } = asking;
        let id = asked.id.clone();
        let is_live = |turn: &LiveTurn| !turn.cancel.is_cancelled();
        if self.turn.as_ref().is_some_and(is_live)
            && self
                .try_stage(Command::AskForServer(Box::new(asked)))
                .is_ok()
            && let Some(turn) = &mut self.turn
        {
            turn.caller.asking.insert(id, reply);
        }
    }

    /// Stores that a sub-agent is about to be made, then says how it shall be.
    fn on_link(
        &mut self,
        turn: TurnId,
        linked: ChildLinked,
        reply: oneshot::Sender<Result<Terms, LinkError>>,
    ) {
        let terms = self.terms().filter(|_| self.is_running(turn));
        let staged = self.try_stage(Command::LinkChild(linked));
        let terms = match (terms, staged) {
            (Some(terms), Ok(())) => Ok(terms),
            (Some(_), Err(Rejected::QueueFull)) => Err(LinkError::TooMany),
            (_, _) => Err(LinkError::Over),
        };
        self.staged.after(move |stored| {
            let terms =
                terms.and_then(|terms| stored.map(|()| terms).map_err(|_| LinkError::NotStored));
            // A call that was cancelled meanwhile needs none.
            let _ = reply.send(terms);
        });
    }

    fn terms(&self) -> Option<Terms> {
        let (open, turn) = (self.open.as_ref()?, self.turn.as_ref()?);
        Some(Terms {
            owner: open.state.owner().clone(),
            roots: self.roots.clone()?,
            model: open.state.model().map(str::to_owned),
            mode: turn.caller.mode.subscribe(),
        })
    }

    fn is_running(&self, turn: TurnId) -> bool {
        let is_live = self
            .turn
            .as_ref()
            .is_some_and(|turn| !turn.cancel.is_cancelled());
        let running = self.open.as_ref().and_then(|open| open.state.running());
        is_live && running.is_some_and(|running| running.turn == turn)
    }

    /// Tells the sub-agents of what was stored: their answers, and the mode; and tool servers theirs.
    pub(super) fn tell_children(&mut self, stored: &[Arc<Stored>]) {
        let (Some(turn), Some(open)) = (&mut self.turn, &self.open) else {
            return;
        };
        for event in stored {
            if let Event::PermissionAnswered(answered) = &event.event {
                turn.caller.pass_on(answered);
            }
            if let Event::QuestionAnswered(answered) = &event.event {
                turn.caller.pass_on_answer(answered);
            }
            if let Event::ModeChanged(_) = &event.event {
                turn.caller.mode.send_replace(open.state.mode());
            }
        }
    }

    /// Deletes the sub-agents that ever worked for this session. One that cannot be deleted stays,
    /// and is said so; the session itself is what was meant.
    pub(super) async fn delete_children(&mut self) {
        let Some(state) = self.readable() else { return };
        let (owner, children) = (state.owner().clone(), state.children().to_vec());
        for child in children {
            let deleted = self.directory.delete(child, owner.clone()).await;
            if let Err(kind) = deleted {
                meters::CLEANUP_FAILURES.count();
                tracing::warn!(session = %self.id, %child, kind = kind.name(), "a sub-agent's session was not deleted");
            }
        }
    }

    /// Makes the session of a sub-agent, with its task begun: whoever sees it sees it so.
    pub(super) async fn be_born_as_child(&mut self, birth: ChildBirth) -> Result<(), StoreError> {
        let events = self.first_events(&birth);
        let (store, id) = (self.engine.store.clone(), self.id);
        let made = blocking(move || store.create(id, events, Timestamp::now()));
        let (writer, stored) = made.await?;
        let mut state = SessionState::default();
        for event in &stored {
            state.apply(event.seq, &event.event);
        }
        self.feed.push(&stored);
        self.open = Some(Box::new(OpenSession { writer, state }));
        self.roots = Some(birth.terms.roots);
        self.role = Some(Box::new(birth.role));
        self.publish();
        Ok(())
    }

    fn first_events(&self, birth: &ChildBirth) -> Vec<Event> {
        let (terms, agent) = (&birth.terms, &birth.role.agent);
        let mode = *terms.mode.borrow();
        let own = agent
            .model
            .as_deref()
            .and_then(|name| self.model_named(name));
        let model = own.or_else(|| terms.model.clone());
        let config = model.map(|model| Map::from_iter([("model".to_owned(), Value::from(model))]));
        // A model's words are no commands of a person's.
        let text = match birth.prompt.trim_start().starts_with('/') {
            true => format!("The task:\n{}", birth.prompt),
            false => birth.prompt.clone(),
        };
        let blocks = vec![json!({"type": "text", "text": &text})];
        let mut names = session_roots::names(&terms.roots).into_iter();
        let cwd = names.next().unwrap_or_default();
        let mut events: Vec<Event> = vec![
            SessionCreated {
                owner: terms.owner.clone(),
                cwd,
                epoch: 0,
                additional_directories: names.collect(),
                real_directories: session_roots::real_directories(&terms.roots),
            }
            .into(),
            ChildLinked {
                call_id: birth.call.clone(),
                agent: agent.name.clone(),
                child: None,
                parent: Some(birth.parent),
            }
            .into(),
            SessionUpdated {
                title: Some(title_of(&format!(
                    "{}: {}",
                    agent.name,
                    birth.prompt.trim()
                ))),
                config,
                archived: None,
            }
            .into(),
        ];
        if mode != Mode::default() {
            let mode = mode.name().to_owned();
            events.push(ModeChanged { mode }.into());
        }
        events.push(
            UserMessage {
                text,
                blocks,
                message_id: Some(MessageId::random()),
                prompt_id: None,
            }
            .into(),
        );
        events.push(
            TurnStarted {
                turn: TurnId(1),
                prompt_id: None,
                queued: None,
            }
            .into(),
        );
        events
    }

    /// The model on offer that an agent's file means: by its whole name, or by a word in it.
    fn model_named(&self, name: &str) -> Option<String> {
        let options = self.engine.catalog.options();
        let is_it = |spec: &str| spec == name || (!name.contains(':') && spec.contains(name));
        let found = options.into_iter().find(|option| is_it(&option.spec));
        if found.is_none() {
            tracing::warn!(session = %self.id, model = name, "an agent's model is not on offer");
        }
        found.map(|option| option.spec)
    }

    /// Lets whoever made this sub-agent take hold of it.
    pub(super) fn on_guard(&mut self, reply: GuardReply) {
        self.envelopes_seen += 1;
        self.attaches += 1;
        let Some(state) = self.readable() else {
            let _ = reply.send(Err(AttachError::NotFound));
            return;
        };
        let (cursor, _) = attach::start(state, &self.feed.head(), From::Start);
        let id = AttachmentId(self.attaches);
        let line = self.resume.tokens.new_line();
        let presence = Presence::new(id, line, Arc::clone(&self.bell));
        self.attachments.push((id, Arc::downgrade(&presence)));
        // The turn is its holder's: it ends with the hold, whoever else looks on.
        self.next_prompter = Some(Prompter {
            line,
            client: None,
            trace: None,
            patience: Patience::Brief,
        });
        let (store, feed) = (self.engine.store.clone(), Arc::clone(&self.feed));
        let guarded = Guarded {
            hold: Hold::new(self.mailbox_sender.clone(), presence),
            subscription: Subscription::new(self.id, store, feed, cursor),
        };
        // Nobody there: dropping the hold ends it.
        drop(reply.send(Ok(guarded)));
    }

    /// Whether it is a sub-agent's, at work or not.
    pub(super) fn is_child(&self) -> bool {
        self.readable().is_some_and(SessionState::is_child)
    }

    /// What makes it a sub-agent's, if it is one at work.
    pub(super) fn role(&self) -> Option<&Role> {
        self.role.as_deref()
    }
}

impl Caller {
    fn pass_on_answer(&mut self, answered: &QuestionAnswered) {
        let Some(reply) = self.asking.remove(&answered.id) else {
            return;
        };
        let (text, content) = (answered.text.clone(), answered.content.clone());
        let answer = match (answered.outcome, content, text) {
            (QuestionOutcome::Answered, Some(content), _) => PersonAnswer::Filled(content),
            (QuestionOutcome::Answered, None, Some(text)) => PersonAnswer::Chosen(text),
            (QuestionOutcome::Cancelled, _, _) => PersonAnswer::Cancelled,
            (
                QuestionOutcome::Answered
                | QuestionOutcome::Later
                | QuestionOutcome::Declined
                | QuestionOutcome::Expired,
                _,
                _,
            ) => PersonAnswer::Declined,
        };
        // A server that is gone needs no answer.
        let _ = reply.send(answer);
    }

    fn pass_on(&mut self, answered: &PermissionAnswered) {
        if let Some(answer) = self.answers.remove(&answered.id) {
            // A sub-agent that is gone needs no answer.
            let _ = answer.send(ChildAnswer {
                outcome: answered.outcome,
                option_id: answered.option_id.clone(),
                by: answered.by.clone(),
                reason: answered.reason.clone(),
            });
        }
    }
}
