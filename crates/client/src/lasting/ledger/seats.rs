//! The sessions that the caller is attached to, and how far it has seen each.

use std::collections::{BTreeMap, HashMap, VecDeque};

use domain::limits::{CLIENT_UPDATES_MAX, KEPT_PROMPTS_MAX, KEPT_SESSIONS_MAX};
use domain::{Cursor, EventSeq, PromptId, SessionId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::acp::{FastnessMeta, Method, ResumeToken, UpdateMeta};
use wire::rpc::{self, RequestId};

use super::kept::{Kept, KeptRequests};
use crate::message::{meta, session_at, text_at};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Seats {
    seats: BTreeMap<SessionId, Seat>,
    /// Prompts of ours that may come back as messages of the user.
    prompts: HashMap<SessionId, VecDeque<PromptId>>,
    /// Updates of an event that has not come whole.
    held: HashMap<SessionId, Vec<String>>,
}

/// One session.
#[derive(Debug)]
struct Seat {
    /// How it was entered, as far as it is the same the next time.
    entrance: Value,
    /// `None` if the server did not tell where its stream began.
    cursor: Option<Cursor>,
    resume_token: Option<ResumeToken>,
}

/// What an update of the server means.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What the caller is told now.
    pub(super) frames: Vec<String>,
    pub(super) has_moved: bool,
    /// A tool call that has its outcome.
    pub(super) call_ended: Option<(SessionId, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notice {
    session_id: SessionId,
    #[serde(default)]
    update: Update,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
    /// Of `_fastness/turn`, `_fastness/queue` and `_fastness/rewound`, which carry no more of the cursor.
    seq: Option<EventSeq>,
    /// Of `_fastness/queue`, which may come while a message is streamed.
    offset: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Update {
    session_update: Option<String>,
    tool_call_id: Option<String>,
    status: Option<String>,
}

#[derive(Deserialize)]
struct Meta {
    fastness: Option<UpdateMeta>,
}

impl Seats {
    /// The sessions, in some order.
    pub(super) fn all(&self) -> Vec<SessionId> {
        self.seats.keys().copied().collect()
    }

    /// The caller sent a prompt.
    pub(super) fn prompted(&mut self, session: SessionId, prompt: PromptId) {
        if self.prompts.len() >= KEPT_SESSIONS_MAX && !self.prompts.contains_key(&session) {
            return;
        }
        let prompts = self.prompts.entry(session).or_default();
        if prompts.len() >= KEPT_PROMPTS_MAX {
            prompts.pop_front();
        }
        prompts.push_back(prompt);
    }

    /// The caller wants to see all of the session, its own prompts too.
    pub(super) fn shows_all(&mut self, session: SessionId) {
        self.prompts.remove(&session);
    }

    /// The caller got into a session.
    pub(super) fn entered(&mut self, kept: &Kept, answer: &Value) {
        let Some(session) = kept.session.or_else(|| session_at(answer)) else {
            return;
        };
        if self.seats.len() >= KEPT_SESSIONS_MAX && !self.seats.contains_key(&session) {
            tracing::warn!(%session, "there are too many sessions; this one will not come back");
            return;
        }
        let params = kept.params();
        let cursor = match kept.method {
            Some(Method::ResumeSession) => cursor_at(answer).or_else(|| wished(&params)),
            _ => Some(kept.loaded.unwrap_or_default()),
        };
        let seat = Seat {
            entrance: entrance(&params),
            cursor,
            resume_token: resume_token(answer),
        };
        self.seats.insert(session, seat);
    }

    /// The caller left a session for good.
    pub(super) fn left(&mut self, session: SessionId) {
        self.seats.remove(&session);
        self.prompts.remove(&session);
        self.held.remove(&session);
    }

    /// The connection is gone. What has not come whole comes again.
    pub(super) fn lost(&mut self) {
        self.held.clear();
    }

    /// The request that goes on where the caller stands.
    pub(super) fn resume(&self, session: SessionId, id: &RequestId) -> Option<String> {
        let seat = self.seats.get(&session)?;
        let meta = FastnessMeta {
            resume_token: seat.resume_token.clone(),
            ..seat.cursor.map(FastnessMeta::after).unwrap_or_default()
        };
        let mut params = seat.entrance.clone();
        params["sessionId"] = json!(session);
        params["_meta"] = json!({"fastness": meta});
        rpc::request(id, "session/resume", &params).ok()
    }

    /// The server let us in again.
    pub(super) fn came_back(&mut self, session: SessionId, answer: &Value) {
        if let Some(from) = meta(answer)["resyncFrom"].as_u64() {
            tracing::warn!(%session, from, "the server lost the end of the session; it comes again");
        }
        if let Some(seat) = self.seats.get_mut(&session) {
            seat.cursor = cursor_at(answer).or(seat.cursor);
            seat.resume_token = resume_token(answer).or(seat.resume_token.take());
        }
    }

    /// The server tells something of a session.
    pub(super) fn told(
        &mut self,
        frame: String,
        params: Option<&RawValue>,
        kept: &mut KeptRequests,
    ) -> Told {
        let text = params.map_or("{}", RawValue::get);
        let Ok(notice) = serde_json::from_str::<Notice>(text) else {
            // Whatever it is, the caller may know it.
            return Told {
                frames: vec![frame],
                ..Told::default()
            };
        };
        let session = notice.session_id;
        let meta = notice.meta.and_then(|meta| meta.fastness);
        let is_more = meta.as_ref().is_some_and(|meta| meta.more);
        let is_own = notice.update.session_update.as_deref() == Some("user_message_chunk")
            && self.is_own(session, meta.as_ref());
        let at = match (&meta, notice.seq) {
            (Some(meta), _) => Some(meta.cursor()),
            (None, Some(seq)) => Some(self.at_event(session, seq, notice.offset)),
            (None, None) => None,
        };
        let frames = self.hold(session, (!is_own).then_some(frame), is_more);
        let mut has_moved = false;
        if let (Some(cursor), false) = (at, is_more) {
            has_moved = self.moved(session, cursor);
            kept.loaded(session, cursor);
        }
        let Update {
            tool_call_id,
            status,
            ..
        } = notice.update;
        let is_over = matches!(status.as_deref(), Some("completed" | "failed"));
        Told {
            frames,
            has_moved,
            call_ended: tool_call_id.filter(|_| is_over).map(|call| (session, call)),
        }
    }

    /// Hands on `frame` and what was held before it, unless more of the same event follows.
    fn hold(&mut self, session: SessionId, frame: Option<String>, is_more: bool) -> Vec<String> {
        if is_more {
            let held = self.held.entry(session).or_default();
            held.extend(frame);
            // Far more than one event has; whoever sends that is not held up for it.
            if held.len() < CLIENT_UPDATES_MAX {
                return Vec::new();
            }
            return std::mem::take(held);
        }
        let mut frames = self.held.remove(&session).unwrap_or_default();
        frames.extend(frame);
        frames
    }

    fn moved(&mut self, session: SessionId, cursor: Cursor) -> bool {
        match self.seats.get_mut(&session) {
            Some(seat) => seat.cursor.replace(cursor) != Some(cursor),
            None => false,
        }
    }

    /// The cursor after an event that has no text, `offset` bytes into a message that is open meanwhile.
    /// What tells of no new event does not move it.
    fn at_event(&self, session: SessionId, seq: EventSeq, offset: Option<u64>) -> Cursor {
        let seat = self.seats.get(&session);
        let before = seat.and_then(|seat| seat.cursor).unwrap_or_default();
        if seq <= before.seq {
            return before;
        }
        Cursor {
            epoch: before.epoch,
            seq,
            offset: offset.unwrap_or(0),
        }
    }

    fn is_own(&self, session: SessionId, meta: Option<&UpdateMeta>) -> bool {
        let prompt = meta.and_then(|meta| meta.prompt_id.as_ref());
        let own = self.prompts.get(&session);
        prompt.is_some_and(|prompt| own.is_some_and(|own| own.contains(prompt)))
    }
}

/// What is said again when the session is entered again.
fn entrance(params: &Value) -> Value {
    let either = |new: &str, old: &str| {
        let value = params.get(new).or_else(|| params.get(old));
        value.filter(|value| !value.is_null()).cloned()
    };
    let mut entrance = json!({
        "cwd": params["cwd"],
        "mcpServers": either("mcpServers", "mcp_servers").unwrap_or_else(|| json!([])),
    });
    if let Some(more) = either("additionalDirectories", "additional_directories") {
        entrance["additionalDirectories"] = more;
    }
    entrance
}

fn cursor_at(answer: &Value) -> Option<Cursor> {
    let cursor = UpdateMeta::deserialize(&meta(answer)["cursor"]).ok()?;
    Some(cursor.cursor())
}

/// Where the caller asked to go on.
fn wished(params: &Value) -> Option<Cursor> {
    let wish = FastnessMeta::deserialize(meta(params)).ok()?;
    Some(Cursor {
        epoch: wish.epoch.unwrap_or_default(),
        seq: wish.after_seq?,
        offset: wish.offset.unwrap_or_default(),
    })
}

fn resume_token(answer: &Value) -> Option<ResumeToken> {
    text_at(meta(answer), "resumeToken").map(ResumeToken::new)
}
