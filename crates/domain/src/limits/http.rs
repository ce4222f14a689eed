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

/// Ways to look at one session that its owner may have handed out at once: a team, not a public.
pub const SHARES_PER_SESSION_MAX: usize = 16;

/// The same for all sessions of one owner: the file that holds them is read whole.
pub const SHARES_PER_OWNER_MAX: usize = 256;

/// How long a share is good unless said otherwise: until the same time tomorrow.
pub const SHARE_TIME: Duration = Duration::from_secs(24 * 3_600);

/// Longest time a share is good: what lasts longer is a token that somebody looks after.
pub const SHARE_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Sessions that one reader of a live list may be behind by; further behind it gets a list anew.
/// Each takes about 50 bytes while it waits.
pub const CHANGED_SESSIONS_MAX: usize = 4_096;

/// Sessions that one event of a live list tells of: about 50 KB, which a page draws at once.
pub const CHANGES_PER_EVENT_MAX: usize = 128;

/// Shortest time between two events of a live list: no eye needs more, and a session that streams
/// changes far more often.
pub const CHANGES_EVERY: Duration = Duration::from_millis(250);

/// Names of files that are offered for what was typed: more than fit a screen.
pub const FILE_NAMES_MAX: usize = 100;

/// Names of files that are offered unless said otherwise.
pub const FILE_NAMES: usize = 20;

/// Bytes of what was typed of a file's name: paths are seldom longer.
pub const FILE_QUERY_BYTES_MAX: usize = 256;

/// How long names of files are looked for: somebody is typing.
pub const FILE_NAMES_TIME_MAX: Duration = Duration::from_secs(2);

/// Files that are looked at for names: a large repository; what lies beyond is not offered.
pub const FILES_LOOKED_AT_MAX: usize = 200_000;

/// Connections that are shown one by one, those with most waiting first; all are counted.
pub const CONNECTIONS_SHOWN_MAX: usize = 200;

/// Bytes of a request's body that are read and thrown away when its handler did not want them, so
/// that the connection can be used again. For a longer rest a new connection costs less.
pub const UNREAD_BODY_BYTES_MAX: usize = 64 * 1024;

/// How long an answer waits for such a rest to arrive. Most of it is there already; a client that
/// sends slowly gets its answer, and the connection closes.
pub const UNREAD_BODY_WAIT: Duration = Duration::from_millis(100);

/// Principals whose request rate is remembered at once. Each is a token that the operator or an
/// owner of sessions made, so real servers have far fewer.
pub const REQUEST_RATES_MAX: usize = 10_000;
