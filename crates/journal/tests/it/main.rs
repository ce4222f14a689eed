//! The store as its users see it: what is written comes back, whatever happened in between.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod appending;
mod copying_out;
mod damage;
mod deleting;
mod descriptors;
mod failing;
mod forking;
mod golden;
mod grouping;
mod listing;
mod partial_damage;
mod processes;
mod recovering;
mod sharing;
mod soaking;
mod streaming;
mod world;
