//! Looking for files and lines: what is found, what is left out, and what nobody gets to see.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use domain::event::ToolStatus;
use domain::limits::{GLOB_SHOWN_MAX, GREP_LINE_CHARS_MAX, TOOL_RESULT_LINES_MAX};
use serde_json::{Value, json};

use crate::builtin::{Outcome, find};
use crate::roots::{Roots, StopFlag};

/// A repository with ignored, hidden, binary and foreign files.
struct Place {
    directory: tempfile::TempDir,
    outside: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            directory: tempfile::tempdir().unwrap(),
            outside: tempfile::tempdir().unwrap(),
        };
        for (path, text) in [
            ("src/main.rs", "fn main() {\n    needle();\n}\n"),
            ("src/deep/lib.rs", "// needle\n"),
            ("README.md", "no\nneedle here\nno\n"),
            ("target/out.rs", "needle\n"),
            (".gitignore", "target/\n"),
            (".github/ci.yml", "needle\n"),
            (".git/config", "needle\n"),
            ("private/token", "needle secret\n"),
            ("binary", "needle\0\n"),
        ] {
            place.put(path, text);
        }
        std::fs::write(place.outside.path().join("secret.rs"), "needle outside\n").unwrap();
        symlink(place.outside.path(), place.path("link")).unwrap();
        symlink(
            place.outside.path().join("secret.rs"),
            place.path("src/link.rs"),
        )
        .unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn run(&self, tool: &str, input: Value) -> Outcome {
        let root = self.directory.path().canonicalize().unwrap();
        let roots = Roots::new(root.clone(), Vec::new(), vec![root.join("private")]);
        find(tool).unwrap().here().unwrap().run(input, &roots)
    }

    fn text(&self, tool: &str, input: Value) -> String {
        let outcome = self.run(tool, input);
        assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.text);
        outcome.text
    }
}

#[test]
fn list_names_what_is_in_a_directory() {
    let place = Place::new();
    assert_eq!(
        place.text("list", json!({})),
        ".git/\n.github/\nsrc/\ntarget/\n.gitignore\nREADME.md\nbinary\nlink@\n"
    );
    assert_eq!(place.text("list", json!({"path": "src/deep"})), "lib.rs\n");
    std::fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(place.text("list", json!({"path": "empty"})), "[empty]");
}

#[test]
fn glob_finds_files_by_path_and_leaves_out_what_is_ignored_hidden_or_foreign() {
    let place = Place::new();
    let glob = |pattern: &str| place.text("glob", json!({"pattern": pattern}));
    assert_eq!(glob("*.rs"), "src/deep/lib.rs\nsrc/main.rs\n");
    assert_eq!(glob("src/*.rs"), "src/main.rs\n");
    assert_eq!(glob("**/{lib,main}.rs"), "src/deep/lib.rs\nsrc/main.rs\n");
    assert_eq!(glob(".github/**"), ".github/ci.yml\n");
    assert_eq!(glob("*token*"), "[no files]");
    let beneath = place.text("glob", json!({"pattern": "*.rs", "path": "src/deep/"}));
    assert_eq!(beneath, "src/deep/lib.rs\n");
}

#[test]
fn grep_finds_lines_and_leaves_out_what_is_ignored_hidden_binary_or_foreign() {
    let place = Place::new();
    let grep = |input: Value| place.text("grep", input);
    assert_eq!(
        grep(json!({"pattern": "need.e"})),
        "README.md:2:needle here\nsrc/deep/lib.rs:1:// needle\nsrc/main.rs:2:    needle();\n"
    );
    assert_eq!(
        grep(json!({"pattern": "NEEDLE", "glob": "*.md"})),
        "[no matches]"
    );
    assert_eq!(
        grep(json!({"pattern": "(?i)NEEDLE", "glob": "*.md", "context": 1})),
        "README.md-1-no\nREADME.md:2:needle here\nREADME.md-3-no\n"
    );
    assert_eq!(
        grep(json!({"pattern": "needle", "path": "src/main.rs"})),
        "src/main.rs:2:    needle();\n"
    );
    assert_eq!(
        grep(json!({"pattern": "needle", "path": "target"})),
        "target/out.rs:1:needle\n",
        "what is named is searched"
    );
}

#[test]
fn a_search_begins_beneath_the_roots_however_its_place_is_spelled() {
    let place = Place::new();
    let outside = place.outside.path().to_string_lossy().into_owned();
    for path in [
        "..",
        "/",
        "link",
        "src/link.rs",
        "private",
        "private/token",
        "/proc/self/root",
        &outside,
    ] {
        for (tool, input) in [
            ("list", json!({"path": path})),
            ("glob", json!({"pattern": "*", "path": path})),
            ("grep", json!({"pattern": "needle", "path": path})),
        ] {
            let outcome = place.run(tool, input);
            assert_eq!(
                outcome.status,
                ToolStatus::Failed,
                "{tool} {path}: {}",
                outcome.text
            );
            assert!(
                !outcome.text.contains("needle"),
                "{tool} {path}: {}",
                outcome.text
            );
        }
    }
}

#[test]
fn patterns_that_are_none_say_so_and_costly_ones_end() {
    let place = Place::new();
    for (tool, input) in [
        ("glob", json!({"pattern": "a{b"})),
        ("grep", json!({"pattern": "("})),
        ("grep", json!({"pattern": "a\nb"})),
        ("grep", json!({"pattern": "((a{1000}){1000}){1000}"})),
        ("grep", json!({"pattern": "a", "glob": "["})),
    ] {
        let outcome = place.run(tool, input.clone());
        assert_eq!(outcome.status, ToolStatus::Failed, "{input}");
        assert!(outcome.text.contains("not valid"), "{}", outcome.text);
    }
    place.put("aaa", &"a".repeat(1_000_000));
    let found = place.text("grep", json!({"pattern": "(a+)+(a+)+$", "path": "aaa"}));
    assert!(found.starts_with("aaa:1:aaaa"), "{}", found.len());
    assert!(
        found.chars().count() < GREP_LINE_CHARS_MAX + 20,
        "a long line is cut"
    );
}

#[test]
fn much_is_cut_and_says_so() {
    let place = Place::new();
    for number in 0..GLOB_SHOWN_MAX + 5 {
        place.put(&format!("many/{number:05}.txt"), "x\nx\nx\n");
    }
    let found = place.text("glob", json!({"pattern": "*.txt"}));
    assert!(found.starts_with("many/00000.txt\nmany/00001.txt\n"));
    assert!(found.ends_with(&format!(
        "[cut: {GLOB_SHOWN_MAX} of {} files are shown]\n",
        GLOB_SHOWN_MAX + 5
    )));
    let found = place.text("grep", json!({"pattern": "x", "path": "many"}));
    assert!(found.starts_with("many/00000.txt:1:x\n"));
    assert!(
        found.contains("[cut: 1015 more lines;"),
        "{}",
        &found[found.len() - 200..]
    );
    place.put("long", &"x\n".repeat(TOOL_RESULT_LINES_MAX + 1));
    let found = place.text("grep", json!({"pattern": "x", "path": "long"}));
    assert!(found.ends_with("make the pattern or the path narrower]\n"));
    for number in 0..TOOL_RESULT_LINES_MAX + 1 {
        place.put(&format!("wide/{number}"), "");
    }
    assert!(
        place
            .text("list", json!({"path": "wide"}))
            .contains("[cut:")
    );
}

#[test]
fn a_directory_swapped_for_a_link_shows_nothing_of_where_it_leads() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let place = Place::new();
    place.put("swap/inside.rs", "needle inside\n");
    let stop = AtomicBool::new(false);
    let swap = place.path("swap");
    let swapping = |inside: &Path, link: &Path| {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        while !stop.load(Ordering::Relaxed) {
            renameat_with(CWD, inside, CWD, link, RenameFlags::EXCHANGE).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| swapping(&swap, &place.path("link")));
        for _ in 0..300 {
            let lines = place.run("grep", json!({"pattern": "needle"})).text;
            assert!(!lines.contains("outside"), "{lines}");
            let files = place.run("glob", json!({"pattern": "*.rs"})).text;
            assert!(!files.contains("secret"), "{files}");
            let names = place.run("list", json!({"path": "swap"})).text;
            assert!(!names.contains("secret"), "{names}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_search_that_nobody_waits_for_ends() {
    let workspace = tempfile::tempdir().unwrap();
    for number in 0..100 {
        std::fs::write(workspace.path().join(format!("{number}.txt")), "needle").unwrap();
    }
    let roots = Roots::new(workspace.path().to_owned(), Vec::new(), Vec::new());
    let (waiting, stopped) = StopFlag::new();
    let roots = roots.stopped_by(stopped);
    let found = |roots: &Roots, name: &str, input: Value| {
        let tool = find(name).unwrap();
        tool.here().unwrap().run(input, roots).text
    };
    assert!(found(&roots, "glob", json!({"pattern": "*.txt"})).contains("99.txt"));
    drop(waiting);
    for (name, input) in [
        ("glob", json!({"pattern": "*.txt"})),
        ("grep", json!({"pattern": "needle"})),
    ] {
        let text = found(&roots, name, input);
        assert!(
            !text.contains(".txt") && text.contains("stopped before its end"),
            "{text}"
        );
    }
}

#[test]
fn a_search_in_one_large_file_ends_with_whoever_waits_for_it() {
    let place = Place::new();
    place.put("large.log", &"nothing of interest\n".repeat(100_000));
    let grep = |stopped: bool, pattern: &str| {
        let (waiting, flag) = StopFlag::new();
        let root = place.directory.path().to_owned();
        let roots = Roots::new(root, Vec::new(), Vec::new()).stopped_by(flag);
        let waiting = (!stopped).then_some(waiting);
        let input = json!({"pattern": pattern, "path": "large.log"});
        let outcome = find("grep").unwrap().here().unwrap().run(input, &roots);
        drop(waiting);
        outcome.text
    };
    assert_eq!(grep(false, "needle"), "[no matches]");
    let text = grep(true, "needle");
    assert!(text.contains("stopped before its end"), "{text}");
}
