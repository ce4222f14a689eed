//! `grep`: lines of files by a regular expression.

mod lines;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::event::ToolKind;
use domain::limits::{
    GREP_CONTEXT_LINES_MAX, GREP_FOUND_BYTES_MAX, GREP_SHOWN_BYTES_MAX, TOOL_RESULT_LINES_MAX,
};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::search::{self, Next, Reach, Wanted};
use super::{Outcome, RunsHere, Shown, Tool, parse_input, show_search};
use crate::output;
use crate::roots::{PathError, Roots, SearchRoot, Watched};
use lines::Lines;

pub(crate) struct Grep;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    context: Option<usize>,
}

impl Tool for Grep {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Finds lines that match a regular expression, sorted by path. Binary, ignored and hidden files are left \
         out."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression; `(?i)` ignores case"},
                "path": {
                    "type": "string",
                    "description": "Directory, file, or the `output:…` of a command; default: the working directory",
                },
                "glob": {"type": "string", "description": "Search only these files, such as `*.py`"},
                "context": {"type": "integer", "minimum": 0, "description": "Lines to show before and after each match"},
            },
            "required": ["pattern"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let title = format!("Search for {}", text("pattern").unwrap_or_default());
        show_search(title, ToolKind::Search, text("path").unwrap_or("."), roots)
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }
}

impl RunsHere for Grep {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        match grep(&input, roots) {
            Ok(text) => Outcome::completed(text),
            Err(problem) => Outcome::failed(problem),
        }
    }
}

fn grep(input: &Input, roots: &Roots) -> Result<String, String> {
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(&input.pattern)
        .map_err(|error| format!("The pattern is not valid: {error}."))?;
    let wanted = input.glob.as_deref().map(Wanted::parse).transpose()?;
    let path = input.path.as_deref().unwrap_or(".");
    let refused = |error: PathError| format!("{path} cannot be searched: {error}.");
    if let Some(name) = path.strip_prefix(output::SCHEME) {
        let file = roots.open_output(name).map_err(refused)?;
        return Ok(in_file(input, &matcher, path, Watched::of(file, roots)));
    }
    match roots.search(path) {
        Ok(root) => {
            let (found, reach) = in_tree(input, &matcher, wanted.as_ref(), &root);
            Ok(shown(found, reach, path))
        }
        Err(PathError::Io(error)) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let file = roots.open_file(path).map_err(refused)?;
            Ok(in_file(input, &matcher, path, Watched::of(file, roots)))
        }
        Err(error) => Err(refused(error)),
    }
}

/// What was found in one file.
struct Found {
    rest: PathBuf,
    lines: Lines,
}

fn in_tree(
    input: &Input,
    matcher: &RegexMatcher,
    wanted: Option<&Wanted>,
    root: &SearchRoot,
) -> (Vec<Found>, Reach) {
    let all = Mutex::new((Vec::new(), 0));
    let with_hidden = wanted.is_some_and(|wanted| wanted.names_hidden);
    let watch = root.watch();
    let reach = search::walk(root, &watch, with_hidden, || {
        let mut searcher = input.searcher();
        let (all, watch) = (&all, &watch);
        move |rest: &Path| {
            if wanted.is_some_and(|wanted| !wanted.has(rest)) {
                return Next::GoOn;
            }
            // What went meanwhile, or became something else, has no lines.
            let Ok(file) = root.open(rest) else {
                return Next::GoOn;
            };
            let lines = Lines::of(&mut searcher, matcher, watch.over(file));
            if lines.is_empty() && lines.is_cut() {
                return Next::Stop;
            }
            if lines.is_empty() {
                return Next::GoOn;
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.1 += lines.bytes();
            let rest = rest.to_owned();
            all.0.push(Found { rest, lines });
            match all.1 < GREP_FOUND_BYTES_MAX {
                true => Next::GoOn,
                false => Next::Stop,
            }
        }
    });
    let (mut found, _) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by(|one: &Found, other| search::by_path(&one.rest, &other.rest));
    (found, reach)
}

fn in_file(input: &Input, matcher: &RegexMatcher, path: &str, file: Watched) -> String {
    let lines = Lines::of(&mut input.searcher(), matcher, file);
    if lines.is_empty() && !lines.is_cut() {
        return "[no matches]".to_owned();
    }
    let mut page = Page::default();
    page.push(path, &lines);
    page.end(Reach::Whole)
}

fn shown(found: Vec<Found>, reach: Reach, start: &str) -> String {
    if found.is_empty() && reach == Reach::Whole {
        return "[no matches]".to_owned();
    }
    let mut page = Page::default();
    for Found { rest, lines } in &found {
        page.push(&search::shown(start, rest), lines);
    }
    page.end(reach)
}

/// As much as is shown.
#[derive(Default)]
struct Page {
    text: String,
    lines: usize,
    left_out: usize,
    is_cut: bool,
}

impl Page {
    fn push(&mut self, path: &str, found: &Lines) {
        self.is_cut |= found.is_cut();
        if self.left_out == 0 && found.has_context() && !self.text.is_empty() {
            self.text.push_str("--\n");
        }
        for line in found.shown(path) {
            if self.lines >= TOOL_RESULT_LINES_MAX
                || self.text.len() + line.len() > GREP_SHOWN_BYTES_MAX
            {
                self.left_out += 1;
                continue;
            }
            self.lines += 1;
            self.text.push_str(&line);
        }
    }

    fn end(mut self, reach: Reach) -> String {
        if self.left_out > 0 {
            let note = format!(
                "[cut: {} more lines; make the pattern or the path narrower]\n",
                self.left_out
            );
            self.text.push_str(&note);
        } else if self.is_cut || reach == Reach::Part {
            let note = "[cut: the search was stopped before its end; make the pattern or the path narrower]\n";
            self.text.push_str(note);
        }
        self.text
    }
}

impl Input {
    fn searcher(&self) -> Searcher {
        let context = self.context.unwrap_or(0).min(GREP_CONTEXT_LINES_MAX);
        SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            // A line longer than this is data.
            .heap_limit(Some(GREP_FOUND_BYTES_MAX))
            .build()
    }
}
