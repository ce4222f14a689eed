//! Connections and sessions together, as clients meet them: the seeded simulation of
//! [`testkit::simulation`].

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod races;
mod resume;

use std::sync::RwLock;

/// Written by who counts what is in memory, read by all others: tests may share a process.
static ALONE: RwLock<()> = RwLock::new(());
