//! Every fault that we promise to survive is shown by something that exists.

use serde_json::Value;

use super::Findings;
use super::rust::code_only;
use crate::tree::Tree;

const FAULTS: &str = "crates/cli/tests/data/faults.json";

/// A guide and the faults that it tells of.
struct Guide {
    path: &'static str,
    /// Faults of these areas, unless another guide names them.
    areas: &'static [&'static str],
    /// Faults that it tells of whatever their area is.
    named: &'static [&'static str],
}

const GUIDES: &[Guide] = &[
    Guide {
        path: "docs/guides/durability.md",
        areas: &["log"],
        named: &[],
    },
    Guide {
        path: "docs/guides/connections.md",
        areas: &["clock", "fd", "mem", "net", "rpc", "proc"],
        named: &[],
    },
    Guide {
        path: "docs/guides/resume.md",
        areas: &[],
        named: &["F22", "F33"],
    },
    Guide {
        path: "docs/guides/sandbox.md",
        areas: &[],
        named: &["F36"],
    },
];

/// Bad roads and upgrades are not told yet.
const UNTOLD: &[&str] = &["F25", "F45"];

/// The commands that may stand in for a test.
const COMMANDS: &[&str] = &[
    "cargo xtask soak kill",
    "cargo xtask soak bridge",
    "cargo xtask soak journal",
    "cargo xtask soak edge",
    "cargo xtask soak resume",
    "cargo xtask soak races",
    "cargo xtask bench",
    "cargo xtask bench journal",
];

/// Each fault has a row in its guide, and each row names a test or a command.
pub(crate) fn are_shown(tree: &Tree) -> Findings {
    let Some(faults) = tree.text(FAULTS) else {
        return Findings::new();
    };
    let faults: Value = serde_json::from_str(faults).unwrap_or_default();
    let tests = test_names(tree);
    let mut findings = Findings::new();
    for guide in GUIDES {
        let faults = faults.as_array().into_iter().flatten();
        let ids = faults.filter(|fault| is_told_in(guide, fault));
        let ids: Vec<&str> = ids.filter_map(|fault| fault["id"].as_str()).collect();
        let path = guide.path;
        if ids.is_empty() {
            findings.push(format!("{FAULTS}: lists no faults for {path}"));
        }
        let text = tree.text(path).unwrap_or_default();
        let rows = ids.into_iter().chain(requirements(text));
        findings.extend(rows.flat_map(|id| row_of(id, path, text, &tests)));
    }
    findings
}

fn is_told_in(guide: &Guide, fault: &Value) -> bool {
    let id = fault["id"].as_str().unwrap_or_default();
    let area = fault["area"].as_str().unwrap_or_default();
    let is_untold = UNTOLD.contains(&id);
    let is_named = GUIDES.iter().any(|guide| guide.named.contains(&id));
    guide.named.contains(&id) || (guide.areas.contains(&area) && !is_named && !is_untold)
}

/// The requirements, as `A-07`, that a guide's tables have rows for.
fn requirements(text: &str) -> impl Iterator<Item = &str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| "));
    let ids = cells.filter_map(|cells| cells.split(" |").next());
    ids.filter(|id| {
        let number = id.get(1..).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|n| n.len() == 2 && n.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// What is wrong with the row of one fault.
fn row_of(id: &str, guide: &str, text: &str, tests: &[String]) -> Findings {
    let start = format!("| {id} |");
    let Some(row) = text.lines().find(|line| line.starts_with(&start)) else {
        return vec![format!("{guide}: has no row for {id}")];
    };
    let shown_by = row.rsplit(" | ").next().unwrap_or_default();
    let named: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
    if named.is_empty() {
        return vec![format!("{guide}: {id} names no test and no command")];
    }
    let exists = |name: &&str| tests.iter().any(|test| test == name) || COMMANDS.contains(name);
    named
        .iter()
        .filter(|name| !exists(name))
        .map(|name| format!("{guide}: {id} names `{name}`, which does not exist"))
        .collect()
}

/// The names of all functions that carry a test attribute.
fn test_names(tree: &Tree) -> Vec<String> {
    let mut names = Vec::new();
    for (_, text) in tree.sources() {
        let code = code_only(text);
        let mut is_test = false;
        for line in code.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, after)) = line.split_once("fn ") {
                let name = after.split(['(', '<']).next().unwrap_or_default();
                if std::mem::take(&mut is_test) {
                    names.push(name.to_owned());
                }
            }
        }
    }
    names
}
