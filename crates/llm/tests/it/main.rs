//! Stories about providers against servers on this machine that answer with prepared bytes.

#![expect(
    clippy::unwrap_used,
    reason = "a story that cannot go on has failed; clippy knows only functions marked as tests"
)]

mod answers;
mod anthropic;
mod faults;
mod formats;
mod live;
mod ollama;
mod openai;
mod openai_chat;
mod refusals;
mod server;
mod support;
mod tls;
