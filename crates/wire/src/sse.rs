//! An incremental reader of server-sent events, as the WHATWG standard defines the format.
//!
//! Feed [`SseParser::push`] with chunks cut anywhere. Invalid UTF-8 is replaced by U+FFFD, as the
//! standard has it; whoever parses the data will notice. Memory is bounded by the limit given.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type, if it names one; without one it is a `message`.
    pub event: Option<String>,
    /// Its data, lines joined by `\n`.
    pub data: String,
    /// The last id seen in the stream, in this event or before it.
    pub id: Option<String>,
    /// The reconnection time in milliseconds, if this event sets one.
    pub retry: Option<u64>,
}

/// One event, or one line, is longer than the limit. The parser gives nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {bytes_max} bytes")]
pub struct EventTooLarge {
    /// The limit.
    pub bytes_max: usize,
}

/// Turns chunks of a stream into events.
#[derive(Clone, Debug)]
pub struct SseParser {
    bytes_max: usize,
    line: Vec<u8>,
    /// The last line ended in `\r`, so a `\n` that comes next belongs to it.
    after_carriage_return: bool,
    at_start: bool,
    failed: bool,
    pending: SseEvent,
    has_data: bool,
}

impl SseParser {
    /// A parser that takes events of at most `event_bytes_max` bytes.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            bytes_max: event_bytes_max,
            line: Vec::new(),
            after_carriage_return: false,
            at_start: true,
            failed: false,
            pending: SseEvent::default(),
            has_data: false,
        }
    }

    /// Takes the next chunk and gives the events that it completes.
    ///
    /// # Errors
    /// If an event grows beyond the limit. From then on every call fails: where the next event
    /// begins cannot be told without reading on forever. Events before it in the same chunk are lost.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        let mut events = Vec::new();
        let mut rest = chunk;
        self.check_room_for(0)?;
        if self.after_carriage_return && !rest.is_empty() {
            self.after_carriage_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (piece, tail) = rest.split_at(at);
            self.extend_line(piece)?;
            events.extend(self.end_line()?);
            rest = match tail {
                [b'\r', b'\n', tail @ ..] | [_, tail @ ..] => tail,
                [] => tail,
            };
            self.after_carriage_return = tail == b"\r";
        }
        self.extend_line(rest)?;
        Ok(events)
    }

    /// Ends the stream. The standard drops an event without its blank line; some servers omit
    /// that at the end, so it is handed over here and the caller decides.
    ///
    /// # Errors
    /// If the last line makes the event too large, or the parser has failed before.
    pub fn finish(mut self) -> Result<Option<SseEvent>, EventTooLarge> {
        self.check_room_for(0)?;
        if !self.line.is_empty() {
            self.end_line()?;
        }
        Ok(self.dispatch())
    }

    fn extend_line(&mut self, piece: &[u8]) -> Result<(), EventTooLarge> {
        self.check_room_for(piece.len())?;
        self.line.extend_from_slice(piece);
        Ok(())
    }

    /// Takes the finished line; a blank one ends the event.
    fn end_line(&mut self) -> Result<Option<SseEvent>, EventTooLarge> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = bytes.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        let event = if line.is_empty() {
            self.dispatch()
        } else {
            self.take_field(&String::from_utf8_lossy(line));
            None
        };
        // The next line uses the same memory.
        self.line = bytes;
        self.line.clear();
        // Replacement characters can be longer than what they replace.
        self.check_room_for(0)?;
        Ok(event)
    }

    fn take_field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.pending.data.push('\n');
                }
                self.has_data = true;
                self.pending.data.push_str(value);
            }
            "event" => self.pending.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.pending.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                // A number too large for us is no wish that anyone can follow.
                self.pending.retry = value.parse().ok().or(self.pending.retry);
            }
            // Comments have an empty name; unknown fields are skipped.
            _ => {}
        }
    }

    /// Hands over the pending event if it has data, and starts the next one.
    fn dispatch(&mut self) -> Option<SseEvent> {
        let id = self.pending.id.clone();
        let next = SseEvent {
            id,
            ..SseEvent::default()
        };
        let event = std::mem::replace(&mut self.pending, next);
        std::mem::take(&mut self.has_data)
            .then_some(event)
            .map(|event| SseEvent {
                event: event.event.filter(|name| !name.is_empty()),
                ..event
            })
    }

    fn check_room_for(&mut self, bytes: usize) -> Result<(), EventTooLarge> {
        self.failed = self.failed || self.held_bytes() + bytes > self.bytes_max;
        if self.failed {
            return Err(EventTooLarge {
                bytes_max: self.bytes_max,
            });
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        let event = self.pending.event.as_ref().map_or(0, String::len);
        let id = self.pending.id.as_ref().map_or(0, String::len);
        self.line.len() + self.pending.data.len() + event + id
    }
}
