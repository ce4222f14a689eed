//! Protected files: what other programs execute, or take settings from that name programs, as soon as
//! they see it. This is the only list of them.
//!
//! A sandboxed command cannot change them ([`sandbox`](crate::sandbox) mounts them read-only, and sets
//! aside the ones that a command made), and a file tool that would write one asks first in every mode
//! but `bypass`. The guide shows [`FILES`] and [`GIT_FILES`]; a test compares them. See ADR 0035.
//!
//! A file is in the list if a program executes it, or what it names, although the user did not ask to run
//! anything of the project: on entering or opening the directory, on using git, an editor or an agent in
//! it, or on starting an interpreter's prompt. What only counts when the user builds, tests, installs or
//! runs the project is left out (`Makefile`, `build.rs`, `.cargo/config.toml`, `.yarnrc.yml`,
//! `.pnpmfile.cjs`, `.mvn/`, `.pdbrc`): the project's own code runs then anyway.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use domain::limits::PROTECTED_NAMES_MAX;

use crate::touched::Real;

/// A file or directory that is protected, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedFile {
    /// Its name: in any directory for [`FILES`], in a repository's directory for [`GIT_FILES`]. A
    /// slash at the end stands for a directory with all that is in it, `*` in its first part for
    /// anything. Capitals do not matter, since they do not on every disk.
    pub name: &'static str,
    /// Which program does what with it.
    pub reason: &'static str,
    /// How a sandboxed command is kept from it.
    pub keeping: Keeping,
}

/// How a sandboxed command is kept from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It cannot be changed, and a new one is set aside.
    Kept,
    /// It can be changed, and is looked at afterwards.
    Checked,
    /// Not at all: only file tools ask.
    Free,
}

const fn kept(name: &'static str, reason: &'static str) -> ProtectedFile {
    ProtectedFile {
        name,
        reason,
        keeping: Keeping::Kept,
    }
}

const fn checked(name: &'static str, reason: &'static str) -> ProtectedFile {
    ProtectedFile {
        name,
        reason,
        keeping: Keeping::Checked,
    }
}

const LEFTHOOK: &str = "names programs that the hooks of Lefthook run";
const MISE: &str = "mise runs what it names when a shell enters the directory";

/// Protected in any directory. Except for `.git`, directories named `node_modules` are left out:
/// packages bring such files along, and a package is not opened as a project.
pub const FILES: &[ProtectedFile] = &[
    kept(".git", "git reads the repository that it is or names"),
    ProtectedFile {
        name: ".gitmodules",
        reason: "git takes addresses of submodules from it; it runs nothing that it names",
        keeping: Keeping::Free,
    },
    kept(".githooks/", "a usual place for hooks that git runs"),
    kept(".husky/", "hooks that git runs"),
    kept(
        ".pre-commit-config.yaml",
        "names programs that the hook of pre-commit runs",
    ),
    kept("lefthook.*", LEFTHOOK),
    kept("lefthook-local.*", LEFTHOOK),
    kept(".lefthook.*", LEFTHOOK),
    kept(".lefthook-local.*", LEFTHOOK),
    kept(".config/lefthook.yml", LEFTHOOK),
    kept(".config/lefthook.yaml", LEFTHOOK),
    kept(".config/lefthook.toml", LEFTHOOK),
    kept(".lefthook/", "scripts that the hooks of Lefthook run"),
    kept(".lefthook-local/", "scripts that the hooks of Lefthook run"),
    kept(".hg/hgrc", "names programs that Mercurial runs"),
    kept(".hg/hgrc-not-shared", "names programs that Mercurial runs"),
    kept(".jj/repo/config.toml", "names programs that Jujutsu runs"),
    kept(
        ".jj/workspace-config.toml",
        "names programs that Jujutsu runs",
    ),
    kept(".lazygit.yml", "names programs that Lazygit runs"),
    kept(".envrc", "direnv runs it when a shell enters the directory"),
    kept(
        ".autoenv.zsh",
        "zsh-autoenv runs it when a shell enters the directory",
    ),
    kept("mise.toml", MISE),
    kept(".mise.toml", MISE),
    kept("mise.*.toml", MISE),
    kept(".mise.*.toml", MISE),
    kept("mise/config.toml", MISE),
    kept("mise/config.local.toml", MISE),
    kept(".mise/", MISE),
    kept(".config/mise.toml", MISE),
    kept(".config/mise/", MISE),
    kept(
        ".vscode/tasks.json",
        "VS Code runs tasks when it opens the folder",
    ),
    kept(
        ".vscode/settings.json",
        "names programs that VS Code and its extensions run",
    ),
    kept(".vscode/launch.json", "names programs that VS Code runs"),
    kept(".vscode/mcp.json", "names MCP servers that VS Code starts"),
    kept(
        ".vscode/c_cpp_properties.json",
        "names compilers that VS Code runs when it opens the folder",
    ),
    kept("*.code-workspace", "holds settings and tasks of VS Code"),
    kept(
        "*.sublime-project",
        "names programs that Sublime Text and its packages run",
    ),
    kept(
        ".idea/",
        "names programs that JetBrains IDEs run, some when they open the project",
    ),
    kept(".zed/", "names programs and language servers that Zed runs"),
    kept(
        ".helix/",
        "names language servers and formatters that Helix runs",
    ),
    kept(".nvim.lua", "Neovim runs it in the directory"),
    kept(".nvimrc", "Neovim runs it in the directory"),
    kept(".exrc", "Vim and Neovim run it in the directory"),
    kept("_exrc", "Vim runs it in the directory"),
    kept(".vimrc", "Vim runs it in the directory"),
    kept("_vimrc", "Vim runs it in the directory"),
    kept(".gvimrc", "Vim runs it in the directory"),
    kept("_gvimrc", "Vim runs it in the directory"),
    kept(".dir-locals.el", "Emacs evaluates it in the directory"),
    kept(".dir-locals-2.el", "Emacs evaluates it in the directory"),
    kept(".Rprofile", "R and RStudio run it in the directory"),
    kept(
        ".Renviron",
        "R takes variables from it that name files to run",
    ),
    kept(".irbrc", "irb runs it in the directory"),
    kept(".pryrc", "Pry runs it in the directory"),
    kept(".iex.exs", "IEx runs it in the directory"),
    kept(".ghci", "GHCi runs it in the directory"),
    kept(
        ".gdbinit",
        "GDB runs it in the directory if it is allowed to",
    ),
    kept(
        ".lldbinit",
        "LLDB runs it in the directory if it is allowed to",
    ),
    kept(
        ".devcontainer/",
        "names commands that run on this machine when a container is made",
    ),
    kept(
        ".devcontainer.json",
        "names commands that run on this machine when a container is made",
    ),
    kept("fastness.toml", "rules, hooks and MCP servers of Fastness"),
    kept(".mcp.json", "names MCP servers that agents start"),
    kept(
        ".claude/",
        "settings, hooks, agents and commands of Claude Code; Fastness reads agents from it",
    ),
    kept(".cursor/", "names hooks and MCP servers that Cursor runs"),
    kept(
        ".gemini/",
        "names hooks and MCP servers that Gemini CLI runs",
    ),
    kept(".codex/", "names MCP servers that Codex runs"),
    kept(".opencode/", "plugins that opencode runs"),
    kept("opencode.json", "names MCP servers that opencode starts"),
    kept("opencode.jsonc", "names MCP servers that opencode starts"),
    kept(
        "crush.json",
        "names MCP and language servers that Crush starts",
    ),
    kept(
        ".crush.json",
        "names MCP and language servers that Crush starts",
    ),
    kept(".roo/mcp.json", "names MCP servers that Roo Code starts"),
    kept(
        ".kilocode/mcp.json",
        "names MCP servers that Kilo Code starts",
    ),
    kept(".clinerules/hooks/", "hooks that Cline runs"),
    kept(".github/hooks/", "hooks that GitHub Copilot runs"),
    kept(".factory/", "names hooks and MCP servers that Droid runs"),
    kept(".qwen/", "names hooks and MCP servers that Qwen Code runs"),
    kept(".aider.conf.yml", "names programs that Aider runs"),
    kept(
        ".amazonq/",
        "names hooks and MCP servers that Amazon Q runs",
    ),
    kept(".kiro/", "names hooks and MCP servers that Kiro runs"),
    kept(".continue/", "names MCP servers that Continue starts"),
    kept(".windsurf/", "names hooks that Windsurf runs"),
];

/// Protected in the directory of a repository: called `.git`, or taken for a repository by git.
pub const GIT_FILES: &[ProtectedFile] = &[
    kept("config", "git reads settings from it, which name programs"),
    kept(
        "config.worktree",
        "git reads settings from it, which name programs",
    ),
    kept(
        "commondir",
        "git reads settings and hooks from where it leads",
    ),
    kept("hooks/", "git runs what is in it"),
    kept("info/attributes", "chooses programs that git runs on files"),
    kept(
        "objects/info/alternates",
        "git reads objects from where it leads",
    ),
    kept("remotes/", "git reads addresses from it"),
    kept("branches/", "git reads addresses from it"),
    kept("lazygit.yml", "names programs that Lazygit runs"),
    checked(
        "rebase-merge/git-rebase-todo",
        "git runs what its lines with `exec` name",
    ),
    checked(
        "rebase-merge/strategy",
        "`git rebase --continue` runs the program that it names",
    ),
    checked(
        "rebase-merge/strategy_opts",
        "older versions of git have a shell evaluate it",
    ),
    checked(
        "rebase-apply/apply-opt",
        "older versions of git have a shell evaluate it",
    ),
    checked(
        "sequencer/opts",
        "`git cherry-pick --continue` runs the program that `strategy` names",
    ),
    checked("sequencer/todo", "a list of steps that git takes"),
];

/// A file that is protected, as a permission request and a rule need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Which program does what with it.
    pub reason: &'static str,
    /// The part of the path that makes it so. An allow rule has to write it out.
    pub part: String,
}

impl Protection {
    /// Whether writing at `place` writes to a protected file. Blocks.
    #[must_use]
    pub fn of_place(place: &Real) -> Option<Self> {
        let beneath = place.beneath.as_deref().unwrap_or(&place.absolute);
        // The session may be inside a repository's directory.
        let is_git = || place.absolute.iter().any(is_git_name);
        let git = || {
            is_git()
                .then(|| Self::of(Path::new(".git"), None))
                .flatten()
        };
        Self::of(beneath, Some(&place.absolute)).or_else(git)
    }

    /// Whether writing to `path`, from one of the session's directories on, writes to a protected
    /// file; `absolute` is where that is on this disk, if it is. Blocks.
    fn of(path: &Path, absolute: Option<&Path>) -> Option<Self> {
        let names: Vec<&OsStr> = path.iter().collect();
        for start in 0..names.len() {
            let found = FILES.iter().find(|file| file.is_at(&names[start..], true));
            let Some(file) = found else { continue };
            let is_package = names[..start].iter().any(|name| *name == PACKAGES);
            if is_package && file.name != ".git" {
                continue;
            }
            return Some(Self {
                reason: file.reason,
                part: names[start].to_string_lossy().into_owned(),
            });
        }
        let inside = repository_around(absolute?)?;
        Some(Self {
            reason: "git takes the directory for a repository, and reads settings and hooks in it",
            part: inside.file_name()?.to_string_lossy().into_owned(),
        })
    }
}

/// The directory of packages, in which only repositories are protected.
pub(crate) const PACKAGES: &str = "node_modules";

impl ProtectedFile {
    /// The names it is made of.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.name.split('/').filter(|part| !part.is_empty())
    }

    /// Whether it is a directory with all that is in it.
    pub(crate) fn is_tree(&self) -> bool {
        self.name.ends_with('/')
    }

    /// Whether `name` is the first of its names.
    pub(crate) fn begins_with(&self, name: &OsStr) -> bool {
        self.parts().next().is_some_and(|part| is_name(name, part))
    }

    /// Whether a path that begins with `names` is it, or `beneath` it. A directory on the way to it
    /// counts as it when it is what is written: then it would become a file or a link.
    fn is_at(&self, names: &[&OsStr], beneath: bool) -> bool {
        let mut parts = self.parts();
        let mut names = names.iter();
        loop {
            match (parts.next(), names.next()) {
                (Some(part), Some(name)) if is_name(name, part) => {}
                (Some(_), Some(_)) => return false,
                (None, None) => return true,
                (None, Some(_)) => return beneath,
                (Some(_), None) => return true,
            }
        }
    }
}

/// Whether `name` is what the table calls `part`.
fn is_name(name: &OsStr, part: &str) -> bool {
    let (name, part) = (name.as_bytes(), part.as_bytes());
    let Some(star) = part.iter().position(|byte| *byte == b'*') else {
        return name.eq_ignore_ascii_case(part);
    };
    let (start, end) = (&part[..star], &part[star + 1..]);
    name.len() > start.len() + end.len()
        && name[..start.len()].eq_ignore_ascii_case(start)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

/// Whether a directory of this name is a repository's.
pub(crate) fn is_git_name(name: &OsStr) -> bool {
    is_name(name, ".git")
}

/// Whether a protected file's name may begin with `name`: quick, for it is asked of every name.
pub(crate) fn may_be_first(name: &[u8]) -> bool {
    let may_start = |first: &u8| {
        matches!(
            first.to_ascii_lowercase(),
            b'.' | b'_' | b'c' | b'f' | b'l' | b'm' | b'o'
        )
    };
    // `.code-workspace` and `.sublime-project`
    name.first().is_some_and(may_start) || matches!(name.last(), Some(b'e' | b'E' | b't' | b'T'))
}

/// What git needs to see to take a directory for a repository's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RepositoryMarks {
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
}

impl RepositoryMarks {
    /// Notes that the directory has something of this name.
    pub(crate) fn note(&mut self, name: &[u8]) {
        match name {
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.commondir = true,
            _ => {}
        }
    }

    /// Whether git would take the directory for a repository's.
    pub(crate) fn is_repository(self) -> bool {
        self.head && (self.commondir || self.objects && self.refs)
    }
}

/// The directory on the way to `path` that git takes for a repository's, or would once `path` is there.
fn repository_around(path: &Path) -> Option<PathBuf> {
    let mut directory = PathBuf::from("/");
    for part in path.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        let mut marks = RepositoryMarks::default();
        marks.note(name.as_bytes());
        for mark in ["HEAD", "objects", "refs", "commondir"] {
            if directory.join(mark).symlink_metadata().is_ok() {
                marks.note(mark.as_bytes());
            }
        }
        if marks.is_repository() {
            return Some(directory);
        }
        directory.push(name);
    }
    None
}

/// Whether a shell command makes a repository, as far as its text says: `git init`, `git clone`,
/// `git worktree add` and submodules. Errs on the side of yes. A command that hides it is not stopped
/// here; what it made is looked at when it has ended.
#[must_use]
pub fn makes_repository(command: &str) -> bool {
    let is_end = |c: char| ";&|(){}`\n".contains(c);
    command.split(is_end).any(|part| {
        let is_gap = |c: char| c.is_whitespace() || "\"'<>\\=,".contains(c);
        let mut words = part.split(is_gap).filter(|word| !word.is_empty());
        let is_git = |word: &str| word == "git" || word.ends_with("/git");
        let is_called = words.any(is_git);
        let words: Vec<&str> = words.take(PROTECTED_NAMES_MAX).collect();
        let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
        is_called
            && (has(&["init", "init-db", "clone"])
                || has(&["worktree"]) && has(&["add"])
                || has(&["submodule"]) && has(&["add", "update"]))
    })
}

/// An allow rule has to write out one of these words to allow a command that makes a repository.
pub const REPOSITORY_WORDS: &[&str] = &["init", "clone", "worktree", "submodule"];

#[cfg(test)]
mod tests;
