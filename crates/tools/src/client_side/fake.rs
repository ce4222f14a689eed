//! A client for tests: it does as it was told beforehand, and notes what it was asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use domain::CallId;

use super::{
    Asked, ClientError, ClientSide, Offers, ReadTextFile, TerminalCommand, TerminalExit,
    TerminalId, TerminalOutput,
};

#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) offers: Offers,
    pub(crate) is_gone: AtomicBool,
    /// What it was asked, in order.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// The answer to every request about a file; an empty one to writes.
    pub(crate) file: Result<String, ClientError>,
    pub(crate) created: Result<TerminalId, ClientError>,
    /// `None` is a command that never ends.
    pub(crate) exit: Option<Result<TerminalExit, ClientError>>,
    pub(crate) output: TerminalOutput,
}

impl Default for Fake {
    fn default() -> Self {
        let exit = TerminalExit {
            code: Some(0),
            signal: None,
        };
        Self {
            offers: Offers {
                read_text_file: true,
                write_text_file: true,
                terminal: true,
                tools: false,
            },
            is_gone: AtomicBool::new(false),
            asked: Arc::default(),
            file: Ok(String::new()),
            created: Ok(TerminalId("t".to_owned())),
            exit: Some(Ok(exit)),
            output: TerminalOutput::default(),
        }
    }
}

impl Fake {
    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }

    fn says<T: Send + 'static>(
        &self,
        what: impl Into<String>,
        answer: Result<T, ClientError>,
    ) -> Asked<T> {
        self.note(what);
        Box::pin(async move { answer })
    }
}

impl ClientSide for Fake {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn read_text_file(&self, read: ReadTextFile) -> Asked<String> {
        let ReadTextFile { path, line, limit } = read;
        self.says(format!("read {path} {line:?} {limit:?}"), self.file.clone())
    }

    fn write_text_file(&self, path: String, content: String) -> Asked<()> {
        self.says(
            format!("write {path} {content}"),
            self.file.clone().map(|_| ()),
        )
    }

    fn create_terminal(&self, command: TerminalCommand) -> Asked<TerminalId> {
        let TerminalCommand {
            command, args, cwd, ..
        } = command;
        self.says(
            format!("create {command} {} in {cwd}", args.join(" ")),
            self.created.clone(),
        )
    }

    fn terminal_output(&self, terminal: &TerminalId) -> Asked<TerminalOutput> {
        self.says(format!("output {}", terminal.0), Ok(self.output.clone()))
    }

    fn wait_for_exit(&self, terminal: &TerminalId) -> Asked<TerminalExit> {
        match self.exit.clone() {
            Some(exit) => self.says(format!("wait {}", terminal.0), exit),
            None => {
                self.note(format!("wait {}", terminal.0));
                Box::pin(std::future::pending())
            }
        }
    }

    fn kill_terminal(&self, terminal: &TerminalId) -> Asked<()> {
        self.says(format!("kill {}", terminal.0), Ok(()))
    }

    fn release_terminal(&self, terminal: &TerminalId) -> Asked<()> {
        self.says(format!("release {}", terminal.0), Ok(()))
    }

    fn show_terminal(&self, call: &CallId, terminal: &TerminalId) {
        self.note(format!("show {} in {}", terminal.0, call.as_str()));
    }

    fn let_go(&self, terminal: &TerminalId) {
        self.note(format!("let go {}", terminal.0));
    }
}
