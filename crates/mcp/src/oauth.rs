//! Logins: OAuth 2.1 as MCP profiles it, for servers that listen.
//!
//! A server that wants to know who we are says so with a [`challenge`]. [`discover`] finds out whom it
//! trusts, [`client`] and [`introduce`] what we are called there, [`login`] has a person consent, and [`store`] keeps what
//! came of it in a file of its own. An [`Account`] is one server's login as its connection uses it: it
//! brings the token along, and renews it under a lock that all processes share.
//!
//! Every address here was named by somebody else, so every request goes through [`web`].

mod account;
mod challenge;
mod client;
mod discover;
mod introduce;
mod login;
mod logout;
mod redirect;
mod store;
#[cfg(test)]
mod tests;
mod web;

pub(crate) use account::{Account, NotRenewed};
pub(crate) use challenge::Challenge;
pub use logout::LoggedOut;
pub(crate) use store::Logins;
pub(crate) use web::Web;

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// What was found there cannot be trusted, or does not suffice; trying again would not help.
    #[error("{0}")]
    Refused(String),
    /// Somebody on the way could not be reached or did not answer sensibly.
    #[error("{0}")]
    Failed(String),
    /// The authorization server has no time for us now.
    #[error("{why}")]
    Busy {
        /// What it said.
        why: String,
        /// How long it wants to be left alone, if it said so.
        retry_after: Option<std::time::Duration>,
    },
    /// The person, or who decides there, said no.
    #[error("the login was denied: {0}")]
    Denied(String),
    /// What we are called there is not known there, or not any more.
    #[error("the authorization server does not know this client: {0}")]
    NotKnown(String),
    /// Nobody came back with an answer.
    #[error("nobody logged in within {} minutes", domain::limits::MCP_LOGIN_WAIT.as_secs() / 60)]
    TooSlow,
    /// It could not be kept.
    #[error("the login could not be stored")]
    NotStored(#[from] std::io::Error),
}
