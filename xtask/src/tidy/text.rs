//! Rules over all text that people read: no traces of one machine, and links that lead somewhere.

use super::Findings;
use crate::tree::Tree;

/// This file and its tests spell out what they look for; lock files are checked by source.
const EXEMPT: &[&str] = &[
    "xtask/src/tidy/text.rs",
    "xtask/src/tidy/tests.rs",
    "Cargo.lock",
];

/// The first folders of paths that exist on somebody's machine only.
const MACHINE_FOLDERS: &[&str] = &["/work/", "/root/", "/home/", "/Users/", "/tmp/"];

/// Homes that nobody has, for examples and tests.
const MADE_UP_HOMES: &[&str] = &["/home/ann", "/home/me", "/home/you"];

/// Hosts and settings by which one machine's way to packages would leak into everybody's.
const REGISTRY_WORDS: &[&str] = &[
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "pythonhosted.org",
    "static.crates.io",
    "index.crates.io",
    "index-url",
    "npm_config_registry",
    "CARGO_REGISTRIES_",
    "replace-with",
];

/// A path that only one machine has helps nobody else.
pub(crate) fn machine_paths(tree: &Tree) -> Findings {
    let found = |line: &str| {
        let here = |folder: &&&str| names_path(line, folder);
        MACHINE_FOLDERS.iter().find(here).copied()
    };
    per_line(tree, found, "is a path of one machine")
}

/// Where packages come from is each machine's own business.
pub(crate) fn registry_hosts(tree: &Tree) -> Findings {
    let found = |line: &str| {
        let here = |word: &&&str| line.contains(**word);
        REGISTRY_WORDS.iter().find(here).copied()
    };
    per_line(tree, found, "belongs into a machine's own settings")
}

/// Every link to a file or a heading of ours leads there.
pub(crate) fn links(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (page, text) in tree.pages() {
        for target in link_targets(text) {
            if !leads_somewhere(tree, page, target) {
                findings.push(format!("{page}: the link to {target} leads nowhere"));
            }
        }
    }
    findings
}

fn per_line(tree: &Tree, found: impl Fn(&str) -> Option<&'static str>, wrong: &str) -> Findings {
    let mut findings = Findings::new();
    for (path, text) in tree.files().filter(|(path, _)| !EXEMPT.contains(path)) {
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = found(line) {
                findings.push(format!("{path}:{}: `{word}` {wrong}", index + 1));
            }
        }
    }
    findings
}

/// Whether `folder` begins a path in `line`, rather than continuing one.
fn names_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let (before, path) = line.split_at(at);
        let continues = |c: char| c.is_alphanumeric() || "._-~}*)>".contains(c);
        let made_up = MADE_UP_HOMES.iter().any(|home| {
            let after = path.strip_prefix(home);
            after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
        });
        !before.ends_with(continues) && !made_up
    })
}

/// Targets of `[text](target)`, outside code.
fn link_targets(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for line in prose(text) {
        let outside_code = line.split('`').step_by(2);
        for piece in outside_code {
            let ends = piece.split("](").skip(1);
            targets.extend(ends.filter_map(|end| end.split([')', ' ']).next()));
        }
    }
    targets
}

/// The lines that are not in fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn leads_somewhere(tree: &Tree, page: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        page.to_owned()
    } else {
        resolve(page, path)
    };
    let has_heading = |text: &str| prose(text).any(|line| slug(line).as_deref() == Some(heading));
    tree.holds(&path) && (heading.is_empty() || tree.text(&path).is_some_and(has_heading))
}

/// `path` as seen from the folder of `page`, from the root.
fn resolve(page: &str, path: &str) -> String {
    let mut names: Vec<&str> = page.split('/').collect();
    names.pop();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    names.join("/")
}

/// The anchor that a heading line gets.
fn slug(line: &str) -> Option<String> {
    let heading = line.trim_start_matches('#');
    if heading.len() == line.len() {
        return None;
    }
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}
