//! The owner of one language server: starts it when it is asked, asks it one thing at a time, and
//! ends it when it fails, when nobody asks for long, and with the session.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::limits::{
    LSP_ASK_AGAIN, LSP_FAILURES_MAX, LSP_IDLE_TIME_MAX, LSP_NOTHING_NEW_TIME, LSP_SETTLE_TIME,
    PROCESS_DRAIN_WAIT,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::answers::{Abilities, Answer, Operation, Problem};
use super::connection::{Connection, Failed};
use super::disk::Disk;
use super::frames::FrameError;
use super::{Answered, Launch, LspError, Order, Question};
use crate::builtin::one_line;
use crate::plain::line_within;
use crate::roots::Roots;
use crate::sandbox::{Grants, Piped, PipedProgram};
use crate::shell::outside;

/// Characters of what a server says when it refuses.
const REFUSAL_CHARS_MAX: usize = 300;

/// Gives a program in a cage a place for what it keeps, since the home is not its to change: servers
/// that cannot write there answer nothing.
const WITH_CACHE: &str = r#"XDG_CACHE_HOME="$TMPDIR/cache" exec "$@""#;

/// A server that was started and has said what it can do.
struct Server {
    name: String,
    connection: Connection,
    abilities: Abilities,
    /// The document that it was told of: one at a time, so that all else it reads from the disk.
    document: Option<Document>,
    /// The files as it was last told of them.
    disk: Disk,
    /// A document, and the problems that it last told of.
    told: Option<(String, Vec<Problem>)>,
}

struct Document {
    uri: String,
    version: u64,
    text: String,
}

/// How a server's rest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rested {
    /// Nobody asked anything for long.
    Enough,
    /// It cannot go on.
    Failed,
}

/// Answers `orders` until nobody can give any; then the server ends.
pub(super) async fn own(mut orders: mpsc::Receiver<Order>, patience: Duration) {
    let mut server: Option<Server> = None;
    let mut failures = 0;
    loop {
        let order = match &mut server {
            None => orders.recv().await,
            Some(running) => tokio::select! {
                order = orders.recv() => order,
                rested = running.rest() => {
                    failures += u32::from(rested == Rested::Failed);
                    leave(server.take()).await;
                    continue;
                }
            },
        };
        let Some(order) = order else { break };
        let mut reply = order.reply;
        let answer = if failures >= LSP_FAILURES_MAX {
            Err(LspError::GivenUp {
                name: name(&order.launch),
                times: failures,
            })
        } else {
            let work = serve(&mut server, &order.launch, &order.question, patience);
            tokio::select! {
                answer = work => answer,
                // Whoever asked is gone. One that was still starting goes too.
                () = reply.closed() => {
                    if let Some(running) = &mut server {
                        running.connection.take_back();
                    }
                    continue;
                }
            }
        };
        let is_broken = matches!(
            answer,
            Err(LspError::NotStarted { .. } | LspError::Failed { .. } | LspError::Silent { .. })
        );
        failures += u32::from(is_broken && server.is_none());
        let _ = reply.send(answer);
    }
    leave(server).await;
}

/// Ends a server as the protocol wants it; the supervisor ends it anyway.
async fn leave(server: Option<Server>) {
    if let Some(mut server) = server {
        server.connection.leave();
        let _ = timeout(PROCESS_DRAIN_WAIT, server.connection.flush()).await;
    }
}

/// Answers one question, with the server started before if need be. One that fails is dropped.
async fn serve(
    server: &mut Option<Server>,
    launch: &Launch,
    question: &Question,
    patience: Duration,
) -> Result<Answered, LspError> {
    let silent = || LspError::Silent {
        name: name(launch),
        patience,
    };
    let deadline = Instant::now() + patience;
    let running = match server {
        Some(running) => running,
        None => {
            let started = timeout_at(deadline, Server::start(launch)).await;
            server.insert(started.map_err(|_| silent())??)
        }
    };
    let heard = running.connection.heard();
    running.connection.begin();
    let failed = match timeout_at(deadline, running.answer(launch, question)).await {
        Ok(Ok(answered)) => return Ok(answered),
        Ok(Err(failed)) => failed,
        Err(_) => {
            // One that says something is at work; one that says nothing hangs.
            if running.connection.heard() == heard {
                *server = None;
            } else {
                running.connection.take_back();
            }
            return Err(silent());
        }
    };
    let error = running.error(failed, question.operation).await;
    if matches!(error, LspError::Failed { .. }) {
        *server = None;
    }
    Err(error)
}

impl Server {
    async fn start(launch: &Launch) -> Result<Self, LspError> {
        let not_started = |why: String| LspError::NotStarted {
            name: name(launch),
            why,
        };
        let disk = Disk::look(&launch.roots, &launch.root).await;
        let program = start_program(launch).await;
        let program = program.map_err(|error| not_started(error.to_string()))?;
        let root = uri(&launch.root).ok_or_else(|| not_started("its place has no name".into()))?;
        let connection = Connection::new(program, &root);
        let mut connection = connection.ok_or_else(|| not_started("it has no pipes".into()))?;
        connection.begin();
        let said = connection.ask("initialize", &greeting(&root)).await;
        let mut server = Self {
            name: name(launch),
            connection,
            abilities: Abilities::default(),
            document: None,
            disk,
            told: None,
        };
        let said = match said {
            Ok(said) => said,
            Err(failed) => return Err(server.error(failed, Operation::Symbols).await),
        };
        server.abilities = Abilities::read(&said)
            .ok_or_else(|| not_started("its first answer makes no sense".to_owned()))?;
        match server.connection.tell("initialized", &json!({})) {
            Ok(()) => Ok(server),
            Err(failed) => Err(server.error(failed, Operation::Symbols).await),
        }
    }

    /// Listens to what it says unasked, until it fails or its time is up.
    async fn rest(&mut self) -> Rested {
        self.connection.begin();
        let resting = async {
            loop {
                match self.connection.hear().await {
                    Ok(()) => {}
                    // It has said more than anybody needs; it may go on when it is asked.
                    Err(Failed::Broken(FrameError::Flood)) => std::future::pending().await,
                    Err(_) => return Rested::Failed,
                }
            }
        };
        let rested = timeout(LSP_IDLE_TIME_MAX, resting).await;
        rested.unwrap_or(Rested::Enough)
    }

    async fn answer(&mut self, launch: &Launch, question: &Question) -> Result<Answered, Failed> {
        if !self.abilities.has(question.operation) {
            return Err(Failed::NotOffered);
        }
        self.tell_changes(launch).await?;
        let document = self.show(question)?;
        let answer = match question.operation {
            Operation::Diagnostics if !self.abilities.answers_diagnostics => {
                self.problems(&document).await?
            }
            Operation::Diagnostics
            | Operation::Definitions
            | Operation::References
            | Operation::Symbols
            | Operation::Hover => self.ask_until_ready(question, &document).await?,
        };
        Ok(Answered {
            answer,
            encoding: self.abilities.encoding,
            is_early: self.connection.is_busy(),
        })
    }

    /// Tells it which files have changed since it was told last, whoever changed them.
    async fn tell_changes(&mut self, launch: &Launch) -> Result<(), Failed> {
        let now = Disk::look(&launch.roots, &launch.root).await;
        if let Some(changes) = self.disk.changes_to(&now) {
            let method = "workspace/didChangeWatchedFiles";
            self.connection.tell(method, &changes)?;
        }
        self.disk = now;
        Ok(())
    }

    /// Asks, and asks again while it is still reading the project and found nothing.
    async fn ask_until_ready(
        &mut self,
        question: &Question,
        document: &str,
    ) -> Result<Answer, Failed> {
        let operation = question.operation;
        let mut params = json!({"textDocument": {"uri": document}});
        if operation.is_about_a_place() {
            params["position"] = self.position(question);
        }
        if operation == Operation::References {
            params["context"] = json!({"includeDeclaration": true});
        }
        loop {
            match self.connection.ask(operation.method(), &params).await {
                Ok(result) => {
                    let garbage = Failed::Broken(FrameError::Garbage);
                    let answer = operation.read(&result).ok_or(garbage)?;
                    if !(answer.is_empty() && self.connection.is_busy()) {
                        return Ok(answer);
                    }
                }
                Err(Failed::Refused { is_early: true, .. }) => {}
                Err(failed) => return Err(failed),
            }
            self.listen_for(LSP_ASK_AGAIN).await?;
        }
    }

    /// The problems that it tells of unasked, once it has said something about the document; or what
    /// it said last, if it says nothing new for a while and has nothing to do.
    async fn problems(&mut self, document: &str) -> Result<Answer, Failed> {
        let told = self.told.take_if(|(of, _)| of == document);
        let patient_until = Instant::now() + LSP_NOTHING_NEW_TIME;
        let mut newest = loop {
            if let Some(problems) = self.connection.take_problems() {
                break problems;
            }
            let Some((_, problems)) = &told else {
                self.connection.hear().await?;
                continue;
            };
            match timeout_at(patient_until, self.connection.hear()).await {
                Ok(heard) => heard?,
                Err(_) if self.connection.is_busy() => self.listen_for(LSP_ASK_AGAIN).await?,
                Err(_) => break problems.clone(),
            }
        };
        loop {
            self.listen_for(LSP_SETTLE_TIME).await?;
            match self.connection.take_problems() {
                Some(problems) => newest = problems,
                None => break,
            }
        }
        self.told = Some((document.to_owned(), newest.clone()));
        Ok(Answer::Problems(newest))
    }

    async fn listen_for(&mut self, time: Duration) -> Result<(), Failed> {
        let until = Instant::now() + time;
        loop {
            match timeout_at(until, self.connection.hear()).await {
                Ok(heard) => heard?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Tells it of the document as it is now; gives its name.
    fn show(&mut self, question: &Question) -> Result<String, Failed> {
        let uri = uri(&question.path).ok_or(Failed::NotOffered)?;
        let is_open = |document: &Document| document.uri == uri;
        if let Some(other) = self.document.take_if(|document| !is_open(document)) {
            let document = json!({"textDocument": {"uri": other.uri}});
            self.connection.tell("textDocument/didClose", &document)?;
        }
        let wants_news = question.operation == Operation::Diagnostics;
        if wants_news {
            self.connection.watch(&uri);
        }
        let text = &question.text;
        let Some(document) = &mut self.document else {
            let opened = json!({"textDocument": {
                "uri": uri, "languageId": question.language_id, "version": 1, "text": text,
            }});
            self.connection.tell("textDocument/didOpen", &opened)?;
            self.document = Some(Document {
                uri: uri.clone(),
                version: 1,
                text: text.clone(),
            });
            return Ok(uri);
        };
        // The same again makes it look for problems again, also for those that others cause.
        if wants_news || document.text != *text {
            document.version += 1;
            document.text.clone_from(text);
            let named = json!({"uri": uri, "version": document.version});
            let changed = json!({"textDocument": named, "contentChanges": [{"text": text}]});
            self.connection.tell("textDocument/didChange", &changed)?;
            let saved = json!({"textDocument": {"uri": uri}});
            self.connection.tell("textDocument/didSave", &saved)?;
        }
        Ok(uri)
    }

    fn position(&self, question: &Question) -> Value {
        let (line, column) = question.at;
        let text = question.text.split('\n').nth(line.saturating_sub(1));
        let text = text.unwrap_or_default().trim_end_matches('\r');
        let character = self.abilities.encoding.before(text, column);
        json!({"line": line.saturating_sub(1), "character": character})
    }

    /// Why it did not answer, in words.
    async fn error(&mut self, failed: Failed, operation: Operation) -> LspError {
        let name = self.name.clone();
        let why = match failed {
            Failed::Refused { message, .. } => {
                let message = one_line(&message);
                let message = line_within(&message, REFUSAL_CHARS_MAX).into_owned();
                return LspError::Refused { name, message };
            }
            Failed::NotOffered => {
                let operation = operation.name();
                return LspError::NotOffered { name, operation };
            }
            Failed::NotReading => "it reads nothing of what it is told".to_owned(),
            Failed::Broken(error) => error.to_string(),
        };
        let last_words = match failed {
            Failed::Broken(FrameError::Ended) => self.connection.last_words().await,
            Failed::Broken(_) | Failed::NotReading => String::new(),
            Failed::Refused { .. } | Failed::NotOffered => String::new(),
        };
        LspError::Failed {
            name,
            why,
            last_words,
        }
    }
}

fn name(launch: &Launch) -> String {
    let program = launch.words.first().map(Path::new);
    let name = program.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

pub(super) fn uri(path: &Path) -> Option<String> {
    url::Url::from_file_path(path).ok().map(String::from)
}

/// Starts it, shut in as a command would be; nothing is granted to it beyond that.
async fn start_program(launch: &Launch) -> io::Result<Piped> {
    let Launch { shell, roots, .. } = launch;
    let root = launch.root.clone();
    let own = Arc::clone(roots);
    let opened = tokio::task::spawn_blocking(move || open(&own, &root));
    let cwd = opened.await.map_err(io::Error::other)??;
    let cage = shell.cage(roots, Grants::default()).await?;
    let (mut words, mut variables) = (launch.words.clone(), shell.environment().to_vec());
    if cage.is_some() {
        let start = ["sh", "-c", WITH_CACHE, "sh"].map(str::to_owned);
        words.splice(0..0, start);
    } else {
        // A command may have put a program of that name into the project.
        (words, variables) = outside(words, variables).await?;
    }
    Piped::start(PipedProgram {
        words: &words,
        cwd: cwd.as_fd(),
        environment: &variables,
        program: shell.program(),
        cage: cage.as_ref(),
    })
    .await
}

/// Its directory is a root's real path: only that root is meant.
fn open(roots: &Roots, directory: &Path) -> io::Result<OwnedFd> {
    let root = roots.all().iter().find(|root| root.real() == directory);
    let root = root.ok_or(io::ErrorKind::NotFound)?;
    root.open().map_err(io::Error::other)
}

/// What a server is told of us: what we understand, and nothing that would make it act.
fn greeting(root: &str) -> Value {
    json!({
        // It may be in a world of its own, where we have no number.
        "processId": null,
        "clientInfo": {"name": "fastness"},
        "rootUri": root,
        "workspaceFolders": [{"uri": root, "name": "workspace"}],
        "capabilities": {
            "general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]},
            "workspace": {
                "workspaceFolders": true,
                "configuration": true,
                "didChangeWatchedFiles": {"dynamicRegistration": true},
            },
            "window": {"workDoneProgress": true},
            "textDocument": {
                "synchronization": {"didSave": true},
                "definition": {"linkSupport": true},
                "references": {},
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
                "publishDiagnostics": {},
                "diagnostic": {},
            },
            "experimental": {"serverStatusNotification": true},
        },
    })
}
