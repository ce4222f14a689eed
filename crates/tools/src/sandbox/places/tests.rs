//! Stories of what a command sees.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::cage::Shown;
use super::{Ground, find, without};
use crate::roots::Root;

/// A home with a project and a data directory in it.
struct Scene {
    place: tempfile::TempDir,
    home: PathBuf,
    hidden: [PathBuf; 1],
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap().join("home");
        for directory in ["work/src", ".ssh", ".cargo/bin", "data"] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        fs::write(home.join(".cargo/credentials.toml"), "x").unwrap();
        Self {
            place,
            hidden: [home.join("data")],
            home,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            roots: &[],
            hidden: &self.hidden,
            home: Some(&self.home),
            is_guest: false,
            tools: &[],
            read: &[],
            write: &[],
            hide: &[],
            git_settings: &[],
            network: false,
            makes_repositories: false,
        }
    }
}

fn holds(shown: &[Shown], path: &Path) -> bool {
    shown.iter().any(|shown| path.starts_with(&shown.at))
}

#[test]
fn the_root_can_be_changed_the_rest_of_the_home_seen_and_secrets_neither() {
    let scene = Scene::new();
    let root = scene.path("home/work/src");
    let places = find(&Ground {
        roots: &[root.clone().into()],
        ..scene.ground()
    });
    assert!(holds(&places.change, &root));
    assert!(!holds(&places.change, &scene.path("home/work")));
    assert!(holds(&places.see, &scene.path("home/work")));
    assert!(holds(&places.see, &scene.path("home/.cargo/bin")));
    assert!(holds(&places.see, Path::new("/usr/bin")));
    for secret in ["home/.ssh", "home/data"] {
        assert!(!holds(&places.see, &scene.path(secret)), "{secret}");
    }
    for place in ["/run", "/root", "/home", "/var/lib"] {
        assert!(!holds(&places.see, Path::new(place)), "{place}");
    }
    let token = scene.path("home/.cargo/credentials.toml");
    assert!(!holds(&places.see, &token));
}

#[test]
fn a_home_that_is_the_root_stays_a_home() {
    let scene = Scene::new();
    let roots = [scene.path("home")];
    let places = find(&Ground {
        roots: &roots.clone().map(Root::from),
        ..scene.ground()
    });
    assert!(holds(&places.change, &scene.path("home/work")));
    for kept in ["home", "home/.ssh", "home/.cargo", "home/data"] {
        assert!(!holds(&places.change, &scene.path(kept)), "{kept}");
    }
    let places = find(&Ground {
        is_guest: true,
        ..scene.ground()
    });
    assert!(!holds(&places.see, &scene.path("home/work")));
    assert!(holds(&places.see, &scene.path("home/.cargo/bin")));
}

#[test]
fn what_is_hidden_stays_so_whatever_else_is_said() {
    let scene = Scene::new();
    let inside = [scene.path("home/data"), scene.path("home/work")];
    let hide = [scene.path("home/work/src")];
    let places = find(&Ground {
        roots: &inside.clone().map(Root::from),
        read: &inside,
        write: &inside,
        hide: &hide,
        ..scene.ground()
    });
    assert!(!holds(&places.see, &inside[0]) && !holds(&places.change, &inside[0]));
    assert!(places.hide.contains(&hide[0]));
    // Landlock leaves it out instead.
    fs::write(scene.path("home/work/notes"), "").unwrap();
    let left = without(&inside[1], &places.apart);
    assert_eq!(left, [scene.path("home/work/notes")]);
}

#[test]
fn a_variable_that_names_the_home_or_more_shows_nothing() {
    let scene = Scene::new();
    let tools = ["home", "home/.ssh/.."].map(|name| scene.path(name));
    let tools = [&tools[..], &["/", "/tmp"].map(PathBuf::from)].concat();
    let places = find(&Ground {
        tools: &tools,
        ..scene.ground()
    });
    assert!(!holds(&places.see, &scene.path("home/.ssh")));
}

#[test]
fn a_repository_keeps_its_hooks_and_settings_also_where_there_are_none_yet() {
    let scene = Scene::new();
    let roots = [scene.path("home/work")];
    let git = roots[0].join(".git");
    for directory in ["hooks", "objects", "refs"] {
        fs::create_dir_all(git.join("modules/a/lib").join(directory)).unwrap();
    }
    for file in [
        "HEAD",
        "config",
        "modules/a/lib/config",
        "modules/a/lib/HEAD",
    ] {
        fs::write(git.join(file), "").unwrap();
    }
    let places = find(&Ground {
        roots: &roots.clone().map(Root::from),
        ..scene.ground()
    });
    for kept in ["config", "modules/a/lib/config", "modules/a/lib/hooks"] {
        assert!(places.keep.contains(&git.join(kept)), "{kept}");
    }
    assert!(places.keep_out.contains(&git.join("hooks")));
    // What is mounted cannot be renamed.
    for held in ["", "modules", "modules/a", "modules/a/lib"] {
        let held = git.join(held);
        assert!(places.hold.iter().any(|shown| shown.at == held), "{held:?}");
    }
    // A link is put back, and what it leads to is kept.
    fs::create_dir(roots[0].join("hooks-of-mine")).unwrap();
    std::os::unix::fs::symlink("../hooks-of-mine", git.join("hooks")).unwrap();
    let places = find(&Ground {
        roots: &roots.clone().map(Root::from),
        ..scene.ground()
    });
    assert!(places.keep.contains(&roots[0].join("hooks-of-mine")));
    let link = places
        .protected
        .iter()
        .find(|file| file.path == git.join("hooks"));
    assert!(link.is_some_and(|file| file.is_link));
}

#[test]
fn directories_above_what_is_hidden_are_held() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("home/work/deep/down/secret")).unwrap();
    let roots = [scene.path("home/work")];
    let hide = [scene.path("home/work/deep/down/secret")];
    let places = find(&Ground {
        roots: &roots.clone().map(Root::from),
        hide: &hide,
        ..scene.ground()
    });
    for held in ["deep", "deep/down"] {
        let held = roots[0].join(held);
        assert!(places.hold.iter().any(|shown| shown.at == held), "{held:?}");
    }
}

#[test]
fn a_socket_in_what_is_shown_is_out_of_sight_unless_it_is_named() {
    let scene = Scene::new();
    let path = scene.path("home/work/agent.sock");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let places = find(&scene.ground());
    assert!(places.hide_files.contains(&path));
    let read = [path.clone()];
    let places = find(&Ground {
        read: &read,
        ..scene.ground()
    });
    assert!(!places.hide_files.contains(&path));
}

#[test]
fn a_tool_chain_is_seen_under_every_name_that_leads_to_it() {
    let scene = Scene::new();
    let real = scene.path("home/.cache/tools/bin");
    fs::create_dir_all(&real).unwrap();
    fs::create_dir_all(scene.path("home/.dots")).unwrap();
    // Two links, neither of them in anything that is shown.
    std::os::unix::fs::symlink(&real, scene.path("home/.dots/inner")).unwrap();
    std::os::unix::fs::symlink("home/.dots/inner", scene.path("outer")).unwrap();
    let tools = [scene.path("outer")];
    let places = find(&Ground {
        tools: &tools,
        ..scene.ground()
    });
    for name in ["outer", "home/.dots/inner"] {
        let at = scene.path(name);
        let shown = places.see.iter().find(|shown| shown.at == at);
        assert_eq!(shown.map(|shown| &shown.real), Some(&real), "{name}");
    }
    assert!(holds(&places.see, &real));
    assert!(!holds(&places.see, &scene.path("home/.dots/other")));
}

#[test]
fn a_search_path_shows_no_token_of_a_tool_chain() {
    let scene = Scene::new();
    std::os::unix::fs::symlink("home/.cargo", scene.path("linked")).unwrap();
    let elsewhere = scene.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("auth.json"), "x").unwrap();
    let tools = ["linked", "linked/bin", "home/.cargo", "elsewhere"].map(|name| scene.path(name));
    let places = find(&Ground {
        tools: &tools,
        ..scene.ground()
    });
    assert!(holds(&places.see, &scene.path("linked/bin")));
    for name in ["home/.cargo", "linked"] {
        let token = scene.path(name).join("credentials.toml");
        assert!(!holds(&places.see, &token), "{name}");
    }
    assert!(places.hide_files.contains(&elsewhere.join("auth.json")));
}

#[test]
fn link_in_a_home_that_is_the_root_shows_nothing() {
    let scene = Scene::new();
    std::os::unix::fs::symlink(scene.path("home/.ssh"), scene.path("home/planted")).unwrap();
    let places = find(&Ground {
        roots: &[scene.path("home").into()],
        ..scene.ground()
    });
    assert!(!holds(&places.change, &scene.path("home/planted")));
    assert!(!holds(&places.see, &scene.path("home/planted")));
}

#[test]
fn tool_chain_behind_a_link_in_a_root_shows_nothing() {
    let scene = Scene::new();
    let root = Root::from(scene.path("home/work"));
    crate::helpers::note_writable(std::slice::from_ref(&root));
    let link = scene.path("home/work/.venv");
    std::os::unix::fs::symlink(scene.path("home/.ssh"), &link).unwrap();
    let named = [link];
    let places = find(&Ground {
        roots: &[root],
        tools: &named,
        read: &named,
        write: &named,
        ..scene.ground()
    });
    let key = scene.path("home/.ssh");
    let is_shown = |shown: &Shown| shown.real.starts_with(&key);
    assert!(!places.see.iter().chain(&places.change).any(is_shown));
}

#[test]
fn replaced_root_is_not_shown() {
    let scene = Scene::new();
    let root = Root::from(scene.path("home/work/src"));
    fs::rename(scene.path("home/work/src"), scene.path("home/work/old")).unwrap();
    std::os::unix::fs::symlink(scene.path("home/.ssh"), scene.path("home/work/src")).unwrap();
    let places = find(&Ground {
        roots: &[root],
        ..scene.ground()
    });
    let key = scene.path("home/.ssh");
    let is_shown = |shown: &Shown| shown.real.starts_with(&key);
    assert!(!places.see.iter().chain(&places.change).any(is_shown));
}

#[test]
fn git_settings_that_variables_name_are_kept() {
    let scene = Scene::new();
    let root = scene.path("home/work/src");
    let settings = [root.join("git/config")];
    fs::create_dir_all(root.join("git")).unwrap();
    fs::write(&settings[0], "[core]\n\thooksPath = hk\n").unwrap();
    fs::create_dir_all(root.join("hk")).unwrap();
    let roots = [Root::find(&root)];
    let places = find(&Ground {
        roots: &roots,
        git_settings: &settings,
        ..scene.ground()
    });
    for kept in [&settings[0], &root.join("hk")] {
        assert!(places.keep.contains(kept), "{:?}", places.keep);
    }
    let without = find(&Ground {
        roots: &roots,
        ..scene.ground()
    });
    assert!(!without.keep.contains(&settings[0]));
}
