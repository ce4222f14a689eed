//! Logins on disk: one file for each server and person, which only that person can read.
//!
//! Whoever changes a file holds its lock, in whatever process: a token that is good for one renewal must
//! not be used twice. Files are replaced whole.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::limits::{MCP_LOGIN_BYTES_MAX, MCP_LOGIN_LOCK_WAIT};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::Challenge;
use super::client::Client;

/// How often a lock that somebody else holds is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Where logins are kept.
#[derive(Clone, Debug)]
pub(crate) struct Logins {
    directory: PathBuf,
}

impl Logins {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// What `owner` is called at the authorization server `issuer`.
    pub(crate) fn registration(&self, issuer: &str, owner: &str) -> LoginFile {
        // No server's address begins like that.
        self.of(&format!("client at {issuer}"), owner)
    }

    /// The login of `owner` at the server `url`. Other owners have others.
    pub(crate) fn of(&self, url: &str, owner: &str) -> LoginFile {
        let mut sha256 = Sha256::new();
        for part in [owner, url] {
            sha256.update(part.len().to_le_bytes());
            sha256.update(part);
        }
        let digest = sha256.finalize();
        let name: String = digest[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        LoginFile {
            path: self.directory.join(format!("{name}.json")),
            server: url.to_owned(),
            owner: owner.to_owned(),
        }
    }
}

/// One login's file, which may not exist.
#[derive(Clone, Debug)]
pub(crate) struct LoginFile {
    path: PathBuf,
    server: String,
    owner: String,
}

/// What is in it. It does not print.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// What the server said last when it wanted a login, or a better one.
    pub(crate) challenge: Option<Challenge>,
    pub(crate) grant: Option<Grant>,
}

/// A file: what is stored, and about whom.
#[derive(Serialize, Deserialize)]
struct Labelled<T> {
    server: String,
    owner: String,
    #[serde(flatten)]
    stored: T,
}

/// What a person has granted. It does not print.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Who gave it, and whom it is for: neither is ever shown to anybody else.
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) token_endpoint: String,
    /// Where its end is told, if anywhere.
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) client: Client,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    /// Seconds since 1970 until which the access token is good, if it was said.
    pub(crate) expires_at: Option<u64>,
    /// What it was asked to be good for.
    pub(crate) scope: Option<String>,
}

/// The right to change a file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    file: LoginFile,
    _lock: File,
}

impl LoginFile {
    /// What is in the file; nothing if there is none, or it is about somebody else.
    pub(crate) fn read<T: Default + DeserializeOwned>(&self) -> io::Result<T> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(MCP_LOGIN_BYTES_MAX).read_to_string(&mut text)?;
        let read: Labelled<T> = serde_json::from_str(&text)?;
        let is_ours = read.server == self.server && read.owner == self.owner;
        Ok(match is_ours {
            true => read.stored,
            false => T::default(),
        })
    }

    /// Waits for the right to change the file, though not for ever. Cancel safe.
    pub(crate) async fn lock(&self) -> io::Result<Locked> {
        let lock = private(&self.path.with_extension("lock"))?;
        let deadline = Instant::now() + MCP_LOGIN_LOCK_WAIT;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE).await,
            }
        }
        Ok(Locked {
            file: self.clone(),
            _lock: lock,
        })
    }
}

impl Locked {
    pub(crate) fn read<T: Default + DeserializeOwned>(&self) -> io::Result<T> {
        self.file.read()
    }

    /// Replaces what is in the file.
    pub(crate) fn write<T: Serialize>(&self, stored: &T) -> io::Result<()> {
        let labelled = Labelled {
            server: self.file.server.clone(),
            owner: self.file.owner.clone(),
            stored,
        };
        let path = &self.file.path;
        let text = serde_json::to_string_pretty(&labelled)?;
        let temporary = path.with_extension("new");
        let mut file = private(&temporary)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    }

    /// Removes the file, if there is one.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Opens a file that only its owner can read, in a directory that only its owner can enter.
fn private(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Logins, Stored};
    use crate::oauth::Challenge;

    #[tokio::test]
    async fn a_login_is_its_owners_and_its_servers_alone() {
        let place = tempfile::tempdir().unwrap();
        let logins = Logins::new(place.path().join("logins"));
        let mine = logins.of("https://h.example/mcp", "local");
        let challenge = Some(Challenge::default());
        let locked = mine.lock().await.unwrap();
        let stored = Stored {
            challenge: challenge.clone(),
            grant: None,
        };
        locked.write(&stored).unwrap();
        drop(locked);
        assert_eq!(mine.read::<Stored>().unwrap().challenge, challenge);
        let mode = mine.path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for other in [
            logins.of("https://h.example/mcp", "guest"),
            logins.of("https://h.example/mcp2", "local"),
        ] {
            assert_eq!(other.read::<Stored>().unwrap().challenge, None, "{other:?}");
            // Nor if somebody moves the file.
            std::fs::copy(&mine.path, &other.path).unwrap();
            assert_eq!(other.read::<Stored>().unwrap().challenge, None, "{other:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_waited_for_and_not_for_ever() {
        let place = tempfile::tempdir().unwrap();
        let file = Logins::new(place.path().to_owned()).of("https://h.example", "local");
        let held = file.lock().await.unwrap();
        let error = file.lock().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(held);
        file.lock().await.unwrap();
    }
}
