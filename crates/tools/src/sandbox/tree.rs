//! The processes of this machine, as far as they can be seen, and ending some of them.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal};

/// Sends `signal` to every descendant of `ancestor`, wherever they went: a process can leave its
/// group and its session, but not its parents, as long as one of them collects orphans. The one to
/// `spare` gets none.
pub(super) fn signal_descendants(ancestor: Pid, signal: Signal, spare: Option<Pid>) {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for pid in pids() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![ancestor];
    while let Some(pid) = found.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            if spare != Some(child) {
                // One that has ended meanwhile is what was wanted.
                let _ = rustix::process::kill_process(child, signal);
            }
            found.push(child);
        }
    }
}

/// Sends `signal` to every process that was started with the variable `name` set to `value`.
///
/// A process can hide from this, so it only helps where its parents are gone.
pub(super) fn signal_marked(name: &str, value: &str, signal: Signal) {
    let mark = format!("{name}={value}");
    for pid in pids() {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
        let is_marked = environment.is_ok_and(|environment| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == mark.as_bytes())
        });
        if is_marked {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Processes and threads that this user has, on the whole machine.
pub(super) fn tasks_of_this_user() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::getuid().as_raw();
    let own = pids().filter_map(|pid| {
        let directory = format!("/proc/{}", pid.as_raw_nonzero());
        let is_own = fs::metadata(&directory).is_ok_and(|metadata| metadata.uid() == user);
        // A directory has a link for each of those in it, and two of its own.
        let tasks = fs::metadata(format!("{directory}/task"));
        is_own.then(|| tasks.map_or(1, |tasks| tasks.nlink().saturating_sub(2).max(1)))
    });
    own.sum()
}

fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(number)
    })
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name stands in parentheses and may hold any character, also further ones.
    let (_, rest) = stat.rsplit_once(") ")?;
    let parent = rest.split(' ').nth(1)?;
    Pid::from_raw(parent.parse().ok()?)
}
