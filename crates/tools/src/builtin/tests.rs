//! What the file tools do, and what they cannot be talked into.

use std::path::Path;

use domain::event::ToolStatus;
use serde_json::{Value, json};

use super::{Outcome, find};
use crate::roots::Roots;

mod attributes;
mod commands;
mod files;
mod searching;
mod there;

fn run(root: &Path, name: &str, input: Value) -> Outcome {
    let hidden = vec![root.join("private")];
    let roots = Roots::new(root.to_owned(), Vec::new(), hidden);
    find(name).unwrap().here().unwrap().run(input, &roots)
}

fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::create_dir(directory.path().join("private")).unwrap();
    std::fs::write(directory.path().join("private/token"), "secret").unwrap();
    directory
}

#[test]
fn read_gives_the_lines_asked_for() {
    let workspace = workspace();
    let read = |input| run(workspace.path(), "read", input).text;
    assert_eq!(read(json!({"path": "a.txt"})), "1\tone\n2\ttwo\n3\tthree\n");
    assert_eq!(
        read(json!({"path": "a.txt", "offset": 2, "limit": 1})),
        "2\ttwo\n[lines 2–2 of 3; read on with offset 3]"
    );
    let absolute = workspace.path().join("a.txt");
    assert_eq!(
        read(json!({"path": absolute})),
        "1\tone\n2\ttwo\n3\tthree\n"
    );
    let past = run(
        workspace.path(),
        "read",
        json!({"path": "a.txt", "offset": 4}),
    );
    assert_eq!(
        past,
        Outcome::failed("a.txt has 3 lines; there is no line 4.")
    );
    let end = read(json!({"path": "a.txt", "offset": 3}));
    assert_eq!(end, "3\tthree\n[lines 3–3 of 3]");
}

#[test]
fn nothing_outside_the_roots_is_read_or_written_however_it_is_spelled() {
    let workspace = workspace();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.path().join("link")).unwrap();
    std::os::unix::fs::symlink("private/token", workspace.path().join("inside")).unwrap();
    let outside_file = outside.path().join("secret").to_string_lossy().into_owned();
    let dotted = format!("..{outside_file}");
    let disguised = format!("{}/../..{outside_file}", workspace.path().display());
    let paths = [
        "link/secret",
        &outside_file,
        &dotted,
        &disguised,
        "private/token",
        "inside",
    ];
    for path in paths {
        let read = run(workspace.path(), "read", json!({"path": path}));
        assert_eq!(read.status, ToolStatus::Failed, "read {path}");
        assert!(!read.text.contains("\nsecret"), "read {path}");
    }
    for path in ["link/new", "../new", "private/new", &dotted] {
        let written = run(
            workspace.path(),
            "write",
            json!({"path": path, "content": "x"}),
        );
        assert_eq!(written.status, ToolStatus::Failed, "write {path}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(
        std::fs::read_dir(workspace.path().join("private"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn write_replaces_the_whole_file_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = workspace();
    let path = workspace.path().join("a.txt");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    let written = run(
        workspace.path(),
        "write",
        json!({"path": "a.txt", "content": "new"}),
    );
    assert_eq!(written.status, ToolStatus::Completed, "{}", written.text);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(
        std::fs::read_dir(workspace.path()).unwrap().count(),
        2,
        "no temporary file stays"
    );
}

#[test]
fn a_wrong_input_is_a_failed_call_that_says_what_is_wrong() {
    let workspace = workspace();
    let outcome = run(workspace.path(), "read", json!({"pfad": "a.txt"}));
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(
        outcome.text.contains("`path` is missing; it must be text"),
        "{}",
        outcome.text
    );
    let outcome = run(workspace.path(), "read", json!({"path": "private"}));
    assert_eq!(outcome.status, ToolStatus::Failed);
    for shape in [json!(["a.txt"]), json!("a.txt"), json!(null), json!(5)] {
        let outcome = run(workspace.path(), "read", shape);
        assert!(
            outcome.text.contains("must be a JSON object"),
            "{outcome:?}"
        );
    }
}

#[test]
fn why_a_call_failed_is_short_and_plain_whatever_was_asked() {
    let workspace = workspace();
    let path = format!("\x1b[31m{}", "ß".repeat(50_000));
    let outcome = run(workspace.path(), "read", json!({"path": path}));
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(outcome.text.len() < 10_000, "{}", outcome.text.len());
    assert!(!outcome.text.contains('\x1b'));
    assert!(outcome.text.contains("ß … ß"), "{}", outcome.text);
    assert!(
        outcome.text.ends_with("the system refused it."),
        "{}",
        outcome.text
    );
}

#[test]
fn hidden_files_stay_hidden_after_a_parent_was_renamed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("parent/data")).unwrap();
    std::fs::write(root.join("parent/data/token"), "secret").unwrap();
    let hidden = vec![root.join("parent/data")];
    let run = |name: &str, input: Value| {
        // Made anew for each turn of a session.
        let roots = Roots::new(root.clone(), Vec::new(), hidden.clone());
        find(name).unwrap().here().unwrap().run(input, &roots)
    };
    assert_eq!(
        run("read", json!({"path": "parent/data/token"})).status,
        ToolStatus::Failed
    );
    std::fs::rename(root.join("parent"), root.join("elsewhere")).unwrap();
    for (tool, input) in [
        ("read", json!({"path": "elsewhere/data/token"})),
        ("list", json!({"path": "elsewhere/data"})),
        (
            "write",
            json!({"path": "elsewhere/data/token", "content": "x"}),
        ),
        (
            "write",
            json!({"path": "elsewhere/data/new", "content": "x"}),
        ),
    ] {
        let outcome = run(tool, input);
        assert_eq!(outcome.status, ToolStatus::Failed, "{tool}");
        assert!(!outcome.text.contains("secret"), "{tool}");
    }
    let found = run("grep", json!({"pattern": "secret"}));
    assert!(!found.text.contains("token"), "{}", found.text);
    assert!(!root.join("elsewhere/data/new").exists());
}
