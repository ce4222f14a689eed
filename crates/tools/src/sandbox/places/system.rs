//! What of the system is out of sight: what root could read and other users may not, and what is a
//! secret wherever it can be read.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use domain::limits::PRIVATE_SYSTEM_FILES_MAX;

use super::super::home::names_in;

/// Where the system keeps its settings.
const SETTINGS: &str = "/etc";

/// What is out of sight whatever its mode is.
const SECRETS: &[&str] = &[
    "/etc/NetworkManager",
    "/etc/docker",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/openvpn",
    "/etc/rancher",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
];

/// How deep directories of settings are searched: deeper ones are those of a loop of mounts.
const DEPTH_MAX: usize = 16;

/// All that is out of sight. Blocks.
pub(super) fn secrets() -> Vec<PathBuf> {
    let mut secrets: Vec<PathBuf> = SECRETS.iter().map(PathBuf::from).collect();
    let private = private_in(Path::new(SETTINGS), PRIVATE_SYSTEM_FILES_MAX);
    let new = private.into_iter();
    let new = new.filter(|path| !SECRETS.iter().any(|secret| path.starts_with(secret)));
    secrets.extend(new.collect::<Vec<_>>());
    secrets
}

/// Whether other users may not read what is at `path`. The system says with that what is a secret.
pub(super) fn is_private(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| is_secret(&found))
}

fn is_secret(found: &Metadata) -> bool {
    let readable = if found.is_dir() { 0o005 } else { 0o004 };
    !found.is_symlink() && found.mode() & readable != readable
}

/// What in `directory` other users may not read. Beyond `most`, the directories directly in it that
/// hold the others.
fn private_in(directory: &Path, most: usize) -> Vec<PathBuf> {
    let mut private = Vec::new();
    for top in names_in(directory) {
        let mut here = Vec::new();
        collect(&top, DEPTH_MAX, &mut here);
        match private.len() + here.len() <= most {
            true => private.append(&mut here),
            false if here.is_empty() => {}
            false => private.push(top),
        }
    }
    private
}

fn collect(path: &Path, depth: usize, private: &mut Vec<PathBuf>) {
    let Ok(found) = path.symlink_metadata() else {
        return;
    };
    if is_secret(&found) {
        private.push(path.to_owned());
    } else if depth > 0 && found.is_dir() {
        for inside in names_in(path) {
            collect(&inside, depth - 1, private);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::private_in;

    #[test]
    fn settings_that_others_may_not_read_are_secrets() {
        let place = tempfile::tempdir().unwrap();
        let etc = place.path();
        for (file, mode) in [
            ("security/opasswd", 0o600),
            ("security/limits.conf", 0o644),
            ("app/a.key", 0o640),
            ("app/b.key", 0o600),
            ("hosts", 0o644),
        ] {
            let path = etc.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(etc.join("private")).unwrap();
        fs::set_permissions(etc.join("private"), fs::Permissions::from_mode(0o710)).unwrap();
        symlink("security/opasswd", etc.join("link")).unwrap();
        let names = ["app/a.key", "app/b.key", "private", "security/opasswd"];
        assert_eq!(private_in(etc, 9), names.map(|name| etc.join(name)));
        let names = ["app", "private", "security"];
        assert_eq!(private_in(etc, 1), names.map(|name| etc.join(name)));
    }
}
