//! `NO_PROXY`: hosts that are reached directly.

use std::net::IpAddr;

/// A list of hosts, domains, addresses and networks that no proxy is used for.
///
/// Entries are separated by commas or spaces: `*`, `example.com` (it and its subdomains, also
/// written `.example.com` or `*.example.com`), `10.0.0.7`, `10.0.0.0/8`, `fd00::/8`; a host may have
/// a port, `example.com:8443` or `[::1]:8443`. Names are compared as names and never resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Everything,
    Domain {
        name: String,
        port: Option<u16>,
    },
    Network {
        ip: IpAddr,
        bits: u32,
        port: Option<u16>,
    },
}

impl Bypass {
    /// Reads a list. What cannot be read matches nothing.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let entries = text.split([',', ' ', '\t', '\n']).map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        Self {
            entries: entries.filter_map(entry).collect(),
        }
    }

    /// Whether `host` (a name, or an address without brackets) at `port` is reached directly.
    #[must_use]
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let host = bare(host);
        let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        is_loopback(&host, ip)
            || self
                .entries
                .iter()
                .any(|entry| entry.matches(&host, ip, port))
    }
}

impl Entry {
    fn matches(&self, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
        let is_port = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match self {
            Self::Everything => true,
            Self::Domain { name, port } => {
                let parent = host.strip_suffix(name.as_str());
                let is_within =
                    parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'));
                ip.is_none() && is_within && is_port(port)
            }
            Self::Network {
                ip: network,
                bits,
                port,
            } => ip.is_some_and(|ip| is_in(ip, *network, *bits)) && is_port(port),
        }
    }
}

/// This machine is never reached through a proxy: the proxy's loopback is another one.
fn is_loopback(host: &str, ip: Option<IpAddr>) -> bool {
    match ip {
        Some(ip) => ip.is_loopback(),
        None => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// A host without brackets, last dot and upper case.
fn bare(host: &str) -> String {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    host.to_ascii_lowercase()
}

fn entry(text: &str) -> Option<Entry> {
    if text == "*" {
        return Some(Entry::Everything);
    }
    if let Some((ip, bits)) = text.split_once('/') {
        let ip: IpAddr = bare(ip).parse().ok()?;
        let bits: u32 = bits.parse().ok()?;
        return (bits <= width(ip)).then_some(Entry::Network {
            ip,
            bits,
            port: None,
        });
    }
    // An IPv6 address has colons of its own, so a port needs brackets there.
    if let Ok(ip) = bare(text).parse::<IpAddr>() {
        return Some(host(ip, None));
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse().ok()?)),
        None => (text, None),
    };
    if let Ok(ip) = bare(name).parse::<IpAddr>() {
        return Some(host(ip, port));
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    let name = bare(name.strip_prefix('.').unwrap_or(name));
    (!name.is_empty()).then_some(Entry::Domain { name, port })
}

fn host(ip: IpAddr, port: Option<u16>) -> Entry {
    let ip = ip.to_canonical();
    let bits = width(ip);
    Entry::Network { ip, bits, port }
}

fn width(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(_) => u32::BITS,
        IpAddr::V6(_) => u128::BITS,
    }
}

fn is_in(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let difference = ip.to_bits() ^ network.to_bits();
            difference.leading_zeros() >= bits
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let difference = ip.to_bits() ^ network.to_bits();
            difference.leading_zeros() >= bits
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Bypass;

    #[test]
    fn hosts_are_matched_by_name_suffix_address_network_and_port() {
        let table = [
            ("example.com", "example.com", 443, true),
            ("example.com", "API.Example.com.", 443, true),
            (".example.com", "example.com", 443, true),
            (".example.com", "a.b.example.com", 443, true),
            ("*.example.com", "a.example.com", 443, true),
            ("example.com", "notexample.com", 443, false),
            ("example.com", "example.com.evil.test", 443, false),
            ("example.com:8443", "example.com", 8443, true),
            ("example.com:8443", "example.com", 443, false),
            ("10.0.0.7", "10.0.0.7", 80, true),
            ("10.0.0.7", "10.0.0.70", 80, false),
            ("10.0.0.7:80", "10.0.0.7", 80, true),
            ("10.0.0.7:80", "10.0.0.7", 81, false),
            ("10.0.0.0/8", "10.255.1.2", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", 80, true),
            ("0.0.0.0/0", "8.8.8.8", 80, true),
            ("0.0.0.0/0", "2001:db8::1", 80, false),
            ("10.0.0.0/8", "10.example.com", 80, false),
            ("fd00::/8", "fd12::1", 80, true),
            ("fd00::/8", "[fd12::1]", 80, true),
            ("fd00::/8", "fe80::1", 80, false),
            ("[fd00::1]:8443", "fd00::1", 8443, true),
            ("[fd00::1]:8443", "fd00::1", 443, false),
            ("fd00::1", "fd00::1", 443, true),
            ("*", "anything.test", 1, true),
            ("a.test, b.test c.test", "c.test", 1, true),
            ("10.0.0.0/33", "10.0.0.1", 1, false),
            ("10.0.0.0/x,:,/8,.", "10.0.0.1", 1, false),
            ("", "example.com", 443, false),
        ];
        for (list, host, port, expected) in table {
            let is_matched = Bypass::parse(list).matches(host, port);
            assert_eq!(is_matched, expected, "{list} and {host}:{port}");
        }
    }

    #[test]
    fn this_machine_is_always_reached_directly() {
        let none = Bypass::default();
        for host in [
            "localhost",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(none.matches(host, 11434), "{host}");
        }
        for host in [
            "localhost.example.com",
            "128.0.0.1",
            "notlocalhost",
            "0.0.0.0",
        ] {
            assert!(!none.matches(host, 11434), "{host}");
        }
    }
}
