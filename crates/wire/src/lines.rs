//! An incremental reader of JSON lines: one value per line, cut anywhere on the way.
//!
//! Feed [`LineParser::push`] with chunks. Invalid UTF-8 is replaced by U+FFFD, so that whoever
//! parses a line will notice. Memory is bounded by the limit given.

/// One line is longer than the limit. The parser gives nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the stream is longer than {bytes_max} bytes")]
pub struct LineTooLong {
    /// The limit.
    pub bytes_max: usize,
}

/// Turns chunks of a stream into lines.
#[derive(Clone, Debug)]
pub struct LineParser {
    bytes_max: usize,
    line: Vec<u8>,
    failed: bool,
}

impl LineParser {
    /// A parser that takes lines of at most `line_bytes_max` bytes.
    #[must_use]
    pub fn new(line_bytes_max: usize) -> Self {
        Self {
            bytes_max: line_bytes_max,
            line: Vec::new(),
            failed: false,
        }
    }

    /// Takes the next chunk and gives the lines that it completes, without blank ones.
    ///
    /// # Errors
    /// If a line grows beyond the limit. From then on every call fails.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<String>, LineTooLong> {
        let mut lines = Vec::new();
        let mut rest = chunk;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (piece, tail) = rest.split_at(at);
            self.extend(piece)?;
            lines.extend(self.take_line());
            rest = tail.get(1..).unwrap_or_default();
        }
        self.extend(rest)?;
        Ok(lines)
    }

    /// Ends the stream and gives the line that had no end, if there is one.
    ///
    /// # Errors
    /// If the parser has failed before.
    pub fn finish(mut self) -> Result<Option<String>, LineTooLong> {
        self.extend(&[])?;
        Ok(self.take_line())
    }

    fn extend(&mut self, piece: &[u8]) -> Result<(), LineTooLong> {
        self.failed = self.failed || self.line.len() + piece.len() > self.bytes_max;
        if self.failed {
            return Err(LineTooLong {
                bytes_max: self.bytes_max,
            });
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn take_line(&mut self) -> Option<String> {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_matches(['\r', ' ', '\t']);
        let line = (!line.is_empty()).then(|| line.to_owned());
        self.line.clear();
        line
    }
}
