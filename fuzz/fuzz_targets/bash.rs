//! Commands that bytes choose by a grammar: what the reader of permission rules says it knows, bash runs just so.

#![no_main]

use std::sync::LazyLock;

use agent::permissions::soak::{Choices, Jail, check};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// Where commands run. It lasts as long as the process.
static JAIL: LazyLock<(TempDir, Jail)> = LazyLock::new(|| {
    let place = tempfile::tempdir().expect("a directory");
    let jail = Jail::new(place.path()).expect("a jail");
    (place, jail)
});

fuzz_target!(|bytes: &[u8]| {
    let (_, jail) = &*JAIL;
    if let Err(why) = check(&mut Choices::from_bytes(bytes), jail) {
        panic!("{why}");
    }
});
