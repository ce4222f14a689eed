//! Requests to those whom a server trusts with logins.
//!
//! Their addresses come from the server, so each passes the guard. What runs on the server's own host is
//! as open as the server is; everything else must be public, and speak TLS. Redirects are not
//! followed: what is sent here is secret.

use std::time::Duration;

use bytes::Bytes;
use domain::limits::{MCP_LOGIN_ANSWER_BYTES_MAX, MCP_LOGIN_REQUEST_WAIT};
use domain::tool_server::{Hidden, ServerUrl, Speech};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use netguard::{Guard, Host, Target};
use serde_json::Value;
use tokio::time::timeout;

use super::LoginError;
use crate::error::quoted;
use crate::transport::http::{Door, JSON};

const FORM: &str = "application/x-www-form-urlencoded";

/// How those are reached whom one server trusts.
#[derive(Clone)]
pub(crate) struct Web {
    guard: Guard,
    server: Target,
}

/// What somebody answered.
pub(crate) struct Said {
    pub(crate) status: StatusCode,
    /// Null if it was no JSON.
    pub(crate) body: Value,
    /// How long it wants to be left alone, if it says so in seconds.
    pub(crate) retry_after: Option<Duration>,
}

impl Web {
    /// For logins to `server`, which somebody named who may name any.
    pub(crate) fn new(guard: Guard, server: Target) -> Self {
        Self { guard, server }
    }

    pub(crate) fn server(&self) -> &Target {
        &self.server
    }

    /// The JSON at `url`.
    ///
    /// # Errors
    /// If it may not be reached, or is not.
    pub(crate) async fn get(&self, url: &str) -> Result<Said, LoginError> {
        self.send(url, Method::GET, HeaderMap::new(), None).await
    }

    /// Sends JSON to `url`.
    ///
    /// # Errors
    /// If it may not be reached, or is not.
    pub(crate) async fn post(&self, url: &str, body: &Value) -> Result<Said, LoginError> {
        let body = Bytes::from(body.to_string());
        let headers = HeaderMap::new();
        self.send(url, Method::POST, headers, Some(body)).await
    }

    /// Sends a form to `url`, under the name and password of `basic` if there are any.
    ///
    /// # Errors
    /// If it may not be reached, or is not.
    pub(crate) async fn submit(
        &self,
        url: &str,
        form: &[(&str, &str)],
        basic: Option<Hidden>,
    ) -> Result<Said, LoginError> {
        let body = Bytes::from(encoded(form));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM));
        if let Some(basic) = basic {
            let value = HeaderValue::from_str(basic.reveal());
            let mut value =
                value.map_err(|_| LoginError::Refused("its client is no header".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        self.send(url, Method::POST, headers, Some(body)).await
    }

    async fn send(
        &self,
        url: &str,
        method: Method,
        mut headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Said, LoginError> {
        let at = self.open(url)?;
        let door = Door::new(&self.guard, &at, self.is_beside(&self.target(url)?), None);
        let door = door.map_err(|error| LoginError::Refused(format!("{url}: {error}")))?;
        headers.insert(ACCEPT, HeaderValue::from_static(JSON));
        let asking = async {
            let answer = door
                .send_once(door.target(), method, &headers, body)
                .await?;
            let (status, is_json) = (answer.status, answer.is(JSON));
            let retry_after = answer.header(RETRY_AFTER.as_str());
            let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
            let retry_after = retry_after.map(Duration::from_secs);
            let body = answer.whole_within(MCP_LOGIN_ANSWER_BYTES_MAX).await?;
            let body = serde_json::from_slice(&body).ok().filter(|_| is_json);
            let body = body.unwrap_or(Value::Null);
            Ok(Said {
                status,
                body,
                retry_after,
            })
        };
        let place = place(door.target());
        match timeout(MCP_LOGIN_REQUEST_WAIT, asking).await {
            Ok(said) => said.map_err(|error: crate::transport::http::HttpError| {
                LoginError::Failed(format!("{place}: {error}"))
            }),
            Err(_) => Err(LoginError::Failed(format!(
                "{place} did not answer in time"
            ))),
        }
    }

    /// Checks that an address is one that secrets may go to.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn check(&self, url: &str) -> Result<(), LoginError> {
        self.open(url).map(drop)
    }

    fn open(&self, url: &str) -> Result<ServerUrl, LoginError> {
        let target = self.target(url)?;
        let is_ours = self.is_beside(&target) && is_here(&target);
        if !target.is_secure() && !is_ours {
            let why = format!("{} does not speak TLS", place(&target));
            return Err(LoginError::Refused(why));
        }
        Ok(ServerUrl {
            url: url.to_owned(),
            headers: Vec::new(),
            speech: Speech::Unknown,
            client: None,
        })
    }

    fn target(&self, url: &str) -> Result<Target, LoginError> {
        Target::parse(url).map_err(|error| LoginError::Refused(format!("{}: {error}", quoted(url))))
    }

    fn is_beside(&self, target: &Target) -> bool {
        target.host() == self.server.host()
    }
}

fn encoded(form: &[(&str, &str)]) -> String {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(form);
    text.finish()
}

/// An address without what may be secret in it.
fn place(target: &Target) -> String {
    let url = target.url();
    format!("{}://{}{}", url.scheme(), target.authority(), url.path())
}

/// Whether it is this machine, by name or address.
pub(crate) fn is_here(target: &Target) -> bool {
    match target.host() {
        Host::Literal(ip) => ip.is_loopback(),
        Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use netguard::{Guard, Policy, Target};

    use super::Web;

    fn web(server: &str) -> Web {
        let guard = Guard::new(Policy::default()).unwrap();
        Web::new(guard, Target::parse(server).unwrap())
    }

    #[tokio::test]
    async fn a_public_server_cannot_have_secrets_sent_to_this_machine_or_in_the_clear() {
        let web = web("https://tools.example/mcp");
        assert!(web.check("https://login.example/token").is_ok());
        for clear in [
            "http://login.example/token",
            "http://tools.example/token",
            "http://127.0.0.1:1/token",
            "file:///etc/passwd",
        ] {
            assert!(web.check(clear).is_err(), "{clear}");
        }
        for place in [
            "https://127.0.0.1/x",
            "https://[::1]/x",
            "https://10.0.0.1/x",
        ] {
            let refused = web.get(place).await.map(|said| said.status).unwrap_err();
            assert!(refused.to_string().contains("blocked address"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_server_on_this_machine_may_trust_what_is_beside_it_and_nothing_else_here() {
        let web = web("http://127.0.0.1:9/mcp");
        assert!(web.check("http://127.0.0.1:8/token").is_ok());
        assert!(web.check("http://127.0.0.2:8/token").is_err());
        assert!(web.check("http://10.0.0.1/token").is_err());
        let other = web.get("https://127.0.0.2/x").await.map(|said| said.status);
        let other = other.unwrap_err().to_string();
        assert!(other.contains("blocked address"), "{other}");
    }
}
