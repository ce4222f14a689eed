//! One prompt as its caller sees it: updates and questions in order, then how it ended.

use domain::event::{PermissionOption, PermissionOptionKind};
use domain::{Cursor, PromptId, SessionId};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use wire::acp::PermissionReply;

use crate::error::{ClientError, TransportError};
use crate::message::{meta, text_at};
use crate::update::{Received, ToolCall, Update};

/// The method every error of a prompt names.
pub(crate) const PROMPT: &str = "session/prompt";

/// What comes after a prompt was sent.
///
/// It has no overall deadline: a turn may take hours. It ends when the server answers, and with an
/// error when the connection is lost. Dropping it stops listening; the turn goes on.
#[derive(Debug)]
pub struct PromptStream {
    pub(crate) request: String,
    pub(crate) items: mpsc::Receiver<Item>,
    /// Answered after the last item was queued; taken once its answer was handed out.
    pub(crate) end: Option<oneshot::Receiver<Result<Value, ClientError>>>,
    pub(crate) cursor: Option<Cursor>,
}

/// What the connection delivers, before the end.
#[derive(Debug)]
pub(crate) enum Item {
    Received(Received),
    Ask(Ask),
    /// A prompt that was sent for a [`crate::Watch`] is answered.
    Ended {
        prompt: PromptId,
        end: Result<PromptEnd, ClientError>,
    },
}

/// One thing that a prompt led to.
#[derive(Debug)]
pub enum PromptEvent {
    /// Something happened in the session.
    Update(Update),
    /// The server wants to know whether a tool may run.
    Ask(Ask),
    /// The turn ended; nothing follows.
    Ended(PromptEnd),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptEnd {
    /// ACP's stop reason, such as `end_turn`.
    pub stop_reason: String,
    /// What the model used, as the server reports it; null if it does not.
    pub usage: Value,
}

/// A permission request, or a question of the agent. Dropping it answers nothing: it stays open for other
/// clients, and for this one if it attaches again, until its deadline.
#[derive(Debug)]
pub struct Ask {
    /// The session in which the tool would run.
    pub session: SessionId,
    /// The call in question.
    pub call: ToolCall,
    /// The same as it came, with all that ACP says of it.
    pub raw: Value,
    /// What may be answered.
    pub options: Vec<PermissionOption>,
    pub(crate) reply: oneshot::Sender<PermissionReply>,
    pub(crate) withdrawn: oneshot::Receiver<()>,
}

impl PromptStream {
    /// The next event; `None` after the end or the error that ended it.
    ///
    /// Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<PromptEvent, ClientError>> {
        // The connection closes the items before it gives the end, so that the end comes last.
        while let Some(item) = self.items.recv().await {
            return Some(Ok(match item {
                Item::Received(Received { update, cursor, .. }) => {
                    self.cursor = cursor.or(self.cursor);
                    PromptEvent::Update(update)
                }
                Item::Ask(ask) => PromptEvent::Ask(ask),
                // Those are told to watches only.
                Item::Ended { .. } => continue,
            }));
        }
        let answer = self.end.as_mut()?.await;
        self.end = None;
        let answer = answer.unwrap_or_else(|_| {
            Err(ClientError::Lost {
                method: PROMPT,
                id: self.request.clone(),
                cause: TransportError::ClosedHere,
            })
        });
        let end = answer.and_then(|answer| PromptEnd::read(&answer, &self.request));
        Some(end.map(PromptEvent::Ended))
    }

    /// Where the client stands in the session's stream, to go on from there later.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }
}

impl PromptEnd {
    /// What the answer to the prompt with the id `request` says.
    pub(crate) fn read(answer: &Value, request: &str) -> Result<Self, ClientError> {
        let Some(stop_reason) = text_at(answer, "stopReason") else {
            return Err(ClientError::BadAnswer {
                method: PROMPT,
                id: request.to_owned(),
                problem: "has no stop reason",
            });
        };
        let usage = [&answer["usage"], &meta(answer)["usage"]];
        let usage = usage.into_iter().find(|usage| !usage.is_null());
        Ok(Self {
            stop_reason,
            usage: usage.cloned().unwrap_or_default(),
        })
    }
}

impl Ask {
    /// The first option of `kind`.
    #[must_use]
    pub fn option(&self, kind: PermissionOptionKind) -> Option<&PermissionOption> {
        self.options.iter().find(|option| option.kind == kind)
    }

    /// Answers with the option of that id.
    pub fn answer(self, option_id: &str) {
        // If the connection is gone there is nobody to hear it.
        let _ = self
            .reply
            .send(PermissionReply::Selected(option_id.to_owned()));
    }

    /// Answers with the option of that id, and says why in words for the model.
    pub fn answer_because(self, option_id: &str, reason: &str) {
        let _ = self.reply.send(PermissionReply::Explained {
            option: option_id.to_owned(),
            reason: reason.to_owned(),
        });
    }

    /// Declines for everyone, without choosing an option.
    pub fn cancel(self) {
        let _ = self.reply.send(PermissionReply::Cancelled);
    }

    /// Resolves when an answer is no longer wanted: another client gave one, or the turn ended.
    pub async fn withdrawn(&mut self) {
        // An error means that the connection ended, which withdraws it just as well.
        let _ = (&mut self.withdrawn).await;
    }
}
