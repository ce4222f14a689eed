//! What the table says of paths and commands.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::touched::Real;

use super::{FILES, GIT_FILES, Protection, makes_repository, may_be_first};

fn part(path: &str) -> Option<String> {
    Protection::of(Path::new(path), None).map(|found| found.part)
}

#[test]
fn protected_files_are_known_in_any_directory() {
    for (path, name) in [
        (".git/config", ".git"),
        (".git", ".git"),
        ("a/b/.git/hooks/pre-commit", ".git"),
        ("node_modules/x/.git/config", ".git"),
        (".envrc", ".envrc"),
        ("a/.envrc", ".envrc"),
        (".vscode/tasks.json", ".vscode"),
        (".vscode", ".vscode"),
        ("a/.claude/agents/x.md", ".claude"),
        ("x.code-workspace", "x.code-workspace"),
        (".hg", ".hg"),
        (".ENVRC", ".ENVRC"),
        (".Git/config", ".Git"),
        ("X.Code-Workspace", "X.Code-Workspace"),
        ("lefthook-local.yml", "lefthook-local.yml"),
        ("mise.local.toml", "mise.local.toml"),
        (".config/mise/config.toml", ".config"),
        (".helix/languages.toml", ".helix"),
        ("a.sublime-project", "a.sublime-project"),
        (".github/hooks/x.json", ".github"),
        ("_vimrc", "_vimrc"),
    ] {
        assert_eq!(part(path).as_deref(), Some(name), "{path}");
    }
    for path in [
        "src/main.rs",
        ".gitignore",
        ".gitattributes",
        "git/config",
        ".vscode/extensions.json",
        ".github/workflows/ci.yml",
        "node_modules/x/.vscode/settings.json",
        "AGENTS.md",
        "config",
        "lefthook.",
        "mise.md",
        "mise/main.rs",
        ".cargo/config.toml",
        ".config/app.toml",
    ] {
        assert_eq!(part(path), None, "{path}");
    }
}

#[test]
fn a_directory_that_git_takes_for_a_repository_is_protected() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path();
    let is_protected = |path: &str| {
        let place = Real {
            absolute: top.join(path),
            beneath: Some(path.into()),
        };
        Protection::of_place(&place).is_some()
    };
    assert!(!is_protected("bare/config"));
    fs::create_dir_all(top.join("bare/objects")).unwrap();
    fs::create_dir_all(top.join("bare/refs")).unwrap();
    assert!(!is_protected("bare/config"));
    assert!(is_protected("bare/HEAD"), "it would make a repository");
    fs::write(top.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert!(is_protected("bare/config") && is_protected("bare/hooks/pre-commit"));
    assert!(is_protected("bare/deep/down"));
    assert!(!is_protected("other/config"));
    fs::create_dir(top.join("half")).unwrap();
    fs::write(top.join("half/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert!(is_protected("half/commondir"));
}

#[test]
fn commands_that_make_repositories_are_recognised() {
    for command in [
        "git init",
        "git -C sub init -q",
        "cd x && git clone https://example.org/a.git",
        "git worktree add ../w",
        "/usr/bin/git submodule update --init",
        "sh -c 'git init made'",
        "env GIT_DIR=x git init",
    ] {
        assert!(makes_repository(command), "{command}");
    }
    for command in [
        "git status",
        "git commit -m 'x'",
        "git worktree list",
        "npm init",
        "git submodule status; git add file",
        "git add x && git worktree list",
        "terraform init",
    ] {
        assert!(!makes_repository(command), "{command}");
    }
}

#[test]
fn every_row_has_a_reason_and_a_name_of_its_own() {
    let all: Vec<_> = FILES.iter().chain(GIT_FILES).collect();
    for (number, file) in all.iter().enumerate() {
        assert!(file.reason.len() > 10, "{}", file.name);
        let others = &all[number + 1..];
        assert!(!others.iter().any(|other| other.name == file.name));
    }
}

#[test]
fn every_name_passes_the_quick_look() {
    for file in FILES {
        let first = file.parts().next().unwrap().replace('*', "x");
        for name in [first.to_lowercase(), first.to_uppercase()] {
            assert!(file.begins_with(OsStr::new(&name)), "{name}");
            assert!(may_be_first(name.as_bytes()), "{name}");
        }
    }
}

#[test]
fn the_guide_shows_the_table() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/sandbox.md");
    let guide = fs::read_to_string(guide).unwrap();
    let rows = guide.lines().filter_map(|line| {
        let cells = line.strip_prefix("| `")?.strip_suffix(" |")?;
        cells.split_once("` | ")
    });
    let all = FILES.iter().chain(GIT_FILES);
    let expected: Vec<_> = all.map(|file| (file.name, file.reason)).collect();
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}
