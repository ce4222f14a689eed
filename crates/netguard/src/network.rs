//! Which addresses belong to the public Internet: the IANA special-purpose registries as tables.
//!
//! [`judge`] is the whole rule for one address. Everything that carries an IPv4 address inside an
//! IPv6 one is either judged by what it carries or refused whole.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kinds of network that are not public, by what a person would call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// Cloud metadata and agent endpoints.
    Metadata,
    /// `0.0.0.0/8` and `::`, which some systems take for this machine.
    Unspecified,
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// RFC 1918, unique local and site-local networks.
    Private,
    /// `100.64.0.0/10`: carrier-grade NAT, also overlay networks.
    Shared,
    /// `169.254.0.0/16` and `fe80::/10`, where clouds put their services.
    LinkLocal,
    /// One of this machine's own addresses.
    OwnAddress,
    /// The server that uses the guard.
    OwnServer,
    /// IETF protocol assignments, anycast services, AS112, AMT, ORCHID, segment identifiers.
    Protocol,
    /// Documentation prefixes.
    Documentation,
    /// Benchmarking prefixes.
    Benchmarking,
    /// Multicast and broadcast.
    Multicast,
    /// Reserved, discarded or never allocated.
    Reserved,
    /// Tunnels whose relay decides where packets land: 6to4 and Teredo.
    Tunnel,
    /// IPv4 carried in IPv6 in a way that a local translator would decide about.
    Translated,
}

/// Who can open a kind of network that is closed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Nobody.
    Never,
    /// An exact `host:port` entry of the operator.
    ByEntry,
    /// Such an entry, or `allow_private_networks`.
    ByPrivate,
}

impl Network {
    pub(crate) fn opened(self) -> Opened {
        match self {
            Self::Loopback | Self::Private | Self::Shared | Self::OwnAddress => Opened::ByPrivate,
            // Fake-address resolvers and laboratories use these.
            Self::Documentation | Self::Benchmarking => Opened::ByEntry,
            Self::Metadata
            | Self::Unspecified
            | Self::LinkLocal
            | Self::OwnServer
            | Self::Protocol
            | Self::Multicast
            | Self::Reserved
            | Self::Tunnel
            | Self::Translated => Opened::Never,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metadata => "a cloud metadata service",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "this machine (loopback)",
            Self::Private => "a private network",
            Self::Shared => "a shared (carrier-grade NAT) network",
            Self::LinkLocal => "the local link",
            Self::OwnAddress => "an address of this machine",
            Self::OwnServer => "this server itself",
            Self::Protocol => "a network for protocol use",
            Self::Documentation => "a documentation network",
            Self::Benchmarking => "a benchmarking network",
            Self::Multicast => "a multicast or broadcast address",
            Self::Reserved => "a reserved network",
            Self::Tunnel => "a tunnel (6to4 or Teredo)",
            Self::Translated => "a translated IPv4 address",
        })
    }
}

/// The address to dial for `ip`, or the network that it belongs to if it is not public.
///
/// An IPv4-mapped address is the IPv4 address that it stands for.
pub(crate) fn judge(ip: IpAddr) -> Result<IpAddr, (IpAddr, Network)> {
    match ip.to_canonical() {
        IpAddr::V4(v4) => match of_v4(v4) {
            None => Ok(v4.into()),
            Some(network) => Err((v4.into(), network)),
        },
        IpAddr::V6(v6) => match of_v6(v6) {
            None => Ok(v6.into()),
            Some(network) => Err((v6.into(), network)),
        },
    }
}

/// The special network of an IPv4 address, if it is in one.
fn of_v4(ip: Ipv4Addr) -> Option<Network> {
    let bits = ip.to_bits();
    let row = V4.iter().find(|(prefix, length, _)| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        bits & mask == prefix.to_bits()
    });
    row.map(|(_, _, network)| *network)
}

/// The special network of an IPv6 address, if it is in one.
fn of_v6(ip: Ipv6Addr) -> Option<Network> {
    let bits = ip.to_bits();
    let is_in = |prefix: Ipv6Addr, length: u32| {
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        bits & mask == prefix.to_bits()
    };
    if let Some((_, _, network)) = V6.iter().find(|row| is_in(row.0, row.1)) {
        return Some(*network);
    }
    if is_in(NAT64, 96) {
        return carried(of_v4(low_v4(bits)));
    }
    if !is_in(GLOBAL, 3) {
        return Some(Network::Reserved);
    }
    // An ISATAP interface identifier names the IPv4 host behind it (RFC 5214).
    let identifier = (bits >> 32) as u32;
    if matches!(identifier, 0x0000_5efe | 0x0200_5efe) {
        return carried(of_v4(low_v4(bits)));
    }
    None
}

/// What may not be reached directly may not be reached through a translator either, and no
/// exception for the direct way opens that one.
fn carried(inner: Option<Network>) -> Option<Network> {
    match inner? {
        Network::Metadata => Some(Network::Metadata),
        Network::Unspecified
        | Network::Loopback
        | Network::Private
        | Network::Shared
        | Network::LinkLocal
        | Network::OwnAddress
        | Network::OwnServer
        | Network::Protocol
        | Network::Documentation
        | Network::Benchmarking
        | Network::Multicast
        | Network::Reserved
        | Network::Tunnel
        | Network::Translated => Some(Network::Translated),
    }
}

fn low_v4(bits: u128) -> Ipv4Addr {
    Ipv4Addr::from_bits(bits as u32)
}

/// Judged by the IPv4 address inside (RFC 6052).
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// The only block from which public addresses are given out.
const GLOBAL: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(head: [u16; 4], tail: [u16; 4]) -> Ipv6Addr {
    let ([a, b, c, d], [e, f, g, h]) = (head, tail);
    Ipv6Addr::new(a, b, c, d, e, f, g, h)
}

/// The IANA IPv4 special-purpose registry, multicast, and addresses that clouds use; the first row
/// that fits counts.
const V4: &[(Ipv4Addr, u32, Network)] = &[
    (v4(169, 254, 169, 254), 32, Network::Metadata),
    // Credentials of containers on AWS.
    (v4(169, 254, 170, 0), 24, Network::Metadata),
    // Every other service that a cloud puts on the link.
    (v4(169, 254, 0, 0), 16, Network::LinkLocal),
    // Azure's WireServer: a public address that ends at the host beneath.
    (v4(168, 63, 129, 16), 32, Network::Metadata),
    // Alibaba Cloud, inside the shared network.
    (v4(100, 100, 100, 200), 32, Network::Metadata),
    // Oracle Cloud (classic), inside the protocol assignments.
    (v4(192, 0, 0, 192), 32, Network::Metadata),
    (v4(0, 0, 0, 0), 8, Network::Unspecified),
    (v4(10, 0, 0, 0), 8, Network::Private),
    (v4(100, 64, 0, 0), 10, Network::Shared),
    (v4(127, 0, 0, 0), 8, Network::Loopback),
    (v4(172, 16, 0, 0), 12, Network::Private),
    (v4(192, 0, 0, 0), 24, Network::Protocol),
    (v4(192, 0, 2, 0), 24, Network::Documentation),
    (v4(192, 31, 196, 0), 24, Network::Protocol),
    (v4(192, 52, 193, 0), 24, Network::Protocol),
    (v4(192, 88, 99, 0), 24, Network::Tunnel),
    (v4(192, 168, 0, 0), 16, Network::Private),
    (v4(192, 175, 48, 0), 24, Network::Protocol),
    (v4(198, 18, 0, 0), 15, Network::Benchmarking),
    (v4(198, 51, 100, 0), 24, Network::Documentation),
    (v4(203, 0, 113, 0), 24, Network::Documentation),
    (v4(255, 255, 255, 255), 32, Network::Multicast),
    (v4(224, 0, 0, 0), 4, Network::Multicast),
    (v4(240, 0, 0, 0), 4, Network::Reserved),
];

/// The IANA IPv6 special-purpose registry, what older RFCs set aside, and what clouds use; the
/// first row that fits counts. (Mapped addresses never come here.)
const V6: &[(Ipv6Addr, u32, Network)] = &[
    // AWS (metadata, resolver, pod identity), Google, Scaleway, Oracle; whole prefixes, because
    // each cloud adds services beside the one that is known.
    (v6([0xfd00, 0xec2, 0, 0], [0; 4]), 32, Network::Metadata),
    (v6([0xfd20, 0xce, 0, 0], [0; 4]), 32, Network::Metadata),
    (
        v6([0xfd00, 0x42, 0, 0], [0, 0, 0, 0x42]),
        128,
        Network::Metadata,
    ),
    (v6([0xfd00, 0xc1, 0, 0], [0; 4]), 32, Network::Metadata),
    // OpenStack, and whatever else answers on the link.
    (v6([0xfe80, 0, 0, 0], [0; 4]), 10, Network::LinkLocal),
    (v6([0; 4], [0; 4]), 128, Network::Unspecified),
    (v6([0; 4], [0, 0, 0, 1]), 128, Network::Loopback),
    // IPv4-compatible, IPv4-translated (SIIT), and NAT64 for local use.
    (v6([0; 4], [0; 4]), 96, Network::Translated),
    (v6([0; 4], [0xffff, 0, 0, 0]), 96, Network::Translated),
    (v6([0x64, 0xff9b, 1, 0], [0; 4]), 48, Network::Translated),
    (v6([0x100, 0, 0, 0], [0; 4]), 64, Network::Reserved),
    (v6([0x100, 0, 0, 1], [0; 4]), 64, Network::Reserved),
    (v6([0x2001, 0, 0, 0], [0; 4]), 32, Network::Tunnel),
    (v6([0x2001, 2, 0, 0], [0; 4]), 48, Network::Benchmarking),
    // Anycast, AMT, AS112, ORCHID and all else that the IETF assigns.
    (v6([0x2001, 0, 0, 0], [0; 4]), 23, Network::Protocol),
    (
        v6([0x2001, 0xdb8, 0, 0], [0; 4]),
        32,
        Network::Documentation,
    ),
    (v6([0x2002, 0, 0, 0], [0; 4]), 16, Network::Tunnel),
    (v6([0x2620, 0x4f, 0x8000, 0], [0; 4]), 48, Network::Protocol),
    (v6([0x3fff, 0, 0, 0], [0; 4]), 20, Network::Documentation),
    (v6([0x5f00, 0, 0, 0], [0; 4]), 16, Network::Protocol),
    (v6([0xfc00, 0, 0, 0], [0; 4]), 7, Network::Private),
    (v6([0xfec0, 0, 0, 0], [0; 4]), 10, Network::Private),
    (v6([0xff00, 0, 0, 0], [0; 4]), 8, Network::Multicast),
];
