//! The official ACP clients that tests talk to, language servers, and the script that installs and runs them.
//!
//! `scripts/peers.sh` owns where things are and what is missing; it takes a lock, so tests in
//! many processes may ask at once. `FASTNESS_PEERS_DIR` moves the installation out of `target`.

use std::path::{Path, PathBuf};

use crate::system;

/// A program written by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The TypeScript SDK; its package also brings the official schema.
    TypeScript,
    /// The Python SDK.
    Python,
    /// The command-line client `acpx`.
    Acpx,
    /// The language server `pylsp`, a program in its `bin`.
    Pylsp,
    /// The language server `typescript-language-server`, a program in its `bin` that needs `node`.
    TypeScriptServer,
    /// Tool servers of the MCP project, in TypeScript: they are only installed.
    McpNode,
    /// Such servers in Python, and what one more is made with.
    McpPython,
    /// The conformance suite of MCP.
    McpConformance,
    /// The tester of REST `schemathesis`, a Python package in its `site`.
    Schemathesis,
    /// The package manager `uv`, whose programs are in `site/bin`.
    Uv,
    /// Redocly's linter and a generator of TypeScript, for the OpenAPI description.
    OpenApi,
    /// A driver of the browser, for the web page.
    Page,
}

impl Peer {
    /// The programs that install and run it.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::TypeScript
            | Self::Acpx
            | Self::TypeScriptServer
            | Self::McpNode
            | Self::McpConformance
            | Self::OpenApi => &["node", "npm"],
            Self::Python | Self::Pylsp | Self::McpPython | Self::Schemathesis | Self::Uv => {
                &["python3", "pip"]
            }
            Self::Page => &["node", "npm", "chromium"],
        }
    }

    /// Its name for the script, and its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "typescript",
            Self::Python => "python",
            Self::Acpx => "acpx",
            Self::Pylsp => "pylsp",
            Self::TypeScriptServer => "tsls",
            Self::McpNode => "mcp-node",
            Self::McpPython => "mcp-python",
            Self::McpConformance => "mcp-conformance",
            Self::Schemathesis => "schemathesis",
            Self::Uv => "uv",
            Self::OpenApi => "openapi",
            Self::Page => "page",
        }
    }
}

/// The folder `peer` is installed in, after installing whatever is missing.
///
/// # Panics
/// If it cannot be installed: a test that needs it must not pass without it.
#[must_use]
pub fn ensure(peer: Peer) -> PathBuf {
    peer.needs().iter().copied().for_each(system::need);
    #[expect(
        clippy::disallowed_methods,
        reason = "the installer is a script of this repository"
    )]
    let mut command = std::process::Command::new(script());
    let output = command
        .args(["install", peer.name()])
        .output()
        .unwrap_or_else(|error| panic!("scripts/peers.sh does not start: {error}"));
    assert!(
        output.status.success(),
        "scripts/peers.sh install {} failed ({}):\n{}{}",
        peer.name(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // The last line is the folder; npm and pip may say something before it.
    let printed = String::from_utf8_lossy(&output.stdout);
    PathBuf::from(printed.trim_end().lines().last().unwrap_or_default())
}

/// The script that installs (`install PEER…`) and runs (`run PEER PLAN`) the peers.
#[must_use]
pub fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/peers.sh")
}
