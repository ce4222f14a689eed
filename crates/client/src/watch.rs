//! All that happens in one session, for whoever stays with it: a turn of ours, turns of others, and
//! what lies between them.
//!
//! Unlike a [`crate::PromptStream`] it does not end with a turn. How a prompt ended comes in order
//! with the updates that led to it.

use std::path::Path;

use domain::limits::CLIENT_UPDATES_MAX;
use domain::{PromptId, SessionId};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;
use wire::acp::{FastnessMeta, requests};
use wire::rpc::RequestId;

use crate::client::{Attached, Client, attached, new_id, said};
use crate::connection::{Command, Reply, Request};
use crate::error::ClientError;
use crate::message::session_at;
use crate::prompt::{Ask, Item, PROMPT, PromptEnd};
use crate::update::{Received, Update};

/// What happens in a session. Dropping it stops listening.
#[derive(Debug)]
pub struct Watch {
    items: mpsc::Receiver<Item>,
}

/// One thing that happened.
#[derive(Debug)]
pub enum WatchEvent {
    /// Something in the session.
    Update {
        /// What, as far as this library reads it.
        update: Update,
        /// The whole update as it came; null for what is not ACP's.
        raw: Value,
    },
    /// The server wants to know whether a tool may run, or asks something else.
    Ask(Ask),
    /// A prompt of [`Client::prompt_watched`] is answered.
    Ended {
        /// Which one.
        prompt: PromptId,
        /// How it ended.
        end: Result<PromptEnd, ClientError>,
    },
}

impl Watch {
    /// The next thing; `None` once the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        Some(match self.items.recv().await? {
            Item::Received(Received { update, raw, .. }) => WatchEvent::Update { update, raw },
            Item::Ask(ask) => WatchEvent::Ask(ask),
            Item::Ended { prompt, end } => WatchEvent::Ended { prompt, end },
        })
    }
}

impl Client {
    /// Starts a session that works in `cwd`, and hears all that happens in it.
    ///
    /// # Errors
    /// See [`ClientError`]; likewise for all that follow.
    pub async fn new_session_watched(&self, cwd: &Path) -> Result<(Attached, Watch), ClientError> {
        let method = "session/new";
        let (listener, items) = mpsc::channel(CLIENT_UPDATES_MAX);
        let frame = |id: &RequestId| requests::new_session(id, &said(cwd));
        let (id, answer) = self.request_entering(method, frame, Some(listener)).await?;
        let session = session_at(&answer).ok_or(ClientError::BadAnswer {
            method,
            id,
            problem: "has no usable session id",
        })?;
        Ok((attached(session, &answer), Watch { items }))
    }

    /// Hears what happens in `session` from now on; before it is entered, so that nothing is missed.
    /// What is not read holds up the connection, the answer to entering it too.
    pub async fn watch(&self, session: SessionId) -> Result<Watch, ClientError> {
        let (listener, items) = mpsc::channel(CLIENT_UPDATES_MAX);
        let (begun, has_begun) = oneshot::channel();
        let command = Command::Watch {
            session,
            listener,
            begun,
        };
        let deadline = self.deadline();
        self.hand_over("watch", "none", command, deadline).await?;
        match timeout_at(deadline.at, has_begun).await {
            Ok(Ok(())) => Ok(Watch { items }),
            Ok(Err(_)) => Err(self.gone("watch", "none")),
            Err(_) => Err(ClientError::Timeout {
                method: "watch",
                id: "none".to_owned(),
                seconds: deadline.seconds,
            }),
        }
    }

    /// Sends a prompt to a session that is watched, which tells what it leads to. It waits behind a
    /// turn that runs.
    pub async fn prompt_watched(
        &self,
        session: SessionId,
        text: &str,
    ) -> Result<PromptId, ClientError> {
        let request = new_id();
        let prompt = PromptId::random();
        let meta = FastnessMeta {
            prompt_id: Some(prompt.clone()),
            queue: true,
            ..FastnessMeta::default()
        };
        let blocks = [json!({"type": "text", "text": text})];
        let id = RequestId::string(request.as_str());
        let reply = Reply::Watch {
            session,
            prompt: prompt.clone(),
        };
        let command = Command::Request(Request {
            frame: requests::prompt(&id, session, &blocks, &meta),
            id: request.clone(),
            method: PROMPT,
            deadline: None,
            reply,
            listener: None,
        });
        self.hand_over(PROMPT, &request, command, self.deadline())
            .await?;
        Ok(prompt)
    }
}
