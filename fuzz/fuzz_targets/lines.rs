//! Any bytes as JSON lines, cut anywhere: the cuts must not change what is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::lines::{LineParser, LineTooLong};

const LINE_BYTES_MAX: usize = 256;

fuzz_target!(|input: (usize, &[u8])| {
    let (size, stream) = input;
    let whole = read(stream, stream.len());
    let cut = read(stream, size % 16 + 1);
    assert_eq!(whole, cut);
});

/// All lines, or the first error, of `stream` in chunks of `size` bytes.
fn read(stream: &[u8], size: usize) -> Result<Vec<String>, LineTooLong> {
    let mut parser = LineParser::new(LINE_BYTES_MAX);
    let mut lines = Vec::new();
    for chunk in stream.chunks(size.max(1)) {
        lines.extend(parser.push(chunk)?);
    }
    lines.extend(parser.finish()?);
    assert!(lines.iter().all(|line| !line.contains('\n')));
    Ok(lines)
}
