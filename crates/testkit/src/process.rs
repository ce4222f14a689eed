//! What the kernel says about a running process, and signals that stop and continue it.

use std::path::Path;

use rustix::process::{Pid, Signal};

use crate::program::Program;

impl Program {
    /// How many files and sockets the server has open.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.running());
        match std::fs::read_dir(Path::new(&path)) {
            Ok(entries) => entries.count(),
            Err(error) => panic!("{path} cannot be read: {error}"),
        }
    }

    /// Memory that the server uses now, in bytes.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        memory_of(self.running(), "VmRSS:")
    }

    /// Most memory that the server has used so far, in bytes.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn resident_bytes_peak(&self) -> u64 {
        memory_of(self.running(), "VmHWM:")
    }

    /// Has [`Program::resident_bytes_peak`] begin anew with what is used now.
    ///
    /// # Panics
    /// If it has ended, or the kernel does not do it.
    pub fn forget_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.running());
        if let Err(error) = std::fs::write(&path, "5") {
            panic!("{path} cannot be written: {error}");
        }
    }

    /// Stops the server where it is, as a machine that is suspended.
    ///
    /// # Panics
    /// If it has ended.
    pub fn suspend(&self) {
        signal(self.running(), Signal::STOP);
    }

    /// Lets a suspended server go on.
    ///
    /// # Panics
    /// If it has ended.
    pub fn wake(&self) {
        signal(self.running(), Signal::CONT);
    }

    fn running(&self) -> u32 {
        match self.pid() {
            Some(pid) => pid,
            None => panic!("the server has ended; it said:\n{}", self.stderr()),
        }
    }
}

/// A line of `/proc/PID/status` that tells an amount of memory, in bytes.
///
/// # Panics
/// If there is no such process or line.
#[must_use]
pub fn memory_of(pid: u32, name: &str) -> u64 {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match kibibytes {
        Some(kibibytes) => kibibytes * 1024,
        None => panic!("{path} has no {name}"),
    }
}

fn signal(pid: u32, signal: Signal) {
    let sent =
        Pid::from_raw(pid.cast_signed()).map(|pid| rustix::process::kill_process(pid, signal));
    assert!(matches!(sent, Some(Ok(()))), "no signal to {pid}: {sent:?}");
}
