//! The product, through the real binary over real pipes and sockets.
//!
//! Every message the program sends in these stories is held against the official ACP schema by
//! [`testkit::Oracle`].

#![expect(clippy::unwrap_used, reason = "a story that cannot go on stops there")]

mod ask;
mod backpressure;
mod bodies;
mod clientside;
mod coming_back;
mod commands;
mod compaction;
mod durability;
mod faults;
mod fetch;
mod file_tools;
mod hooks;
mod hostile;
mod hostile_inputs;
mod http2;
mod identity;
mod isolation;
mod kill;
mod limits;
mod listening;
mod liveness;
mod logs;
mod lsp;
mod metrics;
mod models;
mod peers;
mod peers_rust;
mod permissions;
mod project;
mod prompts;
mod races;
mod rejected;
mod remote_clients;
mod remote_http2;
mod remote_tools;
mod remote_vectors;
mod resume;
mod sandbox;
mod serve;
mod sessions;
mod sessions_cli;
mod stability;
mod streamable;
mod support;
mod task_ends;
mod tasks;
mod tickets;
mod tls;
mod traces;
mod turns;
mod unix;
mod vectors_auth;
mod vectors_door;
mod vectors_frames;
mod vectors_http;
mod vectors_jsonrpc;
mod vectors_routes;
mod web_tools;
mod whole_tasks;
