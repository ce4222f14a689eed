//! Standard output, whose errors say that it was the output that could not be written.

use std::fmt;
use std::io::{self, Write};

/// Standard output. What is written here and cannot be is an error that names the output.
pub(crate) fn stdout() -> impl Write {
    Output(io::stdout())
}

struct Output(io::Stdout);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(unwritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unwritten)
    }
}

/// An error of standard output, in words for people; its kind stays.
pub(crate) fn unwritten(error: io::Error) -> io::Error {
    let is_named = error.get_ref().is_some_and(|inner| inner.is::<Unwritten>());
    if is_named || error.kind() == io::ErrorKind::Interrupted {
        return error;
    }
    io::Error::new(error.kind(), Unwritten(error))
}

/// Whether the reader of our output has gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut errors = error
        .chain()
        .filter_map(<dyn std::error::Error>::downcast_ref::<io::Error>);
    errors.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[derive(Debug)]
struct Unwritten(io::Error);

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the output could not be written: {}", self.0)
    }
}

// The cause is part of the sentence, so it is no source of its own.
impl std::error::Error for Unwritten {}
