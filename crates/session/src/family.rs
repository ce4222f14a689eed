//! What a session and its sub-agents say to each other, and the hold that the one has on the other.
//!
//! Both are sessions with a journal and an actor of their own. Whoever works between them
//! ([`delegate`](crate::delegate)) follows the one as a client does and reports to the other.

use std::sync::Arc;

use agent::agents::Agent;
use agent::client_side::ClientSeat;
use agent::{RemoteTools, Root};
use domain::event::{AnswerOutcome, ChildLinked, PermissionAsked, Usage};
use domain::ids::PermissionId;
use domain::limits::CHILDREN_MAX;
use domain::{CallId, Limits, PrincipalId, SessionId, TurnId};
use tokio::sync::{mpsc, oneshot, watch};

use crate::handle::{Answer, AttachError, Envelope, Mailbox, Presence};
use crate::mode::Mode;
use crate::subscription::Subscription;

/// What goes between a session and its sub-agents.
pub(crate) enum Family {
    /// To the session that calls: a sub-agent is about to be made.
    Link {
        turn: TurnId,
        linked: ChildLinked,
        /// Told once that is stored.
        reply: oneshot::Sender<Result<Terms, LinkError>>,
    },
    /// To it: a sub-agent's model used tokens on its account.
    Used {
        turn: TurnId,
        usage: Usage,
        context_window: u64,
    },
    /// To it: a sub-agent wants to know whether it may do something.
    Ask {
        turn: TurnId,
        asked: Box<PermissionAsked>,
        answer: oneshot::Sender<ChildAnswer>,
    },
    /// To it: that question was settled without it.
    Withdraw(PermissionId),
    /// To the sub-agent: the mode of the session that called is this now.
    Mode(Mode),
}

/// How a sub-agent's question ended.
#[derive(Debug)]
pub(crate) struct ChildAnswer {
    pub(crate) outcome: AnswerOutcome,
    pub(crate) option_id: Option<String>,
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
}

/// What a sub-agent has of the session that called it.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) owner: PrincipalId,
    /// Its directories, the working directory first.
    pub(crate) roots: Arc<[Root]>,
    /// The model that was chosen for it, if one was.
    pub(crate) model: Option<String>,
    /// Its mode, now and later.
    pub(crate) mode: watch::Receiver<Mode>,
}

/// Why a session has no sub-agent work for it; in words for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the turn is over")]
    Over,
    #[error("a session gives at most {CHILDREN_MAX} tasks")]
    TooMany,
    #[error("the session could not store it")]
    NotStored,
}

/// A sub-agent as it shall be.
pub(crate) struct ChildBirth {
    pub(crate) parent: SessionId,
    pub(crate) call: CallId,
    pub(crate) terms: Terms,
    pub(crate) role: Role,
    pub(crate) prompt: String,
}

/// What makes a session a sub-agent's, for as long as its task runs.
pub(crate) struct Role {
    pub(crate) agent: Agent,
    /// The client whose files and terminals the session that called works with.
    pub(crate) seat: Option<ClientSeat>,
    /// The tool servers of the session that called.
    pub(crate) remote: Option<Arc<dyn RemoteTools>>,
    /// Tokens that the session that called has left, if there is a bound.
    pub(crate) tokens_left: Option<u64>,
}

impl Role {
    /// How much the task may do: what the agent may, within what a turn may and what its caller
    /// has left.
    pub(crate) fn limits(&self, limits: &Limits) -> Limits {
        let agent = &self.agent;
        let turn = Some(limits.turn_tokens_max).filter(|max| *max > 0);
        let bounds = [turn, agent.tokens_max, self.tokens_left];
        let tokens = bounds.into_iter().flatten().min();
        Limits {
            steps_max: agent.steps_max.unwrap_or(u32::MAX).min(limits.steps_max),
            // Nothing left is one token, for none is no bound.
            turn_tokens_max: tokens.map_or(0, |tokens| tokens.max(1)),
            session_tokens_max: 0,
            turn: agent.time_max.unwrap_or(limits.turn).min(limits.turn),
            ..limits.clone()
        }
    }
}

/// Where the hold on a sub-agent goes.
pub(crate) type GuardReply = oneshot::Sender<Result<Guarded, AttachError>>;

/// A sub-agent that was just made and waits for nothing more.
pub(crate) struct Guarded {
    pub(crate) hold: Hold,
    pub(crate) subscription: Subscription,
}

/// The hold on a sub-agent. Dropped, it ends it: its turn, if that still runs, and its stay in
/// memory, unless somebody else looks at it.
pub(crate) struct Hold {
    mailbox: Mailbox,
    presence: Arc<Presence>,
}

impl Hold {
    pub(crate) fn new(mailbox: Mailbox, presence: Arc<Presence>) -> Self {
        Self { mailbox, presence }
    }

    /// Passes on how a question ended.
    pub(crate) async fn answer(&self, question: PermissionId, answered: ChildAnswer) {
        let answer = match (answered.option_id, answered.reason) {
            (Some(option), Some(reason)) => Answer::Explained { option, reason },
            (Some(option), None) => Answer::Selected(option),
            (None, _) => Answer::Dismissed,
        };
        let by = answered
            .by
            .map_or_else(PrincipalId::local, PrincipalId::new);
        let from = self.presence.id;
        // One that has left asks nothing any more.
        let _ = self
            .mailbox
            .send(Box::new(Envelope::Answer {
                question,
                answer,
                from,
                by,
            }))
            .await;
    }

    /// Passes on a change of mode.
    pub(crate) async fn follow(&self, mode: Mode) {
        let envelope = Box::new(Envelope::Family(Family::Mode(mode)));
        let _ = self.mailbox.send(envelope).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let close = Envelope::Close {
            from: self.presence.id,
            line: self.presence.line,
            may_act: true,
            reply: Box::new(|_| ()),
        };
        let sent = self.mailbox.try_send(Box::new(close));
        if let Err(mpsc::error::TrySendError::Full(close)) = sent {
            let mailbox = self.mailbox.clone();
            tokio::spawn(async move { mailbox.send(close).await });
        }
    }
}
