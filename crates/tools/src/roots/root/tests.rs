//! Roots that are made to lead elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::super::{PathError, Roots, WriteError};
use super::{Root, RootBase};

/// A directory with a root `work/sub`, and a secret outside of it.
struct Scene {
    place: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("work/sub")).unwrap();
        fs::create_dir(place.path().join("home")).unwrap();
        fs::write(place.path().join("work/sub/mine.txt"), "mine").unwrap();
        fs::write(place.path().join("home/key"), "secret").unwrap();
        Self { place }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(path)
    }

    fn swap(&self, path: &str, link: &str) {
        let path = self.at(path);
        fs::rename(&path, path.with_file_name(".old")).unwrap();
        symlink(self.at(link), path).unwrap();
    }
}

fn roots(cwd: &Path, others: &[PathBuf]) -> Roots {
    Roots::new(cwd.to_owned(), others.to_vec(), Vec::new())
}

/// Every way into a root must say that it was replaced.
fn assert_replaced(roots: &Roots, key: &str) {
    let replaced = |error: PathError| {
        assert!(matches!(error, PathError::Replaced(_)), "{error}");
    };
    replaced(roots.open_file(key).unwrap_err());
    replaced(roots.open_placed(key).unwrap_err());
    replaced(roots.open_directory(".").unwrap_err());
    replaced(roots.names(".", 10).unwrap_err());
    replaced(roots.read_text(key, 10).unwrap_err());
    replaced(roots.search(".").unwrap_err());
    replaced(roots.on_client(key).unwrap_err());
    assert_eq!(roots.touched(key).real, None);
    for name in [key, "new", "deep/new"] {
        let error = roots.replace_file(name, b"x", None).unwrap_err();
        assert!(matches!(error, WriteError::Path(PathError::Replaced(_))));
    }
}

#[test]
fn root_replaced_by_a_link_is_refused() {
    let scene = Scene::new();
    let roots = roots(&scene.at("work/sub"), &[]);
    assert!(roots.open_file("mine.txt").is_ok());
    scene.swap("work/sub", "home");
    assert_replaced(&roots, "key");
    assert_eq!(fs::read(scene.at("home/key")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(scene.at("home")).unwrap().count(), 1);
}

#[test]
fn root_inside_another_root_is_refused_once_it_is_a_link() {
    let scene = Scene::new();
    let roots = roots(&scene.at("work/sub"), &[scene.at("work")]);
    scene.swap("work/sub", "home");
    assert_replaced(&roots, "key");
    let absolute = scene.at("work/sub/key");
    assert!(roots.open_file(absolute.to_str().unwrap()).is_err());
    let outer = scene.at("work");
    assert!(roots.names(outer.to_str().unwrap(), 10).is_ok());
}

#[test]
fn root_replaced_by_another_directory_is_refused() {
    let scene = Scene::new();
    let roots = roots(&scene.at("work/sub"), &[]);
    fs::rename(scene.at("work/sub"), scene.at("work/old")).unwrap();
    fs::create_dir(scene.at("work/sub")).unwrap();
    fs::write(scene.at("work/sub/key"), "planted").unwrap();
    assert_replaced(&roots, "key");
    fs::remove_dir_all(scene.at("work/sub")).unwrap();
    assert_replaced(&roots, "key");
    fs::rename(scene.at("work/old"), scene.at("work/sub")).unwrap();
    assert!(roots.open_file("mine.txt").is_ok(), "it was put back");
}

#[test]
fn root_beneath_a_renamed_or_linked_directory_is_refused() {
    let scene = Scene::new();
    fs::create_dir(scene.at("home/sub")).unwrap();
    fs::write(scene.at("home/sub/key"), "secret").unwrap();
    let roots = roots(&scene.at("work/sub"), &[]);
    scene.swap("work", "home");
    assert_replaced(&roots, "key");
}

#[test]
fn link_that_was_there_first_is_followed() {
    let scene = Scene::new();
    symlink(scene.at("work"), scene.at("projects")).unwrap();
    let roots = roots(&scene.at("projects/sub"), &[]);
    assert!(roots.open_file("mine.txt").is_ok());
    let spelled = scene.at("projects/sub/mine.txt");
    assert!(roots.open_file(spelled.to_str().unwrap()).is_ok());
    fs::remove_file(scene.at("projects")).unwrap();
    symlink(scene.at("home"), scene.at("projects")).unwrap();
    assert!(
        roots.open_file("mine.txt").is_ok(),
        "the directory is the same"
    );
}

#[test]
fn missing_root_becomes_usable_unless_a_link_leads_to_it() {
    let scene = Scene::new();
    let roots = roots(&scene.at("work/new"), &[]);
    assert!(matches!(
        roots.open_file("key").unwrap_err(),
        PathError::Io(_)
    ));
    symlink(scene.at("home"), scene.at("work/new")).unwrap();
    assert_replaced(&roots, "key");
    fs::remove_file(scene.at("work/new")).unwrap();
    fs::create_dir(scene.at("work/new")).unwrap();
    assert!(roots.replace_file("key", b"x", None).is_ok());
}

#[test]
fn stored_root_is_found_again_only_without_links() {
    let scene = Scene::new();
    let (path, real) = (scene.at("projects/sub"), scene.at("work/sub"));
    assert!(Root::find_again(&path, &real).open().is_ok());
    scene.swap("work/sub", "home");
    let again = Root::find_again(&path, &real).open();
    assert!(matches!(again, Err(PathError::Replaced(_))));
    let unrecorded = Root::find_unrecorded(&real).open();
    assert!(matches!(unrecorded, Err(PathError::Replaced(_))));
}

#[test]
fn guest_root_lies_beneath_the_base_whatever_links_say() {
    let scene = Scene::new();
    let base = RootBase::open(&scene.at("work")).unwrap();
    let find = |path: &str| base.find(scene.at(path));
    assert_eq!(find("work/sub").unwrap().real(), scene.at("work/sub"));
    assert_eq!(find("work").unwrap().real(), scene.at("work"));
    assert!(find("work/missing").unwrap().open().is_err());
    symlink("sub", scene.at("work/inside")).unwrap();
    assert_eq!(find("work/inside").unwrap().real(), scene.at("work/sub"));
    symlink(scene.at("home"), scene.at("work/out")).unwrap();
    symlink("../home", scene.at("work/up")).unwrap();
    for path in [
        "home",
        "work/out",
        "work/up",
        "work/out/x",
        "work/../home",
        "",
    ] {
        let found = find(path).map(|root| root.open().map(drop));
        assert!(!matches!(found, Ok(Ok(()))), "{path}");
    }
    let (inside, outside) = (scene.at("work/sub"), scene.at("home"));
    assert!(base.find_again(&inside, Some(&inside)).is_ok());
    assert!(base.find_again(&inside, Some(&outside)).is_err());
    let climbing = scene.at("work/../home");
    assert!(base.find_again(&inside, Some(&climbing)).is_err());
}

#[test]
fn base_that_was_moved_still_holds_its_own_directories() {
    let scene = Scene::new();
    let base = RootBase::open(&scene.at("work")).unwrap();
    scene.swap("work", "home");
    assert!(base.find(scene.at("work/key")).is_err());
    assert!(base.find(scene.at("work")).is_err());
}
