//! Listening, admission, transports, and the connection between a client and its sessions.
//!
//! [`connection`] is where a client's frames meet its sessions; [`transport`] carries the frames;
//! [`http`] is the listening edge, and [`rest`] is for scripts and pages. All of them share one [`Service`].

mod connection;
pub mod http;
mod rest;
mod roster;
mod service;
mod slots;
pub mod transport;

pub use roster::Roster;
pub use service::{LoginState, ModelLogin, Service};
pub use slots::Slots;
pub use transport::streamable::Remotes;
