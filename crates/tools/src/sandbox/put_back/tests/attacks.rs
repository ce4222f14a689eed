//! Ways in which a command tried to keep the check after it from seeing what it did.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use super::super::super::inventory::Inventory;
use super::super::super::journal::{self, Written};
use super::{Scene, Snapshot};

const EVIL: &str = "[core]\n\tfsmonitor = ./evil\n";

/// Runs `test` as a user whom modes of files bind.
fn as_ordinary_user(scene: &Scene, test: impl FnOnce() + Send) {
    const ORDINARY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return test();
    }
    give_away(scene.place.path(), ORDINARY);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let user = rustix::process::Uid::from_raw(ORDINARY);
            // Of this thread only.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            test();
        });
        thread.join().unwrap();
    });
}

fn give_away(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries {
        give_away(&entry.unwrap().path(), user);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A home of the user with settings, and a link to it where the root was.
fn replace_root(scene: &Scene, root: &Path) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".git/hooks")).unwrap();
    fs::write(home.path().join(".git/config"), EVIL).unwrap();
    fs::write(home.path().join(".envrc"), "the user's").unwrap();
    fs::rename(root, scene.path("moved")).unwrap();
    symlink(home.path(), root).unwrap();
    home
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|name| name.unwrap());
    let mut names: Vec<String> = names
        .map(|name| name.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn replaced_root_is_not_touched_and_the_original_is_settled() {
    let scene = Scene::new();
    scene.write("sub/.envrc", "mine");
    let root = scene.path("sub");
    let snapshot = scene.snapshot_in(&root);
    fs::write(root.join(".envrc"), "evil").unwrap();
    fs::write(root.join(".exrc"), "evil").unwrap();
    let home = replace_root(&scene, &root);
    let told = snapshot.settle(None).join("\n");
    assert_eq!(names(home.path()), [".envrc", ".git"], "{told}");
    let text = fs::read_to_string(home.path().join(".envrc")).unwrap();
    assert_eq!(text, "the user's");
    assert_eq!(scene.read("moved/.envrc").as_deref(), Some("mine"));
    assert!(!scene.path("moved/.exrc").exists());
    assert!(told.contains("was replaced"), "{told}");
}

#[test]
fn recovery_does_not_follow_a_replaced_root() {
    let scene = Scene::new();
    scene.write("sub/.exrc", "evil");
    let root = scene.path("sub");
    let directory = tempfile::tempdir().unwrap();
    for is_link in [true, false] {
        let written = Written::new(directory.path(), &scene.snapshot_in(&root)).unwrap();
        drop(written);
        let home = replace_root(&scene, &root);
        if !is_link {
            fs::remove_file(&root).unwrap();
            fs::rename(home.path(), &root).unwrap();
        }
        let told = journal::recover(directory.path())[0].told.join("\n");
        assert_eq!(names(&root), [".envrc", ".git"], "{told}");
        assert!(told.contains("nothing was checked"), "{told}");
        if is_link {
            fs::remove_file(&root).unwrap();
            fs::rename(scene.path("moved"), &root).unwrap();
        }
    }
}

#[test]
fn directories_that_cannot_be_listed_are_searched_after_a_command() {
    let scene = Scene::new();
    scene.write("deep/a/f", "");
    as_ordinary_user(&scene, || {
        let snapshot = scene.snapshot(false);
        scene.write(".git/config", EVIL);
        scene.write(".git/hooks/pre-commit", "evil");
        scene.write("new/.git/config", EVIL);
        scene.write("deep/a/.envrc", "evil");
        set_mode(&scene.path(".git"), 0o311);
        set_mode(&scene.path("new/.git"), 0o311);
        set_mode(&scene.path("new"), 0o300);
        set_mode(&scene.path("deep"), 0o600);
        set_mode(&scene.path(""), 0o311);
        let told = snapshot.settle(None).join("\n");
        let config = scene.read(".git/config");
        assert_eq!(config.as_deref(), Some("[core]\n\tbare = false\n"));
        assert!(!scene.path(".git/hooks/pre-commit").exists(), "{told}");
        assert!(!scene.path("new/.git/config").exists(), "{told}");
        assert!(!scene.path("deep/a/.envrc").exists(), "{told}");
        assert!(told.contains("could not be listed"), "{told}");
    });
}

#[test]
fn deep_directories_hide_nothing_else() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(false);
    let deep = vec!["d"; domain::limits::PROTECTED_DEPTH_MAX + 5].join("/");
    for number in 0..6 {
        fs::create_dir_all(scene.path(&format!("D{number}/{deep}"))).unwrap();
        scene.write(&format!("E{number}/.git/config"), EVIL);
    }
    scene.write(".git/config", EVIL);
    let told = snapshot.settle(None).join("\n");
    for number in 0..6 {
        let config = scene.path(&format!("E{number}/.git/config"));
        assert!(!config.exists(), "{told}");
    }
    let config = scene.read(".git/config");
    assert_eq!(config.as_deref(), Some("[core]\n\tbare = false\n"));
    assert!(told.contains("levels of directories"), "{told}");
    assert!(told.contains("every command is asked about"), "{told}");
}

#[test]
fn thousands_of_new_files_are_all_set_aside() {
    let scene = Scene::new();
    let snapshot = scene.snapshot(false);
    for number in 0..4_300 {
        fs::write(scene.path(&format!("{number}.code-workspace")), "evil").unwrap();
    }
    let told = snapshot.settle(None);
    let names = names(&scene.path(""));
    let left = names
        .iter()
        .filter(|name| name.ends_with(".code-workspace"));
    assert_eq!(left.count(), 0);
    assert!(told.len() < 200, "{}", told.len());
    assert!(told.last().unwrap().contains("more"), "{:?}", told.last());
}

#[test]
fn git_state_that_names_programs_is_set_aside() {
    for (file, evil, plain) in [
        ("rebase-merge/strategy", "x/evil\n", "ort\n"),
        ("rebase-merge/strategy_opts", "--$(evil)\n", " --ours\n"),
        ("rebase-apply/apply-opt", "'-p1' `evil`\n", "'-p1'\n"),
        (
            "sequencer/opts",
            "[options]\n\tstrategy = x/evil\n",
            "[options]\n\tsignoff = true\n\tstrategy = ort\n\tstrategy-option = ours\n",
        ),
        ("sequencer/todo", "exec evil\n", "pick abc one\n"),
    ] {
        let scene = Scene::new();
        let snapshot = scene.snapshot(false);
        let file = format!(".git/{file}");
        scene.write(&file, plain);
        assert_eq!(snapshot.settle(None), Vec::<String>::new(), "{file}");
        scene.write(&file, evil);
        let told = snapshot.settle(None);
        assert_eq!(told.len(), 1, "{file}: {told:?}");
        assert!(!scene.path(&file).exists(), "{file}");
    }
}

#[test]
fn names_that_are_not_unicode_are_remembered() {
    let scene = Scene::new();
    let name = OsStr::from_bytes(b"\xff\xfe");
    let odd = scene.path("").join(name);
    fs::create_dir_all(odd.join(".git/hooks")).unwrap();
    fs::write(odd.join(".git/config"), "[core]\n\tbare = true\n").unwrap();
    fs::write(odd.join(".git/hooks").join(name), "mine").unwrap();
    symlink(name, odd.join(".envrc")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    drop(Written::new(directory.path(), &scene.snapshot(false)).unwrap());
    fs::write(odd.join(".git/config"), EVIL).unwrap();
    fs::write(odd.join(".git/hooks").join(name), "evil").unwrap();
    let told = journal::recover(directory.path())[0].told.clone();
    assert_eq!(told.len(), 2, "{told:?}");
    let text = fs::read_to_string(odd.join(".git/hooks").join(name)).unwrap();
    assert_eq!(text, "mine");
}

#[test]
fn new_repository_whose_work_tree_lies_elsewhere_is_set_aside() {
    let scene = Scene::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("victim")).unwrap();
    let top = scene.path("");
    let climb = "../".repeat(top.components().count());
    let outside = outside.path().canonicalize().unwrap();
    let victim = format!("{}/none/{climb}{}/victim", top.display(), outside.display());
    let inside = scene.path("other").display().to_string();
    fs::create_dir(scene.path("other")).unwrap();
    symlink(&outside, scene.path("link")).unwrap();
    for (value, stays) in [
        (victim.as_str(), false),
        (inside.as_str(), false),
        ("../../link/victim", false),
        ("../", true),
    ] {
        let snapshot = scene.snapshot(false);
        let config = format!("[core]\n\tworktree = {value}\n");
        scene.write("s/.git/config", &config);
        let told = snapshot.settle(None);
        assert_eq!(told.is_empty(), stays, "{value}: {told:?}");
        assert_eq!(scene.path("s/.git/config").exists(), stays, "{value}");
        fs::remove_dir_all(scene.path("s")).unwrap();
    }
}

#[test]
fn git_file_that_leads_to_a_writable_directory_is_set_aside() {
    let scene = Scene::new();
    let (writable, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for place in [&writable, &elsewhere] {
        fs::create_dir(place.path().join("g")).unwrap();
        fs::write(place.path().join("g/HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    symlink(elsewhere.path(), scene.path("link")).unwrap();
    let snapshot = scene.snapshot_with(writable.path());
    let link = scene.path("link");
    for (to, stays) in [
        (writable.path(), false),
        (link.as_path(), false),
        (elsewhere.path(), true),
    ] {
        scene.write("a/.git", &format!("gitdir: {}/g\n", to.display()));
        let told = snapshot.settle(None);
        assert_eq!(told.is_empty(), stays, "{}: {told:?}", to.display());
        assert_eq!(scene.path("a/.git").exists(), stays);
    }
}

#[test]
fn each_file_of_a_large_directory_is_compared() {
    let scene = Scene::new();
    for number in 0..700 {
        scene.write(&format!(".husky/h{number}"), "mine");
    }
    for changed in [0, 350, 699] {
        let snapshot = scene.snapshot(false);
        scene.write(&format!(".husky/h{changed}"), "evil");
        let told = snapshot.settle(None);
        assert_eq!(told.len(), 1, "{told:?}");
        for number in 0..700 {
            let text = scene.read(&format!(".husky/h{number}"));
            assert_eq!(text.as_deref(), Some("mine"), "{number}");
        }
    }
}

#[test]
fn files_too_large_to_keep_are_set_aside_one_by_one() {
    let scene = Scene::new();
    let large = "x".repeat(domain::limits::PROTECTED_BYTES_MAX as usize);
    scene.write(".husky/large", &large);
    scene.write(".husky/small", "mine");
    let snapshot = scene.snapshot(false);
    scene.write(".husky/small", "evil");
    scene.write(".husky/new", "evil");
    let told = snapshot.settle(None);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(scene.path(".husky/large").exists(), "{told:?}");
    assert_eq!(scene.read(".husky/small").as_deref(), Some("mine"));
    assert!(!scene.path(".husky/new").exists());
    assert_eq!(snapshot.settle(None), Vec::<String>::new());
}

#[test]
fn copied_and_moved_protected_files_are_new() {
    let scene = Scene::new();
    scene.write("ex/.envrc", "example");
    scene.write("two/.vscode/tasks.json", "{}");
    let snapshot = scene.snapshot(false);
    fs::copy(scene.path("ex/.envrc"), scene.path("lib/.envrc")).unwrap();
    fs::rename(scene.path("two/.vscode"), scene.path(".vscode")).unwrap();
    let told = snapshot.settle(None);
    assert!(!scene.path("lib/.envrc").exists(), "{told:?}");
    assert!(!scene.path(".vscode/tasks.json").exists(), "{told:?}");
    assert_eq!(scene.read("ex/.envrc").as_deref(), Some("example"));
}

#[test]
fn files_that_the_users_own_settings_name_are_protected() {
    let scene = Scene::new();
    scene.write(
        "home/dotfiles/gitconfig",
        "[include]\n\tpath = ~/dotfiles/git.inc\n[core]\n\thooksPath = ~/dotfiles/hk\n\
         [includeIf \"gitdir:~/x/\"]\n\tpath = dotfiles/other.inc\n",
    );
    let named = [
        "git.inc",
        "hk/pre-commit",
        "other.inc",
        "clean.py",
        "zz.sh",
        "tools/b.py",
        "tools/c.sh",
        "tools/d.sh",
        "tools/e.sh",
    ];
    for name in named {
        scene.write(&format!("home/dotfiles/{name}"), "mine");
    }
    scene.write(
        "home/dotfiles/git.inc",
        "[filter \"a\"]\n\tclean = python3 clean.py %f\n\tsmudge = sh zz.sh\n\
         \tprocess = python3 -u tools/b.py\n[diff]\n\
         \texternal = \"\\\"$(git rev-parse --show-toplevel)\\\"/tools/c.sh\"\n\
         [core]\n\tfsmonitor = ./tools/d.sh\n\tpager = $HOME/dotfiles/tools/e.sh --x\n",
    );
    scene.write("home/dotfiles/notes", "mine");
    symlink("dotfiles/gitconfig", scene.path("home/.gitconfig")).unwrap();
    let mut cage = super::cage(&scene.path("home/dotfiles"));
    let area = &mut cage.places.area;
    area.home = scene.path("home");
    area.git_settings = vec![scene.path("home/.gitconfig")];
    cage.places.protected = Inventory::of(area).found;
    let snapshot = Snapshot::of(&cage, false).unwrap();
    let before = scene.read("home/dotfiles/gitconfig");
    for name in named.iter().chain(&["gitconfig", "notes"]) {
        scene.write(&format!("home/dotfiles/{name}"), "evil");
    }
    let told = snapshot.settle(None).join("\n");
    for name in named {
        let text = scene.read(&format!("home/dotfiles/{name}")).unwrap();
        assert_ne!(text, "evil", "{name}: {told}");
    }
    assert_eq!(scene.read("home/dotfiles/gitconfig"), before);
    assert_eq!(scene.read("home/dotfiles/notes").as_deref(), Some("evil"));
}
