//! Putting one entry into a file of settings, and taking it out again, as text: everything else
//! stays as it was, byte for byte.

use std::ops::Range;

use serde_json::Value as Json;

use super::jsonc::{self, Member, SyntaxError, Value};

/// What an editor is told, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The member of the file's object that holds all agents.
    pub(crate) table: &'static str,
    /// Our name in it.
    pub(crate) name: &'static str,
    pub(crate) value: Json,
}

/// Why a file is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MergeError {
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error("its outermost value is not an object")]
    NotAnObject,
    #[error("`{0}` in it is not an object")]
    TableNotAnObject(&'static str),
}

/// What is found of ours in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing.
    Missing,
    /// Exactly what would be written.
    Same,
    /// An entry of our name that says something else.
    Other,
}

/// Looks for the entry.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn find(text: &str, entry: &Entry) -> Result<Found, MergeError> {
    let root = root(text)?;
    let Some(member) = ours(root.as_ref(), entry)? else {
        return Ok(Found::Missing);
    };
    Ok(match plain(text, member) {
        Some(there) if there == entry.value => Found::Same,
        Some(_) | None => Found::Other,
    })
}

/// What the entry says in the file, if it is there.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn value(text: &str, entry: &Entry) -> Result<Option<Json>, MergeError> {
    let root = root(text)?;
    let member = ours(root.as_ref(), entry)?;
    Ok(member.and_then(|member| plain(text, member)))
}

/// The text with the entry in it. If one of its name is there, the text is returned as it was.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn insert(text: &str, entry: &Entry) -> Result<String, MergeError> {
    let shape = Shape::of(text);
    let Some(root) = root(text)? else {
        let whole = serde_json::json!({entry.table: {entry.name: entry.value}});
        let gap = match text.trim_start_matches('\u{feff}').is_empty() || text.ends_with('\n') {
            true => "",
            false => shape.newline,
        };
        return Ok(format!(
            "{text}{gap}{}{}",
            shape.block(&whole, 0),
            shape.newline
        ));
    };
    Ok(match table(&root, entry)? {
        Some(table) if table.value.member(entry.name).is_some() => text.to_owned(),
        Some(table) => add(text, &shape, &table.value, entry.name, &entry.value, 2),
        None => {
            let table = serde_json::json!({entry.name: entry.value});
            add(text, &shape, &root, entry.table, &table, 1)
        }
    })
}

/// The text without the entry, and without the table around it if that leaves it empty. As it was
/// if there is none.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn remove(text: &str, entry: &Entry) -> Result<String, MergeError> {
    let Some(root) = root(text)? else {
        return Ok(text.to_owned());
    };
    let Some(around) = table(&root, entry)? else {
        return Ok(text.to_owned());
    };
    let Some(ours) = around.value.member(entry.name) else {
        return Ok(text.to_owned());
    };
    let members = around.value.object.as_deref().unwrap_or_default();
    match members.len() {
        1 => Ok(cut(text, &root, around)),
        _ => Ok(cut(text, &around.value, ours)),
    }
}

fn root(text: &str) -> Result<Option<Value>, MergeError> {
    match jsonc::parse(text)? {
        Some(root) if root.object.is_none() => Err(MergeError::NotAnObject),
        root => Ok(root),
    }
}

fn ours<'a>(root: Option<&'a Value>, entry: &Entry) -> Result<Option<&'a Member>, MergeError> {
    let Some(root) = root else { return Ok(None) };
    let table = table(root, entry)?;
    Ok(table.and_then(|table| table.value.member(entry.name)))
}

fn plain(text: &str, member: &Member) -> Option<Json> {
    serde_json::from_str(&jsonc::plain(&text[member.value.span.clone()])).ok()
}

fn table<'a>(root: &'a Value, entry: &Entry) -> Result<Option<&'a Member>, MergeError> {
    let table = root.member(entry.table);
    match table {
        Some(table) if table.value.object.is_none() => {
            Err(MergeError::TableNotAnObject(entry.table))
        }
        table => Ok(table),
    }
}

/// Adds a member at the end of `object`, `depth` levels in.
fn add(
    text: &str,
    shape: &Shape,
    object: &Value,
    name: &str,
    value: &Json,
    depth: usize,
) -> String {
    let inner = &text[object.span.clone()];
    let members = object.object.as_deref().unwrap_or_default();
    let is_one_line = !inner.contains('\n') && !members.is_empty();
    let quoted = Json::from(name).to_string();
    let member = match is_one_line {
        true => format!(" {quoted}: {value}"),
        false => {
            let block = shape.block(value, depth);
            format!("{}{quoted}: {block}", shape.line(depth))
        }
    };
    let Some(last) = members.last() else {
        // The closing brace goes to a line of its own.
        let close = match inner.contains('\n') {
            true => String::new(),
            false => shape.line(depth - 1),
        };
        return spliced(text, &[(object.span.start + 1, &(member + &close))]);
    };
    let end = last.value.span.end;
    // A remark behind the last member stays behind it.
    let behind = |from: usize| from + remark(&text[from..object.span.end - 1]);
    match last.comma {
        Some(comma) => spliced(text, &[(behind(comma + 1), &(member + ","))]),
        None => spliced(text, &[(end, ","), (behind(end), &member)]),
    }
}

/// Takes `member` out of `object`, with the comma and the line that belonged to it.
fn cut(text: &str, object: &Value, member: &Member) -> String {
    let members = object.object.as_deref().unwrap_or_default();
    let at = members.iter().position(|other| other.start == member.start);
    let before = at.and_then(|at| at.checked_sub(1)).map(|at| &members[at]);
    let is_last = members
        .last()
        .is_some_and(|last| last.start == member.start);
    let mut end = member
        .comma
        .map_or(member.value.span.end, |comma| comma + 1);
    let head = &text[..member.start];
    let mut start = head.trim_end_matches([' ', '\t']).len();
    let is_own_line = text[..start].ends_with('\n');
    if is_own_line {
        start -= 1 + usize::from(text[..start].ends_with("\r\n"));
    }
    if before.is_none() && is_last && text[end..object.span.end - 1].trim().is_empty() {
        // Nothing is left: the braces close up.
        end = object.span.end - 1;
    }
    let ours: Range<usize> = start..end;
    let mut without = text.to_owned();
    without.replace_range(ours, "");
    // A comma that led to us alone would be a fault in plain JSON.
    let led_here = before.and_then(|before| before.comma);
    if let Some(comma) = led_here.filter(|_| is_last && member.comma.is_none()) {
        without.replace_range(comma..=comma, "");
    }
    without
}

/// Length of the space and the remark that follow on the same line, if there is a remark.
fn remark(rest: &str) -> usize {
    let line = &rest[..rest.find(['\n', '\r']).unwrap_or(rest.len())];
    let words = line.trim_start();
    match words.starts_with("//") || (words.starts_with("/*") && words.trim_end().ends_with("*/")) {
        true => line.trim_end().len(),
        false => 0,
    }
}

/// Puts pieces into a text; places ascend.
fn spliced(text: &str, pieces: &[(usize, &str)]) -> String {
    let mut out = text.to_owned();
    for (at, piece) in pieces.iter().rev() {
        out.insert_str(*at, piece);
    }
    out
}

/// How the file breaks and indents its lines.
struct Shape {
    newline: &'static str,
    indent: String,
}

impl Shape {
    fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let indented = text.lines().find_map(|line| {
            let words = line.trim_start_matches([' ', '\t']);
            let space = &line[..line.len() - words.len()];
            (words.starts_with('"') && !space.is_empty()).then(|| space.to_owned())
        });
        Self {
            newline,
            indent: indented.unwrap_or_else(|| "  ".to_owned()),
        }
    }

    /// A new line, indented.
    fn line(&self, depth: usize) -> String {
        format!("{}{}", self.newline, self.indent.repeat(depth))
    }

    /// A value over several lines, to stand at `depth`; lists stay on one line.
    fn block(&self, value: &Json, depth: usize) -> String {
        let Json::Object(members) = value else {
            return match value {
                Json::Array(items) => {
                    let items: Vec<String> = items.iter().map(Json::to_string).collect();
                    format!("[{}]", items.join(", "))
                }
                Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Object(_) => value.to_string(),
            };
        };
        if members.is_empty() {
            return "{}".to_owned();
        }
        let inner = members.iter().map(|(name, value)| {
            let name = Json::from(name.as_str());
            format!(
                "{}{name}: {}",
                self.line(depth + 1),
                self.block(value, depth + 1)
            )
        });
        let inner: Vec<String> = inner.collect();
        format!("{{{}{}}}", inner.join(","), self.line(depth))
    }
}
