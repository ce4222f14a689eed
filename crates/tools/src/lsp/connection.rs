//! One language server at work: its pipes, what is said over them, and what it says unasked.
//!
//! Everything here is cancel safe: a caller that goes leaves bytes in buffers and a number that
//! nobody waits for.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::{
    LSP_COMPLAINT_BYTES_MAX, LSP_HEARD_BYTES_MAX, LSP_UNSENT_BYTES_MAX, LSP_WORKS_MAX,
    PROCESS_DRAIN_WAIT,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use super::answers::Problem;
use super::frames::{FrameError, Frames, framed};
use crate::plain::plain;
use crate::sandbox::{Piped, PipedComplaints, PipedInput, PipedOutput};

/// The protocol's number for a method that is not there.
const METHOD_NOT_FOUND: i32 = -32601;

/// Numbers with which a server says that it is not ready: the content changed, it was cancelled.
const NOT_READY: [i64; 2] = [-32801, -32802];

/// Settings that a server asks for at once; each is answered with nothing.
const SETTINGS_ASKED_MAX: usize = 256;

/// Why a server did not answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It cannot go on.
    Broken(FrameError),
    /// It reads nothing of what is written to it.
    NotReading,
    /// It said no.
    Refused {
        /// What it said.
        message: String,
        /// Whether it may say otherwise later.
        is_early: bool,
    },
    /// It does not know how.
    NotOffered,
}

impl From<FrameError> for Failed {
    fn from(error: FrameError) -> Self {
        Self::Broken(error)
    }
}

/// A server and what is known of it.
pub(super) struct Connection {
    /// Ends with this.
    program: Piped,
    input: PipedInput,
    frames: Frames<PipedOutput>,
    complaints: Complaints,
    unsent: Vec<u8>,
    asked: u64,
    folder: Value,
    /// Work that it reports, by the names it gives.
    works: HashSet<String>,
    /// Whether it says itself that it is still reading the project.
    says_busy: bool,
    /// The document that problems are kept for, and the newest of them.
    watched: Option<(String, Option<Vec<Problem>>)>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

/// An answer to something that was asked.
struct Answered {
    id: u64,
    result: Result<String, Failed>,
}

impl Connection {
    /// Speaks to `program`, which works in the folder `root`.
    pub(super) fn new(mut program: Piped, root: &str) -> Option<Self> {
        let input = program.input.take()?;
        let frames = Frames::new(program.output.take()?);
        let complaints = Complaints::of(program.complaints.take()?);
        Some(Self {
            program,
            input,
            frames,
            complaints,
            unsent: Vec::new(),
            asked: 0,
            folder: json!({"uri": root, "name": "workspace"}),
            works: HashSet::new(),
            says_busy: false,
            watched: None,
        })
    }

    /// What one that has ended complained of last, in one line.
    pub(super) async fn last_words(&mut self) -> String {
        // They may come a moment later than the end of its answers.
        let _ = tokio::time::timeout(PROCESS_DRAIN_WAIT, self.program.wait()).await;
        let _ = tokio::time::timeout(PROCESS_DRAIN_WAIT, self.complaints.ended()).await;
        self.complaints.text()
    }

    /// Bytes that it has said so far.
    pub(super) fn heard(&self) -> u64 {
        self.frames.heard()
    }

    /// Whether it is still reading the project, by what it says.
    pub(super) fn is_busy(&self) -> bool {
        self.says_busy || !self.works.is_empty()
    }

    /// A new question may take as many bytes as any.
    pub(super) fn begin(&mut self) {
        self.frames.allow(LSP_HEARD_BYTES_MAX);
    }

    /// Keeps problems of `uri` only, from now on.
    pub(super) fn watch(&mut self, uri: &str) {
        self.watched = Some((uri.to_owned(), None));
    }

    /// The newest problems of the document that is watched, if it told any since.
    pub(super) fn take_problems(&mut self) -> Option<Vec<Problem>> {
        self.watched.as_mut()?.1.take()
    }

    /// Tells it something.
    ///
    /// # Errors
    /// If too much waits for it already.
    pub(super) fn tell(&mut self, method: &str, params: &Value) -> Result<(), Failed> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Asks it something and waits for the answer; the caller has a deadline.
    ///
    /// # Errors
    /// If it says no, or cannot answer any more.
    pub(super) async fn ask(&mut self, method: &str, params: &Value) -> Result<String, Failed> {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            if let Some(answered) = self.listen().await?
                && answered.id == id
            {
                return answered.result;
            }
        }
    }

    /// Takes back what was asked last, if somebody stopped waiting for it.
    pub(super) fn take_back(&mut self) {
        // What was answered meanwhile is not taken back, and a server says nothing to that.
        let _ = self.tell("$/cancelRequest", &json!({"id": self.asked}));
    }

    /// Hears one more message, whatever it is, while what waits is written.
    ///
    /// # Errors
    /// If there will be none.
    pub(super) async fn hear(&mut self) -> Result<(), Failed> {
        self.listen().await.map(drop)
    }

    /// Says goodbye, as far as it listens at once.
    pub(super) fn leave(&mut self) {
        let _ = self.send(&json!({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"}));
        let _ = self.send(&json!({"jsonrpc": "2.0", "method": "exit"}));
    }

    /// Writes what waits, for as long as the caller cares.
    pub(super) async fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.input.write(&self.unsent).await {
                Ok(count @ 1..) => drop(self.unsent.drain(..count)),
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Failed> {
        if self.unsent.len() > LSP_UNSENT_BYTES_MAX {
            return Err(Failed::NotReading);
        }
        self.unsent.extend(framed(&message.to_string()));
        Ok(())
    }

    async fn listen(&mut self) -> Result<Option<Answered>, Failed> {
        loop {
            tokio::select! {
                body = self.frames.next() => return self.on_body(&body?),
                written = self.input.write(&self.unsent), if !self.unsent.is_empty() => match written {
                    Ok(count @ 1..) => drop(self.unsent.drain(..count)),
                    Ok(0) | Err(_) => return Err(Failed::Broken(FrameError::Ended)),
                },
            }
        }
    }

    fn on_body(&mut self, body: &[u8]) -> Result<Option<Answered>, Failed> {
        let garbage = Failed::Broken(FrameError::Garbage);
        let Ok(message) = serde_json::from_slice::<Message<'_>>(body) else {
            return Err(garbage);
        };
        match (message.method.as_deref(), message.id) {
            (Some(method), Some(id)) => {
                let answer = self.obliging(method, message.params);
                let id: Value = serde_json::from_str(id.get()).map_err(|_| garbage)?;
                let mut reply = json!({"jsonrpc": "2.0", "id": id});
                match answer {
                    Some(result) => reply["result"] = result,
                    None => {
                        let message = "not offered";
                        reply["error"] = json!({"code": METHOD_NOT_FOUND, "message": message});
                    }
                }
                self.send(&reply)?;
                Ok(None)
            }
            (Some(method), None) => {
                self.on_news(method, message.params);
                Ok(None)
            }
            // One that is not ours, or not a number, answers nothing that was asked.
            (None, Some(id)) => Ok(id.get().parse().ok().map(|id| Answered {
                id,
                result: match message.error {
                    Some(refusal) => Err(Failed::Refused {
                        is_early: NOT_READY.contains(&refusal.code),
                        message: refusal.message,
                    }),
                    None => Ok(message.result.map_or("null", RawValue::get).to_owned()),
                },
            })),
            // An answer to something that the server could not read.
            (None, None) => Ok(None),
        }
    }

    /// What a request of the server's gets: what it needs to go on, and nothing that acts.
    fn obliging(&self, method: &str, params: Option<&RawValue>) -> Option<Value> {
        match method {
            "workspace/configuration" => {
                #[derive(Deserialize)]
                struct Asked {
                    items: Vec<serde::de::IgnoredAny>,
                }
                let asked = params.and_then(|params| serde_json::from_str(params.get()).ok());
                let count = asked.map_or(0, |asked: Asked| asked.items.len());
                Some(Value::Array(vec![
                    Value::Null;
                    count.min(SETTINGS_ASKED_MAX)
                ]))
            }
            "workspace/workspaceFolders" => Some(json!([self.folder])),
            "workspace/applyEdit" => Some(json!({"applied": false})),
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest" => Some(Value::Null),
            _ => None,
        }
    }

    fn on_news(&mut self, method: &str, params: Option<&RawValue>) {
        let Some(params) = params.map(RawValue::get) else {
            return;
        };
        match method {
            "textDocument/publishDiagnostics" => {
                #[derive(Deserialize)]
                struct Told {
                    uri: String,
                    #[serde(default)]
                    diagnostics: Vec<Problem>,
                }
                if let (Ok(told), Some((uri, problems))) =
                    (serde_json::from_str::<Told>(params), &mut self.watched)
                    && told.uri == *uri
                {
                    *problems = Some(told.diagnostics);
                }
            }
            "$/progress" => self.on_progress(params),
            "experimental/serverStatus" => {
                #[derive(Deserialize)]
                struct Status {
                    quiescent: bool,
                }
                if let Ok(status) = serde_json::from_str::<Status>(params) {
                    self.says_busy = !status.quiescent;
                }
            }
            // What it would like people to read.
            _ => {}
        }
    }

    fn on_progress(&mut self, params: &str) {
        #[derive(Deserialize)]
        struct Progress<'a> {
            #[serde(borrow)]
            token: &'a RawValue,
            value: Step,
        }
        #[derive(Deserialize)]
        struct Step {
            kind: String,
        }
        let Ok(progress) = serde_json::from_str::<Progress<'_>>(params) else {
            return;
        };
        let token = progress.token.get();
        match progress.value.kind.as_str() {
            "begin" if self.works.len() < LSP_WORKS_MAX && token.len() < 256 => {
                self.works.insert(token.to_owned());
            }
            "end" => drop(self.works.remove(token)),
            _ => {}
        }
    }
}

/// The end of what a server complains of.
struct Complaints {
    newest: Arc<Mutex<Vec<u8>>>,
    /// Open for as long as there may be more.
    more: watch::Receiver<()>,
}

impl Complaints {
    /// Reads `pipe` to its end, so that the server never waits for a reader; it ends with it.
    fn of(mut pipe: PipedComplaints) -> Self {
        let newest = Arc::new(Mutex::new(Vec::new()));
        let (open, more) = watch::channel(());
        let kept = Arc::clone(&newest);
        tokio::spawn(async move {
            let mut chunk = vec![0; 4 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
                let mut newest = kept.lock().unwrap_or_else(PoisonError::into_inner);
                newest.extend_from_slice(&chunk[..count]);
                let excess = newest.len().saturating_sub(LSP_COMPLAINT_BYTES_MAX);
                newest.drain(..excess);
            }
            drop(open);
        });
        Self { newest, more }
    }

    async fn ended(&mut self) {
        while self.more.changed().await.is_ok() {}
    }

    fn text(&self) -> String {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        crate::builtin::one_line(&plain(&newest))
    }
}
