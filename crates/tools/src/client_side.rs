//! What a client can do for a turn on its own machine, and how it is asked.
//!
//! [`ClientSide`] is the port: the server implements it for the connection that prompted, a turn
//! holds it through a [`ClientSeat`], and tools use it in place of the server's disk. Dropping a
//! future of it takes the request back.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use domain::CallId;
use domain::limits::CLIENT_ERROR_BYTES_MAX;
use serde_json::Value;

pub mod discovery;
#[cfg(test)]
pub(crate) mod fake;
mod seat;

use discovery::{Discovered, ToolReply, ToolRequest};

pub use seat::ClientSeat;

/// A client's answer, once it comes.
pub type Asked<T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send>>;

/// The client that prompted, as far as it lets a turn use its files and terminals.
///
/// Every answer comes within a deadline, except that of [`ClientSide::wait_for_exit`], which takes
/// as long as the command does. All of them fail at once when the client leaves.
pub trait ClientSide: fmt::Debug + Send + Sync {
    /// What it offers; never changes.
    fn offers(&self) -> Offers;

    /// Whether it has left for good.
    fn is_gone(&self) -> bool;

    /// The text of a file, as the client sees it: with what its user has not saved yet.
    fn read_text_file(&self, read: ReadTextFile) -> Asked<String>;

    /// Replaces the text of a file.
    fn write_text_file(&self, path: String, content: String) -> Asked<()>;

    /// Starts a command.
    fn create_terminal(&self, command: TerminalCommand) -> Asked<TerminalId>;

    /// What a command has printed so far.
    fn terminal_output(&self, terminal: &TerminalId) -> Asked<TerminalOutput>;

    /// Waits for a command to end, for as long as it takes.
    fn wait_for_exit(&self, terminal: &TerminalId) -> Asked<TerminalExit>;

    /// Ends a command; what it printed can still be asked for.
    fn kill_terminal(&self, terminal: &TerminalId) -> Asked<()>;

    /// Gives a terminal back; its name means nothing from then on.
    fn release_terminal(&self, terminal: &TerminalId) -> Asked<()>;

    /// Which tools of its own it has. It is asked once, however often this is called.
    fn discover_tools(&self) -> Asked<Discovered> {
        Box::pin(std::future::ready(Err(ClientError::NotOffered)))
    }

    /// Has it run one of them.
    fn call_tool(&self, request: ToolRequest) -> Asked<ToolReply> {
        let _ = request;
        Box::pin(std::future::ready(Err(ClientError::NotOffered)))
    }

    /// Shows a running terminal to the client's user as part of a tool call.
    fn show_terminal(&self, call: &CallId, terminal: &TerminalId);

    /// Ends a command and gives its terminal back, without waiting: for a call that is dropped.
    fn let_go(&self, terminal: &TerminalId);
}

/// Which of its own things a client lets a turn use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Its files, for reading.
    pub read_text_file: bool,
    /// Its files, for writing.
    pub write_text_file: bool,
    /// Its terminals.
    pub terminal: bool,
    /// Tools of its own.
    pub tools: bool,
}

impl Offers {
    /// Whether it offers nothing at all.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Which part of which file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTextFile {
    /// An absolute path.
    pub path: String,
    /// The first line, from 1.
    pub line: Option<u32>,
    /// How many lines.
    pub limit: Option<u32>,
}

/// What to run in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalCommand {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where, as an absolute path.
    pub cwd: String,
    /// How much of the output the client keeps: the newest.
    pub output_bytes_max: u64,
}

/// A client's name for one of its terminals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalId(pub String);

/// What a command printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalOutput {
    /// The newest part of it.
    pub text: String,
    /// Whether there was more before.
    pub truncated: bool,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalExit {
    /// Its exit code.
    pub code: Option<u32>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// Why a client did not do what it was asked, in words for a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// It has left.
    #[error("client gone")]
    Gone,
    /// It did not answer.
    #[error("the client did not answer {method} within {} s", .waited.as_secs_f64())]
    Timeout {
        /// What it was asked.
        method: &'static str,
        /// How long it had.
        waited: Duration,
    },
    /// It said no, in its own words.
    #[error("the client answered with error {code}: {}{}", cut(.message), shown(.data.as_ref()))]
    Peer {
        /// Its code.
        code: i64,
        /// Its sentence.
        message: String,
        /// What a program may act on.
        data: Option<Value>,
    },
    /// It answered with something that is no answer.
    #[error("the client's answer to {method} cannot be read")]
    Malformed {
        /// What it was asked.
        method: &'static str,
    },
    /// It was never offered.
    #[error("the client does not offer that")]
    NotOffered,
    /// Too much is being asked of it already.
    #[error("too many requests wait for the client")]
    TooMany,
}

impl ClientError {
    /// Whether the client may have done what it was asked all the same.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Gone | Self::Timeout { .. } | Self::Malformed { .. } => true,
            Self::Peer { .. } | Self::NotOffered | Self::TooMany => false,
        }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(CLIENT_ERROR_BYTES_MAX)]
}

fn shown(data: Option<&Value>) -> String {
    data.map(|data| format!(" {}", cut(&data.to_string())))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
