//! One server in the text of a settings file: looked for, added, removed. All else keeps its meaning, which is
//! checked before a new text is given, and its comments and format.

use anyhow::Context;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::render::Failure;

/// The table that holds servers.
const SERVERS: &str = "mcp";

/// The mark that some editors put at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What is written about a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    keys: Vec<(&'static str, Value)>,
}

impl Server {
    pub(super) fn text(&mut self, key: &'static str, text: &str) {
        self.keys.push((key, text.into()));
    }

    pub(super) fn yes(&mut self, key: &'static str) {
        self.keys.push((key, true.into()));
    }

    pub(super) fn list(&mut self, key: &'static str, texts: &[String]) {
        let list: Array = texts.iter().map(String::as_str).collect();
        self.keys.push((key, list.into()));
    }

    pub(super) fn pairs(&mut self, key: &'static str, pairs: &[(String, String)]) {
        let table: InlineTable = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        self.keys.push((key, table.into()));
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        for (key, value) in &self.keys {
            table.insert(key, value.clone().into());
        }
        table
    }
}

/// Whether `text` has a server called `name`.
///
/// # Errors
/// If it is not TOML.
pub(super) fn has(text: &str, name: &str) -> anyhow::Result<bool> {
    let table = meaning(text)?;
    let servers = table.get(SERVERS).and_then(toml::Value::as_table);
    Ok(servers.is_some_and(|servers| servers.contains_key(name)))
}

/// `text` with the server.
///
/// # Errors
/// If it is not TOML, or the server cannot be added without changing something else.
pub(super) fn add(text: &str, name: &str, server: &Server) -> anyhow::Result<String> {
    let mut document = parse(text)?;
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    match servers {
        Item::Table(servers) => {
            let mut table = server.table();
            // What is written with dotted keys cannot go on with a section.
            table.set_dotted(servers.is_dotted());
            servers.insert(name, Item::Table(table));
        }
        Item::Value(Value::InlineTable(servers)) => {
            servers.insert(name, server.table().into_inline_table().into());
        }
        Item::Value(_) | Item::ArrayOfTables(_) | Item::None => {
            return Err(Failure::new(format!("`{SERVERS}` is not a table of servers")).into());
        }
    }
    let after = rendered(text, &document);
    check(text, &after, name)?;
    Ok(after)
}

/// `text` without the server, and without the comment right above it.
///
/// # Errors
/// If it is not TOML, or the server cannot be removed without changing something else.
pub(super) fn remove(text: &str, name: &str) -> anyhow::Result<String> {
    let mut document = parse(text)?;
    let servers = document.get_mut(SERVERS);
    let servers = servers.and_then(Item::as_table_like_mut);
    let removed = servers.and_then(|servers: &mut dyn TableLike| servers.remove(name));
    if let Some(Item::Table(removed)) = removed {
        keep_comment(&mut document, &removed);
    }
    let is_empty = document
        .get(SERVERS)
        .and_then(Item::as_inline_table)
        .is_some_and(InlineTable::is_empty);
    if is_empty {
        document.remove(SERVERS);
    }
    let after = rendered(text, &document);
    check(text, &after, name)?;
    Ok(after)
}

/// Keeps what stands above a removed section and belongs to something else: all but the comment that ends
/// right above it. It goes above the next section, or to the end.
fn keep_comment(document: &mut DocumentMut, removed: &Table) {
    let prefix = removed.decor().prefix();
    let prefix = prefix.and_then(toml_edit::RawString::as_str);
    let kept = match prefix.map(|prefix| prefix.rsplit_once("\n\n")) {
        Some(Some((above, _))) if !above.trim().is_empty() => format!("{above}\n"),
        Some(_) | None => return,
    };
    let after = removed.position().unwrap_or_default();
    if let Some(next) = next_section(document.as_table_mut(), after) {
        let prefix = next.decor().prefix();
        let own = prefix.and_then(toml_edit::RawString::as_str);
        let prefix = format!("{kept}{}", own.unwrap_or("\n"));
        next.decor_mut().set_prefix(prefix);
        return;
    }
    let trailing = document.trailing().as_str().unwrap_or_default();
    let trailing = format!("{kept}{trailing}");
    document.set_trailing(trailing);
}

/// The first section that is written after the one at `after`.
fn next_section(table: &mut Table, after: isize) -> Option<&mut Table> {
    let mut found: Option<&mut Table> = None;
    for (_, item) in table.iter_mut() {
        let candidates: Vec<&mut Table> = match item {
            Item::Table(inner) => vec![inner],
            Item::ArrayOfTables(all) => all.iter_mut().collect(),
            Item::Value(_) | Item::None => Vec::new(),
        };
        for candidate in candidates {
            let place = candidate.position().unwrap_or(isize::MAX);
            let is_section = !candidate.is_implicit() && !candidate.is_dotted() && place > after;
            let next = match is_section {
                true => Some(candidate),
                false => next_section(candidate, after),
            };
            let first = found.as_ref().and_then(|found| found.position());
            if let Some(next) = next
                && next.position().unwrap_or(isize::MAX) < first.unwrap_or(isize::MAX)
            {
                found = Some(next);
            }
        }
    }
    found
}

fn parse(text: &str) -> anyhow::Result<DocumentMut> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.parse().context("the file is not TOML")
}

fn meaning(text: &str) -> anyhow::Result<toml::Table> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.parse().context("the file is not TOML")
}

/// The document as text, with the mark and the line ends of `before`.
fn rendered(before: &str, document: &DocumentMut) -> String {
    let mut text = document.to_string();
    let breaks = before.matches('\n').count();
    if breaks > 0 && before.matches("\r\n").count() == breaks {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let has_mark = before.starts_with(BYTE_ORDER_MARK);
    if has_mark && !text.starts_with(BYTE_ORDER_MARK) {
        text.insert(0, BYTE_ORDER_MARK);
    }
    text
}

/// Nothing but the server `name` may differ.
fn check(before: &str, after: &str, name: &str) -> anyhow::Result<()> {
    let others = |text: &str| {
        let mut table = meaning(text)?;
        let servers = table.get_mut(SERVERS).and_then(toml::Value::as_table_mut);
        let is_empty = servers.is_some_and(|servers| {
            servers.remove(name);
            servers.is_empty()
        });
        if is_empty {
            table.remove(SERVERS);
        }
        anyhow::Ok(table)
    };
    if others(before)? == others(after)? {
        return Ok(());
    }
    let sentence = format!("the server {name} cannot be changed without changing other settings");
    Err(Failure::new(sentence)
        .hint("change the file by hand")
        .into())
}

#[cfg(test)]
mod tests;
