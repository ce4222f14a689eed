//! What one fetch may cost, each number with its reason.

use std::time::Duration;

/// The limits of a guard; the defaults suit a model that reads the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answering a name takes a resolver milliseconds; past this it is down, or holding us.
    pub resolve: Duration,
    /// TCP and TLS together. A host that needs longer is not going to be pleasant afterwards.
    pub connect: Duration,
    /// The longest silence: until the head is complete, and between two pieces of a body.
    pub idle: Duration,
    /// The whole fetch with all redirects; somebody waits for it.
    pub total: Duration,
    /// Bytes of a body after decompression, and before it. More text than any model reads.
    pub body_bytes_max: usize,
    /// Bytes of a response's head. Browsers give up between 64 KiB and 256 KiB.
    pub head_bytes_max: usize,
    /// Fields of a response's head; real ones have fewer than a hundred.
    pub head_fields_max: usize,
    /// Redirects that are followed; honest chains have one to three.
    pub redirects_max: usize,
    /// Fetches at once through one guard; a session has a guard of its own.
    pub parallel_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            resolve: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(10),
            total: Duration::from_secs(30),
            body_bytes_max: 10 << 20,
            head_bytes_max: 64 << 10,
            head_fields_max: 256,
            redirects_max: 5,
            parallel_max: 4,
        }
    }
}

/// A longer URL would not fit into the head of a request that servers accept.
pub(crate) const URL_BYTES_MAX: usize = 32 << 10;

/// Answers of one name that are kept for dialling; all are judged.
pub(crate) const DIALLED_MAX: usize = 8;

/// The head start of one address before the next is tried beside it (RFC 8305).
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Lookups at once in one process: each holds a thread that cannot be interrupted.
pub(crate) const LOOKUPS_MAX: usize = 8;

/// The head of a proxy's answer to CONNECT.
pub(crate) const PROXY_HEAD_BYTES_MAX: usize = 16 << 10;
