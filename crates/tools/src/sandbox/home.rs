//! A person's home as a command sees it: what has a plain name, and of the names that begin with a
//! dot only those that tool chains need. A secret that nobody thought of is out of sight, too.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use domain::limits::{DIRECTORY_NAMES_MAX, SETTINGS_FILE_BYTES_MAX};

/// Names in a home that are shown although they begin with a dot.
const SHOWN: &[&str] = &[
    ".asdf",
    ".bun",
    ".cache",
    ".cargo",
    ".coursier",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".gem",
    ".ghcup",
    ".gitignore",
    ".gitignore_global",
    ".gradle",
    ".jenv",
    ".juliaup",
    ".konan",
    ".m2",
    ".mise",
    ".node-gyp",
    ".npm",
    ".nuget",
    ".nvm",
    ".nvmrc",
    ".opam",
    ".pnpm-store",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack",
    ".swiftpm",
    ".terminfo",
    ".tool-versions",
    ".volta",
    ".yarn",
    ".config/git/attributes",
    ".config/git/ignore",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/virtualenv",
];

/// The files that say who commits; shown unless there is a secret in them.
const GIT_SETTINGS: &[&str] = &[".gitconfig", ".config/git/config"];

/// What a secret in git's settings looks like, in lower case.
const GIT_SECRETS: &[&str] = &["extraheader", "password", "token", "secret"];

/// Plain names in a home that are not shown: snaps keep profiles of browsers and such there.
const NOT_SHOWN: &[&str] = &["snap"];

/// What is out of sight within what is shown.
const HIDDEN: &[&str] = &[
    ".cache/chromium",
    ".cache/google-chrome",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".cache/mozilla",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".nuget/NuGet/NuGet.Config",
];

/// Files of a Rust tool chain's home that hold tokens, wherever that home is.
pub(super) const CARGO_SECRETS: &[&str] = &["credentials", "credentials.toml"];

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
        let there = |names: &[&str]| -> Vec<PathBuf> {
            let paths = names.iter().map(|name| home.join(name));
            paths.filter(|path| path.exists()).collect()
        };
        let git = there(GIT_SETTINGS);
        let git = git.into_iter().filter(|path| is_harmless(path));
        let mut needed = there(SHOWN);
        needed.extend(git);
        Self {
            plain: plain.collect(),
            needed,
            hidden: there(HIDDEN),
        }
    }
}

/// The paths in a directory; of one that cannot be read there are none.
pub(super) fn names_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let entries = entries.take(DIRECTORY_NAMES_MAX);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Whether git's settings in `path` hold no secret, as addresses with a password do.
fn is_harmless(path: &Path) -> bool {
    let mut text = String::new();
    let most = SETTINGS_FILE_BYTES_MAX as u64;
    let read =
        std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    let is_whole = read.is_ok_and(|count| count as u64 <= most);
    let text = text.to_lowercase();
    let has_user = |line: &str| {
        let address = line.split_once("://").map(|(_, rest)| rest);
        address.is_some_and(|rest| {
            rest.split(['/', '"'])
                .next()
                .is_some_and(|at| at.contains('@'))
        })
    };
    is_whole
        && !GIT_SECRETS.iter().any(|secret| text.contains(secret))
        && !text.lines().any(has_user)
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
            ".cargo",
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
        assert_eq!(names(home, &seen.needed), [".cargo", ".local/bin"]);
        assert_eq!(names(home, &seen.hidden), [".cargo/credentials.toml"]);
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
