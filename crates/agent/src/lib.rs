//! One turn of a session: ask the model, run what was permitted, repeat until done or out of
//! budget.
//!
//! [`turn::run`] is the loop. It changes nothing by itself: what it wants stored goes as
//! [`report::Report`]s through the channel its caller passed in, and a tool runs only with the
//! [`Permit`](domain::Permit) that comes back. [`context`] folds a journal into what the model sees.

pub mod budget;
pub mod command;
pub mod context;
pub mod hooks;
mod one_model;
pub mod permissions;
pub mod project;
pub mod prompt;
pub mod report;
pub mod settings;
pub mod turn;

pub use budget::Budget;
pub use command::Command;
pub use context::Conversation;
pub use one_model::OneModel;
pub use project::{Operator, ProjectView};
pub use report::{Asking, Context, Finished, Note, Proposal, Refusal, Report, TurnEnd, Verdict};
// What a session hands to a turn, so that it needs no other crate to speak of them.
pub use llm::{Catalog, Message, Model, ModelOption, Provider};
pub use tools::asks::PersonAnswer;
pub use tools::lsp::LanguageServers;
pub use tools::remote::{Patience, RemoteCommand, RemoteHome, RemoteSource, RemoteTools};
pub use tools::shell::Shell;
pub use tools::surroundings::branch;
pub use tools::touched::Touched;
pub use tools::web::Web;
pub use tools::{
    Outcome, PersonQuestion, Running, Toolbox, agents, client_side, file_names, helpers, library,
    progress,
    roots::{PathError, Root, RootBase, Roots},
    seen::Seen,
};
