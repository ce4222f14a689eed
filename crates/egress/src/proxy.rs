//! One HTTP proxy: where it is, and who we are there.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::{Host, Url};

/// An HTTP proxy, written `http://[USER[:PASSWORD]@]HOST[:PORT]`, or `https://…` if it speaks TLS.
///
/// Neither `Debug` nor `Display` shows the user name or the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    url: Url,
    host: Host,
    port: u16,
    authorization: Option<String>,
}

/// Why a proxy cannot be used. The text never repeats what was written: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write the proxy as http://[user:password@]host:port, or https:// if it speaks TLS")]
pub struct ProxyError;

impl Proxy {
    /// Whether the connection to the proxy itself is TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Proxy-Authorization`, if it has a user name. It is a secret.
    #[must_use]
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Its URL with user name and password, for a library that wants them there. It is a secret.
    #[must_use]
    pub fn secret_url(&self) -> &Url {
        &self.url
    }
}

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text.trim()).map_err(|_| ProxyError)?;
        let is_known = matches!(url.scheme(), "http" | "https");
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let host = url.host().filter(|_| is_known && is_plain);
        Ok(Self {
            host: host.ok_or(ProxyError)?.to_owned(),
            port: url.port_or_known_default().ok_or(ProxyError)?,
            authorization: authorization(&url)?,
            url,
        })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.url.scheme(), self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Basic authentication with the user name and password of a URL, which are percent-encoded there.
fn authorization(url: &Url) -> Result<Option<String>, ProxyError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut pair = decoded(url.username())?;
    // RFC 7617: the first colon ends the user name.
    if pair.contains(&b':') {
        return Err(ProxyError);
    }
    pair.push(b':');
    pair.extend(decoded(url.password().unwrap_or_default())?);
    Ok(Some(format!("Basic {}", STANDARD.encode(pair))))
}

fn decoded(text: &str) -> Result<Vec<u8>, ProxyError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.next().zip(rest.next()).ok_or(ProxyError)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(ProxyError);
        let value = digit(digits.0)? * 16 + digit(digits.1)?;
        bytes.push(u8::try_from(value).map_err(|_| ProxyError)?);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Proxy, ProxyError};

    #[test]
    fn a_proxy_is_an_http_or_https_url_without_a_path() {
        for text in [
            "http://proxy.corp:3128",
            "http://10.0.0.9:8080/",
            "http://[fd00::1]:3128",
            "https://proxy.corp",
        ] {
            assert!(text.parse::<Proxy>().is_ok(), "{text}");
        }
        for text in [
            "",
            "proxy:3128",
            "socks5://p:1",
            "http://p/x",
            "http://p?x",
            "http://a%3Ab:c@p",
            "http://a:%zz@p",
        ] {
            assert_eq!(text.parse::<Proxy>(), Err(ProxyError), "{text}");
        }
    }

    #[test]
    fn user_name_and_password_become_basic_authentication() {
        let proxy: Proxy = "http://me:p%40ss%3Aword@proxy.corp:3128".parse().unwrap();
        // me:p@ss:word
        assert_eq!(proxy.authorization(), Some("Basic bWU6cEBzczp3b3Jk"));
        let proxy: Proxy = "http://me@proxy.corp".parse().unwrap();
        assert_eq!(proxy.authorization(), Some("Basic bWU6"));
        let proxy: Proxy = "http://proxy.corp".parse().unwrap();
        assert_eq!(proxy.authorization(), None);
    }

    #[test]
    fn a_proxy_never_prints_its_password() {
        let proxy: Proxy = "https://me:hunter2@proxy.corp:8443".parse().unwrap();
        assert_eq!(proxy.to_string(), "https://proxy.corp:8443");
        assert_eq!(format!("{proxy:?}"), "Proxy(https://proxy.corp:8443)");
    }
}
