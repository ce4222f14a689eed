//! The server's requests to the caller. A question to a person survives the connection on which it
//! was asked: the server asks it again, and this knows it by its name.

use std::collections::{HashMap, VecDeque};

use domain::SessionId;
use domain::limits::{CLIENT_REQUESTS_MAX, KEPT_ANSWERS_MAX};
use serde_json::Value;
use serde_json::value::RawValue;
use wire::acp::{AgentMessage, cancel_request, decode_agent};
use wire::rpc::{self, RequestId, RpcError};

use super::Effects;
use crate::message::{meta, session_at, text_at};

/// What the server waits for, and what it may not have heard.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// By the id that the caller knows.
    open: HashMap<RequestId, Asked>,
    answered: VecDeque<(Question, Answer)>,
}

type Answer = Result<Box<RawValue>, RpcError>;

/// The server's name of a question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    session: SessionId,
    name: String,
}

#[derive(Debug)]
struct Asked {
    /// The id under which the server waits; `None` while it has not asked again.
    server: Option<RequestId>,
    about: Option<About>,
}

#[derive(Debug)]
struct About {
    question: Question,
    call: Option<String>,
}

impl Questions {
    /// The server asks for something.
    pub(super) fn asked(
        &mut self,
        frame: String,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Effects {
        let about = (method == "session/request_permission")
            .then(|| about(params))
            .flatten();
        if let Some(about) = &about {
            if let Some(answer) = self.take_answer(&about.question) {
                return Effects::on(match answer {
                    Ok(result) => rpc::response(&id, &result).unwrap_or_default(),
                    Err(error) => rpc::error_response(&id, &error),
                });
            }
            if let Some(waiting) = self.waiting_for(&about.question) {
                waiting.server = Some(id);
                return Effects::default();
            }
        }
        if let Some(about) = &about {
            // The caller attached again to a session whose question it had left open.
            self.take(|asked| {
                let of = asked.about.as_ref();
                of.is_some_and(|of| of.question == about.question)
            });
        }
        if self.open.len() >= CLIENT_REQUESTS_MAX {
            return Effects::on(rpc::error_response(&id, &RpcError::internal()));
        }
        let server = Some(id.clone());
        self.open.insert(id, Asked { server, about });
        Effects::back(frame)
    }

    /// The caller answers `id`; gives the id under which the server waits for it, if it does.
    pub(super) fn answered(&mut self, id: &RequestId, answer: &Answer) -> Option<RequestId> {
        let asked = self.open.remove(id)?;
        if let Some(about) = asked.about {
            // The connection may end before it arrives; then the server asks again.
            if self.answered.len() >= KEPT_ANSWERS_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back((about.question, answer.clone()));
        }
        asked.server
    }

    /// The connection is gone; gives what the caller need not answer any more.
    pub(super) fn lost(&mut self) -> Vec<RequestId> {
        for asked in self.open.values_mut() {
            asked.server = None;
        }
        self.take(|asked| asked.about.is_none())
    }

    /// The server withdraws a request.
    pub(super) fn withdrawn(&mut self, frame: String, params: Option<&RawValue>) -> Effects {
        let Ok(AgentMessage::CancelRequest(id)) = decode_agent("$/cancel_request", params) else {
            return Effects::default();
        };
        match self.take(|asked| asked.server.as_ref() == Some(&id)).pop() {
            Some(known) if known == id => Effects::back(frame),
            Some(known) => Effects::back(cancel_request(&known)),
            None => Effects::default(),
        }
    }

    /// A turn of `session` ended: what was not asked again by now will not be.
    pub(super) fn ended(&mut self, session: SessionId) -> Vec<RequestId> {
        self.take(|asked| {
            let about = asked.about.as_ref();
            asked.server.is_none() && about.is_some_and(|it| it.question.session == session)
        })
    }

    /// A call of `session` has its outcome, so that nobody asks about it any more.
    pub(super) fn call_ended(&mut self, session: SessionId, call: &str) -> Vec<RequestId> {
        self.take(|asked| {
            asked.server.is_none()
                && asked.about.as_ref().is_some_and(|about| {
                    about.question.session == session && about.call.as_deref() == Some(call)
                })
        })
    }

    fn take(&mut self, mut is_it: impl FnMut(&Asked) -> bool) -> Vec<RequestId> {
        let taken = self.open.extract_if(|_, asked| is_it(asked));
        taken.map(|(id, _)| id).collect()
    }

    fn take_answer(&mut self, question: &Question) -> Option<Answer> {
        let at = self.answered.iter().position(|(of, _)| of == question)?;
        self.answered.remove(at).map(|(_, answer)| answer)
    }

    fn waiting_for(&mut self, question: &Question) -> Option<&mut Asked> {
        self.open.values_mut().find(|asked| {
            let about = asked.about.as_ref();
            asked.server.is_none() && about.is_some_and(|about| about.question == *question)
        })
    }
}

fn about(params: Option<&RawValue>) -> Option<About> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    Some(About {
        question: Question {
            session: session_at(&params)?,
            name: text_at(meta(&params), "question")?,
        },
        call: text_at(&params["toolCall"], "toolCallId"),
    })
}
