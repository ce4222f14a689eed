//! From bytes to text: a mark at the start, then the server, then the page itself, then a guess.

use chardetng::EncodingDetector;
use encoding_rs::{Encoding, UTF_8};

/// Text, and how it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The text.
    pub text: String,
    /// The name of the charset.
    pub charset: &'static str,
    /// Whether some bytes did not fit and were replaced.
    pub is_lossy: bool,
}

/// Pages declare their charset within this many bytes, says the standard.
const DECLARATION_BYTES: usize = 1024;

/// A guess gets no better by looking further.
const GUESSED_BYTES: usize = 64 << 10;

pub(super) fn decode(body: &[u8], declared: Option<&str>, is_html: bool) -> Decoded {
    let known = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let known = known.or_else(|| is_html.then(|| declared_inside(body)).flatten());
    let encoding = known.unwrap_or_else(|| guess(body));
    // A byte order mark wins over everything that was said.
    let (text, encoding, is_lossy) = encoding.decode(body);
    Decoded {
        text: text.into_owned(),
        charset: encoding.name(),
        is_lossy,
    }
}

/// `<meta charset=…>` or `<meta http-equiv content="…; charset=…">`.
fn declared_inside(body: &[u8]) -> Option<&'static Encoding> {
    let start = &body[..body.len().min(DECLARATION_BYTES)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    for tag in start.split("<meta").skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let Some((_, value)) = tag.split_once("charset") else {
            continue;
        };
        let value = value.trim_start().strip_prefix('=').unwrap_or_default();
        let value = value.trim_start().trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| c.is_whitespace() || "\"';/".contains(c));
        let label = &value[..end.unwrap_or(value.len())];
        let encoding = Encoding::for_label(label.as_bytes());
        if let Some(encoding) = encoding {
            // Whoever could be read this far did not write UTF-16.
            return Some(encoding.output_encoding()).filter(|_| !label.starts_with("utf-16"));
        }
    }
    None
}

fn guess(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new();
    detector.feed(&body[..body.len().min(GUESSED_BYTES)], true);
    detector.guess(None, true)
}
