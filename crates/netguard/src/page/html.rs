//! HTML to Markdown: parsed into a bounded tree, freed from what surrounds the content, written.
//!
//! Start with [`read`]. The tree never gets deeper than [`tree::DEPTH_MAX`], so walking it by
//! recursion is safe whatever a page contains.

mod content;
mod inline;
mod parse;
mod table;
mod tree;
mod write;

use url::Url;

/// What a page says.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) title: Option<String>,
    pub(super) markdown: String,
    /// Whether the page had more parts than are read.
    pub(super) is_cut: bool,
}

/// Reads a page that came from `url`.
pub(super) fn read(html: &str, url: &Url) -> Read {
    let parsed = parse::parse(html);
    let base = parsed.base.as_deref().and_then(|base| url.join(base).ok());
    let base = base.filter(|base| matches!(base.scheme(), "http" | "https"));
    let base = base.as_ref().unwrap_or(url);
    let chosen = content::choose(&parsed.tree);
    let written = write::markdown(&parsed.tree, &chosen, base);
    let title = Some(parsed.title).filter(|title| !title.is_empty());
    Read {
        title: title.or_else(|| heading(&parsed.tree)),
        markdown: written.text,
        is_cut: parsed.is_cut || written.is_cut,
    }
}

/// The first heading, for pages without a title.
fn heading(tree: &tree::Tree) -> Option<String> {
    let first = tree.all().find(|node| tree.name(*node) == "h1")?;
    let text = inline::plain(tree, first);
    Some(text).filter(|text| !text.is_empty())
}
