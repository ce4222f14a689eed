//! Sessions as their users see them, over a storage that can lose power.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod clientside;
mod entering;
mod leaving;
mod power;
mod resting;
mod turn_start;
mod turns;
