//! The bounds of what a project brings along: skills and commands.

/// Skills of a session, and commands: each is a line in every request or in a client's menu.
pub const LIBRARY_ENTRIES_MAX: usize = 128;

/// Bytes of the list of skills in a request.
pub const LIBRARY_LIST_BYTES_MAX: usize = 16 * 1024;

/// Bytes of one skill or command that are read.
pub const LIBRARY_FILE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of front matter that are looked at: a name and a description.
pub const FRONT_MATTER_BYTES_MAX: usize = 8 * 1024;

/// Characters of a skill's or command's description: a sentence or three.
pub const DESCRIPTION_CHARS_MAX: usize = 512;

/// Names of one directory that are looked at.
pub const DIRECTORY_NAMES_MAX: usize = 4_096;

/// Folders within folders that are searched for commands.
pub const COMMAND_LEVELS_MAX: usize = 4;
