//! Whether an address is this machine's own, also one that looks public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// Knows the machine's own addresses.
pub trait OwnAddresses: Send + Sync + 'static {
    /// Whether packets to `ip` would end at this machine.
    fn contains(&self, ip: IpAddr) -> bool;
}

/// Asks the kernel, which alone knows also of local routes and of interfaces that came up a moment
/// ago: a socket can be bound only to an address of this machine.
///
/// A socket that could not be bound is still good for the next question, so one of each family is
/// kept.
#[derive(Debug, Default)]
pub struct ProbedAddresses {
    v4: Mutex<Option<OwnedFd>>,
    v6: Mutex<Option<OwnedFd>>,
}

impl OwnAddresses for ProbedAddresses {
    fn contains(&self, ip: IpAddr) -> bool {
        if !self.binds(ip) {
            return false;
        }
        // Machines that take over each other's addresses may bind to any (`ip_nonlocal_bind`).
        // Nobody has this one, so if it binds, only the route tells.
        let nobody = IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1));
        !self.binds(nobody) || routes_to_itself(ip)
    }
}

impl ProbedAddresses {
    fn binds(&self, ip: IpAddr) -> bool {
        let kept = if ip.is_ipv4() { &self.v4 } else { &self.v6 };
        // Taken out while it is used, so that nobody waits and nobody else binds it.
        let socket = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(socket) = socket.map_or_else(|| fresh(ip), Ok).ok() else {
            return !is_foreign_family(ip);
        };
        match bind(&socket, &SocketAddr::new(ip, 0)) {
            Err(Errno::ADDRNOTAVAIL) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                *kept = Some(socket);
                false
            }
            // An error that does not say "not mine" counts as mine: refusing is the safe side.
            Ok(()) | Err(_) => true,
        }
    }
}

fn fresh(ip: IpAddr) -> rustix::io::Result<OwnedFd> {
    let family = match ip {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// Without IPv6 on this machine, none of its addresses is one.
fn is_foreign_family(ip: IpAddr) -> bool {
    matches!(fresh(ip), Err(Errno::AFNOSUPPORT))
}

/// Whether a packet to `ip` would be sent from `ip`. Connecting a datagram socket sends nothing.
fn routes_to_itself(ip: IpAddr) -> bool {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == ip)
}
