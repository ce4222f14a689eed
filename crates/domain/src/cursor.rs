//! Where a client stands in a session's stream.

use crate::ids::EventSeq;

/// Everything up to and including this has been seen.
///
/// `offset` counts the UTF-8 bytes seen of the message that event `seq` opened; 0 elsewhere.
/// Cursors of one epoch are ordered as the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// How often recovery had to cut what some client may have seen.
    pub epoch: u64,
    /// The newest event seen; 0 before the first.
    pub seq: EventSeq,
    /// Bytes seen of the open message.
    pub offset: u64,
}
