//! Connecting to a Fastness server: handshake, deadlines, streamed turns.
//!
//! Start at [`Client`]: it talks over a [`Transport`] (a WebSocket, or a [`Pipe`] to an agent in this
//! process) through one connection task that owns all state. Every wait has an end, and what the
//! server says that we do not understand is skipped.

mod bridge;
mod client;
mod connection;
mod error;
mod lasting;
mod message;
mod prompt;
mod transport;
mod update;
mod websocket;
mod writer;

pub use bridge::{Line, bridge};
pub use client::{AgentInfo, Attached, Client, ClientSettings, SessionPage, SessionSummary};
pub use error::{ClientError, TransportError};
pub use lasting::{Dialer, LinkState};
pub use prompt::{Ask, PromptEnd, PromptEvent, PromptStream};
pub use transport::{FrameIn, FrameOut, Heartbeat, Pipe, Transport};
pub use update::{ToolCall, Update};
