//! Connecting to a Fastness server: handshake, deadlines, streamed turns, and coming back.
//!
//! Start at [`Client`]: it talks over a [`Transport`] (a connection to a server, or a [`Pipe`] to an
//! agent in this process) through one connection task that owns all state. Every wait has an end, and
//! what the server says that we do not understand is skipped. With [`Transport::lasting`] the
//! connection is made anew when it breaks, and a turn goes on as if nothing had happened:
//!
//! ```no_run
//! use client::{Client, ClientSettings, Dialer, PromptEvent, Transport, Update};
//! use domain::Limits;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits::default();
//! let dialer = Dialer::to("ws://127.0.0.1:4600", Some("the token"), &limits);
//! let (transport, _state) = Transport::lasting(dialer, &limits).await?;
//! let settings = ClientSettings {
//!     limits,
//!     name: "example",
//!     version: "1",
//! };
//! let client = Client::connect(transport, settings).await?;
//! let attached = client.new_session("/project".as_ref()).await?;
//! let mut turn = client.prompt(attached.session, "what is here?").await?;
//! while let Some(event) = turn.next().await {
//!     match event? {
//!         PromptEvent::Update(Update::Text { text, .. }) => println!("{text}"),
//!         // Dropping a question denies it.
//!         PromptEvent::Update(_) | PromptEvent::Ask(_) => {}
//!         PromptEvent::Ended(end) => println!("({})", end.stop_reason),
//!     }
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod address;
mod bridge;
mod client;
mod connection;
mod dial;
mod error;
mod lasting;
mod message;
mod prompt;
mod streamable;
mod transport;
mod update;
mod watch;
mod websocket;
mod writer;

pub use bridge::{Line, bridge};
pub use client::{AgentInfo, Attached, Client, ClientSettings, SessionPage, SessionSummary};
pub use dial::Trust;
pub use error::{ClientError, TransportError};
pub use lasting::{Dialer, LinkState};
pub use prompt::{Ask, PromptEnd, PromptEvent, PromptStream};
pub use transport::{FrameIn, FrameOut, Heartbeat, Pipe, Transport};
pub use update::{ToolCall, Update};
pub use watch::{Watch, WatchEvent};
