//! The rules of the house, as far as a machine can check them.
//!
//! Each rule is a function from a [`Tree`] to [`Findings`]; [`RULES`] lists them all. Adding a rule
//! is a function, a line in that table, and a test that shows it bites.

mod crates;
mod faults;
mod rust;
mod source;
mod supply;
#[cfg(test)]
mod tests;
mod text;

use crate::tree::Tree;

pub(crate) use supply::{Graph, check_graph};

/// A rule: what it finds wrong, one sentence per place.
type Rule = fn(&Tree) -> Findings;

/// What a rule found, each `place: what is wrong and what to do`.
pub(crate) type Findings = Vec<String>;

/// Every rule over the source tree, by the name under which it reports.
const RULES: &[(&str, Rule)] = &[
    ("dependency table", crates::dependency_table),
    ("workspace dependencies", crates::come_from_the_workspace),
    ("dependency reasons", crates::have_a_reason),
    ("test-support", crates::test_support_is_for_tests),
    ("module docs", source::module_docs),
    ("file length", source::file_length),
    ("one grant", source::one_grant),
    ("limits have reasons", source::limits_have_reasons),
    ("banned words", source::banned_words),
    ("processes", source::processes),
    ("machine paths", text::machine_paths),
    ("registry hosts", text::registry_hosts),
    ("links", text::links),
    ("faults", faults::are_shown),
];

/// Everything the rules find wrong in `tree`.
pub(crate) fn check(tree: &Tree) -> Findings {
    let named = |(name, rule): &(&str, Rule)| {
        let findings = rule(tree).into_iter();
        findings
            .map(|finding| format!("[{name}] {finding}"))
            .collect::<Vec<_>>()
    };
    RULES.iter().flat_map(named).collect()
}
