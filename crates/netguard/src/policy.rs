//! What an operator decides about a guard.

use std::net::SocketAddr;

use crate::exception::Exception;
use crate::limits::Limits;
use crate::proxy::Proxy;

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
    /// A proxy that makes the connections instead, and has to judge addresses then.
    pub proxy: Option<Proxy>,
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
            proxy: None,
            limits: Limits::default(),
        }
    }
}
