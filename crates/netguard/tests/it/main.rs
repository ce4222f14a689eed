//! The guard as others use it: no test needs a network beyond loopback.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on stops there")]

mod addresses;
mod behaviours;
mod exceptions;
mod hostile;
mod limits;
mod pages;
mod property;
mod proxies;
mod rebinding;
mod redirects;
mod support;
mod tls;
mod vectors;
