//! Programs that we start outside of the sandbox: found only where no session can put them.
//!
//! A search path may lead through a virtual environment or `node_modules/.bin` of a project. A
//! sandboxed command can plant a program there, and the next process would run it without a
//! sandbox. So each directory on the way to a program is checked, links included, every time that
//! the program is used.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::limits::WRITABLE_PLACES_MAX;

use crate::roots::Root;

/// Symbolic links on the way to one program: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Where the system's own programs are. Root owns everything, so ownership says nothing then.
const SYSTEM: &[&str] = &[
    "/bin",
    "/gnu/store",
    "/lib",
    "/lib64",
    "/nix",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/snap",
    "/usr",
];

/// A search path of the system's own directories.
pub const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin";

/// Where sessions of this process can write, without links.
static WRITABLE: Mutex<Places> = Mutex::new(Places {
    known: BTreeSet::new(),
    is_full: false,
});

struct Places {
    known: BTreeSet<PathBuf>,
    /// There are more than we remember.
    is_full: bool,
}

/// Whose programs may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Only those of the system: in directories that this user cannot change.
    System,
    /// Those of the user as well, where no session can write.
    User,
}

/// Why a program is not run, in words for a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelperError {
    /// There is none.
    #[error("there is no program `{0}` on the search path; install it, or set PATH")]
    Missing(String),
    /// There is one where it must not be.
    #[error(
        "{} is not run outside of the sandbox: {why}. Install it for the whole system, or take \
         that directory off PATH", .program.display()
    )]
    Refused {
        /// The program.
        program: PathBuf,
        /// What is wrong with its place.
        why: String,
    },
}

/// Remembers that a session can write in `roots`.
pub fn note_writable(roots: &[Root]) {
    let real = roots.iter().map(|root| root.real().to_owned());
    note_paths(real);
}

/// Remembers that sessions can write in `paths`. Those that are not there are kept as they are.
pub fn note_paths(paths: impl Iterator<Item = PathBuf>) {
    let mut places = WRITABLE.lock().unwrap_or_else(PoisonError::into_inner);
    for path in paths.filter(|path| path.is_absolute()) {
        if places.known.len() >= WRITABLE_PLACES_MAX {
            places.is_full = !places.known.contains(&path) || places.is_full;
            continue;
        }
        places.known.insert(path);
    }
}

/// The program `name` by the search path `path`. The first that exists counts: if it must not
/// be run, no other is taken in its stead for [`Trust::User`], so that it is noticed. For
/// [`Trust::System`] the search goes on. Blocks.
///
/// # Errors
/// If there is none, or only where it must not be.
pub fn find(name: &str, path: &str, trust: Trust) -> Result<PathBuf, HelperError> {
    if name.contains('/') {
        return check(Path::new(name), trust);
    }
    let mut refused = None;
    for directory in path.split(':') {
        let program = Path::new(directory).join(name);
        if !is_program(&program) {
            continue;
        }
        match (check(&program, trust), trust) {
            (Ok(found), _) => return Ok(found),
            (Err(error), Trust::User) => return Err(error),
            (Err(error), Trust::System) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| HelperError::Missing(name.to_owned())))
}

/// The shell for commands: the system's `bash`, or `sh` where there is none. A project may have put
/// another `bash` into the search path. Blocks.
#[must_use]
pub(crate) fn system_shell() -> PathBuf {
    let bash = find("bash", SYSTEM_PATH, Trust::System);
    bash.unwrap_or_else(|_| PathBuf::from("/bin/sh"))
}

/// The program at `program`, if it may be run; links are followed, and what they lead to is given.
/// Blocks.
///
/// # Errors
/// If it lies where a session could have put it.
pub fn check(program: &Path, trust: Trust) -> Result<PathBuf, HelperError> {
    let refused = |why: String| HelperError::Refused {
        program: program.to_owned(),
        why,
    };
    let (real, directories) = way_to(program).map_err(refused)?;
    for directory in &directories {
        check_directory(directory, trust).map_err(refused)?;
    }
    let shown = real.display();
    let metadata = std::fs::symlink_metadata(&real);
    let metadata = metadata.map_err(|error| refused(format!("{shown}: {error}")))?;
    if !metadata.is_file() {
        return Err(refused(format!("{shown} is not a file")));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(refused(format!("every user can change {shown}")));
    }
    if trust == Trust::System && is_own(metadata.uid()) {
        return Err(refused(format!("{shown} belongs to this user")));
    }
    Ok(real)
}

/// What of the search path `path` a program outside of the sandbox gets: the directories that no
/// session can write. Blocks.
#[must_use]
pub fn safe_path(path: &str) -> String {
    let directories = path.split(':').filter(|directory| {
        let way = way_to(Path::new(directory));
        way.is_ok_and(|(real, way)| {
            let mut all = way.iter().chain([&real]);
            all.all(|directory| check_directory(directory, Trust::User).is_ok())
        })
    });
    directories.collect::<Vec<_>>().join(":")
}

/// Whether a link on the way to `path` lies where a session can write: then it leads wherever that
/// session likes. Blocks.
#[must_use]
pub(crate) fn leads_through_writable(path: &Path) -> bool {
    let Ok((_, _, links)) = walk(path) else {
        return true;
    };
    links.iter().any(|link| writable_above(link).is_some())
}

/// Where `path` leads without links, and every directory that is passed on the way there: those
/// that hold a name of it, or a link that is followed.
fn way_to(path: &Path) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let (real, directories, _) = walk(path)?;
    Ok((real, directories))
}

type Way = (PathBuf, Vec<PathBuf>, Vec<PathBuf>);

fn walk(path: &Path) -> Result<Way, String> {
    if !path.is_absolute() {
        return Err("its path is relative".to_owned());
    }
    let mut rest: VecDeque<OsString> = parts(path);
    let (mut real, mut directories, mut links) = (PathBuf::from("/"), Vec::new(), Vec::new());
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        directories.push(real.clone());
        real.push(&name);
        let Ok(to) = std::fs::read_link(&real) else {
            continue;
        };
        links.push(real.clone());
        if links.len() > LINKS_MAX {
            return Err("too many links lead to it".to_owned());
        }
        real.pop();
        if to.is_absolute() {
            real = PathBuf::from("/");
        }
        for part in parts(&to).into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok((real, directories, links))
}

/// The names in `path`, and `..` as it stands.
fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

fn check_directory(directory: &Path, trust: Trust) -> Result<(), String> {
    let shown = directory.display();
    if let Some(place) = writable_above(directory) {
        let place = place.display();
        return Err(format!("sessions can write in {place}"));
    }
    let metadata = std::fs::symlink_metadata(directory);
    let metadata = metadata.map_err(|error| format!("{shown}: {error}"))?;
    if metadata.mode() & 0o002 != 0 {
        return Err(format!("every user can write in {shown}"));
    }
    if is_of_a_project(directory) {
        return Err(format!("{shown} belongs to a project"));
    }
    if metadata.uid() != 0 && !is_own(metadata.uid()) {
        return Err(format!("{shown} belongs to another user"));
    }
    let is_above = |system: &str| Path::new(system).starts_with(directory);
    let is_beneath = |system: &str| directory.starts_with(system);
    let is_system = SYSTEM
        .iter()
        .any(|system| is_above(system) || is_beneath(system));
    match trust {
        Trust::User => Ok(()),
        Trust::System if is_own(metadata.uid()) => Err(format!(
            "{shown} belongs to this user, so a session can write there"
        )),
        Trust::System if rustix::process::getuid().is_root() && !is_system => {
            Err(format!("{shown} is not a directory of the system"))
        }
        Trust::System => Ok(()),
    }
}

/// Whether `uid` is this user's, who is not root: what is root's is the system's.
fn is_own(uid: u32) -> bool {
    uid != 0 && uid == rustix::process::getuid().as_raw()
}

/// Whether projects keep their programs there: sessions of other processes may write in them.
fn is_of_a_project(directory: &Path) -> bool {
    let is_packages = |part: Component<'_>| part.as_os_str() == "node_modules";
    directory.components().any(is_packages) || directory.join("pyvenv.cfg").exists()
}

/// The place above `directory`, or it, in which sessions can write.
fn writable_above(directory: &Path) -> Option<PathBuf> {
    let places = WRITABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let top = Path::new("/");
    let is_beneath = |system: &&str| directory.starts_with(system);
    let is_system = directory == top || SYSTEM.iter().any(is_beneath);
    // A session at the very top cannot write there: the sandbox shows the system as it is.
    let is_known = |above: &&Path| places.known.contains(*above) && !(is_system && *above == top);
    let found = directory.ancestors().find(is_known);
    let found = found.map(Path::to_owned);
    found.or_else(|| (places.is_full && !is_system).then(|| directory.to_owned()))
}

fn is_program(path: &Path) -> bool {
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};

    use super::{
        HelperError, Trust, check, find, leads_through_writable, note_writable, safe_path,
    };
    use crate::roots::Root;

    /// A directory that no other user can write in, nor any known session.
    fn place() -> tempfile::TempDir {
        // `/tmp` is every user's, so everything beneath it is refused.
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    fn program(path: &Path) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_owned()
    }

    #[test]
    fn system_programs_are_found() {
        for trust in [Trust::System, Trust::User] {
            assert!(find("sh", "/usr/bin:/bin", trust).is_ok());
            assert!(check(Path::new("/bin/sh"), trust).is_ok());
        }
        let missing = find("no-such-program", "/usr/bin", Trust::System);
        assert!(matches!(missing, Err(HelperError::Missing(_))));
    }

    #[test]
    fn program_in_a_session_root_is_refused() {
        let place = place();
        let bin = place.path().join("project/bin");
        let sh = program(&bin.join("sh"));
        assert!(
            check(&sh, Trust::User).is_ok(),
            "{:?}",
            check(&sh, Trust::User)
        );
        note_writable(&[Root::find(place.path().join("project"))]);
        assert!(check(&sh, Trust::User).is_err());
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let refused = find("sh", &path, Trust::User).unwrap_err();
        assert!(
            refused.to_string().contains("sessions can write"),
            "{refused}"
        );
        let system = find("sh", &path, Trust::System).unwrap();
        assert!(!system.starts_with(place.path()), "the next one is taken");
        assert_eq!(safe_path(&path), "/usr/bin:/bin");
    }

    #[test]
    fn program_behind_a_link_in_a_session_root_is_refused() {
        let place = place();
        fs::create_dir(place.path().join("project")).unwrap();
        note_writable(&[Root::find(place.path().join("project"))]);
        let link = place.path().join("project/bin");
        symlink("/usr/bin", &link).unwrap();
        assert!(check(&link.join("env"), Trust::User).is_err());
        let outer = place.path().join("tools");
        symlink(&link, &outer).unwrap();
        assert!(check(&outer.join("env"), Trust::User).is_err());
        assert!(leads_through_writable(&outer) && leads_through_writable(&link));
        assert!(!leads_through_writable(&place.path().join("project")));
        assert_eq!(safe_path(&outer.display().to_string()), "");
    }

    #[test]
    fn relative_empty_and_shared_directories_are_refused() {
        let place = place();
        let shared = place.path().join("shared");
        let tool = program(&shared.join("tool"));
        assert!(check(&tool, Trust::User).is_ok());
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(check(&tool, Trust::User).is_err());
        assert!(check(Path::new("bin/tool"), Trust::User).is_err());
        assert_eq!(safe_path(":.:bin:/usr/bin:"), "/usr/bin");
        let temporary = tempfile::tempdir().unwrap();
        let planted = program(&temporary.path().join("tool"));
        assert!(check(&planted, Trust::User).is_err());
    }

    #[test]
    fn project_environments_are_refused_without_knowing_the_session() {
        let place = place();
        for directory in ["node_modules/.bin", "venv/bin"] {
            let tool = program(&place.path().join(directory).join("tool"));
            fs::write(place.path().join("venv/pyvenv.cfg"), "").ok();
            assert!(check(&tool, Trust::User).is_err(), "{directory}");
        }
    }

    #[test]
    fn user_program_is_not_a_system_program() {
        let place = place();
        let tool = program(&place.path().join("bin/bwrap"));
        assert!(check(&tool, Trust::User).is_ok());
        assert!(check(&tool, Trust::System).is_err());
    }
}
