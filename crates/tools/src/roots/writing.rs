//! Replacing files beneath the roots: whole, at once, in their own place.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};

use super::attributes::Attributes;
use super::{PathError, Root, Roots, real_path, without_detours};

/// Which version of which file: one that is replaced or written is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    place: (u64, u64),
    modified: (i64, i64),
    bytes: u64,
}

impl FileVersion {
    /// The version that `metadata` tells of.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }

    fn of_stat(stat: &Stat) -> Self {
        Self {
            place: (stat.st_dev, stat.st_ino),
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            bytes: stat.st_size.cast_unsigned(),
        }
    }
}

/// Why a file was not written, in words for a model.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It cannot be reached.
    #[error(transparent)]
    Path(#[from] PathError),
    /// It is a link to something that is not there.
    #[error("it is a link to nothing")]
    Dangling,
    /// It was written by somebody else between two looks at it.
    #[error("it was changed meanwhile; read it again")]
    Changed,
    /// A new file in its place would belong to us.
    #[error("it belongs to somebody else, and could not be given back to them")]
    Owner,
    /// A new file in its place would be open to others than it is.
    #[error("its access list could not be kept")]
    AccessList,
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Path(error.into())
    }
}

/// Where a file is to be put, and the one that is there.
struct Target {
    directory: OwnedFd,
    name: OsString,
    there: Option<(Stat, Attributes)>,
}

impl Roots {
    /// Replaces a file's content as a whole: after a crash it is the old one or the new one. Makes
    /// the directories that lead to a new file; writes through links as long as they stay inside.
    ///
    /// With `expected`, only that version is replaced.
    ///
    /// # Errors
    /// If it is not beneath a root, is not what was expected, or the disk refuses.
    pub fn replace_file(
        &self,
        path: &str,
        content: &[u8],
        expected: Option<FileVersion>,
    ) -> Result<(), WriteError> {
        let target = self.target(path)?;
        let temporary = format!(".{}.new", uuid::Uuid::new_v4().simple());
        let written = target
            .write_beside(&temporary, content)
            .and_then(|()| target.take_place(&temporary, expected));
        if written.is_err() {
            // Best effort: the error that matters is the one we return.
            let _ = rustix::fs::unlinkat(&target.directory, &temporary, AtFlags::empty());
        }
        written
    }

    /// The file that `path` leads to, or where a new one goes.
    fn target(&self, path: &str) -> Result<Target, WriteError> {
        let (root, rest) = self.locate(path)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match self.open_in(root, rest, flags) {
            Ok(file) => self.existing(root, &file),
            Err(PathError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                if self.open_in(root, rest, flags | OFlags::NOFOLLOW).is_ok() {
                    return Err(WriteError::Dangling);
                }
                self.new_place(root, rest)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The place of a file that is there: where it lies itself, not where a link to it does.
    fn existing(&self, root: &Root, file: &OwnedFd) -> Result<Target, WriteError> {
        let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(PathError::NotAFile.into());
        }
        let root = root.open()?;
        let real = real_path(file)?;
        let inside = real.strip_prefix(real_path(&root)?);
        let inside = inside.map_err(|_| PathError::Outside)?;
        let (parent, name) = match (inside.parent(), inside.file_name()) {
            (Some(parent), Some(name)) => (parent, name.to_owned()),
            (None | Some(_), _) => return Err(PathError::NoName.into()),
        };
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = rustix::fs::openat2(&root, parent, flags, Mode::empty(), resolve)
            .map_err(io::Error::from)?;
        self.refuse_hidden(&directory)?;
        let again = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(io::Error::from)?;
        if (again.st_dev, again.st_ino) != (stat.st_dev, stat.st_ino) {
            return Err(WriteError::Changed);
        }
        let attributes = Attributes::of(file).map_err(|_| WriteError::AccessList)?;
        Ok(Target {
            directory,
            name,
            there: Some((again, attributes)),
        })
    }

    /// The place of a new file, with the directories that lead to it.
    fn new_place(&self, root: &Root, rest: &Path) -> Result<Target, WriteError> {
        let Some(Component::Normal(name)) = rest.components().next_back() else {
            return Err(PathError::NoName.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = without_detours(rest.parent().unwrap_or(Path::new("")))?;
        let mut directory = self.open_in(root, Path::new(""), flags)?;
        for part in parents_of(&parent) {
            directory = match self.open_in(root, part, flags) {
                Err(PathError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                    let name = part.file_name().ok_or(PathError::NoName)?;
                    rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o777))
                        .map_err(io::Error::from)?;
                    self.open_in(root, part, flags)?
                }
                opened => opened?,
            };
        }
        Ok(Target {
            directory,
            name: name.to_owned(),
            there: None,
        })
    }
}

/// The directories that lead to `path`, and it, from the top.
fn parents_of(path: &Path) -> impl Iterator<Item = &Path> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    let is_named = |part: &&Path| !part.as_os_str().is_empty();
    parts.into_iter().filter(is_named)
}

impl Target {
    /// Writes a new file beside it, which looks like the one that is there: its mode, its owner,
    /// what is attached to it.
    fn write_beside(&self, name: &str, content: &[u8]) -> Result<(), WriteError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let first = Mode::from_raw_mode(if self.there.is_some() { 0o600 } else { 0o666 });
        let made = rustix::fs::openat(&self.directory, name, flags, first);
        let mut file = File::from(made.map_err(io::Error::from)?);
        file.write_all(content)?;
        if let Some((there, attributes)) = &self.there {
            let own = file.metadata()?;
            let owner = (own.uid() != there.st_uid).then(|| Uid::from_raw(there.st_uid));
            let group = (own.gid() != there.st_gid).then(|| Gid::from_raw(there.st_gid));
            if owner.is_some() || group.is_some() {
                rustix::fs::fchown(&file, owner, group).map_err(|_| WriteError::Owner)?;
            }
            let mode = Mode::from_raw_mode(there.st_mode & 0o777);
            rustix::fs::fchmod(&file, mode).map_err(io::Error::from)?;
            let given = attributes.give_to(&file);
            given.map_err(|_| WriteError::AccessList)?;
        }
        Ok(file.sync_all()?)
    }

    /// Puts the new file in its place.
    fn take_place(&self, new: &str, expected: Option<FileVersion>) -> Result<(), WriteError> {
        if let Some(expected) = expected {
            let now = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
            let now = now.as_ref().map(FileVersion::of_stat);
            if now != Ok(expected) {
                return Err(WriteError::Changed);
            }
        }
        let (from, to) = (&self.directory, &self.directory);
        rustix::fs::renameat(from, new, to, &self.name).map_err(io::Error::from)?;
        rustix::fs::fsync(&self.directory).map_err(io::Error::from)?;
        Ok(())
    }
}
