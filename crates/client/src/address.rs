//! Addresses of servers as people write them, and what they mean.

use std::path::PathBuf;

use tokio_tungstenite::tungstenite::http::Uri;

use crate::error::TransportError;

/// Where ACP lives when the address names only a host.
const DEFAULT_PATH: &str = "/acp";

/// Where to connect, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) place: Place,
    pub(crate) way: Way,
    /// Host and port as the Host header wants them.
    pub(crate) authority: String,
    pub(crate) path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp {
        /// Without the brackets of an IPv6 address.
        host: String,
        port: u16,
        /// Whether TLS is spoken there.
        is_tls: bool,
    },
    Unix(PathBuf),
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    WebSocket,
    /// Single requests and streams of events.
    Streamable,
    /// A WebSocket, and where something in between does not let one through, the other.
    Either,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, TransportError> {
        let bad = |problem| TransportError::BadUrl {
            url: url.to_owned(),
            problem,
        };
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(bad("it names no socket"));
            }
            return Ok(Self {
                place: Place::Unix(path.into()),
                way: Way::WebSocket,
                authority: "localhost".to_owned(),
                path: DEFAULT_PATH.to_owned(),
            });
        }
        let uri: Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
        let (way, is_tls) = match uri.scheme_str() {
            Some("ws") => (Way::WebSocket, false),
            Some("wss") => (Way::WebSocket, true),
            Some("http") => (Way::Either, false),
            Some("https") => (Way::Either, true),
            Some("http+sse") => (Way::Streamable, false),
            Some("https+sse") => (Way::Streamable, true),
            _ => {
                return Err(bad(
                    "it must start with ws://, wss://, http://, https:// or unix:",
                ));
            }
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(TransportError::BadUrl {
                // Whatever stands before the `@` may be a secret.
                url: format!("…@{}", authority.host()),
                problem: "a name or password does not belong in it; use a token",
            });
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("" | "/") => DEFAULT_PATH,
            Some(path) => path,
        };
        let port = authority.port_u16();
        Ok(Self {
            place: Place::Tcp {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port.unwrap_or(if is_tls { 443 } else { 80 }),
                is_tls,
            },
            way,
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
        })
    }

    /// The address as people write it.
    pub(crate) fn url(&self) -> String {
        let scheme = match (&self.place, self.way) {
            (Place::Unix(path), _) => return format!("unix:{}", path.display()),
            (Place::Tcp { is_tls: false, .. }, Way::WebSocket | Way::Either) => "ws",
            (Place::Tcp { is_tls: true, .. }, Way::WebSocket | Way::Either) => "wss",
            (Place::Tcp { is_tls: false, .. }, Way::Streamable) => "http",
            (Place::Tcp { is_tls: true, .. }, Way::Streamable) => "https",
        };
        format!("{scheme}://{}{}", self.authority, self.path)
    }

    /// The same place by another way.
    pub(crate) fn by(&self, way: Way) -> Self {
        Self {
            way,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Place, Way};

    #[test]
    fn an_address_needs_only_a_scheme_and_a_host() {
        let url = |text: &str| Address::parse(text).map(|address| address.url());
        for (given, meant) in [
            ("http://127.0.0.1:4600", "ws://127.0.0.1:4600/acp"),
            ("ws://127.0.0.1:4600/", "ws://127.0.0.1:4600/acp"),
            ("ws://[::1]:4600/ws", "ws://[::1]:4600/ws"),
            ("http://host", "ws://host/acp"),
            ("https://host", "wss://host/acp"),
            ("http+sse://host", "http://host/acp"),
            ("unix:run/socket", "unix:run/socket"),
            ("unix:///run/socket", "unix:/run/socket"),
        ] {
            assert_eq!(url(given).as_deref(), Ok(meant));
        }
        let host = "::1".to_owned();
        let tls = Address::parse("https+sse://[::1]").unwrap();
        let (port, is_tls) = (443, true);
        assert_eq!(tls.place, Place::Tcp { host, port, is_tls });
        assert_eq!(tls.way, Way::Streamable);
    }

    #[test]
    fn addresses_that_cannot_work_say_why() {
        for (given, problem) in [
            ("127.0.0.1:4600", "it must start with ws://"),
            ("unix:", "it names no socket"),
            ("ftp://host", "it must start with ws://"),
            ("ws://me:secret@host", "use a token"),
            ("ws://", "it is not a URL"),
        ] {
            let error = Address::parse(given).unwrap_err().to_string();
            assert!(error.contains(problem), "{given}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
