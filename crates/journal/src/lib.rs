//! Each session's events, in order, through crashes.
//!
//! Start at [`FileStore`]: it creates and opens sessions. A [`Writer`] is the one right to add to a
//! session; a [`Reader`] follows it without a lock. The line format is in `record`, what happens
//! after a crash in `recover`, and every touch of the disk goes through [`storage`].

mod blobs;
mod error;
mod lock;
mod message;
mod meta;
mod partial;
mod reader;
mod record;
mod recover;
mod scan;
pub mod storage;
mod store;
mod writer;

use domain::clock::Timestamp;
use domain::{Event, EventSeq};

pub use error::StoreError;
pub use meta::Meta;
pub use reader::Reader;
pub use recover::Recovery;
pub use store::FileStore;
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
