//! Tool calls: what runs shows its last words, what has ended is folded to a few lines.

use std::collections::VecDeque;
use std::time::Duration;

use client::ToolCall;
use serde_json::Value;
use tokio::time::Instant;

use super::diff;
use super::text::{Line, Style};
use crate::safe_text::{exact, exact_line};

/// Calls that are remembered while they run.
const OPEN_MAX: usize = 64;
/// Rows of what a running call prints.
const LIVE_ROWS_MAX: usize = 4;
/// Lines of a result that are shown before it is unfolded.
const FOLDED_LINES_MAX: usize = 4;
/// Lines of a change that are shown before it is unfolded.
const DIFF_LINES_MAX: usize = 24;
/// Lines of an unfolded result; what is longer is better read elsewhere.
const UNFOLDED_LINES_MAX: usize = 1_000;
/// Bytes of a result that are kept to unfold it.
const KEPT_BYTES_MAX: usize = 256 * 1024;
/// Less than this nobody wants to know.
const LONG: Duration = Duration::from_secs(1);

/// The calls of a session.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: VecDeque<Open>,
    /// What the last one that was folded said.
    folded: Option<Folded>,
}

#[derive(Debug)]
struct Open {
    call: ToolCall,
    since: Instant,
    /// The changes that it is about to make.
    changes: Vec<Changed>,
    /// Whether they were shown, with a question.
    is_shown: bool,
    /// Whether that question waits for its answer.
    is_asked: bool,
    printed: String,
}

/// A change to one file.
#[derive(Clone, Debug)]
struct Changed {
    path: String,
    old: String,
    new: String,
}

#[derive(Debug)]
struct Folded {
    title: String,
    text: String,
    changes: Vec<Changed>,
}

impl Calls {
    /// A call was proposed.
    pub(super) fn started(&mut self, call: ToolCall, raw: &Value, now: Instant) {
        if self.open.len() >= OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back(Open {
            call,
            since: now,
            changes: changes(raw),
            is_shown: false,
            is_asked: false,
            printed: String::new(),
        });
    }

    /// Something about a call changed; gives the lines that tell of its end, if it ended.
    pub(super) fn changed(&mut self, part: &ToolCall, raw: &Value, now: Instant) -> Vec<Line> {
        let text = text_of(raw);
        let at = self.open.iter().position(|open| open.call.id == part.id);
        if !matches!(part.status.as_deref(), Some("completed" | "failed")) {
            if let Some(open) = at.and_then(|at| self.open.get_mut(at)) {
                open.call.status = part.status.clone().or(open.call.status.take());
                open.printed = text.unwrap_or_default();
            }
            return Vec::new();
        }
        let open = at.and_then(|at| self.open.remove(at));
        let mut open = open.unwrap_or_else(|| Open {
            call: part.clone(),
            since: now,
            changes: Vec::new(),
            is_shown: false,
            is_asked: false,
            printed: String::new(),
        });
        let changes_made = changes(raw);
        if !changes_made.is_empty() {
            open.changes = changes_made;
        }
        open.call.outcome.clone_from(&part.outcome);
        open.call.status.clone_from(&part.status);
        self.ended(open, text.unwrap_or_default(), now)
    }

    /// What was said of the call so far, completed by `part`.
    pub(super) fn whole(&self, part: &ToolCall) -> ToolCall {
        let mut whole = part.clone();
        if let Some(Open { call, .. }) = self.open.iter().find(|open| open.call.id == part.id) {
            whole.name = whole.name.or_else(|| call.name.clone());
            whole.title = whole.title.or_else(|| call.title.clone());
            whole.input = whole.input.or_else(|| call.input.clone());
        }
        whole
    }

    /// What a person should see of a call before they allow it: the command, the change.
    pub(super) fn asked(&mut self, call: &ToolCall, raw: &Value) -> Vec<Line> {
        let open = self.open.iter_mut().find(|open| open.call.id == call.id);
        let own = changes(raw);
        let known = open.as_ref().map(|open| open.changes.clone());
        let shown = if own.is_empty() {
            known.unwrap_or_default()
        } else {
            own
        };
        let head = Line::of(Style::Warning, "? ").with(Style::Bold, &title(call));
        let mut lines = vec![head.hanging(2)];
        let command = call
            .input
            .as_ref()
            .and_then(|input| input["command"].as_str());
        let command = command.filter(|command| command.lines().count() > 1);
        for line in command.into_iter().flat_map(str::lines) {
            lines.push(Line::of(Style::Code, &format!("  {}", exact(line))).hanging(4));
        }
        lines.extend(changed_lines(&shown, DIFF_LINES_MAX));
        if let Some(open) = open {
            open.is_shown = true;
            open.is_asked = true;
        }
        lines
    }

    /// A question was answered: what it was about runs from now on, or ends.
    pub(super) fn answered(&mut self, now: Instant) {
        for open in self.open.iter_mut().filter(|open| open.is_asked) {
            open.is_asked = false;
            open.since = now;
        }
    }

    /// What the calls that run show of themselves, with a `spinner` before each.
    pub(super) fn live(&self, spinner: char, now: Instant) -> Vec<Line> {
        let mut lines = Vec::new();
        // What waits for the person stands above already.
        for open in self.open.iter().filter(|open| !open.is_asked) {
            let mut line = Line::of(Style::Accent, &format!("{spinner} "));
            line.push(Style::Bold, &title(&open.call));
            line.push(Style::Dim, &took(now.saturating_duration_since(open.since)));
            lines.push(line);
            let printed: Vec<&str> = open.printed.lines().collect();
            let from = printed.len().saturating_sub(LIVE_ROWS_MAX);
            let last = printed.iter().skip(from);
            lines.extend(last.map(|line| Line::of(Style::Dim, &format!("  {line}"))));
        }
        lines
    }

    /// What the last folded call said, in full.
    pub(super) fn unfolded(&mut self) -> Option<Vec<Line>> {
        let folded = self.folded.take()?;
        let mut lines = vec![Line::of(Style::Bold, &format!("▾ {}", folded.title))];
        lines.extend(changed_lines(&folded.changes, UNFOLDED_LINES_MAX));
        let count = folded.text.lines().count();
        let shown = folded.text.lines().take(UNFOLDED_LINES_MAX);
        lines.extend(shown.map(|line| Line::of(Style::Dim, &format!("  {line}")).hanging(2)));
        if let Some(left @ 1..) = count.checked_sub(UNFOLDED_LINES_MAX) {
            lines.push(Line::of(Style::Dim, &format!("  … and {left} lines more")));
        }
        Some(lines)
    }

    /// The turn is over, and with it whatever was not told.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }

    fn ended(&mut self, open: Open, text: String, now: Instant) -> Vec<Line> {
        let (mark, style, word) = match (open.call.status.as_deref(), open.call.outcome.as_deref())
        {
            (Some("completed"), _) => ('✓', Style::Good, ""),
            (_, Some("denied")) => ('✗', Style::Bad, " (denied)"),
            (_, Some("cancelled")) => ('✗', Style::Bad, " (cancelled)"),
            (_, Some("not_run")) => ('✗', Style::Bad, " (did not run)"),
            (_, Some("unknown")) => ('✗', Style::Bad, " (may have run)"),
            (_, _) => ('✗', Style::Bad, " (failed)"),
        };
        let is_done = word.is_empty();
        let title = title(&open.call);
        let mut head = Line::of(style, &format!("{mark} ")).with(Style::Bold, &title);
        head.push(style, word);
        head.push(Style::Dim, &took(now.saturating_duration_since(open.since)));
        if is_done && let Some((added, removed)) = totals(&open.changes) {
            head.push(Style::Added, &format!(" +{added}"));
            head.push(Style::Removed, &format!(" -{removed}"));
        }
        let mut lines = vec![head.hanging(2)];
        let is_shown = is_done && !open.changes.is_empty();
        if is_shown && !open.is_shown {
            lines.extend(changed_lines(&open.changes, DIFF_LINES_MAX));
        }
        let is_looking = matches!(
            open.call.name.as_deref(),
            Some("read" | "list" | "glob" | "grep" | "todo" | "skill" | "web_fetch" | "web_search")
        );
        let count = text.lines().count();
        if !is_shown && is_done && is_looking {
            if let (Some(head), 2..) = (lines.first_mut(), count) {
                head.push(Style::Dim, &format!(" ({count} lines)"));
            }
        } else if !is_shown {
            lines.extend(folded(&text, count));
        }
        let kept = text.floor_char_boundary(KEPT_BYTES_MAX);
        let text = text.get(..kept).unwrap_or_default().to_owned();
        let changes = open.changes;
        self.folded = Some(Folded {
            title,
            text,
            changes,
        });
        lines
    }
}

/// A call as a person reads it: always one line.
pub(super) fn title(call: &ToolCall) -> String {
    let title = call.title.as_deref().or(call.name.as_deref());
    exact_line(title.unwrap_or("a tool"))
}

/// The last lines of a result, and how many there are before them.
fn folded(text: &str, count: usize) -> Vec<Line> {
    let left = count.saturating_sub(FOLDED_LINES_MAX);
    let mut lines = Vec::new();
    if left > 0 {
        let more = format!("  … {left} lines more (Ctrl-O shows them)");
        lines.push(Line::of(Style::Dim, &more));
    }
    let last = text.lines().skip(left);
    lines.extend(last.map(|line| Line::of(Style::Dim, &format!("  {line}")).hanging(2)));
    lines
}

fn changed_lines(changes: &[Changed], lines_max: usize) -> Vec<Line> {
    // A file that changes in several places comes as several changes.
    let files: Vec<&[Changed]> = changes.chunk_by(|a, b| a.path == b.path).collect();
    let mut lines = Vec::new();
    for file in &files {
        let mut of_file = Vec::new();
        for change in *file {
            if !of_file.is_empty() {
                of_file.push(Line::of(Style::Dim, "⋮"));
            }
            of_file.extend(diff::lines(&change.old, &change.new));
        }
        let left = of_file.len().saturating_sub(lines_max);
        // Of one file the title says which.
        if let ([first, ..], true) = (file, files.len() > 1) {
            let path = format!("  {}", exact_line(&first.path));
            lines.push(Line::of(Style::Dim, &path));
        }
        let shown = of_file.into_iter().take(lines_max);
        lines.extend(shown.map(|line| line.set_in(2)));
        if left > 0 {
            let more = format!("  … {left} lines more (Ctrl-O shows them)");
            lines.push(Line::of(Style::Dim, &more));
        }
    }
    lines
}

fn totals(changes: &[Changed]) -> Option<(usize, usize)> {
    if changes.is_empty() {
        return None;
    }
    let counts = changes.iter().map(|it| diff::counts(&it.old, &it.new));
    let sum = |(a, b): (usize, usize), (c, d)| (a + c, b + d);
    Some(counts.fold((0, 0), sum))
}

/// The changes among what a call shows.
fn changes(raw: &Value) -> Vec<Changed> {
    let items = raw["content"].as_array().map(Vec::as_slice);
    let items = items.unwrap_or_default().iter();
    let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let diffs = items.filter(|item| item["type"] == "diff");
    diffs
        .map(|item| Changed {
            path: said(&item["path"]),
            old: said(&item["oldText"]),
            new: said(&item["newText"]),
        })
        .collect()
}

/// The text that a call shows, if the update has any.
fn text_of(raw: &Value) -> Option<String> {
    let items = raw["content"].as_array()?.iter();
    let texts = items.filter_map(|item| item["content"]["text"].as_str());
    let texts: Vec<&str> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn took(time: Duration) -> String {
    match time {
        time if time < LONG => String::new(),
        time => format!(" {} s", time.as_secs()),
    }
}
