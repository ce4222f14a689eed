//! An editor's file: read whole or not at all, backed up, replaced at once, and put back.

use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::editor::Form;
use super::merge::{self, Entry, Found, MergeError};

/// Largest file that is touched; settings that people write are far smaller.
const BYTES_MAX: u64 = 4 * 1024 * 1024;
/// What the copy of the file before us is called.
const BACKUP: &str = "fastness-backup";
/// Others on the machine have no business in a file that we make.
const NEW_MODE: u32 = 0o600;

/// Why a file was left as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("{path} cannot be {what}: {cause}")]
    Io {
        path: String,
        what: &'static str,
        cause: io::Error,
    },
    #[error("{path} is not understood, and was not touched: {cause}")]
    Merge { path: String, cause: MergeError },
    #[error("{path} is not a file of text, and was not touched")]
    NotText { path: String },
    #[error("{path} is larger than {BYTES_MAX} bytes, and was not touched")]
    TooLarge { path: String },
    #[error("{path} was not written by fastness, and was not touched")]
    NotOurs { path: String },
    #[error("{path} was changed meanwhile, and was not touched")]
    ChangedMeanwhile { path: String },
}

/// What would be, or was, done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// As the editor names it; it may be a link.
    pub(crate) path: PathBuf,
    /// What is there now; `None` if there is no file.
    pub(crate) before: Option<String>,
    /// What is to be there; `None` if there is to be no file.
    pub(crate) after: Option<String>,
}

/// What stands in a file of ours.
///
/// # Errors
/// If it cannot be read or understood.
pub(crate) fn state(path: &Path, form: &Form) -> Result<Found, EditError> {
    let Some(text) = read(path)? else {
        return Ok(Found::Missing);
    };
    match form {
        Form::Entry(entry) => merge::find(&text, entry).map_err(|cause| not_merged(path, cause)),
        Form::Whole(whole) if *whole == text => Ok(Found::Same),
        Form::Whole(_) => Ok(Found::Other),
    }
}

/// The command that stands in the file for us, if we are in it. A file that is ours alone has none
/// that could be read.
///
/// # Errors
/// If it cannot be read or understood.
pub(crate) fn command(path: &Path, form: &Form) -> Result<Option<String>, EditError> {
    let Some(text) = read(path)? else {
        return Ok(None);
    };
    match form {
        Form::Entry(entry) => {
            let value = merge::value(&text, entry).map_err(|cause| not_merged(path, cause))?;
            Ok(value.map(|value| value["command"].as_str().unwrap_or_default().to_owned()))
        }
        Form::Whole(_) => Ok(is_ours(&text).then(String::new)),
    }
}

/// The change that sets the editor up.
///
/// # Errors
/// If the file cannot be read or understood, or is another's.
pub(crate) fn setting_up(path: &Path, form: &Form) -> Result<Change, EditError> {
    let before = read(path)?;
    let after = match form {
        Form::Entry(entry) => {
            let merged = merge::insert(before.as_deref().unwrap_or_default(), entry);
            merged.map_err(|cause| not_merged(path, cause))?
        }
        Form::Whole(whole) => match &before {
            Some(text) if !is_ours(text) => {
                let path = shown(path);
                return Err(EditError::NotOurs { path });
            }
            Some(_) | None => whole.clone(),
        },
    };
    Ok(Change {
        path: path.to_owned(),
        before,
        after: Some(after),
    })
}

/// The change that undoes it: exactly what was there before if the file is unchanged since, else
/// only our entry goes.
///
/// # Errors
/// If the file cannot be read or understood, or is another's.
pub(crate) fn taking_back(path: &Path, form: &Form) -> Result<Change, EditError> {
    let before = read(path)?;
    let after = match (&before, form) {
        (None, _) => None,
        (Some(text), Form::Whole(_)) if is_ours(text) => None,
        (Some(_), Form::Whole(_)) => {
            let path = shown(path);
            return Err(EditError::NotOurs { path });
        }
        (Some(text), Form::Entry(entry)) => without(path, text, entry)?,
    };
    Ok(Change {
        path: path.to_owned(),
        before,
        after,
    })
}

fn without(path: &Path, text: &str, entry: &Entry) -> Result<Option<String>, EditError> {
    let failed = |cause| not_merged(path, cause);
    let entry = &as_it_stands(text, entry).map_err(failed)?;
    let gave = |before: &str| merge::insert(before, entry).is_ok_and(|again| again == text);
    match read(&backup_of(path))? {
        Some(kept) if gave(&kept) => return Ok(Some(kept)),
        // There was no file before ours.
        Some(_) | None if gave("") => return Ok(None),
        Some(_) | None => {}
    }
    merge::remove(text, entry).map(Some).map_err(failed)
}

/// The entry with the words that stand in the file: another version may have written them.
fn as_it_stands(text: &str, entry: &Entry) -> Result<Entry, MergeError> {
    let value = merge::value(text, entry)?;
    Ok(Entry {
        value: value.unwrap_or_else(|| entry.value.clone()),
        ..entry.clone()
    })
}

impl Change {
    /// Whether anything would be different.
    pub(crate) fn is_none(&self) -> bool {
        self.before == self.after
    }

    /// Carries it out: a copy of what was there first, then all of the new at once. Gives the copy's
    /// path.
    ///
    /// # Errors
    /// If the file has changed since it was read, or cannot be written; it is then as it was.
    pub(crate) fn carry_out(&self) -> Result<Option<PathBuf>, EditError> {
        if read(&self.path)? != self.before {
            let path = shown(&self.path);
            return Err(EditError::ChangedMeanwhile { path });
        }
        let backup = backup_of(&self.path);
        let Some(after) = &self.after else {
            let removed = fs::remove_file(&self.path);
            removed.map_err(|cause| failed(&self.path, "removed", cause))?;
            return Ok(None);
        };
        let is_back = read(&backup)?.as_ref() == Some(after);
        let mut kept = None;
        if let (Some(before), false) = (&self.before, is_back) {
            write(&backup, before, mode_of(&self.path))?;
            kept = Some(backup.clone());
        }
        // A link stays a link: what it leads to is replaced.
        let target = self.path.canonicalize();
        let target = target.unwrap_or_else(|_| self.path.clone());
        write(&target, after, mode_of(&target))?;
        if is_back {
            // What it held is where it belongs again.
            let _ = fs::remove_file(&backup);
        }
        Ok(kept)
    }
}

/// The copy of a file beside it.
fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(BACKUP);
    path.with_file_name(name)
}

fn is_ours(text: &str) -> bool {
    text.starts_with("-- Written by `fastness init")
}

fn read(path: &Path) -> Result<Option<String>, EditError> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere would become a file.
            return match path.is_symlink() {
                true => Err(failed(path, "read", error)),
                false => Ok(None),
            };
        }
        Err(error) => return Err(failed(path, "read", error)),
    };
    let mut bytes = Vec::new();
    let taken = file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    let taken = taken.map_err(|cause| failed(path, "read", cause))?;
    if taken as u64 > BYTES_MAX {
        return Err(EditError::TooLarge { path: shown(path) });
    }
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|_| EditError::NotText { path: shown(path) })
}

/// Puts a whole file in place at once.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), EditError> {
    let written = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    written().map_err(|cause| failed(path, "written", cause))
}

fn mode_of(path: &Path) -> u32 {
    let mode = path.metadata().map(|found| found.permissions().mode());
    mode.map_or(NEW_MODE, |mode| mode & 0o7777)
}

fn not_merged(path: &Path, cause: MergeError) -> EditError {
    let path = shown(path);
    EditError::Merge { path, cause }
}

fn failed(path: &Path, what: &'static str, cause: io::Error) -> EditError {
    let path = shown(path);
    EditError::Io { path, what, cause }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
