//! What is found in a tree, and when the search gives up.

use std::fs;

use super::{Inventory, Role, SearchArea};

fn area(root: &std::path::Path) -> SearchArea {
    SearchArea {
        roots: vec![root.canonicalize().unwrap()],
        ..SearchArea::default()
    }
}

#[test]
fn repositories_are_found_by_name_and_by_what_is_in_them() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    for path in [
        "bare/objects",
        "bare/refs",
        "a/.git",
        "half/objects",
        "data/.git",
    ] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    for path in [
        "bare/HEAD",
        "bare/config",
        "half/HEAD",
        "half/config",
        "a/.git/config",
    ] {
        fs::write(root.join(path), "").unwrap();
    }
    fs::write(root.join("file.git"), "").unwrap();
    let area = SearchArea {
        hidden: vec![root.canonicalize().unwrap().join("data")],
        ..area(root)
    };
    let inventory = Inventory::of(&area);
    assert!(inventory.is_whole);
    let top = &area.roots[0];
    let found: Vec<_> = inventory
        .found
        .iter()
        .map(|file| {
            (
                file.path.strip_prefix(top).unwrap().to_str().unwrap(),
                file.role,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a/.git/config", Role::Config),
            ("bare/config", Role::Config)
        ]
    );
    let repositories: Vec<_> = inventory.repositories.iter().collect();
    assert_eq!(repositories, [&top.join("a/.git"), &top.join("bare")]);
}

#[test]
fn a_search_that_goes_too_deep_says_so() {
    let place = tempfile::tempdir().unwrap();
    let mut deep = place.path().to_owned();
    for _ in 0..domain::limits::PROTECTED_DEPTH_MAX + 5 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    assert!(!Inventory::of(&area(place.path())).is_whole);
}
