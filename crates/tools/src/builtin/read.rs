//! `read`: a file, a page at a time.

mod content;

use std::io::Read as _;
use std::sync::Arc;

use base64::Engine as _;
use domain::event::ToolKind;
use domain::limits::{
    FILE_BYTES_MAX, IMAGE_BYTES_MAX, READ_BYTES_MAX, READ_LINE_CHARS_MAX, TOOL_RESULT_LINES_MAX,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Outcome, Running, RunsHere, RunsThere, Shown, There, ThereError, Tool, parse_input, show_file,
};
use crate::client_side::{Offers, ReadTextFile};
use crate::output;
use crate::plain::{line_within, plain};
use crate::roots::Roots;
use content::Content;

pub(crate) struct Read;

#[derive(Deserialize)]
struct Input {
    path: String,
    /// First line, from 1.
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Reads a text file and shows its lines with their numbers; a notebook (.ipynb) as its cells. \
         Images are shown to the user."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, or the `output:…` of a command"},
                "offset": {"type": "integer", "minimum": 1, "description": "First line to show; the first of the file is 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "Number of lines to show"},
            },
            "required": ["path"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        show_file("Read", ToolKind::Read, input, roots)
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }

    fn there(&self, offers: Offers) -> Option<&dyn RunsThere> {
        offers.read_text_file.then_some(self)
    }
}

impl RunsHere for Read {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let mut bytes = Vec::new();
        let output = input.output();
        let opened = match output {
            Some(name) => roots.open_output(name),
            None => roots.open_file(&input.path),
        };
        let read =
            opened.and_then(|file| Ok(file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?));
        match read {
            Err(error) => Outcome::failed(format!("{} could not be read: {error}.", input.path)),
            Ok(length) if length as u64 > FILE_BYTES_MAX => {
                Outcome::failed(format!("{} is too large to read.", input.path))
            }
            Ok(_) if output.is_some() => input.text_outcome(&plain(&bytes), None),
            Ok(_) => {
                roots.seen().note(roots.name_of(&input.path), &bytes);
                input.outcome(&bytes)
            }
        }
    }
}

impl RunsThere for Read {
    fn run(&self, value: Value, there: There) -> Running {
        let input = parse_input::<Input>(self.name(), value.clone());
        Box::pin(async move {
            let input = match input {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            if input.output().is_some() {
                return here(value, &there).await;
            }
            match ask(&input, &there).await {
                Ok(text) if text.is_empty() && input.first() > 1 => Outcome::failed(format!(
                    "{} ends before line {}.",
                    input.path,
                    input.first()
                )),
                Ok(text) => {
                    input.note(&text, &there.roots);
                    Outcome::completed(page(text.split_inclusive('\n'), &input, None))
                }
                Err(error) => {
                    Outcome::failed(format!("{} could not be read: {error}.", input.path))
                }
            }
        })
    }
}

impl Input {
    /// What the model and the person get of a file with these `bytes`.
    fn outcome(&self, bytes: &[u8]) -> Outcome {
        match Content::of(&self.path, bytes) {
            Content::Text(text, note) => self.text_outcome(&text, note),
            Content::Image(kind) => self.image_outcome(kind, bytes),
            Content::Binary => Outcome::failed(format!(
                "{} is a binary file of {} bytes; there is nothing to read in it.",
                self.path,
                bytes.len()
            )),
        }
    }

    fn text_outcome(&self, text: &str, note: Option<&str>) -> Outcome {
        let count = text.lines().count();
        let first = self.first();
        if first > count && first > 1 {
            let lines = if count == 1 { "line" } else { "lines" };
            return Outcome::failed(format!(
                "{} has {count} {lines}; there is no line {first}.",
                self.path
            ));
        }
        let lines = text.split_inclusive('\n').skip(first - 1);
        let mut shown = page(lines, self, Some(count));
        if let Some(note) = note {
            shown.push_str(&format!("\n{note}"));
        }
        Outcome::completed(shown)
    }

    /// The person is shown an image, and so is a model that sees.
    fn image_outcome(&self, kind: &str, bytes: &[u8]) -> Outcome {
        let text = format!("{} is an image ({kind}, {} bytes)", self.path, bytes.len());
        if bytes.len() > IMAGE_BYTES_MAX {
            return Outcome::completed(format!("{text}, too large to be shown."));
        }
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let block = json!({"type": "image", "mimeType": kind, "data": data});
        Outcome::completed(format!("{text}.")).showing(vec![block])
    }

    /// The name of kept output, if that is what shall be read.
    fn output(&self) -> Option<&str> {
        self.path.strip_prefix(output::SCHEME)
    }

    /// The first line wanted, from 1.
    fn first(&self) -> usize {
        self.offset.unwrap_or(1).max(1)
    }

    /// Remembers what the client sent of a file.
    fn note(&self, text: &str, roots: &Roots) {
        let name = roots.name_of(&self.path);
        let lines = text.split_inclusive('\n').count();
        if self.first() == 1 && lines <= self.wanted() {
            roots.seen().note(name, text.as_bytes());
        } else {
            roots.seen().note_part(name);
        }
    }

    /// How many lines are shown.
    fn wanted(&self) -> usize {
        self.limit
            .unwrap_or(TOOL_RESULT_LINES_MAX)
            .min(TOOL_RESULT_LINES_MAX)
    }
}

/// Reads what only the server has.
async fn here(input: Value, there: &There) -> Outcome {
    let roots = Arc::clone(&there.roots);
    let read = tokio::task::spawn_blocking(move || RunsHere::run(&Read, input, &roots));
    read.await
        .unwrap_or_else(|_| Outcome::failed("It could not be read."))
}

/// The wanted lines of a file as the client sees it, and one more to know whether there are any.
async fn ask(input: &Input, there: &There) -> Result<String, ThereError> {
    let path = there.path(&input.path).await?;
    let read = ReadTextFile {
        path,
        line: input
            .offset
            .map(|line| u32::try_from(line).unwrap_or(u32::MAX)),
        limit: u32::try_from(input.wanted() + 1).ok(),
    };
    let (text, _) = there.seat.read_text_file(read).await?;
    Ok(text)
}

/// The beginning of a file, as `read` shows it.
pub(super) fn page_of(path: &str, text: &str) -> String {
    let input = Input {
        path: path.to_owned(),
        offset: None,
        limit: None,
    };
    page(
        text.split_inclusive('\n'),
        &input,
        Some(text.lines().count()),
    )
}

/// The lines asked for, each with its number, and a note if these are not all. `lines` begin with the
/// first one wanted, and `count` is how many there are in all, if that is known.
fn page<'a>(
    mut lines: impl Iterator<Item = &'a str>,
    input: &Input,
    count: Option<usize>,
) -> String {
    let (first, wanted) = (input.first(), input.wanted());
    let mut shown = String::new();
    let (mut next, mut is_cut) = (first, false);
    for line in lines.by_ref().take(wanted) {
        let line = line_within(line, READ_LINE_CHARS_MAX);
        let line = format!("{next}\t{line}");
        is_cut = shown.len() + line.len() > READ_BYTES_MAX;
        if is_cut {
            break;
        }
        shown.push_str(&line);
        next += 1;
    }
    let is_cut = is_cut || lines.next().is_some();
    if !is_cut && first == 1 {
        return shown;
    }
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    let last = next.saturating_sub(1);
    let of = count.map_or(String::new(), |count| format!(" of {count}"));
    let more = match is_cut {
        true => format!("; read on with offset {next}"),
        false => String::new(),
    };
    shown.push_str(&format!("[lines {first}–{last}{of}{more}]"));
    shown
}
