//! `read` and `edit` of one file, beside the bare system calls that do the same, in turns.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tools::Toolbox;
use tools::roots::Roots;

use super::super::table::{Row, Samples, Table};
use super::super::{Plan, because};
use crate::Failure;

/// Lines of the file: 64 KiB, a large source file.
const LINES: usize = 1_300;

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let line = |number| format!("line {number} of a file that is edited here and there\n");
    let text: String = (0..LINES).map(line).collect();
    let (ours, bare) = (folder.path().join("ours"), folder.path().join("bare"));
    for path in [&ours, &bare] {
        std::fs::write(path, &text).map_err(because("cannot write a file"))?;
    }
    let roots = Roots::new(folder.path().to_owned(), Vec::new(), Vec::new());
    let mut samples: [Vec<Duration>; 4] = Default::default();
    for round in 0..plan.rounds {
        samples[0].push(run("read", json!({"path": "ours"}), &roots)?);
        samples[1].push(timed(|| std::fs::read(&bare).map(drop))?);
        let (old, new) = match round % 2 {
            0 => ("line 700 of", "row 700 of"),
            _ => ("row 700 of", "line 700 of"),
        };
        let edit = json!({"path": "ours", "old": old, "new": new});
        samples[2].push(run("edit", edit, &roots)?);
        samples[3].push(timed(|| replace(&bare, old, new))?);
    }
    let [read, bare_read, edit, bare_edit] = samples.map(Samples::new);
    table.push(Row {
        what: "read of 64 KiB",
        measured: read.to_string(),
        beside: format!("read alone {bare_read}"),
        ratio: read.ratio(&bare_read),
        aim: "–",
    });
    table.push(Row {
        what: "edit of 64 KiB",
        measured: edit.to_string(),
        beside: format!("read, write, sync, rename, sync {bare_edit}"),
        ratio: edit.ratio(&bare_edit),
        aim: "–",
    });
    Ok(())
}

fn run(name: &str, input: Value, roots: &Roots) -> Result<Duration, Failure> {
    let toolbox = Toolbox::new(roots.clone());
    let tool = toolbox.tools().find(|tool| tool.name() == name);
    let tool = tool.and_then(|tool| tool.here());
    let tool = tool.ok_or_else(|| format!("there is no tool {name}"))?;
    let started = Instant::now();
    let outcome = tool.run(input, roots);
    let took = started.elapsed();
    match outcome.status == domain::event::ToolStatus::Completed {
        true => Ok(took),
        false => Err(format!("{name}: {:?}: {}", outcome.status, outcome.text)),
    }
}

fn timed(work: impl FnOnce() -> std::io::Result<()>) -> Result<Duration, Failure> {
    let started = Instant::now();
    work().map_err(because("the bare one failed"))?;
    Ok(started.elapsed())
}

/// What keeps a file whole through a crash, and nothing more.
fn replace(path: &Path, old: &str, new: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(path)?.replacen(old, new, 1);
    let beside = path.with_extension("new");
    let mut file = File::create_new(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
