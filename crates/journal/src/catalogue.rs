//! What lists of sessions are sorted and filtered by: a row per session, in memory and in a file.
//!
//! Reading every session's `meta.json` for each page of a list takes seconds where there are many
//! sessions. The catalogue keeps a row per session instead, and saves the rows ([`mod@file`]) so that
//! the first list after a start is as quick. A row is read again when the session's log has changed
//! since, also by another process. Each call checks at most [`CHECKED_ROWS_MAX`] rows, in turn: with
//! fewer sessions than that the list is always exact; with more, the place of a session that another
//! process changed may be out of date for some calls. Sessions that came or went show at once, or
//! within a second where there are many (see `names`).

mod file;

use std::collections::HashMap;
use std::sync::Arc;

use domain::clock::Timestamp;
use domain::{PrincipalId, SessionId};

use crate::{FileStore, Meta, StoreError};

/// Rows that one call compares with the disk: about 10 ms.
const CHECKED_ROWS_MAX: usize = 2000;

/// Rows that were read and not saved: a start reads as many again, which takes about 5 ms.
const UNSAVED_ROWS_MAX: usize = 200;

/// How old a log's last change must be for its time to tell the next one from it: no file system
/// counts in longer steps.
const TICK_SECONDS_MAX: f64 = 2.0;

/// One session in a list.
#[derive(Clone, Debug, PartialEq)]
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
    /// Rows that were read and not saved.
    unsaved: usize,
    /// Texts that many rows share.
    owners: HashMap<PrincipalId, Arc<PrincipalId>>,
    directories: HashMap<String, Arc<str>>,
}

impl Catalogue {
    /// Brings the rows up to date with the disk, as far as one call goes.
    pub(crate) fn refresh(&mut self, store: &FileStore, now: Timestamp) -> Result<(), StoreError> {
        let names = store.names(now)?;
        if self.names.is_none() {
            self.load(store);
        }
        let mut is_sorted = self.follow_names(store, names, now);
        is_sorted &= self.check_rows(store, now);
        if !is_sorted {
            self.rows.sort_by(|a, b| {
                let newest_first = b.updated_at.0.total_cmp(&a.updated_at.0);
                newest_first.then(a.id.cmp(&b.id))
            });
        }
        if self.unsaved >= UNSAVED_ROWS_MAX {
            self.unsaved = 0;
            if let Err(error) = file::write(store.storage(), &self.rows) {
                tracing::debug!(%error, "the catalogue of sessions could not be saved");
            }
        }
        Ok(())
    }

    /// How many calls it takes until every row was compared with the disk.
    pub(crate) fn calls_to_check_all(&self) -> usize {
        self.rows.len().div_ceil(CHECKED_ROWS_MAX)
    }

    /// Starts with the rows that an earlier process saved.
    fn load(&mut self, store: &FileStore) {
        self.rows = file::read(store.storage());
        for row in &self.rows {
            let owner = self.owners.entry((*row.owner).clone());
            owner.or_insert_with(|| Arc::clone(&row.owner));
            if !self.directories.contains_key(&*row.cwd) {
                let cwd = Arc::clone(&row.cwd);
                self.directories.insert(row.cwd.to_string(), cwd);
            }
        }
        let mut names: Vec<SessionId> = self.rows.iter().map(|row| row.id).collect();
        names.sort_unstable();
        self.names = Some(names.into());
    }

    /// Drops the rows of sessions that are gone and reads those that are new. Says whether the rows
    /// are still sorted.
    fn follow_names(&mut self, store: &FileStore, names: Arc<[SessionId]>, now: Timestamp) -> bool {
        let known = self.names.replace(Arc::clone(&names)).unwrap_or_default();
        if Arc::ptr_eq(&known, &names) || known == names {
            return true;
        }
        let gone = difference(&known, &names);
        if !gone.is_empty() {
            self.rows.retain(|row| gone.binary_search(&row.id).is_err());
            self.owners.retain(|_, owner| Arc::strong_count(owner) > 1);
            self.directories.retain(|_, cwd| Arc::strong_count(cwd) > 1);
        }
        let before = self.rows.len();
        for id in difference(&names, &known) {
            let row = self.read(store, id, now);
            self.rows.push(row);
        }
        self.unsaved += self.rows.len() - before;
        self.rows.len() == before
    }

    /// Compares the next rows with the disk. Says whether the rows are still sorted.
    fn check_rows(&mut self, store: &FileStore, now: Timestamp) -> bool {
        let mut is_sorted = true;
        for _ in 0..CHECKED_ROWS_MAX.min(self.rows.len()) {
            let at = self.next_check % self.rows.len();
            self.next_check = at + 1;
            let (id, known) = (self.rows[at].id, self.rows[at].changed_at);
            if known.is_none() || store.log_changed_at(id) != known {
                let row = self.read(store, id, now);
                is_sorted &= row.updated_at == self.rows[at].updated_at;
                self.unsaved += usize::from(row.changed_at != known);
                self.rows[at] = row;
            }
        }
        is_sorted
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
        // What failed for want of descriptors or the like may be read the next time.
        let is_final = matches!(
            meta,
            Ok(_) | Err(StoreError::Damaged { .. } | StoreError::NewerFormat { .. })
        );
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
            changed_at: changed_at.filter(|at| is_final && now.0 - at.0 > TICK_SECONDS_MAX),
        }
    }
}

/// What is in `names` and not in `others`; both are sorted.
fn difference(names: &[SessionId], others: &[SessionId]) -> Vec<SessionId> {
    let mut others = others.iter().peekable();
    let is_missing = |id: &&SessionId| {
        while others.next_if(|other| other < id).is_some() {}
        others.peek() != Some(id)
    };
    names.iter().filter(is_missing).copied().collect()
}
