//! The bounds of the client library and the bridge.

use std::time::Duration;

/// Updates of one prompt that wait in the client library; small, so that a caller who does not read
/// is felt by the server, whose journal keeps the rest.
pub const CLIENT_UPDATES_MAX: usize = 256;

/// How long saying goodbye may take: a peer that left does not hear it.
pub const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Requests that a lasting connection keeps until they are answered, to send them again when the
/// connection was lost: as many as the server takes at once, and its prompts in a queue.
pub const KEPT_REQUESTS_MAX: usize = 128;

/// Bytes of those requests: four of the largest, for each is kept in memory.
pub const KEPT_REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Sessions that one lasting connection keeps: more than an editor shows, and each comes back with
/// a request of its own.
pub const KEPT_SESSIONS_MAX: usize = 1_024;

/// Own prompts that are remembered of one session, so that they are not shown to who wrote them:
/// only those since the last update can come again.
pub const KEPT_PROMPTS_MAX: usize = 64;

/// Answers to questions that are remembered in case that the connection was lost before they
/// arrived; there are as many at once as tools run side by side.
pub const KEPT_ANSWERS_MAX: usize = 64;

/// Messages of a caller that wait while its connection is made anew; what is more waits where it
/// comes from.
pub const STASHED_FRAMES_MAX: usize = 16;

/// Messages between a lasting connection and its caller: few, because each may be of the largest
/// size, and a caller that reads slowly should be felt by the server.
pub const LINK_FRAMES_MAX: usize = 8;

/// How often a subscription tries to read the journal again when no file descriptor is left: soon
/// enough that a client hardly notices.
pub const OPEN_FILES_RETRY_EVERY: Duration = Duration::from_millis(250);

/// How long it tries before its client is detached: as long as a stalled client is waited for.
pub const OPEN_FILES_WAIT_MAX: Duration = Duration::from_secs(60);
