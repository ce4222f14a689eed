//! The safe door to the network for addresses that somebody else chose.
//!
//! A model, a client or a project file names a URL; [`Guard`] decides whether it may be fetched, and
//! fetches it. The rules, in the order in which they apply on every hop:
//!
//! 1. [`Target::parse`] refuses what URL parsers disagree about, then parses once.
//! 2. Names are checked as names: length, labels, nothing that means "this machine" or "this site".
//! 3. A name is resolved once, and every answer is judged; one bad address refuses the name.
//! 4. Only a [`JudgedAddr`] can be dialled, and only the judge makes one. Host, SNI and certificate
//!    stay on the name.
//! 5. Redirects are followed by hand, each through rules 1 to 4.
//! 6. Time, bytes and parallel fetches have limits ([`Limits`]).
//! 7. A [`Refusal`] names the rule and never the address that a name resolved to.
//!
//! ```no_run
//! # async fn story() -> Result<(), Box<dyn std::error::Error>> {
//! let guard = netguard::Guard::new(netguard::Policy::default())?;
//! let response = guard.get("https://example.com/").await?;
//! assert_eq!(response.status, 200);
//! # Ok(()) }
//! ```
//!
//! Read `network.rs` for which addresses are public, `judge.rs` for who may be dialled, and `fetch.rs`
//! for the loop over redirects.

mod answer;
mod body;
mod clock;
mod connect;
mod dial;
mod error;
mod exception;
mod exchange;
mod fetch;
mod guard;
mod judge;
mod limits;
mod name;
mod network;
mod own;
#[cfg(feature = "page")]
pub mod page;
mod policy;
mod proxy;
mod redirect;
mod refusal;
mod resolve;
mod target;
mod tls;

pub use answer::{End, Request, Response};
pub use clock::{Clock, SystemClock};
pub use connect::Connection;
pub use dial::{Dialer, Stream, TcpDialer};
pub use egress::{Bypass, Proxies, Proxy, ProxyError};
pub use error::{FetchError, Phase};
pub use exception::{Exception, ExceptionError};
pub use guard::{Guard, GuardBuilder};
pub use judge::{Admitted, JudgedAddr};
pub use limits::Limits;
pub use network::Network;
pub use own::{OwnAddresses, ProbedAddresses};
pub use policy::Policy;
pub use refusal::{NameFault, RedirectFault, Refusal, ResolutionFault, UrlFault};
pub use resolve::{FixedResolver, Resolver, SystemResolver};
pub use target::{Host, Target};

/// A future that a trait object hands out.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The examples of the README are compiled like any others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
