//! Programs that download other programs and run them, such as `npx` and `uvx`. In the sandbox the user's own
//! caches are read-only, because what lies there runs elsewhere, too. So each server that is started by such a
//! program gets private directories for what it downloads.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use domain::tool_server::{NamedBy, ServerProgram, ToolServer};
use sha2::{Digest as _, Sha256};

use crate::names::server_key;

/// Directories inside the private one, by the variables that name them.
type Variables = &'static [(&'static str, &'static str)];

const NPM: Variables = &[("npm_config_cache", "npm")];
const UV: Variables = &[
    ("UV_CACHE_DIR", "uv/cache"),
    ("UV_TOOL_DIR", "uv/tools"),
    ("UV_TOOL_BIN_DIR", "uv/bin"),
    ("UV_PYTHON_INSTALL_DIR", "uv/python"),
    ("UV_PYTHON_BIN_DIR", "uv/bin"),
];
const PIPX: Variables = &[
    ("PIPX_HOME", "pipx"),
    ("PIPX_BIN_DIR", "pipx/bin"),
    ("PIP_CACHE_DIR", "pip"),
];
const BUN: Variables = &[
    ("BUN_INSTALL", "bun"),
    ("BUN_INSTALL_CACHE_DIR", "bun/cache"),
    ("BUN_TMPDIR", "bun/tmp"),
];
const DENO: Variables = &[("DENO_DIR", "deno")];
const PNPM: Variables = &[
    ("PNPM_HOME", "pnpm/home"),
    ("npm_config_store_dir", "pnpm/store"),
    ("npm_config_cache_dir", "pnpm/cache"),
    ("npm_config_state_dir", "pnpm/state"),
];
const YARN: Variables = &[
    ("YARN_CACHE_FOLDER", "yarn/cache"),
    ("YARN_GLOBAL_FOLDER", "yarn/global"),
];

/// The programs, and what they go by.
const PROGRAMS: &[(&str, Variables)] = &[
    ("bun", BUN),
    ("bunx", BUN),
    ("deno", DENO),
    ("npm", NPM),
    ("npx", NPM),
    ("pipx", PIPX),
    ("pnpm", PNPM),
    ("pnpx", PNPM),
    ("uv", UV),
    ("uvx", UV),
    ("yarn", YARN),
];

/// Whether `command` downloads what it runs.
#[must_use]
pub fn is_downloader(command: &str) -> bool {
    variables(command).is_some()
}

/// Private directories of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrivateCache {
    /// All of them are in here, which the program may change.
    pub(crate) place: PathBuf,
    /// What tells the program so.
    pub(crate) variables: Vec<(String, String)>,
}

impl PrivateCache {
    /// Those of `server` in a session at `cwd`, below `caches`. None if it downloads nothing, or if it runs
    /// outside the sandbox, where the user's own caches can be used.
    pub(crate) fn of(
        server: &ToolServer,
        program: &ServerProgram,
        cwd: &Path,
        caches: &Path,
    ) -> Option<Self> {
        let variables = variables(&program.command).filter(|_| program.is_caged)?;
        let place = caches.join(directory(server, cwd));
        let set = &program.environment;
        let is_free = |name: &str| set.iter().all(|(other, _)| other != name);
        let variables = variables.iter().filter(|(name, _)| is_free(name));
        let variables = variables.map(|(name, inside)| {
            let inside = place.join(inside).display().to_string();
            ((*name).to_owned(), inside)
        });
        let variables = variables.collect();
        Some(Self { place, variables })
    }

    /// Makes the directories.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn make(&self) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.place)
    }
}

fn variables(command: &str) -> Option<Variables> {
    let name = Path::new(command).file_name()?.to_str()?;
    let mut programs = PROGRAMS.iter();
    programs
        .find(|(program, _)| *program == name)
        .map(|(_, variables)| *variables)
}

/// The name of a server's directory. What a project or a client names does not share one with the user's own
/// servers, nor with another project's: what lies there is run.
fn directory(server: &ToolServer, cwd: &Path) -> String {
    let key = server_key(&server.name);
    let owner = match server.named_by {
        NamedBy::Operator => return key,
        NamedBy::Project => "project",
        NamedBy::LocalClient | NamedBy::Guest => "client",
    };
    format!("{key}.{owner}-{}", digest(cwd))
}

fn digest(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    let first = digest.iter().take(8);
    first.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{digest, is_downloader, variables};

    #[test]
    fn downloaders_are_known_by_the_last_part_of_their_path() {
        assert!(is_downloader("uvx") && is_downloader("/usr/bin/npx"));
        assert!(!is_downloader("python3") && !is_downloader("npx.py") && !is_downloader(""));
        let of_uv = variables("uvx").unwrap();
        assert!(of_uv.iter().any(|(name, _)| *name == "UV_TOOL_DIR"));
        assert_ne!(digest(Path::new("/a")), digest(Path::new("/b")));
    }
}
