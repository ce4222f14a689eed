//! Named tokens: identities that a person hands out, kept as hashes, taken back at will.
//!
//! `tokens.json` in the data directory holds no secret: a token is 256 random bits, and only its
//! SHA-256 is stored. The file is replaced as a whole under a lock; a running server sees the
//! change by looking at the file, at the latest when somebody knocks. Beside the tokens stand the
//! tickets of [`crate::ticket`], which become tokens.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::clock::Timestamp;
use domain::{PrincipalId, SessionId};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::secret::Secret;
use crate::ticket::Ticket;
use crate::token::{TokenError, random_token};

/// Longest token file that is read: tens of thousands of tokens.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Longest name of a token: it is a label in a table.
const NAME_CHARS_MAX: usize = 64;

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Act.
    #[default]
    Control,
    /// Look.
    Observe,
}

/// A token as it is stored: everything but the secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedToken {
    /// Its own name for ever: a new token with the same label is somebody else.
    pub id: String,
    /// The label.
    pub name: String,
    sha256: String,
    /// What its holder may do.
    #[serde(default)]
    pub scope: Scope,
    /// The one session it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Who made it; an observer may look at all sessions of this principal.
    pub maker: PrincipalId,
    /// When it was made, in seconds.
    pub created_at: f64,
    /// When it ends, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<f64>,
    /// Whether it came from a ticket: its holder is then its maker, at another door. A version of
    /// this program that does not know of it sees a plain token, which may do less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_login: bool,
}

impl NamedToken {
    /// Who its holder is.
    #[must_use]
    pub fn principal(&self) -> PrincipalId {
        if self.is_login {
            return self.maker.clone();
        }
        PrincipalId::new(format!("token:{}", self.id))
    }

    /// A token with a secret of its own, which nothing keeps.
    pub(crate) fn random(new: NewToken, now: Timestamp) -> Result<(Self, Secret), TokenError> {
        let secret = random_token()?;
        let made = Self {
            id: SessionId::random().to_string(),
            name: new.name,
            sha256: hash_of(&secret),
            scope: new.scope,
            session: new.session,
            maker: PrincipalId::local(),
            created_at: now.0,
            expires_at: new.expires_at,
            is_login: false,
        };
        Ok((made, Secret::new(secret)))
    }

    /// Whether its time has passed.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now.0)
    }
}

/// What a new token shall be.
#[derive(Clone, Debug, Default)]
pub struct NewToken {
    /// Its label.
    pub name: String,
    /// What its holder may do.
    pub scope: Scope,
    /// The one session it is for.
    pub session: Option<SessionId>,
    /// When it ends, in seconds.
    pub expires_at: Option<f64>,
}

/// The named tokens of a data directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NamedTokens {
    path: PathBuf,
    known: Arc<Mutex<Known>>,
}

/// What was read last, and of which file.
#[derive(Debug, Default)]
struct Known {
    stamp: Option<Version>,
    tokens: Arc<Vec<NamedToken>>,
    tickets: Arc<Vec<Ticket>>,
}

/// Tells one version of the file from another: it is always replaced, so its inode changes.
pub(crate) type Version = (u64, i64, i64, u64);

/// The file's content.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) tokens: Vec<NamedToken>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tickets: Vec<Ticket>,
}

impl NamedTokens {
    /// The tokens of `data_dir`; the file need not exist.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join("tokens.json"),
            known: Arc::default(),
        }
    }

    /// All tokens, as they are on disk now.
    ///
    /// # Errors
    /// If the file is there but cannot be used; nobody is admitted by it then.
    pub fn all(&self) -> Result<Arc<Vec<NamedToken>>, TokenError> {
        self.look().map(|(tokens, _)| tokens)
    }

    /// All tickets, as they are on disk now.
    pub(crate) fn tickets(&self) -> Result<Arc<Vec<Ticket>>, TokenError> {
        self.look().map(|(_, tickets)| tickets)
    }

    /// What the file holds; it is read again only if it is another one than last time.
    #[expect(clippy::type_complexity, reason = "the two halves of one file")]
    fn look(&self) -> Result<(Arc<Vec<NamedToken>>, Arc<Vec<Ticket>>), TokenError> {
        let stamp = stamp(&self.path)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp != known.stamp {
            let stored = if stamp.is_some() {
                read(&self.path)?
            } else {
                Stored::default()
            };
            *known = Known {
                stamp,
                tokens: Arc::new(stored.tokens),
                tickets: Arc::new(stored.tickets),
            };
        }
        Ok((Arc::clone(&known.tokens), Arc::clone(&known.tickets)))
    }

    /// Which version of the file was read last.
    pub(crate) fn version(&self) -> Option<Version> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stamp
    }

    /// The token whose secret is `shown`, if it is still good.
    #[must_use]
    pub fn find(&self, shown: &str, now: Timestamp) -> Option<NamedToken> {
        let tokens = self.all().ok()?;
        let hash = hash_of(shown);
        // Every token is compared, in constant time, so that timing tells nothing of a match.
        let mut found = None;
        for token in tokens.iter() {
            if same(&token.sha256, &hash) {
                found = Some(token);
            }
        }
        found.filter(|token| !token.has_expired(now)).cloned()
    }

    /// Makes a token; its secret is returned here and never again.
    ///
    /// # Errors
    /// If the name is taken or cannot be used, or the file cannot be written.
    pub fn create(
        &self,
        new: NewToken,
        now: Timestamp,
    ) -> Result<(NamedToken, Secret), TokenError> {
        let is_plain = |letter: char| !letter.is_control();
        if new.name.is_empty()
            || new.name.chars().count() > NAME_CHARS_MAX
            || !new.name.chars().all(is_plain)
        {
            return Err(TokenError::BadName);
        }
        let (made, secret) = NamedToken::random(new, now)?;
        self.change(|Stored { tokens, .. }| {
            tokens.retain(|token| !token.has_expired(now));
            if tokens.iter().any(|token| token.name == made.name) {
                return Err(TokenError::NameTaken);
            }
            tokens.push(made.clone());
            Ok(())
        })?;
        Ok((made, secret))
    }

    /// Takes back the token called `name`, and with it what its holder handed out.
    ///
    /// # Errors
    /// If there is none, or the file cannot be written.
    pub fn revoke(&self, name: &str) -> Result<(), TokenError> {
        self.change(|Stored { tokens, .. }| {
            let named = tokens.iter().filter(|token| token.name == name);
            let gone: Vec<_> = named.cloned().collect();
            if gone.is_empty() {
                return Err(TokenError::NoSuchToken);
            }
            // A browser's token is only one door of its maker, who stays.
            let is_maker = |gone: &NamedToken, token: &NamedToken| {
                !gone.is_login && gone.principal() == token.maker
            };
            tokens.retain(|token| {
                token.name != name && !gone.iter().any(|gone| is_maker(gone, token))
            });
            Ok(())
        })
    }

    /// Reads, changes and replaces the file, alone.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Stored) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let lock = private(&self.path.with_file_name("tokens.lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from)?;
        let mut stored = if self.path.exists() {
            read(&self.path)?
        } else {
            Stored::default()
        };
        let changed = change(&mut stored)?;
        let text = serde_json::to_string_pretty(&stored).map_err(io::Error::from)?;
        // What would not be read again would lock everybody out.
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(TokenError::Full);
        }
        let temporary = self.path.with_file_name(".tokens.json");
        let mut file = private(&temporary)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(changed)
    }
}

fn stamp(path: &Path) -> Result<Option<Version>, TokenError> {
    match path.symlink_metadata() {
        Ok(there) => Ok(Some((
            there.ino(),
            there.mtime(),
            there.mtime_nsec(),
            there.len(),
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read(path: &Path) -> Result<Stored, TokenError> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|_| TokenError::Malformed)
}

fn private(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

/// Whether two hashes are the same, in time that tells nothing.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

pub(crate) fn hash_of(secret: &str) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(secret.as_bytes());
    digest
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

#[cfg(test)]
mod tests {
    use domain::clock::Timestamp;

    use super::{NamedTokens, NewToken, Scope};
    use crate::token::TokenError;

    const NOW: Timestamp = Timestamp(1_000.0);

    fn new(name: &str) -> NewToken {
        NewToken {
            name: name.to_owned(),
            ..NewToken::default()
        }
    }

    #[test]
    fn a_token_is_found_by_its_secret_until_it_is_revoked_and_its_secret_is_not_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = NamedTokens::of(directory.path());
        assert!(tokens.find("anything", NOW).is_none());
        let (made, secret) = tokens.create(new("laptop"), NOW).unwrap();
        assert_eq!(tokens.find(secret.reveal(), NOW), Some(made));
        assert!(tokens.find(&format!("{}x", secret.reveal()), NOW).is_none());
        let text = std::fs::read_to_string(directory.path().join("tokens.json")).unwrap();
        assert!(!text.contains(secret.reveal()));
        assert!(matches!(
            tokens.create(new("laptop"), NOW),
            Err(TokenError::NameTaken)
        ));
        // Another process' change is seen by this one.
        NamedTokens::of(directory.path()).revoke("laptop").unwrap();
        assert!(tokens.find(secret.reveal(), NOW).is_none());
        assert!(matches!(
            tokens.revoke("laptop"),
            Err(TokenError::NoSuchToken)
        ));
    }

    #[test]
    fn a_token_ends_when_it_expires_and_one_of_the_same_name_is_somebody_else() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = NamedTokens::of(directory.path());
        let short = NewToken {
            expires_at: Some(1_010.0),
            scope: Scope::Observe,
            ..new("guest")
        };
        let (first, secret) = tokens.create(short, NOW).unwrap();
        assert!(tokens.find(secret.reveal(), Timestamp(1_009.0)).is_some());
        assert!(tokens.find(secret.reveal(), Timestamp(1_010.0)).is_none());
        let (second, _) = tokens.create(new("guest"), Timestamp(1_010.0)).unwrap();
        assert_ne!(first.principal(), second.principal());
    }

    #[test]
    fn the_file_never_grows_beyond_what_is_read_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = NamedTokens::of(directory.path());
        let (made, secret) = tokens.create(new("laptop"), NOW).unwrap();
        let refused = tokens.change(|stored| {
            stored.tokens.extend(vec![made.clone(); 40_000]);
            Ok(())
        });
        assert!(matches!(refused, Err(TokenError::Full)));
        assert_eq!(tokens.find(secret.reveal(), NOW), Some(made));
    }

    #[test]
    fn a_damaged_file_admits_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = NamedTokens::of(directory.path());
        let (_, secret) = tokens.create(new("laptop"), NOW).unwrap();
        std::fs::write(directory.path().join("tokens.json"), "{").unwrap();
        assert!(tokens.find(secret.reveal(), NOW).is_none());
        assert!(matches!(tokens.all(), Err(TokenError::Malformed)));
    }
}
