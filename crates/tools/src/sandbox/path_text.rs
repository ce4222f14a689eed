//! How paths are written as JSON. A name may be any bytes, so a path that is not Unicode is a list of
//! numbers; every other one is text.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenPath<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> From<&'a Path> for WrittenPath<'a> {
    fn from(path: &'a Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.into()),
            None => Self::Bytes(path.as_os_str().as_bytes().into()),
        }
    }
}

impl From<WrittenPath<'_>> for PathBuf {
    fn from(written: WrittenPath<'_>) -> Self {
        match written {
            WrittenPath::Text(text) => Self::from(text.into_owned()),
            WrittenPath::Bytes(bytes) => Self::from(OsString::from_vec(bytes.into_owned())),
        }
    }
}

/// One path.
pub(super) mod one {
    use serde::{Deserializer, Serializer};

    use super::{Deserialize as _, Path, PathBuf, Serialize as _, WrittenPath};

    pub(in super::super) fn serialize<S: Serializer>(
        path: &Path,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        WrittenPath::from(path).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(WrittenPath::deserialize(deserializer)?.into())
    }
}

/// A list of paths.
pub(super) mod many {
    use serde::{Deserializer, Serializer};

    use super::{Deserialize as _, PathBuf, WrittenPath};

    pub(in super::super) fn serialize<S: Serializer>(
        paths: &[PathBuf],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| WrittenPath::from(path.as_path())))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let written = Vec::<WrittenPath<'_>>::deserialize(deserializer)?;
        Ok(written.into_iter().map(PathBuf::from).collect())
    }
}

/// A list of paths, each with something.
pub(super) mod keyed {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{PathBuf, WrittenPath};

    pub(in super::super) fn serialize<T: Serialize, S: Serializer>(
        pairs: &[(PathBuf, T)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let pairs = pairs.iter();
        serializer.collect_seq(pairs.map(|(path, rest)| (WrittenPath::from(path.as_path()), rest)))
    }

    pub(in super::super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(PathBuf, T)>, D::Error> {
        let written = Vec::<(WrittenPath<'_>, T)>::deserialize(deserializer)?;
        let pairs = written.into_iter().map(|(path, rest)| (path.into(), rest));
        Ok(pairs.collect())
    }
}

/// A list of paths, each with three numbers.
pub(super) mod stamps {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::{PathBuf, WrittenPath};

    type Stamp = (PathBuf, u64, i64, i64);

    pub(in super::super) fn serialize<S: Serializer>(
        stamps: &[Stamp],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let stamps = stamps.iter();
        serializer.collect_seq(stamps.map(|(path, number, seconds, rest)| {
            (WrittenPath::from(path.as_path()), number, seconds, rest)
        }))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Stamp>, D::Error> {
        let written = Vec::<(WrittenPath<'_>, u64, i64, i64)>::deserialize(deserializer)?;
        let stamps = written.into_iter();
        let stamps =
            stamps.map(|(path, number, seconds, rest)| (path.into(), number, seconds, rest));
        Ok(stamps.collect())
    }
}
