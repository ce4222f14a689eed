//! What can be typed after `fastness sessions`.

use clap::{Args, Subcommand};

use super::{CommonArgs, ServerArgs};

/// `fastness sessions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) action: SessionsAction,
}

impl SessionsAction {
    /// The server whose session is meant, for what can be done from anywhere.
    pub(crate) fn server(&self) -> Option<&ServerArgs> {
        match self {
            Self::Tail { server, .. } => Some(server),
            Self::List { .. }
            | Self::Show { .. }
            | Self::Export { .. }
            | Self::Fork { .. }
            | Self::Delete { .. }
            | Self::Search { .. }
            | Self::Verify => None,
        }
    }
}

/// What can be done with stored sessions.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// List all sessions, newest first; with --cwd those of one directory.
    #[command(after_help = "Example:\n  fastness sessions list --cwd . --json")]
    List {
        /// Print one JSON array instead of a table.
        #[arg(long)]
        json: bool,
        /// List those of sub-agents too, each below the session that it worked for.
        #[arg(long)]
        agents: bool,
    },
    /// Show what was said and done: messages, tool calls, and which event allowed each run.
    #[command(after_help = "Example:\n  fastness sessions show 3f2a | less -R")]
    Show {
        /// The session, or the first characters of its id.
        id: String,
    },
    /// Show the newest events; with -f go on as they come.
    #[command(after_help = "Examples:\n  \
        fastness sessions tail -f 3f2a\n  \
        fastness sessions tail -f 3f2a --server https://box.example")]
    Tail {
        /// The session, or the first characters of its id.
        id: String,
        /// Keep following until Ctrl-C.
        #[arg(short, long)]
        follow: bool,
        /// How many events to begin with.
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10)]
        lines: u64,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print the whole session in a form for others.
    #[command(after_help = "Examples:\n  \
        fastness sessions export 3f2a > session.md\n  \
        fastness sessions export 3f2a --format html > session.html\n  \
        fastness sessions export 3f2a --format json | jq length")]
    Export {
        /// The session, or the first characters of its id.
        id: String,
        /// The form: a document to read, one JSON array of events, or a page that stands alone.
        #[arg(long, value_name = "FORMAT", default_value = "markdown")]
        format: ExportFormat,
    },
    /// Begin a new session as a copy of another's first events; prints its id.
    #[command(after_help = "Example:\n  fastness sessions fork 3f2a --at 12\n\n\
        Inside a turn, --at means the end of the last finished turn before it.")]
    Fork {
        /// The session, or the first characters of its id.
        id: String,
        /// The last event to copy.
        #[arg(long, value_name = "SEQ")]
        at: u64,
    },
    /// Delete a session for good; its id is never used again.
    #[command(after_help = "Example:\n  fastness sessions delete 3f2a --yes")]
    Delete {
        /// The session, or the first characters of its id.
        id: String,
        /// Do not ask first, as it does on a terminal.
        #[arg(short, long)]
        yes: bool,
    },
    /// Find the events that hold all of these words, in any case.
    #[command(after_help = "Example:\n  fastness sessions search deadline exceeded")]
    Search {
        /// The words.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Check every journal; fails if one is damaged before its end.
    #[command(after_help = "Example:\n  fastness sessions verify\n\n\
        A torn end is the trace of a crash: nothing that was acknowledged is missing, and the next \
        start cuts it off. Damage in the middle is reported with the first event that cannot be \
        believed, and the exit code is 1.")]
    Verify,
}

/// The forms in which a session can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// A document to read.
    Markdown,
    /// One JSON array of events.
    Json,
    /// A page that stands alone.
    Html,
}
