//! Bytes to typed messages and back, for JSON-RPC, ACP and SSE. No I/O, no clock, no panic.
//!
//! A frame goes through [`rpc::parse`], and what it asks for through [`acp::decode`]; answers and
//! updates are made by the encoders in [`acp`] and [`rpc`]. Any bytes give a value or an error, in
//! memory bounded by the size of the frame.

pub mod acp;
pub mod lines;
pub mod rpc;
pub mod sse;

mod text;
