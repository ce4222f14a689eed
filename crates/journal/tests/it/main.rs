//! The store as its users see it: what is written comes back, whatever happened in between.

mod appending;
mod damage;
mod failing;
mod recovering;
mod sharing;
mod streaming;
mod world;
