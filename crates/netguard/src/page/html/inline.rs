//! What stands inside a line: text, emphasis, code, links, images.

use url::Url;

use super::content::Chosen;
use super::tree::{NodeId, Tree, is_block};

/// Longest text of a link around blocks; a longer one is a section that can be clicked.
const LINK_LETTERS_MAX: usize = 300;

/// Writes the inside of lines.
pub(super) struct Inline<'a> {
    pub(super) tree: &'a Tree,
    pub(super) chosen: &'a Chosen,
    pub(super) base: &'a Url,
    /// Whether anything inside a node stands on lines of its own.
    pub(super) has_block: &'a [bool],
}

impl Inline<'_> {
    /// Whether a node is written as part of a line.
    pub(super) fn is_inline(&self, node: NodeId) -> bool {
        let name = self.tree.name(node);
        if is_block(name) {
            return false;
        }
        if name == "a" && self.has_block[node] {
            let text = plain(self.tree, node);
            return text.len() <= LINK_LETTERS_MAX
                && !self.holds(node, &["ul", "ol", "table", "pre"]);
        }
        !self.has_block[node]
    }

    /// A node and all inside it, as it stands in a line. Spaces are not collapsed yet.
    pub(super) fn write(&self, node: NodeId, line: &mut String) {
        if self.chosen.is_dropped[node] {
            return;
        }
        if let Some(text) = self.tree.text(node) {
            escape(text, line);
            return;
        }
        match self.tree.name(node) {
            "br" => line.push('\n'),
            "strong" | "b" => self.wrapped(node, "**", line),
            "em" | "i" | "cite" | "var" => self.wrapped(node, "*", line),
            "del" | "s" | "strike" => self.wrapped(node, "~~", line),
            "code" | "kbd" | "samp" | "tt" | "pre" | "xmp" => self.code(node, line),
            "q" => {
                line.push('“');
                self.children(node, line);
                line.push('”');
            }
            "sup" => self.raised(node, line),
            "a" => self.link(node, line),
            "img" => self.image(node, line),
            "input" => {
                let is_checked = self.tree.attribute(node, "checked").is_some();
                line.push_str(if is_checked { "[x] " } else { "[ ] " });
            }
            "math" => self.formula(node, line),
            "rt" => {
                line.push('(');
                self.children(node, line);
                line.push(')');
            }
            name if is_block(name) => {
                line.push(' ');
                self.children(node, line);
                line.push(' ');
            }
            _ => self.children(node, line),
        }
    }

    pub(super) fn children(&self, node: NodeId, line: &mut String) {
        for child in self.tree.children(node) {
            self.write(child, line);
        }
    }

    /// Emphasis goes around the words, not around the spaces beside them.
    fn wrapped(&self, node: NodeId, mark: &str, line: &mut String) {
        let mut inside = String::new();
        self.children(node, &mut inside);
        let words = inside.trim();
        if words.is_empty() || words.contains('\n') || words.contains(mark) {
            line.push_str(&inside);
            return;
        }
        let start = inside.len() - inside.trim_start().len();
        line.push_str(&inside[..start]);
        line.push_str(mark);
        line.push_str(words);
        line.push_str(mark);
        line.push_str(&inside[start + words.len()..]);
    }

    fn code(&self, node: NodeId, line: &mut String) {
        let mut code = String::new();
        verbatim(self.tree, self.chosen, node, &mut code);
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        if code.is_empty() {
            return;
        }
        let fence = "`".repeat(longest_run(&code, '`') + 1);
        let space = if code.starts_with('`') || code.ends_with('`') {
            " "
        } else {
            ""
        };
        for part in [&fence, space, &code, space, &fence] {
            line.push_str(part);
        }
    }

    /// Exponents keep their sense; references such as `[1]` stay as they are.
    fn raised(&self, node: NodeId, line: &mut String) {
        let mut inside = String::new();
        self.children(node, &mut inside);
        let words = inside.trim();
        if words.bytes().all(|byte| byte.is_ascii_digit()) && !words.is_empty() {
            line.push('^');
        }
        line.push_str(words);
    }

    fn formula(&self, node: NodeId, line: &mut String) {
        let source = find(self.tree, node, &["annotation"]);
        let source = source.map(|source| plain(self.tree, source));
        match source.filter(|source| !source.is_empty()) {
            Some(source) => {
                line.push('$');
                line.push_str(&source);
                line.push('$');
            }
            None => self.children(node, line),
        }
    }

    fn link(&self, node: NodeId, line: &mut String) {
        let mut inside = String::new();
        self.children(node, &mut inside);
        let words = inside.split_whitespace().collect::<Vec<_>>().join(" ");
        // A heading's link to itself says nothing.
        if words.is_empty() || ["¶", "#", "§", "🔗", "\\#"].contains(&words.as_str()) {
            line.push_str(if inside.is_empty() { "" } else { " " });
            return;
        }
        let href = self.tree.attribute(node, "href");
        let Some(url) = href.and_then(|href| self.address(href)) else {
            line.push_str(&inside);
            return;
        };
        let start = &inside[..inside.len() - inside.trim_start().len()];
        let end = &inside[inside.trim_end().len()..];
        for part in [start, "[", &words, "](", &url, ")", end] {
            line.push_str(part);
        }
    }

    fn image(&self, node: NodeId, line: &mut String) {
        let value = |name| self.tree.attribute(node, name).unwrap_or_default();
        let alt = value("alt")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let lazy = self.tree.attribute(node, "data-src");
        let source = lazy.unwrap_or_else(|| value("src"));
        // Without a description there is nothing to read; one pixel is there to count readers.
        if alt.is_empty() || source.is_empty() || value("width") == "1" {
            return;
        }
        let Some(url) = self.address(source) else {
            escape(&alt, line);
            return;
        };
        line.push_str("![");
        escape(&alt, line);
        line.push_str("](");
        line.push_str(&url);
        line.push(')');
    }

    /// An absolute address that can be followed, in a form that ends nowhere too early.
    fn address(&self, href: &str) -> Option<String> {
        let url = self.base.join(href.trim()).ok()?;
        if !matches!(url.scheme(), "http" | "https" | "mailto") {
            return None;
        }
        let url = String::from(url);
        Some(url.replace('(', "%28").replace(')', "%29"))
    }

    fn holds(&self, node: NodeId, names: &[&str]) -> bool {
        find(self.tree, node, names).is_some()
    }
}

/// The first element with one of `names` inside `node`.
pub(super) fn find(tree: &Tree, node: NodeId, names: &[&str]) -> Option<NodeId> {
    tree.children(node).find_map(|child| {
        if names.contains(&tree.name(child)) {
            return Some(child);
        }
        find(tree, child, names)
    })
}

/// All text inside a node, in one line.
pub(super) fn plain(tree: &Tree, node: NodeId) -> String {
    fn gather(tree: &Tree, node: NodeId, text: &mut String) {
        text.push_str(tree.text(node).unwrap_or_default());
        for child in tree.children(node) {
            gather(tree, child, text);
        }
        if is_block(tree.name(node)) || tree.name(node) == "br" {
            text.push(' ');
        }
    }
    let mut text = String::new();
    gather(tree, node, &mut text);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| is_shown(*c)).collect()
}

/// Text with its spaces and lines, as in a listing.
pub(super) fn verbatim(tree: &Tree, chosen: &Chosen, node: NodeId, text: &mut String) {
    if chosen.is_dropped[node] {
        return;
    }
    if let Some(piece) = tree.text(node) {
        text.extend(piece.chars().filter(|c| is_shown(*c)));
        return;
    }
    let name = tree.name(node);
    if name == "br" {
        text.push('\n');
    }
    let begins_line = is_block(name) && !text.is_empty() && !text.ends_with('\n');
    if begins_line && name != "pre" {
        text.push('\n');
    }
    for child in tree.children(node) {
        verbatim(tree, chosen, child, text);
    }
    if is_block(name) && !text.ends_with('\n') && name != "pre" {
        text.push('\n');
    }
}

/// The longest run of `mark` in `text`.
pub(super) fn longest_run(text: &str, mark: char) -> usize {
    let runs = text.split(|c| c != mark);
    runs.map(|run| run.chars().count()).max().unwrap_or(0)
}

/// Whether a character is one that people see: not a control, and none of those that carry text
/// past the eye (tags, bidirectional overrides, joiners of nothing).
pub(super) fn is_shown(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    !is_hidden && (!c.is_control() || matches!(c, '\n' | '\t'))
}

/// Text as Markdown: only what would be taken for a mark is escaped.
fn escape(text: &str, line: &mut String) {
    let mut characters = text.chars().filter(|c| is_shown(*c)).peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied().unwrap_or(' ');
        let before = line.chars().next_back().unwrap_or(' ');
        let is_mark = match c {
            '\\' => next.is_ascii_punctuation(),
            '`' | '*' => !(next.is_whitespace() && before.is_whitespace()),
            // Inside a word an underscore is only an underscore.
            '_' => !(next.is_alphanumeric() && before.is_alphanumeric()),
            '<' => next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'),
            '[' | ']' => true,
            _ => false,
        };
        if is_mark {
            line.push('\\');
        }
        // A line ends where the page says so, not where its source does.
        line.push(if matches!(c, '\n' | '\t') { ' ' } else { c });
    }
}
