//! What the table says, and what a machine without some of it is told.

use super::{Installer, major, missing, packages, refusal, rows};

#[test]
fn every_row_names_a_program_a_package_and_a_reason() {
    let rows: Vec<_> = rows().collect();
    assert!(rows.len() > 10, "{rows:?}");
    let listed = super::TABLE.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rows.len(), listed.count());
    for row in rows {
        assert!(
            !row.package.is_empty() && row.reason.contains(' '),
            "{row:?}"
        );
    }
}

#[test]
fn only_missing_packages_are_installed_each_once() {
    let without = |absent: &'static [&str]| missing(move |program| !absent.contains(&program));
    assert_eq!(packages(&without(&[])), [""; 0]);
    assert_eq!(packages(&without(&["cc", "make"])), ["build-essential"]);
    assert_eq!(
        packages(&without(&["bwrap", "pip"])),
        ["python3-pip", "bubblewrap"]
    );
}

#[test]
fn refusal_ends_with_the_one_line_to_run() {
    let missing = missing(|program| !["bwrap", "faketime"].contains(&program));
    let refused = refusal(&missing, &Installer::Refused);
    assert!(
        refused.contains("bwrap     commands that run in the sandbox"),
        "{refused}"
    );
    let line = refused.lines().last().unwrap();
    assert_eq!(
        line,
        "Run: sudo apt-get update && sudo apt-get install -y bubblewrap faketime"
    );
    let elsewhere = refusal(&missing, &Installer::Unknown);
    assert!(
        elsewhere.ends_with("on Debian the packages are: bubblewrap faketime"),
        "{elsewhere}"
    );
}

#[test]
fn node_version_is_read_from_what_it_prints() {
    assert_eq!(major("v20.19.2\n"), Some(20));
    assert_eq!(major(""), None);
}
