//! What we build on: where it comes from, under which licence, and in how many versions.
//!
//! The allow-lists stand in `deny.toml`, so that cargo-deny and this check agree. This one needs
//! nothing but cargo and therefore always runs; cargo-deny looks closer where it is installed.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Findings;

/// The crates that one platform's build is made of, as `cargo tree` tells.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    packages: Vec<Package>,
}

#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    licence: String,
    origin: Origin,
}

#[derive(Debug, PartialEq)]
enum Origin {
    Ours,
    CratesIo,
    Elsewhere(String),
}

impl Graph {
    /// How to ask `cargo tree` for what [`Graph::parse`] reads. (`cargo metadata` would also name
    /// crates behind features that nobody turned on.)
    pub(crate) const FORMAT: &str = "--prefix none --format {p}|{l}";

    /// Reads lines `name vVERSION (where it is, if not on crates.io)|LICENCE`; those under `root`
    /// are ours.
    pub(crate) fn parse(tree: &str, root: &str) -> Self {
        let lines: BTreeSet<&str> = tree
            .lines()
            .map(|line| line.trim_end_matches(" (*)"))
            .collect();
        let packages = lines
            .into_iter()
            .filter_map(|line| Package::parse(line, root));
        Self {
            packages: packages.collect(),
        }
    }
}

impl Package {
    fn parse(line: &str, root: &str) -> Option<Self> {
        let (package, licence) = line.split_once('|')?;
        let mut words = package.splitn(3, ' ');
        let (name, version) = (words.next()?, words.next()?);
        let place = words.next().unwrap_or_default();
        let place = place.trim_start_matches("(proc-macro)").trim();
        let place = place.trim_start_matches('(').trim_end_matches(')');
        let origin = match place {
            "" => Origin::CratesIo,
            ours if ours.starts_with(root) => Origin::Ours,
            other => Origin::Elsewhere(other.to_owned()),
        };
        Some(Self {
            name: name.to_owned(),
            version: version.trim_start_matches('v').to_owned(),
            licence: licence.trim().to_owned(),
            origin,
        })
    }
}

/// Everything in `graph` that `deny` (the text of `deny.toml`) does not allow.
pub(crate) fn check_graph(graph: &Graph, deny: &str) -> Findings {
    let deny: Table = deny.parse().unwrap_or_default();
    let mut findings = Findings::new();
    let allowed: BTreeSet<&str> = strings(section(&deny, "licenses", "allow")).collect();
    for package in &graph.packages {
        let Package {
            name,
            version,
            licence,
            origin,
        } = package;
        if let Origin::Elsewhere(place) = origin {
            findings.push(format!(
                "{name} {version}: comes from {place}, not crates.io"
            ));
        }
        if !matches!(origin, Origin::Ours) && !licence_allowed(licence, &allowed) {
            findings.push(format!(
                "{name} {version}: licence `{licence}` is not allowed"
            ));
        }
    }
    findings.extend(check_duplicates(graph, section(&deny, "bans", "skip")));
    findings
}

/// A second version of a crate is a known exception with a reason, or a mistake.
fn check_duplicates(graph: &Graph, skip: Option<&Value>) -> Findings {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &graph.packages {
        let of_name = versions.entry(&package.name).or_default();
        of_name.insert(&package.version);
    }
    let exceptions: Vec<&Value> = skip
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let mut findings = Findings::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let covers = |version: &str| exceptions.iter().any(|skip| names(skip, name, version));
        if versions.iter().filter(|version| !covers(version)).count() > 1 {
            let versions: Vec<&str> = versions.iter().copied().collect();
            findings.push(format!(
                "{name}: is built in versions {}",
                versions.join(" and ")
            ));
        }
    }
    for skip in exceptions {
        if skip.get("reason").and_then(Value::as_str).is_none() {
            findings.push(format!(
                "deny.toml: an exception without a reason: {skip:?}"
            ));
        }
    }
    findings
}

/// Whether an exception `{ crate = "name@1.2" }` or `{ crate = "name" }` means this version.
fn names(skip: &Value, name: &str, version: &str) -> bool {
    let spec = skip
        .get("crate")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let (skipped, prefix) = spec.split_once('@').unwrap_or((spec, ""));
    let rest = version.strip_prefix(prefix.trim_start_matches(['=', '^', '~']));
    skipped == name
        && rest.is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('.'))
}

/// Whether an SPDX expression can be fulfilled with the allowed licences alone.
///
/// `AND` binds tighter than `OR`; the old form `A/B` means `OR`.
fn licence_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    !words.is_empty() && any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut fulfilled = all_of(rest, allowed);
    while take(rest, "OR") {
        fulfilled |= all_of(rest, allowed);
    }
    fulfilled
}

fn all_of(rest: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut fulfilled = one(rest, allowed);
    while take(rest, "AND") {
        fulfilled &= one(rest, allowed);
    }
    fulfilled
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    if take(rest, "(") {
        let fulfilled = any_of(rest, allowed);
        return take(rest, ")") && fulfilled;
    }
    let Some((licence, after)) = rest.split_first() else {
        return false;
    };
    *rest = after;
    if take(rest, "WITH") {
        let Some((exception, after)) = rest.split_first() else {
            return false;
        };
        *rest = after;
        return allowed.contains(format!("{licence} WITH {exception}").as_str());
    }
    allowed.contains(licence)
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let found = rest.first() == Some(&word);
    if found {
        *rest = &rest[1..];
    }
    found
}

fn section<'a>(deny: &'a Table, section: &str, key: &str) -> Option<&'a Value> {
    deny.get(section)?.get(key)
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let array = value.and_then(Value::as_array);
    array.into_iter().flatten().filter_map(Value::as_str)
}
