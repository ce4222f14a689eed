//! Tables: those that hold data become Markdown tables, those that only place things do not.

use super::inline::{Inline, find};
use super::tree::{NodeId, Tree};

/// Columns beyond this are not a table that anybody reads.
const COLUMNS_MAX: usize = 60;

/// Longer cells are sections of a page.
const CELL_LETTERS_MAX: usize = 800;

/// The table at `node` as Markdown, if it holds data.
pub(super) fn markdown(inline: &Inline<'_>, node: NodeId) -> Option<String> {
    let tree = inline.tree;
    let is_placing = matches!(tree.attribute(node, "role"), Some("presentation" | "none"));
    if is_placing || find(tree, node, &["table", "h1", "h2"]).is_some() {
        return None;
    }
    let mut rows = Vec::new();
    collect(tree, node, &mut rows);
    rows.retain(|row| !inline.chosen.is_dropped[*row]);
    let mut cells: Vec<Vec<String>> = rows.iter().map(|row| read(inline, *row)).collect();
    cells.retain(|row| row.iter().any(|cell| !cell.is_empty()));
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let is_long = cells
        .iter()
        .flatten()
        .any(|cell| cell.len() > CELL_LETTERS_MAX);
    if cells.len() < 2 || !(2..=COLUMNS_MAX).contains(&columns) || is_long {
        return None;
    }
    let mut text = String::new();
    for (index, row) in cells.iter().enumerate() {
        let padding = std::iter::repeat_n("", columns - row.len());
        for cell in row.iter().map(String::as_str).chain(padding) {
            text.push_str("| ");
            text.push_str(cell);
            text.push(' ');
        }
        text.push_str("|\n");
        if index == 0 {
            text.push_str(&"| --- ".repeat(columns));
            text.push_str("|\n");
        }
    }
    Some(text)
}

/// The rows of a table, also inside its parts.
fn collect(tree: &Tree, node: NodeId, rows: &mut Vec<NodeId>) {
    for child in tree.children(node) {
        match tree.name(child) {
            "tr" => rows.push(child),
            "tbody" | "thead" | "tfoot" => collect(tree, child, rows),
            _ => {}
        }
    }
}

fn read(inline: &Inline<'_>, row: NodeId) -> Vec<String> {
    let tree = inline.tree;
    let mut cells = Vec::new();
    for cell in tree.children(row) {
        if !matches!(tree.name(cell), "td" | "th") || inline.chosen.is_dropped[cell] {
            continue;
        }
        let mut text = String::new();
        inline.children(cell, &mut text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        cells.push(text.replace('|', "\\|"));
        let span = tree
            .attribute(cell, "colspan")
            .and_then(|span| span.parse().ok());
        let span: usize = span.unwrap_or(1);
        let more = span.saturating_sub(1).min(COLUMNS_MAX);
        cells.extend(std::iter::repeat_n(String::new(), more));
    }
    cells
}
