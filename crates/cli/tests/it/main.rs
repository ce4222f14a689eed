//! The product, through the real binary over real pipes and sockets.
//!
//! Every message the program sends in these stories is held against the official ACP schema by
//! [`testkit::Oracle`].

mod ask;
mod durability;
mod hostile;
mod isolation;
mod peers;
mod peers_rust;
mod prompts;
mod serve;
mod sessions;
mod support;
