//! Stories of instructions: what is read, in which order, and what is not.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use domain::limits::{INSTRUCTION_BYTES_MAX, INSTRUCTIONS_BYTES_MAX};

use super::Instructions;
use crate::roots::Roots;
use crate::stamps::Stamps;

fn gather(root: &Path, hidden: &[&str], names: &[&str]) -> Instructions {
    let hidden = hidden.iter().map(|name| root.join(name)).collect();
    let roots = Arc::new(Roots::new(root.to_owned(), Vec::new(), hidden));
    let candidates: Vec<_> = names
        .iter()
        .map(|name| (root.join(name), Arc::clone(&roots)))
        .collect();
    Instructions::gather(&candidates, &mut Stamps::default())
}

fn texts(found: &Instructions) -> Vec<&str> {
    found.files.iter().map(|file| file.text.as_str()).collect()
}

#[test]
fn the_nearest_comes_last_and_the_same_file_or_text_counts_once() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("a")).unwrap();
    std::fs::write(root.join("AGENTS.md"), "top").unwrap();
    symlink("AGENTS.md", root.join("CLAUDE.md")).unwrap();
    std::fs::write(root.join("a/AGENTS.md"), "near").unwrap();
    std::fs::write(root.join("a/CLAUDE.md"), "near").unwrap();
    let names = ["AGENTS.md", "CLAUDE.md", "a/AGENTS.md", "a/CLAUDE.md"];
    let found = gather(&root, &[], &names);
    assert_eq!(texts(&found), ["top", "near"]);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn a_link_that_leads_out_a_pipe_and_the_hidden_are_not_read() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("data")).unwrap();
    std::fs::write(root.join("data/token"), "secret").unwrap();
    symlink("/etc/passwd", root.join("out.md")).unwrap();
    symlink("data/token", root.join("hidden.md")).unwrap();
    symlink("loop.md", root.join("loop.md")).unwrap();
    std::fs::create_dir(root.join("directory.md")).unwrap();
    let pipe = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe.md"), pipe).unwrap();
    let names = [
        "out.md",
        "hidden.md",
        "loop.md",
        "directory.md",
        "pipe.md",
        "none.md",
    ];
    let found = gather(&root, &["data"], &names);
    assert!(found.files.is_empty(), "{:?}", found.files);
    assert_eq!(found.problems.len(), 5, "{:?}", found.problems);
}

#[test]
fn long_files_are_cut_and_what_is_far_gives_way() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let names = ["1.md", "2.md", "3.md", "4.md"];
    for name in names {
        let text = format!("{name} {}", "ä".repeat(INSTRUCTION_BYTES_MAX));
        std::fs::write(root.join(name), text).unwrap();
    }
    let found = gather(&root, &[], &names);
    let total: usize = texts(&found).iter().map(|text| text.len()).sum();
    assert!(total <= INSTRUCTIONS_BYTES_MAX, "{total}");
    assert!(found.files.iter().all(|file| file.is_cut));
    assert!(texts(&found).last().unwrap().starts_with("4.md"));
    assert_eq!(found.problems.len(), names.len(), "{:?}", found.problems);
}
