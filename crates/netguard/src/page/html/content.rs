//! Which part of a page is the content, and which parts of that part are not.
//!
//! The content is the smallest element that holds nearly all the prose. What is dropped is named
//! by the page itself: navigation, footers, and boxes whose class says so and that hold little.

use super::tree::{NodeId, Tree};

/// Where to start writing, and what to leave out.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) root: NodeId,
    /// By node: whether it is left out with all inside it.
    pub(super) is_dropped: Vec<bool>,
}

/// Letters of a node and all inside it.
#[derive(Clone, Copy, Debug, Default)]
struct Letters {
    all: usize,
    in_links: usize,
    headings: usize,
}

/// Words in a class or id that mean "around the content".
const AROUND: &[&str] = &[
    "ad",
    "ads",
    "advert",
    "advertisement",
    "banner",
    "breadcrumb",
    "breadcrumbs",
    "byline",
    "consent",
    "cookie",
    "cookies",
    "disqus",
    "gdpr",
    "masthead",
    "menu",
    "modal",
    "nav",
    "navbar",
    "navigation",
    "newsletter",
    "pager",
    "pagination",
    "popup",
    "promo",
    "related",
    "share",
    "sharing",
    "sidebar",
    "skip",
    "social",
    "sponsor",
    "sponsored",
    "subscribe",
    "toc",
    "toolbar",
    "widget",
];

/// Classes of what is hidden from eyes, or is a handle and not text.
const UNSEEN: &[&str] = &[
    "sr-only",
    "visually-hidden",
    "visuallyhidden",
    "screen-reader-text",
    "skip-link",
    "mw-editsection",
    "mw-jump-link",
    "lineno",
    "linenos",
    "linenumber",
    "line-number",
    "line-numbers",
    "gutter",
];

/// A box around the content is shorter than this, or made of links.
const BOX_LETTERS_MAX: usize = 500;

/// Less than this is no content; then the whole page is taken.
const CONTENT_LETTERS_MIN: usize = 80;

/// Chooses the content of a page.
pub(super) fn choose(tree: &Tree) -> Chosen {
    let nothing = vec![false; tree.len()];
    let letters = count(tree, &nothing);
    let is_dropped = dropped(tree, &letters);
    let left = count(tree, &is_dropped);
    let root = smallest(tree, &left, &is_dropped);
    let found = left[root].all;
    if found < CONTENT_LETTERS_MIN && found * 2 < letters[Tree::ROOT].all {
        return Chosen {
            root: Tree::ROOT,
            is_dropped: nothing,
        };
    }
    Chosen { root, is_dropped }
}

/// Counts from the leaves up; children come after their parents.
fn count(tree: &Tree, is_dropped: &[bool]) -> Vec<Letters> {
    let mut counts = vec![Letters::default(); tree.len()];
    for node in tree.all().rev() {
        if is_dropped[node] {
            counts[node] = Letters::default();
            continue;
        }
        if let Some(text) = tree.text(node) {
            counts[node].all = text.chars().filter(|c| !c.is_whitespace()).count();
        }
        match tree.name(node) {
            "a" => counts[node].in_links = counts[node].all,
            "h1" => counts[node].headings += 1,
            _ => {}
        }
        let own = counts[node];
        if let Some(parent) = tree.parent(node) {
            let sum = &mut counts[parent];
            sum.all += own.all;
            sum.in_links += own.in_links;
            sum.headings += own.headings;
        }
    }
    counts
}

/// What stands around the content or is hidden by its class.
fn dropped(tree: &Tree, letters: &[Letters]) -> Vec<bool> {
    let whole = letters[Tree::ROOT];
    let mut is_inside = vec![false; tree.len()];
    let mut is_dropped = vec![false; tree.len()];
    for node in tree.all() {
        let Some(parent) = tree.parent(node) else {
            continue;
        };
        let role = tree.attribute(node, "role").unwrap_or_default();
        let name = tree.name(node);
        let is_content = matches!(name, "main" | "article") || role == "main";
        is_inside[node] = is_inside[parent] || is_content;
        let own = letters[node];
        // A page may be wrapped in anything; nearly all of it is never dropped.
        if own.all * 4 > whole.all * 3 {
            continue;
        }
        let is_around = match name {
            "nav" | "search" => true,
            "footer" => !is_inside[parent] || is_list_of_links(own),
            "aside" => !is_inside[parent] || is_list_of_links(own),
            "header" => !is_inside[parent] && own.headings == 0,
            _ => {
                matches!(
                    role,
                    "navigation"
                        | "banner"
                        | "contentinfo"
                        | "search"
                        | "dialog"
                        | "alertdialog"
                        | "menu"
                ) && own.headings == 0
            }
        };
        let class = tree.attribute(node, "class").unwrap_or_default();
        let is_unseen = class
            .split_whitespace()
            .any(|class| UNSEEN.contains(&class));
        is_dropped[node] = is_around || is_unseen || is_box(tree, node, own, whole);
    }
    is_dropped
}

/// Whether a class says that this is a box around the content, and its content does not contradict.
fn is_box(tree: &Tree, node: NodeId, own: Letters, whole: Letters) -> bool {
    let name = tree.name(node);
    if !matches!(
        name,
        "div" | "section" | "aside" | "ul" | "ol" | "form" | "p" | "span" | "table" | ""
    ) {
        return false;
    }
    let is_small = own.all < BOX_LETTERS_MAX || is_list_of_links(own);
    let is_named = || {
        let mut words = tree.words(node);
        words.any(|word| AROUND.contains(&word.to_ascii_lowercase().as_str()))
    };
    own.headings == 0 && is_small && own.all * 4 < whole.all && is_named()
}

fn is_list_of_links(letters: Letters) -> bool {
    letters.in_links * 2 > letters.all
}

/// Goes down while one container holds nearly all the prose and every main heading.
fn smallest(tree: &Tree, letters: &[Letters], is_dropped: &[bool]) -> NodeId {
    let whole = prose(letters[Tree::ROOT]);
    let mut named = tree.all().filter(|node| {
        let role = tree.attribute(*node, "role").unwrap_or_default();
        let is_named = tree.name(*node) == "main" || role == "main";
        is_named && !is_dropped[*node] && prose(letters[*node]) * 5 > whole * 2
    });
    let mut root = named.next().unwrap_or(Tree::ROOT);
    loop {
        let here = letters[root];
        let next = tree.children(root).find(|child| {
            let there = letters[*child];
            let is_container = matches!(
                tree.name(*child),
                "div" | "section" | "article" | "main" | "form" | "center" | ""
            );
            let is_most = prose(there) * 10 > prose(here) * 9 && prose(there) > 0;
            is_container && is_most && there.headings == here.headings
        });
        match next {
            Some(next) => root = next,
            None => return root,
        }
    }
}

fn prose(letters: Letters) -> usize {
    letters.all - letters.in_links
}
