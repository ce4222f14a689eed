//! Lines that a person types, read by a thread of their own so that waiting for one can be given up.

use std::io::{self, BufRead, Read};

use tokio::sync::mpsc;

/// Longest answer to a yes-or-no question; the rest of a longer line counts as the next.
const LINE_BYTES_MAX: u64 = 4_096;

/// A person's answers. The thread is started with the first question and ends with the program.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    lines: Option<mpsc::Receiver<String>>,
}

impl Keyboard {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Drops what was typed before there was a question: it cannot be the answer.
    pub(super) fn forget(&mut self) {
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
    }

    /// The next line; `None` when there will be none. Cancel safe.
    pub(super) async fn line(&mut self) -> Option<String> {
        self.lines.get_or_insert_with(start).recv().await
    }
}

fn start() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            let read = io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line);
            let is_over = !matches!(read, Ok(1..));
            if is_over || sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
