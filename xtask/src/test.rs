//! `cargo xtask test`: installs and fetches what the tests need, then runs all of them.

use std::process::{Command, Stdio};

use crate::steps::{command, root, run};
use crate::{Failure, packages};

/// The runner that is installed where there is none; any other version is left alone.
const NEXTEST_VERSION: &str = "0.9.143";

/// Sets everything up, then runs the tests with `arguments` for the runner, whose own summary is the
/// last thing printed.
///
/// # Errors
/// If something that the tests need cannot be had. Nothing was built then.
pub(crate) fn test(arguments: &[String]) -> Result<bool, Failure> {
    packages::ensure()?;
    nextest()?;
    peers()?;
    eprintln!("== test");
    let mut runner = command("nextest run");
    if !selects_packages(arguments) {
        runner.arg("--workspace");
    }
    let status = runner
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(status.success())
}

/// Whether the runner is told which packages to test; then we do not say "all".
fn selects_packages(arguments: &[String]) -> bool {
    let selects = |argument: &String| {
        ["-p", "--package", "--workspace", "--all"].contains(&argument.as_str())
            || argument.starts_with("--package=")
    };
    // What comes after `--` is for the tests themselves.
    let mut ours = arguments.iter().take_while(|argument| *argument != "--");
    ours.any(selects)
}

fn nextest() -> Result<(), Failure> {
    let version = command("nextest --version").stderr(Stdio::null()).output();
    if version.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    eprintln!("== cargo-nextest {NEXTEST_VERSION}");
    let install = format!("install --locked cargo-nextest --version {NEXTEST_VERSION}");
    run(command(&install), &install)
}

/// Tests would install the peers too, but within their own deadlines.
fn peers() -> Result<(), Failure> {
    for script in ["scripts/peers.sh", "scripts/page.sh"] {
        let status = Command::new(root().join(script))
            .arg("install")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("cannot start {script}: {error}"))?;
        if !status.success() {
            return Err(format!(
                "`{script} install` failed; it fetches packages from npm and PyPI"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::selects_packages;

    #[test]
    fn all_packages_are_tested_unless_some_are_named() {
        for (arguments, selects) in [
            ("", false),
            ("-E test(x)", false),
            ("-p fastness-journal", true),
            ("--package=fastness-journal x", true),
            ("x -- -p", false),
        ] {
            let words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            assert_eq!(selects_packages(&words), selects, "{arguments}");
        }
    }
}
