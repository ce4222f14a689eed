//! What a language server found, as the model reads it: bounded text with the lines themselves,
//! where they lie beneath the roots.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use domain::event::ToolLocation;
use domain::limits::{
    LSP_FILE_BYTES_MAX, LSP_FILES_BYTES_MAX, LSP_FILES_SHOWN_MAX, LSP_LINE_CHARS_MAX,
    LSP_LOCATIONS_MAX, LSP_SHOWN_BYTES_MAX, LSP_SHOWN_MAX, LSP_SYMBOL_DEPTH_MAX,
};

use super::super::one_line;
use crate::lsp::{Answer, Answered, Encoding, Operation, Place, Position, Problem, Symbol};
use crate::plain::{line_within, plain};
use crate::roots::Roots;

/// What the model and the person get.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) locations: Vec<ToolLocation>,
    shown: usize,
    left_out: usize,
}

impl Shown {
    /// What came of `operation` on the file `path`. Blocks: it looks into the files.
    pub(super) fn of(operation: Operation, path: &str, answered: &Answered, roots: &Roots) -> Self {
        let mut shown = Self::default();
        let mut files = Files::new(roots);
        let encoding = answered.encoding;
        match &answered.answer {
            Answer::Places(places) => shown.places(places, encoding, &mut files),
            Answer::Symbols(symbols) => shown.symbols(path, symbols, encoding, &mut files),
            Answer::Problems(problems) => shown.problems(path, problems, encoding, &mut files),
            Answer::Said(said) => shown.text = cut(&plain(said.as_bytes()), LSP_SHOWN_BYTES_MAX),
        }
        if shown.text.trim().is_empty() {
            shown.text = format!("[no {}]", operation.name());
        }
        if shown.left_out > 0 {
            let note = format!("[cut: {} more]\n", shown.left_out);
            shown.text.push_str(&note);
        }
        if answered.is_early {
            shown.text.push_str(
                "\n[the language server is still reading the project; there may be more]\n",
            );
        }
        shown
    }

    fn places(&mut self, places: &[Place], encoding: Encoding, files: &mut Files<'_>) {
        let mut places: Vec<&Place> = places.iter().collect();
        places.sort_by(|one, other| (&one.uri, one.start).cmp(&(&other.uri, other.start)));
        places.dedup();
        for place in places {
            let line = if self.is_full() {
                String::new()
            } else {
                let (path, text) = files.at(&place.uri, place.start.line);
                let (line, column) = seen_at(place.start, text.as_deref(), encoding);
                self.locate(&path.absolute, line);
                let text = text.unwrap_or_default();
                format!("{}:{line}:{column}: {}", path.shown, text.trim())
            };
            self.push(&line);
        }
    }

    fn symbols(&mut self, path: &str, all: &[Symbol], encoding: Encoding, files: &mut Files<'_>) {
        for symbol in all {
            let text = files.in_root(path, symbol.start.line);
            let (line, column) = seen_at(symbol.start, text.as_deref(), encoding);
            let indent = "  ".repeat(symbol.depth.min(LSP_SYMBOL_DEPTH_MAX));
            let (kind, name) = (kind(symbol.kind), one_line(&symbol.name));
            self.push(&format!("{path}:{line}:{column}: {indent}{kind} {name}"));
        }
    }

    fn problems(&mut self, path: &str, all: &[Problem], encoding: Encoding, files: &mut Files<'_>) {
        let mut all: Vec<&Problem> = all.iter().collect();
        all.sort_by_key(|problem| problem.start());
        for problem in all {
            let text = files.in_root(path, problem.start().line);
            let (line, column) = seen_at(problem.start(), text.as_deref(), encoding);
            let (how, what) = (severity(problem.severity), one_line(&problem.message));
            let source = problem.source.as_deref().map(one_line);
            let source = source.map_or_else(String::new, |source| format!(" [{source}]"));
            self.locate(&files.roots.absolute(path), line);
            self.push(&format!("{path}:{line}:{column}: {how}: {what}{source}"));
        }
    }

    fn is_full(&self) -> bool {
        self.shown >= LSP_SHOWN_MAX || self.text.len() >= LSP_SHOWN_BYTES_MAX
    }

    fn push(&mut self, line: &str) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        self.shown += 1;
        self.text
            .push_str(&line_within(line.trim_end(), LSP_LINE_CHARS_MAX));
        self.text.push('\n');
    }

    fn locate(&mut self, path: &str, line: u32) {
        if self.locations.len() < LSP_LOCATIONS_MAX && !path.is_empty() {
            self.locations.push(ToolLocation {
                path: path.to_owned(),
                line: Some(line),
            });
        }
    }
}

/// Line and character as people count them; without the text of the line, as near as can be.
fn seen_at(start: Position, text: Option<&str>, encoding: Encoding) -> (u32, usize) {
    let units = start.character as usize;
    let column = text.map_or(units + 1, |text| encoding.column(text, units));
    (start.line.saturating_add(1), column)
}

/// A file as it is told.
struct Named {
    /// To the model.
    shown: String,
    /// To clients; empty if it is not beneath the roots.
    absolute: String,
}

/// The files that were found, each read once, and only beneath the roots.
struct Files<'a> {
    roots: &'a Roots,
    /// Bytes that may still be read.
    room: u64,
    read: HashMap<PathBuf, Option<Vec<String>>>,
}

impl<'a> Files<'a> {
    fn new(roots: &'a Roots) -> Self {
        Self {
            roots,
            room: LSP_FILES_BYTES_MAX,
            read: HashMap::new(),
        }
    }

    /// The file that a server calls `uri`, and the text of a line of it if it may be seen.
    fn at(&mut self, uri: &str, line: u32) -> (Named, Option<String>) {
        let parsed = url::Url::parse(uri).ok();
        let path = parsed.and_then(|uri| uri.to_file_path().ok());
        let Some(path) = path else {
            let shown = line_within(&one_line(uri), LSP_LINE_CHARS_MAX).into_owned();
            let absolute = String::new();
            return (Named { shown, absolute }, None);
        };
        let beneath = self.roots.beneath(&path);
        let text = beneath.as_ref().and_then(|path| self.line(path, line));
        // What lies elsewhere is named, and nobody is led there.
        let absolute = beneath.as_deref().and_then(Path::to_str);
        let shown = beneath.as_deref().unwrap_or(&path);
        let named = Named {
            shown: one_line(&shown.to_string_lossy()),
            absolute: absolute.map_or_else(String::new, |path| self.roots.absolute(path)),
        };
        (named, text)
    }

    /// A line of the file at `path`, which the model named.
    fn in_root(&mut self, path: &str, line: u32) -> Option<String> {
        self.line(Path::new(path), line)
    }

    fn line(&mut self, path: &Path, line: u32) -> Option<String> {
        if !self.read.contains_key(path) {
            if self.read.len() >= LSP_FILES_SHOWN_MAX {
                return None;
            }
            let lines = self.lines(path);
            self.read.insert(path.to_owned(), lines);
        }
        let lines = self.read.get(path)?.as_ref()?;
        lines.get(line as usize).cloned()
    }

    fn lines(&mut self, path: &Path) -> Option<Vec<String>> {
        let file = self.roots.open_file(path.to_str()?).ok()?;
        let mut bytes = Vec::new();
        let most = LSP_FILE_BYTES_MAX.min(self.room);
        file.take(most).read_to_end(&mut bytes).ok()?;
        self.room -= bytes.len() as u64;
        let text = String::from_utf8(bytes).ok()?;
        let lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
        Some(lines.map(str::to_owned).collect())
    }
}

/// `text` as far as it is of use.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{}\n[cut]", &text[..end])
}

fn severity(number: Option<u32>) -> &'static str {
    match number {
        Some(2) => "warning",
        Some(3) => "note",
        Some(4) => "hint",
        // What does not say how bad it is, is bad.
        Some(_) | None => "error",
    }
}

/// The protocol's kinds of symbols, from one.
const KINDS: [&str; 26] = [
    "file",
    "module",
    "namespace",
    "package",
    "class",
    "method",
    "property",
    "field",
    "constructor",
    "enum",
    "interface",
    "function",
    "variable",
    "constant",
    "string",
    "number",
    "boolean",
    "array",
    "object",
    "key",
    "null",
    "enum member",
    "struct",
    "event",
    "operator",
    "type parameter",
];

fn kind(number: u32) -> &'static str {
    let index = (number as usize).checked_sub(1);
    index
        .and_then(|index| KINDS.get(index))
        .unwrap_or(&"symbol")
}
