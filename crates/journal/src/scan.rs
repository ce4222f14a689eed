//! Walking `events.jsonl` record by record, and telling a torn end from damage.
//!
//! A process that dies leaves the front of its last write. A machine that loses power may also
//! keep the back of it and read as zeros in between, so what follows a broken line decides:
//! each record says how many before it were written with it and not yet synced (`$batch`). One that
//! was written after the broken line had been synced proves damage ([`Step::Damaged`]). If there is
//! none and the broken part holds zeros, it is a write that the machine did not finish, provided
//! that the machine was started anew since ([`Step::Hole`]).

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use domain::EventSeq;
use domain::limits::RECORD_BYTES_MAX;

use crate::record::{self, Record, Unsound};
use crate::storage::{CHUNK_BYTES, StoredFile, Stream, read_full_at};

/// A boundary between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes before it.
    pub(crate) offset: u64,
    /// The number of the event after it.
    pub(crate) next: EventSeq,
    /// Whether a record before it had a checksum; from then on each must have one.
    pub(crate) crc_required: bool,
}

impl Place {
    pub(crate) const START: Self = Self {
        offset: 0,
        next: EventSeq(1),
        crc_required: false,
    };

    /// Whether a line ends here. A place remembered for long may lie where a recovery has cut.
    pub(crate) fn is_boundary(&self, file: &dyn StoredFile) -> io::Result<bool> {
        let Some(before) = self.offset.checked_sub(1) else {
            return Ok(true);
        };
        let mut byte = [0];
        Ok(read_full_at(file, &mut byte, before)? == 1 && byte[0] == b'\n')
    }
}

/// What comes next in the file.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A whole record.
    Record(Record<'a>),
    /// Nothing: the file ends at a boundary.
    End,
    /// The trace of a write that did not finish, up to the end of the file.
    Torn,
    /// The same if the machine was started anew since the write; else damage.
    Hole,
    /// Something that is no record, with more after it.
    Damaged,
}

/// Reads records from a place on. Holds one line and a small buffer, however long the file is.
pub(crate) struct Scanner {
    file: Arc<dyn StoredFile>,
    input: BufReader<Stream>,
    line: Vec<u8>,
    place: Place,
    unterminated: bool,
}

impl Scanner {
    pub(crate) fn new(file: Arc<dyn StoredFile>, place: Place) -> io::Result<Self> {
        let ahead = file.len()?.saturating_sub(place.offset);
        let capacity = usize::try_from(ahead).map_or(CHUNK_BYTES, |ahead| ahead.min(CHUNK_BYTES));
        Ok(Self {
            input: BufReader::with_capacity(
                capacity.max(1),
                Stream::new(Arc::clone(&file), place.offset),
            ),
            file,
            line: Vec::new(),
            place,
            unterminated: false,
        })
    }

    /// The boundary after the last record that [`Self::next`] gave.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Whether the last record lacks its newline, which only records without checksum may.
    pub(crate) fn is_unterminated(&self) -> bool {
        self.unterminated
    }

    pub(crate) fn next(&mut self) -> io::Result<Step<'_>> {
        let Some(terminated) = self.fill()? else {
            return Ok(Step::End);
        };
        let len = self.line.len();
        let body = &self.line[..len - usize::from(terminated)];
        let checked = if len > RECORD_BYTES_MAX {
            Err(Unsound::Broken)
        } else {
            record::check(body, self.place.next, self.place.crc_required)
        };
        match checked {
            // Ours are acknowledged with their newline, so one without it never was.
            Ok(record) if terminated || !record.has_crc => {
                self.place.offset += len as u64;
                self.place.next = record.seq.next();
                self.place.crc_required |= record.has_crc;
                self.unterminated = !terminated;
                Ok(Step::Record(record))
            }
            Err(Unsound::Misplaced) => Ok(Step::Damaged),
            Ok(_) | Err(Unsound::Broken) => {
                let after = self.place.offset + len as u64;
                if record::swallows_a_record(body) {
                    Ok(Step::Damaged)
                } else if !is_zero_from(&*self.file, after)? {
                    self.judge_hole()
                } else if terminated {
                    // All of it arrived, so that a process that died does not explain it.
                    Ok(Step::Hole)
                } else {
                    Ok(Step::Torn)
                }
            }
        }
    }

    /// Reads the next line, passing over empty ones where other tools may have left them.
    /// `None` at the end, else whether the line has its newline.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        loop {
            if read_line(&mut self.input, &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line == b"\n" && !self.place.crc_required {
                self.place.offset += 1;
                self.unterminated = false;
                continue;
            }
            return Ok(Some(self.line.last() == Some(&b'\n')));
        }
    }

    /// What a broken line is that has more than zeros after it; see the module's first lines.
    fn judge_hole(&self) -> io::Result<Step<'static>> {
        let stream = Stream::new(Arc::clone(&self.file), self.place.offset);
        let mut input = BufReader::with_capacity(CHUNK_BYTES, stream);
        let (mut line, mut zeros, mut whole) = (Vec::new(), false, false);
        while read_line(&mut input, &mut line)? > 0 {
            // A hole may have swallowed the newline before a record.
            let start = line.iter().rposition(|byte| *byte == 0).map(|at| at + 1);
            // Zeros behind the first whole record say nothing of what is before it.
            zeros |= start.is_some() && !whole;
            let after_zeros = line[start.unwrap_or(0)..].strip_suffix(b"\n");
            let Some((seq, behind)) = after_zeros.and_then(record::written_with) else {
                continue;
            };
            whole = true;
            if self.place.next.0 < seq.0.saturating_sub(behind) {
                return Ok(Step::Damaged);
            }
        }
        Ok(if zeros { Step::Hole } else { Step::Damaged })
    }
}

/// Reads a line of at most one record's length, with its newline; returns its length.
fn read_line(input: &mut BufReader<Stream>, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let most = RECORD_BYTES_MAX as u64 + 1;
    input.take(most).read_until(b'\n', line)
}

/// Whether nothing but zero bytes stands from `offset` to the end.
fn is_zero_from(file: &dyn StoredFile, mut offset: u64) -> io::Result<bool> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = read_full_at(file, &mut buffer, offset)?;
        if buffer[..count].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        if count < buffer.len() {
            return Ok(true);
        }
        offset += count as u64;
    }
}
