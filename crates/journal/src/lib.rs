//! Each session's events, in order, through crashes.
//!
//! Start at [`FileStore`]: it creates and opens sessions. A [`Writer`] is the one right to add to a
//! session ([`SharedWriter`] for many threads); a [`Reader`] follows it without a lock. The line
//! format is in `record`, what is torn and what is damaged in `scan`, what happens after a crash in
//! `recover`, and every touch of the disk goes through [`storage`]. [`Store`] is what any other
//! store would have to be.

mod batch;
mod blobs;
mod catalogue;
#[cfg(feature = "test-support")]
pub mod chance;
#[cfg(feature = "test-support")]
pub mod conformance;
mod cut;
mod delete;
mod error;
mod fork;
mod lock;
mod message;
mod meta;
mod names;
mod partial;
mod probe;
mod raw;
mod reader;
mod record;
mod recover;
mod scan;
mod shared;
#[cfg(feature = "test-support")]
pub mod soak;
pub mod storage;
mod store;
mod traits;
mod verify;
mod writer;

use domain::clock::Timestamp;
use domain::{Event, EventSeq};

pub use catalogue::Row;
pub use error::StoreError;
pub use meta::Meta;
pub use raw::Raw;
pub use reader::Reader;
pub use recover::Recovery;
pub use shared::SharedWriter;
pub use store::FileStore;
pub use traits::{Made, SessionReader, SessionWriter, Store};
pub use verify::Verified;
pub use writer::{Entry, SyncJob, Writer};

/// An event with its place in the session and the time it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its number: 1, 2, 3 … without gaps.
    pub seq: EventSeq,
    /// When it was written; for people, order comes from `seq`.
    pub ts: Timestamp,
    /// What happened.
    pub event: Event,
}
