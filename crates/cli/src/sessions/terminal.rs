//! A session in a terminal: numbers and times on the left, what happened beside them.

use std::io::Write;

use domain::clock::Timestamp;
use domain::event::{Text, ToolStatus};
use journal::{Meta, Reader, Stored};

use super::list::shorten;
use super::transcript::{Piece, Tone, Transcript, Who, Words, status_name};
use super::walk;
use crate::render::{Palette, one_line};
use crate::safe_text::TextFilter;

/// Lines of a tool's result that are shown; `export` has them all.
const RESULT_LINES_MAX: usize = 12;

/// Characters of a tool's input, and of each line of its result, that are shown.
const LINE_CHARACTERS_MAX: usize = 400;

/// Where text begins: after the number and the time.
const INDENT: &str = "                  ";

/// Writes events as they are read.
pub(super) struct Terminal<W> {
    out: W,
    palette: Palette,
    transcript: Transcript,
    /// The day of the event before, as it was shown.
    day: String,
}

impl<W: Write> Terminal<W> {
    pub(super) fn new(out: W, palette: Palette) -> Self {
        Self {
            out,
            palette,
            transcript: Transcript::default(),
            day: String::new(),
        }
    }

    /// What the session is, before its events.
    pub(super) fn head(&mut self, meta: &Meta) -> anyhow::Result<()> {
        let palette = self.palette;
        let title = one_line(meta.title.as_deref().unwrap_or("(no title)"));
        writeln!(self.out, "{}", palette.bold(&title))?;
        let about = format!(
            "{} · {} · {} events · owner {}",
            meta.id,
            one_line(&meta.cwd),
            meta.head,
            one_line(meta.owner.as_str())
        );
        writeln!(self.out, "{}", palette.dim(&about))?;
        Ok(())
    }

    /// One event.
    pub(super) fn event(&mut self, reader: &Reader, stored: &Stored) -> anyhow::Result<()> {
        let palette = self.palette;
        let piece = self.transcript.read(stored);
        match piece {
            Piece::Silent => {}
            Piece::Message { who, text, is_cut } => {
                self.speaker(stored, who)?;
                self.words(reader, text)?;
                if is_cut {
                    let cut = palette.dim("[cut short]");
                    writeln!(self.out, "{INDENT}{cut}")?;
                }
            }
            Piece::Call { name, title, input } => {
                let name = palette.bold(&one_line(name));
                let title = palette.dim(&one_line(title));
                let about = format!("tool {name} {title}");
                self.line(stored, about.trim_end())?;
                let input = shorten(&one_line(&input.to_string()), LINE_CHARACTERS_MAX);
                writeln!(self.out, "{INDENT}{}", palette.dim(&input))?;
            }
            Piece::Outcome {
                name,
                status,
                text,
                allowed,
            } => {
                let status_text = status_name(status);
                let shown = match status {
                    ToolStatus::Completed => palette.green(status_text),
                    ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Unknown => {
                        palette.red(status_text)
                    }
                    ToolStatus::Cancelled | ToolStatus::NotRun => status_text.to_owned(),
                };
                let why = allowed.map_or_else(String::new, |why| format!(", {}", why.sentence()));
                self.line(stored, &format!("{name} {shown}{}", palette.dim(&why)))?;
                self.result(text)?;
            }
            Piece::Line { text, tone } => {
                let text = shorten(&text, LINE_CHARACTERS_MAX);
                let shown = match tone {
                    Tone::Plain => palette.dim(&text),
                    Tone::Good => palette.green(&text),
                    Tone::Bad => palette.red(&text),
                };
                self.line(stored, &shown)?;
            }
        }
        Ok(())
    }

    /// The name above a message whose text follows in pieces.
    pub(super) fn speaker(&mut self, stored: &Stored, who: Who) -> anyhow::Result<()> {
        let name = match who {
            Who::Thought | Who::Server => self.palette.dim(who.name()),
            Who::You | Who::Queued | Who::Assistant => self.palette.bold(who.name()),
        };
        self.line(stored, &name)
    }

    /// Remarks about the session as a whole, after its events.
    pub(super) fn remark(&mut self, text: &str) -> anyhow::Result<()> {
        writeln!(self.out, "{}", self.palette.red(text))?;
        Ok(())
    }

    /// Begins, or goes on with, a text that comes piece by piece.
    pub(super) fn text(&mut self, margin: Margin) -> Indented<'_, W> {
        let filter = margin.filter.unwrap_or_else(|| self.palette.filter());
        Indented {
            out: &mut self.out,
            margin: Margin {
                filter: Some(filter),
                ..margin
            },
        }
    }

    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn line(&mut self, stored: &Stored, text: &str) -> anyhow::Result<()> {
        let (day, time) = day_and_time(stored.ts);
        if day != self.day {
            writeln!(self.out, "\n{}", self.palette.dim(&format!("{day} (UTC)")))?;
            self.day = day;
        }
        let place = format!("{:>6}  {time}", stored.seq.0);
        writeln!(self.out, "{}  {text}", self.palette.dim(&place))?;
        Ok(())
    }

    fn words(&mut self, reader: &Reader, words: Words<'_>) -> anyhow::Result<()> {
        let mut text = self.text(Margin::default());
        match words {
            Words::Plain(words) => text.push(words)?,
            Words::Stored(stored) => text.push_stored(reader, stored, 0)?,
        }
        text.end()
    }

    /// The first lines of a tool's result.
    fn result(&mut self, text: &str) -> anyhow::Result<()> {
        let text = self.palette.filter().push(text);
        let mut lines = text.lines();
        for line in lines.by_ref().take(RESULT_LINES_MAX) {
            writeln!(self.out, "{INDENT}{}", shorten(line, LINE_CHARACTERS_MAX))?;
        }
        match lines.count() {
            0 => {}
            more => {
                let more = self.palette.dim(&format!("… {more} more lines"));
                writeln!(self.out, "{INDENT}{more}")?;
            }
        }
        Ok(())
    }
}

/// How far a text that comes in pieces is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Margin {
    is_line_begun: bool,
    /// Line breaks not written yet: those at the end of a text are left out.
    breaks: usize,
    /// What makes the next piece safe; `None` before the first.
    filter: Option<TextFilter>,
}

/// Text in its column, without what a terminal would act on.
pub(super) struct Indented<'a, W> {
    out: &'a mut W,
    margin: Margin,
}

impl<W: Write> Indented<'_, W> {
    pub(super) fn push(&mut self, text: &str) -> anyhow::Result<()> {
        let filter = self.margin.filter.get_or_insert_default();
        for line in filter.push(text).split_inclusive('\n') {
            let words = line.trim_end_matches('\n');
            if !words.is_empty() {
                self.break_lines()?;
                if !self.margin.is_line_begun {
                    self.out.write_all(INDENT.as_bytes())?;
                }
                self.out.write_all(words.as_bytes())?;
                self.margin.is_line_begun = true;
            }
            self.margin.breaks += usize::from(line.ends_with('\n'));
        }
        Ok(())
    }

    /// The text of a message from byte `from` on.
    pub(super) fn push_stored(
        &mut self,
        reader: &Reader,
        text: &Text,
        from: u64,
    ) -> anyhow::Result<()> {
        walk::text(reader, text, from, |piece| self.push(piece))
    }

    /// Where the next piece goes on.
    pub(super) fn margin(&self) -> Margin {
        self.margin
    }

    /// Ends the last line.
    pub(super) fn end(self) -> anyhow::Result<()> {
        if self.margin.is_line_begun {
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn break_lines(&mut self) -> anyhow::Result<()> {
        for _ in 0..std::mem::take(&mut self.margin.breaks) {
            self.out.write_all(b"\n")?;
            self.margin.is_line_begun = false;
        }
        Ok(())
    }
}

/// `2026-07-02` and `10:22:03`.
fn day_and_time(ts: Timestamp) -> (String, String) {
    let shown = ts.to_rfc3339();
    let part = |range: std::ops::Range<usize>| shown.get(range).unwrap_or_default().to_owned();
    (part(0..10), part(11..19))
}
