//! Rules 1 and 2: text becomes a [`Target`], or is refused before any parser can disagree about it.

use std::fmt;
use std::net::IpAddr;

use url::Url;

use crate::limits::URL_BYTES_MAX;
use crate::name;
use crate::refusal::{Refusal, UrlFault};

/// Where a URL points, read once. What is judged, dialled, sent and shown all comes from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host,
    port: u16,
    is_secure: bool,
}

/// The host of a [`Target`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address, in whatever spelling it was written; IPv4-mapped ones are IPv4.
    Literal(IpAddr),
    /// A name in its ASCII form, lower case, without a last dot.
    Name(String),
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// A [`Refusal`] for everything but a plain `http://` or `https://` URL without user info.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        check_text(text).map_err(Refusal::Url)?;
        let mut url = Url::parse(text).map_err(|_| Refusal::Url(UrlFault::Malformed))?;
        let is_secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(Refusal::Url(UrlFault::Scheme)),
        };
        let host = match url.host() {
            None => return Err(Refusal::Url(UrlFault::NoHost)),
            Some(url::Host::Ipv4(ip)) => Host::Literal(ip.into()),
            Some(url::Host::Ipv6(ip)) => Host::Literal(IpAddr::from(ip).to_canonical()),
            Some(url::Host::Domain(domain)) => {
                let name = name::canonical(domain);
                name::check_form(&name).map_err(Refusal::Name)?;
                Host::Name(name)
            }
        };
        if let Host::Name(name) = &host {
            // Host, SNI and certificate are about the name without its last dot.
            url.set_host(Some(name))
                .map_err(|_| Refusal::Url(UrlFault::Malformed))?;
        }
        url.set_fragment(None);
        let port = url.port_or_known_default();
        let port = port.ok_or(Refusal::Url(UrlFault::Malformed))?;
        Ok(Self {
            url,
            host,
            port,
            is_secure,
        })
    }

    /// The URL as it was understood, without its fragment.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, also where the URL leaves it out.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is https.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Whether both are the same scheme, host and port.
    #[must_use]
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.is_secure, self.port) == (other.is_secure, other.port) && self.host == other.host
    }

    /// What the Host header says.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// What the request line says.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Refuses characters that one parser drops, another keeps and a third takes for a separator.
///
/// # Errors
/// The fault.
pub(crate) fn check_characters(text: &str) -> Result<(), UrlFault> {
    if text.len() > URL_BYTES_MAX {
        return Err(UrlFault::TooLong);
    }
    for character in text.chars() {
        if character.is_control() {
            return Err(UrlFault::ControlCharacter);
        }
        if character.is_whitespace() {
            return Err(UrlFault::Space);
        }
        if character == '\\' {
            return Err(UrlFault::Backslash);
        }
    }
    Ok(())
}

/// Rule 1, on the text itself.
fn check_text(text: &str) -> Result<(), UrlFault> {
    check_characters(text)?;
    let after = ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = text.get(..scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme)
            .then(|| &text[scheme.len()..])
    });
    let rest = after.ok_or(UrlFault::Scheme)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(UrlFault::NoHost);
    }
    if authority.contains('@') {
        return Err(UrlFault::UserInfo);
    }
    Ok(())
}
