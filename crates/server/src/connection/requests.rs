//! What each request of a client does. A reply comes back through [`Answers`](super::Answers).

use std::sync::Arc;

use auth::Scope;
use domain::limits::LIST_PAGE_MAX;
use domain::{EventSeq, FailureKind, MessageId, SessionId};
use meters::label::Ignored;
use session::client_side::ClientSide;
use session::handle::Reply;
use session::{Accepted, CommandError, Fate, Mode, Patience, Rewound, Wanted};
use wire::acp::{
    self, ClientMessage, ConfigValue, LOGIN_METHOD, LoginOffer, SessionEntry, SessionRef,
};
use wire::rpc::{RequestId, RpcError};

use super::Connection;
use super::asking::Port;
use super::attachment::{Attachment, command_error, dropped_answer, outcome_answer, storage_error};
use super::servers::named_servers;
use super::waiting::Standing;
use crate::service::{LoginState, Service, WantedRoots};

impl Connection {
    pub(super) fn serve_request(&mut self, id: RequestId, message: ClientMessage) {
        match message {
            ClientMessage::Initialize(initialize) => {
                let login = match self.principal.is_local() {
                    true if initialize.capabilities.terminal_login => LoginOffer::Terminal,
                    true => LoginOffer::Agent,
                    // The keys are not theirs.
                    false => LoginOffer::None,
                };
                self.capabilities = Some(initialize.capabilities);
                let bytes_max = self.service.limits.message_bytes_max;
                let result = acp::initialize_result(env!("CARGO_PKG_VERSION"), bytes_max, login);
                self.answers.result(&id, &result);
            }
            ClientMessage::Authenticate(method) => self.authenticate(&id, &method),
            // The connection was admitted by its token; keys are removed by `fastness logout`.
            ClientMessage::Logout => self.answers.result(&id, &acp::empty_result()),
            ClientMessage::NewSession(new) => self.new_session(id, new),
            ClientMessage::LoadSession(attach) => self.load(id, attach),
            ClientMessage::ResumeSession(attach) => self.resume(id, attach),
            ClientMessage::ListSessions(list) => self.list(id, list),
            ClientMessage::CloseSession(session) => self.close(id, session),
            ClientMessage::DeleteSession(session) => self.delete(id, session),
            ClientMessage::Prompt(prompt) => self.prompt(id, prompt),
            ClientMessage::SetMode(set) => self.set_mode(id, set.session, &set.mode, Shape::Empty),
            ClientMessage::SetConfigOption(set) => self.set_config_option(id, &set),
            ClientMessage::Rewind(rewind) => self.rewind(id, &rewind),
            ClientMessage::Cancel(_) | ClientMessage::CancelRequest(_) => {
                self.answers
                    .error(&id, RpcError::invalid_request("this is a notification"));
            }
            ClientMessage::Unknown(method) => {
                self.answers.error(&id, RpcError::method_not_found(&method));
            }
        }
    }

    /// The connection itself was admitted already; what may be missing is a key for a model.
    fn authenticate(&self, id: &RequestId, method: &str) {
        let is_login = method == LOGIN_METHOD && self.principal.is_local();
        let advice = match self.service.model_login.state() {
            _ if !is_login => None,
            LoginState::Ready => None,
            LoginState::StoredSinceStart => {
                Some("an API key was stored after Fastness started; restart it to use the key")
            }
            LoginState::Missing => Some(
                "no API key is stored; run `fastness login` in a terminal, then restart Fastness",
            ),
        };
        match advice {
            None => self.answers.result(id, &acp::empty_result()),
            Some(advice) => self.answers.error(id, RpcError::login_required(advice)),
        }
    }

    fn new_session(&mut self, id: RequestId, new: acp::NewSession) {
        if !self.principal.may_create() {
            return self.answers.error(&id, RpcError::scope());
        }
        // A client with files of its own may mean a directory that only it has.
        let has_files = self.capabilities.as_ref();
        let has_files = has_files.is_some_and(|capabilities| capabilities.read_text_file);
        let must_exist = !has_files;
        let servers = named_servers(&self.principal, &new.mcp_servers);
        let mut paths = vec![new.cwd];
        paths.extend(new.additional_directories);
        self.enter_new(id, WantedRoots { paths, must_exist }, servers);
    }

    fn list(&self, id: RequestId, list: acp::ListSessions) {
        let after = match list
            .cursor
            .map(|cursor| cursor.parse::<SessionId>())
            .transpose()
        {
            Ok(after) => after,
            Err(_) => {
                return self
                    .answers
                    .error(&id, RpcError::invalid_params("unknown cursor"));
            }
        };
        let (answers, service) = (Arc::clone(&self.answers), Arc::clone(&self.service));
        let principal = self.principal.clone();
        self.service.connections.spawn(async move {
            let wanted = Wanted {
                cwd: list.cwd,
                after,
                count_max: LIST_PAGE_MAX,
            };
            match service.sessions.list(&principal, wanted).await {
                Ok(page) => {
                    let metas = page.sessions.into_iter().map(|glance| glance.meta);
                    let entries: Vec<_> = metas.map(entry).collect();
                    let next = page.next.map(|next| next.to_string());
                    answers.result(&id, &acp::list_result(&entries, next.as_deref()));
                }
                Err(error) => {
                    tracing::warn!(%error, "sessions could not be listed");
                    answers.error(&id, RpcError::internal());
                }
            }
        });
    }

    fn prompt(&mut self, id: RequestId, prompt: acp::Prompt) {
        let Some(attachment) = self.attached(&id, prompt.session) else {
            return;
        };
        let message_id = MessageId::random();
        let (answers, waiting) = (Arc::clone(&self.answers), Arc::clone(&attachment.waiting));
        let service = Arc::clone(&self.service);
        let handle = attachment.handle.clone();
        waiting.prompt_sent(&id, message_id.clone());
        let wanted = session::Prompt {
            text: prompt.text,
            blocks: prompt.blocks,
            prompt_id: prompt.meta.prompt_id,
            message_id: Some(message_id),
            queue: prompt.meta.queue,
            patience: match prompt.meta.wait_for_servers {
                true => Patience::UntilStarted,
                false => Patience::Brief,
            },
            client: self.client_side(attachment.handle.id()),
            trace: self.answers.trace(&id),
        };
        let reply = move |accepted: Result<Accepted, CommandError>| {
            let accepted = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    waiting.prompt_refused(&id);
                    let refusal = match error {
                        CommandError::Closed => absent(&service),
                        CommandError::Scope
                        | CommandError::Busy
                        | CommandError::Limit(_)
                        | CommandError::Invalid(_)
                        | CommandError::Failed(_) => command_error(&error),
                    };
                    return answers.error(&id, refusal);
                }
            };
            match waiting.prompt_accepted(&id, &accepted) {
                Some(Standing::Running(turn)) => handle.cancel_turn(turn),
                Some(Standing::Queued(seq)) => handle.drop_queued(seq),
                Some(Standing::Sent) | None => {}
            }
            // Otherwise the pump answers when it passes the turn's end.
            if let Accepted::Repeated(fate @ (Fate::Ended(_) | Fate::Dropped), head) = accepted {
                waiting.answer_after(head, id, fate_answer(&fate));
            }
        };
        attachment.handle.prompt(wanted, Box::new(reply));
    }

    /// This client's own files and terminals, for a turn that it starts.
    pub(super) fn client_side(&self, session: SessionId) -> Option<Arc<dyn ClientSide>> {
        let (limits, tasks) = (&self.service.limits, &self.service.connections);
        let capabilities = self.capabilities?;
        let port = Port::new(
            &self.asking,
            session,
            capabilities,
            limits.client_request,
            tasks,
        );
        Some(Arc::new(port?))
    }

    pub(super) fn cancel(&self, session: SessionRef) {
        let attachment = session
            .ok()
            .and_then(|session| self.attachments.get(&session));
        match attachment {
            Some(attachment) => attachment.handle.cancel(),
            None => {
                meters::IGNORED.of(Ignored::Cancel).count();
                tracing::debug!("a cancel for a session that is not attached was ignored");
            }
        }
    }

    /// Cancels one request: a prompt by its turn or its place in the queue, one that waits for
    /// its session to be entered by refusing it; others are done too soon to care.
    pub(super) fn cancel_request(&mut self, request: &RequestId) {
        for waiting in self.attaching.values_mut() {
            let at = waiting
                .iter()
                .position(|(id, _)| id.as_ref() == Some(request));
            if at.and_then(|at| waiting.remove(at)).is_some() {
                return self.answers.error(request, RpcError::cancelled());
            }
        }
        for attachment in self.attachments.values() {
            match attachment.waiting.take_back(request) {
                Some(Standing::Running(turn)) => return attachment.handle.cancel_turn(turn),
                Some(Standing::Queued(seq)) => return attachment.handle.drop_queued(seq),
                Some(Standing::Sent) => return,
                None => {}
            }
        }
    }

    fn set_mode(&mut self, id: RequestId, session: SessionRef, mode: &str, shape: Shape) {
        let Some(attachment) = self.attached(&id, session) else {
            return;
        };
        let mode: Mode = match mode.parse() {
            Ok(mode) => mode,
            Err(error) => {
                return self
                    .answers
                    .error(&id, RpcError::invalid_params(format!("{error}")));
            }
        };
        let answered = self.settings_answered(id, attachment, shape);
        attachment.handle.set_mode(mode, answered);
    }

    fn set_config_option(&mut self, id: RequestId, set: &acp::SetConfigOption) {
        let ConfigValue::Choice(value) = &set.value else {
            return self
                .answers
                .error(&id, RpcError::invalid_params("this option takes a choice"));
        };
        match set.option.as_str() {
            "mode" => self.set_mode(id, set.session, value, Shape::Options),
            "model" => {
                let Some(attachment) = self.attached(&id, set.session) else {
                    return;
                };
                let answered = self.settings_answered(id, attachment, Shape::Options);
                attachment.handle.set_model(value.clone(), answered);
            }
            _ => self.refuse_option(id, set.session, "the options are mode and model"),
        }
    }

    /// How a change of settings is answered: with what is set then, if the client wants to know.
    fn settings_answered(
        &self,
        id: RequestId,
        attachment: &Attachment,
        shape: Shape,
    ) -> Reply<Result<(), CommandError>> {
        let (answers, service) = (Arc::clone(&self.answers), Arc::clone(&self.service));
        let handle = attachment.handle.clone();
        Box::new(move |done| match (done, shape) {
            (Err(error), _) => answers.error(&id, command_error(&error)),
            (Ok(()), Shape::Empty) => answers.result(&id, &acp::empty_result()),
            (Ok(()), Shape::Options) => handle.config(Box::new(move |config| match config {
                Ok(config) => {
                    let shown = service.settings(&config);
                    let result = acp::set_config_option_result(&shown.settings());
                    answers.result(&id, &result);
                }
                Err(error) => answers.error(&id, command_error(&error)),
            })),
        })
    }

    fn rewind(&mut self, id: RequestId, rewind: &acp::Rewind) {
        let Some(attachment) = self.attached(&id, rewind.session) else {
            return;
        };
        let (answers, waiting) = (Arc::clone(&self.answers), Arc::clone(&attachment.waiting));
        let reply = move |rewound: Result<Rewound, CommandError>| match rewound {
            // Whoever undoes is first sent what it undoes, so that it knows what to drop.
            Ok(Rewound { to, at }) => {
                waiting.answer_after(at, id, Ok(acp::rewind_result(to, at)));
            }
            Err(error) => answers.error(&id, command_error(&error)),
        };
        attachment.handle.rewind(rewind.to, Box::new(reply));
    }

    fn refuse_option(&mut self, id: RequestId, session: SessionRef, why: &str) {
        if self.attached(&id, session).is_some() {
            self.answers.error(&id, RpcError::invalid_params(why));
        }
    }

    fn close(&mut self, id: RequestId, session: SessionRef) {
        let left = session
            .ok()
            .and_then(|session| self.attachments.remove(&session));
        let Some(attachment) = left else {
            return self.answers.error(&id, RpcError::session_not_found());
        };
        let waiting = Arc::clone(&attachment.waiting);
        let reply = move |closed: Result<EventSeq, CommandError>| match closed {
            // The pump first sends what led to the end.
            Ok(seq) => waiting.leave_after(seq, id, Ok(acp::empty_result())),
            Err(CommandError::Closed) => {
                waiting.leave_after(EventSeq(0), id, Ok(acp::empty_result()));
            }
            Err(error) => waiting.leave_after(EventSeq(0), id, Err(command_error(&error))),
        };
        attachment.handle.close(Box::new(reply));
        // From here on the session is not attached; its pump lives until it has said goodbye.
        self.leaving.push(attachment);
    }

    fn delete(&self, id: RequestId, session: SessionRef) {
        if self.principal.scope() == Scope::Observe {
            return self.answers.error(&id, RpcError::scope());
        }
        let Ok(session) = session else {
            // An id that is no id is a mistake. An id of no session counts as deleted.
            let message = "`sessionId` is not the id of a session";
            return self.answers.error(&id, RpcError::invalid_params(message));
        };
        let (answers, service) = (Arc::clone(&self.answers), Arc::clone(&self.service));
        let principal = self.principal.clone();
        self.service.connections.spawn(async move {
            match service.delete_session(&principal, session).await {
                Ok(()) => answers.result(&id, &acp::empty_result()),
                Err(kind) => answers.error(&id, RpcError::turn_failed(&storage_error(kind))),
            }
        });
    }

    /// The attachment a request names; without one the request is answered here.
    fn attached(&self, id: &RequestId, session: SessionRef) -> Option<&Attachment> {
        let found = session
            .ok()
            .and_then(|session| self.attachments.get(&session));
        if found.is_none() {
            self.answers.error(id, absent(&self.service));
        }
        found
    }
}

/// The answer to a prompt that was over before it was sent again.
fn fate_answer(fate: &Fate) -> Result<serde_json::Value, RpcError> {
    match fate {
        Fate::Ended(outcome) => outcome_answer(outcome, None),
        Fate::Dropped | Fate::Running(_) | Fate::Queued(_) => Ok(dropped_answer()),
    }
}

/// How the answer to a change of mode looks.
#[derive(Clone, Copy)]
enum Shape {
    Empty,
    Options,
}

/// What a client is told of a session that is not there for it: when the process is ending, a
/// session leaves as soon as its turn is over, and its clients must not take it for lost.
fn absent(service: &Service) -> RpcError {
    if service.sessions.is_draining() {
        return RpcError::turn_failed(&storage_error(FailureKind::Draining));
    }
    RpcError::session_not_found()
}

/// What a client is told when a session cannot be entered.
pub(super) fn attach_error(error: &session::AttachError) -> RpcError {
    match error {
        session::AttachError::NotFound => RpcError::session_not_found(),
        session::AttachError::WrongCwd => {
            RpcError::invalid_params("cwd must be the session's own directory")
        }
        session::AttachError::HoldsDataDirectory => {
            RpcError::data_directory_in_root(error.to_string())
        }
        session::AttachError::Failed(kind) => RpcError::turn_failed(&storage_error(*kind)),
        session::AttachError::Limit(name) => RpcError::limit(name),
    }
}

fn entry(meta: session::Meta) -> SessionEntry {
    SessionEntry {
        session: meta.id,
        cwd: meta.cwd,
        additional_directories: Vec::new(),
        title: meta.title,
        updated_at: Some(meta.updated_at),
    }
}
