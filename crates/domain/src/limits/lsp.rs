//! The bounds of language servers: programs of others that live as long as a session.

use std::time::Duration;

/// Language servers of one session: each may fill a gigabyte, and a project has few languages.
pub const LSP_SERVERS_MAX: usize = 4;

/// Questions that wait for one language server; a turn asks them one after the other.
pub const LSP_QUESTIONS_MAX: usize = 8;

/// How often a language server may fail in one session before it is not started any more.
pub const LSP_FAILURES_MAX: u32 = 5;

/// How long a language server that nobody asks anything is kept: it has read the whole project.
pub const LSP_IDLE_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// How long more problems are waited for once a server has told of some: it tells them in parts.
pub const LSP_SETTLE_TIME: Duration = Duration::from_millis(400);

/// How often a server that is still reading the project is asked again.
pub const LSP_ASK_AGAIN: Duration = Duration::from_millis(500);

/// Bytes before the body of one message of a language server: two short lines.
pub const LSP_HEADER_BYTES_MAX: usize = 4 * 1024;

/// Bytes of one message of a language server: tens of thousands of places.
pub const LSP_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes that a language server may send between two questions, or for one: what it says unasked
/// while it reads a large project, many times over.
pub const LSP_HEARD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that wait for a language server that does not read: a document and some answers.
pub const LSP_UNSENT_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Bytes of what a language server complains of that are told: its last words.
pub const LSP_COMPLAINT_BYTES_MAX: usize = 600;

/// Pieces of work that a language server may report at once; more are not counted.
pub const LSP_WORKS_MAX: usize = 64;

/// Largest file that a language server is told of: generated code is larger, and no use.
pub const LSP_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Places, symbols or problems that one call shows.
pub const LSP_SHOWN_MAX: usize = 200;

/// Files that one call looks into to show the lines of what was found.
pub const LSP_FILES_SHOWN_MAX: usize = 50;

/// Bytes of those files that are read.
pub const LSP_FILES_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Places that clients are told of so that they can show them.
pub const LSP_LOCATIONS_MAX: usize = 50;

/// Characters of one line that a call shows: enough to see what it is.
pub const LSP_LINE_CHARS_MAX: usize = 300;

/// Bytes that one call shows in all: about eight thousand tokens.
pub const LSP_SHOWN_BYTES_MAX: usize = 32 * 1024;

/// Levels of symbols within symbols that are shown: code is not deeper.
pub const LSP_SYMBOL_DEPTH_MAX: usize = 16;

/// How long a server is waited for that has told of a document's problems before: some say nothing
/// when there is nothing new.
pub const LSP_NOTHING_NEW_TIME: Duration = Duration::from_secs(5);

/// Files whose changes a server is told of: looking at so many takes a moment, and it is done before
/// every question.
pub const LSP_WATCHED_FILES_MAX: usize = 20_000;

/// Changes that a server is told of at once: one that many files changed for reads them anyway.
pub const LSP_CHANGES_MAX: usize = 1_000;

/// Words of a command for a language server: a program and its arguments.
pub const LSP_WORDS_MAX: usize = 32;
