//! What kind of thing a body is, by what the server says and by how it begins.

use http::{HeaderMap, header};

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page of HTML.
    Html,
    /// Text of any other kind, JSON and code among them.
    Text,
    /// Anything else.
    Binary,
}

/// What the server said.
pub(super) struct Declared {
    /// `type/subtype` in lower case, or empty.
    pub(super) essence: String,
    pub(super) charset: Option<String>,
}

/// How far into a body its kind can be told.
const SNIFFED_BYTES: usize = 1024;

/// Beginnings of what servers send with a wrong type or none.
const MAGIC: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-elf"),
    (b"OggS", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x00asm", "application/wasm"),
];

/// Types that are text though their name does not begin with it.
const TEXTUAL: &[&str] = &[
    "application/json",
    "application/javascript",
    "application/ecmascript",
    "application/x-javascript",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/sql",
    "application/graphql",
    "application/x-sh",
    "application/x-httpd-php",
    "application/x-ndjson",
    "application/jsonl",
    "application/rtf",
    "application/x-tex",
    "application/x-www-form-urlencoded",
    "image/svg+xml",
    "message/rfc822",
];

pub(super) fn declared(headers: &HeaderMap) -> Declared {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let value = value.unwrap_or_default();
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let is_type = essence.bytes().all(|byte| byte.is_ascii_graphic()) && essence.len() <= 100;
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    Declared {
        essence: if is_type { essence } else { String::new() },
        charset,
    }
}

pub(super) fn kind(essence: &str, body: &[u8]) -> Kind {
    let start = &body[..body.len().min(SNIFFED_BYTES)];
    match essence {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "" | "application/octet-stream" | "text/plain" => sniffed(essence, start),
        text if text.starts_with("text/") || TEXTUAL.contains(&text) => Kind::Text,
        text if text.ends_with("+json") || text.ends_with("+xml") || text.ends_with("+yaml") => {
            Kind::Text
        }
        _ => Kind::Binary,
    }
}

/// Servers call everything `text/plain` or nothing when they do not know.
fn sniffed(essence: &str, start: &[u8]) -> Kind {
    let has_mark = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    let is_magic = MAGIC.iter().any(|(magic, _)| start.starts_with(magic));
    if is_magic || (start.contains(&0) && !has_mark) {
        return Kind::Binary;
    }
    let text = String::from_utf8_lossy(start).to_ascii_lowercase();
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let looks_like_page = text.starts_with("<!doctype html") || text.starts_with("<html");
    if essence.is_empty() && looks_like_page {
        return Kind::Html;
    }
    Kind::Text
}

/// What is said instead of showing a body.
pub(super) fn sentence(essence: &str, body: &[u8]) -> String {
    let magic = MAGIC.iter().find(|(magic, _)| body.starts_with(magic));
    let essence = match (essence, magic) {
        ("" | "application/octet-stream" | "text/plain", Some((_, essence))) => essence,
        ("", None) => "application/octet-stream",
        (essence, _) => essence,
    };
    let name = match essence {
        "application/pdf" => "a PDF document",
        _ if essence.starts_with("image/") => "an image",
        _ if essence.starts_with("audio/") => "a sound recording",
        _ if essence.starts_with("video/") => "a video",
        _ if essence.starts_with("font/") => "a font",
        _ => "a binary file",
    };
    let size = size(body.len());
    format!("This is {name} ({essence}, {size}). Its content cannot be shown as text.")
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
