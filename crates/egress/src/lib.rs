//! How connections leave this machine: which certificates are trusted, and which proxy is used.
//!
//! Models, MCP servers, OAuth, web fetches and the client of a Fastness server all take their
//! [`Roots`] and [`Proxies`] from here, so that one setting means the same for all of them. This
//! crate opens no connection and reads no environment variable: callers pass values in.

mod bypass;
mod proxies;
mod proxy;
mod roots;

pub use bypass::Bypass;
pub use proxies::{NamedProxy, Proxies, UnusableProxy};
pub use proxy::{Proxy, ProxyError};
pub use roots::{LoadedRoots, PublicRoots, RootSources, Roots, RootsError};
