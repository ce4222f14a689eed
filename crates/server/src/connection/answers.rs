//! One connection's open requests, both ways: each request gets exactly one answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::event::PermissionOption;
use domain::ids::PermissionId;
use domain::limits::{PROMPTS_IN_FLIGHT_MAX, REQUESTS_IN_FLIGHT_MAX};
use domain::{SessionId, TraceParent};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use wire::acp::{self, ClientCapabilities, FormReply, PermissionReply};
use wire::rpc::{self, RequestId, RpcError};

use super::access::Access;
use super::outbox::Outbox;

/// Requests of the client that wait for us, and questions of ours that wait for the client.
#[derive(Default)]
pub(crate) struct Answers {
    open: Mutex<Open>,
    answered: Notify,
}

#[derive(Default)]
struct Open {
    requests: HashMap<RequestId, Request>,
    prompts: usize,
    /// Those who may hold an answer that is not in the outbox yet.
    senders: usize,
    questions: HashMap<RequestId, Asked>,
}

/// A request in flight.
struct Request {
    is_prompt: bool,
    /// Where its answer goes.
    lane: Outbox,
    access: Access,
}

/// A question this client was asked.
pub(crate) struct Asked {
    pub(crate) session: SessionId,
    pub(crate) question: PermissionId,
    way: Way,
    _counted: meters::Held,
}

/// How a question was put.
enum Way {
    /// As a choice among these.
    Choice(Vec<String>),
    /// As a form.
    Form,
    /// As a form of a tool server's.
    ServerForm,
}

impl Asked {
    /// What the client's response means. One that cannot be understood is no person's answer.
    pub(crate) fn read(&self, outcome: &Result<Box<RawValue>, RpcError>) -> session::Answer {
        let Ok(result) = outcome else {
            return session::Answer::Unable;
        };
        match &self.way {
            Way::Choice(options) => match acp::permission_outcome(result) {
                PermissionReply::Selected(option) if options.contains(&option) => {
                    session::Answer::Selected(option)
                }
                PermissionReply::Explained { option, reason } if options.contains(&option) => {
                    session::Answer::Explained { option, reason }
                }
                PermissionReply::Cancelled => session::Answer::Dismissed,
                PermissionReply::Selected(_)
                | PermissionReply::Explained { .. }
                | PermissionReply::Invalid => session::Answer::Unable,
            },
            Way::Form => filled_in(acp::form_reply(result)),
            Way::ServerForm => filled_in(acp::server_form_reply(result)),
        }
    }
}

fn filled_in(reply: FormReply) -> session::Answer {
    match reply {
        FormReply::Said(words) => session::Answer::Said(words),
        FormReply::Filled(content) => session::Answer::Filled(content),
        FormReply::Declined => session::Answer::Dismissed,
        FormReply::Invalid => session::Answer::Unable,
    }
}

impl Answers {
    /// Takes note of a request, and where its answer goes.
    ///
    /// # Errors
    /// If its id is in use, or too many requests wait.
    pub(crate) fn open(
        &self,
        id: &RequestId,
        is_prompt: bool,
        lane: Outbox,
        access: Access,
    ) -> Result<(), RpcError> {
        let mut open = self.lock();
        if open.requests.contains_key(id) {
            return Err(RpcError::invalid_request(
                "duplicate id: that request is still open",
            ));
        }
        let others = open.requests.len() - open.prompts;
        match is_prompt {
            true if open.prompts >= PROMPTS_IN_FLIGHT_MAX => {
                return Err(RpcError::limit("prompts_in_flight"));
            }
            false if others >= REQUESTS_IN_FLIGHT_MAX => {
                return Err(RpcError::limit("requests_in_flight"));
            }
            true | false => {}
        }
        open.prompts += usize::from(is_prompt);
        let request = Request {
            is_prompt,
            lane,
            access,
        };
        open.requests.insert(id.clone(), request);
        Ok(())
    }

    /// The trace that a request in flight belongs to.
    pub(crate) fn trace(&self, id: &RequestId) -> Option<TraceParent> {
        let open = self.lock();
        open.requests.get(id).and_then(|open| open.access.trace())
    }

    /// Whether nothing but prompts waits for us, and no answer is on its way into the outbox.
    pub(crate) fn only_prompts_open(&self) -> bool {
        let open = self.lock();
        open.requests.len() == open.prompts && open.senders == 0
    }

    /// To be held by whoever takes answers to put them into a stream, until they are there.
    pub(crate) fn sending(&self) -> Sending<'_> {
        self.lock().senders += 1;
        Sending(self)
    }

    /// Returns when a request has been answered since the last time.
    pub(crate) async fn answered(&self) {
        self.answered.notified().await;
    }

    /// Whether no request waits for us.
    pub(crate) fn none_open(&self) -> bool {
        self.lock().requests.is_empty()
    }

    /// Answers a request, once. Whatever comes later for the same id is dropped.
    pub(crate) fn result(&self, id: &RequestId, result: &impl Serialize) {
        if let Some(Request { lane, access, .. }) = self.close(id) {
            lane.answer(result_frame(id, result));
            access.served();
        }
    }

    /// Refuses a request, once.
    pub(crate) fn error(&self, id: &RequestId, error: RpcError) {
        if let Some(Request { lane, access, .. }) = self.close(id) {
            lane.answer(refusal_frame(id, error, access));
        }
    }

    /// The frame that answers a request, for whoever must send it in order with a stream; `None`
    /// if it has been answered.
    pub(crate) fn result_in_stream(
        &self,
        id: &RequestId,
        result: &impl Serialize,
    ) -> Option<String> {
        let Request { access, .. } = self.close(id)?;
        access.served();
        Some(result_frame(id, result))
    }

    /// As [`Answers::result_in_stream`], for a refusal.
    pub(crate) fn error_in_stream(&self, id: &RequestId, error: RpcError) -> Option<String> {
        let Request { access, .. } = self.close(id)?;
        Some(refusal_frame(id, error, access))
    }

    /// Registers a question, then gives the frame that asks it: an answer can never come too soon.
    pub(crate) fn question(
        &self,
        session: SessionId,
        asked: &session::Asked,
        client: ClientCapabilities,
    ) -> String {
        let id = RequestId::string(uuid());
        let choice = |options: &[PermissionOption]| {
            let ids = options.iter().map(|option| option.option_id.clone());
            Way::Choice(ids.collect())
        };
        let (way, frame) = match asked {
            session::Asked::Permission(asked) => {
                let frame = acp::permission_request(&id, session, asked);
                (choice(&asked.options), frame)
            }
            session::Asked::Person(asked) if client.forms && acp::is_form(asked) => {
                let way = match asked.form.is_some() {
                    true => Way::ServerForm,
                    false => Way::Form,
                };
                (way, acp::question_form(&id, session, asked))
            }
            session::Asked::Person(asked) => {
                let frame = acp::question_choice(&id, session, asked);
                (choice(&asked.choices()), frame)
            }
        };
        let note = Asked {
            session,
            question: asked.id().clone(),
            way,
            _counted: meters::CLIENT_REQUESTS.hold(),
        };
        self.lock().questions.insert(id, note);
        frame
    }

    /// Takes back a question that was settled elsewhere; gives the frame that says so.
    pub(crate) fn withdraw(&self, question: &PermissionId) -> Option<String> {
        let mut open = self.lock();
        let id = open
            .questions
            .iter()
            .find(|(_, asked)| asked.question == *question)?
            .0
            .clone();
        open.questions.remove(&id);
        Some(acp::cancel_request(&id))
    }

    /// The question that a response with `id` answers, if there is one.
    pub(crate) fn take_question(&self, id: &RequestId) -> Option<Asked> {
        self.lock().questions.remove(id)
    }

    /// Forgets the questions of a session this client left.
    pub(crate) fn forget_session(&self, session: SessionId) {
        self.lock()
            .questions
            .retain(|_, asked| asked.session != session);
    }

    /// Forgets all questions; says how many there were.
    pub(crate) fn forget_questions(&self) -> usize {
        std::mem::take(&mut self.lock().questions).len()
    }

    /// Takes a request out, if it was still open.
    fn close(&self, id: &RequestId) -> Option<Request> {
        let mut open = self.lock();
        let request = open.requests.remove(id)?;
        open.prompts -= usize::from(request.is_prompt);
        self.answered.notify_one();
        Some(request)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who may hold answers; see [`Answers::sending`].
pub(crate) struct Sending<'a>(&'a Answers);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.answered.notify_one();
    }
}

fn result_frame(id: &RequestId, result: &impl Serialize) -> String {
    // Our own types always serialise; if one day they do not, the client must still get an answer.
    rpc::response(id, result).unwrap_or_else(|_| rpc::error_response(id, &RpcError::internal()))
}

/// A refusal carries a name, under which it is found in the log.
fn refusal_frame(id: &RequestId, error: RpcError, access: Access) -> String {
    let request = uuid();
    access.refused(&error, &request);
    rpc::error_response(id, &error.with_request_id(&request))
}

fn uuid() -> String {
    domain::ConnectionId::random().to_string()
}
