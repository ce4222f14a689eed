//! What a rule says of the web: a domain with all beneath it, or the beginning of addresses.

use url::{Host, Url};

use domain::stars::is_like;

/// A pattern for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SitePattern {
    /// A host and, if it is a name, every host beneath it.
    Domain(String),
    /// Addresses in which `*` stands for anything.
    Address(String),
}

impl SitePattern {
    /// Reads `domain:HOST` or an address with stars.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(domain) = text.strip_prefix("domain:") {
            let domain = domain.strip_suffix('.').unwrap_or(domain);
            let host = Host::parse(domain).map_err(|_| "that is not the name of a host")?;
            return Ok(Self::Domain(host.to_string()));
        }
        let rest = text
            .strip_prefix("https://")
            .or(text.strip_prefix("http://"));
        let what = "it is about a host, as `domain:example.org`, or about addresses, as \
                    `https://example.org/docs/*`";
        let (host, path) = rest.and_then(|rest| rest.split_once('/')).ok_or(what)?;
        // A star in the host's place could stand for its end and more.
        if host.contains('*') || host.is_empty() {
            return Err(what);
        }
        let start = text.len() - path.len();
        let normal = Url::parse(&text[..start]).map_err(|_| what)?;
        Ok(Self::Address(format!("{normal}{path}")))
    }

    /// Whether it is about the address `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        let Ok(mut url) = Url::parse(text) else {
            return false;
        };
        match self {
            Self::Domain(domain) => url.host_str().is_some_and(|host| {
                let host = host.strip_suffix('.').unwrap_or(host);
                let above = host.strip_suffix(domain.as_str());
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }),
            Self::Address(pattern) => {
                url.set_fragment(None);
                is_like(url.as_str(), pattern)
            }
        }
    }
}
