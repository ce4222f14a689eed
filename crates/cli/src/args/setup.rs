//! What can be typed to set up editors and shells.

use std::path::PathBuf;

use clap::Args;

use super::{CommonArgs, ServerArgs};
use crate::init::editor::Editor;
use crate::keys::KeyProvider;

/// `fastness init`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InitArgs {
    /// The editor [default: those that are found].
    pub(crate) editor: Option<Editor>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Have the editor share the server of the data directory, which is started if none runs.
    #[arg(long, conflicts_with = "server")]
    pub(crate) spawn: bool,
    /// Take it back: the file is what it was before.
    #[arg(long)]
    pub(crate) remove: bool,
    /// Do not ask first.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only show the difference.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// The editor's file, if it is not in the usual place.
    #[arg(long, value_name = "FILE", requires = "editor")]
    pub(crate) file: Option<PathBuf>,
}

/// `fastness login`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LoginArgs {
    /// The provider [default: you are asked].
    pub(crate) provider: Option<KeyProvider>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `fastness logout`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The provider.
    pub(crate) provider: KeyProvider,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `fastness completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// `fastness man`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ManArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Write a page for every command into this directory instead of printing the first.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
