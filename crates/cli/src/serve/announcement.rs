//! `server.json`, by which other commands find the running server, and the lock that says it runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

/// The file whose lock says that a server runs; it holds the server's process id.
const LOCK: &str = "server.lock";
/// `server.json` is a few words; anything longer was not written by us.
const BYTES_MAX: u64 = 4 * 1024;

/// How long to retry while another process holds the lock. A process that only checks whether a server runs holds
/// it for a moment.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// How often it is tried.
const LOCK_EVERY: Duration = Duration::from_millis(50);

/// The right to be the server of a data directory. Held while the server runs.
#[derive(Debug)]
pub(crate) struct Claim {
    /// None where the file system has no locks.
    _lock: Option<File>,
}

/// Another server has the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Its process, if it has said so yet.
    pub(crate) pid: Option<u32>,
    /// Where it listens, if it has said so yet.
    pub(crate) url: Option<String>,
}

impl Claim {
    /// Claims `data_dir` for this process.
    ///
    /// # Errors
    /// If another server runs on it.
    pub(crate) async fn take(data_dir: &Path) -> Result<Self, Taken> {
        let until = Instant::now() + LOCK_WAIT;
        loop {
            match Self::try_take(data_dir) {
                Ok(lock) => return Ok(Self { _lock: Some(lock) }),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    tracing::warn!(%error, "a second server on this data directory would not be noticed");
                    return Ok(Self { _lock: None });
                }
                Err(_) if Instant::now() >= until => return Err(Taken::read(data_dir)),
                Err(_) => sleep(LOCK_EVERY).await,
            }
        }
    }

    fn try_take(data_dir: &Path) -> io::Result<File> {
        let mut lock = private_file(&data_dir.join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        lock.set_len(0)?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(lock)
    }
}

impl Taken {
    fn read(data_dir: &Path) -> Self {
        let pid = read(&data_dir.join(LOCK)).and_then(|text| text.trim().parse().ok());
        let url = announced(data_dir, "url");
        Self { pid, url }
    }
}

/// The file while the server runs. Removed when dropped.
pub(crate) struct Announcement {
    path: PathBuf,
    /// Held while the file is ours.
    _claim: Claim,
}

impl Announcement {
    /// Tells other commands where this server is.
    pub(crate) fn publish(
        claim: Claim,
        data_dir: &Path,
        url: &str,
        unix: Option<&Path>,
    ) -> Option<Self> {
        let announced = Self::try_publish(claim, data_dir, url, unix);
        if let Err(error) = &announced {
            tracing::warn!(%error, "not announced: other commands will not find this server by themselves");
        }
        announced.ok()
    }

    fn try_publish(
        claim: Claim,
        data_dir: &Path,
        url: &str,
        unix: Option<&Path>,
    ) -> io::Result<Self> {
        let path = data_dir.join("server.json");
        let temporary = data_dir.join(".server.json");
        let content = json!({"pid": std::process::id(), "url": url, "unix": unix});
        let mut file = private_file(&temporary)?;
        file.set_len(0)?;
        file.write_all(content.to_string().as_bytes())?;
        std::fs::rename(&temporary, &path)?;
        Ok(Self {
            path,
            _claim: claim,
        })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // A file that stays behind is recognised by the lock that nobody holds.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The address of the server that runs on `data_dir`, if one does.
pub(crate) fn running(data_dir: &Path) -> Option<String> {
    announced(data_dir, "url")
}

/// The path of its Unix socket, if it has one.
pub(crate) fn running_socket(data_dir: &Path) -> Option<String> {
    announced(data_dir, "unix")
}

fn announced(data_dir: &Path, key: &str) -> Option<String> {
    let lock = File::open(data_dir.join(LOCK)).ok()?;
    // Whoever can share it finds nobody who holds it.
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let text = read(&data_dir.join("server.json"))?;
    let announced: Value = serde_json::from_str(&text).ok()?;
    announced[key].as_str().map(str::to_owned)
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Opens a file that only we can read, making it if there is none.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::{Announcement, Claim, Taken, running};

    #[tokio::test(start_paused = true)]
    async fn a_server_is_found_while_it_runs_and_a_dead_ones_file_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(running(path), None);
        let claim = Claim::take(path).await.unwrap();
        let pid = Some(std::process::id());
        let taken = Claim::take(path).await.unwrap_err();
        assert_eq!(taken, Taken { pid, url: None }, "it has not said where yet");
        let announced = Announcement::publish(claim, path, "http://127.0.0.1:7", None);
        assert_eq!(running(path).as_deref(), Some("http://127.0.0.1:7"));
        let url = Some("http://127.0.0.1:7".to_owned());
        let taken = Claim::take(path).await.unwrap_err();
        assert_eq!(taken, Taken { pid, url });
        let left_behind = std::fs::read(path.join("server.json")).unwrap();
        drop(announced);
        assert!(!path.join("server.json").exists());
        std::fs::write(path.join("server.json"), left_behind).unwrap();
        assert_eq!(running(path), None);
        assert!(Claim::take(path).await.is_ok());
    }
}
