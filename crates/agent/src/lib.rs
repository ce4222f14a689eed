//! One turn of a session: ask the model, run what was permitted, repeat until done or out of
//! budget.
//!
//! [`turn::run`] is the loop. It changes nothing by itself: what it wants stored goes as
//! [`report::Report`]s through the channel its caller passed in, and a tool runs only with the
//! [`Permit`](domain::Permit) that comes back. [`context`] folds a journal into what the model sees.

pub mod budget;
pub mod context;
pub mod hooks;
pub mod project;
pub mod report;
pub mod settings;
pub mod turn;

pub use budget::Budget;
pub use context::Conversation;
pub use project::{Operator, ProjectView};
pub use report::{Note, Proposal, Report, TurnEnd, Verdict};
// What a session hands to a turn, so that it needs no other crate to speak of them.
pub use llm::{Message, Model, Provider};
pub use tools::shell::Shell;
pub use tools::web::Web;
pub use tools::{Toolbox, client_side, library, progress, roots::Roots};
