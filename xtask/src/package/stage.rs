//! The program and what comes with it, laid out once for all packages.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Profile, tool};
use crate::Failure;

/// Oldest glibc that a published program may need: RHEL 8 has 2.28, Debian 11 has 2.31.
pub(crate) const BASELINE: Glibc = Glibc {
    major: 2,
    minor: 28,
};

/// The time of everything in packages if neither the caller nor git knows one: the first second that
/// zip archives can express.
const EPOCH_MIN: u64 = 315_532_800;

/// The shells that have completions, and where distributions look for them below `share`.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/fastness"),
    ("zsh", "zsh/site-functions/_fastness"),
    ("fish", "fish/vendor_completions.d/fastness.fish"),
];

/// A folder with `bin` and `share` as they lie under a prefix, and the facts that packages state.
pub(crate) struct Stage {
    folder: TempDir,
    profile: Profile,
    glibc: Glibc,
    epoch: u64,
}

impl Stage {
    /// Copies `program` and has it write its manual pages and completions.
    pub(crate) fn prepare(program: &Path, profile: Profile) -> Result<Self, Failure> {
        let stage = Self::lay_out(program, profile)?;
        stage.write_pages(program)?;
        Ok(stage)
    }

    /// Copies `program` and the licence; [`Stage::write_pages`] adds the rest.
    pub(crate) fn lay_out(program: &Path, profile: Profile) -> Result<Self, Failure> {
        let folder = TempDir::with_prefix("fastness-stage-")
            .map_err(|error| format!("no temporary directory: {error}"))?;
        let stage = Self {
            glibc: Glibc::of(program)?,
            epoch: epoch()?,
            folder,
            profile,
        };
        let staged = stage.program();
        tool::copy(program, &staged)?;
        if profile == Profile::Dev {
            // Half of a dev build is for debuggers. A release build is stripped already.
            tool::output(tool::command("strip", [&staged]))?;
        }
        tool::set_mode(&staged, 0o755)?;
        tool::copy(
            &tool::source("LICENSE"),
            &stage.prefix().join("share/doc/fastness/LICENSE"),
        )?;
        Ok(stage)
    }

    pub(crate) fn write_pages(&self, program: &Path) -> Result<(), Failure> {
        let program = program.display().to_string();
        let share = self.prefix().join("share");
        let pages = share.join("man/man1");
        let mut man = tool::command(&program, ["man", "--dir"]);
        tool::output({
            man.arg(&pages);
            man
        })?;
        for page in tool::files_below(&pages)? {
            tool::output(tool::command("gzip", ["-9n".as_ref(), page.as_os_str()]))?;
        }
        for (shell, path) in COMPLETIONS {
            let script = tool::output(tool::command(&program, ["completions", shell]))?;
            tool::write(&share.join(path), &script)?;
        }
        Ok(())
    }

    /// The folder that stands for `/usr` or `/usr/local`.
    pub(crate) fn prefix(&self) -> PathBuf {
        self.folder.path().join("prefix")
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.prefix().join("bin/fastness")
    }

    /// A new folder for one package to be put together in.
    pub(crate) fn workshop(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(folder)
    }

    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    pub(crate) fn description(&self) -> &'static str {
        "An agent server: durable, shared AI sessions over stdio, WebSocket and HTTP"
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    pub(crate) fn glibc(&self) -> Glibc {
        self.glibc
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How hard gzip and deflate try: tests want to be quick, downloads small.
    pub(crate) fn gzip_level(&self) -> u32 {
        match self.profile {
            Profile::Dev => 1,
            Profile::Release => 9,
        }
    }

    /// How dpkg-deb compresses, for the same reason.
    pub(crate) fn deb_compression(&self) -> [&'static str; 2] {
        match self.profile {
            Profile::Dev => ["-Zgzip", "-z1"],
            Profile::Release => ["-Zxz", "-z9"],
        }
    }

    /// Packs `name` below `folder` as a `.tar.gz` whose bytes depend on nothing but its content.
    pub(crate) fn pack(&self, folder: &Path, name: &str, out: &Path) -> Result<(), Failure> {
        normalize(&folder.join(name))?;
        let tar = folder.join("packed.tar");
        self.archive(folder, &[name], &tar)?;
        let level = format!("-{}nc", self.gzip_level());
        let packed = tool::output(tool::command("gzip", [level.as_ref(), tar.as_os_str()]))?;
        tool::write(out, &packed)
    }

    /// The same without compression.
    pub(crate) fn archive(&self, folder: &Path, names: &[&str], out: &Path) -> Result<(), Failure> {
        let mut tar = tool::command("tar", ["--create", "--format=ustar", "--sort=name"]);
        tar.args(["--owner=root:0", "--group=root:0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", self.epoch));
        tar.arg("--file").arg(out).arg("--directory").arg(folder);
        tool::output({
            tar.args(names);
            tar
        })?;
        Ok(())
    }
}

/// Gives everything below `path` the permissions that packages have, whatever this user's umask is.
pub(crate) fn normalize(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    if !metadata.is_dir() {
        let is_program = metadata.permissions().mode() & 0o100 != 0;
        return tool::set_mode(path, if is_program { 0o755 } else { 0o644 });
    }
    tool::set_mode(path, 0o755)?;
    let unreadable = |error| format!("cannot read {}: {error}", path.display());
    for entry in fs::read_dir(path).map_err(unreadable)? {
        normalize(&entry.map_err(unreadable)?.path())?;
    }
    Ok(())
}

/// A version of the GNU C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Glibc {
    /// The newest version that `program` asks for.
    pub(crate) fn of(program: &Path) -> Result<Self, Failure> {
        let symbols = tool::output(tool::command(
            "objdump",
            ["-T".as_ref(), program.as_os_str()],
        ))?;
        Self::newest(&String::from_utf8_lossy(&symbols))
            .ok_or_else(|| format!("{} does not use glibc", program.display()))
    }

    /// The newest version among the symbols that `objdump -T` lists.
    pub(crate) fn newest(symbols: &str) -> Option<Self> {
        let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
            let version = rest
                .split(|c: char| c != '.' && !c.is_ascii_digit())
                .next()?;
            let mut numbers = version.split('.').map(str::parse);
            Some(Self {
                major: numbers.next()?.ok()?,
                minor: numbers.next()?.ok()?,
            })
        });
        versions.max()
    }

    pub(crate) fn check_baseline(self) -> Result<(), Failure> {
        if self <= BASELINE {
            return Ok(());
        }
        Err(format!(
            "the program needs glibc {self}; packages promise {BASELINE}"
        ))
    }
}

impl std::fmt::Display for Glibc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The time that everything in packages has: `SOURCE_DATE_EPOCH`, else that of the last commit.
fn epoch() -> Result<u64, Failure> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        let epoch = set.parse::<u64>();
        let epoch = epoch.map_err(|error| format!("SOURCE_DATE_EPOCH is `{set}`: {error}"))?;
        return Ok(epoch.max(EPOCH_MIN));
    }
    let mut git = tool::command("git", ["log", "-1", "--format=%ct"]);
    git.current_dir(crate::steps::root());
    let commit = tool::output(git).ok();
    let commit = commit.and_then(|text| String::from_utf8_lossy(&text).trim().parse().ok());
    Ok(commit.unwrap_or(EPOCH_MIN))
}
