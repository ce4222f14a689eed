//! `grep` and `glob` over a large tree, beside `rg` on the same tree, in turns.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tools::Toolbox;
use tools::roots::Roots;

use super::super::table::{Row, Samples, Table};
use super::super::{Plan, because};
use crate::Failure;

/// Directories of the tree, and files in each: a hundred thousand in all, a large project.
const DIRECTORIES: usize = 1_000;
const FILES_EACH: usize = 100;

/// Times that each search is made; one takes about as long as a hundred of the other measurements.
const SEARCHES: usize = 15;

/// What is searched, as we are asked and as `rg` is.
const CASES: [(&str, &str, &[&str]); 4] = [
    (
        "grep for a word in 100,000 files",
        r#"{"tool": "grep", "pattern": "needle"}"#,
        &["-n", "needle"],
    ),
    (
        "grep for an expression",
        r#"{"tool": "grep", "pattern": "(?i)item_[0-9]*77_1\\b"}"#,
        &["-n", r"(?i)item_[0-9]*77_1\b"],
    ),
    (
        "grep in one kind of file",
        r#"{"tool": "grep", "pattern": "needle", "glob": "*.rs"}"#,
        &["-n", "needle", "-g", "*.rs"],
    ),
    (
        "glob for one kind of file",
        r#"{"tool": "glob", "pattern": "**/*.rs"}"#,
        &["--files", "-g", "**/*.rs"],
    ),
];

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    if ripgrep(Path::new("."), &["--version"]).is_err() {
        return Err("there is no `rg` to compare with; install ripgrep \
                    (apt-get install ripgrep, or cargo install ripgrep)"
            .to_owned());
    }
    let folder = plan.scratch()?;
    eprintln!("making a tree of {} files …", DIRECTORIES * FILES_EACH);
    make_tree(folder.path()).map_err(because("cannot make the tree"))?;
    let roots = Roots::new(folder.path().to_owned(), Vec::new(), Vec::new());
    for (what, input, words) in CASES {
        let input: Value = serde_json::from_str(input).map_err(because("not JSON"))?;
        let mut samples: [Vec<Duration>; 2] = Default::default();
        // The first time of each is for the disk.
        for round in 0..=SEARCHES {
            let bare = ripgrep(folder.path(), words)?;
            let own = search(&input, &roots)?;
            if round > 0 {
                samples[0].push(own);
                samples[1].push(bare);
            }
        }
        let [own, bare] = samples.map(Samples::new);
        table.push(Row {
            what,
            measured: own.to_string(),
            beside: format!("rg {bare}"),
            ratio: own.ratio(&bare),
            aim: "≤ 1.3×",
        });
    }
    Ok(())
}

/// One search by the tool that `input` names.
fn search(input: &Value, roots: &Roots) -> Result<Duration, Failure> {
    let name = input["tool"].as_str().unwrap_or_default();
    let mut input = input.clone();
    let toolbox = Toolbox::new(roots.clone());
    let tool = toolbox.tools().find(|tool| tool.name() == name);
    let tool = tool.and_then(|tool| tool.here());
    let tool = tool.ok_or_else(|| format!("there is no tool {name}"))?;
    input["tool"] = json!(null);
    let started = Instant::now();
    let outcome = tool.run(input, roots);
    let took = started.elapsed();
    let is_found = outcome.text.lines().count() > 100;
    match is_found {
        true => Ok(took),
        false => Err(format!("{name} found nothing: {}", outcome.text)),
    }
}

/// The same by `rg`, with what it prints read as we would have to.
fn ripgrep(folder: &Path, words: &[&str]) -> Result<Duration, Failure> {
    let started = Instant::now();
    let output = Command::new("rg")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(because("cannot start rg"))?;
    let took = started.elapsed();
    match output.stdout.is_empty() {
        false => Ok(took),
        true => Err("rg found nothing".to_owned()),
    }
}

/// Files of some fifty lines each, one in a hundred with something to find; some are ignored.
fn make_tree(root: &Path) -> std::io::Result<()> {
    // Without a repository, nobody heeds its list.
    std::fs::create_dir(root.join(".git"))?;
    std::fs::write(root.join(".gitignore"), "*.tmp\nbuild/\n")?;
    for directory in 0..DIRECTORIES {
        let place = root.join(format!("part{:02}/module{directory:04}", directory % 37));
        std::fs::create_dir_all(&place)?;
        for file in 0..FILES_EACH {
            let number = directory * FILES_EACH + file;
            let kind = ["rs", "py", "md", "toml", "tmp"][file % 5];
            let mut text = String::new();
            for line in 0..50 {
                let _ = writeln!(
                    text,
                    "    let item_{number}_{line} = compute({line}, scale);"
                );
            }
            if number.is_multiple_of(101) {
                text.push_str("// here is a needle in the hay\n");
            }
            std::fs::write(place.join(format!("file{file:03}.{kind}")), text)?;
        }
    }
    Ok(())
}
