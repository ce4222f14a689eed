//! Whatever URL, redirect chain and resolver somebody comes up with, the dialer sees public
//! addresses only. The judge of that is `addresses::is_special`, which shares nothing with the guard.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use netguard::Policy;

use crate::addresses::{RANGES, is_special};
use crate::support::{Answers, Servers, guard, ok, redirect};

/// As many cases as the issue of rare spellings asks for.
const CASES: u64 = 100_000;

/// Numbers that look random and can be had again (splitmix64).
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, sides: usize) -> usize {
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    fn pick<'a>(&self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len())]
    }

    fn bits(&self) -> u128 {
        (0..8).fold(0, |bits, _| bits << 16 | self.roll(1 << 16) as u128)
    }

    /// An address: anywhere, or near an edge, or carrying another one.
    fn ip(&self) -> IpAddr {
        let v4 = || Ipv4Addr::from_bits(self.bits() as u32);
        match self.roll(8) {
            0 => v4().into(),
            1 => Ipv6Addr::from_bits(self.bits()).into(),
            2 => Ipv6Addr::from_bits(0x2 << 124 | self.bits() >> 4).into(),
            3 => v4().to_ipv6_mapped().into(),
            4 => {
                let carriers = [
                    "64:ff9b::",
                    "2002::",
                    "2001::",
                    "::",
                    "::ffff:0:0:0",
                    "2606::5efe:0:0",
                ];
                let carrier: Ipv6Addr = self.pick(&carriers).parse().unwrap();
                Ipv6Addr::from_bits(carrier.to_bits() | u128::from(v4().to_bits())).into()
            }
            5 => "93.184.215.14".parse().unwrap(),
            _ => match self.edge() {
                IpAddr::V4(ip) => {
                    let near = ip
                        .to_bits()
                        .wrapping_add(self.roll(5) as u32)
                        .wrapping_sub(2);
                    Ipv4Addr::from_bits(near).into()
                }
                IpAddr::V6(ip) => {
                    let near = ip
                        .to_bits()
                        .wrapping_add(self.roll(5) as u128)
                        .wrapping_sub(2);
                    Ipv6Addr::from_bits(near).into()
                }
            },
        }
    }

    /// The first or last address of a special range.
    fn edge(&self) -> IpAddr {
        let (first, last) = RANGES[self.roll(RANGES.len())];
        [first, last][self.roll(2)]
    }

    /// One of the ways to write an address.
    fn spelling(&self, ip: IpAddr) -> String {
        match ip {
            IpAddr::V6(ip) => match self.roll(3) {
                0 => format!("[{ip}]"),
                1 => format!(
                    "[{}]",
                    ip.segments().map(|part| format!("{part:04X}")).join(":")
                ),
                _ => format!("[{ip}%25lo]"),
            },
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                match self.roll(7) {
                    0 => ip.to_bits().to_string(),
                    1 => format!("{:#x}", ip.to_bits()),
                    2 => format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
                    3 => format!("{a}.{b}.{}", u16::from_be_bytes([c, d])),
                    4 => format!("{a}%2e{b}.{c}。{d}"),
                    5 => format!("{ip}."),
                    _ => ip.to_string(),
                }
            }
        }
    }

    /// A URL that is mostly well-formed and often hostile.
    fn url(&self) -> String {
        let scheme = match self.roll(20) {
            0 => self.pick(&["ftp://", "http:/", "//", "", "http:\\\\", "file:///"]),
            _ => self.pick(&["http://", "http://", "HTTP://"]),
        };
        let user = if self.roll(20) == 0 {
            self.pick(&["a@", "a.example@", "@", ":@"])
        } else {
            ""
        };
        let host = match self.roll(4) {
            0 => self.spelling(self.ip()),
            1 => {
                let names = [
                    "localhost",
                    "a.local",
                    "metadata",
                    "b.example.",
                    "..",
                    "a..b",
                    "ⓛocalhost",
                ];
                self.pick(&names).to_owned()
            }
            _ => self
                .pick(&["a.example", "b.example", "c.example", "xn--p1ai.example"])
                .to_owned(),
        };
        let port = if self.roll(8) == 0 {
            self.pick(&[":22", ":8080", ":", ":80", ":0"])
        } else {
            ""
        };
        let path = self.pick(&[
            "/",
            "",
            "/a?b#c",
            "/@127.0.0.1/",
            "?x",
            "#@10.0.0.1",
            "/ ",
            "/\\x",
        ]);
        format!("{scheme}{user}{host}{port}{path}")
    }
}

#[tokio::test]
async fn no_url_redirect_or_resolver_makes_the_dialer_see_an_address_that_is_not_public() {
    let dice = Arc::new(Dice(AtomicU64::new(20_260_701)));
    let (for_names, for_servers) = (Arc::clone(&dice), Arc::clone(&dice));
    // It changes its mind on every call, also about the same name.
    let resolver = Answers::new(move |_, _| match for_names.roll(8) {
        0 => Err(io::ErrorKind::NotFound.into()),
        1 => Ok(Vec::new()),
        2 | 3 => Ok((0..for_names.roll(4)).map(|_| for_names.ip()).collect()),
        _ => Ok(vec![for_names.ip()]),
    });
    let answers = Arc::new(Mutex::new(0_usize));
    let answered = Arc::clone(&answers);
    let servers = Servers::new(move |_, request| {
        if request.is_empty() {
            let refuses = for_servers.roll(8) == 0;
            return if refuses {
                Err(io::ErrorKind::ConnectionRefused.into())
            } else {
                Ok(String::new())
            };
        }
        *answered.lock().unwrap() += 1;
        Ok(match for_servers.roll(4) {
            0 => ok("x"),
            1 => redirect(
                302,
                for_servers.pick(&["/a", "b", "?c", "//d.example", "///e", "http:f"]),
            ),
            _ => redirect(
                [301, 302, 303, 307, 308][for_servers.roll(5)],
                &for_servers.url(),
            ),
        })
    });
    let guard = guard(Policy::default(), resolver, servers.clone());
    let (mut fetched, mut refused) = (0, 0);
    for case in 0..CASES {
        let url = dice.url();
        let outcome = guard.get(&url).await;
        fetched += usize::from(outcome.is_ok());
        refused += usize::from(outcome.is_err_and(|error| error.refusal().is_some()));
        for address in servers.dialled.lock().unwrap().drain(..) {
            let is_web = [80, 443, 8000, 8080, 8443].contains(&address.port());
            let is_fit = is_web && !is_special(address.ip());
            assert!(is_fit, "case {case}: {url:?} dialled {address}");
            assert_eq!(
                address.ip(),
                address.ip().to_canonical(),
                "case {case}: dialled mapped"
            );
        }
        servers.requests.lock().unwrap().clear();
    }
    // The cases are worth something only if many get through and many do not.
    let answered = *answers.lock().unwrap();
    assert!(
        fetched > 2_000 && refused > 20_000 && answered > 10_000,
        "{fetched} {refused} {answered}"
    );
}
