//! What an operator opened: exactly one host at exactly one port, for a while.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::SystemTime;

use crate::name;
use crate::network::{self, Network, Opened};
use crate::target::Host;

/// An entry such as `127.0.0.1:3000` or `wiki.corp.example:8443`. It matches that host and port and
/// nothing else: no wildcard, no prefix, no other spelling of a different host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    host: Host,
    port: u16,
    until: Option<SystemTime>,
}

/// Why an entry cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExceptionError {
    /// Not `host:port`.
    #[error("write it as host:port or address:port, for example 127.0.0.1:3000")]
    Form,
    /// Nothing opens it.
    #[error("it is {0}, which no exception opens")]
    Never(Network),
    /// Nothing opens this name.
    #[error("it names a cloud metadata service, which no exception opens")]
    Metadata,
}

impl Exception {
    /// The same entry, good until then.
    #[must_use]
    pub fn until(mut self, until: SystemTime) -> Self {
        self.until = Some(until);
        self
    }

    /// Whether the entry opens this host and port now.
    pub(crate) fn covers(&self, host: &Host, port: u16, now: SystemTime) -> bool {
        let is_good = self.until.is_none_or(|until| now < until);
        is_good && self.port == port && self.host == *host
    }
}

impl FromStr for Exception {
    type Err = ExceptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(ExceptionError::Form)?;
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0);
        let port = port.ok_or(ExceptionError::Form)?;
        let host = match url::Host::parse(host).map_err(|_| ExceptionError::Form)? {
            url::Host::Ipv4(ip) => literal(ip.into())?,
            url::Host::Ipv6(ip) => literal(ip.into())?,
            url::Host::Domain(domain) => {
                let name = name::canonical(&domain);
                match name::check_form(&name) {
                    Ok(()) => Host::Name(name),
                    Err(crate::NameFault::Metadata) => return Err(ExceptionError::Metadata),
                    Err(_) => return Err(ExceptionError::Form),
                }
            }
        };
        Ok(Self {
            host,
            port,
            until: None,
        })
    }
}

/// An address that can be opened, or needs no opening but for its port.
fn literal(ip: IpAddr) -> Result<Host, ExceptionError> {
    match network::judge(ip) {
        Ok(ip) => Ok(Host::Literal(ip)),
        Err((_, network)) if network.opened() == Opened::Never => {
            Err(ExceptionError::Never(network))
        }
        Err((ip, _)) => Ok(Host::Literal(ip)),
    }
}
