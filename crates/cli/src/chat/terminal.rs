//! The terminal itself: raw while we talk, as it was when we leave, whatever happens in between.

use std::io::{self, Read as _, Write as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

use super::canvas::Size;

/// Bytes that are read from the keyboard at once.
const READ_BYTES: usize = 4 * 1024;
/// Reads that wait to be taken; then the terminal keeps what is typed.
const READS_MAX: usize = 4;
/// A terminal that does not tell its size has this one.
const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// Pastes come marked as such, so that a line break in one is not an Enter.
const ENTER: &str = "\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l\x1b[0m\x1b[?25h";

/// A terminal in raw mode. Dropping it gives it back as it was.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Takes the terminal of stdin and stdout.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn enter() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin)?;
        let terminal = Self { before };
        terminal.make_raw()?;
        Ok(terminal)
    }

    /// How large it is now.
    pub(super) fn size() -> Size {
        let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) else {
            return USUAL;
        };
        let or = |told: u16, usual: usize| match told {
            0 => usual,
            told => usize::from(told),
        };
        Size {
            columns: or(size.ws_col, USUAL.columns),
            rows: or(size.ws_row, USUAL.rows),
        }
    }

    /// Writes bytes that are ours.
    pub(super) fn write(bytes: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes.as_bytes())?;
        out.flush()
    }

    /// Gives the terminal to the shell until somebody brings us back.
    pub(super) fn suspend(&self) -> io::Result<()> {
        self.give_back();
        let stopped =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        self.make_raw()?;
        Ok(stopped?)
    }

    fn make_raw(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &raw)?;
        Self::write(ENTER)
    }

    fn give_back(&self) {
        // If the terminal is gone there is nothing to give back.
        let _ = Self::write(LEAVE);
        let stdin = rustix::stdio::stdin();
        let _ = tcsetattr(stdin, OptionalActions::Drain, &self.before);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// What is typed, as it comes. The thread that reads it ends with the program.
pub(super) fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, typed) = mpsc::channel(READS_MAX);
    std::thread::spawn(move || {
        let mut buffer = [0; READ_BYTES];
        loop {
            let read = match io::stdin().lock().read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            };
            let bytes = buffer.get(..read).unwrap_or_default().to_vec();
            if sender.blocking_send(bytes).is_err() {
                return;
            }
        }
    });
    typed
}
