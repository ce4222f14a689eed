//! What becomes of protected files that a command changed or made.

mod attacks;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::super::cage::{Bounds, Cage, Layer, Places, Shown};
use super::super::inventory::{Inventory, SearchArea};
use super::super::journal::{self, Written};
use super::Snapshot;

struct Scene {
    place: tempfile::TempDir,
}

impl Scene {
    /// A repository with a submodule, a work tree and a hook.
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let scene = Self { place };
        for (path, text) in [
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/config", "[core]\n\tbare = false\n"),
            (".git/hooks/pre-push", "mine"),
            (".git/objects/x", ""),
            (".git/refs/x", ""),
            (".git/modules/a/b/HEAD", "ref: refs/heads/main\n"),
            (
                ".git/modules/a/b/config",
                "[core]\n\tworktree = ../../../../lib\n",
            ),
            (".git/modules/a/b/objects/x", ""),
            (".git/modules/a/b/refs/x", ""),
            ("lib/.git", "gitdir: ../.git/modules/a/b\n"),
            (".envrc", "export A=1\n"),
        ] {
            scene.write(path, text);
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn snapshot(&self, may_make_repositories: bool) -> Snapshot {
        self.snapshot_of(may_make_repositories, false)
    }

    #[expect(
        clippy::fn_params_excessive_bools,
        reason = "the four kinds of commands"
    )]
    fn snapshot_of(&self, may_make_repositories: bool, is_program: bool) -> Snapshot {
        let cage = Cage {
            may_make_repositories,
            ..cage(&self.path(""))
        };
        Snapshot::of(&cage, is_program).unwrap()
    }

    /// A snapshot of a session in `root`.
    fn snapshot_in(&self, root: &Path) -> Snapshot {
        Snapshot::of(&cage(root), false).unwrap()
    }

    /// A snapshot for a command that may change `writable` as well.
    fn snapshot_with(&self, writable: &Path) -> Snapshot {
        let mut cage = cage(&self.path(""));
        let real = writable.canonicalize().unwrap();
        cage.places.change.push(Shown {
            at: real.clone(),
            real,
        });
        Snapshot::of(&cage, false).unwrap()
    }

    /// Names in a directory that were set aside.
    fn set_aside(&self, name: &str) -> usize {
        let names = fs::read_dir(self.path(name)).unwrap();
        let names = names.map(|name| name.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().contains(".set-aside-"))
            .count()
    }
}

/// What a command in `root` is shut in.
fn cage(root: &Path) -> Cage {
    let mut area = SearchArea {
        roots: vec![root.to_owned()],
        ..SearchArea::default()
    };
    area.identify();
    let inventory = Inventory::of(&area);
    assert!(inventory.is_whole);
    Cage {
        layer: Layer::Landlock,
        places: Places {
            area,
            protected: inventory.found,
            repositories: inventory.repositories.into_iter().collect(),
            is_searched: true,
            ..Places::default()
        },
        held: Vec::new(),
        network: false,
        unix_sockets: false,
        bounds: Bounds {
            processes: 1,
            memory_bytes: 1,
            total_memory_bytes: 1,
            file_bytes: 1,
        },
        may_make_repositories: false,
        snapshots: None,
        notes: Vec::new(),
    }
}

#[test]
fn nothing_happens_to_a_repository_that_was_left_alone() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(false);
    scene.write("src/main.rs", "fn main() {}");
    scene.write(".git/index", "x");
    scene.write(".git/refs/heads/main", "x");
    assert_eq!(snapshot.settle(None), Vec::<String>::new());
}

#[test]
fn changed_files_are_put_back_and_the_new_ones_set_aside() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(false);
    scene.write(".git/hooks/pre-commit", "evil");
    scene.write(".git/hooks/pre-push", "evil");
    fs::remove_file(scene.path(".git/config")).unwrap();
    symlink("/etc/passwd", scene.path(".git/config")).unwrap();
    scene.write(".git/modules/a/b/config", "[core]\nfsmonitor = evil\n");
    scene.write(".envrc", "evil");
    fs::remove_file(scene.path("lib/.git")).unwrap();
    let told = snapshot.settle(None);
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(
        scene.read(".git/config").unwrap(),
        "[core]\n\tbare = false\n"
    );
    assert_eq!(scene.read(".git/hooks/pre-push").as_deref(), Some("mine"));
    assert_eq!(scene.read(".git/hooks/pre-commit"), None);
    assert!(
        scene
            .read(".git/modules/a/b/config")
            .unwrap()
            .contains("worktree")
    );
    assert_eq!(scene.read(".envrc").as_deref(), Some("export A=1\n"));
    assert!(scene.read("lib/.git").unwrap().starts_with("gitdir"));
    assert_eq!(snapshot.settle(None), Vec::<String>::new());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of attacks")]
fn what_appears_and_makes_git_run_something_is_set_aside() {
    let evil = "[core]\n\tfsmonitor = ./evil\n";
    for (attack, dirs, file, text, directory) in [
        ("commondir", &[][..], ".git/commondir", "../evil\n", ".git"),
        ("config.worktree", &[], ".git/config.worktree", evil, ".git"),
        (
            "attributes",
            &[],
            ".git/info/attributes",
            "* filter=x\n",
            ".git/info",
        ),
        (
            "alternates",
            &[],
            ".git/objects/info/alternates",
            "/x\n",
            ".git/objects/info",
        ),
        (
            "nested repository",
            &[],
            "deep/down/.git/config",
            evil,
            "deep/down/.git",
        ),
        (
            "hooks of a nested one",
            &[],
            "n/.git/hooks/pre-commit",
            "x",
            "n/.git",
        ),
        (
            "bare repository",
            &["b/objects", "b/refs", "b/HEAD"],
            "b/config",
            evil,
            "b",
        ),
        (
            "bare by commondir",
            &["b/HEAD"],
            "b/commondir",
            "../evil",
            "b",
        ),
        (
            "repository of packages",
            &[],
            "node_modules/p/.git/config",
            evil,
            "node_modules/p/.git",
        ),
        (
            "submodule with a slash",
            &[
                ".git/modules/x/y/HEAD",
                ".git/modules/x/y/objects",
                ".git/modules/x/y/refs",
            ],
            ".git/modules/x/y/config",
            evil,
            ".git/modules/x/y",
        ),
        (
            "gitfile to nowhere",
            &[],
            "sub/.git",
            "gitdir: ../made/later\n",
            "sub",
        ),
        (
            "steps of a rebase",
            &[],
            ".git/rebase-merge/git-rebase-todo",
            "pick a\nexec evil\n",
            ".git/rebase-merge",
        ),
        ("direnv", &[], "x/.envrc", "evil", "x"),
        ("tasks", &[], ".vscode/tasks.json", "{}", ".vscode"),
        ("husky", &[], ".husky/pre-commit", "evil", "."),
    ] {
        let scene = Scene::new();
        let snapshot = scene.snapshot(false);
        for made in dirs {
            fs::create_dir_all(scene.path(made)).unwrap();
        }
        scene.write(file, text);
        let told = snapshot.settle(None);
        assert_eq!(told.len(), 1, "{attack}: {told:?}");
        assert!(told[0].contains("set-aside"), "{attack}: {told:?}");
        assert!(!scene.path(file).exists(), "{attack}");
        assert_eq!(scene.set_aside(directory), 1, "{attack}");
        assert_eq!(snapshot.settle(None), Vec::<String>::new(), "{attack}");
    }
}

#[test]
fn links_in_place_of_a_repository_are_set_aside() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(false);
    fs::rename(scene.path(".git"), scene.path("old")).unwrap();
    symlink("elsewhere", scene.path(".git")).unwrap();
    symlink("conf", scene.path(".vscode")).unwrap();
    scene.write("conf/tasks.json", "{}");
    let told = snapshot.settle(None).join("\n");
    assert!(told.contains("/.git is new"), "{told}");
    assert!(scene.path(".git").symlink_metadata().is_err());
    assert!(!scene.path(".vscode/tasks.json").exists(), "{told}");
}

#[test]
fn a_renamed_repository_keeps_its_files() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(false);
    fs::rename(scene.path(".git/modules/a"), scene.path(".git/modules/c")).unwrap();
    assert_eq!(snapshot.settle(None), Vec::<String>::new());
    let config = scene.read(".git/modules/c/b/config");
    assert!(config.unwrap().contains("worktree"));
}

#[test]
fn what_git_makes_by_itself_stays() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(true);
    scene.write("made/.git/HEAD", "ref: refs/heads/main\n");
    scene.write(
        "made/.git/config",
        "[core]\n\trepositoryformatversion = 0\n",
    );
    scene.write("made/.git/hooks/pre-commit.sample", "exit 1");
    fs::create_dir_all(scene.path("made/.git/branches")).unwrap();
    scene.write("made/.vscode/settings.json", "{}");
    scene.write(".git/worktrees/w/HEAD", "ref: refs/heads/w\n");
    scene.write(".git/worktrees/w/commondir", "../..\n");
    scene.write(
        "w/.git",
        &format!("gitdir: {}\n", scene.path(".git/worktrees/w").display()),
    );
    let settings = "[core]\n\tbare = false\n[submodule \"l\"]\n\turl = ../l\n\tactive = true\n";
    scene.write(".git/config", settings);
    assert_eq!(snapshot.settle(None), Vec::<String>::new());
    // Other settings are put back although the command was allowed.
    scene.write(
        ".git/config",
        &format!("{settings}[core]\n\tfsmonitor = evil\n"),
    );
    assert_eq!(snapshot.settle(None).len(), 1);
    assert_eq!(
        scene.read(".git/config").unwrap(),
        "[core]\n\tbare = false\n"
    );
}

#[test]
fn programs_that_settings_name_are_protected() {
    let scene = Scene::new();
    scene.write(
        ".git/config",
        "[core]\n\thooksPath = my-hooks\n[include]\n\tpath = ../shared.config\n\
         [filter \"x\"]\n\tclean = python3 tools/clean.py %f\n[alias]\n\tx = !make src/main.rs\n",
    );
    for (path, text) in [
        ("my-hooks/pre-commit", "mine"),
        ("shared.config", "[diff]\n\texternal = ./tools/diff.sh\n"),
        ("tools/clean.py", "mine"),
        ("tools/diff.sh", "mine"),
    ] {
        scene.write(path, text);
    }
    let snapshot = scene.snapshot(false);
    for path in [
        "my-hooks/pre-commit",
        "shared.config",
        "tools/clean.py",
        "tools/diff.sh",
    ] {
        scene.write(path, "evil");
    }
    let told = snapshot.settle(None);
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(scene.read("tools/clean.py").as_deref(), Some("mine"));
    assert_eq!(scene.read("my-hooks/pre-commit").as_deref(), Some("mine"));
}

#[test]
fn a_killed_supervisor_leaves_word_and_newer_files_are_the_users() {
    let scene = Scene::new();
    let directory = tempfile::tempdir().unwrap();
    let written = Written::new(directory.path(), &scene.snapshot(false)).unwrap();
    scene.write(".git/commondir", "../evil\n");
    assert!(journal::recover(directory.path()).is_empty(), "it lives");
    drop(written);
    let recovered = journal::recover(directory.path());
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].told.len(), 1, "{recovered:?}");
    assert!(!scene.path(".git/commondir").exists());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    // What is newer than the last touch was not made by the command.
    let snapshot = scene.snapshot(false);
    scene.write(".envrc", "the user's");
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of a file that was just written"
    )]
    let past = SystemTime::now() - Duration::from_secs(60);
    assert_eq!(snapshot.settle(Some(past)), Vec::<String>::new());
    assert_eq!(scene.read(".envrc").as_deref(), Some("the user's"));
}

#[test]
fn nothing_is_put_where_a_link_leads() {
    let scene = Scene::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(elsewhere.path().join("hooks")).unwrap();
    fs::write(elsewhere.path().join("hooks/mine"), "x").unwrap();
    let snapshot = scene.snapshot(false);
    fs::rename(scene.path(".git"), scene.path("old")).unwrap();
    symlink(elsewhere.path(), scene.path(".git")).unwrap();
    snapshot.settle(None);
    assert!(elsewhere.path().join("hooks/mine").exists());
    let names = fs::read_dir(elsewhere.path()).unwrap();
    assert_eq!(names.count(), 1, "{}", Path::display(elsewhere.path()));
}

#[test]
fn what_the_user_edits_while_a_server_runs_stays() {
    let scene = Scene::new();
    let snapshot = scene.snapshot_of(false, true);
    scene.write(".envrc", "the user's");
    scene.write(".vscode/settings.json", "{}");
    scene.write(".git/commondir", "../evil\n");
    let told = snapshot.settle(None);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(scene.read(".envrc").as_deref(), Some("the user's"));
    assert_eq!(scene.read(".vscode/settings.json").as_deref(), Some("{}"));
    assert_eq!(scene.read(".git/commondir"), None);
}
