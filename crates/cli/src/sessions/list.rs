//! `sessions list`: every session at a glance, newest first.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use domain::SessionId;
use domain::clock::Timestamp;
use journal::{FileStore, Meta, StoreError};
use serde_json::{Value, json};

use crate::render::{self, Exit, Palette, one_line};
use crate::settings::Settings;

/// Longest title in the table; `show` has the whole one.
const TITLE_CHARACTERS_MAX: usize = 40;

/// One line of the table.
type Cells = [String; COLUMNS];

const COLUMNS: usize = 8;

/// The columns, and which of them hold numbers.
const HEADS: [&str; COLUMNS] = [
    "ID",
    "AGE",
    "STATE",
    "MODEL",
    "TURNS",
    "TOKENS",
    "TITLE",
    "DIRECTORY",
];
const NUMBERS: [bool; COLUMNS] = [false, true, false, false, true, true, false, false];

/// What stands where nothing is known.
const NOTHING: &str = "–";

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
    let mut out = render::stdout();
    if rows.is_empty() {
        writeln!(io::stderr(), "there are no sessions yet")?;
        return Ok(Exit::Success);
    }
    let home = settings.environment.value("HOME").map(Path::new);
    let now = Timestamp::now();
    let cells: Vec<Cells> = rows.iter().map(|row| row.cells(now, home)).collect();
    out.write_all(aligned(&cells, palette).as_bytes())?;
    Ok(Exit::Success)
}

/// Prints one JSON array.
///
/// # Errors
/// If the output fails.
pub(super) fn json(rows: &[Row]) -> anyhow::Result<Exit> {
    let array: Vec<Value> = rows.iter().map(Row::to_json).collect();
    writeln!(render::stdout(), "{}", Value::Array(array))?;
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

    fn cells(&self, now: Timestamp, home: Option<&Path>) -> Cells {
        match self {
            Self::Whole(meta) => {
                let shelf = if meta.archived { " (archived)" } else { "" };
                let title = one_line(meta.title.as_deref().unwrap_or(NOTHING));
                let branch = if meta.parent.is_some() { "└ " } else { "" };
                [
                    meta.id.to_string(),
                    age(now.0 - meta.updated_at.0),
                    state(meta).to_owned(),
                    one_line(meta.model.as_deref().unwrap_or(NOTHING)),
                    meta.turns.to_string(),
                    amount(meta.tokens),
                    format!("{branch}{}{shelf}", shorten(&title, TITLE_CHARACTERS_MAX)),
                    at_home(&meta.cwd, home),
                ]
            }
            Self::Unreadable(id, error) => {
                let mut cells = [NOTHING; COLUMNS].map(str::to_owned);
                cells[0] = id.to_string();
                cells[2] = "damaged".to_owned();
                cells[6] = one_line(&error.to_string());
                cells[7] = String::new();
                cells
            }
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
                "model": meta.model,
                "turns": meta.turns,
                "tokens": meta.tokens,
                "state": state(meta),
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

fn aligned(rows: &[Cells], palette: Palette) -> String {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(HEADS[column].len())
    });
    let line = |cells: [&str; COLUMNS]| {
        let padded: [String; COLUMNS] = std::array::from_fn(|column| {
            let (cell, width) = (cells[column], widths[column]);
            match NUMBERS[column] {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            }
        });
        padded.join("  ").trim_end().to_owned()
    };
    let mut table = palette.dim(&line(HEADS)) + "\n";
    for row in rows {
        let shown = line(std::array::from_fn(|column| row[column].as_str()));
        let is_unreadable = row[1] == NOTHING;
        table += &if is_unreadable {
            palette.red(&shown)
        } else {
            shown
        };
        table.push('\n');
    }
    table
}

/// What the journal says of the newest turn. Whether a process still works on it, only that one knows.
fn state(meta: &Meta) -> &'static str {
    match (meta.turn_open, meta.questions_open) {
        (true, 1..) => "waiting",
        (true, 0) => "running",
        (false, _) => "idle",
    }
}

/// How long ago, in the largest unit that fits.
fn age(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time that people can meet, and never before now"
    )]
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400.. => format!("{}d", seconds / 86_400),
    }
}

/// A number that is read at a glance: `950`, `12k`, `3.4M`.
fn amount(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000.. => format!("{}.{}M", count / 1_000_000, count / 100_000 % 10),
    }
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

    use super::{age, aligned, amount, at_home, shorten};
    use crate::render::Palette;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let row = |turns: &str, title: &str| {
            ["3f2a", "5m", "idle", "–", turns, "12k", title, "~/src"].map(str::to_owned)
        };
        let shown = aligned(
            &[row("7", "Fix the parser"), row("1024", "Ü")],
            Palette::default(),
        );
        assert_eq!(
            shown,
            "ID    AGE  STATE  MODEL  TURNS  TOKENS  TITLE           DIRECTORY\n\
             3f2a   5m  idle   –          7     12k  Fix the parser  ~/src\n\
             3f2a   5m  idle   –       1024     12k  Ü               ~/src\n"
        );
    }

    #[test]
    fn ages_and_amounts_are_read_at_a_glance() {
        let ages = [-3.0, 59.9, 60.0, 7_200.0, 200_000.0].map(age);
        assert_eq!(ages, ["0s", "59s", "1m", "2h", "2d"]);
        let amounts = [999, 1_000, 999_999, 3_450_000].map(amount);
        assert_eq!(amounts, ["999", "1k", "999k", "3.4M"]);
    }

    #[test]
    fn titles_and_directories_are_shortened() {
        assert_eq!(shorten("Überlang", 4), "Über…");
        let home = Some(Path::new("/home/ann"));
        assert_eq!(at_home("/home/ann/src", home), "~/src");
        assert_eq!(at_home("/home/ann", home), "~");
        assert_eq!(at_home("/srv", home), "/srv");
    }
}
