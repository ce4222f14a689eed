//! What is asked for, and what comes back.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

/// A request. What the caller adds goes to the first origin only.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where to; it is parsed and judged by the guard.
    pub url: String,
    /// Headers of the caller. Those that govern the connection cannot be set.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Request {
    /// A plain GET.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            url: url.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }
}

/// The response at the end of all redirects.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its status; also errors of the server are responses.
    pub status: StatusCode,
    /// Where it came from.
    pub url: Url,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, decompressed.
    pub body: Bytes,
    /// Whether that is all of it.
    pub end: End,
    /// The URLs on the way, without the last one.
    pub redirects: Vec<Url>,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All of it is there.
    Whole,
    /// It was cut at the limit; there would have been more.
    CutAtLimit,
}
