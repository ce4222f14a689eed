//! The system packages that the tests need: checks each, and installs what is missing where it may.
//!
//! The table is `xtask/packages.txt`; `testkit::system` reads the same one.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;

const TABLE: &str = include_str!("../packages.txt");

/// The oldest Node that the packages in `crates/cli/tests/peers` run on.
const NODE_MAJOR_MIN: u32 = 20;

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Needed {
    program: &'static str,
    package: &'static str,
    reason: &'static str,
}

/// How packages come onto this machine.
#[derive(Debug, PartialEq, Eq)]
enum Installer {
    /// apt-get, as the user we are.
    Root,
    /// apt-get through sudo, which asks for no password.
    Sudo,
    /// apt-get, but only by hand.
    Refused,
    /// Not Debian and not made from it.
    Unknown,
}

/// Installs what is missing.
///
/// # Errors
/// What is missing and the line that installs it, if this program may not.
pub(crate) fn ensure() -> Result<(), Failure> {
    let missing = missing(is_there);
    if !missing.is_empty() {
        let installer = Installer::find();
        if !matches!(installer, Installer::Root | Installer::Sudo) {
            return Err(refusal(&missing, &installer));
        }
        install(&missing, &installer)?;
    }
    node_is_new_enough()
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<Needed> {
    rows().filter(|row| !is_there(row.program)).collect()
}

fn rows() -> impl Iterator<Item = Needed> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (program, rest) = line.split_once(' ')?;
        let (package, reason) = rest.trim_start().split_once(' ')?;
        Some(Needed {
            program,
            package,
            reason: reason.trim(),
        })
    })
}

/// Whether a program of the table is on this machine, from wherever it came.
fn is_there(program: &str) -> bool {
    match program {
        // A module of Python; the program of that name may belong to another one.
        "pip" => succeeds("python3", &["-m", "pip", "--version"]),
        // As the page's driver looks for it.
        "chromium" => {
            std::env::var_os("CHROMIUM").is_some() || Path::new("/usr/bin/chromium").exists()
        }
        _ => is_on_path(program),
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl Installer {
    fn find() -> Self {
        if !is_on_path("apt-get") {
            return Self::Unknown;
        }
        if output_of("id", &["-u"]).trim() == "0" {
            return Self::Root;
        }
        if succeeds("sudo", &["-n", "true"]) {
            return Self::Sudo;
        }
        Self::Refused
    }
}

/// The packages of `missing`, each once.
fn packages(missing: &[Needed]) -> Vec<&'static str> {
    let mut packages: Vec<_> = missing.iter().map(|row| row.package).collect();
    packages.dedup();
    packages
}

/// What is missing and why, and on the last line the command that helps.
fn refusal(missing: &[Needed], installer: &Installer) -> Failure {
    let mut text = "the tests need programs that are not installed:\n".to_owned();
    for row in missing {
        text += &format!("  {:<9} {}\n", row.program, row.reason);
    }
    let packages = packages(missing).join(" ");
    text + &match installer {
        Installer::Unknown => format!(
            "Install them with your package manager; on Debian the packages are: {packages}"
        ),
        Installer::Root | Installer::Sudo | Installer::Refused => {
            format!("Run: sudo apt-get update && sudo apt-get install -y {packages}")
        }
    }
}

fn install(missing: &[Needed], installer: &Installer) -> Result<(), Failure> {
    let packages = packages(missing);
    eprintln!("== packages: {}", packages.join(" "));
    apt_get(installer, &["update", "-q"])?;
    let mut arguments = vec!["install", "-y", "-q", "--no-install-recommends"];
    arguments.extend(&packages);
    apt_get(installer, &arguments)?;
    let still = self::missing(is_there);
    if still.is_empty() {
        return Ok(());
    }
    let programs: Vec<_> = still.iter().map(|row| row.program).collect();
    Err(format!("still missing after that: {}", programs.join(", ")))
}

fn apt_get(installer: &Installer, arguments: &[&str]) -> Result<(), Failure> {
    // `env`, because sudo drops the variable otherwise.
    const APT: [&str; 3] = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let sudo: &[&str] = if *installer == Installer::Sudo {
        &["sudo", "-n"]
    } else {
        &[]
    };
    let words: Vec<&str> = [sudo, &APT, arguments].concat();
    let [program, rest @ ..] = words.as_slice() else {
        return Ok(());
    };
    let status = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        // Our output is that of the tests; this is how far they are.
        .stdout(std::io::stderr())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed ({status})", words.join(" "))),
        Err(error) => Err(format!("cannot start {program}: {error}")),
    }
}

fn node_is_new_enough() -> Result<(), Failure> {
    let version = output_of("node", &["--version"]);
    if major(&version).is_some_and(|major| major >= NODE_MAJOR_MIN) {
        return Ok(());
    }
    Err(format!(
        "the tests need Node {NODE_MAJOR_MIN} or newer, and `node --version` says {:?}. Install a newer one: https://nodejs.org/en/download",
        version.trim()
    ))
}

/// 22 of `v22.1.0`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|output| output.status.success())
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[cfg(test)]
mod tests;
