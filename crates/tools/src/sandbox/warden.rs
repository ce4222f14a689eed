//! The warden: a small shell that outlives this process by a moment, to end what it left running.
//!
//! It reads from a pipe which groups have begun and ended. The pipe closes when this process is
//! gone, however it went, and the warden kills the groups that are still there.

use std::io::{self, Write as _};
use std::process::{ChildStdin, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

/// It ignores what a terminal or a service manager sends to everybody: its time comes last.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=
while read -r what group; do
    rest=
    for known in $groups; do
        [ "$known" = "$group" ] || rest="$rest $known"
    done
    groups=$rest
    [ "$what" = add ] && groups="$groups $group"
done
for group in $groups; do
    kill -9 -"$group"
done
"#;

/// Started with the first process, one for all.
static WARDEN: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// Has the group `id` killed if this process dies before it [`forget`]s it.
pub(super) fn watch(id: Pid) {
    tell("add", id);
}

/// The group `id` is gone.
pub(super) fn forget(id: Pid) {
    tell("end", id);
}

fn tell(what: &str, id: Pid) {
    let mut warden = WARDEN.lock().unwrap_or_else(PoisonError::into_inner);
    let line = format!("{what} {}\n", id.as_raw_nonzero());
    let told = match &mut *warden {
        Some(pipe) => pipe.write_all(line.as_bytes()),
        None => hire().and_then(|mut pipe| {
            pipe.write_all(line.as_bytes())?;
            *warden = Some(pipe);
            Ok(())
        }),
    };
    if told.is_err() {
        // Somebody ended it. The next process gets a new one; what runs now is ended by us alone.
        *warden = None;
    }
}

#[expect(clippy::disallowed_methods, reason = "this is tools::sandbox")]
fn hire() -> io::Result<ChildStdin> {
    use std::os::unix::process::CommandExt as _;
    let mut shell = std::process::Command::new(super::SHELL);
    shell
        .args(["-c", SCRIPT])
        // It must not keep a directory busy.
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = shell.spawn()?;
    let pipe = child.stdin.take();
    pipe.ok_or_else(|| io::Error::other("the warden has no pipe"))
}
