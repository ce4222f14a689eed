//! The Unix socket: where it may stand, what of an earlier run may go, and its removal.
//!
//! It is made in a directory that only its owner can enter, and has mode 0600 itself. What stands
//! in its place already is removed only if it is a socket of the same user on which nobody answers.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::listen::BACKLOG;

/// A listening Unix socket; its file goes when this is dropped.
#[derive(Debug)]
pub struct UnixDoor {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, by which the file is known to be ours still.
    identity: (u64, u64),
}

/// The socket cannot be made there.
#[derive(Debug, thiserror::Error)]
pub enum UnixError {
    /// It needs a directory.
    #[error("{} does not lie in a directory", .0.display())]
    NoDirectory(PathBuf),
    /// Others could enter it.
    #[error("the directory {} is open to others (mode {mode:o}); close it with chmod 700, or name another", path.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Something that is no socket stands there.
    #[error("{} is there and is not a socket; remove it or name another path", .0.display())]
    Occupied(PathBuf),
    /// Somebody answers there.
    #[error("{} is in use by {}", path.display(), holder(.pid))]
    Live {
        /// The socket.
        path: PathBuf,
        /// The process at its other end, if the system says.
        pid: Option<i32>,
    },
    /// Two servers start at once.
    #[error("another server is just starting at {}", .0.display())]
    Starting(PathBuf),
    /// The system refused.
    #[error("{} cannot be listened on", path.display())]
    Io {
        /// The socket or its directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn holder(pid: &Option<i32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

impl UnixDoor {
    /// Listens at `path`.
    ///
    /// # Errors
    /// If the place is not private, or is taken.
    pub async fn bind(path: &Path) -> Result<Self, UnixError> {
        let failed = |source| UnixError::Io {
            path: path.to_owned(),
            source,
        };
        let directory = path
            .parent()
            .ok_or_else(|| UnixError::NoDirectory(path.to_owned()))?;
        // Held until the socket listens, so that of two servers one finds the other's.
        let _turn = private_directory(directory, path)?;
        make_way(path).await?;
        let socket = UnixSocket::new_stream().map_err(failed)?;
        socket.bind(path).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        let made = path.symlink_metadata().map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            identity: (made.dev(), made.ino()),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for UnixDoor {
    fn drop(&mut self) {
        let is_ours = self
            .path
            .symlink_metadata()
            .is_ok_and(|there| (there.dev(), there.ino()) == self.identity);
        if is_ours {
            // One that stays behind is recognised by nobody answering.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes the directory if there is none, checks that only we can enter it, and takes our turn.
fn private_directory(directory: &Path, path: &Path) -> Result<File, UnixError> {
    let failed = |source| UnixError::Io {
        path: directory.to_owned(),
        source,
    };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    // Checked through the open directory, so that it is the one that was locked.
    let opened = File::open(directory).map_err(failed)?;
    let there = opened.metadata().map_err(failed)?;
    if !there.is_dir() {
        return Err(UnixError::NoDirectory(path.to_owned()));
    }
    if there.uid() != auth::own_uid() {
        return Err(UnixError::Foreign(directory.to_owned()));
    }
    let mode = there.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(UnixError::Exposed {
            path: directory.to_owned(),
            mode,
        });
    }
    rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| UnixError::Starting(path.to_owned()))?;
    Ok(opened)
}

/// Removes what an earlier run left, and nothing else.
async fn make_way(path: &Path) -> Result<(), UnixError> {
    let failed = |source| UnixError::Io {
        path: path.to_owned(),
        source,
    };
    let there = match path.symlink_metadata() {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !there.file_type().is_socket() {
        return Err(UnixError::Occupied(path.to_owned()));
    }
    if there.uid() != auth::own_uid() {
        return Err(UnixError::Foreign(path.to_owned()));
    }
    let pid = match UnixStream::connect(path).await {
        Ok(live) => live.peer_cred().ok().and_then(|peer| peer.pid()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return std::fs::remove_file(path).map_err(failed);
        }
        // It refuses for another reason, such as a full queue: somebody is there.
        Err(_) => None,
    };
    Err(UnixError::Live {
        path: path.to_owned(),
        pid,
    })
}
