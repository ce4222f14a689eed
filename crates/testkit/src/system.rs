//! Programs of the system that a test needs, and what a test says that lacks one.
//!
//! Which package brings a program is in `xtask/packages.txt`, from which `cargo xtask test` installs.

use std::ffi::OsStr;

const TABLE: &str = include_str!("../../../xtask/packages.txt");

/// Fails the test, naming the package, unless `program` is on this machine.
///
/// # Panics
/// If it is not, or if the table does not have it.
pub fn need(program: &str) {
    assert!(is_there(program), "{}", missing(program));
}

/// The name of a program that is surely there, to start it by.
///
/// # Panics
/// As [`need`].
#[must_use]
pub fn program(name: &str) -> &str {
    need(name);
    name
}

/// As [`need`] for a program of the table; any other is left to fail by itself.
pub(crate) fn need_if_listed(program: &OsStr) {
    let name = program.to_str().unwrap_or_default();
    if package(name).is_some() {
        need(name);
    }
}

/// What a test says that lacks `program`.
///
/// # Panics
/// If the table does not have it.
#[must_use]
pub fn missing(program: &str) -> String {
    let Some(package) = package(program) else {
        panic!("`{program}` is not in xtask/packages.txt; add it and its package");
    };
    format!(
        "this test needs `{program}`, which is not installed: it is in the Debian package \
         `{package}`, which `cargo xtask test` installs"
    )
}

fn package(program: &str) -> Option<&'static str> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let mut words = rows.map(str::split_whitespace);
    let mut row = words.find_map(|mut row| (row.next() == Some(program)).then_some(row))?;
    row.next()
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests find programs of the system where a shell would"
)]
fn is_there(program: &str) -> bool {
    match program {
        // A module of Python; the program of that name may belong to another one.
        "pip" => {
            let mut python = std::process::Command::new("python3");
            let said = python.args(["-m", "pip", "--version"]).output();
            return said.is_ok_and(|said| said.status.success());
        }
        // As the page's driver looks for it.
        "chromium" if std::env::var_os("CHROMIUM").is_some() => return true,
        _ => {}
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::{missing, need};

    #[test]
    fn missing_program_is_named_with_its_package() {
        let said = missing("bwrap");
        assert!(
            said.contains("needs `bwrap`") && said.contains("package `bubblewrap`"),
            "{said}"
        );
        need("cc");
    }

    #[test]
    #[should_panic(expected = "is not in xtask/packages.txt")]
    fn program_without_a_package_is_refused() {
        need("no-such-program");
    }
}
