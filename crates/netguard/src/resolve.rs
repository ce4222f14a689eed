//! From a name to addresses: the system's way, or answers that were given.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::BoxFuture;
use crate::limits::LOOKUPS_MAX;
use crate::name;

/// Answers names. It is asked once per hop; nothing is cached and nobody else is asked.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of `name`, which is lower-case ASCII without a last dot.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the system, with its hosts file and its search order.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    permits: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let permits = Arc::clone(&self.permits);
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let lookup = move || {
                // A lookup cannot be interrupted. It keeps its permit when nobody waits any more,
                // so that abandoned ones cannot pile up.
                let _permit = permit;
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            };
            let done = tokio::task::spawn_blocking(lookup).await;
            done.map_err(io::Error::other)?
        })
    }
}

/// Answers that somebody supplied; other names go to another resolver.
pub struct FixedResolver {
    answers: HashMap<String, Vec<IpAddr>>,
    others: Arc<dyn Resolver>,
}

impl FixedResolver {
    /// Without answers of its own yet.
    #[must_use]
    pub fn before(others: Arc<dyn Resolver>) -> Self {
        Self {
            answers: HashMap::new(),
            others,
        }
    }

    /// Answers `host` with `addresses`, which are judged like any others. The host is not checked;
    /// one that no URL can have is never asked for.
    #[must_use]
    pub fn answer(mut self, host: &str, addresses: Vec<IpAddr>) -> Self {
        let parsed = url::Host::parse(host).ok();
        let host = parsed.map_or_else(|| host.to_owned(), |host| host.to_string());
        self.answers.insert(name::canonical(&host), addresses);
        self
    }
}

impl Resolver for FixedResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        match self.answers.get(name) {
            Some(addresses) => Box::pin(async move { Ok(addresses.clone()) }),
            None => self.others.resolve(name),
        }
    }
}
