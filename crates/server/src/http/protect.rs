//! Headers of every answer, from a route, from the gate, or from HTTP itself.
//!
//! The page sets its own caching; whatever a handler has set stays.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// The headers with their values: a browser must not guess what an answer is, keep it, or embed it
/// in another site.
const HEADERS: [(HeaderName, &str); 3] = [
    (NOSNIFF, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Only answers of ours have it, so it also tells them from those that the HTTP library makes.
pub(super) const NOSNIFF: HeaderName = header::X_CONTENT_TYPE_OPTIONS;

/// Adds what is missing.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

/// The same as lines of an HTTP/1.1 answer.
pub(super) fn lines() -> String {
    let line = |(name, value): (HeaderName, &str)| format!("{name}: {value}\r\n");
    HEADERS.map(line).concat()
}
