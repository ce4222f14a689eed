//! Introducing ourselves to an authorization server, together with where it sends people back to.
//!
//! What we are called after registering counts for the port that was registered with it, so both are kept and
//! used again, until the authorization server does not know them any more or somebody else has the port.

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::discover::Authority;
use super::login::now;
use super::redirect::Redirect;
use super::{Account, LoginError};

/// Us, as an authorization server knows us.
pub(super) struct Introduced {
    pub(super) client: Client,
    pub(super) redirect: Redirect,
    how: How,
}

/// How it knows us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The settings say so.
    Said,
    /// We have registered for an earlier login.
    Kept { ends: Option<u64> },
    /// We have registered for this one.
    Registered { ends: Option<u64> },
}

/// What is kept of having registered. It does not print.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Registration {
    client: Client,
    redirect_port: u16,
    /// Seconds since 1970 until which it counts, if it was said.
    ends: Option<u64>,
}

impl Introduced {
    /// Whether it is what was kept of an earlier login.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.how, How::Kept { .. })
    }

    /// What is worth keeping of it.
    pub(super) fn registration(&self) -> Option<Registration> {
        let ends = match self.how {
            How::Said => return None,
            How::Kept { ends } | How::Registered { ends } => ends,
        };
        Some(Registration {
            client: self.client.clone(),
            redirect_port: self.redirect.port(),
            ends,
        })
    }
}

impl Account {
    /// Introduces us to `authority`: as the settings say, as before, or by registering.
    ///
    /// # Errors
    /// If it lets nobody register, or not us.
    pub(super) async fn introduced(&self, authority: &Authority) -> Result<Introduced, LoginError> {
        let set = self.client();
        let port = set.and_then(|set| set.redirect_port);
        if let Some(client) = set.and_then(|set| Client::said(set, authority)) {
            return Ok(Introduced {
                client,
                redirect: Redirect::open(port).await?,
                how: How::Said,
            });
        }
        if let Some(kept) = self.take_registration(&authority.issuer).await
            && kept.ends.is_none_or(|ends| now() < ends)
            && port.is_none_or(|port| port == kept.redirect_port)
            && let Ok(redirect) = Redirect::open(Some(kept.redirect_port)).await
        {
            return Ok(Introduced {
                client: kept.client,
                redirect,
                how: How::Kept { ends: kept.ends },
            });
        }
        self.registered(authority).await
    }

    /// Registers us at `authority`.
    ///
    /// # Errors
    /// If it lets nobody register, or not us.
    pub(super) async fn registered(&self, authority: &Authority) -> Result<Introduced, LoginError> {
        let port = self.client().and_then(|set| set.redirect_port);
        let redirect = Redirect::open(port).await?;
        let (client, ends) = Client::register(authority, self.web(), &redirect.uri()).await?;
        Ok(Introduced {
            client,
            redirect,
            how: How::Registered { ends },
        })
    }
}
