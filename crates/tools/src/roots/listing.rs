//! Looking into directories beneath the roots, and reading text of bounded size.

use std::io::Read as _;

use rustix::fs::{Dir, OFlags};

use super::{PathError, Roots};

/// The names in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Sorted.
    pub names: Vec<String>,
    /// There are more than were looked at.
    pub is_cut: bool,
}

/// Text as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedText {
    /// What is not Unicode is replaced.
    pub text: String,
    /// There is more in the file.
    pub is_cut: bool,
    /// The whole file's size.
    pub bytes: u64,
    /// The file itself, whatever its name: device and number.
    pub identity: (u64, u64),
}

impl Roots {
    /// The names in the directory `path`; those that are not Unicode are left out.
    ///
    /// # Errors
    /// If it is not a directory beneath a root.
    pub fn names(&self, path: &str, names_max: usize) -> Result<Names, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.open_beneath(path, flags)?;
        let entries = Dir::read_from(directory).map_err(std::io::Error::from)?;
        let mut found = Names::default();
        for entry in entries {
            let entry = entry.map_err(std::io::Error::from)?;
            let name = match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => continue,
                Ok(name) => name.to_owned(),
            };
            if found.names.len() >= names_max {
                found.is_cut = true;
                break;
            }
            found.names.push(name);
        }
        found.names.sort_unstable();
        Ok(found)
    }

    /// The beginning of the text file `path`.
    ///
    /// # Errors
    /// If it is not a regular file beneath a root.
    pub fn read_text(&self, path: &str, bytes_max: usize) -> Result<BoundedText, PathError> {
        use std::os::unix::fs::MetadataExt as _;
        let file = self.open_file(path)?;
        let metadata = file.metadata()?;
        let mut bytes = Vec::new();
        file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
        let is_cut = bytes.len() > bytes_max;
        bytes.truncate(bytes_max);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if is_cut {
            // The last character may have been cut in two.
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        }
        Ok(BoundedText {
            text,
            is_cut,
            bytes: metadata.len(),
            identity: (metadata.dev(), metadata.ino()),
        })
    }
}
