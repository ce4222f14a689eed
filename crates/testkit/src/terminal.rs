//! A terminal with a program in it: keys go in, and what a person would see comes out.
//!
//! The program has a real pseudo-terminal as its controlling one, so that it hears of a new size as
//! it would anywhere. What it writes is interpreted by `vt100`, scrollback included.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::Child;
use tokio::time::{Instant, timeout};

use crate::home::Home;
use crate::program::DEADLINE;

/// Rows that have scrolled away and are kept.
const SCROLLBACK_ROWS: usize = 100_000;

/// A program in a terminal. Dropping it kills the program.
pub struct Terminal {
    keyboard: File,
    seen: Arc<Mutex<Seen>>,
    program: Child,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts `fastness COMMAND` of `home` in a terminal of that size.
    ///
    /// # Panics
    /// If there are no terminals.
    #[must_use]
    pub fn start(home: &Home, command: &str, arguments: &[&str], size: (u16, u16)) -> Self {
        let of_home = home.arguments(command);
        let words = of_home
            .iter()
            .map(String::as_str)
            .chain(arguments.iter().copied());
        let words: Vec<&str> = words.collect();
        Self::open(home, &words, size)
    }

    /// Starts the program of `home` with exactly these arguments.
    ///
    /// # Panics
    /// If there are no terminals.
    #[must_use]
    pub fn open(home: &Home, arguments: &[&str], (columns, rows): (u16, u16)) -> Self {
        let ours = or_stop(rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY));
        or_stop(rustix::pty::grantpt(&ours));
        or_stop(rustix::pty::unlockpt(&ours));
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let theirs = or_stop(rustix::pty::ioctl_tiocgptpeer(&ours, flags));
        or_stop(tcsetwinsize(&ours, winsize(columns, rows)));
        let stream = || Stdio::from(or_stop(theirs.try_clone()));
        // A session of its own, whose terminal this is.
        let mut command = home.clean("setsid");
        command.args(["--ctty", "--wait"]).arg(home.binary());
        command.args(arguments).env("TERM", "xterm-256color");
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let program = or_stop(command.spawn());
        drop((command, theirs));
        let seen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(size(rows), size(columns), SCROLLBACK_ROWS),
            bytes: Vec::new(),
        }));
        let keyboard = File::from(or_stop::<OwnedFd, _>(ours.try_clone()));
        watch(File::from(ours), Arc::clone(&seen));
        Self {
            keyboard,
            seen,
            program,
        }
    }

    /// Presses keys, as the bytes that a terminal sends for them.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        or_stop(self.keyboard.write_all(keys.as_bytes()));
    }

    /// Writes a text and sends it.
    pub fn enter(&mut self, text: &str) {
        self.press(&format!("{text}\r"));
    }

    /// What is on the screen, without what is empty at its end.
    #[must_use]
    pub fn screen(&self) -> String {
        let seen = self.seen();
        let (_, columns) = seen.parser.screen().size();
        let rows = seen.parser.screen().rows(0, columns.get());
        joined(rows.collect())
    }

    /// The same with all that has scrolled away before it.
    #[must_use]
    pub fn all(&self) -> String {
        let mut seen = self.seen();
        let screen = seen.parser.screen_mut();
        let (_, columns) = screen.size();
        let mut rows = Vec::new();
        for back in (1..=screen.scrollback_len()).rev() {
            screen.set_scrollback(back);
            rows.extend(screen.rows(0, columns.get()).next());
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, columns.get()));
        joined(rows)
    }

    /// The bytes that the program wrote.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.seen().bytes.clone()
    }

    /// Where the cursor stands: row and column.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        self.seen().parser.screen().cursor_position()
    }

    /// Waits until the screen has `text` on it.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn shows(&self, text: &str) {
        self.shows_when(text, |screen| screen.contains(text)).await;
    }

    /// Waits until the screen is as `is_so` wants it, which `what` names.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn shows_when(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return;
            }
            let is_late = Instant::now() >= deadline;
            assert!(!is_late, "`{what}` is not on the screen:\n{screen}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let mut seen = self.seen();
        seen.parser.screen_mut().set_size(size(rows), size(columns));
        drop(seen);
        or_stop(tcsetwinsize(&self.keyboard, winsize(columns, rows)));
    }

    /// Waits until the program has ended.
    ///
    /// # Panics
    /// If it does not.
    pub async fn exit(&mut self) -> ExitStatus {
        match timeout(DEADLINE, self.program.wait()).await {
            Ok(status) => or_stop(status),
            Err(_) => panic!("the program does not end:\n{}", self.screen()),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what the program writes until it is gone.
fn watch(mut output: File, seen: Arc<Mutex<Seen>>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        let mut waiting = Vec::new();
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            waiting.extend_from_slice(&buffer[..read]);
            let rest = waiting.split_off(whole(&waiting));
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.parser.process(&waiting);
            seen.bytes.extend_from_slice(&waiting);
            waiting = rest;
        }
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.parser.process(&waiting);
    });
}

/// How many of these bytes can be shown: a change that belongs together is shown when all of it is
/// there, as terminals do that know of it.
fn whole(bytes: &[u8]) -> usize {
    let last = |wanted: &[u8]| bytes.windows(wanted.len()).rposition(|at| at == wanted);
    match (last(b"\x1b[?2026h"), last(b"\x1b[?2026l")) {
        (Some(begun), None) => begun,
        (Some(begun), Some(ended)) if ended < begun => begun,
        (_, _) => bytes.len(),
    }
}

fn joined(rows: Vec<String>) -> String {
    let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
    rows.join("\n").trim_end().to_owned()
}

fn size(of: u16) -> NonZeroU16 {
    NonZeroU16::new(of).unwrap_or(NonZeroU16::MIN)
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn or_stop<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("a terminal cannot be had: {error}"))
}
