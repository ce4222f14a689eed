//! The guard: a policy with the resolver, dialer and clock that it uses.

use std::net::IpAddr;
use std::sync::Arc;

use egress::{NamedProxy, RootSources, Roots, RootsError};
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::answer::{Request, Response};
use crate::clock::{Clock, SystemClock};
use crate::connect::{self, Connection};
use crate::dial::{Dialer, TcpDialer};
use crate::error::FetchError;
use crate::exception::Exception;
use crate::fetch;
use crate::judge::{Admitted, Judge, Route};
use crate::own::{OwnAddresses, ProbedAddresses};
use crate::policy::Policy;
use crate::refusal::{Refusal, ResolutionFault};
use crate::resolve::{Resolver, SystemResolver};
use crate::target::{Host, Target};
use crate::tls::Tls;

/// The door to the network. Cheap to clone; clones share the limit on parallel fetches.
#[derive(Clone)]
pub struct Guard {
    pub(crate) parts: Arc<Parts>,
    /// What one session was allowed besides.
    exceptions: Arc<[Exception]>,
    pub(crate) permits: Arc<Semaphore>,
}

pub(crate) struct Parts {
    pub(crate) policy: Policy,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) dialer: Arc<dyn Dialer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) own: Arc<dyn OwnAddresses>,
    pub(crate) tls: Tls,
    pub(crate) user_agent: http::HeaderValue,
}

/// Puts a guard together; whatever is not given is the real thing.
pub struct GuardBuilder {
    policy: Policy,
    resolver: Option<Arc<dyn Resolver>>,
    dialer: Option<Arc<dyn Dialer>>,
    clock: Option<Arc<dyn Clock>>,
    own: Option<Arc<dyn OwnAddresses>>,
    roots: Roots,
    user_agent: http::HeaderValue,
}

impl Guard {
    /// A guard over the system's resolver and sockets.
    ///
    /// # Errors
    /// If a certificate to trust cannot be used.
    pub fn new(policy: Policy) -> Result<Self, RootsError> {
        Self::builder(policy).build()
    }

    /// A guard of which some parts are given.
    #[must_use]
    pub fn builder(policy: Policy) -> GuardBuilder {
        GuardBuilder {
            policy,
            resolver: None,
            dialer: None,
            clock: None,
            own: None,
            roots: Roots::default(),
            user_agent: http::HeaderValue::from_static(concat!(
                "netguard/",
                env!("CARGO_PKG_VERSION")
            )),
        }
    }

    /// The same guard for one session: with exceptions of its own, which end with it, and its own
    /// share of parallel fetches.
    #[must_use]
    pub fn for_session(&self, exceptions: Vec<Exception>) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            exceptions: exceptions.into(),
            permits: Arc::new(Semaphore::new(self.parts.policy.limits.parallel_max)),
        }
    }

    /// Resolves and judges, and connects to nothing.
    ///
    /// # Errors
    /// The rule that the URL breaks.
    pub async fn check(&self, url: &str) -> Result<Admitted, Refusal> {
        self.admit(Target::parse(url)?).await
    }

    /// Connects to what [`check`](Self::check) admitted, for protocols of the caller's own.
    /// Whoever speaks HTTP over it must follow no redirect without another `check`.
    ///
    /// # Errors
    /// If nobody answers in time or the certificate is not the name's.
    pub async fn connect(&self, admitted: &Admitted) -> Result<Connection, FetchError> {
        connect::open(&self.parts, admitted).await
    }

    /// Fetches a URL.
    ///
    /// # Errors
    /// A refusal, or whatever went wrong on the way.
    pub async fn get(&self, url: &str) -> Result<Response, FetchError> {
        self.fetch(Request::get(url)).await
    }

    /// Sends a request and follows redirects. Dropping the future closes everything at once.
    ///
    /// # Errors
    /// A refusal, or whatever went wrong on the way.
    pub async fn fetch(&self, request: Request) -> Result<Response, FetchError> {
        fetch::run(self, request).await
    }

    /// Rules 2 and 3 over a parsed target, with the one resolution of this hop.
    pub(crate) async fn admit(&self, target: Target) -> Result<Admitted, Refusal> {
        let parts = &*self.parts;
        let judge = Judge {
            policy: &parts.policy,
            exceptions: &self.exceptions,
            own: &*parts.own,
            now: parts.clock.now(),
        };
        judge.check(&target)?;
        let proxy = self.proxy_for(&target);
        let route = match (target.host(), proxy) {
            (Host::Literal(ip), proxy) => {
                let judged = judge.literal(&target, *ip)?;
                proxy.map_or_else(|| Route::Direct(vec![judged]), Route::Proxy)
            }
            (Host::Name(name), Some(proxy)) => {
                let is_judged = parts.policy.judges_before_proxy && !judge.is_excepted(&target);
                if is_judged
                    && let Ok(answers) = self.resolve(name).await
                    && !answers.is_empty()
                {
                    judge.answers(&target, &answers)?;
                }
                Route::Proxy(proxy)
            }
            (Host::Name(name), None) => {
                let answers = self.resolve(name).await.map_err(Refusal::Resolution)?;
                Route::Direct(judge.answers(&target, &answers)?)
            }
        };
        Ok(Admitted { target, route })
    }

    fn proxy_for(&self, target: &Target) -> Option<Arc<NamedProxy>> {
        let host = match target.host() {
            Host::Literal(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        };
        let proxies = &self.parts.policy.proxies;
        let proxy = proxies.proxy_for(target.is_secure(), &host, target.port());
        proxy.cloned()
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolutionFault> {
        let limit = self.parts.policy.limits.resolve;
        let answers = timeout(limit, self.parts.resolver.resolve(name)).await;
        let answers = answers.map_err(|_| ResolutionFault::TooSlow)?;
        answers.map_err(|_| ResolutionFault::Failed)
    }
}

impl GuardBuilder {
    /// Who answers names.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Who opens connections.
    #[must_use]
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.dialer = Some(Arc::new(dialer));
        self
    }

    /// Who says when an exception has expired.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Who knows this machine's own addresses.
    #[must_use]
    pub fn own_addresses(mut self, own: impl OwnAddresses) -> Self {
        self.own = Some(Arc::new(own));
        self
    }

    /// Trusts one more certificate authority.
    #[must_use]
    pub fn root(mut self, certificate: CertificateDer<'static>) -> Self {
        let mut sources: RootSources = self.roots.sources().clone();
        sources.certificates.push(certificate);
        self.roots = Roots::new(sources);
        self
    }

    /// Which certificates are trusted [default: those of the system, else the bundled ones].
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// What servers are told about who asks.
    #[must_use]
    pub fn user_agent(mut self, value: http::HeaderValue) -> Self {
        self.user_agent = value;
        self
    }

    /// The guard.
    ///
    /// # Errors
    /// If a given root is not a certificate.
    pub fn build(self) -> Result<Guard, RootsError> {
        self.roots.check()?;
        let permits = Semaphore::new(self.policy.limits.parallel_max);
        let parts = Parts {
            policy: self.policy,
            resolver: self
                .resolver
                .unwrap_or_else(|| Arc::new(SystemResolver::default())),
            dialer: self.dialer.unwrap_or_else(|| Arc::new(TcpDialer)),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            own: self
                .own
                .unwrap_or_else(|| Arc::new(ProbedAddresses::default())),
            tls: Tls::new(self.roots),
            user_agent: self.user_agent,
        };
        Ok(Guard {
            parts: Arc::new(parts),
            exceptions: Arc::new([]),
            permits: Arc::new(permits),
        })
    }
}
