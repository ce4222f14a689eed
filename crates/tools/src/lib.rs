//! Acting on the world. A [`Toolbox`] knows what tools a session has, says what a call would do
//! ([`Toolbox::show`]), and runs it when given a [`Permit`](domain::Permit).
//!
//! Files are reached only through [`roots::Roots`], beneath the session's directories; or on the
//! machine of the client that prompted, through [`client_side`], by paths that `Roots` has checked.
//! The network is reached only through [`web`], whose guard judges every address a model names.
//! What a project brings along ([`instructions`], the [`library`]) is read within bounds.
//! Processes are started only by [`sandbox`], also the language servers that [`lsp`] speaks to.
//! A new tool is one file under `builtin` and one line in `builtin::ALL`.

pub mod agents;
mod applicable;
pub mod asks;
mod builtin;
pub mod calls;
pub mod client_side;
mod diff;
pub mod file_names;
mod freshness;
pub mod helpers;
mod hidden;
pub mod instructions;
pub mod library;
pub mod line_diff;
pub mod lsp;
mod notebook;
pub mod output;
pub mod plain;
pub mod progress;
pub mod protected;
pub mod remote;
pub mod roots;
pub mod sandbox;
pub mod seen;
pub mod shell;
pub mod stamps;
pub mod surroundings;
mod tool_chains;
mod toolbox;
pub mod touched;
pub mod web;

pub use builtin::{
    Found, Outcome, PersonQuestion, Preview, Question, Running, RunsAgents, RunsCommands, RunsHere,
    RunsOnLibrary, RunsOut, RunsThere, Shown, TaskCall, There, Tool, names,
};
pub use freshness::Freshness;
pub use toolbox::Toolbox;
