//! Where a request may be addressed and where it may come from: Host and Origin.
//!
//! A page on some other site can make a browser send requests to this machine, and with a name
//! that it points here it can even read the answers. Checking Host stops the second, checking
//! Origin the first; the token is checked all the same. Pure: headers in, a verdict out.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The names under which a server may be addressed, and the origins that may call it.
#[derive(Clone, Debug, Default)]
pub struct Door {
    port: u16,
    /// Whether a Host without a port means 443.
    is_tls: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request is turned away at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Turned {
    /// No Host, several, or none that can be read.
    #[error("the request must name its host once")]
    BadHost,
    /// It is addressed to somebody else.
    #[error("this server does not answer to that host name")]
    ForeignHost,
    /// It comes from a page that may not call us.
    #[error("this origin is not allowed")]
    ForeignOrigin,
}

/// Where an admitted request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Not from a page, as far as it says.
    None,
    /// From the server's own page.
    Own(String),
    /// From a page that was allowed by name.
    Allowed(String),
}

impl Door {
    /// A door for a server on `port` that is also reached as `hosts` and may be called by pages
    /// from `origins`.
    #[must_use]
    pub fn new(port: u16, hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self {
            port,
            is_tls: false,
            hosts: lower(hosts),
            origins: lower(origins),
        }
    }

    /// The same door, with TLS behind it.
    #[must_use]
    pub fn over_tls(self) -> Self {
        Self {
            is_tls: true,
            ..self
        }
    }

    /// Checks the Host headers (or, in HTTP/2, the authority) of a request.
    ///
    /// # Errors
    /// If they do not name this server, exactly once.
    pub fn check_host<'a>(&self, named: impl IntoIterator<Item = &'a [u8]>) -> Result<(), Turned> {
        let mut named = named.into_iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(Turned::BadHost);
        };
        let host = std::str::from_utf8(host).map_err(|_| Turned::BadHost)?;
        let is_readable =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@' | b'\\');
        if host.is_empty() || !host.bytes().all(is_readable) {
            return Err(Turned::BadHost);
        }
        let default_port = if self.is_tls { 443 } else { 80 };
        if self.is_ours(&host.to_ascii_lowercase(), default_port) {
            Ok(())
        } else {
            Err(Turned::ForeignHost)
        }
    }

    /// The address of the server's page as somebody reaches it who named `host`; where no name of
    /// ours was given, as this machine reaches it.
    #[must_use]
    pub fn page_address(&self, host: Option<&str>) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        match host.filter(|host| self.check_host([host.as_bytes()]).is_ok()) {
            Some(host) => format!("{scheme}://{host}"),
            None => format!("{scheme}://127.0.0.1:{}", self.port),
        }
    }

    /// Checks the Origin headers of a request, and `Sec-Fetch-Site`, by which browsers tell on
    /// cross-site requests that carry no Origin.
    ///
    /// # Errors
    /// If they name a page that may not call us.
    pub fn check_origin<'a>(
        &self,
        named: impl IntoIterator<Item = &'a [u8]>,
        fetch_site: Option<&[u8]>,
    ) -> Result<Origin, Turned> {
        let mut named = named.into_iter();
        let origin = match (named.next(), named.next()) {
            (None, _) if fetch_site == Some(b"cross-site") => return Err(Turned::ForeignOrigin),
            (None, _) => return Ok(Origin::None),
            (Some(origin), None) => origin,
            (Some(_), Some(_)) => return Err(Turned::ForeignOrigin),
        };
        let origin = std::str::from_utf8(origin).map_err(|_| Turned::ForeignOrigin)?;
        let lower = origin.to_ascii_lowercase();
        if self.origins.contains(&lower) {
            return Ok(Origin::Allowed(origin.to_owned()));
        }
        let is_own = match lower.split_once("://") {
            Some(("http", host)) => self.is_ours(host, 80),
            Some(("https", host)) => self.is_ours(host, 443),
            Some(_) | None => false,
        };
        if is_own {
            Ok(Origin::Own(origin.to_owned()))
        } else {
            Err(Turned::ForeignOrigin)
        }
    }

    /// Whether `host`, in lower case, is this server: a loopback name or address with our port, or
    /// one that was allowed, with or without a port of its own.
    fn is_ours(&self, host: &str, default_port: u16) -> bool {
        let (name, port) = split_port(host);
        if self
            .hosts
            .iter()
            .any(|allowed| allowed == host || (!allowed_has_port(allowed) && allowed == name))
        {
            return true;
        }
        let port = match port {
            None => Some(default_port),
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok(),
            Some(_) => None,
        };
        port == Some(self.port) && is_loopback(name)
    }
}

/// A host and its port; the brackets of an IPv6 address stay on.
fn split_port(host: &str) -> (&str, Option<&str>) {
    let colon = match host.rfind(']') {
        Some(bracket) => host[bracket..].find(':').map(|colon| bracket + colon),
        None => host.rfind(':'),
    };
    match colon {
        Some(colon) => (&host[..colon], Some(&host[colon + 1..])),
        None => (host, None),
    }
}

fn allowed_has_port(allowed: &str) -> bool {
    split_port(allowed).1.is_some()
}

/// `localhost` without a trailing dot, or a loopback address in its usual spelling.
fn is_loopback(name: &str) -> bool {
    if let Some(address) = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return address
            .parse::<Ipv6Addr>()
            .is_ok_and(|address| address.is_loopback());
    }
    name == "localhost"
        || name
            .parse::<Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Door, Origin, Turned};

    fn door() -> Door {
        Door::new(
            4600,
            &["box.example".to_owned()],
            &["https://app.example".to_owned()],
        )
    }

    #[test]
    fn the_page_is_where_the_caller_found_us_and_nowhere_else() {
        let address = |host| door().page_address(host);
        assert_eq!(address(Some("localhost:4600")), "http://localhost:4600");
        assert_eq!(address(Some("box.example")), "http://box.example");
        for none in [None, Some("evil.example"), Some("a b"), Some("")] {
            assert_eq!(address(none), "http://127.0.0.1:4600", "{none:?}");
        }
        let over_tls = door().over_tls();
        assert_eq!(
            over_tls.page_address(Some("box.example:1")),
            "https://box.example:1"
        );
    }

    fn host(named: &[&str]) -> Result<(), Turned> {
        door().check_host(named.iter().map(|host| host.as_bytes()))
    }

    fn origin(named: &[&str]) -> Result<Origin, Turned> {
        door().check_origin(named.iter().map(|origin| origin.as_bytes()), None)
    }

    #[test]
    fn only_our_own_names_with_our_port_are_ours() {
        for ours in [
            "127.0.0.1:4600",
            "localhost:4600",
            "LOCALHOST:4600",
            "[::1]:4600",
            "127.8.8.8:4600",
            "box.example",
            "box.example:443",
        ] {
            assert_eq!(host(&[ours]), Ok(()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "127.0.0.1.evil.example:4600",
            "localhost.evil.example",
            "127.0.0.1:1",
            "127.0.0.1",
            "localhost.:4600",
            "0.0.0.0:4600",
            "0x7f.1:4600",
            "2130706433:4600",
            "[::]:4600",
            "notbox.example",
            "127.0.0.1:4600:4600",
            ":4600",
            "127.0.0.1:+4600",
        ] {
            assert_eq!(host(&[foreign]), Err(Turned::ForeignHost), "{foreign}");
        }
        for bad in [
            &[][..],
            &["127.0.0.1:4600", "evil.example"],
            &["127.0.0.1:4600", "127.0.0.1:4600"],
            &["127.0.0.1:4600\0"],
            &[""],
            &["user@127.0.0.1:4600"],
            &["127.0.0.1:4600/x"],
        ] {
            assert_eq!(host(bad), Err(Turned::BadHost), "{bad:?}");
        }
    }

    #[test]
    fn a_host_without_a_port_means_the_port_of_its_scheme() {
        let check = |door: Door| door.check_host([&b"localhost"[..]]);
        let open = |port| Door::new(port, &[], &[]);
        assert_eq!(check(open(80)), Ok(()));
        assert_eq!(check(open(443).over_tls()), Ok(()));
        assert_eq!(check(open(80).over_tls()), Err(Turned::ForeignHost));
        assert_eq!(check(open(443)), Err(Turned::ForeignHost));
    }

    #[test]
    fn only_our_own_page_and_those_named_may_call() {
        assert_eq!(origin(&[]), Ok(Origin::None));
        assert_eq!(
            origin(&["http://127.0.0.1:4600"]),
            Ok(Origin::Own("http://127.0.0.1:4600".into()))
        );
        assert_eq!(
            origin(&["https://app.example"]),
            Ok(Origin::Allowed("https://app.example".into()))
        );
        for foreign in [
            "null",
            "",
            "http://evil.example:4600",
            "http://localhost:3000",
            "chrome-extension://abcd",
            "https://app.example.evil",
            "http://app.example",
            "file://",
            "127.0.0.1:4600",
        ] {
            assert_eq!(origin(&[foreign]), Err(Turned::ForeignOrigin), "{foreign}");
        }
        assert_eq!(
            origin(&["http://127.0.0.1:4600", "http://127.0.0.1:4600"]),
            Err(Turned::ForeignOrigin)
        );
        let silent = door().check_origin([], Some(b"cross-site"));
        assert_eq!(silent, Err(Turned::ForeignOrigin));
    }
}
