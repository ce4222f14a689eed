//! Putting one entry into a file of settings, and taking it out again: everything else stays as it was,
//! byte for byte.
//!
//! Editors keep their settings in JSON with comments and trailing commas. `jsonc-parser` reads that, and
//! its tree keeps every space and comment; edits are made on the tree.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseOptions, ParseResult, parse_to_ast,
};
use serde_json::Value as Json;

/// Some editors write it before the text; to the parser it is none.
const BYTE_ORDER_MARK: &str = "\u{feff}";

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
    #[error("line {line}: {problem}")]
    Syntax {
        /// Counted from one.
        line: usize,
        problem: String,
    },
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
    Ok(match value(text, entry)? {
        None => Found::Missing,
        Some(there) if there == entry.value => Found::Same,
        Some(_) => Found::Other,
    })
}

/// What the entry says in the file, if it is there.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn value(text: &str, entry: &Entry) -> Result<Option<Json>, MergeError> {
    let (_, text) = split_mark(text);
    let parsed = parse(text)?;
    let Some(root) = object_of(parsed.value.as_ref())? else {
        return Ok(None);
    };
    let member = table_of(root, entry)?.and_then(|table| member(table, entry.name));
    Ok(member.map(|value| Json::from(value.clone())))
}

/// The text with the entry in it. If one of its name is there, the text is returned as it was.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn insert(text: &str, entry: &Entry) -> Result<String, MergeError> {
    if value(text, entry)?.is_some() {
        return Ok(text.to_owned());
    }
    let (mark, text) = split_mark(text);
    let parsed = parse(text)?;
    let root = object_of(parsed.value.as_ref())?;
    let table = match root {
        Some(root) => table_of(root, entry)?,
        None => None,
    };
    let whole_table = || serde_json::json!({entry.name: entry.value});
    let within_line = match (root, table) {
        (_, Some(table)) => in_one_line(text, &parsed, table, entry.name, &entry.value),
        (Some(root), None) => in_one_line(text, &parsed, root, entry.table, &whole_table()),
        (None, None) => None,
    };
    let after = match within_line {
        Some(after) => after,
        None => {
            let tree = tree(text)?;
            let root = tree.object_value_or_create();
            let root = root.ok_or(MergeError::NotAnObject)?;
            let table = last_named(&root, entry.table);
            let table = match table.and_then(|table| table.object_value()) {
                Some(table) => table,
                None => root.object_value_or_set(entry.table),
            };
            table.append(entry.name, input(&entry.value));
            tree.to_string()
        }
    };
    Ok(format!("{mark}{after}"))
}

/// The text without the entry, and without the table around it if that leaves it empty. As it was
/// if there is none.
///
/// # Errors
/// If the file cannot be understood.
pub(crate) fn remove(text: &str, entry: &Entry) -> Result<String, MergeError> {
    let (mark, text) = split_mark(text);
    let mut text = text.to_owned();
    // Of several, editors take the last; without it they would take one before.
    while value(&text, entry)?.is_some() {
        text = without_last(&text, entry)?;
    }
    Ok(format!("{mark}{text}"))
}

fn without_last(text: &str, entry: &Entry) -> Result<String, MergeError> {
    let parsed = parse(text)?;
    let root = object_of(parsed.value.as_ref())?.ok_or(MergeError::NotAnObject)?;
    let table = table_of(root, entry)?.ok_or(MergeError::TableNotAnObject(entry.table))?;
    let tables = root.properties.iter();
    let tables = tables.filter(|it| it.name.as_str() == entry.table).count();
    // Without the last table of that name, editors would take one before.
    let is_alone = tables == 1 && table.properties.len() == 1 && !has_remarks(&parsed, table);
    let (object, name) = match is_alone {
        true => (root, entry.table),
        false => (table, entry.name),
    };
    if let Some(cut) = cut_in_one_line(text, &parsed, object, name) {
        return Ok(cut);
    }
    let tree = tree(text)?;
    let root = tree.object_value().ok_or(MergeError::NotAnObject)?;
    let object = match is_alone {
        true => Some(root),
        false => last_named(&root, entry.table).and_then(|table| table.object_value()),
    };
    if let Some(member) = object.and_then(|object| last_named(&object, name)) {
        member.remove();
    }
    Ok(tree.to_string())
}

/// Whether a table of one member has comments outside of that.
fn has_remarks(parsed: &ParseResult<'_>, table: &Object<'_>) -> bool {
    let is_within = |token: &TokenAndRange<'_>, range: &Range| {
        range.start <= token.start() && token.end() <= range.end
    };
    tokens(parsed)
        .filter(|token| is_comment(token) && is_within(token, &table.range))
        .any(|token| {
            !table
                .properties
                .iter()
                .any(|it| is_within(token, &it.range))
        })
}

/// What editors take: plain JSON with comments and trailing commas, and no more.
fn syntax() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parse(text: &str) -> Result<ParseResult<'_>, MergeError> {
    let collected = CollectOptions {
        tokens: true,
        comments: CommentCollectionStrategy::AsTokens,
    };
    let parsed = parse_to_ast(text, &collected, &syntax());
    let parsed = parsed.map_err(|error| not_understood(&error))?;
    // The parser lets strings go on over lines; editors do not, so the quote is missing.
    let is_open = |token: &&TokenAndRange<'_>| {
        matches!(token.token, Token::String(_)) && token.text(text).contains('\n')
    };
    if let Some(open) = tokens(&parsed).find(is_open) {
        return Err(MergeError::Syntax {
            line: 1 + text[..open.start()].matches('\n').count(),
            problem: "unterminated string".to_owned(),
        });
    }
    Ok(parsed)
}

fn tree(text: &str) -> Result<CstRootNode, MergeError> {
    CstRootNode::parse(text, &syntax()).map_err(|error| not_understood(&error))
}

fn not_understood(error: &jsonc_parser::errors::ParseError) -> MergeError {
    let mut problem = error.kind().to_string();
    if let Some(first) = problem.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    MergeError::Syntax {
        line: error.line_display(),
        problem,
    }
}

fn split_mark(text: &str) -> (&str, &str) {
    let length = match text.starts_with(BYTE_ORDER_MARK) {
        true => BYTE_ORDER_MARK.len(),
        false => 0,
    };
    text.split_at(length)
}

fn object_of<'a, 'b>(root: Option<&'b Value<'a>>) -> Result<Option<&'b Object<'a>>, MergeError> {
    match root {
        None => Ok(None),
        Some(root) => root.as_object().map(Some).ok_or(MergeError::NotAnObject),
    }
}

fn table_of<'a, 'b>(
    root: &'b Object<'a>,
    entry: &Entry,
) -> Result<Option<&'b Object<'a>>, MergeError> {
    match member(root, entry.table) {
        None => Ok(None),
        Some(table) => {
            let table = table.as_object().map(Some);
            table.ok_or(MergeError::TableNotAnObject(entry.table))
        }
    }
}

/// The last member of that name: of several, readers take that one.
fn member<'a, 'b>(object: &'b Object<'a>, name: &str) -> Option<&'b Value<'a>> {
    let mut members = object.properties.iter().rev();
    let found = members.find(|member| member.name.as_str() == name);
    found.map(|member| &member.value)
}

/// The same member in the tree.
fn last_named(object: &CstObject, name: &str) -> Option<CstObjectProp> {
    let mut members = object.properties().into_iter().rev();
    members.find(|member| member.decoded_name().as_deref() == Some(name))
}

/// The text with a member at the end of `object`, if that stands in one line, so that it still does. The
/// tree would break it into several, and removing the member would not join them again.
fn in_one_line(
    text: &str,
    parsed: &ParseResult<'_>,
    object: &Object<'_>,
    name: &str,
    value: &Json,
) -> Option<String> {
    let last = object.properties.last()?;
    if object.text(text).contains(['\n', '\r']) {
        return None;
    }
    let (comma, trailing_comma) = match comma_after(parsed, last.end()) {
        Some(_) => ("", ","),
        None => (",", ""),
    };
    // A remark behind the last member stays behind it.
    let (head, rest) = text.split_at(last.end());
    let (inner, tail) = rest.split_at(object.end() - 1 - last.end());
    let remark = inner.trim_end();
    let space = &inner[remark.len()..];
    let name = Json::from(name);
    Some(format!(
        "{head}{comma}{remark} {name}: {value}{trailing_comma}{space}{tail}"
    ))
}

/// The text without the last member of that name, if `object` stands in one line: the opposite of
/// [`in_one_line`].
fn cut_in_one_line(
    text: &str,
    parsed: &ParseResult<'_>,
    object: &Object<'_>,
    name: &str,
) -> Option<String> {
    if object.text(text).contains(['\n', '\r']) {
        return None;
    }
    let mut members = object.properties.iter();
    let at = members.rposition(|member| member.name.as_str() == name)?;
    let member = &object.properties[at];
    let head = text[..member.start()].trim_end_matches([' ', '\t']);
    let before = at.checked_sub(1).map(|at| object.properties[at].end());
    match (comma_after(parsed, member.end()), before) {
        (Some(comma), _) => Some(format!("{head}{}", &text[comma.end..])),
        // A comma that led to us alone would be a fault in plain JSON.
        (None, Some(before)) => {
            let comma = comma_after(parsed, before)?;
            let tail = &text[member.end()..];
            let (head, remark) = (&head[..comma.start], &head[comma.end..]);
            Some(format!("{head}{remark}{tail}"))
        }
        (None, None) => Some(format!("{head}{}", &text[member.end()..])),
    }
}

/// The comma that follows a value ending at `end`.
fn comma_after(parsed: &ParseResult<'_>, end: usize) -> Option<Range> {
    let next = tokens(parsed).find(|token| token.start() >= end && !is_comment(token))?;
    matches!(next.token, Token::Comma).then_some(next.range)
}

fn tokens<'a, 'b>(parsed: &'b ParseResult<'a>) -> impl Iterator<Item = &'b TokenAndRange<'a>> {
    parsed.tokens.iter().flatten()
}

fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}

fn input(value: &Json) -> CstInputValue {
    match value {
        Json::Null => CstInputValue::Null,
        Json::Bool(value) => CstInputValue::Bool(*value),
        Json::Number(number) => CstInputValue::Number(number.to_string()),
        Json::String(text) => CstInputValue::String(text.clone()),
        Json::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Json::Object(members) => {
            let members = members.iter();
            CstInputValue::Object(
                members
                    .map(|(name, value)| (name.clone(), input(value)))
                    .collect(),
            )
        }
    }
}

#[cfg(test)]
mod tests;
