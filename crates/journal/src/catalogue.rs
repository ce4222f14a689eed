//! What lists of sessions are sorted and filtered by, kept in memory.
//!
//! Reading every session's `meta.json` for each page of a list takes seconds where there are many
//! sessions. The catalogue keeps a row per session instead. A row is read again when the session's
//! log has changed since, also by another process. Each call checks at most [`CHECKED_ROWS_MAX`] rows, in turn: with fewer
//! sessions than that the list is always exact; with more, the place of a session that another process
//! changed may be out of date for some calls. Sessions that came or went show at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::clock::Timestamp;
use domain::{PrincipalId, SessionId};

use crate::{FileStore, Meta, StoreError};

/// Rows that one call compares with the disk: about 10 ms.
const CHECKED_ROWS_MAX: usize = 2000;

/// How old a log's last change must be for its time to tell the next one from it: no file system
/// counts in longer steps.
const TICK_SECONDS_MAX: f64 = 2.0;

/// One session in a list.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub id: SessionId,
    /// Who made it.
    pub owner: Arc<PrincipalId>,
    /// Its working directory.
    pub cwd: Arc<str>,
    /// Whether it is a sub-agent's.
    pub is_child: bool,
    /// Whether it can be read.
    pub is_readable: bool,
    /// When its newest event was written.
    pub updated_at: Timestamp,
    /// When its log changed last, if the next change will show by another time.
    changed_at: Option<Timestamp>,
}

/// All sessions, newest first.
#[derive(Default)]
pub(crate) struct Catalogue {
    rows: Vec<Row>,
    /// The names that the rows are of.
    names: Option<Arc<[SessionId]>>,
    /// The row to be checked next.
    next_check: usize,
    /// Texts that many rows share.
    owners: HashMap<PrincipalId, Arc<PrincipalId>>,
    directories: HashMap<String, Arc<str>>,
}

impl Catalogue {
    /// Brings the rows up to date with the disk, as far as one call goes.
    pub(crate) fn refresh(&mut self, store: &FileStore, now: Timestamp) -> Result<(), StoreError> {
        let names = store.names(now)?;
        let is_same = |known: &Arc<[SessionId]>| Arc::ptr_eq(known, &names) || *known == names;
        let mut is_sorted = true;
        if !self.names.as_ref().is_some_and(is_same) {
            is_sorted = false;
            self.rows.retain(|row| names.binary_search(&row.id).is_ok());
            self.owners.retain(|_, owner| Arc::strong_count(owner) > 1);
            self.directories.retain(|_, cwd| Arc::strong_count(cwd) > 1);
            let known: HashSet<SessionId> = self.rows.iter().map(|row| row.id).collect();
            for id in names.iter().filter(|id| !known.contains(id)) {
                let row = self.read(store, *id, now);
                self.rows.push(row);
            }
        }
        self.names = Some(names);
        for _ in 0..CHECKED_ROWS_MAX.min(self.rows.len()) {
            let at = self.next_check % self.rows.len();
            self.next_check = at + 1;
            let (id, known) = (self.rows[at].id, self.rows[at].changed_at);
            if known.is_none() || store.log_changed_at(id) != known {
                let row = self.read(store, id, now);
                is_sorted &= row.updated_at == self.rows[at].updated_at;
                self.rows[at] = row;
            }
        }
        if !is_sorted {
            self.rows.sort_by(|a, b| {
                let newest_first = b.updated_at.0.total_cmp(&a.updated_at.0);
                newest_first.then(a.id.cmp(&b.id))
            });
        }
        Ok(())
    }

    /// The rows, newest first.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn read(&mut self, store: &FileStore, id: SessionId, now: Timestamp) -> Row {
        // Asked before the log is read, so that every later change shows.
        let changed_at = store.log_changed_at(id);
        let meta = store.meta(id);
        let is_readable = meta.is_ok();
        let meta = meta.unwrap_or_else(|_| Meta::new(id));
        let owner = self.owners.entry(meta.owner);
        let owner = owner.or_insert_with_key(|owner| Arc::new(owner.clone()));
        let cwd = self.directories.entry(meta.cwd);
        let cwd = cwd.or_insert_with_key(|cwd| Arc::from(cwd.as_str()));
        Row {
            id,
            owner: Arc::clone(owner),
            cwd: Arc::clone(cwd),
            is_child: meta.parent.is_some(),
            is_readable,
            updated_at: meta.updated_at,
            changed_at: changed_at.filter(|at| now.0 - at.0 > TICK_SECONDS_MAX),
        }
    }
}
