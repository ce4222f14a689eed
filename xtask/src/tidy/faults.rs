//! Every fault of the store that we promise to survive is shown by something that exists.

use serde_json::Value;

use super::Findings;
use super::rust::code_only;
use crate::tree::Tree;

const FAULTS: &str = "crates/cli/tests/data/faults.json";
const GUIDE: &str = "docs/guides/durability.md";

/// The commands that may stand in for a test.
const COMMANDS: &[&str] = &[
    "cargo xtask soak kill",
    "cargo xtask soak journal",
    "cargo xtask bench journal",
];

/// Each fault of the log has a row in the guide, and each row names a test or a command.
pub(crate) fn are_shown(tree: &Tree) -> Findings {
    let Some(faults) = tree.text(FAULTS) else {
        return Findings::new();
    };
    let faults: Value = serde_json::from_str(faults).unwrap_or_default();
    let of_the_log = |fault: &&Value| fault["area"] == "log";
    let ids: Vec<&str> = faults
        .as_array()
        .into_iter()
        .flatten()
        .filter(of_the_log)
        .filter_map(|fault| fault["id"].as_str())
        .collect();
    if ids.is_empty() {
        return vec![format!("{FAULTS}: lists no faults of the log")];
    }
    let guide = tree.text(GUIDE).unwrap_or_default();
    let tests = test_names(tree);
    let mut findings = Findings::new();
    for id in ids {
        let start = format!("| {id} |");
        let Some(row) = guide.lines().find(|line| line.starts_with(&start)) else {
            findings.push(format!("{GUIDE}: has no row for {id}"));
            continue;
        };
        let shown_by = row.rsplit(" | ").next().unwrap_or_default();
        let named: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            findings.push(format!("{GUIDE}: {id} names no test and no command"));
        }
        let exists = |name: &&str| tests.iter().any(|test| test == name) || COMMANDS.contains(name);
        for name in named.iter().filter(|name| !exists(name)) {
            findings.push(format!(
                "{GUIDE}: {id} names `{name}`, which does not exist"
            ));
        }
    }
    findings
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
