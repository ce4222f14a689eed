//! The listening edge: [`listen`] takes sockets, [`carry`] keeps them going, [`admission`] is what
//! every request passes, [`routes`] says where it goes, [`acp`] is where ACP begins.

#![expect(
    clippy::result_large_err,
    reason = "an answer is what a check gives instead of its result, once per request"
)]

pub(crate) mod access_log;
mod acp;
mod admission;
pub(crate) mod answer;
pub(crate) mod body;
mod carry;
mod echo;
mod farewell;
mod listen;
pub(crate) mod login;
mod metrics_route;
mod page;
mod protect;
mod pulse;
mod routes;
mod sniff;
mod socket;
mod taking;
mod tls;
mod tui;
mod unix;
mod unread;

pub(crate) use pulse::Progress;

pub use listen::{Listening, bind, serve};
pub use tls::{Tls, TlsError};
pub use unix::{UnixDoor, UnixError};
