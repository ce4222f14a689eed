//! The one HTTP client: built when first needed, its connections kept for the next call.
//!
//! Only this file knows which library carries the bytes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::Limits;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Request, Response, Url};

use crate::secret::Secret;

/// How long an unused connection is kept: longer than a person thinks between two prompts, shorter
/// than most servers wait before they close it.
const IDLE_CONNECTION: Duration = Duration::from_secs(90);

/// Unused connections kept per server; more would only wait to be closed.
const IDLE_CONNECTIONS_MAX: usize = 32;

/// A client that costs nothing until it is used.
pub(crate) struct Http {
    connect: Duration,
    client: OnceLock<Client>,
}

/// The client could not be made, which only happens when the program was built wrongly.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up")]
pub(crate) struct NoClient;

/// An answer's head has come; its body can be read piece by piece.
pub(crate) struct Answer(Response);

/// No answer, or no more of it.
#[derive(Debug)]
pub(crate) struct Broken;

impl Http {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connect: limits.client_connect,
            client: OnceLock::new(),
        }
    }

    /// Sends `request` and waits for the head of the answer.
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, Broken> {
        let client = self.client().map_err(|error| {
            tracing::error!(%error);
            Broken
        })?;
        match client.execute(request).await {
            Ok(response) => Ok(Answer(response)),
            Err(error) => {
                // The URL may hold a password; the kind of failure is enough.
                tracing::debug!(error = %error.without_url(), "model request failed");
                Err(Broken)
            }
        }
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
        let roots = rustls::RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .tcp_nodelay(true)
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
    pub(crate) async fn piece(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, Broken> {
        self.0.chunk().await.map_err(|error| {
            tracing::debug!(error = %error.without_url(), "model answer broke off");
            Broken
        })
    }

    /// The body, as far as it comes and at most `bytes_max` of it.
    pub(crate) async fn text(mut self, bytes_max: usize) -> String {
        let mut body = Vec::new();
        while let Ok(Some(piece)) = self.piece().await {
            let room = bytes_max - body.len();
            let piece = piece.as_ref();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() == bytes_max {
                break;
            }
        }
        String::from_utf8_lossy(&body).into_owned()
    }
}

/// A POST of JSON that wants a stream of events back; `None` if the key cannot be in a header.
pub(crate) fn post(url: &Url, key: Option<&Secret>, json: Vec<u8>) -> Option<Request> {
    let mut request = Request::new(reqwest::Method::POST, url.clone());
    let headers: &mut HeaderMap = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = key {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok()?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    *request.body_mut() = Some(json.into());
    Some(request)
}
