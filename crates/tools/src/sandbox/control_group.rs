//! Limits for all processes of a command together: control groups, where they can be made.
//!
//! They count what no limit of one process does: processes of root, shared memory, `memfd`s and
//! temporary file systems. Root can make groups; other users can where the system delegated some to
//! them, as in services of a user's own service manager.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use domain::limits::COMMAND_MEMORY_PERCENT_MAX;

use super::cage::{Bounds, Cage};

/// A tree of groups.
struct Hierarchy {
    top: &'static str,
    /// How a process's list of groups names it: the newer interface has no name.
    controller: &'static str,
    /// Files that limit something; a group needs at least one of these.
    limits: &'static [(&'static str, Limit)],
    /// Files that make those limits stricter, where they are there.
    stricter: &'static [(&'static str, Limit)],
}

/// What a file limits.
#[derive(Clone, Copy)]
enum Limit {
    Processes,
    Memory,
    NoSwap,
}

/// Of both generations of the kernel's interface.
const HIERARCHIES: &[Hierarchy] = &[
    Hierarchy {
        top: "/sys/fs/cgroup/pids",
        controller: "pids",
        limits: &[("pids.max", Limit::Processes)],
        stricter: &[],
    },
    Hierarchy {
        top: "/sys/fs/cgroup/memory",
        controller: "memory",
        limits: &[("memory.limit_in_bytes", Limit::Memory)],
        // Memory and swap together; it cannot be less than the memory alone.
        stricter: &[("memory.memsw.limit_in_bytes", Limit::Memory)],
    },
    Hierarchy {
        top: "/sys/fs/cgroup",
        controller: "",
        limits: &[
            ("memory.max", Limit::Memory),
            ("pids.max", Limit::Processes),
        ],
        stricter: &[("memory.swap.max", Limit::NoSwap)],
    },
];

/// The groups that this thread is in.
pub(super) struct ControlGroup {
    entered: Vec<Group>,
}

struct Group {
    path: PathBuf,
    before: PathBuf,
    limits_memory: bool,
}

/// Groups that this thread was in; they go when all processes have left them.
pub(super) struct Left {
    paths: Vec<PathBuf>,
}

impl ControlGroup {
    /// Enters new groups, as far as they can be made.
    pub(super) fn enter(cage: &Cage) -> Self {
        let own = own_groups();
        let made = HIERARCHIES
            .iter()
            .filter_map(|hierarchy| hierarchy.make(&own, &cage.bounds));
        let entered = made.filter(|group| {
            let is_in = join(&group.path).is_ok();
            if !is_in {
                let _ = fs::remove_dir(&group.path);
            }
            is_in
        });
        Self {
            entered: entered.collect(),
        }
    }

    /// Goes back, and leaves what was started in them.
    pub(super) fn leave(self) -> Left {
        let paths = self.entered.into_iter().map(|group| {
            // If that fails we are counted too, and the group stays: a name in a list.
            let _ = join(&group.before);
            group.path
        });
        Left {
            paths: paths.collect(),
        }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_dir(path);
        }
    }
}

/// Whether the memory of a whole command can be limited here, found out by trying. Blocks.
#[must_use]
pub fn can_limit_memory() -> bool {
    let own = own_groups();
    let bounds = Bounds {
        processes: 1,
        memory_bytes: u64::MAX,
        total_memory_bytes: 1 << 30,
        file_bytes: u64::MAX,
    };
    let made = HIERARCHIES
        .iter()
        .filter_map(|hierarchy| hierarchy.make(&own, &bounds));
    let groups: Vec<Group> = made.collect();
    for group in &groups {
        let _ = fs::remove_dir(&group.path);
    }
    groups.iter().any(|group| group.limits_memory)
}

impl Hierarchy {
    /// Makes a group in the one that this process is in, or else in one above it: beneath a group
    /// with processes of its own, the newer interface limits nothing. Where the limits of the
    /// enclosing groups can hold as well, they do.
    fn make(&self, own: &str, bounds: &Bounds) -> Option<Group> {
        let top = Path::new(self.top);
        let before = top.join(place(own, self.controller).trim_start_matches('/'));
        // In a container the list may name a path that only the machine outside has.
        let before = Some(before).filter(|path| path.is_dir());
        let before = before.unwrap_or_else(|| top.to_owned());
        let name = format!("fastness-{}", uuid::Uuid::new_v4().simple());
        let above = before.ancestors().take_while(|path| path.starts_with(top));
        let mut groups = above.filter_map(|above| {
            let path = above.join(&name);
            fs::create_dir(&path).ok()?;
            let limits_memory = self.limit(&path, bounds);
            if limits_memory.is_none() {
                let _ = fs::remove_dir(&path);
            }
            Some((path, limits_memory?))
        });
        let (path, limits_memory) = groups.next()?;
        Some(Group {
            path,
            before,
            limits_memory,
        })
    }

    /// Sets the limits. Says whether memory is among them; `None` if nothing is limited.
    fn limit(&self, group: &Path, bounds: &Bounds) -> Option<bool> {
        let set = |(name, limit): &(&str, Limit)| {
            let path = group.join(name);
            // It must not be made where it is not.
            let file = fs::OpenOptions::new().write(true).open(path);
            let value = limit.value(bounds).to_string();
            file.and_then(|mut file| file.write_all(value.as_bytes()))
                .ok()
                .map(|()| *limit)
        };
        let held: Vec<Limit> = self.limits.iter().filter_map(set).collect();
        // Those limits hold without these.
        let _ = self.stricter.iter().filter_map(set).count();
        let is_memory = |limit: &Limit| matches!(limit, Limit::Memory);
        (!held.is_empty()).then(|| held.iter().any(is_memory))
    }
}

impl Limit {
    fn value(self, bounds: &Bounds) -> u64 {
        match self {
            Self::Processes => bounds.processes,
            Self::Memory => bounds.total_memory_bytes.min(share_of_memory()),
            Self::NoSwap => 0,
        }
    }
}

/// As much of this machine's memory as one command may have.
fn share_of_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    total.map_or(u64::MAX, |kilobytes| {
        kilobytes * 1024 / 100 * COMMAND_MEMORY_PERCENT_MAX
    })
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

fn own_groups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The group that a process is in, by its `list`, in the hierarchy of `controller`.
fn place<'a>(list: &'a str, controller: &str) -> &'a str {
    let mut lines = list.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let found = lines.find(|(controllers, _)| controllers.split(',').any(|one| one == controller));
    found.map_or("/", |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::{place, share_of_memory};

    #[test]
    fn the_group_of_a_process_is_read_from_either_list() {
        let old = "9:name=systemd:/\n8:pids:/jobs/one\n4:cpu,cpuacct:/two\n0::/three\n";
        assert_eq!(place(old, "pids"), "/jobs/one");
        assert_eq!(place(old, "memory"), "/");
        assert_eq!(place(old, ""), "/three");
        assert_eq!(place("", ""), "/");
    }

    #[test]
    fn a_command_gets_part_of_the_memory_of_this_machine() {
        let share = share_of_memory();
        assert!(share > 64 << 20 && share < u64::MAX, "{share}");
    }
}
