//! Changing files: exactly what was meant, to the version that was meant, or not at all.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use domain::event::ToolStatus;
use serde_json::{Value, json};

use crate::builtin::{Outcome, find};
use crate::roots::Roots;

/// A workspace, and what a session knows of it.
struct Place {
    directory: tempfile::TempDir,
    roots: Roots,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        std::fs::create_dir(root.join("private")).unwrap();
        let roots = Roots::new(root.clone(), Vec::new(), vec![root.join("private")]);
        Self { directory, roots }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (name, text) in files {
            place.put(name, text);
        }
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, tool: &str, input: Value) -> Outcome {
        find(tool).unwrap().here().unwrap().run(input, &self.roots)
    }

    fn read(&self, path: &str) {
        let outcome = self.run("read", json!({"path": path}));
        assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.text);
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> Outcome {
        self.run("edit", json!({"path": path, "old": old, "new": new}))
    }

    fn write(&self, path: &str, content: &str) -> Outcome {
        self.run("write", json!({"path": path, "content": content}))
    }
}

fn refused(outcome: &Outcome, why: &str) {
    assert_eq!(outcome.status, ToolStatus::Failed, "{}", outcome.text);
    assert!(outcome.text.contains(why), "{}", outcome.text);
}

#[test]
fn an_edit_replaces_one_place_and_shows_what_it_changed() {
    let place = Place::with(&[("a.txt", "one\ntwo\nthree\n")]);
    place.read("a.txt");
    let outcome = place.edit("a.txt", "two", "2");
    assert_eq!(outcome.text, "Edited a.txt in 1 place, first in line 2.");
    assert_eq!(place.text("a.txt"), "one\n2\nthree\n");
    let change = json!({
        "type": "diff",
        "path": place.path("a.txt"),
        "oldText": "one\ntwo\nthree\n",
        "newText": "one\n2\nthree\n",
    });
    assert_eq!(outcome.blocks, [change]);
    // What it wrote itself it knows.
    assert_eq!(
        place.edit("a.txt", "2", "two").status,
        ToolStatus::Completed
    );
}

#[test]
fn an_edit_of_distant_places_shows_one_diff_per_hunk() {
    let text: String = (0..20_000)
        .map(|n| match n {
            10 | 19_990 => "same\n".to_owned(),
            n => format!("line {n}\n"),
        })
        .collect();
    let place = Place::with(&[("a.txt", &text)]);
    place.read("a.txt");
    let input = json!({"path": "a.txt", "old": "same", "new": "other", "replaceAll": true});
    let outcome = place.run("edit", input);
    assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.text);
    let path = place.path("a.txt");
    let hunk = |old: &str, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    assert_eq!(
        outcome.blocks,
        [
            hunk(
                "line 7\nline 8\nline 9\nsame\nline 11\nline 12\nline 13\n",
                "line 7\nline 8\nline 9\nother\nline 11\nline 12\nline 13\n"
            ),
            hunk(
                "line 19987\nline 19988\nline 19989\nsame\nline 19991\nline 19992\nline 19993\n",
                "line 19987\nline 19988\nline 19989\nother\nline 19991\nline 19992\nline 19993\n"
            ),
        ]
    );
}

#[test]
fn a_person_sees_a_change_before_it_is_made() {
    let place = Place::with(&[("a.txt", "old\n")]);
    let show = |tool: &str, input: Value| find(tool).unwrap().show(&input, &place.roots).content;
    let shown = show("edit", json!({"path": "a.txt", "old": "old", "new": "new"}));
    assert_eq!(shown[0]["oldText"], "old");
    assert_eq!(shown[0]["newText"], "new");
    let shown = show("write", json!({"path": "a.txt", "content": "new\n"}));
    assert_eq!(shown[0]["oldText"], "old\n");
    let shown = show("write", json!({"path": "b.txt", "content": "new\n"}));
    assert!(shown[0]["oldText"].is_null());
    assert!(show("write", json!({"path": "../b", "content": "x"})).is_empty());
    assert!(show("edit", json!({"path": 1})).is_empty());
    assert_eq!(place.text("a.txt"), "old\n");
}

#[test]
fn f_39_a_file_that_was_not_read_or_has_changed_since_is_not_edited() {
    let place = Place::with(&[("a.txt", "one"), ("b.txt", "one")]);
    refused(&place.edit("a.txt", "one", "two"), "was not read");
    place.read("a.txt");
    place.put("a.txt", "one more");
    refused(&place.edit("a.txt", "one", "two"), "has changed since");
    refused(&place.write("a.txt", "new"), "has changed since");
    assert_eq!(place.text("a.txt"), "one more");
    std::fs::create_dir(place.path("sub")).unwrap();
    place.read("./sub/../a.txt");
    assert_eq!(
        place.edit("a.txt", "one", "two").status,
        ToolStatus::Completed
    );
    // The same content is the same file, whoever wrote it.
    place.read("b.txt");
    place.put("b.txt", "one");
    assert_eq!(
        place.edit("b.txt", "one", "two").status,
        ToolStatus::Completed
    );
}

#[test]
fn f_39_a_part_that_was_read_is_enough_until_the_file_changes() {
    let place = Place::with(&[("a.txt", "one\ntwo\n")]);
    let outcome = place.run("read", json!({"path": "a.txt", "offset": 2, "limit": 1}));
    assert_eq!(outcome.text, "2\ttwo\n[lines 2–2 of 2]");
    place.put("a.txt", "one!\ntwo\n");
    refused(&place.edit("a.txt", "two", "2"), "has changed since");
}

#[test]
fn an_edit_that_is_not_clear_changes_nothing_and_says_why() {
    let place = Place::with(&[("a.txt", "a b a\n")]);
    place.read("a.txt");
    refused(&place.edit("a.txt", "a", "x"), "2 times");
    refused(&place.edit("a.txt", "c", "x"), "not in it");
    refused(&place.edit("a.txt", "", "x"), "empty");
    assert_eq!(place.text("a.txt"), "a b a\n");
    let all = json!({"path": "a.txt", "old": "a", "new": "x", "replaceAll": true});
    assert_eq!(place.run("edit", all).status, ToolStatus::Completed);
    assert_eq!(place.text("a.txt"), "x b x\n");
    std::fs::write(place.path("latin"), b"caf\xe9").unwrap();
    place.read("latin");
    refused(&place.edit("latin", "caf", "tea"), "not UTF-8");
}

#[test]
fn f_38_a_write_keeps_mode_and_owner_and_leaves_no_other_file() {
    let place = Place::with(&[("a.sh", "old")]);
    std::fs::set_permissions(place.path("a.sh"), PermissionsExt::from_mode(0o751)).unwrap();
    // Only the superuser can give files away; others see that their own stay theirs.
    let _ = std::os::unix::fs::chown(place.path("a.sh"), Some(12_345), Some(12_345));
    let before = place.path("a.sh").metadata().unwrap();
    assert_eq!(place.write("a.sh", "new").status, ToolStatus::Completed);
    let after = place.path("a.sh").metadata().unwrap();
    assert_eq!(place.text("a.sh"), "new");
    assert_eq!(after.mode(), before.mode());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_ne!(after.ino(), before.ino(), "it was replaced as a whole");
    assert_eq!(
        std::fs::read_dir(place.directory.path()).unwrap().count(),
        2
    );
}

#[test]
fn f_38_a_write_through_a_link_writes_what_it_leads_to() {
    let place = Place::new();
    std::fs::create_dir(place.path("sub")).unwrap();
    place.put("sub/real", "old");
    symlink("sub/real", place.path("link")).unwrap();
    symlink("sub", place.path("alias")).unwrap();
    assert_eq!(place.write("link", "one").status, ToolStatus::Completed);
    assert_eq!(place.text("sub/real"), "one");
    assert!(place.path("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(
        place.write("alias/real", "two").status,
        ToolStatus::Completed
    );
    assert_eq!(
        place.write("alias/new", "three").status,
        ToolStatus::Completed
    );
    assert_eq!(place.text("sub/real"), "two");
    assert_eq!(place.text("sub/new"), "three");
    symlink("nowhere", place.path("dangling")).unwrap();
    refused(&place.write("dangling", "x"), "link to nothing");
    assert!(!place.path("nowhere").exists());
}

#[test]
fn f_38_a_hard_link_to_a_file_outside_is_replaced_and_the_file_outside_stays() {
    let place = Place::new();
    let outside = tempfile::tempdir_in(place.directory.path().parent().unwrap()).unwrap();
    let other = outside.path().join("other");
    std::fs::write(&other, "theirs").unwrap();
    std::fs::hard_link(&other, place.path("link")).unwrap();
    assert_eq!(place.write("link", "ours").status, ToolStatus::Completed);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "theirs");
    assert_eq!(place.text("link"), "ours");
}

#[test]
fn a_write_makes_the_directories_that_lead_to_a_new_file_but_none_outside() {
    let place = Place::new();
    assert_eq!(
        place.write("a/b/c.txt", "new").status,
        ToolStatus::Completed
    );
    assert_eq!(place.text("a/b/c.txt"), "new");
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), place.path("out")).unwrap();
    let disguised = format!("{}/../x/y", place.directory.path().display());
    for path in [
        "out/x/y",
        "../x/y",
        "private/x/y",
        "/proc/self/root/tmp/x",
        &disguised,
    ] {
        refused(&place.write(path, "x"), "");
    }
    for path in ["", ".", "a/", "a/..", "a/b", "a/b/c.txt/d", "\0"] {
        let outcome = place.write(path, "x");
        assert_eq!(outcome.status, ToolStatus::Failed, "{path:?}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(place.path("private")).unwrap().count(), 0);
}

/// Swaps a directory for a link to another one and back, until told to stop.
fn swapping(inside: &Path, outside: &Path, stop: &std::sync::atomic::AtomicBool) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let link = inside.with_extension("link");
    symlink(outside, &link).unwrap();
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        renameat_with(CWD, inside, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn a_directory_swapped_for_a_link_on_the_way_leads_nowhere_else() {
    let place = Place::new();
    std::fs::create_dir(place.path("sub")).unwrap();
    place.put("sub/a", "inside");
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("a"), "outside").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sub = place.path("sub");
    std::thread::scope(|scope| {
        scope.spawn(|| swapping(&sub, outside.path(), &stop));
        for round in 0..200 {
            let read = place.run("read", json!({"path": "sub/a"}));
            assert!(!read.text.contains("outside") || read.status == ToolStatus::Failed);
            place.write("sub/a", &format!("inside {round}"));
            place.write("sub/new", "inside");
            place.edit("sub/a", "inside", "Inside");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let there = std::fs::read_to_string(outside.path().join("a")).unwrap();
    assert_eq!(there, "outside");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn names_that_look_alike_are_different_files() {
    let place = Place::with(&[("a.txt", "plain")]);
    place.read("a.txt");
    for other in ["A.txt", "а.txt", "a.txt\u{200b}", "a\u{301}.txt", "a.txt "] {
        refused(&place.edit(other, "plain", "x"), "no such file");
    }
    assert_eq!(place.text("a.txt"), "plain");
}

#[test]
fn an_edit_of_an_unread_file_shows_it_and_then_works() {
    let place = Place::with(&[("a.txt", "one\ntwo\n")]);
    let mut outcome = place.edit("a.txt", "two", "2");
    refused(&outcome, "was not read");
    assert!(
        !outcome.text.contains("one"),
        "rules may keep it from being read"
    );
    let shown = outcome.unread.take().unwrap();
    refused(&place.edit("a.txt", "two", "2"), "was not read");
    assert!(shown.show().ends_with("\n1\tone\n2\ttwo\n"));
    let outcome = place.edit("a.txt", "2\ttwo", "2\t2");
    assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.text);
    assert_eq!(place.text("a.txt"), "one\n2\n");
}

#[test]
fn images_are_for_people_and_other_data_for_nobody() {
    let place = Place::new();
    std::fs::write(place.path("a.png"), b"\x89PNG\r\n\x1a\n\0rest").unwrap();
    let outcome = place.run("read", json!({"path": "a.png"}));
    assert!(
        outcome.text.contains("image/png, 13 bytes"),
        "{}",
        outcome.text
    );
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAcmVzdA=="});
    assert_eq!(outcome.blocks, [image]);
    std::fs::write(place.path("a.out"), b"\x7fELF\0\0").unwrap();
    let outcome = place.run("read", json!({"path": "a.out"}));
    refused(&outcome, "binary file of 6 bytes");
}

#[test]
fn very_long_lines_and_files_are_cut_and_say_where_to_go_on() {
    let place = Place::with(&[("min.js", &"x".repeat(1_000_000))]);
    let shown = place.run("read", json!({"path": "min.js"})).text;
    assert!(
        shown.ends_with("[996000 bytes of this line left out]"),
        "{}",
        shown.len()
    );
    place.put("long", &format!("{}\n", "y".repeat(999)).repeat(1_000));
    let shown = place.run("read", json!({"path": "long"})).text;
    assert!(
        shown.ends_with("\n[lines 1–130 of 1000; read on with offset 131]"),
        "{}",
        &shown[shown.len() - 50..]
    );
    let rest = place
        .run("read", json!({"path": "long", "offset": 132, "limit": 1}))
        .text;
    assert!(rest.starts_with("132\tyyy"), "{rest:.50}");
    assert!(rest.ends_with("y\n[lines 132–132 of 1000; read on with offset 133]"));
}

const NOTEBOOK: &str = r#"{"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [],
 "execution_count": 1, "source": ["1"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#;

#[test]
fn a_cell_of_a_notebook_that_was_read_is_changed() {
    let place = Place::with(&[("n.ipynb", NOTEBOOK)]);
    let edit = |input: Value| place.run("notebook_edit", input);
    let input = json!({"path": "n.ipynb", "cellId": "a", "source": "2"});
    refused(&edit(input.clone()), "was not read");
    let text = place.run("read", json!({"path": "n.ipynb"})).text;
    assert_eq!(text, "1\t[cell a, code]\n2\t1\n3\t\n");
    let shown = find("notebook_edit").unwrap().show(&input, &place.roots);
    assert_eq!(shown.content[0]["oldText"], "1");
    assert_eq!(shown.content[0]["newText"], "2");
    let outcome = edit(input);
    assert_eq!(outcome.text, "Replaced cell a of n.ipynb.");
    assert_eq!(outcome.blocks[0]["oldText"], "1");
    assert_eq!(outcome.blocks[0]["newText"], "2");
    let insert = json!({"path": "n.ipynb", "cellId": "a", "source": "# T", "kind": "markdown", "mode": "insert"});
    assert_eq!(edit(insert).status, ToolStatus::Completed);
    refused(
        &edit(json!({"path": "n.ipynb", "cellId": "b", "source": "", "mode": "delete"})),
        "no cell b",
    );
    assert_eq!(
        edit(json!({"path": "n.ipynb", "cellId": "0", "source": "", "mode": "delete"})).status,
        ToolStatus::Completed
    );
    let text = place.run("read", json!({"path": "n.ipynb"})).text;
    assert!(text.ends_with(", markdown]\n2\t# T\n3\t\n"), "{text}");
    place.put("x.ipynb", "{}");
    place.read("x.ipynb");
    refused(
        &edit(json!({"path": "x.ipynb", "cellId": "a", "source": ""})),
        "not a notebook",
    );
}
