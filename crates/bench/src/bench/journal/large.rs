//! A session of 1 GB and a million events: memory, the first event, and one near the end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use domain::{EventSeq, SessionId};
use journal::FileStore;

use super::failed;
use super::replay::{generate, open, read_all};
use crate::Failure;
use crate::bench::table::{Row, Table, mebibytes, time};
use crate::bench::{Plan, because};

/// The hidden command that does one thing with the large session and tells what it weighed.
pub(crate) const WEIGH: &str = "bench-weigh";

/// How near to the end the late read is.
const NEAR_END: u64 = 10;

pub(in crate::bench) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let store = FileStore::open(folder.path()).map_err(failed)?;
    eprintln!("generating {} events …", plan.large_events);
    let (id, path) = generate(&store, folder.path(), plan.large_events)?;
    let bytes = path
        .metadata()
        .map_err(because("cannot look at the log"))?
        .len();
    let of = format!("{} events, {:.2} GB", plan.large_events, bytes as f64 / 1e9);
    // A store that has seen nothing yet, as after a start.
    let store = FileStore::open(folder.path()).map_err(failed)?;
    for (what, after) in [
        ("first event", 0),
        (
            "read after N, 10 before the end",
            plan.large_events - NEAR_END,
        ),
    ] {
        let started = Instant::now();
        let mut reader = store.reader(id).map_err(failed)?;
        let found = reader.read_after(EventSeq(after), EventSeq(u64::MAX), 1, 4096);
        let elapsed = started.elapsed();
        match found.map_err(failed)?.first() {
            Some(event) if event.seq.0 == after + 1 => {}
            other => return Err(format!("asked for {}, got {other:?}", after + 1)),
        }
        table.push(Row {
            what: &format!("{what}: {of}"),
            measured: time(elapsed),
            beside: String::new(),
            ratio: None,
            aim: "< 100 ms",
        });
    }
    for (what, work) in [("read", READ), ("open, with recovery", OPEN)] {
        let started = Instant::now();
        let growth = weigh_apart(folder.path(), id, work)?;
        let elapsed = started.elapsed();
        let rate = bytes as f64 / 1e6 / elapsed.as_secs_f64();
        table.push(Row {
            what: &format!("memory growth, {what}: {of}"),
            measured: mebibytes(growth),
            beside: format!("{}, {rate:.0} MB/s", time(elapsed)),
            ratio: None,
            aim: "< 32 MB",
        });
    }
    Ok(())
}

/// The hidden command's other half: does the work and prints by how much memory grew.
pub(crate) fn weigh(arguments: &[String]) -> Result<(), Failure> {
    let [folder, id, work] = arguments else {
        return Err("weigh takes a folder, a session and the work".to_owned());
    };
    let id = id.parse().map_err(because("not a session"))?;
    let store = FileStore::open(Path::new(folder)).map_err(failed)?;
    let before = Memory::mark()?;
    match work.as_str() {
        READ => read_all(&store, id)?,
        _ => open(&store, id)?,
    }
    println!("{}", before.growth()?);
    Ok(())
}

const READ: &str = "read";
const OPEN: &str = "open";

/// Does the work in a process of its own, which has no memory to use again.
fn weigh_apart(folder: &Path, id: SessionId, work: &str) -> Result<u64, Failure> {
    let program = std::env::current_exe().map_err(because("cannot find this program"))?;
    let output = Command::new(program)
        .arg(WEIGH)
        .arg(folder)
        .args([&id.to_string(), work])
        .stderr(Stdio::inherit())
        .output()
        .map_err(because("cannot start this program"))?;
    let growth = String::from_utf8_lossy(&output.stdout);
    growth.trim().parse().map_err(because("weighing failed"))
}

/// What this process weighed at some moment.
struct Memory {
    resident: u64,
}

impl Memory {
    /// Notes what is in use now and forgets the peak so far.
    fn mark() -> Result<Self, Failure> {
        std::fs::write("/proc/self/clear_refs", "5")
            .map_err(because("the kernel does not forget the peak of memory"))?;
        Ok(Self {
            resident: status("VmRSS:")?,
        })
    }

    /// How far above that the peak since then was.
    fn growth(&self) -> Result<u64, Failure> {
        Ok(status("VmHWM:")?.saturating_sub(self.resident))
    }
}

/// A line of `/proc/self/status`, in bytes.
fn status(name: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status");
    let status = status.map_err(because("cannot read our own status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| format!("the kernel does not say {name}"))
}
