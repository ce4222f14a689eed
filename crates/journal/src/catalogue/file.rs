//! The catalogue on disk, so that the first list after a start need not read every session.
//!
//! The file is a cache. A checksum covers all of it, and every row is compared with its session's
//! log before it is believed for long, so a missing, torn, older or newer file costs time and
//! nothing else. It is written in place and never synced: a rename would change the directory, and
//! then the names of all sessions would be read again.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use domain::clock::Timestamp;
use domain::{PrincipalId, SessionId};

use super::Row;
use crate::storage::{Access, Storage, read_full_at, write_all_at};

/// Its name, beside the sessions. It is no session's.
const NAME: &str = "catalogue";

/// How it begins. Another layout has another number, and this one is then made anew.
const MAGIC: &[u8] = b"fastness catalogue 1\n";

/// Largest file that is read or written: about 1.5 million sessions. With more, each start reads
/// all of them.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of the checksum at the end.
const CHECK_BYTES: usize = 4;

const IS_CHILD: u8 = 1;
const IS_READABLE: u8 = 2;
const HAS_CHANGED_AT: u8 = 4;

/// The rows as they were saved; none if there is no sound file.
pub(super) fn read(storage: &dyn Storage) -> Vec<Row> {
    let bytes = read_bytes(storage).unwrap_or_default();
    decode(&bytes).unwrap_or_default()
}

fn read_bytes(storage: &dyn Storage) -> io::Result<Vec<u8>> {
    let file = storage.open(NAME, Access::Read)?;
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    if len > BYTES_MAX {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; len];
    let count = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Saves the rows, unless another process is doing that.
pub(super) fn write(storage: &dyn Storage, rows: &[Row]) -> io::Result<()> {
    let bytes = encode(rows);
    if bytes.len() > BYTES_MAX {
        return Ok(());
    }
    let file = storage.open(NAME, Access::Create)?;
    if !file.try_lock()? {
        return Ok(());
    }
    write_all_at(&*file, &bytes, 0)?;
    file.truncate(bytes.len() as u64)
}

/// Texts that rows name by number.
#[derive(Default)]
struct TextTable<'a> {
    numbers: HashMap<&'a str, u32>,
    texts: Vec<&'a str>,
}

impl<'a> TextTable<'a> {
    fn number(&mut self, text: &'a str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.texts.push(text);
            u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let mut table = TextTable::default();
    let mut body = Vec::with_capacity(rows.len() * 48);
    for row in rows {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        body.push(
            flag(row.is_child, IS_CHILD)
                | flag(row.is_readable, IS_READABLE)
                | flag(row.changed_at.is_some(), HAS_CHANGED_AT),
        );
        body.extend(row.id.as_bytes());
        body.extend(row.updated_at.0.to_le_bytes());
        let changed_at = row.changed_at.map_or(0.0, |at| at.0);
        body.extend(changed_at.to_le_bytes());
        body.extend(table.number(row.owner.as_str()).to_le_bytes());
        body.extend(table.number(&row.cwd).to_le_bytes());
    }
    let mut bytes = MAGIC.to_vec();
    let mut push_number = |number: usize| {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        bytes.extend(number.to_le_bytes());
    };
    push_number(table.texts.len());
    push_number(rows.len());
    for text in &table.texts {
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        bytes.extend(len.to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes.extend(body);
    let check = crc32c::crc32c(&bytes);
    bytes.extend(check.to_le_bytes());
    bytes
}

/// `None` if it is not exactly what [`encode`] makes.
fn decode(bytes: &[u8]) -> Option<Vec<Row>> {
    let (content, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
    if crc32c::crc32c(content).to_le_bytes() != check {
        return None;
    }
    let mut fields = Fields(content.strip_prefix(MAGIC)?);
    let (text_count, row_count) = (fields.number()?, fields.number()?);
    // Rows share texts: each is made once as an owner and once as a directory.
    let mut owners: Vec<Arc<PrincipalId>> = Vec::new();
    let mut directories: Vec<Arc<str>> = Vec::new();
    for _ in 0..text_count {
        let len = usize::try_from(fields.number()?).ok()?;
        let text = std::str::from_utf8(fields.take(len)?).ok()?;
        owners.push(Arc::new(PrincipalId::new(text)));
        directories.push(Arc::from(text));
    }
    let mut rows = Vec::new();
    for _ in 0..row_count {
        let [flags] = fields.array()?;
        let id = SessionId::from_bytes(fields.array()?);
        let updated_at = Timestamp(f64::from_le_bytes(fields.array()?));
        let changed_at = Timestamp(f64::from_le_bytes(fields.array()?));
        let owner = owners.get(usize::try_from(fields.number()?).ok()?)?;
        let cwd = directories.get(usize::try_from(fields.number()?).ok()?)?;
        rows.push(Row {
            id,
            owner: Arc::clone(owner),
            cwd: Arc::clone(cwd),
            is_child: flags & IS_CHILD != 0,
            is_readable: flags & IS_READABLE != 0,
            updated_at,
            changed_at: (flags & HAS_CHANGED_AT != 0).then_some(changed_at),
        });
    }
    fields.0.is_empty().then_some(rows)
}

/// What is left to be decoded.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |number: u8| Row {
            id: SessionId::random(),
            owner: Arc::new(PrincipalId::new(format!("owner {}", number % 2))),
            cwd: Arc::from(format!("/srv/é{}", number % 3)),
            is_child: number.is_multiple_of(2),
            is_readable: number.is_multiple_of(3),
            updated_at: Timestamp(f64::from(number) + 0.125),
            changed_at: (number != 5).then_some(Timestamp(f64::from(number))),
        };
        (0..10).map(row).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        for rows in [rows(), Vec::new()] {
            let read = decode(&encode(&rows)).unwrap();
            assert_eq!(format!("{read:?}"), format!("{rows:?}"));
        }
    }

    #[test]
    fn file_with_any_flipped_or_missing_byte_is_not_believed() {
        let bytes = encode(&rows());
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(decode(&flipped).is_none(), "byte {at} flipped");
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_none());
    }

    #[test]
    fn counts_larger_than_the_file_are_refused() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0xff; 8]);
        let check = crc32c::crc32c(&bytes);
        bytes.extend(check.to_le_bytes());
        assert!(decode(&bytes).is_none());
    }
}
