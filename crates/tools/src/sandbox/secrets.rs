//! What files with credentials look like, where a list of what is shown is not narrow enough.

use std::io::Read as _;
use std::path::Path;

use domain::limits::SETTINGS_FILE_BYTES_MAX;

/// What a secret in a settings file looks like, in lower case.
const WORDS: &[&str] = &["extraheader", "password", "token", "secret"];

/// Names of files with credentials, without leading punctuation and endings.
const NAMES: &[&str] = &[
    "auth",
    "credential",
    "credentials",
    "htpasswd",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "netrc",
    "npmrc",
    "passwd",
    "password",
    "passwords",
    "pypirc",
    "secret",
    "secrets",
    "settings-security",
    "stored_tokens",
    "token",
    "tokens",
    "yarnrc",
];

/// Endings of files with private keys.
const ENDINGS: &[&str] = &["jceks", "kdbx", "key", "keytab", "p12", "pem", "pfx", "ppk"];

/// Whether files called `name` hold credentials.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.trim_start_matches(['.', '_']);
    let (stem, _) = name.split_once('.').unwrap_or((name, ""));
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    NAMES.contains(&stem) || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Whether the settings in `path` can be read and hold no secret, as addresses with a password do.
/// Blocks.
pub(super) fn is_harmless(path: &Path) -> bool {
    let mut text = String::new();
    let most = SETTINGS_FILE_BYTES_MAX as u64;
    let read =
        std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    let is_whole = read.is_ok_and(|count| count as u64 <= most);
    let text = text.to_lowercase();
    let has_user = |line: &str| {
        let address = line.split_once("://").map(|(_, rest)| rest);
        address.is_some_and(|rest| {
            rest.split(['/', '"'])
                .next()
                .is_some_and(|at| at.contains('@'))
        })
    };
    is_whole && !WORDS.iter().any(|word| text.contains(word)) && !text.lines().any(has_user)
}

#[cfg(test)]
mod tests {
    use super::is_secret_name;

    #[test]
    fn names_of_credentials_are_told_from_others() {
        for name in [
            "credentials",
            ".credentials.json",
            "Credentials.toml",
            "auth.json",
            ".netrc",
            "_netrc",
            "token",
            "id_rsa.pub",
            "server.key",
            "cert.p12",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "tokenizer.json",
            "authors",
            "config.toml",
            "keyring",
            "env",
            "python3.12",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
