//! Rules over the manifests: who may use whom, and why each foreign crate is here.

use toml::{Table, Value};

use super::Findings;
use crate::tree::Tree;

/// Who may depend on whom, lowest layer first. Change this table only together with an ADR.
pub(crate) const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("egress", &[]),
    // Whoever sees something happen may count it, so nearly everyone may use it.
    ("meters", &["domain"]),
    ("wire", &["domain"]),
    ("auth", &["domain"]),
    ("journal", &["domain", "meters"]),
    ("llm", &["domain", "egress", "wire"]),
    ("netguard", &["egress"]),
    ("tools", &["domain", "wire", "netguard"]),
    // Only the program that puts the parts together knows it: to all others its tools are tools.
    ("mcp", &["domain", "wire", "netguard", "tools"]),
    ("agent", &["domain", "meters", "llm", "tools"]),
    ("session", &["domain", "meters", "auth", "journal", "agent"]),
    ("server", &["domain", "meters", "wire", "auth", "session"]),
    ("client", &["domain", "egress", "wire"]),
    ("cli", EVERYTHING),
    // For tests only: nobody may use it, so it may use whatever it likes.
    ("testkit", EVERYTHING),
    // Not shipped: it runs what tests are made of for longer than tests may.
    (
        "bench",
        &[
            "agent", "domain", "journal", "mcp", "netguard", "testkit", "tools",
        ],
    ),
    // Tests and linters wait for it to be built.
    ("xtask", &[]),
];

const EVERYTHING: &[&str] = &[
    "domain", "egress", "meters", "wire", "auth", "journal", "llm", "mcp", "netguard", "tools",
    "agent", "session", "server", "client",
];

/// Dependencies between our crates run downhill only, as [`MAY_USE`] says.
pub(crate) fn dependency_table(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (name, text) in tree.manifests() {
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name}: is not in MAY_USE; say what it may use"));
            continue;
        };
        for (used, _) in shipped(&table(text)) {
            if is_ours(&used) && !may_use.contains(&used.as_str()) {
                findings.push(format!("{name}: may not use {used}"));
            }
        }
    }
    findings
}

/// A foreign crate is named once, in `[workspace.dependencies]`, so that one page can explain all.
pub(crate) fn come_from_the_workspace(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (name, text) in tree.manifests() {
        for (used, value) in all(&table(text)) {
            // A crate's tests may ask for its own test-support.
            let is_itself = value.get("path").and_then(Value::as_str) == Some(".");
            if !is_itself && value.get("workspace").and_then(Value::as_bool) != Some(true) {
                findings.push(format!("{name}: write `{used}.workspace = true`"));
            }
        }
    }
    findings
}

/// Each foreign crate has a row in `docs/dependencies.md`, and each row a crate.
pub(crate) fn have_a_reason(tree: &Tree) -> Findings {
    const PAGE: &str = "docs/dependencies.md";
    let manifest = table(tree.text("Cargo.toml").unwrap_or_default());
    let used = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(Value::as_table);
    let used: Vec<&str> = used
        .into_iter()
        .flat_map(Table::iter)
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let page = tree.text(PAGE).unwrap_or_default();
    let explained: Vec<&str> = page.lines().filter_map(row_name).collect();
    let missing = used.iter().filter(|name| !explained.contains(name));
    let stale = explained.iter().filter(|name| !used.contains(name));
    missing
        .map(|name| format!("{PAGE}: has no row that says why `{name}` is here"))
        .chain(stale.map(|name| format!("{PAGE}: explains `{name}`, which is not used")))
        .collect()
}

/// What only tests need is not compiled into what people install.
pub(crate) fn test_support_is_for_tests(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (name, text) in tree.manifests() {
        let manifest = table(text);
        // What developers run is not what people install.
        let in_product = shipped(&manifest).into_iter().filter(|_| name != "bench");
        for (used, value) in in_product {
            if lists_test_support(value.get("features")) {
                findings.push(format!("{name}: ships with test-support of {used}"));
            }
        }
        let features = manifest.get("features").and_then(Value::as_table);
        for (feature, enables) in features.into_iter().flat_map(Table::iter) {
            if feature != TEST_SUPPORT && lists_test_support(Some(enables)) {
                findings.push(format!("{name}: feature {feature} turns on test-support"));
            }
        }
    }
    let workspace = table(tree.text("Cargo.toml").unwrap_or_default());
    let shared = workspace.get("workspace").and_then(Value::as_table);
    for (used, value) in shared.map(all).unwrap_or_default() {
        if lists_test_support(value.get("features")) {
            findings.push(format!(
                "Cargo.toml: turns on test-support of {used} for all"
            ));
        }
    }
    findings
}

const TEST_SUPPORT: &str = "test-support";

/// A manifest that does not parse is cargo's to complain about.
fn table(manifest: &str) -> Table {
    manifest.parse().unwrap_or_default()
}

/// The dependencies that end up in the product, also those of one platform.
fn shipped(manifest: &Table) -> Vec<(String, Value)> {
    collect(manifest, &["dependencies", "build-dependencies"])
}

/// All dependencies, with those of tests.
fn all(manifest: &Table) -> Vec<(String, Value)> {
    let kinds = ["dependencies", "build-dependencies", "dev-dependencies"];
    collect(manifest, &kinds)
}

fn collect(manifest: &Table, kinds: &[&str]) -> Vec<(String, Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values);
    let places = targets.filter_map(Value::as_table).chain([manifest]);
    places
        .flat_map(|place| kinds.iter().filter_map(|kind| place.get(*kind)))
        .filter_map(Value::as_table)
        .flat_map(|found| found.iter().map(own_name))
        .collect()
}

/// Our crates by the name of their folder, whatever the manifest calls them.
fn own_name((key, value): (&String, &Value)) -> (String, Value) {
    let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
    let name = package.strip_prefix("fastness-").unwrap_or(key);
    (name.to_owned(), value.clone())
}

fn is_ours(name: &str) -> bool {
    MAY_USE.iter().any(|(known, _)| *known == name)
}

fn lists_test_support(features: Option<&Value>) -> bool {
    let features = features.and_then(Value::as_array);
    features.into_iter().flatten().any(|feature| {
        let feature = feature.as_str().unwrap_or_default();
        feature == TEST_SUPPORT || feature.ends_with("/test-support")
    })
}

/// The crate that a table row of `docs/dependencies.md` is about.
fn row_name(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split('`').next()
}
