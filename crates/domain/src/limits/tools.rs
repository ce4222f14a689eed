//! The bounds of files, searches and commands.

use std::time::Duration;

/// How long a command that must end may take to do so before its supervisor is killed too: a
/// cancel promises a second.
pub const COMMAND_STOP_WAIT: Duration = Duration::from_millis(900);

/// Words of a command that are searched for a word that makes a repository: as many as a command of the
/// longest judged length has.
pub const PROTECTED_NAMES_MAX: usize = 32 * 1024;

/// Directories that are looked through for repositories and other protected files before and after a
/// command: a project of some million files. Beyond it the command is asked about.
pub const PROTECTED_DIRECTORIES_MAX: usize = 200_000;

/// How long that may take: a tree of 50,000 files takes a few hundredths of it.
pub const PROTECTED_SEARCH_TIME_MAX: Duration = Duration::from_secs(3);

/// Levels of directories that are looked through: each holds a descriptor. What lies deeper is left out,
/// and then every command is asked about.
pub const PROTECTED_DEPTH_MAX: usize = 200;

/// Protected files in a session's directories that are mounted read-only. Each takes a few mounts, and
/// the time that bubblewrap takes grows with their square. Beyond it a command is asked about, and what
/// is not mounted is put back afterwards.
pub const PROTECTED_FILES_MAX: usize = 256;

/// Protected files that are found before a command. Beyond 256 it is asked about anyway.
pub const PROTECTED_FOUND_MAX: usize = 4_096;

/// Protected files that are found after a command: more than one can make that is meant well. Each takes
/// some 200 bytes while they are looked at.
pub const PROTECTED_NEW_MAX: usize = 65_536;

/// Lines about protected files that a command's output ends with. The rest is only counted.
pub const PROTECTED_LINES_MAX: usize = 100;

/// Bytes of protected files that are remembered during a command, so that they can be put back.
pub const PROTECTED_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Files in one protected directory that are remembered: directories of agents hold whole packages. A
/// larger one is compared as far as this.
pub const PROTECTED_TREE_FILES_MAX: usize = 16_384;

/// Snapshots of killed supervisors that are settled at once.
pub const SNAPSHOTS_MAX: usize = 256;

/// How long looking at protected files after a command may take, beyond the time in which the command
/// has to end.
pub const PROTECTED_SETTLE_WAIT: Duration = Duration::from_secs(7);

/// Hidden places that are held open, so that they stay hidden when they are moved: far more than
/// settings name, and few enough for the limit on descriptors.
pub const HIDDEN_PLACES_MAX: usize = 128;

/// Directories that are remembered as ones in which sessions can write. With more, only programs of
/// the system are run outside of the sandbox. A path has some 100 bytes, so this is about a megabyte.
pub const WRITABLE_PLACES_MAX: usize = 10_000;

/// Bytes that a command may keep in the temporary directory of its own: they are memory.
pub const COMMAND_SCRATCH_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Bytes that a command may keep in its `/dev/shm`: they are memory. Browsers under test need a few
/// hundred megabytes.
pub const COMMAND_SHARED_MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// How much of the machine's memory one command may fill, in per cent, where that can be limited:
/// the rest keeps the server and the user's desktop alive.
pub const COMMAND_MEMORY_PERCENT_MAX: u64 = 75;

/// Files and directories of `/etc` that are masked one by one because other users may not read them.
/// Systems have about twenty; beyond this limit, the directories that hold the others are masked.
pub const PRIVATE_SYSTEM_FILES_MAX: usize = 256;

/// How long trying out a sandbox may take: it takes some ten milliseconds, and a busy machine a
/// hundred times that.
pub const SANDBOX_PROBE_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a command's output that the model is shown, half of them from its end: about thirty
/// thousand tokens; the rest is read from its file.
pub const COMMAND_OUTPUT_BYTES_MAX: usize = 128 * 1024;

/// Characters of one line of output that are shown: more is data, not text.
pub const COMMAND_OUTPUT_LINE_CHARS_MAX: usize = 4_000;

/// Bytes of one command's output that are kept in a file.
pub const COMMAND_OUTPUT_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Files of output that a session keeps; the oldest goes first.
pub const COMMAND_OUTPUT_FILES_MAX: usize = 16;

/// Bytes of a command that is read to judge its parts: a longer one is asked about as a whole.
pub const COMMAND_JUDGED_BYTES_MAX: usize = 64 * 1024;

/// Levels of substitutions, shells and wrappers that are looked into: a person writes three.
pub const COMMAND_DEPTH_MAX: usize = 32;

/// Parts of one command that are judged: more is a program, not a command.
pub const COMMAND_PARTS_MAX: usize = 512;

/// Longest rule about tools: a long path with room to spare.
pub const RULE_BYTES_MAX: usize = 1_024;

/// Rules of one list: each is compared with every part of every call.
pub const RULES_MAX: usize = 1_000;

/// Bytes of a running call's newest output that clients are shown: two or three screens.
pub const PROGRESS_BYTES_MAX: usize = 8 * 1024;

/// How often a running call shows something new: faster than anybody reads.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// How long a search may take: a person waits for it.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(20);

/// Threads of one search: more wait for the disk, and other sessions want to search too.
pub const SEARCH_THREADS_MAX: usize = 8;

/// Files that one `glob` gathers before it sorts them: a path is about a hundred bytes.
pub const GLOB_FOUND_MAX: usize = 200_000;

/// Files that one `glob` shows.
pub const GLOB_SHOWN_MAX: usize = 1_000;

/// Bytes of lines that one `grep` gathers before it sorts them, and of the longest line it takes.
pub const GREP_FOUND_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of lines that one `grep` shows: about thirty thousand tokens.
pub const GREP_SHOWN_BYTES_MAX: usize = 128 * 1024;

/// Characters of one line that `grep` shows: enough to see what it is.
pub const GREP_LINE_CHARS_MAX: usize = 500;

/// Lines around a match that can be asked for.
pub const GREP_CONTEXT_LINES_MAX: usize = 50;

/// Files that a session remembers how it last saw them; each is a path and a number.
pub const FILES_SEEN_MAX: usize = 4_096;

/// Bytes of a change that are shown as a difference, old and new together: more is no use to a
/// person who has to decide.
pub const DIFF_BYTES_MAX: usize = 128 * 1024;

/// Lines of two texts that are compared, together, besides those that both begin and end with. A line
/// takes about a hundred bytes while it is compared, so this is some 20 MB; no one reads more.
pub const DIFF_LINES_MAX: usize = 200_000;

/// Hunks of one change that are shown apart: each repeats the file's path. Past them the rest is one.
pub const DIFF_HUNKS_MAX: usize = 64;

/// Time that a comparison may take to be exact; after it, it gets coarse. A diff is only shown, and a
/// turn waits for it.
pub const DIFF_TIME_MAX: Duration = Duration::from_millis(250);

/// Largest file that a tool reads whole; larger ones need a search tool.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of one attribute of a file, of their names, and of all that are kept when it is replaced:
/// what Linux allows for one.
pub const FILE_ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Attributes that are kept when a file is replaced; few files have one.
pub const FILE_ATTRIBUTES_MAX: usize = 64;

/// Bytes of a file that one `read` shows: about thirty thousand tokens; the rest is read by offset.
pub const READ_BYTES_MAX: usize = 128 * 1024;

/// Characters of one line that `read` shows: more is data, not text.
pub const READ_LINE_CHARS_MAX: usize = 4_000;

/// Bytes of an image that people are shown: a large photograph or screenshot.
pub const IMAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Largest notebook that is looked at to show a change before it is allowed: showing must not take
/// long.
pub const NOTEBOOK_SHOWN_BYTES_MAX: usize = 1024 * 1024;

/// Characters of one line in why a call failed: more than of any line that a command printed, which
/// may be part of it.
pub const REASON_LINE_CHARS_MAX: usize = 4_200;

/// Lines of one tool result that the model is shown.
pub const TOOL_RESULT_LINES_MAX: usize = 2_000;

/// Bytes of one tool result in the journal.
pub const TOOL_RESULT_BYTES_MAX: usize = 1024 * 1024;

/// How long a command may run that does not say how long it may.
pub const COMMAND_TIME_DEFAULT: Duration = Duration::from_secs(120);

/// How long a command may run at most, whatever it says: a turn waits for it.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// How long the last output of a process that has ended is waited for: it is in the pipe already,
/// unless somebody who left its group holds the pipe open.
pub const PROCESS_DRAIN_WAIT: Duration = Duration::from_secs(1);

/// Bytes of a question to a person: a page, which nobody reads more of before answering.
pub const QUESTION_BYTES_MAX: usize = 8 * 1024;

/// Answers that a question offers: a person chooses among what fits on a screen.
pub const QUESTION_OPTIONS_MAX: usize = 20;

/// Bytes of one offered answer: a button, not a page.
pub const QUESTION_OPTION_BYTES_MAX: usize = 512;

/// Bytes of a person's answer that are kept: a long letter.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a client's reason for an answer: a sentence or two, which the model reads.
pub const ANSWER_REASON_BYTES_MAX: usize = 1024;

/// How long a client may take to say what a file holds that is only shown: a person waits to be asked.
pub const CLIENT_PREVIEW_TIME: Duration = Duration::from_secs(2);

/// Tools of its own that a client may bring: each stands in every call of the model.
pub const CLIENT_TOOLS_MAX: usize = 64;

/// Bytes of the name of such a tool: with what is put before it, what every provider takes.
pub const CLIENT_TOOL_NAME_BYTES_MAX: usize = 48;

/// Bytes of the description of such a tool: a page, which every call of the model repeats.
pub const CLIENT_TOOL_DESCRIPTION_BYTES_MAX: usize = 2 * 1024;

/// Bytes of the schema of such a tool's input.
pub const CLIENT_TOOL_SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// How long a client may take to say which tools it has: the first turn waits for it.
pub const CLIENT_DISCOVERY_TIME: Duration = Duration::from_secs(5);

/// Bytes of what a client's tool says that the model is shown: about thirty thousand tokens.
pub const CLIENT_TOOL_RESULT_BYTES_MAX: usize = 128 * 1024;

/// Sessions of one connection whose client's tools are remembered; more are asked for again.
pub const CLIENT_DISCOVERIES_MAX: usize = 256;
