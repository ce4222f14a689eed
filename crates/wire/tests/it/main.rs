//! What `wire` promises at its edges: frames in, typed messages out, and back.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is the finding"
)]

mod client_side;
mod decode;
mod emit;
mod hostile;
mod lines;
mod rpc;
mod sse;
mod vectors;

use domain::SessionId;
use serde_json::Value;
use serde_json::value::RawValue;

/// A session's name as text, and the same as a name.
const SESSION: &str = "0123456789abcdef0123456789abcdef";

fn session() -> SessionId {
    SESSION.parse().unwrap()
}

fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap()
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}
