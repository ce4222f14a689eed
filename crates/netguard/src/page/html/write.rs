//! The content of a page as Markdown: blocks, one after the other, each behind what it is nested in.

use url::Url;

use super::content::Chosen;
use super::inline::{Inline, longest_run, plain, verbatim};
use super::table;
use super::tree::{NodeId, Tree, is_block};

/// Lists and quotations nested deeper are written at this depth.
const NESTING_MAX: usize = 10;

/// A longer heading with blocks inside is one that was never closed.
const HEADING_BYTES_MAX: usize = 300;

/// How far out a listing's language is looked for.
const LANGUAGE_LEVELS: usize = 8;

/// Most Markdown that one page gives: marks and indentation make it longer than its text.
const OUTPUT_BYTES_MAX: usize = 12 << 20;

/// Markdown, and whether it is all.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Writes the chosen part of a page; addresses are relative to `base`.
pub(super) fn markdown(tree: &Tree, chosen: &Chosen, base: &Url) -> Written {
    let has_block = blocks_inside(tree);
    let inline = Inline {
        tree,
        chosen,
        base,
        has_block: &has_block,
    };
    let mut writer = Writer {
        inline,
        out: String::new(),
        prefixes: Vec::new(),
        is_tight: false,
        is_begun: false,
    };
    writer.children(chosen.root);
    let is_cut = writer.is_full();
    let mut text = writer.out;
    text.truncate(text.trim_end().len());
    Written { text, is_cut }
}

/// By node: whether anything inside it stands on lines of its own.
fn blocks_inside(tree: &Tree) -> Vec<bool> {
    let mut inside = vec![false; tree.len()];
    for node in tree.all().rev() {
        if let Some(parent) = tree.parent(node) {
            inside[parent] |= inside[node] || is_block(tree.name(node));
        }
    }
    inside
}

struct Writer<'a> {
    inline: Inline<'a>,
    out: String,
    /// What stands before each line: first the marker of a list item, later its indentation.
    prefixes: Vec<Prefix>,
    /// Whether the next block follows without an empty line.
    is_tight: bool,
    /// Whether anything was written inside the innermost prefix.
    is_begun: bool,
}

struct Prefix {
    first: String,
    later: String,
    is_used: bool,
}

impl Writer<'_> {
    fn is_full(&self) -> bool {
        self.out.len() >= OUTPUT_BYTES_MAX
    }

    fn children(&mut self, node: NodeId) {
        let tree = self.inline.tree;
        self.these(tree.children(node));
    }

    /// Writes nodes; text and inline elements between blocks form paragraphs.
    fn these(&mut self, nodes: impl Iterator<Item = NodeId>) {
        let mut line = String::new();
        for child in nodes {
            if self.is_full() {
                return;
            }
            if self.inline.chosen.is_dropped[child] {
                continue;
            }
            if self.inline.is_inline(child) {
                self.inline.write(child, &mut line);
            } else {
                self.paragraph(&std::mem::take(&mut line));
                self.block(child);
            }
        }
        self.paragraph(&line);
    }

    fn block(&mut self, node: NodeId) {
        let tree = self.inline.tree;
        match tree.name(node) {
            name @ ("h1" | "h2" | "h3" | "h4" | "h5" | "h6") => self.heading(node, &name[1..]),
            "pre" | "xmp" => self.listing(node),
            "ul" | "menu" | "ol" => self.list(node),
            "li" => self.item(node, "- "),
            "blockquote" => self.nested("> ", "> ", |writer| writer.children(node)),
            "hr" => self.lines("---"),
            "table" => self.table(node),
            "dt" => {
                let mut line = String::new();
                self.inline.children(node, &mut line);
                let term = collapse(&line);
                if !term.is_empty() {
                    self.paragraph_of(&format!("**{}**", term.replace("**", "")));
                }
            }
            "dd" => self.nested("  ", "  ", |writer| writer.children(node)),
            "summary" | "legend" | "caption" => {
                let mut line = String::new();
                self.inline.children(node, &mut line);
                self.paragraph(&line);
            }
            _ => self.children(node),
        }
    }

    fn heading(&mut self, node: NodeId, level: &str) {
        let mut line = String::new();
        let is_open_end =
            self.inline.has_block[node] && plain(self.inline.tree, node).len() > HEADING_BYTES_MAX;
        let children: Vec<NodeId> = self.inline.tree.children(node).collect();
        let mut rest = children.iter().copied().peekable();
        if is_open_end {
            // Its end tag is missing. The heading is what comes before the first block.
            while let Some(child) = rest.next_if(|child| self.inline.is_inline(*child)) {
                self.inline.write(child, &mut line);
            }
        } else {
            rest.by_ref()
                .for_each(|child| self.inline.write(child, &mut line));
        }
        let text = collapse(&line).replace('\n', " ");
        let level = level.parse().unwrap_or(1);
        if !text.is_empty() {
            self.lines(&format!("{} {text}", "#".repeat(level)));
        }
        self.these(rest);
    }

    fn listing(&mut self, node: NodeId) {
        let mut code = String::new();
        verbatim(self.inline.tree, self.inline.chosen, node, &mut code);
        // The line break after `<pre>` is not part of it.
        let code = code.strip_prefix('\n').unwrap_or(&code).trim_end();
        if code.trim().is_empty() {
            return;
        }
        let fence = "`".repeat(longest_run(code, '`').max(2) + 1);
        let language = language(self.inline.tree, node).unwrap_or_default();
        self.lines(&format!("{fence}{language}\n{code}\n{fence}"));
    }

    fn list(&mut self, node: NodeId) {
        let tree = self.inline.tree;
        let is_ordered = tree.name(node) == "ol";
        let start = tree.attribute(node, "start");
        let mut number: u64 = start.and_then(|start| start.parse().ok()).unwrap_or(1);
        let was_tight = std::mem::replace(&mut self.is_tight, false);
        let is_nested = was_tight && self.is_begun;
        let mut is_first = true;
        for child in tree.children(node) {
            if self.inline.chosen.is_dropped[child] || self.is_full() {
                continue;
            }
            self.is_tight = is_nested || !is_first;
            if tree.name(child) == "li" {
                let marker = if is_ordered {
                    format!("{number}. ")
                } else {
                    "- ".to_owned()
                };
                let before = self.out.len();
                self.item(child, &marker);
                if self.out.len() > before {
                    number = number.saturating_add(1);
                    is_first = false;
                }
            } else if !self.inline.is_inline(child) {
                self.block(child);
            }
        }
        self.is_tight = false;
    }

    /// One item. Its inner lists follow at once; other blocks after an empty line.
    fn item(&mut self, node: NodeId, marker: &str) {
        let indent = " ".repeat(marker.len());
        self.nested(marker, &indent, |writer| {
            let tree = writer.inline.tree;
            let mut line = String::new();
            for child in tree.children(node) {
                if writer.inline.chosen.is_dropped[child] {
                    continue;
                }
                if writer.inline.is_inline(child) {
                    writer.inline.write(child, &mut line);
                    continue;
                }
                writer.paragraph(&std::mem::take(&mut line));
                writer.is_tight = matches!(tree.name(child), "ul" | "ol" | "menu");
                writer.block(child);
            }
            writer.paragraph(&line);
        });
    }

    /// Writes with something before each line, or without it where nesting got too deep.
    fn nested(&mut self, first: &str, later: &str, write: impl FnOnce(&mut Self)) {
        if self.prefixes.len() >= NESTING_MAX {
            write(self);
            return;
        }
        self.prefixes.push(Prefix {
            first: first.to_owned(),
            later: later.to_owned(),
            is_used: false,
        });
        let was_begun = std::mem::replace(&mut self.is_begun, false);
        write(self);
        self.is_begun |= was_begun;
        self.prefixes.pop();
        self.is_tight = false;
    }

    fn table(&mut self, node: NodeId) {
        let tree = self.inline.tree;
        let Some(text) = table::markdown(&self.inline, node) else {
            self.children(node);
            return;
        };
        let caption = tree
            .children(node)
            .find(|child| tree.name(*child) == "caption");
        if let Some(caption) = caption {
            self.block(caption);
        }
        self.lines(text.trim_end());
    }

    fn paragraph(&mut self, line: &str) {
        self.paragraph_of(&collapse(line));
    }

    fn paragraph_of(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.lines(&guarded(text));
    }

    /// Writes a block of lines behind all prefixes.
    fn lines(&mut self, text: &str) {
        let is_tight = std::mem::replace(&mut self.is_tight, false);
        if !self.out.is_empty() {
            let is_first_of_item = self.prefixes.last().is_some_and(|prefix| !prefix.is_used);
            if !(is_tight || (is_first_of_item && self.out.ends_with(' '))) {
                let empty = self.empty_line();
                self.out.push_str(&empty);
                self.out.push('\n');
            }
        }
        for line in text.lines() {
            let start = self.out.len();
            for prefix in &mut self.prefixes {
                let used = std::mem::replace(&mut prefix.is_used, true);
                self.out
                    .push_str(if used { &prefix.later } else { &prefix.first });
            }
            self.out.push_str(line);
            let kept = self.out[start..].trim_end().len();
            self.out.truncate(start + kept);
            self.out.push('\n');
        }
        self.is_begun = true;
    }

    /// An empty line between two blocks of the same quotation is part of it.
    fn empty_line(&self) -> String {
        let begun = self.prefixes.iter().take_while(|prefix| prefix.is_used);
        let line: String = begun.map(|prefix| prefix.later.as_str()).collect();
        line.trim_end().to_owned()
    }
}

/// Spaces become one, spaces at the ends of lines none.
fn collapse(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ")
    });
    let lines: Vec<String> = lines.collect();
    lines.join("\n").trim().to_owned()
}

/// A paragraph whose lines do not look like the start of another block.
fn guarded(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let after = &line[digits..];
        let is_number =
            (1..10).contains(&digits) && (after.starts_with(". ") || after.starts_with(") "));
        let is_mark = line.starts_with("# ")
            || line.starts_with("## ")
            || line.starts_with("- ")
            || line.starts_with("+ ")
            || line.starts_with('>')
            || line.starts_with("```")
            || (line.len() >= 3 && line.bytes().all(|byte| byte == b'-' || byte == b'='));
        lines.push(if is_number {
            format!("{}\\{after}", &line[..digits])
        } else if is_mark {
            format!("\\{line}")
        } else {
            line.to_owned()
        });
    }
    lines.join("\n")
}

/// The language of a listing, by the conventions of the highlighters that people use.
fn language(tree: &Tree, node: NodeId) -> Option<String> {
    let code = tree
        .children(node)
        .find(|child| tree.name(*child) == "code");
    let around = std::iter::successors(Some(node), |node| tree.parent(*node));
    let places = code.into_iter().chain(around.take(LANGUAGE_LEVELS));
    let found = places
        .filter(|place| *place != Tree::ROOT)
        .find_map(|place| {
            let given = ["data-lang", "data-language"].map(|name| tree.attribute(place, name));
            let class = tree.attribute(place, "class").unwrap_or_default();
            let named = class.split_whitespace().find_map(|class| {
                let prefixes = ["language-", "lang-", "highlight-source-", "highlight-"];
                prefixes
                    .into_iter()
                    .find_map(|prefix| class.strip_prefix(prefix))
            });
            let name = given.into_iter().flatten().next().or(named)?;
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+#-_.".contains(&byte);
            let is_word = (1..=20).contains(&name.len()) && name.bytes().all(is_part);
            is_word.then(|| name.to_ascii_lowercase())
        })?;
    let is_none = matches!(found.as_str(), "none" | "text" | "plaintext" | "default");
    Some(found).filter(|_| !is_none)
}
