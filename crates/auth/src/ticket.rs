//! Tickets: how a browser gets a token without anybody typing one.
//!
//! Whoever can write the data directory may issue one, for himself: 256 random bits, good once and
//! for a minute. [`Gate::log_in`](crate::Gate::log_in) exchanges it for a token of twelve hours in
//! one change of `tokens.json`, so that of two who show the same ticket one gets nothing, and the
//! token is listed, revoked and expires like any other. Only hashes are stored.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::clock::Timestamp;
use serde::{Deserialize, Serialize};

use crate::named::{NamedToken, NamedTokens, NewToken, hash_of, same};
use crate::secret::Secret;
use crate::token::{TokenError, random_token};

/// How long a ticket is good: as long as a browser takes to start.
pub const TICKET_TIME: Duration = Duration::from_secs(60);

/// How long the token is good that a ticket becomes: a working day.
pub const LOGIN_TIME: Duration = Duration::from_secs(12 * 3_600);

/// Tickets that may be out at once; the oldest gives way, so that the file stays small.
const TICKETS_MAX: usize = 16;

/// Tokens from tickets that may be out at once; the oldest gives way.
const LOGINS_MAX: usize = 64;

/// Wrong tickets that are answered at once before their number per second is limited.
const FAILURES_BURST: f64 = 10.0;

/// Wrong tickets per second after that: nobody mistypes a ticket.
const FAILURES_PER_SECOND: f64 = 1.0;

/// A ticket as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ticket {
    sha256: String,
    expires_at: f64,
}

/// What a ticket became.
#[derive(Clone, Debug)]
pub struct Login {
    /// The token; it is not shown again.
    pub token: Secret,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// Why a ticket opened nothing.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// It was never issued, was used, or is too old: which of them is nobody's business.
    #[error("this ticket is not good, or not any more")]
    Wrong,
    /// So many were wrong that the next answer has to wait.
    #[error("too many wrong tickets; try again later")]
    TooMany {
        /// How long to wait.
        retry_after: Duration,
    },
    /// The token could not be stored.
    #[error("the login could not be stored")]
    NotStored(#[from] TokenError),
}

impl NamedTokens {
    /// Makes a ticket for the person at this machine; it is returned here and never again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn issue_ticket(&self, now: Timestamp) -> Result<Secret, TokenError> {
        let secret = random_token()?;
        let ticket = Ticket {
            sha256: hash_of(&secret),
            expires_at: now.0 + TICKET_TIME.as_secs_f64(),
        };
        self.change(|stored| {
            stored.tickets.retain(|ticket| ticket.expires_at > now.0);
            let excess = (stored.tickets.len() + 1).saturating_sub(TICKETS_MAX);
            stored.tickets.drain(..excess);
            stored.tickets.push(ticket);
            Ok(())
        })?;
        Ok(Secret::new(secret))
    }

    /// Exchanges a ticket for a token, once.
    pub(crate) fn redeem(&self, shown: &str, now: Timestamp) -> Result<Login, LoginError> {
        let hash = hash_of(shown);
        let is_it = |ticket: &Ticket| ticket.expires_at > now.0 && same(&ticket.sha256, &hash);
        // A guess costs a look at the file, never a lock or a write.
        if !self.tickets()?.iter().any(is_it) {
            return Err(LoginError::Wrong);
        }
        let expires_at = Timestamp(now.0 + LOGIN_TIME.as_secs_f64());
        let (mut made, token) = NamedToken::random(
            NewToken {
                expires_at: Some(expires_at.0),
                ..NewToken::default()
            },
            now,
        )?;
        made.is_login = true;
        made.name = format!("page-{}", made.id.get(..8).unwrap_or_default());
        let is_taken = self.change(|stored| {
            let Some(place) = stored.tickets.iter().position(is_it) else {
                return Ok(false);
            };
            stored.tickets.remove(place);
            stored.tokens.retain(|token| !token.has_expired(now));
            let is_login = |token: &NamedToken| token.is_login;
            let logins = stored.tokens.iter().filter(|token| token.is_login).count();
            if logins >= LOGINS_MAX
                && let Some(oldest) = stored.tokens.iter().position(is_login)
            {
                stored.tokens.remove(oldest);
            }
            stored.tokens.push(made);
            Ok(true)
        })?;
        if is_taken {
            Ok(Login { token, expires_at })
        } else {
            Err(LoginError::Wrong)
        }
    }
}

/// Counts wrong tickets. A good one is always taken, so that nobody can lock others out by
/// guessing; 256 bits are not guessed.
#[derive(Debug)]
pub(crate) struct Failures(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Timestamp,
}

impl Default for Failures {
    fn default() -> Self {
        Self(Mutex::new(Bucket {
            left: FAILURES_BURST,
            at: Timestamp(0.0),
        }))
    }
}

impl Failures {
    /// Counts one more, and says how it is to be answered.
    pub(crate) fn one_more(&self, now: Timestamp) -> LoginError {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back must not make anybody wait for it.
        let passed = (now.0 - bucket.at.0).max(0.0);
        bucket.left = (bucket.left + passed * FAILURES_PER_SECOND).min(FAILURES_BURST);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return LoginError::Wrong;
        }
        let retry_after = Duration::from_secs_f64((1.0 - bucket.left) / FAILURES_PER_SECOND);
        LoginError::TooMany { retry_after }
    }
}

#[cfg(test)]
mod tests;
