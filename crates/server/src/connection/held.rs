//! Requests of a client that does not read its answers, in the order they came.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use wire::rpc::Incoming;

use super::Inbound;

/// Most requests that wait; as many as may be in flight.
const REQUESTS_MAX: usize = domain::limits::REQUESTS_IN_FLIGHT_MAX;

/// Bytes of such requests after which no more are read; one may be larger.
const BYTES_MAX: usize = 256 * 1024;

/// What waits.
#[derive(Default)]
pub(super) struct Held {
    waiting: VecDeque<(Inbound, usize)>,
    bytes: usize,
}

impl Held {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < REQUESTS_MAX && self.bytes < BYTES_MAX
    }

    pub(super) fn put(&mut self, inbound: Inbound) {
        let bytes = size_of(&inbound);
        self.bytes += bytes;
        self.waiting.push_back((inbound, bytes));
    }

    pub(super) fn take(&mut self) -> Option<Inbound> {
        let (inbound, bytes) = self.waiting.pop_front()?;
        self.bytes -= bytes;
        Some(inbound)
    }
}

fn size_of(inbound: &Inbound) -> usize {
    match inbound {
        Inbound::Frame(frame) => frame.len(),
        Inbound::TooLong => 0,
        Inbound::Parsed(incoming, _) => match incoming.as_ref() {
            Incoming::Request { params, .. } | Incoming::Notification { params, .. } => params
                .as_deref()
                .map_or(0, |params| RawValue::get(params).len()),
            Incoming::Response { .. } | Incoming::Ignored(_) => 0,
        },
    }
}
