//! `sessions list`: every session at a glance, newest first.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use domain::SessionId;
use journal::{FileStore, Meta, StoreError};
use serde_json::{Value, json};

use crate::render::{Exit, Palette, one_line};
use crate::settings::Settings;

/// Longest title in the table; `show` has the whole one.
const TITLE_CHARACTERS_MAX: usize = 40;

/// A session, or why it cannot be read.
pub(super) enum Row {
    Whole(Meta),
    Unreadable(SessionId, StoreError),
}

/// Prints a table.
///
/// # Errors
/// If the output fails.
pub(super) fn table(rows: &[Row], settings: &Settings) -> anyhow::Result<Exit> {
    let palette = Palette::stdout(&settings.environment);
    let mut out = io::stdout().lock();
    if rows.is_empty() {
        writeln!(io::stderr(), "there are no sessions yet")?;
        return Ok(Exit::Success);
    }
    let home = settings.environment.value("HOME").map(Path::new);
    let cells: Vec<[String; 5]> = rows.iter().map(|row| row.cells(home)).collect();
    out.write_all(aligned(&cells, palette).as_bytes())?;
    Ok(Exit::Success)
}

/// Prints one JSON array.
///
/// # Errors
/// If the output fails.
pub(super) fn json(rows: &[Row]) -> anyhow::Result<Exit> {
    let array: Vec<Value> = rows.iter().map(Row::to_json).collect();
    writeln!(io::stdout(), "{}", Value::Array(array))?;
    Ok(Exit::Success)
}

/// The sessions that people work with.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn without_agents(
    store: Option<&FileStore>,
    settings: &Settings,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = rows(store, settings)?;
    rows.retain(|row| row.parent().is_none());
    Ok(rows)
}

/// All sessions, those of sub-agents below the ones that they worked for.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn with_agents(
    store: Option<&FileStore>,
    settings: &Settings,
) -> anyhow::Result<Vec<Row>> {
    let mut by_parent: HashMap<SessionId, Vec<Row>> = HashMap::new();
    let mut tops = Vec::new();
    let all = rows(store, settings)?;
    let ids: HashSet<SessionId> = all.iter().map(Row::id).collect();
    for row in all {
        // One whose parent is not there stands for itself.
        match row.parent().filter(|parent| ids.contains(parent)) {
            Some(parent) => by_parent.entry(parent).or_default().push(row),
            None => tops.push(row),
        }
    }
    let mut rows = Vec::new();
    for top in tops {
        let children = by_parent.remove(&top.id()).unwrap_or_default();
        rows.push(top);
        rows.extend(children);
    }
    Ok(rows)
}

fn rows(store: Option<&FileStore>, settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let cwd = settings.is_cwd_given.then_some(settings.cwd.as_path());
    let mut rows = Vec::new();
    for (store, id) in super::all(store)? {
        let row = match store.meta(id) {
            Ok(meta) => Row::Whole(meta),
            // Deleted while we looked.
            Err(StoreError::NotFound) => continue,
            Err(error) => Row::Unreadable(id, error),
        };
        if cwd.is_none_or(|cwd| row.is_in(cwd)) {
            rows.push(row);
        }
    }
    rows.sort_by(|a, b| b.updated().total_cmp(&a.updated()));
    Ok(rows)
}

impl Row {
    fn id(&self) -> SessionId {
        match self {
            Self::Whole(meta) => meta.id,
            Self::Unreadable(id, _) => *id,
        }
    }

    fn parent(&self) -> Option<SessionId> {
        match self {
            Self::Whole(meta) => meta.parent,
            Self::Unreadable(..) => None,
        }
    }

    fn updated(&self) -> f64 {
        match self {
            Self::Whole(meta) => meta.updated_at.0,
            Self::Unreadable(..) => 0.0,
        }
    }

    fn is_in(&self, cwd: &Path) -> bool {
        match self {
            Self::Whole(meta) => Path::new(&meta.cwd) == cwd,
            Self::Unreadable(..) => false,
        }
    }

    fn cells(&self, home: Option<&Path>) -> [String; 5] {
        match self {
            Self::Whole(meta) => {
                let shelf = if meta.archived { " (archived)" } else { "" };
                let title = one_line(meta.title.as_deref().unwrap_or("–"));
                let branch = if meta.parent.is_some() { "└ " } else { "" };
                [
                    meta.id.to_string(),
                    minute(&meta.updated_at.to_rfc3339()),
                    meta.head.to_string(),
                    format!("{branch}{}{shelf}", shorten(&title, TITLE_CHARACTERS_MAX)),
                    at_home(&meta.cwd, home),
                ]
            }
            Self::Unreadable(id, error) => [
                id.to_string(),
                "–".to_owned(),
                "–".to_owned(),
                one_line(&error.to_string()),
                String::new(),
            ],
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Whole(meta) => json!({
                "id": meta.id,
                "cwd": meta.cwd,
                "title": meta.title,
                "createdAt": meta.created_at.to_rfc3339(),
                "updatedAt": meta.updated_at.to_rfc3339(),
                "head": meta.head,
                "archived": meta.archived,
                "parent": meta.parent,
            }),
            Self::Unreadable(id, StoreError::Damaged { at }) => json!({"id": id, "damagedAt": at}),
            Self::Unreadable(id, error) => json!({"id": id, "error": error.to_string()}),
        }
    }
}

/// The first `most` characters, and a mark if there were more.
pub(super) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn aligned(rows: &[[String; 5]], palette: Palette) -> String {
    let heads = ["ID", "UPDATED (UTC)", "EVENTS", "TITLE", "DIRECTORY"];
    let widths: [usize; 5] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(heads[column].len())
    });
    let line = |cells: [&str; 5]| {
        let [id, updated, events, title, directory] = cells;
        let [w0, w1, w2, w3, _] = widths;
        format!("{id:w0$}  {updated:w1$}  {events:>w2$}  {title:w3$}  {directory}")
    };
    let mut table = palette.dim(line(heads).trim_end()) + "\n";
    for row in rows {
        let cells = std::array::from_fn(|column| row[column].as_str());
        let shown = line(cells);
        let shown = shown.trim_end();
        let is_unreadable = row[2] == "–";
        table += &if is_unreadable {
            palette.red(shown)
        } else {
            shown.to_owned()
        };
        table.push('\n');
    }
    table
}

/// `2026-07-02 10:22` of `2026-07-02T10:22:03.000Z`.
fn minute(rfc3339: &str) -> String {
    rfc3339.get(..16).unwrap_or(rfc3339).replace('T', " ")
}

fn at_home(cwd: &str, home: Option<&Path>) -> String {
    let inside = home.and_then(|home| Path::new(cwd).strip_prefix(home).ok());
    one_line(&match inside {
        Some(path) if path.as_os_str().is_empty() => "~".to_owned(),
        Some(path) => format!("~/{}", path.display()),
        None => cwd.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{aligned, at_home, minute, shorten};
    use crate::render::Palette;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let row = |events: &str, title: &str| {
            ["3f2a", "2026-07-02 10:22", events, title, "~/src"].map(str::to_owned)
        };
        let shown = aligned(
            &[row("7", "Fix the parser"), row("1024", "Ü")],
            Palette::default(),
        );
        assert_eq!(
            shown,
            "ID    UPDATED (UTC)     EVENTS  TITLE           DIRECTORY\n\
             3f2a  2026-07-02 10:22       7  Fix the parser  ~/src\n\
             3f2a  2026-07-02 10:22    1024  Ü               ~/src\n"
        );
    }

    #[test]
    fn times_titles_and_directories_are_shortened() {
        assert_eq!(minute("2026-07-02T10:22:03.000Z"), "2026-07-02 10:22");
        assert_eq!(shorten("Überlang", 4), "Über…");
        let home = Some(Path::new("/home/ann"));
        assert_eq!(at_home("/home/ann/src", home), "~/src");
        assert_eq!(at_home("/home/ann", home), "~");
        assert_eq!(at_home("/srv", home), "/srv");
    }
}
