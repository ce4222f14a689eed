//! The product, through the real binary over real pipes and sockets.
//!
//! Every message the program sends in these stories is held against the official ACP schema by
//! [`testkit::Oracle`].

#![expect(clippy::unwrap_used, reason = "a story that cannot go on stops there")]

mod ask;
mod durability;
mod hostile;
mod identity;
mod isolation;
mod kill;
mod limits;
mod peers;
mod peers_rust;
mod prompts;
mod races;
mod serve;
mod sessions;
mod sessions_cli;
mod support;
