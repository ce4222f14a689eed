//! Syncs that do nothing, to show that the tests would notice.

use super::names::{NameOp, Names};

/// A sync that does nothing, or too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Of the log of a session being made.
    NewEvents,
    /// Of the log.
    Events,
    /// Of the log, but each sync reaches only as far as the one before was asked for: what is
    /// acknowledged is not on disk yet.
    EarlyAck,
    /// Of the text being streamed.
    Partial,
    /// Of the bytes cut from a log.
    Torn,
    /// Of the note that bytes will be cut from a log.
    Cut,
    /// Of a blob.
    Blob,
    /// Of the directory of blobs.
    BlobDir,
    /// Of the directory of a session being made.
    NewSessionDir,
    /// Of a session's directory, when it has got its first blob.
    SessionDirAfterBlobs,
    /// Of a session's directory, for any other reason.
    SessionDir,
    /// Of the directory of all sessions, when one was made.
    RootAfterCreate,
    /// Of the directory of all sessions, when one was deleted.
    RootAfterDelete,
    /// Of the directory of all sessions, when the list of deleted names was made.
    RootAfterTombs,
    /// Of the directory of deleted names.
    Tombs,
    /// Of the cache `meta.json`.
    Meta,
}

/// Which sync of a file is meant; `None` for those that carry no promise.
pub(super) fn which_file(path: &str) -> Option<Sabotage> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "events.jsonl" if path.starts_with(".new-") => Some(Sabotage::NewEvents),
        "events.jsonl" => Some(Sabotage::Events),
        "partial" => Some(Sabotage::Partial),
        "events.torn" => Some(Sabotage::Torn),
        "events.cut" => Some(Sabotage::Cut),
        "meta.json.new" => Some(Sabotage::Meta),
        _ if dir.ends_with("/blobs") => Some(Sabotage::Blob),
        _ => None,
    }
}

pub(super) fn which_dir(path: &str, names: &Names) -> Sabotage {
    match path {
        ".deleted" => Sabotage::Tombs,
        "" => match names.last_change() {
            Some(NameOp::Add(name, _)) if name == ".deleted" => Sabotage::RootAfterTombs,
            Some(NameOp::Rename(_, to, _)) if to.ends_with(".deleted") => Sabotage::RootAfterDelete,
            _ => Sabotage::RootAfterCreate,
        },
        blobs if blobs.ends_with("/blobs") => Sabotage::BlobDir,
        new if new.starts_with(".new-") => Sabotage::NewSessionDir,
        _ => match names.last_change() {
            Some(NameOp::Add(name, _)) if name == "blobs" => Sabotage::SessionDirAfterBlobs,
            _ => Sabotage::SessionDir,
        },
    }
}
