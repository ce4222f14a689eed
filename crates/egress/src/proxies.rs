//! Which proxy is used for an address: the operator's, else that of the usual variables.

use std::sync::Arc;

use crate::bypass::Bypass;
use crate::proxy::Proxy;

/// The proxies of this process. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Arc<NamedProxy>>,
    https: Option<Arc<NamedProxy>>,
    bypass: Bypass,
}

/// A proxy, and where it was set.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedProxy {
    /// The proxy.
    pub proxy: Proxy,
    /// A variable or a setting, for people.
    pub source: String,
}

/// A variable whose value is not an HTTP proxy; it is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableProxy {
    /// The variable.
    pub variable: &'static str,
}

impl Proxies {
    /// One proxy for everything but `bypass`.
    #[must_use]
    pub fn all(proxy: Proxy, source: impl Into<String>, bypass: Bypass) -> Self {
        let named = Arc::new(NamedProxy {
            proxy,
            source: source.into(),
        });
        Self {
            http: Some(Arc::clone(&named)),
            https: Some(named),
            bypass,
        }
    }

    /// What the usual variables say. Lower case wins over upper case, as in curl; `variable` gives the
    /// value of one that is set.
    #[must_use]
    pub fn of_variables<'a>(
        variable: impl Fn(&str) -> Option<&'a str>,
        bypass: Bypass,
    ) -> (Self, Vec<UnusableProxy>) {
        let mut unusable = Vec::new();
        // A web server passes the client's header `Proxy:` to a CGI program as HTTP_PROXY.
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let mut first = |names: &[&'static str]| {
            for name in names {
                let Some(text) = variable(name)
                    .map(str::trim)
                    .filter(|text| !text.is_empty())
                else {
                    continue;
                };
                let read = match text.contains("://") {
                    true => text.parse(),
                    false => format!("http://{text}").parse(),
                };
                if let Ok(proxy) = read {
                    let source = (*name).to_owned();
                    return Some(Arc::new(NamedProxy { proxy, source }));
                }
                let problem = UnusableProxy { variable: name };
                if !unusable.contains(&problem) {
                    unusable.push(problem);
                }
                return None;
            }
            None
        };
        let http: &[&str] = match is_cgi {
            true => &["http_proxy", "all_proxy", "ALL_PROXY"],
            false => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        };
        let http = first(http);
        let https = first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]);
        let proxies = Self {
            http,
            https,
            bypass,
        };
        (proxies, unusable)
    }

    /// The proxy for `host` (a name, or an address) at `port`; `None` means to connect directly.
    #[must_use]
    pub fn proxy_for(&self, is_secure: bool, host: &str, port: u16) -> Option<&Arc<NamedProxy>> {
        let proxy = match is_secure {
            true => self.https.as_ref(),
            false => self.http.as_ref(),
        };
        proxy.filter(|_| !self.bypass.matches(host, port))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bypass, Proxies, UnusableProxy};

    type Variables<'a> = &'a [(&'a str, &'a str)];

    /// The proxies for http and https by these variables, and the variables that are not used.
    fn chosen(variables: &[(&str, &str)]) -> (Vec<String>, Vec<UnusableProxy>) {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        };
        let bypass = Bypass::parse("direct.test");
        let (proxies, unusable) = Proxies::of_variables(variable, bypass);
        assert!(proxies.proxy_for(true, "direct.test", 443).is_none());
        let shown = [(false, 80), (true, 443)].map(|(is_secure, port)| {
            match proxies.proxy_for(is_secure, "a.test", port) {
                Some(named) => format!("{} by {}", named.proxy, named.source),
                None => "direct".to_owned(),
            }
        });
        (shown.to_vec(), unusable)
    }

    #[test]
    fn variables_choose_the_proxy_by_scheme_and_lower_case_wins() {
        let cases: [(Variables<'_>, [&str; 2]); 7] = [
            (&[], ["direct", "direct"]),
            (
                &[("HTTPS_PROXY", "http://p:1")],
                ["direct", "http://p:1 by HTTPS_PROXY"],
            ),
            (
                &[("HTTP_PROXY", "http://p:1")],
                ["http://p:1 by HTTP_PROXY", "direct"],
            ),
            (
                &[("HTTP_PROXY", "http://p:1"), ("http_proxy", "q:2")],
                ["http://q:2 by http_proxy", "direct"],
            ),
            (
                &[("ALL_PROXY", "https://p"), ("https_proxy", "http://q:2/")],
                ["https://p:443 by ALL_PROXY", "http://q:2 by https_proxy"],
            ),
            // A client of a web server could choose it.
            (
                &[("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")],
                ["direct", "direct"],
            ),
            (&[("HTTPS_PROXY", "  ")], ["direct", "direct"]),
        ];
        for (variables, expected) in cases {
            assert_eq!(chosen(variables).0, expected, "{variables:?}");
        }
    }

    #[test]
    fn a_variable_that_is_no_http_proxy_is_reported_and_not_used() {
        let (shown, unusable) = chosen(&[("ALL_PROXY", "socks5://me:hunter2@p:1080")]);
        assert_eq!(shown, ["direct", "direct"]);
        let variable = "ALL_PROXY";
        assert_eq!(unusable, [UnusableProxy { variable }]);
        assert!(!format!("{unusable:?}").contains("hunter2"));
    }
}
