//! Any bytes as a stream of events, cut anywhere: the cuts must not change what is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::sse::{EventTooLarge, SseEvent, SseParser};

const EVENT_BYTES_MAX: usize = 256;

fuzz_target!(|input: (usize, &[u8])| {
    let (size, stream) = input;
    let whole = read(stream, stream.len());
    let cut = read(stream, size % 16 + 1);
    assert_eq!(whole, cut);
});

/// All events, or the first error, of `stream` in chunks of `size` bytes.
fn read(stream: &[u8], size: usize) -> Result<Vec<SseEvent>, EventTooLarge> {
    let mut parser = SseParser::new(EVENT_BYTES_MAX);
    let mut events = Vec::new();
    for chunk in stream.chunks(size.max(1)) {
        events.extend(parser.push(chunk)?);
    }
    events.extend(parser.finish()?);
    for event in &events {
        assert!(event.data.len() <= EVENT_BYTES_MAX, "an event is too large");
    }
    Ok(events)
}
