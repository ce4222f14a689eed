//! The real disk: every path is walked from one open directory, and no link is ever followed.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use domain::clock::Timestamp;
use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{Access, NotPlain, Storage, StoredFile};

/// Where Linux says which boot this is.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Files beneath one directory.
pub struct DiskStorage {
    root: OwnedFd,
}

impl DiskStorage {
    /// Opens the directory `name` in `parent`, making both (mode 0700) if they are missing.
    ///
    /// # Errors
    /// If they cannot be made or opened, or if `name` is a link.
    pub fn open(parent: &Path, name: &str) -> io::Result<Self> {
        create_synced(parent)?;
        let parent = fs::open(parent, directory() - OFlags::NOFOLLOW, Mode::empty())?;
        match fs::mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) => fs::fsync(&parent)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let root = fs::openat(&parent, name, directory(), Mode::empty()).map_err(plain)?;
        Ok(Self { root })
    }

    /// Opens the directory that holds the last part of `path`, and gives that part.
    fn parent<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.dir(dir)?, name))
    }

    fn dir(&self, path: &str) -> io::Result<OwnedFd> {
        let mut dir = fs::openat(&self.root, ".", directory(), Mode::empty())?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            dir = fs::openat(&dir, part, directory(), Mode::empty()).map_err(plain)?;
        }
        Ok(dir)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ordered by steps that a file system counts in, not by nanoseconds"
)]
fn changed_at(stat: &fs::Stat) -> Timestamp {
    Timestamp(stat.st_ctime as f64 + stat.st_ctime_nsec as f64 / 1e9)
}

impl Storage for DiskStorage {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let (dir, name) = self.parent(path)?;
        // Not blocking: opening a pipe somebody planted must not wait for its other end.
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = match access {
            Access::Read => flags | OFlags::RDONLY,
            Access::Write => flags | OFlags::RDWR,
            Access::Create => flags | OFlags::RDWR | OFlags::CREATE,
        };
        let fd = fs::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR).map_err(plain)?;
        let stat = fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(NotPlain.into());
        }
        Ok(Arc::new(DiskFile(File::from(fd))))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let (dir, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn changed_at(&self, dir: &str) -> io::Result<Option<Timestamp>> {
        let stat = match dir {
            "" => fs::fstat(&self.root)?,
            _ => fs::fstat(self.dir(dir)?)?,
        };
        Ok(Some(changed_at(&stat)))
    }

    fn file_changed_at(&self, path: &str) -> io::Result<Option<Timestamp>> {
        // A linked directory gives the time of a file that opening will refuse.
        let stat = fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Some(changed_at(&stat)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::new(self.dir(dir)?)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(fs::mkdirat(&dir, name, Mode::RWXU)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from_dir, from) = self.parent(from)?;
        let (to_dir, to) = self.parent(to)?;
        Ok(fs::renameat(&from_dir, from, &to_dir, to)?)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(fs::unlinkat(&dir, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        Ok(fs::fsync(self.dir(path)?)?)
    }

    fn boot_id(&self) -> Option<String> {
        let file = fs::open(
            BOOT_ID_PATH,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let mut text = String::new();
        File::from(file).take(64).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned()).filter(|id| !id.is_empty())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = fs::fstatvfs(&self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

struct DiskFile(File);

impl StoredFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let began = Instant::now();
        let synced = fs::fdatasync(self.0.as_fd());
        meters::SYNC_TIME.observe(began.elapsed());
        if synced.is_err() {
            meters::SYNC_FAILURES.count();
        }
        synced?;
        // A file that somebody removed still syncs, and would be gone with this process.
        if fs::fstat(&self.0)?.st_nlink == 0 {
            return Err(io::Error::other("the file was removed while it was open"));
        }
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        match fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Makes a directory and those above it that are missing, each durable before the next.
fn create_synced(path: &Path) -> io::Result<()> {
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_synced(above)?;
            DirBuilder::new().mode(0o700).create(path)?;
        }
        Err(_) if path.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    let above = fs::open(above, directory() - OFlags::NOFOLLOW, Mode::empty())?;
    Ok(fs::fsync(above)?)
}

fn directory() -> OFlags {
    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY
}

/// A link where a file or a directory belongs, said in our own words.
fn plain(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => NotPlain.into(),
        other => other.into(),
    }
}
