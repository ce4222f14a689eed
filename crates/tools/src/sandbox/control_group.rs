//! A bound on processes for root, whom no limit of the user holds: a control group, where one can
//! be made. Other users have a limit that counts.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::cage::Cage;

/// Where groups that count processes are made, of either generation of the kernel's interface.
const ABOVE: [&str; 2] = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];

/// A group that this thread is in.
pub(super) struct ControlGroup {
    path: PathBuf,
    before: PathBuf,
}

/// A group that this thread was in; it goes when everybody has left it.
pub(super) struct Left {
    path: PathBuf,
}

impl ControlGroup {
    /// Enters a new group, if this process is root's and groups can be made.
    pub(super) fn enter(cage: &Cage) -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            return None;
        }
        let made = ABOVE.iter().map(Path::new);
        made.into_iter()
            .find_map(|above| Self::make(above, cage.bounds.processes).ok())
    }

    fn make(above: &Path, processes: u64) -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let before = above.join(place(&own, above).trim_start_matches('/'));
        let name = format!("fastness-{}", uuid::Uuid::new_v4().simple());
        let path = above.join(name);
        fs::create_dir(&path)?;
        let group = Self { path, before };
        let entered = fs::write(group.path.join("pids.max"), processes.to_string())
            .and_then(|()| join(&group.path));
        match entered {
            Ok(()) => Ok(group),
            Err(error) => {
                let _ = fs::remove_dir(&group.path);
                Err(error)
            }
        }
    }

    /// Goes back, and leaves what was started in it.
    pub(super) fn leave(self) -> Left {
        // If that fails we are counted too, and the group stays: a name in a list.
        let _ = join(&self.before);
        Left { path: self.path }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Moves this thread, and with it what it starts from now on.
///
/// The older interface lets a thread move itself without a word to the others. A whole process is
/// moved only after every processor was waited for, which takes longer than all the rest of a cage.
fn join(group: &Path) -> io::Result<()> {
    let own = |name| fs::OpenOptions::new().write(true).open(group.join(name));
    let list = own("tasks").or_else(|_| own("cgroup.procs"));
    list?.write_all(b"0")
}

/// The group that a process is in, by its `list`, in the hierarchy at `above`.
fn place<'a>(list: &'a str, above: &Path) -> &'a str {
    let controller = if above.ends_with("pids") { "pids" } else { "" };
    let mut lines = list.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let found = lines.find(|(controllers, _)| controllers.split(',').any(|one| one == controller));
    found.map_or("/", |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::place;

    #[test]
    fn the_group_of_a_process_is_read_from_either_list() {
        let old = "9:name=systemd:/\n8:pids:/jobs/one\n4:cpu,cpuacct:/two\n0::/three\n";
        assert_eq!(place(old, Path::new("/sys/fs/cgroup/pids")), "/jobs/one");
        assert_eq!(place(old, Path::new("/sys/fs/cgroup")), "/three");
        assert_eq!(place("", Path::new("/sys/fs/cgroup")), "/");
    }
}
