//! How many files and sockets this process may have open, and how they are shared.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that sockets leave for the files of sessions, where there are many: each live
/// session has a few.
const FILES_MIN: u64 = 4_096;

/// Raises the limit as far as the system lets us, and says how many sockets may be open: all but
/// what the files of sessions need, so that a flood of connections stops no session.
pub(crate) fn for_sockets() -> usize {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    // What cannot be raised still is a limit, and is kept to.
    let _ = setrlimit(Resource::Nofile, most);
    let all = getrlimit(Resource::Nofile).current;
    share(all.unwrap_or(u64::MAX))
}

fn share(all: u64) -> usize {
    let sockets = all - FILES_MIN.min(all / 2);
    usize::try_from(sockets).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn sockets_leave_room_for_files() {
        assert_eq!(share(64), 32);
        assert_eq!(share(1_024), 512);
        assert_eq!(share(20_000), 15_904);
        assert_eq!(share(0), 1);
    }
}
