//! Any bytes from a terminal, cut anywhere: the cuts must not change which keys are read.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/src/chat/keys.rs"]
#[allow(dead_code, reason = "the chat uses all of it")]
mod keys;

use keys::{Decoder, Key};

fuzz_target!(|input: (usize, &[u8])| {
    let (size, bytes) = input;
    let whole = read(bytes, bytes.len());
    let cut = read(bytes, size % 16 + 1);
    assert_eq!(whole, cut);
});

/// All keys of `bytes` in chunks of `size` bytes.
fn read(bytes: &[u8], size: usize) -> Vec<Key> {
    let mut decoder = Decoder::default();
    let chunks = bytes.chunks(size.max(1));
    let mut keys: Vec<Key> = chunks.flat_map(|chunk| decoder.feed(chunk)).collect();
    if decoder.is_waiting() {
        keys.extend(decoder.give_up());
        assert!(!decoder.is_waiting(), "it waits for nothing");
    }
    keys
}
