//! The command line: what may be written, and how `--help` explains it.
//!
//! Nothing here reads the environment; [`crate::settings`] puts flags, environment and defaults
//! together.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use domain::SessionId;
use tracing::level_filters::LevelFilter;

/// An agent server: durable, shared AI sessions over stdio, WebSocket and HTTP.
#[derive(Debug, Parser)]
#[command(
    name = "fastness",
    version,
    propagate_version = true,
    after_help = "Examples:\n  \
        fastness ask \"what can you do\"\n  \
        fastness serve\n\n\
        Exit codes: 0 success, 1 failure, 2 wrong usage, 3 refused by policy, 130 interrupted."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve many clients at once: ACP over WebSocket and HTTP at /acp.
    #[command(after_help = "Examples:\n  \
            fastness serve --listen 127.0.0.1:4600 --model offline\n  \
            fastness serve --unix ~/.local/state/fastness/socket\n  \
            fastness serve --listen 0.0.0.0:4600 --tls-cert cert.pem --tls-key key.pem --allow-host box.example\n\n\
            When ready it prints one line of JSON with its address and where the token is.")]
    Serve(ServeArgs),
    /// Be an ACP agent on stdin and stdout, for editors: in this process, or as a bridge to a server.
    #[command(after_help = "Examples (what an editor starts):\n  \
        fastness acp\n  \
        fastness acp --spawn\n  \
        fastness acp --server ws://box.example:4600 --token-file ~/.config/box.token\n\n\
        A bridge reconnects by itself and goes on where the editor was; sessions live on in the server.")]
    Acp(AcpArgs),
    /// Look at what a project's fastness.toml would do, and let it.
    #[command(after_help = "Examples:\n  \
        fastness approve\n  \
        fastness approve ~/src/project --yes\n  \
        fastness approve --revoke\n  \
        fastness approve --list\n\n\
        An approval is of the file as it is: any change to it takes the approval away.")]
    Approve(ApproveArgs),
    /// Ask one question and print the answer as it comes.
    #[command(after_help = "Examples:\n  \
        fastness ask \"read README.md\"\n  \
        git diff | fastness ask --stdin \"review this\"\n  \
        fastness ask - --json < question.txt\n  \
        fastness ask \"run make test\" --allow 'bash(make *)' --timeout 120\n\n\
        Exit code 3 means that every tool call of the answer was denied because no --allow rule \
        covered it.")]
    Ask(AskArgs),
    /// Check model, data directory, disk, server and project, and say what to do.
    #[command(after_help = "Example:\n  fastness doctor --model openai-chat:local")]
    Doctor(DoctorArgs),
    /// Fetch a page through the guard and print it as Markdown.
    #[command(after_help = "Examples:\n  \
        fastness fetch https://example.com/\n  \
        fastness fetch --check http://169.254.169.254/\n  \
        fastness fetch --allow 127.0.0.1:3000 http://127.0.0.1:3000/\n\n\
        Exit code 3 means that a rule refused the address; nothing was sent to it.")]
    Fetch(FetchArgs),
    /// Look at the servers of tools that sessions here would have.
    #[command(after_help = "Examples:\n  \
        fastness mcp list\n  \
        fastness mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  \
        fastness mcp test files\n  \
        fastness mcp login tracker\n\n\
        Servers are named in [mcp.NAME] of config.toml or fastness.toml, or in .mcp.json; those of a \
        project count once `fastness approve` has approved them.")]
    Mcp(McpArgs),
    /// Open the server's page in a browser, logged in.
    #[command(after_help = "Examples:\n  \
        fastness open\n  \
        fastness open --print\n\n\
        The address works once, within a minute.")]
    Open(OpenArgs),
    /// Look at and manage stored sessions, also while a server runs.
    #[command(after_help = "Examples:\n  \
        fastness sessions list\n  \
        fastness sessions show 3f2a\n  \
        fastness sessions verify\n\n\
        An ID may be shortened to its first characters, at least four, if only one session has them.")]
    Sessions(SessionsArgs),
    /// Make, list and take back tokens for other clients of the server.
    #[command(after_help = "Examples:\n  \
        fastness token create laptop\n  \
        fastness token create guest --scope observe --session 3f2a… --expires 12h\n  \
        fastness token revoke guest")]
    Token(TokenArgs),
}

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommonArgs {
    /// Where sessions and the token are kept [default: $XDG_STATE_HOME/fastness].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The model: openai-chat:NAME, ollama:NAME, script:FILE or offline.
    #[arg(long, global = true, value_name = "SPEC")]
    pub(crate) model: Option<String>,
    /// The directory to work in [default: the current one].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// How much to log to stderr: off, error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<LevelFilter>,
}

/// What commands that may go through a server take.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// Go through the server at this address (ws://, http://, unix:PATH, or `local` for the one of
    /// this data directory) instead of running the agent here.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A file that holds the token for the server [default: `token` in the data directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// `fastness serve`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:4600].
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address, overrides_with = "listen")]
    pub(crate) listen: Option<SocketAddr>,
    /// Listen on this Unix socket too, for the same user and without a token.
    #[arg(long, value_name = "PATH", overrides_with = "unix")]
    pub(crate) unix: Option<PathBuf>,
    /// The certificate, in PEM form: speak TLS on the network.
    #[arg(long, value_name = "FILE", overrides_with = "tls_cert")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM form.
    #[arg(long, value_name = "FILE", overrides_with = "tls_key")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Something in front of the server speaks TLS for it; needed to listen beyond this machine
    /// without a certificate.
    #[arg(long, overrides_with = "behind_proxy")]
    pub(crate) behind_proxy: bool,
    /// A page that may call the server, such as `https://app.example`. May be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// A name, besides loopback ones, under which the server may be addressed. May be repeated.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Serve one more client on stdin and stdout; the ready line then goes to stderr.
    #[arg(long, overrides_with = "stdio")]
    pub(crate) stdio: bool,
    /// Where sessions are stored: `file`.
    #[arg(long, value_name = "URL", value_parser = store, overrides_with = "store")]
    pub(crate) store: Option<Store>,
    /// How long a session that nobody uses stays in memory.
    #[arg(long, value_name = "SECS", value_parser = seconds, overrides_with = "grace")]
    pub(crate) grace: Option<Duration>,
    /// How long a connection that uses no session stays open.
    #[arg(long, value_name = "SECS", value_parser = seconds, overrides_with = "idle_timeout")]
    pub(crate) idle_timeout: Option<Duration>,
}

/// `fastness fetch`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FetchArgs {
    /// The address. Whatever is not an acceptable URL is refused by the guard.
    // A refusal is the guard's to say, so nothing is wrong usage here: not `-`, not broken Unicode.
    #[arg(allow_hyphen_values = true)]
    pub(crate) url: OsString,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Only resolve and judge; print `allowed` or the refusal and connect to nothing.
    #[arg(long)]
    pub(crate) check: bool,
    /// Answer for HOST instead of the resolver (`HOST=` answers nothing). May be repeated.
    #[arg(long, value_name = "HOST=IP[,IP]", value_parser = answer, allow_hyphen_values = true)]
    pub(crate) resolve: Vec<(String, Vec<IpAddr>)>,
    /// Open exactly this host and port, though it is not public. May be repeated.
    #[arg(long, value_name = "HOST:PORT", value_parser = exception)]
    pub(crate) allow: Vec<netguard::Exception>,
    /// Print from this character on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,
    /// Print at most this many characters [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Print one JSON object with text, title, url, status and nextOffset.
    #[arg(long, conflicts_with = "check")]
    pub(crate) json: bool,
}

/// `fastness open`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Only print the address.
    #[arg(long)]
    pub(crate) print: bool,
}

/// `fastness acp`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Go through the server of this data directory, and start one if none runs.
    #[arg(long, conflicts_with = "server")]
    pub(crate) spawn: bool,
}

/// `fastness approve`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ApproveArgs {
    /// A directory of the project [default: the one to work in].
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Do not ask first.
    #[arg(short, long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) yes: bool,
    /// Show all approvals, and whether they still hold.
    #[arg(long, conflicts_with_all = ["dir", "revoke"])]
    pub(crate) list: bool,
    /// Take the approval back.
    #[arg(long)]
    pub(crate) revoke: bool,
}

/// `fastness ask`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AskArgs {
    /// The question; `-` reads it from stdin.
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print one JSON object {sessionId, text, stopReason, usage} at the end instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a JSON object per line as things happen: session, text, thought, tool, tool_update,
    /// notice, and at the end result.
    #[arg(long, conflicts_with = "json")]
    pub(crate) stream_json: bool,
    /// Read stdin too, and put it after the question.
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Continue this session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<SessionId>,
    /// Permit a tool: its name, or `tool(pattern)` as in the settings. May be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<agent::permissions::Rule>,
    /// Cancel and fail after this time.
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
}

/// `fastness doctor`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `fastness sessions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) action: SessionsAction,
}

/// `fastness mcp`.
#[derive(Clone, Debug, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: McpAction,
}

/// What can be done with tool servers.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Start each server, ask for its tools, and say how it went.
    #[command(after_help = "Example:\n  fastness mcp list")]
    List,
    /// Log in to a server that wants to know who asks.
    #[command(after_help = "Examples:\n  \
        fastness mcp login tracker\n  \
        fastness mcp login https://tracker.example.com/mcp\n\n\
        Sessions that run already use the login from their next turn on.")]
    Login {
        /// The server's name, or its address if a client names it.
        name: String,
        /// Print the address instead of opening a browser.
        #[arg(long)]
        no_browser: bool,
    },
    /// Forget the login to a server.
    #[command(after_help = "Example:\n  fastness mcp logout tracker")]
    Logout {
        /// The server's name, or its address if a client names it.
        name: String,
    },
    /// Do what the conformance suite of MCP expects of a client.
    #[command(hide = true)]
    Conformance {
        /// The suite's server.
        url: String,
    },
    /// Write a server into your config.toml, or into the project's fastness.toml.
    #[command(after_help = "Examples:\n  \
        fastness mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  \
        fastness mcp add tracker --url https://tracker.example.com/mcp --header 'X-Key=…'\n\n\
        What is written into a project's file counts once `fastness approve` has approved it.")]
    Add(McpAddArgs),
    /// Take a server out of the file again.
    #[command(after_help = "Example:\n  fastness mcp remove files")]
    Remove {
        /// What it is called.
        name: String,
        /// Out of the project's fastness.toml instead of your config.toml.
        #[arg(long)]
        project: bool,
    },
    /// Start one server, ask for its tools, and say how it went.
    #[command(after_help = "Example:\n  fastness mcp test files")]
    Test {
        /// What it is called.
        name: String,
    },
}

/// `fastness mcp add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct McpAddArgs {
    /// What it is called in the names of its tools.
    pub(crate) name: String,
    /// Where it listens, if it does.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// What it speaks there: http or sse; without it both are tried.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["http", "sse"], requires = "url", conflicts_with = "command")]
    pub(crate) kind: Option<String>,
    /// A header of every request.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, requires = "url", conflicts_with = "command")]
    pub(crate) headers: Vec<(String, String)>,
    /// A variable that the program sees.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Into the project's fastness.toml instead of your config.toml.
    #[arg(long)]
    pub(crate) project: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `fastness token`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// What can be done with tokens.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token and print its secret, this once.
    #[command(after_help = "Example:\n  fastness token create guest --scope observe --expires 12h")]
    Create {
        /// Its name, for the list and for revoking it.
        name: String,
        /// What its holder may do: control or observe.
        #[arg(long, value_name = "SCOPE", value_parser = scope, default_value = "control")]
        scope: auth::Scope,
        /// The one session it opens.
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// How long it is good for, such as 90m, 12h or 30d.
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
    },
    /// Show all tokens, without their secrets.
    #[command(after_help = "Example:\n  fastness token list")]
    List,
    /// Take a token back; connections that use it are closed.
    #[command(after_help = "Example:\n  fastness token revoke guest")]
    Revoke {
        /// Its name.
        name: String,
    },
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
    #[command(after_help = "Example:\n  fastness sessions tail -f 3f2a")]
    Tail {
        /// The session, or the first characters of its id.
        id: String,
        /// Keep following until Ctrl-C.
        #[arg(short, long)]
        follow: bool,
        /// How many events to begin with.
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10)]
        lines: u64,
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

/// Where sessions are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Store {
    /// In files under the data directory.
    #[default]
    File,
}

impl Cli {
    /// The parsed command line. Help and wrong usage are printed here, and end the program with
    /// exit code 0 or 2.
    pub(crate) fn parse_or_exit() -> Self {
        Self::parse()
    }
}

impl Command {
    /// What every command takes.
    pub(crate) fn common(&self) -> &CommonArgs {
        match self {
            Self::Serve(args) => &args.common,
            Self::Acp(args) => &args.common,
            Self::Approve(args) => &args.common,
            Self::Ask(args) => &args.common,
            Self::Doctor(args) => &args.common,
            Self::Fetch(args) => &args.common,
            Self::Mcp(args) => &args.common,
            Self::Open(args) => &args.common,
            Self::Sessions(args) => &args.common,
            Self::Token(args) => &args.common,
        }
    }

    /// How to reach a server, for the commands that may.
    pub(crate) fn server(&self) -> Option<&ServerArgs> {
        match self {
            Self::Acp(args) => Some(&args.server),
            Self::Ask(args) => Some(&args.server),
            Self::Serve(_)
            | Self::Approve(_)
            | Self::Doctor(_)
            | Self::Fetch(_)
            | Self::Mcp(_)
            | Self::Open(_)
            | Self::Sessions(_)
            | Self::Token(_) => None,
        }
    }
}

/// An address to listen on; `localhost` is the IPv4 one.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:") {
        let port = port
            .parse()
            .map_err(|_| format!("`{port}` is not a port"))?;
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|_| "write it as ADDR:PORT, for example 127.0.0.1:4600".to_owned())
}

/// A name and a value.
fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write it as NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// What a resolver is made to say. The host is the guard's to judge.
fn answer(text: &str) -> Result<(String, Vec<IpAddr>), String> {
    let (host, addresses) = text.rsplit_once('=').ok_or("write it as HOST=IP[,IP]")?;
    let addresses = addresses.split(',').filter(|address| !address.is_empty());
    let addresses = addresses.map(|address| {
        let bare = address.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse();
        address.map_err(|_| format!("`{bare}` is not an IP address"))
    });
    Ok((host.to_owned(), addresses.collect::<Result<_, _>>()?))
}

/// A host and port that a person opens.
fn exception(text: &str) -> Result<netguard::Exception, String> {
    text.parse()
        .map_err(|error: netguard::ExceptionError| error.to_string())
}

/// A token's scope.
fn scope(text: &str) -> Result<auth::Scope, String> {
    match text {
        "control" => Ok(auth::Scope::Control),
        "observe" => Ok(auth::Scope::Observe),
        _ => Err("the scopes are control and observe".to_owned()),
    }
}

/// A time with its unit: `90s`, `90m`, `12h`, `30d`.
fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || "write it as a number and s, m, h or d, for example 12h".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let seconds = count.checked_mul(seconds).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// A store; only files so far.
pub(crate) fn store(text: &str) -> Result<Store, String> {
    match text {
        "file" => Ok(Store::File),
        _ if text.starts_with("nats://") => {
            Err("the clustered store (nats://…) is not built yet; use `--store file`".to_owned())
        }
        _ => Err("there is no such store; use `--store file`".to_owned()),
    }
}

/// A time in seconds, whole or not.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "not a time that can be waited".to_owned())
}

#[cfg(test)]
mod tests;
