//! Language servers: programs of others that know a language, one for each language and directory
//! of a session, shut in like commands and spoken to as long as the session lives.
//!
//! [`LanguageServers`] is what a session holds; when it is dropped, its servers end. Each one has
//! an owner ([`server`]) that starts it when it is first asked, so that it is started once however
//! many ask; [`connection`] speaks the protocol in [`frames`].

mod answers;
mod connection;
mod disk;
mod frames;
mod position;
mod server;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::limits::{LSP_QUESTIONS_MAX, LSP_SERVERS_MAX, Limits};
use tokio::sync::{mpsc, oneshot};

pub use answers::{Answer, Operation, Place, Position, Problem, Symbol};
pub use frames::FrameError;
pub use position::Encoding;
pub use table::Language;

use crate::roots::Roots;
use crate::shell::Shell;

/// The language servers of one session. Cheap to clone; they end when the last one is dropped.
#[derive(Clone, Debug)]
pub struct LanguageServers {
    servers: Arc<Mutex<HashMap<Key, mpsc::Sender<Order>>>>,
    patience: Duration,
    commands: Arc<Commands>,
}

/// The operator's own commands, by [`Language::key`]: a program and its arguments, or nothing for a
/// language that no server is to be started for.
pub type Commands = BTreeMap<String, Vec<String>>;

/// There is one server for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    root: PathBuf,
    language: &'static str,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// It, and its arguments.
    pub words: Vec<String>,
    /// What it is shut in, and what it sees.
    pub shell: Shell,
    /// What it may touch.
    pub roots: Arc<Roots>,
    /// The directory that it works in, without links.
    pub root: PathBuf,
}

/// Something that a server is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// What.
    pub operation: Operation,
    /// The file, without links.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// What the protocol calls its language.
    pub language_id: &'static str,
    /// Line and character, from one.
    pub at: (usize, usize),
}

/// What came of it.
#[derive(Debug)]
pub struct Answered {
    /// What was found.
    pub answer: Answer,
    /// How the server counts.
    pub encoding: Encoding,
    /// Whether it was still reading the project.
    pub is_early: bool,
}

/// Why there is no answer, in words for a model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LspError {
    /// It could not be started.
    #[error("{name} could not be started: {why}")]
    NotStarted {
        /// The program.
        name: String,
        /// Why.
        why: String,
    },
    /// It broke off; the next call starts it anew.
    #[error("{name} failed: {why}{}", said(.last_words))]
    Failed {
        /// The program.
        name: String,
        /// How.
        why: String,
        /// What it complained of last.
        last_words: String,
    },
    /// It took too long.
    #[error("{name} did not answer within {} s", .patience.as_secs_f64())]
    Silent {
        /// The program.
        name: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// It said no.
    #[error("{name} refused: {message}")]
    Refused {
        /// The program.
        name: String,
        /// What it said.
        message: String,
    },
    /// It does not know how.
    #[error("{name} does not offer {operation}")]
    NotOffered {
        /// The program.
        name: String,
        /// What was asked.
        operation: &'static str,
    },
    /// It has failed too often.
    #[error("{name} has failed {times} times in this session and is not started again")]
    GivenUp {
        /// The program.
        name: String,
        /// How often.
        times: u32,
    },
    /// There are too many of them, or too many ask.
    #[error("there are too many language servers or questions at once in this session")]
    TooMany,
}

fn said(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!("; it said: {words}"),
    }
}

/// A question on its way.
struct Order {
    launch: Launch,
    question: Question,
    reply: oneshot::Sender<Result<Answered, LspError>>,
}

impl Default for LanguageServers {
    fn default() -> Self {
        Self::new(Limits::default().lsp)
    }
}

impl LanguageServers {
    /// None yet; each question may take as long as `patience`.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self {
            servers: Arc::default(),
            patience,
            commands: Arc::default(),
        }
    }

    /// The same, with these commands for their languages.
    #[must_use]
    pub fn with_commands(self, commands: Commands) -> Self {
        let commands = Arc::new(commands);
        Self { commands, ..self }
    }

    /// The operator's own command for `language`, if there is one.
    #[must_use]
    pub fn command(&self, language: &Language) -> Option<&[String]> {
        self.commands.get(language.key).map(Vec::as_slice)
    }

    /// Asks the server for `language`, which is started if it does not run. Dropped, it takes the
    /// question back; the server stays.
    ///
    /// # Errors
    /// If there is no answer in time.
    pub async fn ask(
        &self,
        language: &'static Language,
        launch: Launch,
        question: Question,
    ) -> Result<Answered, LspError> {
        let gone = LspError::Failed {
            name: launch.words.first().cloned().unwrap_or_default(),
            why: "its owner is gone".to_owned(),
            last_words: String::new(),
        };
        let (reply, answer) = oneshot::channel();
        let server = self.server(language, &launch)?;
        let order = Order {
            launch,
            question,
            reply,
        };
        server.try_send(order).map_err(|_| LspError::TooMany)?;
        answer.await.unwrap_or(Err(gone))
    }

    /// The way to the server for `language` in a directory: the only place where one is made.
    fn server(
        &self,
        language: &'static Language,
        launch: &Launch,
    ) -> Result<mpsc::Sender<Order>, LspError> {
        let key = Key {
            root: launch.root.clone(),
            language: language.name,
        };
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&key).filter(|server| !server.is_closed()) {
            return Ok(server.clone());
        }
        if servers.len() >= LSP_SERVERS_MAX {
            return Err(LspError::TooMany);
        }
        let (sender, orders) = mpsc::channel(LSP_QUESTIONS_MAX);
        tokio::spawn(server::own(orders, self.patience));
        servers.insert(key, sender.clone());
        Ok(sender)
    }
}
