//! Events as they are stored, for whoever copies a session out of the store: what this version does
//! not know is still in them.

use std::borrow::Cow;

use domain::EventSeq;
use serde::de::IgnoredAny;

use crate::blobs::{self, Part};
use crate::record::{self, Record};
use crate::storage::{CHUNK_BYTES, StoredFile};
use crate::{Reader, StoreError, partial};

/// One event as a JSON object on one line, without the journal's own `crc` and `$batch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    seq: EventSeq,
    /// Long strings stand in it by name; see [`Reader::raw_pieces`].
    json: String,
}

impl Raw {
    /// The event's number.
    #[must_use]
    pub fn seq(&self) -> EventSeq {
        self.seq
    }

    pub(crate) fn of(record: &Record<'_>) -> Result<Self, StoreError> {
        record::check_format(record)?;
        let seq = record.seq;
        let json = record::without_own_keys(record);
        let json = match json.contains("\\ud") || json.contains("\\uD") {
            true => Cow::Owned(record::replace_lone_surrogates(&json)),
            false => json,
        };
        if !is_json(&json) {
            return Err(StoreError::Damaged { at: seq });
        }
        Ok(Self {
            seq,
            json: json.into_owned(),
        })
    }
}

impl Reader {
    /// Hands out the JSON of an event piece by piece, with every long string in place of its name.
    /// No piece is given before all of its strings were found to be what was stored.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if one is not, what made reading fail, or what `take` fails with.
    pub fn raw_pieces<E: From<StoreError>>(
        &self,
        raw: &Raw,
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        for part in blobs::parts(&raw.json) {
            if let Part::Name(sha256) = part {
                self.whole_blob(sha256)
                    .map_err(|error| damaged_at(error, raw.seq))?;
            }
        }
        for part in blobs::parts(&raw.json) {
            match part {
                Part::Json(json) => take(&json)?,
                Part::Name(sha256) => {
                    let file = self.blob(sha256)?;
                    take("\"")?;
                    each_piece(&*file, |piece| take(&escaped(piece)))?;
                    take("\"")?;
                }
            }
        }
        Ok(())
    }

    fn whole_blob(&self, sha256: &str) -> Result<(), StoreError> {
        let file = self.blob(sha256)?;
        match blobs::is_whole(&*file, sha256)? {
            true => each_piece(&*file, |_| Ok(())),
            false => Err(StoreError::DamagedText),
        }
    }
}

/// Reads a text from front to back.
fn each_piece<E: From<StoreError>>(
    file: &dyn StoredFile,
    mut take: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut offset = 0;
    loop {
        let piece = partial::read_piece(file, offset, CHUNK_BYTES)?;
        if piece.is_empty() {
            return Ok(());
        }
        take(&piece)?;
        offset += piece.len() as u64;
    }
}

fn damaged_at(error: StoreError, at: EventSeq) -> StoreError {
    match matches!(error, StoreError::DamagedText) {
        true => StoreError::Damaged { at },
        false => error,
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// What stands between the quotes of a JSON string.
fn escaped(piece: &str) -> String {
    let quoted = serde_json::Value::from(piece).to_string();
    let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let mut out = Vec::with_capacity(inside.len());
    blobs::push_escaped(&mut out, inside);
    String::from_utf8_lossy(&out).into_owned()
}
