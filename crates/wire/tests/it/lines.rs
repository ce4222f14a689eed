//! JSON lines: cut anywhere, ended anyhow, bounded always.

use wire::lines::{LineParser, LineTooLong};

fn lines(stream: &[u8], size: usize) -> Vec<String> {
    let mut parser = LineParser::new(100);
    let mut lines = Vec::new();
    for chunk in stream.chunks(size) {
        lines.extend(parser.push(chunk).unwrap());
    }
    lines.extend(parser.finish().unwrap());
    lines
}

#[test]
fn lines_are_the_same_however_the_stream_is_cut() {
    let table: &[(&[u8], &[&str])] = &[
        (b"{\"a\":1}\n{\"b\":2}\n", &["{\"a\":1}", "{\"b\":2}"]),
        (b"{}\r\n\r\n\n  {}", &["{}", "{}"]),
        ("\"\u{2028}☕\"\n".as_bytes(), &["\"\u{2028}☕\""]),
        (b"\xff\n", &["\u{fffd}"]),
        (b"", &[]),
    ];
    for (stream, expected) in table {
        for size in 1..=stream.len().max(1) {
            assert_eq!(lines(stream, size), *expected, "{stream:?} by {size}");
        }
    }
}

#[test]
fn a_line_beyond_the_limit_ends_the_stream() {
    let too_long = LineTooLong { bytes_max: 8 };
    let mut parser = LineParser::new(8);
    assert_eq!(parser.push(b"12345678\n123").unwrap(), ["12345678"]);
    assert_eq!(parser.push(b"456789"), Err(too_long));
    assert_eq!(parser.push(b"\n"), Err(too_long));
    assert_eq!(parser.finish(), Err(too_long));
}
