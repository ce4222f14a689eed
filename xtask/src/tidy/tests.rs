//! Each rule bites on a made-up tree, leaves a good one alone, and our own tree passes them all.

use super::rust::{before_inline_tests, code_only};
use super::source::check_length;
use super::{Graph, check, check_graph, crates, faults, source, text};
use crate::steps;
use crate::tree::Tree;

fn check_findings(findings: &[String], expected: &[&str]) {
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for (finding, part) in findings.iter().zip(expected) {
        assert!(finding.contains(part), "{finding:?} lacks {part:?}");
    }
}

#[test]
fn our_own_tree_is_tidy() {
    let tree = Tree::read(&steps::root()).unwrap();
    let findings = check(&tree);
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn what_we_build_on_is_allowed_by_deny_toml() {
    let findings = steps::supply().unwrap();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn a_dependency_that_runs_uphill_is_found_whatever_it_is_called() {
    let tree = Tree::of([
        (
            "crates/wire/Cargo.toml",
            "[dependencies]\ndomain.workspace = true\n[dev-dependencies]\ntestkit.workspace = true",
        ),
        (
            "crates/domain/Cargo.toml",
            "[dependencies]\nlines = { package = 'fastness-wire', path = '../wire' }",
        ),
        (
            "crates/auth/Cargo.toml",
            "[target.'cfg(unix)'.dependencies]\njournal.workspace = true",
        ),
        (
            "crates/agent/Cargo.toml",
            "[dependencies]\ntestkit.workspace = true",
        ),
        ("crates/stray/Cargo.toml", ""),
    ]);
    check_findings(
        &crates::dependency_table(&tree),
        &[
            "agent: may not use testkit",
            "auth: may not use journal",
            "domain: may not use wire",
            "stray: is not in MAY_USE",
        ],
    );
}

#[test]
fn a_foreign_crate_is_named_in_the_workspace_only() {
    let tree = Tree::of([
        (
            "crates/wire/Cargo.toml",
            "[dependencies]\nserde = '1'\nbytes = { workspace = true }",
        ),
        ("fuzz/Cargo.toml", "[dependencies]\nlibfuzzer-sys = '0.4'"),
    ]);
    check_findings(
        &crates::come_from_the_workspace(&tree),
        &["wire: write `serde.workspace = true`"],
    );
}

#[test]
fn every_foreign_crate_is_explained_and_nothing_else_is() {
    let manifest =
        "[workspace.dependencies]\nwire = { path = 'crates/wire' }\nserde = '1'\nbytes = '1'";
    let page = "| crate | why |\n|---|---|\n| `serde` | reads and writes |\n| `nom` | parses |\n";
    let tree = Tree::of([("Cargo.toml", manifest), ("docs/dependencies.md", page)]);
    check_findings(
        &crates::have_a_reason(&tree),
        &["why `bytes` is here", "explains `nom`"],
    );
}

#[test]
fn test_support_does_not_ship() {
    let tree = Tree::of([
        (
            "Cargo.toml",
            "[workspace.dependencies]\nllm = { path = 'x', features = ['test-support'] }",
        ),
        (
            "crates/agent/Cargo.toml",
            "[dependencies]\nllm = { workspace = true, features = ['test-support'] }",
        ),
        (
            "crates/cli/Cargo.toml",
            "[features]\ndefault = ['llm/test-support']\ntest-support = ['llm/test-support']",
        ),
        (
            "crates/session/Cargo.toml",
            "[dev-dependencies]\nllm = { workspace = true, features = ['test-support'] }",
        ),
    ]);
    check_findings(
        &crates::test_support_is_for_tests(&tree),
        &[
            "agent: ships with test-support of llm",
            "cli: feature default",
            "Cargo.toml: turns on test-support of llm",
        ],
    );
}

#[test]
fn a_file_begins_by_saying_what_it_owns() {
    let tree = Tree::of([
        ("crates/wire/src/lib.rs", "//! Bytes to messages.\nmod rpc;"),
        ("crates/wire/src/rpc.rs", "use std::fmt;"),
        ("crates/wire/src/sse.rs", "//! TBD\n"),
        ("crates/wire/src/acp.rs", "\n//! Late.\n"),
    ]);
    let expected = ["src/acp.rs", "src/rpc.rs", "src/sse.rs"];
    check_findings(&source::module_docs(&tree), &expected);
}

#[test]
fn long_files_are_split_and_exceptions_only_shrink() {
    let code = |lines: usize| "fn a() {}\n".repeat(lines);
    let tested = code(600) + "#[cfg(test)]\nmod tests {\n" + &code(100) + "}\n";
    let tree = Tree::of([
        ("crates/a/src/long.rs", &code(601)),
        ("crates/a/src/tested.rs", &tested),
        ("crates/a/src/grown.rs", &code(701)),
        ("crates/a/src/shrunk.rs", &code(650)),
        ("crates/a/src/same.rs", &code(700)),
    ]);
    let exceptions = [
        ("crates/a/src/grown.rs", 700, "one table"),
        ("crates/a/src/shrunk.rs", 700, "one table"),
        ("crates/a/src/same.rs", 700, "one table"),
        ("crates/a/src/gone.rs", 700, "one table"),
    ];
    check_findings(
        &check_length(&tree, &exceptions),
        &[
            "grown.rs: 701 lines",
            "long.rs: 601 lines",
            "shrunk.rs: is down to 650",
            "gone.rs: no longer needs",
        ],
    );
}

#[test]
fn permits_are_granted_in_one_place_of_session() {
    const GRANT: &str = "fn allow() { Permit::granted(call, seq); }\n";
    let domain = ("crates/domain/src/permit.rs", GRANT);
    let session = ("crates/session/src/actor.rs", GRANT);
    let in_tests = ("crates/tools/src/read/tests.rs", GRANT);
    let agent = ("crates/agent/src/turn.rs", GRANT);
    let in_words = (
        "crates/agent/src/lib.rs",
        "// Permit::granted\nconst A: &str = \"Permit::granted\";",
    );
    check_findings(
        &source::one_grant(&Tree::of([domain, session, in_tests, in_words])),
        &[],
    );
    check_findings(&source::one_grant(&Tree::of([domain])), &["nothing calls"]);
    check_findings(&source::one_grant(&Tree::of([agent])), &["in session only"]);
    check_findings(
        &source::one_grant(&Tree::of([session, agent])),
        &["in 2 places"],
    );
}

#[test]
fn a_limit_without_a_reason_is_found() {
    let limits = "
/// Why.
pub const DEEP_MAX: usize = 1;
pub const BARE_MAX: usize = 1;
/// Settings.
pub struct Limits {
    /// Why.
    #[serde(default)]
    pub stall: Duration,
    pub idle: Duration,
}
pub fn bound(limits: Limits) {}
";
    let tree = Tree::of([("crates/domain/src/limits.rs", limits)]);
    check_findings(
        &source::limits_have_reasons(&tree),
        &["BARE_MAX lacks its reason", "idle lacks its reason"],
    );
}

#[test]
fn banned_words_are_found_in_code_and_not_in_prose() {
    let tree = Tree::of([
        (
            "crates/a/src/one.rs",
            "#[test]\n#[ignore]\nfn slow() { todo!() }",
        ),
        (
            "crates/a/src/two.rs",
            "// todo! is banned\nconst A: &str = \"todo!\";",
        ),
        (
            "crates/a/tests/it/main.rs",
            "let (a, b) = mpsc::unbounded_channel();",
        ),
    ]);
    check_findings(
        &source::banned_words(&tree),
        &[
            "one.rs: has `#[ignore`",
            "one.rs: has `todo!`",
            "main.rs: has `unbounded_channel`",
        ],
    );
}

#[test]
fn only_the_sandbox_and_tests_start_processes() {
    const START: &str = "use std::process::Command;";
    let tree = Tree::of([
        ("crates/tools/src/sandbox/linux.rs", START),
        ("crates/cli/tests/it/main.rs", START),
        ("crates/testkit/src/server.rs", START),
        (
            "crates/cli/src/main.rs",
            "use std::process::{ExitCode, Command};",
        ),
        (
            "crates/llm/src/lib.rs",
            "use std::process::{ExitCode, Stdio};",
        ),
        (
            "crates/agent/src/lib.rs",
            "fn run() { tokio::process::Command::new(name); }",
        ),
    ]);
    check_findings(
        &source::processes(&tree),
        &["agent/src/lib.rs", "cli/src/main.rs"],
    );
}

#[test]
fn a_path_of_one_machine_is_found() {
    let tree = Tree::of([
        (
            "README.md",
            "see `/root/notes` and\nhttps://example.org/home/page, ~/work/x, docs/tmp/y",
        ),
        (
            "crates/a/src/lib.rs",
            "const AT: &str = \"/tmp/x\"; // beside /home/me/x\n// and /home/mel/x",
        ),
    ]);
    check_findings(
        &text::machine_paths(&tree),
        &[
            "README.md:1: `/root/`",
            "lib.rs:1: `/tmp/`",
            "lib.rs:2: `/home/`",
        ],
    );
}

#[test]
fn a_machines_way_to_packages_stays_on_the_machine() {
    let tree = Tree::of([
        (".ci/run", "pip install --index-url http://mirror x"),
        ("README.md", "Published on crates.io."),
    ]);
    check_findings(&text::registry_hosts(&tree), &[".ci/run:1: `index-url`"]);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = "
# A guide
[up](../README.md) [here](#a-guide) [folder](../crates) [web](https://example.org) `[code](x.md)`
[gone](missing.md) [no heading](../README.md#nothing)
```
[fenced](y.md)
```
";
    let tree = Tree::of([
        ("README.md", "# Fastness"),
        ("crates/a/src/lib.rs", ""),
        ("docs/guide.md", page),
    ]);
    check_findings(&text::links(&tree), &["missing.md", "README.md#nothing"]);
}

#[test]
fn a_fault_that_nothing_shows_is_found() {
    let list = r#"[{"id": "F01", "area": "log"}, {"id": "F02", "area": "log"},
        {"id": "F03", "area": "log"}, {"id": "F04", "area": "log"}, {"id": "F05", "area": "net"},
        {"id": "F22", "area": "mem"}, {"id": "F25", "area": "net"},
        {"id": "F36", "area": "proc"}]"#;
    let guide = "\
| F01 | a | `f_01_survives`; `cargo xtask soak kill` |
| F02 | b | `f_02_gone`, `helper` |
| F03 | `f_01_survives` | by faith |
";
    let tree = Tree::of([
        ("crates/cli/tests/data/faults.json", list),
        ("docs/guides/durability.md", guide),
        ("docs/guides/resume.md", "| A-07 | a | `a_07_gone` |"),
        (
            "crates/a/tests/it/main.rs",
            "#[tokio::test]\nasync fn f_01_survives() {}\nfn helper() {}\n// #[test]\n// fn f_02_gone() {}",
        ),
    ]);
    check_findings(
        &faults::are_shown(&tree),
        &[
            "F02 names `f_02_gone`",
            "F02 names `helper`",
            "F03 names no test",
            "no row for F04",
            "connections.md: has no row for F05",
            "resume.md: has no row for F22",
            "A-07 names `a_07_gone`",
            "sandbox.md: has no row for F36",
        ],
    );
}

#[test]
fn foreign_sources_licences_and_second_versions_are_found() {
    let tree = "\
wire v0.1.0 (ROOT/crates/wire)|
a v1.0.0|MIT OR GPL-3.0
a v2.0.0 (proc-macro)|(MIT/Zlib) AND Unicode-3.0 (*)
a v2.0.0 (proc-macro)|(MIT/Zlib) AND Unicode-3.0
b v1.0.0|Apache-2.0 WITH LLVM-exception
b v2.0.0|GPL-3.0
c v1.0.0 (https://example.org/c#1)|MIT
";
    let deny = r#"
[licenses]
allow = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"]
[bans]
skip = [{ crate = "b@1", reason = "until d takes b 2" }, { crate = "e" }]
"#;
    let graph = Graph::parse(tree, "ROOT");
    check_findings(
        &check_graph(&graph, deny),
        &[
            "b 2.0.0: licence `GPL-3.0`",
            "c 1.0.0: comes from https://example.org",
            "a: is built in versions 1.0.0 and 2.0.0",
            "an exception without a reason",
        ],
    );
}

#[test]
fn comments_and_literals_are_not_code_and_inline_tests_end_it() {
    let source = "let a = \"x\\\"y\"; // one\n/* two /* deep */ */ let b: &'a str = r#\"z\"q\"#; let c = '\\''; for\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inline {\n}\n";
    let code = code_only(source);
    for gone in ["x", "y", "one", "two", "deep", "z", "q"] {
        assert!(!code.contains(gone), "{gone} is left in {code}");
    }
    for kept in ["let a = ", "let b: &'a str = ", "let c = ", "; for\n"] {
        assert!(code.contains(kept), "{kept} is not left in {code}");
    }
    assert_eq!(code.lines().count(), source.lines().count());
    assert!(before_inline_tests(&code).ends_with("mod tests;\n"));
}
