//! What was fetched, made readable: HTML as Markdown, text as it is, anything else by name and size.
//!
//! [`Page::read`] takes a moment for large pages; call it where blocking is fine. Whatever a page
//! contains, reading it takes time and memory in proportion to its size and cannot fail.

mod charset;
mod html;
mod media;

use http::StatusCode;
use url::Url;

use crate::answer::{End, Response};

pub use charset::Decoded;
pub use media::Kind;

/// A page as a person or a model reads it.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where it came from, after all redirects.
    pub url: Url,
    /// The status of the response.
    pub status: StatusCode,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// What the server called it, without parameters; empty if it did not say.
    pub content_type: String,
    /// Markdown, the text itself, or a sentence about what cannot be shown.
    pub text: String,
    /// The charset it was read in; `None` for what is not text.
    pub charset: Option<&'static str>,
    /// Whether some bytes did not fit that charset and were replaced.
    pub is_lossy: bool,
    /// Whether all of it came, and was read.
    pub end: End,
    /// Size of the body, decompressed.
    pub body_bytes: usize,
}

/// A part of a page's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<'a> {
    /// The part.
    pub text: &'a str,
    /// Where to go on, in characters from the start; `None` at the end.
    pub next_offset: Option<usize>,
}

impl Page {
    /// Makes a response readable.
    #[must_use]
    pub fn read(response: &Response) -> Self {
        let declared = media::declared(&response.headers);
        let kind = media::kind(&declared.essence, &response.body);
        let mut page = Self {
            url: response.url.clone(),
            status: response.status,
            title: None,
            kind,
            content_type: declared.essence,
            text: String::new(),
            charset: None,
            is_lossy: false,
            end: response.end,
            body_bytes: response.body.len(),
        };
        if kind == Kind::Binary {
            page.text = media::sentence(&page.content_type, &response.body);
            return page;
        }
        let is_html = kind == Kind::Html;
        let decoded = charset::decode(&response.body, declared.charset.as_deref(), is_html);
        page.charset = Some(decoded.charset);
        page.is_lossy = decoded.is_lossy;
        page.text = decoded.text;
        if is_html {
            let read = html::read(&page.text, &page.url);
            page.title = read.title;
            page.text = read.markdown;
            if read.is_cut {
                page.end = End::CutAtLimit;
            }
        }
        page
    }

    /// At most `limit` characters of the text from `offset` on, cut at the end of a line if one is
    /// near.
    #[must_use]
    pub fn window(&self, offset: usize, limit: usize) -> Window<'_> {
        let at = |characters: usize, text: &str| {
            let found = text.char_indices().nth(characters);
            found.map(|(byte, _)| byte)
        };
        let Some(start) = at(offset, &self.text) else {
            return Window {
                text: "",
                next_offset: None,
            };
        };
        let rest = &self.text[start..];
        let Some(end) = at(limit, rest) else {
            return Window {
                text: rest,
                next_offset: None,
            };
        };
        // A fifth of the window is not too much to give for a whole line.
        let line_end = rest[..end].rfind('\n').map(|line| line + 1);
        let end = line_end.filter(|line| *line > end / 5 * 4).unwrap_or(end);
        let text = &rest[..end];
        let next_offset = Some(offset + text.chars().count());
        Window { text, next_offset }
    }
}
