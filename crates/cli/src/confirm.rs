//! Asking the user at the terminal for a yes.

use std::io::{self, BufRead as _, Read as _, Write as _};

use rustix::termios::{QueueSelector, tcflush};

/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 256;

/// Prints `prompt` and reads one line; whether it says yes. A line that was begun before the prompt was
/// printed does not count.
///
/// # Errors
/// If the terminal is gone.
pub(crate) fn is_confirmed(prompt: &str) -> io::Result<bool> {
    write!(io::stderr(), "{prompt}")?;
    io::stderr().flush()?;
    forget_typed();
    let mut answer = String::new();
    let stdin = io::stdin().lock();
    stdin.take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Drops what was typed and not read yet, also the beginning of a line.
pub(crate) fn forget_typed() {
    // Without a terminal there is nothing that was typed.
    let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
}
