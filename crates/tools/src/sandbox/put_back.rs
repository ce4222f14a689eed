//! What Landlock cannot keep: it permits whole directories, and a repository's hooks lie in one that
//! must be changed. So they are remembered before the command and put back after it.
//!
//! By then nothing of the command runs any more, so what is looked at stays as it is.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::cage::Places;
use super::home::names_in;

/// Bytes of one file that are remembered: hooks are scripts.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Files of one directory that are remembered.
const FILES_MAX: usize = 128;

/// What there was.
#[derive(Debug)]
pub(super) struct Remembered {
    things: Vec<(PathBuf, Home, Thing)>,
}

/// Where the directory of a thing really is.
type Home = Option<PathBuf>;

fn home_of(path: &Path) -> Home {
    path.parent()?.canonicalize().ok()
}

/// Something at a path.
#[derive(Debug, PartialEq, Eq)]
enum Thing {
    Missing,
    File(File),
    Directory(Vec<(OsString, File)>),
    /// Not a thing that can be remembered.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
struct File {
    bytes: Vec<u8>,
    mode: u32,
}

impl Remembered {
    /// Looks at all that must not change.
    pub(super) fn of(places: &Places) -> Self {
        let paths = places.keep.iter().chain(&places.keep_out);
        let things = paths.map(|path| (path.clone(), home_of(path), Thing::at(path)));
        Self {
            things: things.collect(),
        }
    }

    /// Puts back what has changed. Says, a line each, what a person should know.
    pub(super) fn put_back(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (path, home, was) in &self.things {
            let is_where_it_was = home_of(path) == *home;
            if is_where_it_was && Thing::at(path) == *was {
                continue;
            }
            let shown = path.display();
            // Behind a link lies something else, which is not ours to change.
            told.push(match is_where_it_was && was.put(path).is_ok() {
                true => format!("[{shown} must not change here, and was put back]"),
                false => format!("[{shown} was changed: look at it before you use git there]"),
            });
        }
        told
    }
}

impl Thing {
    fn at(path: &Path) -> Self {
        let Ok(metadata) = path.symlink_metadata() else {
            return Self::Missing;
        };
        if metadata.is_file() {
            return File::at(path).map_or(Self::Other, Self::File);
        }
        if !metadata.is_dir() {
            return Self::Other;
        }
        let inside = names_in(path);
        let files = inside.iter().take(FILES_MAX + 1).map(|path| {
            let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
            let file = Some(path)
                .filter(|_| is_file)
                .and_then(|path| File::at(path));
            Some((path.file_name()?.to_owned(), file?))
        });
        let files: Option<Vec<_>> = files.collect();
        let files = files.filter(|files| files.len() <= FILES_MAX);
        files.map_or(Self::Other, Self::Directory)
    }

    /// Makes it so at `path`.
    fn put(&self, path: &Path) -> io::Result<()> {
        if matches!(self, Self::Other) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path)?,
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        match self {
            Self::Missing | Self::Other => Ok(()),
            Self::File(file) => file.put(path),
            Self::Directory(files) => {
                fs::create_dir(path)?;
                files
                    .iter()
                    .try_for_each(|(name, file)| file.put(&path.join(name)))
            }
        }
    }
}

impl File {
    fn at(path: &Path) -> Option<Self> {
        let file = fs::File::open(path).ok()?;
        let mode = file.metadata().ok()?.permissions().mode();
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= FILE_BYTES_MAX).then_some(Self { bytes, mode })
    }

    fn put(&self, path: &Path) -> io::Result<()> {
        fs::write(path, &self.bytes)?;
        fs::set_permissions(path, Permissions::from_mode(self.mode))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{Places, Remembered};

    #[test]
    fn hooks_and_settings_are_as_before_whatever_was_done_to_them() {
        let place = tempfile::tempdir().unwrap();
        let git = place.path().join(".git");
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::create_dir_all(git.join("modules/a")).unwrap();
        fs::write(git.join("hooks/pre-push"), "mine").unwrap();
        fs::write(git.join("config"), "[core]").unwrap();
        let places = Places {
            keep: vec![git.join("config"), git.join("hooks")],
            keep_out: vec![git.join("modules/a/hooks")],
            ..Places::default()
        };
        let remembered = Remembered::of(&places);
        assert!(remembered.put_back().is_empty());

        fs::write(git.join("hooks/pre-commit"), "evil").unwrap();
        fs::write(git.join("hooks/pre-push"), "evil").unwrap();
        fs::remove_file(git.join("config")).unwrap();
        symlink("/etc/passwd", git.join("config")).unwrap();
        fs::create_dir(git.join("modules/a/hooks")).unwrap();
        assert_eq!(remembered.put_back().len(), 3);
        assert_eq!(fs::read(git.join("config")).unwrap(), b"[core]");
        assert_eq!(fs::read(git.join("hooks/pre-push")).unwrap(), b"mine");
        assert_eq!(fs::read_dir(git.join("hooks")).unwrap().count(), 1);
        assert!(!git.join("modules/a/hooks").exists());
        assert!(remembered.put_back().is_empty());
    }

    #[test]
    fn nothing_is_put_where_a_link_leads() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(elsewhere.path().join("hooks")).unwrap();
        fs::write(elsewhere.path().join("hooks/mine"), "x").unwrap();
        let git = place.path().join(".git");
        fs::create_dir_all(git.join("hooks")).unwrap();
        let places = Places {
            keep: vec![git.join("hooks")],
            ..Places::default()
        };
        let remembered = Remembered::of(&places);
        fs::rename(&git, place.path().join("old")).unwrap();
        symlink(elsewhere.path(), &git).unwrap();
        let told = remembered.put_back();
        assert!(told[0].contains("look at it"), "{told:?}");
        assert!(elsewhere.path().join("hooks/mine").exists());
    }
}
