//! API keys that `fastness login` stored: one file per provider, `keys/PROVIDER` in the configuration
//! directory, readable by its owner only. An environment variable wins over it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use domain::limits::MODEL_KEY_BYTES_MAX;
use rustix::fs::OFlags;

/// A provider whose models need an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KeyProvider {
    /// Anthropic: models `anthropic:NAME`.
    Anthropic,
    /// OpenAI: models `openai:NAME` and `openai-chat:NAME`.
    Openai,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// This variable.
    Variable(&'static str),
    /// This file, written by `fastness login`.
    File(PathBuf),
}

/// Why a stored key cannot be used, or a new one not stored. No text shows the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// Others may have read it.
    #[error("the key in {} is open to others (mode {mode:o})", path.display())]
    Exposed {
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another user could change it at any time.
    #[error("the key in {} belongs to another user", path.display())]
    Foreign { path: PathBuf },
    /// What stands there cannot be a key.
    #[error("{} holds no API key", path.display())]
    Malformed { path: PathBuf },
    #[error("{} cannot be used: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
}

/// Why a text is not stored as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAKey {
    #[error("no key was given")]
    Empty,
    #[error("this is too long for an API key")]
    TooLong,
    #[error("an API key has no spaces and no characters beyond ASCII")]
    Characters,
    /// Vendors forbid its use outside their own programs.
    #[error(
        "this is a token of a subscription, not an API key; such tokens are for the vendor's own programs"
    )]
    Subscription,
    #[error("this is a key of another provider")]
    OtherProvider,
}

/// What begins a token that a vendor's login hands out, in place of an API key.
const SUBSCRIPTION_PREFIXES: &[&str] = &[
    // Anthropic: OAuth access and refresh tokens, and session cookies.
    "sk-ant-oat",
    "sk-ant-ort",
    "sk-ant-sid",
    // OpenAI: session tokens, and JSON web tokens of a login to ChatGPT.
    "sess-",
    "eyJ",
];

impl KeyProvider {
    pub(crate) const ALL: [Self; 2] = [Self::Anthropic, Self::Openai];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
        }
    }

    /// The environment variable for its key.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Openai => "OPENAI_API_KEY",
        }
    }

    /// Checks what was typed or piped in.
    ///
    /// # Errors
    /// Why it is not an API key of this provider.
    pub(crate) fn check(self, text: &str) -> Result<(), NotAKey> {
        if text.is_empty() {
            return Err(NotAKey::Empty);
        }
        if text.len() > MODEL_KEY_BYTES_MAX {
            return Err(NotAKey::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NotAKey::Characters);
        }
        if SUBSCRIPTION_PREFIXES
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            return Err(NotAKey::Subscription);
        }
        match self {
            Self::Openai if text.starts_with("sk-ant-") => Err(NotAKey::OtherProvider),
            Self::Openai | Self::Anthropic => Ok(()),
        }
    }
}

impl KeySource {
    /// In words, as the reason for a choice.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Variable(name) => format!("{name} is set"),
            Self::File(_) => "a key was stored with fastness login".to_owned(),
        }
    }
}

/// The directory of stored keys, below the configuration directory.
pub(crate) fn directory(config_dir: &Path) -> PathBuf {
    config_dir.join("keys")
}

fn path(config_dir: &Path, provider: KeyProvider) -> PathBuf {
    directory(config_dir).join(provider.name())
}

/// The stored key of `provider` and its file, if there is one.
///
/// # Errors
/// If there is one that cannot be used safely.
pub(crate) fn read(
    config_dir: &Path,
    provider: KeyProvider,
) -> Result<Option<(String, PathBuf)>, KeyError> {
    let path = path(config_dir, provider);
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(KeyError::Io { path, cause }),
    };
    match read_private(&file) {
        Ok(Ok(text)) if provider.check(&text).is_ok() => Ok(Some((text, path))),
        Ok(Ok(_)) => Err(KeyError::Malformed { path }),
        Ok(Err(NotPrivate::Mode(mode))) => Err(KeyError::Exposed { path, mode }),
        Ok(Err(NotPrivate::Owner)) => Err(KeyError::Foreign { path }),
        Err(cause) => Err(KeyError::Io { path, cause }),
    }
}

enum NotPrivate {
    Mode(u32),
    Owner,
}

fn read_private(file: &File) -> io::Result<Result<String, NotPrivate>> {
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Ok(Err(NotPrivate::Mode(mode)));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Ok(Err(NotPrivate::Owner));
    }
    let mut text = String::new();
    // One more than fits, so that a longer one is noticed; and a line's end.
    let bytes_max = MODEL_KEY_BYTES_MAX as u64 + 2;
    file.take(bytes_max).read_to_string(&mut text)?;
    Ok(Ok(text.trim_end().to_owned()))
}

/// Stores the key of `provider`; where. It is whole and synced before it appears under its name.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(
    config_dir: &Path,
    provider: KeyProvider,
    key: &str,
) -> Result<PathBuf, KeyError> {
    let path = path(config_dir, provider);
    let written = write_private(&directory(config_dir), &path, key);
    match written {
        Ok(()) => Ok(path),
        Err(cause) => Err(KeyError::Io { path, cause }),
    }
}

fn write_private(directory: &Path, path: &Path, key: &str) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    // It may have been there before, with other permissions.
    std::fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    // Made with mode 600, under a name that no other process has.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    writeln!(file, "{key}")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// Removes the stored key of `provider`; whether there was one.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove(config_dir: &Path, provider: KeyProvider) -> Result<bool, KeyError> {
    let path = path(config_dir, provider);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(KeyError::Io { path, cause }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{KeyError, KeyProvider, NotAKey, directory, read, remove, write};

    const KEY: &str = "sk-ant-api03-abcdefgh";

    #[test]
    fn stored_key_is_private_and_replaced_as_a_whole() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("new/fastness");
        let provider = KeyProvider::Anthropic;
        assert!(read(&config, provider).unwrap().is_none());
        let path = write(&config, provider, "sk-ant-api03-older").unwrap();
        assert_eq!(write(&config, provider, KEY).unwrap(), path);
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&directory(&config)), 0o700);
        assert_eq!(
            read(&config, provider).unwrap().unwrap(),
            (KEY.to_owned(), path)
        );
        let names = std::fs::read_dir(directory(&config)).unwrap();
        assert_eq!(names.count(), 1, "nothing temporary is left");
        assert!(read(&config, KeyProvider::Openai).unwrap().is_none());
        assert!(remove(&config, provider).unwrap());
        assert!(!remove(&config, provider).unwrap());
        assert!(read(&config, provider).unwrap().is_none());
    }

    #[test]
    fn a_key_file_that_is_open_to_others_or_a_link_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let provider = KeyProvider::Anthropic;
        let path = write(home.path(), provider, KEY).unwrap();
        for mode in [0o640, 0o604, 0o660] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let refused = read(home.path(), provider).unwrap_err();
            assert!(matches!(refused, KeyError::Exposed { mode: found, .. } if found == mode));
            assert!(!format!("{refused} {refused:?}").contains(KEY));
        }
        let target = home.path().join("target");
        std::fs::rename(&path, &target).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(
            read(home.path(), provider),
            Err(KeyError::Io { .. })
        ));
    }

    #[test]
    fn only_what_can_be_an_api_key_is_stored() {
        let long = "k".repeat(5_000);
        let table = [
            ("", NotAKey::Empty),
            ("sk ant", NotAKey::Characters),
            ("sk-änt", NotAKey::Characters),
            (long.as_str(), NotAKey::TooLong),
            ("sk-ant-oat01-abc", NotAKey::Subscription),
            ("sk-ant-ort01-abc", NotAKey::Subscription),
            ("eyJhbGciOi.x.y", NotAKey::Subscription),
            ("sess-abc", NotAKey::Subscription),
        ];
        for (text, expected) in table {
            for provider in KeyProvider::ALL {
                assert_eq!(provider.check(text), Err(expected), "{text}");
            }
        }
        assert_eq!(KeyProvider::Anthropic.check(KEY), Ok(()));
        assert_eq!(KeyProvider::Openai.check("sk-proj-abc"), Ok(()));
        assert_eq!(KeyProvider::Openai.check(KEY), Err(NotAKey::OtherProvider));
    }
}
