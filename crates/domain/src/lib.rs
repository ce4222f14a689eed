//! The words of Fastness: typed ids, events, limits, and the errors people see.
//!
//! Start at [`event`] for what can happen in a session, [`ids`] for how things are named, and
//! [`limits`] for every number that bounds something. Nothing here does I/O except [`clock`].

pub mod clock;
pub mod cursor;
pub mod error;
pub mod event;
pub mod ids;
pub mod limits;
pub mod permit;
pub mod queued;
pub mod stars;
pub mod tool_server;
pub mod trace;

pub use cursor::Cursor;
pub use error::{FailureKind, TurnError};
pub use event::Event;
pub use ids::{
    CallId, ConnectionId, EventSeq, MessageId, PrincipalId, PromptId, SessionId, TurnId,
};
pub use limits::Limits;
pub use permit::Permit;
pub use queued::QueuedPrompt;
pub use tool_server::ToolServer;
pub use trace::TraceParent;
