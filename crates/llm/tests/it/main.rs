//! Stories about `openai-chat` against a server that answers with prepared bytes.

#![expect(
    clippy::unwrap_used,
    reason = "a story that cannot go on has failed; clippy knows only functions marked as tests"
)]

mod openai_chat;
mod server;
