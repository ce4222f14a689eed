//! Threads that wait for the disk.
//!
//! Every turn goes to one at least twice. The runtime's own pool wakes a thread while it still holds
//! the lock that this thread needs first, so each way costs two more switches; with many sessions
//! that was a tenth of all time. Here the lock is let go before anybody is woken.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use domain::limits::{DISK_THREAD_IDLE_TIME, DISK_THREADS_MAX};

type Job = Box<dyn FnOnce() + Send>;

/// The threads of this process, once [`start`] was called.
static THREADS: OnceLock<Threads> = OnceLock::new();

/// Has this process wait for the disk on threads of its own from now on. For programs: in a test
/// with paused time the clock must know what is waited for, so there the runtime's pool does it.
pub fn start() {
    THREADS.get_or_init(Threads::default);
}

/// The threads, if there are any.
pub(crate) fn get() -> Option<&'static Threads> {
    THREADS.get()
}

/// As many threads as there is work for, and no more than [`DISK_THREADS_MAX`].
#[derive(Default)]
pub(crate) struct Threads {
    shared: Mutex<Shared>,
    called: Condvar,
}

#[derive(Default)]
struct Shared {
    /// What waits for a thread: one job of a session at a time, so no more than there are sessions.
    jobs: VecDeque<Job>,
    /// Threads that wait to be called.
    idle: usize,
    /// How many of those that waited were called and have not come yet.
    called: usize,
    /// All threads.
    threads: usize,
}

impl Threads {
    /// Has `job` done, soon and in no particular order. It is dropped if there is no thread to do it
    /// and none can be made.
    pub(crate) fn run(&'static self, job: Job) {
        let mut shared = self.lock();
        shared.jobs.push_back(job);
        if shared.called >= shared.jobs.len() {
            // A thread on its way will find it: a busy one was faster with what it was called for.
            return;
        }
        if shared.idle > 0 {
            shared.idle -= 1;
            shared.called += 1;
            drop(shared);
            return self.called.notify_one();
        }
        if shared.threads == DISK_THREADS_MAX {
            return;
        }
        shared.threads += 1;
        drop(shared);
        let thread = std::thread::Builder::new().name("disk".to_owned());
        if thread.spawn(|| self.work()).is_err() {
            let mut shared = self.lock();
            shared.threads -= 1;
            if shared.threads == 0 {
                shared.jobs.clear();
            }
        }
    }

    /// Does what there is to do until there was nothing for a while.
    fn work(&self) {
        let mut shared = self.lock();
        loop {
            while let Some(job) = shared.jobs.pop_front() {
                drop(shared);
                // Whoever waits for it learns of a panic by not getting an answer.
                let _ = catch_unwind(AssertUnwindSafe(job));
                shared = self.lock();
            }
            shared.idle += 1;
            while shared.called == 0 {
                let waited = self.called.wait_timeout(shared, DISK_THREAD_IDLE_TIME);
                let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                shared = back;
                if timeout.timed_out() && shared.called == 0 {
                    shared.idle -= 1;
                    shared.threads -= 1;
                    return;
                }
            }
            shared.called -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No one panics while holding it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use super::{DISK_THREADS_MAX, Threads};

    const SOON: Duration = Duration::from_secs(10);

    fn threads() -> &'static Threads {
        Box::leak(Box::default())
    }

    #[test]
    fn every_job_is_done_once_however_many_there_are() {
        let threads = threads();
        let (done, all) = mpsc::channel();
        for number in 0..5_000 {
            let done = done.clone();
            threads.run(Box::new(move || done.send(number).unwrap()));
        }
        let mut numbers: Vec<_> = (0..5_000)
            .map(|_| all.recv_timeout(SOON).unwrap())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..5_000));
        assert!(threads.lock().threads <= DISK_THREADS_MAX);
    }

    #[test]
    fn jobs_wait_beside_each_other_up_to_as_many_as_there_may_be_threads() {
        let threads = threads();
        let together = Arc::new(Barrier::new(DISK_THREADS_MAX));
        let (done, all) = mpsc::channel();
        for _ in 0..DISK_THREADS_MAX {
            let (done, together) = (done.clone(), Arc::clone(&together));
            threads.run(Box::new(move || {
                together.wait();
                done.send(()).unwrap();
            }));
        }
        for _ in 0..DISK_THREADS_MAX {
            all.recv_timeout(SOON).unwrap();
        }
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_along() {
        let threads = threads();
        for _ in 0..2 * DISK_THREADS_MAX {
            threads.run(Box::new(|| panic!("as a test")));
        }
        let (done, all) = mpsc::channel();
        threads.run(Box::new(move || done.send(()).unwrap()));
        all.recv_timeout(SOON).unwrap();
    }
}
