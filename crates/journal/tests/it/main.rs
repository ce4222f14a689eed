//! The store as its users see it: what is written comes back, whatever happened in between.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod appending;
mod damage;
mod failing;
mod recovering;
mod sharing;
mod streaming;
mod world;
