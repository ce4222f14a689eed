//! A person's home as a command sees it: what has a plain name, and of the names that begin with a
//! dot only those that tool chains need. A secret that nobody thought of is out of sight, too.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use domain::limits::DIRECTORY_NAMES_MAX;

use super::secrets::{is_harmless, is_secret_name};
use crate::tool_chains::{self, Part};

/// The files that say who commits; shown unless there is a secret in them.
const GIT_SETTINGS: &[&str] = &[".gitconfig", ".config/git/config"];

/// Plain names in a home that are not shown: snaps keep profiles of browsers and such there.
const NOT_SHOWN: &[&str] = &["snap"];

/// What is in a home.
#[derive(Debug, Default)]
pub(super) struct Home {
    /// With plain names.
    pub(super) plain: Vec<PathBuf>,
    /// Those with a dot that are needed.
    pub(super) needed: Vec<PathBuf>,
    /// Within those: what is out of sight.
    pub(super) hidden: Vec<PathBuf>,
}

impl Home {
    /// Looks into `home`. Blocks.
    pub(super) fn look(home: &Path) -> Self {
        let names = names_in(home);
        let plain = names.into_iter().filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_none_or(|name| !name.starts_with('.') && !NOT_SHOWN.contains(&name))
        });
        let git = GIT_SETTINGS.iter().map(|name| home.join(name));
        let git = git.filter(|path| is_harmless(path));
        let mut needed: Vec<PathBuf> = tool_chains::IN_HOME
            .iter()
            .flat_map(|(name, parts)| needed_of(&home.join(name), parts))
            .collect();
        needed.extend(git);
        let hidden = needed.iter().flat_map(|path| secrets_in(path));
        Self {
            plain: plain.collect(),
            hidden: hidden.collect(),
            needed,
        }
    }
}

/// What of the directory of a tool chain is shown: those of its `parts` that are there. Blocks.
pub(super) fn needed_of(directory: &Path, parts: &[Part]) -> Vec<PathBuf> {
    let found = parts.iter().flat_map(|part| match part {
        Part::All => vec![directory.to_owned()],
        Part::Named(name) => vec![directory.join(name)],
        Part::Harmless(name) => {
            let path = directory.join(name);
            is_harmless(&path).then_some(path).into_iter().collect()
        }
        Part::Starting(prefix) => names_in(directory)
            .into_iter()
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with(prefix))
            })
            .collect(),
    });
    found.filter(|path| path.exists()).collect()
}

/// What in `directory` has the name of a file with credentials and is no program: tools put such
/// files beside what is needed of them. Blocks.
pub(super) fn secrets_in(directory: &Path) -> Vec<PathBuf> {
    let inside = names_in(directory).into_iter();
    let secrets = inside.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_program = || {
            let metadata = path.metadata();
            metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        name.is_some_and(is_secret_name) && !is_program()
    });
    secrets.collect()
}

/// The paths in a directory; of one that cannot be read there are none.
pub(super) fn names_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let entries = entries.take(DIRECTORY_NAMES_MAX);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Home;

    fn names(home: &Path, paths: &[std::path::PathBuf]) -> Vec<String> {
        let names = paths.iter().map(|path| path.strip_prefix(home).unwrap());
        names.map(|name| name.display().to_string()).collect()
    }

    #[test]
    fn a_home_shows_projects_and_tool_chains_and_nothing_that_nobody_thought_of() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path();
        for directory in [
            "projects",
            "snap",
            ".ssh",
            ".aws",
            ".config/gh",
            ".gnupg",
            ".new-cloud-tool",
            ".cargo/bin",
            ".local/bin",
            ".local/share/keyrings",
        ] {
            std::fs::create_dir_all(home.join(directory)).unwrap();
        }
        for file in [
            "notes.txt",
            ".netrc",
            ".npmrc",
            ".bashrc",
            ".cargo/credentials.toml",
        ] {
            std::fs::write(home.join(file), "x").unwrap();
        }
        let seen = Home::look(home);
        assert_eq!(names(home, &seen.plain), ["notes.txt", "projects"]);
        assert_eq!(names(home, &seen.needed), [".cargo/bin", ".local/bin"]);
    }

    #[test]
    fn credentials_of_tool_chains_are_out_of_sight() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path();
        let needed = [
            ".cargo/registry/index",
            ".rustup/toolchains/stable/bin/rustc",
            ".cache/uv/archive-v0/x",
            ".cache/pip/http/x",
            ".gradle/caches/x",
            ".m2/repository/x",
            ".nuget/packages/x",
            ".dotnet/sdk/x",
            ".npm/_cacache/x",
            ".pyenv/versions/3/bin/python",
            ".volta/layout.v4",
            ".local/share/uv/python/x",
            ".local/bin/auth",
        ];
        let secrets = [
            ".cargo/credentials",
            ".cargo/credentials.toml",
            ".cargo/unheard-of",
            ".gradle/gradle.properties",
            ".gradle/init.d/private.gradle",
            ".gradle/init.gradle",
            ".m2/settings.xml",
            ".m2/settings-security.xml",
            ".nuget/NuGet/NuGet.Config",
            ".nuget/plugins-cache/token",
            ".dotnet/corefx/cryptography/x509stores/my/key.pfx",
            ".local/share/uv/credentials/credentials.toml",
            ".local/share/pnpm/auth.json",
            ".cache/thunderbird/x/ImapMail",
            ".cache/evolution/mail/x",
            ".cache/mutt/headers",
            ".cache/huggingface/token",
            ".cache/huggingface/stored_tokens",
            ".cache/unheard-of/session",
            ".gem/credentials",
            ".bundle/config",
            ".npm/_logs/x",
            ".swiftpm/configuration/registries.json",
            ".julia/servers/pkg/auth.toml",
            ".stack/upload/credentials.json",
            ".cabal/config",
            ".opam/credentials",
            ".terraform.d/credentials.tfrc.json",
            ".composer/auth.json",
            ".pypirc",
            ".unheard-of/token",
        ];
        for file in needed.iter().chain(&secrets) {
            let path = home.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let program = home.join(".local/bin/auth");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(program, mode).unwrap();
        let seen = Home::look(home);
        let is_shown = |name: &str| {
            let path = home.join(name);
            seen.needed.iter().any(|shown| path.starts_with(shown))
                && !seen.hidden.iter().any(|hidden| path.starts_with(hidden))
        };
        for name in needed {
            assert!(is_shown(name), "{name} is needed");
        }
        for name in secrets {
            assert!(!is_shown(name), "{name} is a secret");
        }
    }

    #[test]
    fn settings_of_cargo_are_shown_unless_they_hold_a_secret() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".cargo")).unwrap();
        let file = place.path().join(".cargo/config.toml");
        let is_shown = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Home::look(place.path()).needed == [file.clone()]
        };
        assert!(is_shown("[build]\njobs = 2\n"));
        assert!(!is_shown("[registry]\ntoken = \"x\"\n"));
        assert!(!is_shown("[http]\nproxy = \"http://me:pw@proxy\"\n"));
    }

    #[test]
    fn who_commits_is_shown_unless_the_file_holds_a_secret() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(".gitconfig");
        let is_shown = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Home::look(place.path()).needed == [file.clone()]
        };
        assert!(is_shown(
            "[user]\n\tname = Ada\n\temail = ada@example.org\n"
        ));
        assert!(is_shown(
            "[url \"git@github.com:\"]\n\tinsteadOf = https://github.com/\n"
        ));
        for secret in [
            "[url \"https://me:pw@github.com/\"]\n\tinsteadOf = https://github.com/\n",
            "[http]\n\textraHeader = Authorization: Basic x\n",
            "[github]\n\toauth-token = x\n",
        ] {
            assert!(!is_shown(secret), "{secret}");
        }
    }
}
