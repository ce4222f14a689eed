//! Lines that a user types to answer a prompt of ours, read by a thread so that waiting can be given up.
//!
//! A line counts only if it was begun after its prompt was printed. Whatever was typed before, whole lines
//! and the beginning of one, is dropped when the prompt is there.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use tokio::sync::mpsc;

use crate::confirm::forget_typed;

/// Longest answer to a prompt, as much as a terminal gives of one line; the rest counts as the next.
const LINE_BYTES_MAX: usize = 4_096;

/// The answers of a user. The thread is started with the first prompt and ends with the program.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    /// How many prompts there were. Held while a line is read, so that each line has one prompt.
    prompts: Arc<Mutex<u64>>,
    lines: Option<mpsc::Receiver<(u64, String)>>,
}

impl Keyboard {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// A prompt was printed: what was typed before is not its answer.
    pub(super) fn prompted(&mut self) {
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        forget_typed();
        *prompts += 1;
    }

    /// The next line that was begun after the prompt; `None` when there will be none. Cancel safe.
    pub(super) async fn line(&mut self) -> Option<String> {
        let prompts = &self.prompts;
        let lines = self.lines.get_or_insert_with(|| start(Arc::clone(prompts)));
        loop {
            let (prompt, line) = lines.recv().await?;
            let shown = *prompts.lock().unwrap_or_else(PoisonError::into_inner);
            if prompt == shown {
                return Some(line);
            }
        }
    }
}

fn start(prompts: Arc<Mutex<u64>>) -> mpsc::Receiver<(u64, String)> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        loop {
            if !is_readable(None) {
                continue;
            }
            let prompt = prompts.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have been dropped since.
            if !is_readable(Some(&Timespec::default())) {
                continue;
            }
            let mut buffer = [0; LINE_BYTES_MAX];
            let read = rustix::io::read(stdin(), &mut buffer[..]);
            let numbered = *prompt;
            drop(prompt);
            let line = match read {
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Ok(0) | Err(_) => return,
                Ok(read) => String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()),
            };
            if sender.blocking_send((numbered, line.into_owned())).is_err() {
                return;
            }
        }
    });
    lines
}

/// Whether the terminal has a whole line for us, or has ended; waits for it as long as `time_max` says.
fn is_readable(time_max: Option<&Timespec>) -> bool {
    let mut files = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
    matches!(poll(&mut files, time_max), Ok(1..))
}
