//! The bounds of HTTP and of REST on it.

use std::time::Duration;

/// Bytes of a REST request body: a command, not a conversation.
pub const REST_BODY_BYTES_MAX: usize = 2_000_000;

/// Bytes of a refused request body that are read and thrown away, so that the answer reaches a
/// client that is still sending: the largest body any route takes, four times over.
pub const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long a refused request body is read on for.
pub const LINGER_WAIT: Duration = Duration::from_secs(2);

/// Headers of one request: a browser sends about twenty.
pub const HEADERS_MAX: usize = 100;

/// Bytes of one request's headers: four times what common proxies let through.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;

/// Bytes that HTTP buffers for one connection, or one HTTP/2 stream, in each direction: enough to
/// keep a local link busy, and little enough for ten thousand clients.
pub const HTTP_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Requests at once on one HTTP/2 connection: one stream for each session of a busy editor, and
/// as many requests as one client may have in flight.
pub const HTTP2_STREAMS_MAX: u32 = 256;

/// HTTP/2 streams that a client may have reset before we looked at them. More is an attack
/// ("rapid reset"), and ends the connection.
pub const HTTP2_RESETS_MAX: usize = 32;

/// Most events one page of a session's history holds.
pub const PAGE_EVENTS_MAX: usize = 1_000;

/// Bytes of events after which such a page ends; one larger event still passes alone.
pub const PAGE_EVENTS_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a title: a line, not a text.
pub const TITLE_BYTES_MAX: usize = 1024;

/// Longest time one REST request may wait for its turn to end: proxies give up soon after.
pub const PREFER_WAIT_MAX: Duration = Duration::from_secs(300);
