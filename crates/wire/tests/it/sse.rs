//! Server-sent events: cut anywhere, ended anyhow, bounded always.

use wire::sse::{EventTooLarge, SseEvent, SseParser};

/// Every event as `event|data|id|retry`, the stream cut into chunks of `size` bytes.
fn events(stream: &[u8], size: usize) -> Vec<String> {
    let mut parser = SseParser::new(1_000);
    let mut shown = Vec::new();
    for chunk in stream.chunks(size) {
        shown.extend(parser.push(chunk).unwrap().iter().map(show));
    }
    shown.extend(parser.finish().unwrap().iter().map(show));
    shown
}

fn show(event: &SseEvent) -> String {
    let SseEvent {
        event,
        data,
        id,
        retry,
    } = event;
    let retry = retry.map(|retry| retry.to_string());
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    format!(
        "{}|{data}|{}|{}",
        or_dash(event),
        or_dash(id),
        or_dash(&retry)
    )
}

#[test]
fn events_are_the_same_however_the_stream_is_cut() {
    let table: &[(&[u8], &[&str])] = &[
        (b"data: a\n\ndata:b\n\n", &["-|a|-|-", "-|b|-|-"]),
        (b"data: a\r\n\r\ndata: b\r\r", &["-|a|-|-", "-|b|-|-"]),
        (b"\xef\xbb\xbfdata: a\n\n", &["-|a|-|-"]),
        (b"event: x\ndata: 1\ndata:  2\ndata\n\n", &["x|1\n 2\n|-|-"]),
        (b": comment\n:\n\ndata: a\n:c\ndata: b\n\n", &["-|a\nb|-|-"]),
        (
            b"id: 7\nretry: 30\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
            &["-|a|7|30", "-|b|7|-", "-|c||-"],
        ),
        (
            b"id: a\0b\nretry: 3x\nretry: \nunknown: 1\ndata: a\n\n",
            &["-|a|-|-"],
        ),
        (b"event: only\n\ndata: a\n\n", &["-|a|-|-"]),
        (b"data: \xe2\x82\xac\xff\n\n", &["-|\u{20ac}\u{fffd}|-|-"]),
        (b"data: unfinished", &["-|unfinished|-|-"]),
        (b"data: unfinished\n", &["-|unfinished|-|-"]),
        (b"event: x\n", &[]),
        (b"", &[]),
    ];
    for (stream, expected) in table {
        for size in 1..=stream.len().max(1) {
            assert_eq!(events(stream, size), *expected, "{stream:?} by {size}");
        }
    }
}

#[test]
fn an_event_beyond_the_limit_ends_the_stream() {
    let too_large = EventTooLarge { bytes_max: 20 };
    for endless in ["data: 0123456789\n", "event: a\ndata:\n", "x", ": c"] {
        let mut parser = SseParser::new(20);
        let failed = (0..100).find_map(|_| parser.push(endless.as_bytes()).err());
        assert_eq!(failed, Some(too_large), "{endless}");
        assert_eq!(parser.push(b"\n\n"), Err(too_large));
        assert_eq!(parser.finish(), Err(too_large));
    }
}

#[test]
fn the_limit_is_per_event_and_comments_do_not_add_up() {
    let mut parser = SseParser::new(20);
    for _ in 0..100 {
        assert_eq!(parser.push(b": keep alive\n").unwrap(), []);
        assert_eq!(parser.push(b"data: 0123456789\n\n").unwrap().len(), 1);
    }
}
