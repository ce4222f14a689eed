//! What an operator decides about a guard.

use std::net::SocketAddr;

use egress::Proxies;

use crate::exception::Exception;
use crate::limits::Limits;

/// The settings of a guard. The default opens nothing but public web servers.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Ports that may be named: those on which the web is served.
    pub ports: Vec<u16>,
    /// Opens private, shared and loopback networks and this machine's own addresses, and names
    /// that mean them. Metadata services and link-local addresses stay closed.
    pub allow_private_networks: bool,
    /// Exactly these hosts and ports are open, whatever the other rules say of them; metadata
    /// services and link-local addresses stay closed here too.
    pub exceptions: Vec<Exception>,
    /// Where the program that uses the guard listens itself; never reachable through it.
    pub own_listeners: Vec<SocketAddr>,
    /// Proxies that make the connections instead, and have to judge addresses then.
    pub proxies: Proxies,
    /// Resolves a name here too before a proxy is asked to connect to it, and refuses it if an answer
    /// is not public. A name that this machine cannot resolve is left to the proxy. For proxies that
    /// were not set for addresses that others name, such as those of environment variables; hosts
    /// with an exception are not resolved.
    pub judges_before_proxy: bool,
    /// What a fetch may cost.
    pub limits: Limits,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ports: vec![80, 443, 8000, 8080, 8443],
            allow_private_networks: false,
            exceptions: Vec::new(),
            own_listeners: Vec::new(),
            proxies: Proxies::default(),
            judges_before_proxy: false,
            limits: Limits::default(),
        }
    }
}
