//! What an actor's mailbox takes, and how it is turned away.

use std::sync::Arc;

use agent::Roots;
use agent::client_side::ClientSide;
use auth::Line;
use domain::ids::PermissionId;
use domain::{EventSeq, FailureKind, PrincipalId, TurnId};
use tokio::sync::oneshot;

use super::{
    Accepted, Answer, AttachError, Attached, AttachmentId, CommandError, Config, Entrance, Label,
    Prompt, Reply, Rewound,
};
use crate::family::{Family, GuardReply};
use crate::mode::Mode;

/// What the actor's mailbox takes.
pub(crate) enum Envelope {
    Attach {
        entrance: Box<Entrance>,
        reply: AttachReply,
    },
    Prompt {
        prompt: Box<Prompt>,
        /// How many cancels came before it, so that none of them is taken to mean it.
        cancels: u64,
        from: Line,
        reply: Reply<Result<Accepted, CommandError>>,
    },
    DropQueued(EventSeq),
    CancelTurn(TurnId),
    SetMode {
        mode: Mode,
        reply: Reply<Result<(), CommandError>>,
    },
    SetModel {
        model: String,
        reply: Reply<Result<(), CommandError>>,
    },
    Label {
        label: Label,
        reply: Reply<Result<(), CommandError>>,
    },
    Config {
        reply: Reply<Result<Config, CommandError>>,
    },
    Roots {
        reply: Reply<Result<Roots, CommandError>>,
    },
    Rewind {
        to: EventSeq,
        reply: Reply<Result<Rewound, CommandError>>,
    },
    Answer {
        question: PermissionId,
        answer: Answer,
        from: AttachmentId,
        by: PrincipalId,
    },
    ClientBack {
        client: Arc<dyn ClientSide>,
        from: Line,
    },
    Close {
        from: AttachmentId,
        line: Line,
        may_act: bool,
        reply: Reply<Result<EventSeq, CommandError>>,
    },
    Delete {
        owner: PrincipalId,
        reply: DeleteReply,
    },
    /// Whoever made this sub-agent takes hold of it.
    Guard {
        reply: GuardReply,
    },
    /// Between a session and its sub-agents.
    Family(Family),
    /// Stop: let a running turn end until the deadline, then interrupt it.
    Shutdown {
        deadline: tokio::time::Instant,
    },
}

/// Where a delete is answered; dropped when there was nothing to delete.
pub(crate) type DeleteReply = oneshot::Sender<Result<(), FailureKind>>;

/// Where an attach is answered.
pub(crate) type AttachReply = oneshot::Sender<Result<Attached, AttachError>>;

impl Envelope {
    /// Answers without doing anything.
    pub(crate) fn refuse(self, error: CommandError) {
        match self {
            // The asker may have gone; there is nobody to tell then.
            Self::Attach { reply, .. } => drop(reply.send(Err(error.into()))),
            Self::Guard { reply } => drop(reply.send(Err(error.into()))),
            Self::Prompt { reply, .. } => reply(Err(error)),
            Self::SetMode { reply, .. }
            | Self::SetModel { reply, .. }
            | Self::Label { reply, .. } => reply(Err(error)),
            Self::Config { reply } => reply(Err(error)),
            Self::Roots { reply } => reply(Err(error)),
            Self::Rewind { reply, .. } => reply(Err(error)),
            Self::Close { reply, .. } => reply(Err(error)),
            Self::Delete { .. }
            | Self::DropQueued(_)
            | Self::CancelTurn(_)
            | Self::Answer { .. }
            | Self::ClientBack { .. }
            // Whoever waits for an answer of the family sees that none comes.
            | Self::Family(_)
            | Self::Shutdown { .. } => {}
        }
    }
}
