//! Stories of where paths lead.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::super::Roots;

/// Where `path` leads from the first root of a place with `src`, `secrets/key` and links.
fn leads(path: &str) -> Option<PathBuf> {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for directory in ["w/src", "w/secrets", "other"] {
        std::fs::create_dir_all(top.join(directory)).unwrap();
    }
    std::fs::write(top.join("w/secrets/key"), "").unwrap();
    std::fs::write(top.join("w/src/a"), "").unwrap();
    symlink("../secrets", top.join("w/src/link")).unwrap();
    symlink("../secrets/key", top.join("w/src/file")).unwrap();
    symlink("nothing", top.join("w/src/dangling")).unwrap();
    symlink(top.join("other"), top.join("w/out")).unwrap();
    let roots = Roots::new(top.join("w"), vec![top.join("other")], Vec::new());
    let path = path.replace("TOP", top.to_str().unwrap());
    roots.touched(&path).real.and_then(|real| real.beneath)
}

#[test]
fn a_path_leads_where_the_tools_go() {
    let cases = [
        ("src/a", Some("src/a")),
        ("./src//./a", Some("src/a")),
        ("src/new", Some("src/new")),
        ("src/deep/er/new", Some("src/deep/er/new")),
        ("src/../secrets/key", Some("secrets/key")),
        ("src/nothing/../../secrets/new", Some("secrets/new")),
        ("src/link/key", Some("secrets/key")),
        ("src/link/new", Some("secrets/new")),
        ("src/link/deep/new", Some("secrets/deep/new")),
        ("src/file", Some("secrets/key")),
        ("SRC/a", Some("SRC/a")),
        ("ſrc/a", Some("ſrc/a")),
        ("TOP/w/src/a", Some("src/a")),
        ("TOP/other/x", Some("x")),
        // The tools go to none of these.
        ("src/dangling", None),
        ("../elsewhere", None),
        ("out/x", None),
        ("/etc/passwd", None),
        ("/proc/self/root/etc/passwd", None),
        ("src/a/below", None),
    ];
    for (path, expected) in cases {
        assert_eq!(leads(path), expected.map(PathBuf::from), "{path}");
    }
}
