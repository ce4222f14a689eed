//! The network as tools see it: a guard for addresses that a model names, and a search provider
//! that the operator chose.

use std::fmt;

use netguard::{Exception, Guard, Host, Target};

/// What tools reach the network through. Cheap to clone.
#[derive(Clone)]
pub struct Web {
    pub(crate) guard: Guard,
    pub(crate) search: Option<Search>,
}

/// A search provider, and the door to it.
#[derive(Clone)]
pub struct Search {
    pub(crate) provider: SearchProvider,
    /// Where it is asked: the address itself, without a query.
    pub(crate) endpoint: String,
    pub(crate) guard: Guard,
}

/// Who answers searches.
#[derive(Clone, Debug)]
pub enum SearchProvider {
    /// Brave Search.
    Brave(SearchKey),
    /// Tavily.
    Tavily(SearchKey),
    /// A SearXNG instance that gives JSON.
    Searxng,
}

/// A provider's key. It does not print.
#[derive(Clone)]
pub struct SearchKey(String);

/// The address of a provider cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SearchError {
    /// It is not a URL that can be fetched.
    #[error("the address of the search provider cannot be used: {0}")]
    Url(#[from] netguard::Refusal),
    /// It is one that nothing opens.
    #[error("the address of the search provider cannot be used: {0}")]
    Never(#[from] netguard::ExceptionError),
    /// The provider has no address of its own.
    #[error("SearXNG needs the address of an instance")]
    NoAddress,
}

impl Web {
    /// Fetches through `guard` and searches with `search`.
    #[must_use]
    pub fn new(guard: Guard, search: Option<Search>) -> Self {
        Self { guard, search }
    }

    /// The same for one session, with its own share of what may run at once.
    #[must_use]
    pub fn for_session(&self) -> Self {
        Self {
            guard: self.guard.for_session(Vec::new()),
            search: self.search.clone(),
        }
    }
}

impl Search {
    /// Asks `provider` at `address`, or at its own if there is none. The operator chose the
    /// address, so exactly its host and port are open to it, and to nobody else.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn new(
        provider: SearchProvider,
        address: Option<&str>,
        guard: &Guard,
    ) -> Result<Self, SearchError> {
        let address = address.or(match provider {
            SearchProvider::Brave(_) => Some("https://api.search.brave.com"),
            SearchProvider::Tavily(_) => Some("https://api.tavily.com"),
            SearchProvider::Searxng => None,
        });
        let target = Target::parse(address.ok_or(SearchError::NoAddress)?)?;
        let host = match target.host() {
            Host::Literal(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
            Host::Literal(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        };
        let entry: Exception = format!("{host}:{}", target.port()).parse()?;
        let path = match provider {
            SearchProvider::Brave(_) => "/res/v1/web/search",
            SearchProvider::Tavily(_) | SearchProvider::Searxng => "/search",
        };
        let base = target.url().as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            provider,
            endpoint: format!("{base}{path}"),
            guard: guard.for_session(vec![entry]),
        })
    }
}

impl SearchKey {
    /// A key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SearchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SearchKey(…)")
    }
}
