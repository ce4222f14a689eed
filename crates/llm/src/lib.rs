//! Model providers: one [`Provider`] per process, one [`Model`] per session, one stream per call.
//!
//! [`choose()`] turns settings into a provider. A provider's quirks live in `providers/<name>.rs`;
//! what all share is here: [`model`] the words, `deadline` and `retry` the waiting, `http` the
//! one HTTP client. Nothing in this crate reads the environment.

mod call;
mod catalog;
mod choose;
mod content;
mod deadline;
mod dialect;
mod error;
mod hosted;
mod http;
mod inputs;
mod known;
mod memory;
pub mod model;
mod probe;
mod providers;
mod reach;
mod refusal;
mod retry;
mod schema;
mod secret;
mod sources;
mod window;

pub use catalog::{Addresses, Catalog, ModelOption, Models};
pub use choose::{Choice, ChooseError, ModelSettings, choose};
pub use error::{ModelError, Wait};
pub use model::{
    Chunk, ChunkStream, Message, Model, ModelRequest, ModelStop, Preparation, Provider, ToolCall,
    ToolOutcome, ToolSpec,
};
pub use providers::script::ScriptError;
pub use reach::{ReachError, ReachReport, reach};
pub use schema::Schema;
pub use secret::{Key, Secret};
