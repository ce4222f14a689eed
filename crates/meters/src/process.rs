//! What the system says about this process, read when somebody asks. Nothing where there is no
//! `/proc`.

use std::fs;

use domain::clock::Timestamp;

/// The unit of times in `/proc/self/stat`, the same on every Linux that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// One look at the process.
#[derive(Debug, Default)]
pub struct Process {
    /// Memory in use.
    pub resident_bytes: Option<f64>,
    /// Processor time used.
    pub cpu_seconds: Option<f64>,
    /// How long it has run.
    pub uptime_seconds: Option<f64>,
    /// When it started, since 1970.
    pub start_seconds: Option<f64>,
    /// Descriptors in use.
    pub fds: Option<f64>,
    /// Descriptors it may use.
    pub fds_max: Option<f64>,
    /// Threads.
    pub threads: Option<f64>,
}

impl Process {
    /// Looks. Reads a few files, which may take a moment.
    #[must_use]
    pub fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let since_boot = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let ticks = |field| stat_field(&stat, field).map(|ticks| ticks / TICKS_PER_SECOND);
        let uptime = first_number(&since_boot)
            .zip(ticks(22))
            .map(|(now, start)| now - start);
        Self {
            resident_bytes: after(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024.0),
            threads: after(&status, "Threads:"),
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| user + system),
            uptime_seconds: uptime,
            start_seconds: uptime.map(|uptime| Timestamp::now().0 - uptime),
            fds: open_files(),
            fds_max: after(&limits, "Max open files"),
        }
    }
}

/// Descriptors in use, without the one that counts them.
fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    let count = u32::try_from(count).ok()?;
    Some(f64::from(count.saturating_sub(1)))
}

/// The number that follows `key` on its line.
fn after(text: &str, key: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    first_number(rest)
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// A field of `/proc/self/stat` by its number in the manual. The name, which is the second, may
/// hold anything, so fields are counted from its closing bracket.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    fields.nth(number - 3)?.parse().ok()
}
