//! What `ask` prints: the answer on stdout, and for a person dim lines about the rest on stderr.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use client::ToolCall;
use serde_json::Value;

use super::messages::Messages;
use super::tally::Ending;
use crate::render::{Failure, Palette, advise, exact_line, one_line};
use crate::safe_text::TextFilter;

/// Where things are printed.
pub(super) struct Sinks {
    pub(super) out: Box<dyn Write + Send>,
    pub(super) err: Box<dyn Write + Send>,
    pub(super) audience: Audience,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Audience {
    /// Whether a person reads stdout.
    pub(super) out: Reader,
    /// Whether a person reads stderr; if not, nothing is printed there.
    pub(super) err: Reader,
}

/// Who reads one of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A person at a terminal.
    Person,
    /// A file or another program.
    Program,
    /// Nobody before the end: the text is collected for one JSON object.
    Collected,
}

impl Sinks {
    /// The program's own streams.
    pub(super) fn standard(is_json: bool) -> Self {
        let reader = |is_terminal| {
            if is_terminal {
                Reader::Person
            } else {
                Reader::Program
            }
        };
        let out = match is_json {
            true => Reader::Collected,
            false => reader(io::stdout().is_terminal()),
        };
        let err = reader(io::stderr().is_terminal());
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            audience: Audience { out, err },
        }
    }
}

/// How often the spinner moves, and how long nothing happens before it is there.
pub(super) const SPIN_EVERY: Duration = Duration::from_millis(150);

/// What turns while a person waits.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The screen and where its cursor stands.
pub(super) struct Screen {
    sinks: Sinks,
    palette: Palette,
    line: Line,
    /// What stdout ended with: nothing, a line break, or something else.
    last: Option<char>,
    /// The messages of the answer, in their order.
    messages: Messages,
    text_bytes_max: u64,
    /// How often the spinner has moved; `None` while it is not there.
    spun: Option<usize>,
    /// Makes text safe that comes in pieces.
    filter: TextFilter,
}

/// What stands in the terminal's current line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Empty,
    Text,
    Thought,
    /// A tool call that has not ended yet, by its id.
    Tool(String),
}

impl Screen {
    pub(super) fn new(sinks: Sinks, palette: Palette, text_bytes_max: u64) -> Self {
        Self {
            sinks,
            palette,
            line: Line::Empty,
            last: None,
            messages: Messages::default(),
            text_bytes_max,
            spun: None,
            filter: TextFilter::default(),
        }
    }

    /// Moves the spinner, where a person waits and the line is free for it.
    pub(super) fn spin(&mut self) -> io::Result<()> {
        let is_watched = self.sinks.audience.err == Reader::Person && self.palette.is_coloured();
        if !is_watched || self.line != Line::Empty {
            return Ok(());
        }
        let turn = self.spun.map_or(0, |turn| (turn + 1) % SPINNER.len());
        self.spun = Some(turn);
        let shown = self.palette.dim(&SPINNER[turn].to_string());
        self.print(&format!("\r{shown}"))
    }

    fn stop_spinning(&mut self) -> io::Result<()> {
        match self.spun.take() {
            Some(_) => self.print("\r\x1b[K"),
            None => Ok(()),
        }
    }

    /// A piece of the answer, of the message with that id. Messages are set apart by an empty line.
    pub(super) fn text(&mut self, message: Option<&str>, text: &str) -> io::Result<()> {
        let Some(last) = text.chars().next_back() else {
            return Ok(());
        };
        self.stop_spinning()?;
        let between = self.messages.begin(message);
        // One more byte than allowed is kept, so that the end can tell.
        let room = self.text_bytes_max + 1;
        self.messages.push(text, room);
        match self.sinks.audience.out {
            Reader::Collected => return Ok(()),
            Reader::Person => {
                if self.line != Line::Text || !between.is_empty() {
                    self.end_line()?;
                }
                // Otherwise lines about tools stand in between.
                if self.sinks.audience.err != Reader::Person {
                    self.sinks.out.write_all(between.as_bytes())?;
                }
                let safe = self.filter.push(text);
                self.sinks.out.write_all(safe.as_bytes())?;
                self.line = if last == '\n' {
                    Line::Empty
                } else {
                    Line::Text
                };
            }
            Reader::Program => {
                self.sinks.out.write_all(between.as_bytes())?;
                self.sinks.out.write_all(text.as_bytes())?;
            }
        }
        self.last = Some(last);
        self.sinks.out.flush()
    }

    /// What comes next is another message, whether or not it has an id.
    pub(super) fn end_message(&mut self) {
        self.messages.end();
    }

    /// Whether the answer says anything.
    pub(super) fn has_text(&self) -> bool {
        self.messages.has_text()
    }

    /// The last message, if it is short enough to be repeated.
    pub(super) fn last_message(&self) -> Option<&str> {
        self.messages.last()
    }

    /// A piece of the thinking.
    pub(super) fn thought(&mut self, text: &str) -> io::Result<()> {
        if self.sinks.audience.err != Reader::Person || text.is_empty() {
            return Ok(());
        }
        if self.line != Line::Thought {
            self.end_line()?;
        }
        let safe = self.filter.push(text);
        self.err(&self.palette.dim(&safe))?;
        self.line = if text.ends_with('\n') {
            Line::Empty
        } else {
            Line::Thought
        };
        Ok(())
    }

    /// A tool call was proposed.
    pub(super) fn tool_started(&mut self, call: &ToolCall) -> io::Result<()> {
        if self.sinks.audience.err != Reader::Person {
            return Ok(());
        }
        self.end_line()?;
        self.err(&self.palette.dim(&format!("● {} …", title(call))))?;
        self.line = Line::Tool(call.id.clone());
        Ok(())
    }

    /// A tool call ended. Its line is completed, or written anew if others came in between.
    pub(super) fn tool_ended(&mut self, call: &ToolCall, ending: Ending) -> io::Result<()> {
        if self.sinks.audience.err != Reader::Person {
            return Ok(());
        }
        let word = match ending {
            Ending::Done => "done",
            Ending::Failed => "failed",
            Ending::Denied => "denied",
            Ending::Cancelled => "cancelled",
        };
        if self.line == Line::Tool(call.id.clone()) {
            self.err(&self.palette.dim(&format!(" {word}\n")))?;
        } else {
            self.end_line()?;
            self.err(&self.palette.dim(&format!("● {} … {word}\n", title(call))))?;
        }
        self.line = Line::Empty;
        Ok(())
    }

    /// Asks a person whether a tool may run. The answer is typed into the same line.
    pub(super) fn question(&mut self, call: &ToolCall) -> io::Result<()> {
        self.end_line()?;
        let question = format!("● {} — allow it? [y/N] ", title(call));
        self.err(&self.palette.bold(&question))?;
        self.line = Line::Thought;
        Ok(())
    }

    /// Has a person choose among `answers` to a question of the agent's.
    pub(super) fn choice<'a>(
        &mut self,
        call: &ToolCall,
        answers: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        self.end_line()?;
        self.err(&self.palette.bold(&format!("● {}\n", title(call))))?;
        let mut count = 0;
        for answer in answers {
            count += 1;
            self.err(&format!("  {count}. {}\n", one_line(answer)))?;
        }
        let prompt = format!("answer [1-{count}, or Enter not to answer] ");
        self.err(&self.palette.bold(&prompt))?;
        self.line = Line::Thought;
        Ok(())
    }

    /// The person pressed Enter.
    pub(super) fn answered(&mut self) {
        self.line = Line::Empty;
    }

    /// A dim line for a person; an empty one prints nothing.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        if self.sinks.audience.err != Reader::Person || text.is_empty() {
            return Ok(());
        }
        self.end_line()?;
        self.err(&self.palette.dim(&format!("{}\n", one_line(&advise(text)))))
    }

    /// Something that the server says; whoever reads stderr should know it.
    pub(super) fn notice(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = one_line(&advise(text));
        self.err(&self.palette.dim(&format!("note: {text}\n")))
    }

    /// Ends the answer with a line break if it has none.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.stop_spinning()?;
        let is_open = match self.sinks.audience.out {
            Reader::Person => self.line == Line::Text,
            Reader::Program => self.last.is_some_and(|last| last != '\n'),
            Reader::Collected => false,
        };
        if is_open {
            self.sinks.out.write_all(b"\n")?;
            self.last = Some('\n');
            self.line = Line::Empty;
        }
        self.end_line()?;
        self.sinks.out.flush()
    }

    /// The whole answer.
    pub(super) fn collected(&self) -> Result<String, Failure> {
        if self.messages.bytes() > self.text_bytes_max {
            let sentence = format!("the answer is longer than {} bytes", self.text_bytes_max);
            return Err(Failure::new(sentence).hint("ask without --json to have it streamed"));
        }
        Ok(self.messages.joined())
    }

    /// Its messages.
    pub(super) fn messages(&self) -> &[String] {
        self.messages.all()
    }

    /// Prints one JSON object as a line.
    pub(super) fn object(&mut self, object: &Value) -> io::Result<()> {
        writeln!(self.sinks.out, "{object}")?;
        self.sinks.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.line != Line::Empty {
            // On a terminal both streams share the line, so that either can end it.
            self.line = Line::Empty;
            if self.sinks.audience.err == Reader::Person {
                return self.err("\n");
            }
        }
        Ok(())
    }

    fn err(&mut self, text: &str) -> io::Result<()> {
        self.stop_spinning()?;
        self.print(text)
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        self.sinks.err.write_all(text.as_bytes())?;
        self.sinks.err.flush()
    }
}

/// A call as a person reads it: always one line.
fn title(call: &ToolCall) -> String {
    let title = call.title.as_deref().or(call.name.as_deref());
    exact_line(title.unwrap_or("a tool"))
}

#[cfg(test)]
mod tests;
