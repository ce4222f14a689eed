//! Where a path leads: the same way that the tools would go.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use super::{PathError, Root, Roots, real_path, without_detours};
use crate::touched::{Real, Touched};

impl Roots {
    /// What `path` touches. Blocks.
    #[must_use]
    pub fn touched(&self, path: &str) -> Touched {
        let spelled = plainly(&self.cwd().path().join(path));
        let beneath = self.roots.iter().find_map(|root| {
            let rest = spelled.strip_prefix(root.path()).ok()?;
            Some(rest.to_owned())
        });
        let real = self.leads_to(path).ok();
        let cwd = self.cwd();
        let is_working_directory = match &real {
            Some(real) => {
                let own = cwd.open().and_then(|root| Ok(real_path(&root)?));
                own.is_ok_and(|own| own == real.absolute)
            }
            // Not on this disk: without `..` the spelling is enough.
            None => {
                let climbs = Path::new(path)
                    .components()
                    .any(|part| part == Component::ParentDir);
                !climbs && spelled == plainly(cwd.path())
            }
        };
        let spelled = Real {
            absolute: spelled,
            beneath,
        };
        Touched::new(spelled, real, is_working_directory)
    }

    /// Where the tools find what `path` names, or put it if it is not there.
    fn leads_to(&self, path: &str) -> Result<Real, PathError> {
        let (root, rest) = self.locate(path)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let absolute = match self.open_in(root, rest, flags) {
            Ok(found) => real_path(&found)?,
            Err(PathError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                // What makes a link to nothing is not ours to say.
                if self.open_in(root, rest, flags | OFlags::NOFOLLOW).is_ok() {
                    return Err(PathError::Outside);
                }
                self.new_path(root, rest)?
            }
            Err(error) => return Err(error),
        };
        let beneath = self.roots.iter().find_map(|root| {
            let root = real_path(&root.open().ok()?).ok()?;
            Some(absolute.strip_prefix(root).ok()?.to_owned())
        });
        Ok(Real { absolute, beneath })
    }

    /// Where a new file goes: beneath the last directory on its way that is there.
    fn new_path(&self, root: &Root, rest: &Path) -> Result<PathBuf, PathError> {
        let Some(Component::Normal(name)) = rest.components().next_back() else {
            return Err(PathError::NoName);
        };
        let parent = without_detours(rest.parent().unwrap_or(Path::new("")))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for part in parent.ancestors() {
            match self.open_in(root, part, flags) {
                Ok(directory) => {
                    let missing = parent.strip_prefix(part).map_err(|_| PathError::NoName)?;
                    return Ok(real_path(&directory)?.join(missing).join(name));
                }
                Err(PathError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(PathError::Outside)
    }
}

/// An absolute path without `.` and `..`, links aside.
fn plainly(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                plain.push(component);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests;
