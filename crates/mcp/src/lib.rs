//! Servers of tools that speak the Model Context Protocol (MCP): reached, watched over, and called
//! within bounds.
//!
//! `rmcp` knows the protocol; its types do not leave this crate. Around it stands what it leaves to
//! its user:
//!
//! * [`transport`]: how bytes travel: pipes to a program in the sandbox, Streamable HTTP and the older
//!   HTTP with server-sent events through the guard. Each has a [`life`] that says when and why it ended.
//! * [`link`] and [`call`]: one connection, on which every request ends once: by a result, an error of the
//!   server, its deadline, a cancellation, or the end of the connection.
//! * [`handler`]: what a server may ask of us, and [`elicit`] of the person, while a tool of it runs.
//! * [`supervise`] and [`keeper`]: what to do when a connection ends (rules), and the task that does it.
//! * [`fetching`]: private caches for programs that download what they run, such as `npx`.
//! * [`oauth`]: logins to servers that want to know who asks.
//! * [`hub`]: the servers of one session, as the [`RemoteTools`](tools::remote::RemoteTools) that turns
//!   see; [`Servers`] makes one for each session.

mod by_hand;
mod call;
mod callers;
mod connect;
mod elicit;
mod error;
#[cfg(test)]
mod faults;
mod fetching;
mod filter;
mod handler;
mod hub;
mod keeper;
mod life;
mod link;
mod logins;
mod names;
mod oauth;
mod outcome;
mod prompts;
mod resources;
mod roots;
mod sampling;
mod search;
mod supervise;
mod transport;

pub use connect::Servers;
pub use error::{CallError, ConnectError};
pub use fetching::is_downloader;
pub use hub::{Hub, ServerReport};
pub use names::{offered_name, server_key};
pub use oauth::{LoggedOut, LoginError};
pub use supervise::Phase;
