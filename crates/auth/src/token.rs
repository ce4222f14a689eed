//! The default token's file: 256 random bits, readable by its owner only, made at first use.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::secret::Secret;

/// Characters of a token: 32 bytes in base64url without padding.
const TOKEN_CHARS: usize = 43;

/// The token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It could not be read or written.
    #[error("the token file could not be used")]
    Io(#[from] io::Error),
    /// Something else stands there; deleting it makes a new one at the next start.
    #[error("the token file does not hold a token; delete it to get a new one")]
    Malformed,
    /// Others can read it, so it is no secret any more.
    #[error("the token file can be read by others; delete it to get a new one")]
    Exposed,
    /// The name of a token is a short label.
    #[error("a token's name has 1 to 64 characters, none of them a control character")]
    BadName,
    /// Labels are unique.
    #[error("there is a token of that name; revoke it first")]
    NameTaken,
    /// Nothing to revoke.
    #[error("there is no token of that name")]
    NoSuchToken,
    /// Nothing more fits into the file.
    #[error("there are too many tokens; revoke some")]
    Full,
    /// The system gave no random numbers.
    #[error("no random numbers for a token")]
    NoEntropy,
}

/// Reads the token at `path`, making one if there is none.
///
/// # Errors
/// If the file cannot be used safely.
pub fn load_or_create(path: &Path) -> Result<Secret, TokenError> {
    match create(path) {
        Err(TokenError::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        created => created,
    }
}

/// Reads the token at `path`.
///
/// # Errors
/// If there is none, or if it cannot be used safely.
pub fn read(path: &Path) -> Result<Secret, TokenError> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.mode() & 0o077 != 0 {
        return Err(TokenError::Exposed);
    }
    let mut text = String::new();
    file.take(TOKEN_CHARS as u64 + 2)
        .read_to_string(&mut text)?;
    let text = text.trim_end();
    let is_token = text.len() == TOKEN_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_token {
        Ok(Secret::new(text))
    } else {
        Err(TokenError::Malformed)
    }
}

/// Makes the token. It is whole and synced under a temporary name before it appears as `path`, so
/// that nobody ever reads half of one, and of two processes that start at once one wins.
fn create(path: &Path) -> Result<Secret, TokenError> {
    if path.symlink_metadata().is_ok() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists).into());
    }
    let token = random_token()?;
    let temporary = path.with_file_name(format!(".token-{}", std::process::id()));
    let written =
        write_private(&temporary, &token).and_then(|()| std::fs::hard_link(&temporary, path));
    // Only our own temporary name goes; a failure to remove it harms nobody.
    let _ = std::fs::remove_file(&temporary);
    written?;
    if let Some(parent) = path.parent() {
        sync_directory(parent)?;
    }
    Ok(Secret::new(token))
}

fn write_private(path: &Path, token: &str) -> io::Result<()> {
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(token.as_bytes())?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(crate) fn random_token() -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| TokenError::NoEntropy)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{TokenError, load_or_create};

    #[test]
    fn the_token_is_made_once_and_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let first = load_or_create(&path).unwrap();
        let again = load_or_create(&path).unwrap();
        assert!(first.matches(again.reveal()));
        assert_eq!(first.reveal().len(), 43);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_token_that_others_can_read_or_that_is_a_link_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        load_or_create(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(matches!(load_or_create(&path), Err(TokenError::Exposed)));

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(load_or_create(&link), Err(TokenError::Io(_))));
    }
}
