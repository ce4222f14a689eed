//! The one HTTP client: built when first needed, its connections kept for the next call.
//!
//! Only this file knows which library carries the bytes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use domain::Limits;
use domain::limits::MODEL_LIST_BYTES_MAX;
use egress::{Proxies, Roots};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Proxy, Request, Response, Url};
use serde_json::Value;

use crate::secret::Secret;

/// How long an unused connection is kept: longer than most people read and think between two
/// prompts, and as long as a provider keeps what it has read of a conversation. A server that closes
/// it earlier costs nothing: the next call dials anew.
const IDLE_CONNECTION: Duration = Duration::from_secs(300);

/// Unused connections kept per server; more would only wait to be closed.
const IDLE_CONNECTIONS_MAX: usize = 32;

/// How often an unused or silent connection is asked whether it still lives: less than the five
/// minutes after which networks forget one.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Characters of the shortest key that is hidden in texts; the keys of all providers are longer.
const KEY_CHARS_HIDDEN_MIN: usize = 8;

/// 407, which only a proxy answers.
pub(crate) const PROXY_LOGIN_WANTED: u16 = 407;

/// A client that costs nothing until it is used.
pub(crate) struct Http {
    connect: Duration,
    roots: Roots,
    proxies: Proxies,
    client: OnceLock<Client>,
}

/// How a request says who sends it.
#[derive(Clone)]
pub(crate) enum Login {
    Nobody,
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// `x-api-key`, as Anthropic wants it.
    ApiKey(Secret),
}

/// The client could not be made, which only happens when the program was built wrongly.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up")]
pub(crate) struct NoClient;

/// An answer's head has come; its body can be read piece by piece.
pub(crate) struct Answer(Response);

/// No answer, or no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The connection did not come about.
    Unreachable,
    /// The connection was lost. Another may not be.
    Lost,
    /// The proxy wants a user name and password, or others than those that were sent.
    ProxyLogin,
    /// The server's certificate is not trusted.
    Untrusted,
}

impl Http {
    pub(crate) fn new(limits: &Limits, roots: Roots, proxies: Proxies) -> Self {
        Self {
            connect: limits.client_connect,
            roots,
            proxies,
            client: OnceLock::new(),
        }
    }

    /// Sends `request` and waits for the head of the answer.
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, Broken> {
        let client = self.client().map_err(|error| {
            tracing::error!(%error);
            Broken::Unreachable
        })?;
        match client.execute(request).await {
            Ok(response) => Ok(Answer(response)),
            Err(error) => {
                // The URL may hold a password; the kind of failure is enough.
                let broken = why(&error);
                tracing::debug!(error = %error.without_url(), ?broken, "model request failed");
                Err(broken)
            }
        }
    }

    /// What is at `url`, if it answers with JSON that is not too long.
    pub(crate) async fn json(&self, url: &Url, login: &Login) -> Option<Value> {
        let request = request(Method::GET, url, login, "application/json")?;
        let answer = self.send(request).await.ok()?;
        let is_well = (200..300).contains(&answer.status());
        let body = answer.text(MODEL_LIST_BYTES_MAX).await;
        serde_json::from_str(&body).ok().filter(|_| is_well)
    }

    fn client(&self) -> Result<&Client, NoClient> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.build().ok_or(NoClient)?;
        Ok(self.client.get_or_init(|| client))
    }

    fn build(&self) -> Option<Client> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = self.roots.load().ok()?.store();
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let proxies = self.proxies.clone();
        let proxy = Proxy::custom(move |url| proxy_for(&proxies, url));
        Client::builder()
            .tls_backend_preconfigured(tls)
            // Without the variables that the library would read by itself: ours are read by us.
            .no_proxy()
            .proxy(proxy)
            .redirect(Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(self.connect)
            .http2_adaptive_window(true)
            .connect_timeout(self.connect)
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .user_agent(concat!("fastness/", env!("CARGO_PKG_VERSION")))
            .build()
            .ok()
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = self.0.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// Cancel safe: a piece is taken only when it is handed over.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Broken> {
        self.0.chunk().await.map_err(|error| {
            tracing::debug!(error = %error.without_url(), "model answer broke off");
            Broken::Lost
        })
    }

    /// The body, as far as it comes and at most `bytes_max` of it.
    pub(crate) async fn text(mut self, bytes_max: usize) -> String {
        let mut body = Vec::new();
        while let Ok(Some(piece)) = self.piece().await {
            let room = bytes_max - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() == bytes_max {
                break;
            }
        }
        String::from_utf8_lossy(&body).into_owned()
    }
}

/// The URL of the proxy for `url`, with the login that the library sends to it.
fn proxy_for(proxies: &Proxies, url: &Url) -> Option<Url> {
    let is_secure = url.scheme() == "https";
    let port = url.port_or_known_default()?;
    let named = proxies.proxy_for(is_secure, url.host_str()?, port)?;
    Some(named.proxy.secret_url().clone())
}

/// What kind of failure the library reports.
fn why(error: &reqwest::Error) -> Broken {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // An I/O error does not count what it holds as its source, and one may hold another.
        let mut held = error.downcast_ref::<std::io::Error>();
        while let Some(inner) = held.and_then(std::io::Error::get_ref) {
            let tls = inner.downcast_ref::<rustls::Error>();
            if matches!(tls, Some(rustls::Error::InvalidCertificate(_))) {
                return Broken::Untrusted;
            }
            held = inner.downcast_ref::<std::io::Error>();
        }
        // The library does not export the type of this error; a test holds its text.
        if error.to_string().ends_with("proxy authorization required") {
            return Broken::ProxyLogin;
        }
        cause = error.source();
    }
    match error.is_connect() {
        true => Broken::Unreachable,
        false => Broken::Lost,
    }
}

/// A GET without a key, to see whether there is an answer.
pub(crate) fn get(url: &Url) -> Request {
    Request::new(Method::GET, url.clone())
}

/// A request that may carry JSON and wants `accept` back; `None` if the key cannot be in a header.
pub(crate) fn request(
    method: Method,
    url: &Url,
    login: &Login,
    accept: &'static str,
) -> Option<Request> {
    let mut request = Request::new(method, url.clone());
    let headers: &mut HeaderMap = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    let (name, value) = match login {
        Login::Nobody => return Some(request),
        Login::Bearer(key) => (AUTHORIZATION, format!("Bearer {}", key.expose())),
        Login::ApiKey(key) => (
            HeaderName::from_static("x-api-key"),
            key.expose().to_owned(),
        ),
    };
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Some(request)
}

impl Login {
    /// Bearer `key`, if there is one.
    pub(crate) fn bearer(key: Option<Secret>) -> Self {
        key.map_or(Self::Nobody, Self::Bearer)
    }

    /// `text` without the key in it. A key that is shorter than [`KEY_CHARS_HIDDEN_MIN`] is no
    /// secret: local servers take any word, and hiding `x` would only spoil the text.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        match self {
            Self::Bearer(key) | Self::ApiKey(key)
                if key.expose().chars().count() >= KEY_CHARS_HIDDEN_MIN =>
            {
                text.replace(key.expose(), "(key)")
            }
            Self::Nobody | Self::Bearer(_) | Self::ApiKey(_) => text.to_owned(),
        }
    }
}

/// Where `path` is at `base`, which may or may not end in its version or in the path itself.
pub(crate) fn versioned(base: &str, path: &[&str]) -> Option<Url> {
    let base = base.trim().trim_end_matches('/');
    let tail = format!("/{}", path.join("/"));
    let mut url = at(base.strip_suffix(&tail).unwrap_or(base), &[])?;
    let has_version = url
        .path_segments()
        .is_some_and(|mut path| path.any(is_version));
    let mut segments = url.path_segments_mut().ok()?;
    segments.pop_if_empty();
    if !has_version {
        segments.push("v1");
    }
    segments.extend(path);
    drop(segments);
    Some(url)
}

/// Whether a segment of a path is a version, such as `v1`.
fn is_version(segment: &str) -> bool {
    let digits = segment.strip_prefix('v').unwrap_or("");
    digits.starts_with(|c: char| c.is_ascii_digit())
}

/// The address that the interface of the call at `url` is at: `…/v1` of `…/v1/chat/completions`.
pub(crate) fn interface(url: &Url) -> Option<Url> {
    const CALLS: [&str; 4] = ["chat", "completions", "messages", "responses"];
    let segments: Vec<&str> = url.path_segments()?.collect();
    let calls = segments.iter().rev();
    let calls = calls.take_while(|segment| CALLS.contains(*segment)).count();
    Some(with_path(url, &segments[..segments.len() - calls]))
}

/// The address of the server that the call at `url` goes to, without its version.
pub(crate) fn root(url: &Url) -> Option<Url> {
    let segments: Vec<&str> = url.path_segments()?.collect();
    let version = segments.iter().position(|segment| is_version(segment))?;
    Some(with_path(url, &segments[..version]))
}

fn with_path(url: &Url, segments: &[&str]) -> Url {
    let mut url = url.clone();
    url.set_path(&segments.join("/"));
    url
}

/// Where `path` is at `base`.
pub(crate) fn at(base: &str, path: &[&str]) -> Option<Url> {
    let mut url = Url::parse(base.trim().trim_end_matches('/')).ok()?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return None;
    }
    let mut segments = url.path_segments_mut().ok()?;
    segments.pop_if_empty();
    segments.extend(path);
    drop(segments);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::{interface, root, versioned};

    #[test]
    fn a_base_works_with_or_without_its_version() {
        let cases = [
            (
                "http://127.0.0.1:4010",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:4010/",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:4010/v1",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:4010/v1/",
                "http://127.0.0.1:4010/v1/chat/completions",
            ),
            (
                "https://a.example/api/v1",
                "https://a.example/api/v1/chat/completions",
            ),
            (
                "https://a.example/v1beta/openai",
                "https://a.example/v1beta/openai/chat/completions",
            ),
            (
                "http://a/v1/chat/completions",
                "http://a/v1/chat/completions",
            ),
        ];
        for (base, expected) in cases {
            let url = versioned(base, &["chat", "completions"]).map(String::from);
            assert_eq!(url.as_deref(), Some(expected), "{base}");
        }
        let bases = [
            ("https://a.example/api/v1", "api/v1", "api"),
            ("https://a.example/v1beta/openai", "v1beta/openai", ""),
            ("https://a.example", "v1", ""),
        ];
        for (base, expected, before_version) in bases {
            let url = versioned(base, &["chat", "completions"]).unwrap();
            let path = |url: Option<reqwest::Url>| url.unwrap().path()[1..].to_owned();
            assert_eq!(path(interface(&url)), expected, "{base}");
            assert_eq!(path(root(&url)), before_version, "{base}");
        }
        for wrong in ["", "127.0.0.1:4010", "file:///etc", "http://", "ftp://a"] {
            assert_eq!(versioned(wrong, &["messages"]), None, "{wrong}");
        }
    }
}
