//! Addresses and spellings beyond the shared vectors: both registries, edge by edge, and whatever
//! the URL parser or a C library would read as an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use netguard::{Guard, NameFault, Network, Policy, Refusal, UrlFault};

use crate::support::{Answers, Servers, guard, ips, public};

/// The registries as they are published, kept apart from the product's tables on purpose: prefixes
/// of which nothing may be dialled, in the notation of IANA.
const SPECIAL: &str = "
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
168.63.129.16/32
::/128 ::1/128 ::/96 ::ffff:0:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32
2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28
2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7
fe80::/10 fec0::/10 ff00::/8 ::/3 4000::/3 6000::/3 8000::/3 a000::/3 c000::/3 e000::/3
";

/// The same as first and last addresses.
pub(crate) static RANGES: LazyLock<Vec<(IpAddr, IpAddr)>> =
    LazyLock::new(|| SPECIAL.split_whitespace().map(edges).collect());

/// First and last address of a prefix.
fn edges(prefix: &str) -> (IpAddr, IpAddr) {
    let (ip, length) = prefix.split_once('/').unwrap();
    let length: u32 = length.parse().unwrap();
    match ip.parse().unwrap() {
        IpAddr::V4(ip) => {
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (ip.to_bits(), ip.to_bits() | hosts);
            (
                Ipv4Addr::from_bits(first).into(),
                Ipv4Addr::from_bits(last).into(),
            )
        }
        IpAddr::V6(ip) => {
            let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (ip.to_bits(), ip.to_bits() | hosts);
            (
                Ipv6Addr::from_bits(first).into(),
                Ipv6Addr::from_bits(last).into(),
            )
        }
    }
}

/// Whether the registries have something to say about an address. Carried IPv4 counts as itself.
pub(crate) fn is_special(ip: IpAddr) -> bool {
    let mut ip = ip.to_canonical();
    if let IpAddr::V6(v6) = ip {
        let [a, b, c, d, e, f, g, h] = v6.segments();
        let is_nat64 = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
        let is_isatap = (e == 0 || e == 0x200) && f == 0x5efe && a >> 13 == 1;
        if is_nat64 || is_isatap {
            let inner = Ipv4Addr::from_bits(u32::from(g) << 16 | u32::from(h));
            if is_nat64 {
                ip = inner.into();
            } else if is_special(inner.into()) {
                return true;
            }
        }
    }
    let ranges = RANGES.iter();
    let mut ranges = ranges.filter(|(first, _)| first.is_ipv4() == ip.is_ipv4());
    ranges.any(|(first, last)| (first..=last).contains(&&ip))
}

fn literal(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("http://{ip}/"),
        IpAddr::V6(ip) => format!("http://[{ip}]/"),
    }
}

fn anyone() -> Guard {
    guard(Policy::default(), public(), Servers::saying("x"))
}

async fn refusal(url: &str) -> Option<Refusal> {
    anyone().check(url).await.err()
}

fn step(ip: IpAddr, by: i8) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => {
            let next = ip.to_bits().checked_add_signed(by.into())?;
            Some(Ipv4Addr::from_bits(next).into())
        }
        IpAddr::V6(ip) => {
            let next = ip.to_bits().checked_add_signed(by.into())?;
            Some(Ipv6Addr::from_bits(next).into())
        }
    }
}

#[tokio::test]
async fn both_edges_of_every_special_prefix_are_closed_and_their_public_neighbours_open() {
    let guard = anyone();
    let mut open = 0;
    for prefix in SPECIAL.split_whitespace() {
        let (first, last) = edges(prefix);
        let around = [step(first, -1), Some(first), Some(last), step(last, 1)];
        for ip in around.into_iter().flatten() {
            let judged = guard.check(&literal(ip)).await;
            assert_eq!(
                judged.is_err(),
                is_special(ip),
                "{ip} of {prefix}: {judged:?}"
            );
            open += usize::from(judged.is_ok());
        }
    }
    assert!(open > 20, "nothing next to a special prefix was open");
}

#[tokio::test]
async fn what_carries_an_ipv4_address_is_judged_by_it_or_refused_whole() {
    let inner = [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "168.63.129.16",
        "8.8.8.8",
    ];
    for inner in ips(&inner) {
        let IpAddr::V4(v4) = inner else { panic!() };
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let is_public = !is_special(inner);
        let by_content = [
            format!("::ffff:{v4}"),
            format!("0:0:0:0:0:ffff:{high:x}:{low:x}"),
            format!("64:ff9b::{v4}"),
            format!("2606:4700::5efe:{v4}"),
            format!("2606:4700::200:5efe:{v4}"),
        ];
        for ip in by_content {
            let refused = refusal(&format!("http://[{ip}]/")).await;
            assert_eq!(refused.is_none(), is_public, "{ip}: {refused:?}");
        }
        let never = [
            format!("::{v4}"),
            format!("::ffff:0:{v4}"),
            format!("64:ff9b:1::{v4}"),
            format!("2002:{high:x}:{low:x}::1"),
            format!("2001::{v4}"),
            format!("2001:0:{high:x}:{low:x}::1"),
        ];
        for ip in never {
            assert!(refusal(&format!("http://[{ip}]/")).await.is_some(), "{ip}");
        }
    }
}

#[tokio::test]
async fn an_address_is_the_same_in_every_spelling() {
    let loopback = [
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "0177.1",
        "0x7f.0.0.1",
        "0177.0x0.0.01",
        "127.0.0.1.",
        "0x7f000001.",
        "00000177.0.0.1",
        "%31%32%37.1",
        "127%2E1",
        "１２７.0.0.1",
        "127。0。0。1",
        "127｡1",
        "①②⑦.0.0.1",
        "⑴.1",
        "0x7f%2e1",
        "0X7F000001",
        "[::1]",
        "[0:0::0:1]",
        "[::0001]",
        "[::ffff:7f00:1]",
        "[::FFFF:127.0.0.1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
    ];
    for spelling in loopback {
        let refused = refusal(&format!("http://{spelling}/")).await;
        let fits = matches!(
            refused,
            Some(Refusal::Address(_) | Refusal::Url(UrlFault::Malformed) | Refusal::Name(_))
        );
        assert!(fits, "{spelling}: {refused:?}");
    }
    for spelling in [
        "134744072",
        "0x8.8.8.8",
        "010.8.8.8",
        "8.526344",
        "8.8.2056",
        "8.8.8.8.",
    ] {
        assert_eq!(
            refusal(&format!("http://{spelling}/")).await,
            None,
            "{spelling}"
        );
    }
}

#[tokio::test]
async fn what_only_a_kind_library_would_read_as_an_address_is_no_name() {
    let almost = [
        "127.0.0.0x1g",
        "1.2.3.4a",
        "0x7f.0.0.1x",
        "127.0.0.1.0x",
        "10.0.0.1-",
        "a.0",
        "a.0x1",
        "08.8.8.8",
        "1..2",
        "4294967296",
        "0x100000000",
        "1.2.3.256",
        "1.2.3.4.5",
        "-1",
        "1e3.1",
        "xn--127-0-0-1.1",
        "127.0.0.1_",
    ];
    for host in almost {
        let refused = refusal(&format!("http://{host}/")).await;
        let fits = matches!(refused, Some(Refusal::Url(_) | Refusal::Name(_)));
        assert!(fits, "{host}: {refused:?}");
    }
}

#[tokio::test]
async fn names_of_the_local_network_are_closed_whatever_they_resolve_to() {
    let local = [
        "localhost",
        "LocalHost.",
        "a.localhost",
        "localhost.localdomain",
        "printer.local",
        "x.local.",
        "db.internal",
        "host.docker.internal",
        "router.home.arpa",
        "nas.lan",
        "wiki.corp",
        "tv.home",
        "app.intranet",
        "x.private",
        "ⓛocalhost",
        "local%68ost",
        "kubernetes",
        "metadata",
        "a",
    ];
    for host in local {
        let refused = refusal(&format!("http://{host}/")).await;
        assert!(
            matches!(refused, Some(Refusal::Name(_))),
            "{host}: {refused:?}"
        );
    }
    let public = [
        "localhost.example",
        "mylocalhost.com",
        "internal.example",
        "home-arpa.org",
        "corp.com",
        "lan.example.org",
        "xn--bcher-kva.example",
        "a.b",
        "_dmarc.example.com",
        "x.xn--p1ai",
        "example.com.",
        "1and1.com",
        "3.pool.example",
        "-dash-.example.com",
    ];
    for host in public {
        assert_eq!(refusal(&format!("http://{host}/")).await, None, "{host}");
    }
    let metadata = refusal("http://Metadata.Google.Internal./").await;
    assert_eq!(metadata, Some(Refusal::Name(NameFault::Metadata)));
}

#[tokio::test]
async fn text_that_parsers_disagree_about_is_refused_before_it_is_parsed() {
    let cases = [
        ("", UrlFault::Scheme),
        ("http", UrlFault::Scheme),
        ("http:", UrlFault::Scheme),
        ("http:/example.com", UrlFault::Scheme),
        ("http:example.com", UrlFault::Scheme),
        ("HTTP:\\\\example.com", UrlFault::Backslash),
        ("ftp://example.com/", UrlFault::Scheme),
        ("https:///example.com/", UrlFault::NoHost),
        ("http://?q", UrlFault::NoHost),
        ("http://#", UrlFault::NoHost),
        ("http://:80/", UrlFault::Malformed),
        ("http://@example.com/", UrlFault::UserInfo),
        ("http://:@example.com/", UrlFault::UserInfo),
        ("http://a%40b@example.com/", UrlFault::UserInfo),
        ("http://example.com\\@evil.example/", UrlFault::Backslash),
        ("http://example.com/a\\b", UrlFault::Backslash),
        (" http://example.com/", UrlFault::Space),
        ("http://example.com/ ", UrlFault::Space),
        ("http://example.com/a b", UrlFault::Space),
        ("http://example.com/\u{a0}", UrlFault::Space),
        ("http://example\u{3000}.com/", UrlFault::Space),
        ("http://example.com/\r\nX: y", UrlFault::ControlCharacter),
        ("http://example.com/\0", UrlFault::ControlCharacter),
        ("http://example.com/\u{85}", UrlFault::ControlCharacter),
        ("http://example.com/\u{7f}", UrlFault::ControlCharacter),
        ("http://[fe80::1%25eth0]/", UrlFault::Malformed),
        ("http://[::1]x/", UrlFault::Malformed),
        ("http://[::1", UrlFault::Malformed),
        ("http://[]/", UrlFault::Malformed),
        ("http://::1/", UrlFault::Malformed),
        ("http://exa<mple.com/", UrlFault::Malformed),
        ("http://example.com:99999/", UrlFault::Malformed),
        ("http://example.com:8 0/", UrlFault::Space),
    ];
    for (url, fault) in cases {
        assert_eq!(refusal(url).await, Some(Refusal::Url(fault)), "{url:?}");
    }
    let long = format!("http://example.com/{}", "a".repeat(40_000));
    assert_eq!(refusal(&long).await, Some(Refusal::Url(UrlFault::TooLong)));
    for url in [
        "HTTPS://EXAMPLE.com/ü?q=ü#f",
        "http://example.com:080/",
        "http://example.com:443",
    ] {
        assert_eq!(refusal(url).await, None, "{url}");
    }
}

#[tokio::test]
async fn one_bad_answer_among_many_refuses_the_name() {
    for bad in [
        "127.0.0.1",
        "::1",
        "fd00::1",
        "100.64.0.1",
        "0.0.0.0",
        "::ffff:10.0.0.1",
    ] {
        for place in 0..12 {
            let answer = move |_: &str, _| {
                let mut answers = ips(&["93.184.215.14", "2606:2800:21f::1"]).repeat(6);
                answers.insert(place, bad.parse().unwrap());
                Ok(answers)
            };
            let servers = Servers::saying("x");
            let guard = guard(Policy::default(), Answers::new(answer), servers.clone());
            let refused = guard.get("http://many.example/").await.unwrap_err();
            assert!(
                matches!(refused.refusal(), Some(Refusal::Answer(_))),
                "{refused}"
            );
            assert!(servers.dialled().is_empty(), "somebody was dialled");
        }
    }
}

#[tokio::test]
pub(crate) async fn this_machines_own_addresses_are_closed_also_public_ones() {
    struct Here;
    impl netguard::OwnAddresses for Here {
        fn contains(&self, ip: IpAddr) -> bool {
            ip == IpAddr::from([8, 8, 4, 4])
        }
    }
    let guard = Guard::builder(Policy::default())
        .resolver(Answers::new(|_, _| Ok(ips(&["8.8.4.4"]))))
        .own_addresses(Here)
        .build()
        .unwrap();
    let own = Some(Refusal::Address(Network::OwnAddress));
    assert_eq!(guard.check("http://8.8.4.4/").await.err(), own);
    assert_eq!(guard.check("http://[::ffff:8.8.4.4]/").await.err(), own);
    let own = Some(Refusal::Answer(Network::OwnAddress));
    assert_eq!(guard.check("http://me.example/").await.err(), own);
    assert!(guard.check("http://8.8.8.8/").await.is_ok());
}

#[tokio::test]
pub(crate) async fn the_kernel_knows_this_machines_addresses() {
    use netguard::{OwnAddresses, ProbedAddresses};
    let probed = ProbedAddresses::default();
    // More than once, because a socket that found nothing is used again.
    for _ in 0..3 {
        for ip in ips(&["127.0.0.1", "127.9.9.9"]) {
            assert!(probed.contains(ip), "{ip}");
        }
        for ip in ips(&["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2606:4700::1001"]) {
            assert!(!probed.contains(ip), "{ip}");
        }
    }
}
