//! The programs of others that packaging uses, and the few files it writes itself.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::steps::root;

/// Where each tool comes from, for the message when it is missing.
const DEBIAN: &[(&str, &str)] = &[
    ("dpkg", "dpkg"),
    ("dpkg-deb", "dpkg"),
    ("gzip", "gzip"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("objcopy", "binutils"),
    ("objdump", "binutils"),
    ("python3", "python3"),
    ("sha256sum", "coreutils"),
    ("strip", "binutils"),
    ("tar", "tar"),
    ("umoci", "umoci"),
];

/// Runs `command` and gives what it printed; its failure names the tool, and the package if it is
/// missing.
pub(crate) fn output(mut command: Command) -> Result<Vec<u8>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| missing(&name, &error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!(
        "`{name}` failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// A command of ours, to be given to [`output`].
pub(crate) fn command<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn missing(name: &str, error: &std::io::Error) -> Failure {
    let found = DEBIAN.iter().find(|(tool, _)| *tool == name);
    match found {
        Some((_, package)) if error.kind() == std::io::ErrorKind::NotFound => format!(
            "`{name}` is not installed. Install it with `apt-get install {package}`, \
             or all tools with `scripts/packaging.sh install`"
        ),
        _ => format!("cannot start `{name}`: {error}"),
    }
}

pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

/// Sets permissions without regard to this user's umask, so that packages do not depend on it.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| format!("cannot change {}: {error}", path.display()))
}

/// A file of the source tree.
pub(crate) fn source(path: &str) -> PathBuf {
    root().join(path)
}

pub(crate) fn source_text(path: &str) -> Result<String, Failure> {
    fs::read_to_string(source(path)).map_err(|error| format!("cannot read {path}: {error}"))
}

pub(crate) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Lines for `sha256sum -c`, in the order of their names, which are relative to `folder`.
pub(crate) fn checksums(folder: &Path, files: &[PathBuf]) -> Result<String, Failure> {
    let mut names: Vec<PathBuf> = files
        .iter()
        .map(|file| file.strip_prefix(folder).unwrap_or(file).to_owned())
        .collect();
    names.sort();
    let mut command = command("sha256sum", &names);
    command.current_dir(folder);
    Ok(String::from_utf8_lossy(&output(command)?).into_owned())
}

/// All files below `folder`, in the order of their names.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() && !path.is_symlink() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
