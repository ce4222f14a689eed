//! What is attached to a file beside its content, and goes along when the file is replaced: the
//! attributes that people gave it, and its access list.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use domain::limits::{FILE_ATTRIBUTES_BYTES_MAX, FILE_ATTRIBUTES_MAX};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// Attributes that belong to whoever may write the file.
const OF_PEOPLE: &str = "user.";

/// Who may do what, beyond owner, group and others.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// What is attached to one file.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    of_people: Vec<(String, Vec<u8>)>,
    access_list: Option<Vec<u8>>,
}

impl Attributes {
    /// Those of `file`, which may be open as a path only; none where the disk knows none. What is
    /// beyond the bounds is left out.
    ///
    /// # Errors
    /// If it has an access list that cannot be read.
    pub(super) fn of(file: &impl AsFd) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let access_list = match value(&path, ACCESS_LIST) {
            Ok(list) => Some(list),
            Err(Errno::NODATA | Errno::NOTSUP | Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let mut attributes = Self {
            of_people: Vec::new(),
            access_list,
        };
        let mut room = FILE_ATTRIBUTES_BYTES_MAX;
        for name in names(&path).into_iter().take(FILE_ATTRIBUTES_MAX) {
            if let Ok(value) = value(&path, &name)
                && value.len() <= room
            {
                room -= value.len();
                attributes.of_people.push((name, value));
            }
        }
        Ok(attributes)
    }

    /// Gives them to `file`, which is new: what it inherited from its directory goes.
    ///
    /// # Errors
    /// If the access list cannot be the same, for then others could do with the file what they
    /// could not before. Other attributes that the disk refuses are left out.
    pub(super) fn give_to(&self, file: &impl AsFd) -> io::Result<()> {
        for (name, value) in &self.of_people {
            let _ = rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty());
        }
        let given = match &self.access_list {
            Some(list) => rustix::fs::fsetxattr(file, ACCESS_LIST, list, XattrFlags::empty()),
            None => rustix::fs::fremovexattr(file, ACCESS_LIST),
        };
        match given {
            Err(Errno::NODATA | Errno::NOTSUP) if self.access_list.is_none() => Ok(()),
            given => Ok(given?),
        }
    }
}

/// The names of the attributes that people gave; none if they cannot be told.
fn names(path: &str) -> Vec<String> {
    let mut names = vec![0; FILE_ATTRIBUTES_BYTES_MAX];
    let Ok(count) = rustix::fs::listxattr(path, &mut names[..]) else {
        return Vec::new();
    };
    let names = names[..count].split(|byte| *byte == 0);
    let names = names.filter_map(|name| std::str::from_utf8(name).ok());
    let names = names.filter(|name| name.starts_with(OF_PEOPLE));
    names.map(str::to_owned).collect()
}

fn value(path: &str, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; FILE_ATTRIBUTES_BYTES_MAX];
    let count = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(count);
    Ok(value)
}
