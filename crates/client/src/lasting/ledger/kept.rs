//! The caller's requests until they are answered, and how each is sent again.

use std::collections::VecDeque;

use domain::limits::{KEPT_REQUEST_BYTES_MAX, KEPT_REQUESTS_MAX};
use domain::{Cursor, PromptId, SessionId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::acp::{FastnessMeta, Method, ResumeToken};
use wire::rpc::{self, Incoming, RequestId};

use super::seats::Seats;

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) id: RequestId,
    /// `None` for methods that we do not know.
    pub(super) method: Option<Method>,
    pub(super) session: Option<SessionId>,
    /// The name of a prompt, by which the server knows it when it comes again.
    pub(super) prompt_id: Option<PromptId>,
    pub(super) frame: String,
    /// How far a `session/load` came.
    pub(super) loaded: Option<Cursor>,
    /// That the caller wants it no longer; sent again after it.
    cancel: Option<String>,
}

/// All of them, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct KeptRequests {
    requests: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "sessionId", alias = "session_id")]
    session: Option<SessionId>,
}

impl Kept {
    /// Takes a request; a prompt without a name gets one, so that sending it twice runs it once.
    pub(super) fn new(
        frame: String,
        id: RequestId,
        name: String,
        params: Option<&RawValue>,
    ) -> Self {
        let method = Method::named(&name);
        let text = params.map_or("{}", RawValue::get);
        let named = serde_json::from_str::<Named>(text).ok();
        let mut kept = Self {
            id,
            method,
            session: named.and_then(|named| named.session),
            prompt_id: None,
            frame,
            loaded: None,
            cancel: None,
        };
        if method == Some(Method::Prompt)
            && let Ok(params) = serde_json::from_str(text)
        {
            kept.name_prompt(&name, params);
        }
        kept
    }

    /// The parameters of the request; null if it has none.
    pub(super) fn params(&self) -> Value {
        let Ok(Incoming::Request { params, .. }) = rpc::parse(self.frame.as_bytes()) else {
            return Value::Null;
        };
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok());
        params.unwrap_or_default()
    }

    fn name_prompt(&mut self, method: &str, mut params: Value) {
        let given = params["_meta"]["fastness"]["promptId"].as_str();
        if let Some(given) = given {
            self.prompt_id = Some(PromptId::new(given));
            return;
        }
        // What is no object is the server's to refuse, as it was written.
        let Some(fields) = params.as_object_mut() else {
            return;
        };
        let prompt_id = PromptId::random();
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        if meta.is_null() {
            *meta = json!({});
        }
        let Some(meta) = meta.as_object_mut() else {
            return;
        };
        let ours = meta.entry("fastness").or_insert_with(|| json!({}));
        let Some(ours) = ours.as_object_mut() else {
            return;
        };
        ours.insert("promptId".to_owned(), json!(prompt_id));
        if let Ok(frame) = rpc::request(&self.id, method, &params) {
            self.frame = frame;
            self.prompt_id = Some(prompt_id);
        }
    }

    /// Whether sending it twice does no more than sending it once. A second `session/new` leaves an
    /// empty session behind, which costs nobody anything.
    fn is_repeatable(&self) -> bool {
        match self.method {
            Some(
                Method::Initialize
                | Method::Authenticate
                | Method::Logout
                | Method::NewSession
                | Method::LoadSession
                | Method::ResumeSession
                | Method::ListSessions
                | Method::CloseSession
                | Method::DeleteSession
                | Method::SetMode
                | Method::SetConfigOption,
            ) => true,
            Some(Method::Prompt) => self.prompt_id.is_some(),
            Some(Method::Rewind | Method::Cancel | Method::CancelRequest) | None => false,
        }
    }

    /// The frame that asks for the same again: what was replayed already is not replayed twice.
    fn again(&self) -> String {
        let Some(loaded) = self.loaded else {
            return self.frame.clone();
        };
        let mut params = self.params();
        let token = params["_meta"]["fastness"]["resumeToken"].as_str();
        let meta = FastnessMeta {
            resume_token: token.map(ResumeToken::new),
            ..FastnessMeta::after(loaded)
        };
        params["_meta"] = json!({"fastness": meta});
        let resume = rpc::request(&self.id, "session/resume", &params);
        resume.unwrap_or_else(|_| self.frame.clone())
    }
}

impl KeptRequests {
    /// Keeps a request.
    ///
    /// # Errors
    /// The request's id, if there are too many already.
    pub(super) fn keep(&mut self, kept: Kept) -> Result<(), RequestId> {
        let bytes = self.bytes + kept.frame.len();
        if self.requests.len() >= KEPT_REQUESTS_MAX || bytes > KEPT_REQUEST_BYTES_MAX {
            return Err(kept.id);
        }
        self.bytes = bytes;
        self.requests.push_back(kept);
        Ok(())
    }

    /// The request that `id` answers.
    pub(super) fn take(&mut self, id: &RequestId) -> Option<Kept> {
        let at = self.requests.iter().position(|kept| kept.id == *id)?;
        let kept = self.requests.remove(at)?;
        self.bytes -= kept.frame.len();
        Some(kept)
    }

    /// Forgets what cannot be asked again.
    pub(super) fn take_unrepeatable(&mut self) -> Vec<RequestId> {
        let lost = self.requests.iter().filter(|kept| !kept.is_repeatable());
        let lost: Vec<RequestId> = lost.map(|kept| kept.id.clone()).collect();
        lost.iter().for_each(|id| drop(self.take(id)));
        lost
    }

    /// Forgets all.
    pub(super) fn take_all(&mut self) -> Vec<RequestId> {
        self.bytes = 0;
        self.requests.drain(..).map(|kept| kept.id).collect()
    }

    /// All of them once more, for a new connection.
    pub(super) fn again(&self, seats: &mut Seats) -> Vec<String> {
        let mut frames = Vec::new();
        for kept in &self.requests {
            frames.push(kept.again());
            frames.extend(kept.cancel.clone());
            if let (Some(session), Some(Method::LoadSession), None) =
                (kept.session, kept.method, kept.loaded)
            {
                seats.shows_all(session);
            }
        }
        frames
    }

    /// Whether one waits whose answer is not a turn.
    pub(super) fn is_any_short(&self) -> bool {
        let mut methods = self.requests.iter().map(|kept| kept.method);
        methods.any(|method| method != Some(Method::Prompt))
    }

    /// Whether part of `session` was replayed to a `session/load` without an answer.
    pub(super) fn is_loading(&self, session: SessionId) -> bool {
        let mut loading = self.requests.iter().filter(|kept| kept.loaded.is_some());
        loading.any(|kept| kept.session == Some(session))
    }

    /// A `session/load` of `session` came as far as `cursor`.
    pub(super) fn loaded(&mut self, session: SessionId, cursor: Cursor) {
        let is_it = |kept: &&mut Kept| {
            kept.session == Some(session) && kept.method == Some(Method::LoadSession)
        };
        if let Some(kept) = self.requests.iter_mut().find(is_it) {
            kept.loaded = Some(cursor);
        }
    }

    /// The caller cancels a request, or what runs in a session.
    pub(super) fn cancelled(&mut self, frame: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Cancels {
            #[serde(rename = "sessionId", alias = "session_id")]
            session: Option<SessionId>,
            #[serde(rename = "requestId", alias = "id")]
            request: Option<RequestId>,
        }
        let text = params.map_or("{}", RawValue::get);
        let Ok(cancels) = serde_json::from_str::<Cancels>(text) else {
            return;
        };
        let is_it = |kept: &&mut Kept| match (&cancels.request, cancels.session) {
            (Some(request), _) => kept.id == *request,
            (None, Some(session)) => {
                kept.method == Some(Method::Prompt) && kept.session == Some(session)
            }
            (None, None) => false,
        };
        if let Some(kept) = self.requests.iter_mut().rev().find(is_it) {
            kept.cancel = Some(frame.to_owned());
        }
    }
}
