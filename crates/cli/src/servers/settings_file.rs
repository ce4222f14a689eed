//! A settings file that is read once and replaced at once, with the rights that it had: it may hold secrets.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{Mode, OFlags};

use crate::render::Failure;

/// Largest file that is edited; settings that people write are far smaller.
const BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The rights of a file in the user's home that we make: others have no business in it.
const USER_MODE: u32 = 0o600;
/// The rights of one in a project, which others read, too.
const PROJECT_MODE: u32 = 0o644;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    path: PathBuf,
    text: String,
    mode: u32,
}

impl SettingsFile {
    /// The user's own file. If it is a link, as those are that manage such files, what it leads to is meant.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub(super) fn of_user(path: &Path) -> anyhow::Result<Self> {
        let path = match path.is_symlink() {
            true => path.canonicalize().with_context(|| named(path))?,
            false => path.to_owned(),
        };
        Self::read(path, USER_MODE)
    }

    /// The file `name` of the project at `root`. It must not be a link: a link in a repository could lead to any
    /// file of the user's.
    ///
    /// # Errors
    /// If it is there and cannot be read, or is a link.
    pub(super) fn of_project(root: &Path, name: &str) -> anyhow::Result<Self> {
        Self::read(root.join(name), PROJECT_MODE)
    }

    fn read(path: PathBuf, new_mode: u32) -> anyhow::Result<Self> {
        // Without waiting for a writer if it is a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open(&path, flags, Mode::empty()).map(File::from);
        let file = match opened {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => {
                return Ok(Self {
                    path,
                    text: String::new(),
                    mode: new_mode,
                });
            }
            Err(rustix::io::Errno::LOOP) => {
                let sentence = format!("{} is a symbolic link, so it is not changed", named(&path));
                let hint = "change the file that it leads to by hand, if you know it";
                return Err(Failure::new(sentence).hint(hint).into());
            }
            Err(error) => return Err(io::Error::from(error)).with_context(|| named(&path)),
        };
        let found = file.metadata().with_context(|| named(&path))?;
        if !found.is_file() || found.len() > BYTES_MAX {
            let sentence = format!("{} is not a settings file", named(&path));
            return Err(Failure::new(sentence).into());
        }
        let mut text = String::new();
        let read = file.take(BYTES_MAX).read_to_string(&mut text);
        read.with_context(|| named(&path))?;
        let mode = found.permissions().mode() & 0o7777;
        Ok(Self { path, text, mode })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Puts `text` in its place, all of it or nothing. A link that appeared there meanwhile is replaced and not
    /// followed.
    ///
    /// # Errors
    /// If it cannot be written; the file is then as it was.
    pub(super) fn replace(&self, text: &str) -> anyhow::Result<()> {
        self.try_replace(text).with_context(|| named(&self.path))
    }

    fn try_replace(&self, text: &str) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file()
            .set_permissions(Permissions::from_mode(self.mode))?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    }
}

fn named(path: &Path) -> String {
    path.display().to_string()
}
