//! Every fault that we promise to survive is shown by something that exists.

use serde_json::Value;

use super::Findings;
use super::rust::code_only;
use crate::tree::Tree;

const FAULTS: &str = "crates/cli/tests/data/faults.json";

/// Which guide tells of which faults: by their area, and those of an area that are told elsewhere.
const GUIDES: &[(&str, &[&str], &[&str])] = &[
    ("docs/guides/durability.md", &["log"], &[]),
    (
        "docs/guides/connections.md",
        &["clock", "fd", "mem", "net", "rpc", "proc"],
        // Backpressure, bad roads, races and upgrades are not told yet.
        &["F22", "F25", "F33", "F45"],
    ),
];

/// The commands that may stand in for a test.
const COMMANDS: &[&str] = &[
    "cargo xtask soak kill",
    "cargo xtask soak journal",
    "cargo xtask soak edge",
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
    for (guide, areas, elsewhere) in GUIDES {
        let is_told = |fault: &&Value| {
            let area = fault["area"].as_str().unwrap_or_default();
            areas.contains(&area)
        };
        let faults = faults.as_array().into_iter().flatten().filter(is_told);
        let ids = faults.filter_map(|fault| fault["id"].as_str());
        let ids: Vec<&str> = ids.filter(|id| !elsewhere.contains(id)).collect();
        if ids.is_empty() {
            findings.push(format!("{FAULTS}: lists no faults for {guide}"));
        }
        let text = tree.text(guide).unwrap_or_default();
        for id in ids {
            findings.extend(row_of(id, guide, text, &tests));
        }
    }
    findings
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
