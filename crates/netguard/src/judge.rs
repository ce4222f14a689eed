//! Rules 2 to 4 over a parsed target: who may be asked for, and the only maker of [`JudgedAddr`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use egress::NamedProxy;

use crate::exception::Exception;
use crate::limits::DIALLED_MAX;
use crate::name;
use crate::network::{self, Network, Opened};
use crate::own::OwnAddresses;
use crate::policy::Policy;
use crate::refusal::{Refusal, ResolutionFault};
use crate::target::{Host, Target};

/// Proof that an address was judged and found fit to dial.
///
/// There is no public constructor: a [`crate::Dialer`] can only be handed one by a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JudgedAddr(SocketAddr);

impl JudgedAddr {
    /// The address and port to connect to.
    #[must_use]
    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }

    /// The proxy that the operator set is not judged: it is meant to be inside.
    pub(crate) fn of_operators_proxy(address: SocketAddr) -> Self {
        Self(address)
    }
}

/// A target that passed all rules, with the addresses that were judged for it.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub(crate) target: Target,
    pub(crate) route: Route,
}

/// How an admitted target is reached.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// By one of these, in this order.
    Direct(Vec<JudgedAddr>),
    /// By a proxy of the operator, which resolves and judges.
    Proxy(Arc<NamedProxy>),
}

impl Admitted {
    /// What was asked for.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The judged addresses; empty when a proxy makes the connection.
    #[must_use]
    pub fn addresses(&self) -> &[JudgedAddr] {
        match &self.route {
            Route::Direct(addresses) => addresses,
            Route::Proxy(_) => &[],
        }
    }
}

/// The rules as they stand at one moment.
pub(crate) struct Judge<'a> {
    pub(crate) policy: &'a Policy,
    /// Those of the session, besides the policy's.
    pub(crate) exceptions: &'a [Exception],
    pub(crate) own: &'a dyn OwnAddresses,
    pub(crate) now: SystemTime,
}

impl Judge<'_> {
    /// Port and name. A name that passes still has to be resolved, an address to be judged.
    ///
    /// # Errors
    /// The rule that the target breaks.
    pub(crate) fn check(&self, target: &Target) -> Result<(), Refusal> {
        if self.is_excepted(target) {
            return Ok(());
        }
        if let Host::Name(name) = target.host()
            && !self.policy.allow_private_networks
        {
            name::check_public(name).map_err(Refusal::Name)?;
        }
        if !self.policy.ports.contains(&target.port()) {
            return Err(Refusal::Port(target.port()));
        }
        Ok(())
    }

    /// Judges an address that stands in the URL itself.
    ///
    /// # Errors
    /// The network that it belongs to.
    pub(crate) fn literal(&self, target: &Target, ip: IpAddr) -> Result<JudgedAddr, Refusal> {
        self.address(target, ip).map_err(Refusal::Address)
    }

    /// Judges all that a resolver answered; one bad address refuses the name.
    ///
    /// # Errors
    /// If there is no answer, or the network of the first bad one.
    pub(crate) fn answers(
        &self,
        target: &Target,
        answers: &[IpAddr],
    ) -> Result<Vec<JudgedAddr>, Refusal> {
        let mut judged: Vec<JudgedAddr> = Vec::new();
        for ip in answers {
            let address = self.address(target, *ip).map_err(Refusal::Answer)?;
            if judged.len() < DIALLED_MAX && !judged.contains(&address) {
                judged.push(address);
            }
        }
        if judged.is_empty() {
            return Err(Refusal::Resolution(ResolutionFault::Empty));
        }
        Ok(judged)
    }

    fn address(&self, target: &Target, ip: IpAddr) -> Result<JudgedAddr, Network> {
        let (ip, network) = match network::judge(ip) {
            Ok(ip) if self.own.contains(ip) => (ip, Some(Network::OwnAddress)),
            Ok(ip) => (ip, None),
            Err((ip, network)) => (ip, Some(network)),
        };
        if let Some(network) = network
            && !self.opens(network, target)
        {
            return Err(network);
        }
        if network.is_some() && self.is_own_listener(ip, target.port()) {
            return Err(Network::OwnServer);
        }
        Ok(JudgedAddr(SocketAddr::new(ip, target.port())))
    }

    /// Whether the operator opened that network for this target.
    fn opens(&self, network: Network, target: &Target) -> bool {
        match network.opened() {
            Opened::Never => false,
            Opened::ByEntry => self.is_excepted(target),
            Opened::ByPrivate => self.policy.allow_private_networks || self.is_excepted(target),
        }
    }

    pub(crate) fn is_excepted(&self, target: &Target) -> bool {
        let mut all = self.policy.exceptions.iter().chain(self.exceptions);
        all.any(|entry| entry.covers(target.host(), target.port(), self.now))
    }

    fn is_own_listener(&self, ip: IpAddr, port: u16) -> bool {
        let mut ports = self.policy.own_listeners.iter().map(SocketAddr::port);
        ports.any(|own| own == port) && (ip.is_loopback() || self.own.contains(ip))
    }
}
