//! Any bytes as a page, in any charset: it is read, and what comes out steers no terminal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use netguard::page::{Kind, Page};
use netguard::{End, Response};

const TYPES: &[&str] = &[
    "text/html",
    "text/html; charset=utf-8",
    "text/html; charset=gbk",
    "text/plain",
    "",
];

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, body) = input;
    let mut headers = http::HeaderMap::new();
    let content_type = TYPES[usize::from(kind) % TYPES.len()];
    headers.insert("content-type", http::HeaderValue::from_static(content_type));
    let page = Page::read(&Response {
        status: http::StatusCode::OK,
        url: url::Url::parse("https://site.example/a/b").expect("a URL"),
        headers,
        body: body.to_vec().into(),
        end: End::Whole,
        redirects: Vec::new(),
    });
    if page.kind == Kind::Html {
        let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!page.text.contains(steers), "{:?}", page.text);
    }
    // A window is found by counting, so that many small ones of a long page would be all we do.
    let letters_max = 7 + page.text.len() / 16;
    let mut offset = Some(0);
    let mut joined = String::new();
    while let Some(from) = offset {
        let window = page.window(from, letters_max);
        joined.push_str(window.text);
        offset = window.next_offset;
    }
    assert_eq!(joined, page.text, "the windows do not join");
});
