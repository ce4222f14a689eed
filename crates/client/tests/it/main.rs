//! The client library against small servers that behave well, badly, or not at all.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod lasting;
mod server;
mod stability;
mod turns;
mod watching;
mod websocket;
