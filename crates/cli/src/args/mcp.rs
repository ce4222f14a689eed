//! What can be typed about tool servers.

use clap::{Args, Subcommand};

use super::CommonArgs;

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
    /// The program may reach the network. One that fetches what it runs (npx, uvx) may unless you say otherwise.
    #[arg(long, conflicts_with_all = ["url", "no_network"])]
    pub(crate) network: bool,
    /// It may not, whatever it is.
    #[arg(long, conflicts_with = "url")]
    pub(crate) no_network: bool,
    /// Into the project's fastness.toml instead of your config.toml.
    #[arg(long)]
    pub(crate) project: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A name and a value.
fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write it as NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
