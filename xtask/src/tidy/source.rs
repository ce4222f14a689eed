//! Rules over the Rust sources.

use super::Findings;
use super::rust::{before_inline_tests, code_only, is_test_file};
use crate::tree::Tree;

/// Longest file, its inline tests not counted; 400 is the aim.
const FILE_LINES_MAX: usize = 600;

/// Files that are longer, with the length they have now and the reason. The list may only shrink:
/// a listed file may not grow, and one that is short enough must leave.
const LONG_FILES: &[(&str, usize, &str)] = &[];

/// Every source file says at its very top what it owns.
pub(crate) fn module_docs(tree: &Tree) -> Findings {
    let says_nothing = |text: &str| {
        let doc = text.lines().map_while(|line| line.strip_prefix("//!"));
        let doc = doc.collect::<String>();
        let doc = doc.trim().trim_end_matches('.').to_lowercase();
        doc.is_empty() || ["tbd", "todo", "wip"].contains(&doc.as_str())
    };
    let silent = tree.sources().filter(|(_, text)| says_nothing(text));
    silent
        .map(|(path, _)| format!("{path}: begin with `//!` and what this file owns"))
        .collect()
}

/// Files fit in a head.
pub(crate) fn file_length(tree: &Tree) -> Findings {
    check_length(tree, LONG_FILES)
}

/// One place in the product grants permits: where the allowing event has just been stored.
pub(crate) fn one_grant(tree: &Tree) -> Findings {
    let mut sites = Vec::new();
    for (path, code) in product_code(tree) {
        let elsewhere = !path.starts_with("crates/domain/");
        let count = code.matches("Permit::granted").count();
        sites.extend(std::iter::repeat_n(path, count * usize::from(elsewhere)));
    }
    match sites.as_slice() {
        [site] if site.starts_with("crates/session/") => Findings::new(),
        [site] => vec![format!("{site}: permits are granted in session only")],
        [] => vec!["crates/session: nothing calls `Permit::granted`".to_owned()],
        many => vec![format!(
            "{}: `Permit::granted` is called in {} places; one is right",
            many.join(", "),
            many.len()
        )],
    }
}

/// Every number that bounds something says why it is that number.
pub(crate) fn limits_have_reasons(tree: &Tree) -> Findings {
    const PATHS: [&str; 8] = [
        "crates/domain/src/limits.rs",
        "crates/domain/src/limits/agents.rs",
        "crates/domain/src/limits/clients.rs",
        "crates/domain/src/limits/http.rs",
        "crates/domain/src/limits/library.rs",
        "crates/domain/src/limits/lsp.rs",
        "crates/domain/src/limits/mcp.rs",
        "crates/domain/src/limits/tools.rs",
    ];
    let mut findings = Findings::new();
    for path in PATHS {
        let mut documented = false;
        for line in tree.text(path).unwrap_or_default().lines() {
            let line = line.trim();
            if line.starts_with("///") {
                documented = true;
            } else if !line.starts_with("#[") {
                if let (Some(name), false) = (bound_name(line), documented) {
                    findings.push(format!("{path}: {name} lacks its reason"));
                }
                documented = false;
            }
        }
    }
    findings
}

/// Words that may not be in any code, tests included.
pub(crate) fn banned_words(tree: &Tree) -> Findings {
    const WORDS: &[(&str, &str)] = &[
        ("#[ignore", "a test runs or is deleted"),
        ("todo!", "finish it or leave it out"),
        ("unimplemented!", "finish it or leave it out"),
        ("unbounded_channel", "every queue has a limit"),
        ("mpsc::unbounded(", "every queue has a limit"),
    ];
    let mut findings = Findings::new();
    for (path, text) in tree.sources() {
        let code = code_only(text);
        for (word, instead) in WORDS.iter().filter(|(word, _)| code.contains(word)) {
            findings.push(format!("{path}: has `{word}`; {instead}"));
        }
    }
    findings
}

/// Only the sandbox starts processes, and `fastness open` the person's own browser.
pub(crate) fn processes(tree: &Tree) -> Findings {
    let may = |path: &str| {
        path.starts_with("crates/tools/src/sandbox")
            || path == "crates/cli/src/open.rs"
            // A person asked for a server that stays.
            || path == "crates/cli/src/reach/spawn.rs"
            || path.starts_with("xtask/")
            || path.starts_with("crates/bench/")
            // Compares what is read of a command with what bash does; for tests and soaks only.
            || path == "crates/agent/src/permissions/soak/jail.rs"
    };
    let starts = product_code(tree).filter(|(path, code)| !may(path) && names_processes(code));
    starts
        .map(|(path, _)| format!("{path}: only tools::sandbox starts processes"))
        .collect()
}

/// The rule behind [`file_length`], over any list of exceptions.
pub(crate) fn check_length(tree: &Tree, exceptions: &[(&str, usize, &str)]) -> Findings {
    let mut findings = Findings::new();
    for (path, text) in tree.sources() {
        let lines = before_inline_tests(text).lines().count();
        let listed = exceptions.iter().find(|(listed, ..)| *listed == path);
        let lines_max = listed.map_or(FILE_LINES_MAX, |(_, lines_max, _)| *lines_max);
        if lines > lines_max {
            findings.push(format!(
                "{path}: {lines} lines; at most {lines_max}. Split it"
            ));
        } else if listed.is_some() && lines < lines_max {
            findings.push(format!(
                "{path}: is down to {lines} lines; say so in LONG_FILES"
            ));
        }
    }
    for (path, lines_max, _) in exceptions {
        if tree.text(path).is_none() || *lines_max <= FILE_LINES_MAX {
            findings.push(format!("{path}: no longer needs its line in LONG_FILES"));
        }
    }
    findings
}

/// What is compiled into the product: sources without tests, comments and literals.
fn product_code(tree: &Tree) -> impl Iterator<Item = (&str, String)> {
    let product = tree.sources().filter(|(path, _)| !is_test_file(path));
    product.map(|(path, text)| (path, before_inline_tests(&code_only(text)).to_owned()))
}

/// The name of the public constant or field that a line of `limits.rs` declares.
fn bound_name(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("pub ")?;
    let declared = declared.strip_prefix("const ").unwrap_or(declared);
    let (name, _) = declared.split_once(':')?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    name.chars().all(is_word).then_some(name)
}

fn names_processes(code: &str) -> bool {
    let in_braces = |after: &str| {
        let names = after.split_once('}').map_or(after, |(names, _)| names);
        names
            .split(',')
            .any(|name| name.trim().starts_with("Command"))
    };
    code.contains("process::Command")
        || code.contains("tokio::process")
        || code.split("process::{").skip(1).any(in_braces)
}
