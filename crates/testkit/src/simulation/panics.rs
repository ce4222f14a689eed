//! Panics, of any task on any thread: whoever is served all the same, one is a bug.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// What panicked in this process.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

static HOOK: Once = Once::new();

/// How many there were so far; from now on all are seen.
pub(super) fn count() -> usize {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            seen().push(panic.to_string());
            before(panic);
        }));
    });
    seen().len()
}

/// Whether there were none after the first `count`.
pub(super) fn none_since(count: usize) -> Result<(), String> {
    match seen().get(count) {
        Some(panic) => Err(format!("a task panicked: {panic}")),
        None => Ok(()),
    }
}

fn seen() -> MutexGuard<'static, Vec<String>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}
