//! How frames travel: WebSocket, single HTTP requests, stdio, and channels within this process.
//!
//! A transport has a reader and a writer that know nothing of each other: the reader fills a small
//! bounded queue, the writer empties the connection's outbox.

pub mod pipe;
pub mod stdio;
pub mod streamable;
pub(crate) mod websocket;
