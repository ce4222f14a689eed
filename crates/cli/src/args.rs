//! The command line: what may be written, and how `--help` explains it.
//!
//! Nothing here reads the environment; [`crate::settings`] puts flags, environment and defaults
//! together.

mod mcp;
mod sessions;
mod setup;

use std::ffi::OsString;
use std::io::{Write as _, stdout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use crate::render;
use crate::settings::Environment;

pub(crate) use mcp::{McpAction, McpAddArgs, McpArgs};
pub(crate) use sessions::{ExportFormat, SessionsAction, SessionsArgs};
pub(crate) use setup::{CompletionsArgs, InitArgs, LoginArgs, LogoutArgs, ManArgs};

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
    /// Talk with the agent in the terminal.
    #[command(after_help = "Examples:\n  \
        fastness chat\n  \
        fastness chat --resume 3f2a\n  \
        fastness chat --server ws://box.example:4600\n\n\
        It goes through the server of this data directory if one runs (unless --model says otherwise), else \
        the agent runs in this process. When stdin or stdout is not a terminal, each line of stdin is a prompt and \
        the answers are plain text. Inside, /help shows commands and keys.")]
    Chat(ChatArgs),
    /// Print what a shell needs to complete our commands and flags.
    #[command(after_help = "Examples:\n  \
        fastness completions bash > ~/.local/share/bash-completion/completions/fastness\n  \
        fastness completions zsh > ~/.zfunc/_fastness\n  \
        fastness completions fish > ~/.config/fish/completions/fastness.fish")]
    Completions(CompletionsArgs),
    /// Check settings, model, sandbox, store, server, editors and tool servers, and say what to do.
    #[command(after_help = "Example:\n  fastness doctor --model openai-chat:local")]
    Doctor(DoctorArgs),
    /// Fetch a page through the guard and print it as Markdown.
    #[command(after_help = "Examples:\n  \
        fastness fetch https://example.com/\n  \
        fastness fetch --check http://169.254.169.254/\n  \
        fastness fetch --allow 127.0.0.1:3000 http://127.0.0.1:3000/\n\n\
        Exit code 3 means that a rule refused the address; nothing was sent to it.")]
    Fetch(FetchArgs),
    /// Tell an editor how to start us, and show the change before it is made.
    #[command(after_help = "Examples:\n  \
        fastness init zed\n  \
        fastness init --dry-run\n  \
        fastness init vscode --spawn --yes\n  \
        fastness init zed --remove\n\n\
        What was in the editor's file stays, with its comments; a copy of it is kept beside it.")]
    Init(InitArgs),
    /// Store an API key for a model provider.
    #[command(after_help = "Examples:\n  \
        fastness login anthropic\n  \
        fastness login openai < key.txt\n\n\
        The key is asked for without showing it, or read from stdin, and kept in a file that only you can read. \
        ANTHROPIC_API_KEY and OPENAI_API_KEY win over it. `fastness doctor` says which key is used.")]
    Login(LoginArgs),
    /// Remove the stored API key of a model provider.
    #[command(after_help = "Example:\n  fastness logout anthropic")]
    Logout(LogoutArgs),
    /// Print the manual page.
    #[command(after_help = "Examples:\n  \
        fastness man | man -l -\n  \
        fastness man --dir ~/.local/share/man/man1")]
    Man(ManArgs),
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
    /// The model: anthropic:NAME, openai:NAME, openai-chat:NAME, ollama:NAME, script:FILE or offline.
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
    /// Go through the server at this address (ws://, wss://, http://, https://, unix:PATH, or
    /// `local` for the one of this data directory) instead of running the agent here.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A file that holds the token for the server [default: `token` in the data directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Believe the certificates in this file too, for a server with TLS [default: the file that
    /// FASTNESS_CA_FILE or SSL_CERT_FILE names].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
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
    /// End when nobody has been connected and nothing has run for half an hour (the limit
    /// `spawned_idle_ms`), as a server does that `acp --spawn` started.
    #[arg(long, overrides_with = "end_when_idle")]
    pub(crate) end_when_idle: bool,
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
    /// Store an API key instead, as `fastness login` does; editors run this in a terminal.
    #[arg(long)]
    pub(crate) login: bool,
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
    /// Print one JSON object {sessionId, text, messages, stopReason, usage} at the end instead of the text, with
    /// {kind, message} as `error` if there is no whole answer.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a JSON object per line as things happen: session, text, thought, tool, tool_update,
    /// notice, and at the end result.
    #[arg(long, conflicts_with = "json")]
    pub(crate) stream_json: bool,
    /// Read stdin too, and put it after the question.
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Continue this session; the first characters of its id will do.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Permit a tool: its name, or `tool(pattern)` as in the settings. May be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<agent::permissions::Rule>,
    /// Cancel and fail after this time.
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
}

/// `fastness chat`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Go through the server of this data directory, and start one if none runs.
    #[arg(long, conflicts_with = "server")]
    pub(crate) spawn: bool,
    /// Go on with this session; the first characters of its id will do.
    #[arg(long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// Go on with the session of this directory in which something happened last.
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub(crate) is_continued: bool,
}

/// `fastness doctor`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
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
        /// The one session it opens; the first characters of its id will do.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
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

/// Where sessions are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Store {
    /// In files under the data directory.
    #[default]
    File,
}

impl Cli {
    /// The parsed command line. Help and wrong usage are printed here, and give the exit code 0 or 2, or 1 if
    /// help could not be written.
    pub(crate) fn parse_or_print() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            // Help goes to stdout, wrong usage to stderr.
            let printed = error.print().and_then(|()| stdout().flush());
            match printed {
                Err(unwritten) if !error.use_stderr() => {
                    let unwritten = render::unwritten(unwritten);
                    render::report(&unwritten.into(), &Environment::default())
                }
                Err(_) | Ok(()) => ExitCode::from(code),
            }
        })
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
            Self::Completions(args) => &args.common,
            Self::Chat(args) => &args.common,
            Self::Doctor(args) => &args.common,
            Self::Fetch(args) => &args.common,
            Self::Init(args) => &args.common,
            Self::Login(args) => &args.common,
            Self::Logout(args) => &args.common,
            Self::Man(args) => &args.common,
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
            Self::Init(args) => Some(&args.server),
            Self::Chat(args) => Some(&args.server),
            Self::Sessions(args) => args.action.server(),
            Self::Serve(_)
            | Self::Approve(_)
            | Self::Completions(_)
            | Self::Doctor(_)
            | Self::Fetch(_)
            | Self::Login(_)
            | Self::Logout(_)
            | Self::Man(_)
            | Self::Mcp(_)
            | Self::Open(_)
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
