//! HTTP/1.1 to one server, through the guard.
//!
//! Each request is judged and dialled by [`Guard`], or travels on a connection that was. Redirects
//! are not followed: a server that moves is named anew by whoever named it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use domain::limits::{MCP_IDLE_CONNECTIONS_MAX, MCP_MESSAGE_BYTES_MAX};
use domain::tool_server::{Hidden, ServerUrl};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use netguard::{Exception, FetchError, Guard, Host, Target};

use crate::error::{ConnectError, quoted};
use crate::oauth::{Account, Challenge, NotRenewed};

pub(crate) const EVENT_STREAM: &str = "text/event-stream";
pub(crate) const JSON: &str = "application/json";

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The guard does not let it happen.
    #[error("{0}")]
    Refused(String),
    /// Nobody answers there.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke while the request was under way.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The body is longer than it may be.
    #[error("the answer is too long")]
    TooLong,
    /// The server wants a newer token, and there is none at the moment.
    #[error(transparent)]
    NotRenewed(#[from] NotRenewed),
    /// It cannot be sent.
    #[error("the request cannot be made: {0}")]
    Malformed(String),
}

/// The way to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Door {
    shared: Arc<Shared>,
}

struct Shared {
    guard: Guard,
    target: Target,
    headers: HeaderMap,
    /// Who we are there, if that is ours to say.
    account: Option<Account>,
    idle: Mutex<Vec<Sender>>,
}

struct Sender {
    inner: SendRequest<Full<Bytes>>,
    /// A proxy reads the requests, and wants this login if there is one.
    to_proxy: Option<ProxyLogin>,
}

/// What a proxy that reads requests is told about who sends them.
struct ProxyLogin(Option<HeaderValue>);

impl Door {
    /// The way to `at`. Whoever is trusted may name a server on this machine or its networks: exactly
    /// its host and port are open then, and to it alone.
    ///
    /// # Errors
    /// If the address or a header cannot be used.
    pub(crate) fn new(
        guard: &Guard,
        at: &ServerUrl,
        is_trusted: bool,
        account: Option<Account>,
    ) -> Result<Self, ConnectError> {
        let refused = |error: &dyn std::fmt::Display| ConnectError::Refused(error.to_string());
        let target = Target::parse(&at.url).map_err(|error| refused(&error))?;
        let exceptions = match is_trusted {
            true => vec![exception(&target)?],
            false => Vec::new(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &at.headers {
            let (name, value) = header(name, value)?;
            headers.append(name, value);
        }
        Ok(Self {
            shared: Arc::new(Shared {
                guard: guard.for_session(exceptions),
                target,
                headers,
                account,
                idle: Mutex::default(),
            }),
        })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Whether the guard lets this door be used.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) async fn check(&self) -> Result<(), ConnectError> {
        let checked = self.shared.guard.check(self.target().url().as_str()).await;
        let Err(refusal) = checked else {
            return Ok(());
        };
        // Names may resolve another time.
        let is_final = !matches!(refusal, netguard::Refusal::Resolution(_));
        Err(match is_final {
            true => ConnectError::Refused(refusal.to_string()),
            false => ConnectError::Failed(refusal.to_string()),
        })
    }

    /// Sends a request to `target`, which has the origin of this door, and waits for the head of the
    /// response. Dropped, it closes the connection.
    ///
    /// One that is turned away because of its token was not carried out; it is sent once more if there
    /// is a better token.
    pub(crate) async fn send(
        &self,
        target: &Target,
        method: Method,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Answer, HttpError> {
        let Some(account) = &self.shared.account else {
            return self.send_once(target, method, headers, body).await;
        };
        let mut headers = headers.clone();
        let token = account.token().await;
        carry(&mut headers, token.as_ref())?;
        let again = (method.clone(), body.clone());
        let answer = self.send_once(target, method, &headers, body).await?;
        let Some(challenge) = answer.challenge() else {
            return Ok(answer);
        };
        let Some(token) = account.renewed(token.as_ref(), Some(&challenge)).await? else {
            return Ok(answer);
        };
        carry(&mut headers, Some(&token))?;
        let (method, body) = again;
        let answer = self.send_once(target, method, &headers, body).await?;
        if let Some(challenge) = answer.challenge() {
            account.note(&challenge).await;
        }
        Ok(answer)
    }

    /// What somebody must do whom this server does not let in.
    pub(crate) fn login_hint(&self, answer: &Answer) -> String {
        match (&self.shared.account, answer.challenge()) {
            (Some(account), Some(_)) => account.hint().to_owned(),
            (Some(_) | None, _) => {
                let said = answer.header(WWW_AUTHENTICATE.as_str());
                quoted(said.unwrap_or("it names no way to do so"))
            }
        }
    }

    /// Sends a request as it is, and as nobody in particular.
    pub(crate) async fn send_once(
        &self,
        target: &Target,
        method: Method,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Answer, HttpError> {
        let mut request = self.request(target, method, headers, body)?;
        while let Some(mut sender) = self.take_idle() {
            match sender.inner.try_send_request(request).await {
                Ok(response) => return Ok(self.answer(response, sender)),
                Err(mut error) => match error.take_message() {
                    // It was closed while nobody used it, and nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(HttpError::Broken(words(error.error()))),
                },
            }
        }
        let mut sender = self.dial(target).await?;
        if let Some(ProxyLogin(login)) = &sender.to_proxy {
            *request.uri_mut() = uri(target.url().as_str())?;
            if let Some(login) = login {
                let headers = request.headers_mut();
                headers.insert(PROXY_AUTHORIZATION, login.clone());
            }
        }
        let response = sender.inner.send_request(request).await;
        let response = response.map_err(|error| HttpError::Broken(words(&error)))?;
        if let Some(ProxyLogin(login)) = &sender.to_proxy
            && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            let is_sent = login.is_some();
            let error = FetchError::ProxyLogin { is_sent };
            return Err(HttpError::Unreachable(error.to_string()));
        }
        Ok(self.answer(response, sender))
    }

    fn answer(&self, response: Response<Incoming>, sender: Sender) -> Answer {
        let (head, body) = response.into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            sender: Some((self.clone(), sender)),
        }
    }

    fn request(
        &self,
        target: &Target,
        method: Method,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::new(Full::new(body.clone().unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = uri(target.path_and_query())?;
        let all = request.headers_mut();
        let host = HeaderValue::from_str(&target.authority());
        let host = host.map_err(|error| HttpError::Malformed(error.to_string()))?;
        all.insert(HOST, host);
        let agent = concat!("fastness/", env!("CARGO_PKG_VERSION"));
        all.insert(USER_AGENT, HeaderValue::from_static(agent));
        all.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if body.is_some() {
            all.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        for (name, value) in self.shared.headers.iter().chain(headers) {
            all.insert(name, value.clone());
        }
        Ok(request)
    }

    async fn dial(&self, target: &Target) -> Result<Sender, HttpError> {
        let guard = &self.shared.guard;
        let admitted = guard.check(target.url().as_str()).await;
        let admitted = admitted.map_err(|refusal| HttpError::Refused(refusal.to_string()))?;
        let connection = guard.connect(&admitted).await.map_err(|error| {
            if let FetchError::Refused { refusal, .. } = &error {
                return HttpError::Refused(refusal.to_string());
            }
            HttpError::Unreachable(words(&error))
        })?;
        let login = connection.proxy_authorization().cloned();
        let to_proxy = connection.names_whole_url().then_some(ProxyLogin(login));
        let handshake = http1::handshake(TokioIo::new(connection)).await;
        let (inner, driver) = handshake.map_err(|error| HttpError::Broken(words(&error)))?;
        // Ends with the sender and the body; its error reaches whoever waits for those.
        tokio::spawn(async move { driver.await.ok() });
        Ok(Sender { inner, to_proxy })
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle();
        idle.retain(|sender| !sender.inner.is_closed());
        let at = idle.iter().position(|sender| sender.inner.is_ready())?;
        let sender = idle.swap_remove(at);
        // Through a proxy each request is written for it.
        sender.to_proxy.is_none().then_some(sender)
    }

    fn give_back(&self, sender: Sender) {
        let mut idle = self.idle();
        if idle.len() < MCP_IDLE_CONNECTIONS_MAX && !sender.inner.is_closed() {
            idle.push(sender);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Sender>> {
        // Whole at every step, so a panic elsewhere does not spoil it.
        let idle = self.shared.idle.lock();
        idle.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response whose head has come.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// Goes back to be used again once the body is read.
    sender: Option<(Door, Sender)>,
}

impl Answer {
    /// The header `name`, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the body is of the type `wanted`.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        let kind = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case(wanted)
    }

    /// What it wants, if a better token might change this answer.
    fn challenge(&self) -> Option<Challenge> {
        let challenge = Challenge::read(&self.headers);
        match self.status {
            StatusCode::UNAUTHORIZED => Some(challenge),
            StatusCode::FORBIDDEN if challenge.lacks_scope() => Some(challenge),
            _ => None,
        }
    }

    /// The next piece of the body. Cancel safe.
    pub(crate) async fn piece(&mut self) -> Option<Result<Bytes, HttpError>> {
        loop {
            let Some(frame) = self.body.frame().await else {
                if let Some((door, sender)) = self.sender.take() {
                    door.give_back(sender);
                }
                return None;
            };
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(piece)) => return Some(Ok(piece)),
                // Trailers say nothing.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(HttpError::Broken(words(&error)))),
            }
        }
    }

    /// The whole body, if it is no longer than a message may be.
    pub(crate) async fn whole(self) -> Result<Bytes, HttpError> {
        self.whole_within(MCP_MESSAGE_BYTES_MAX).await
    }

    /// The whole body, if it is no longer than `bytes_max`.
    pub(crate) async fn whole_within(mut self, bytes_max: usize) -> Result<Bytes, HttpError> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.piece().await {
            let piece = piece?;
            if whole.len() + piece.len() > bytes_max {
                return Err(HttpError::TooLong);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

fn exception(target: &Target) -> Result<Exception, ConnectError> {
    let host = match target.host() {
        Host::Literal(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
        Host::Literal(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    let entry = format!("{host}:{}", target.port()).parse();
    entry.map_err(|error: netguard::ExceptionError| ConnectError::Refused(error.to_string()))
}

fn header(name: &str, value: &Hidden) -> Result<(HeaderName, HeaderValue), ConnectError> {
    let refused = || ConnectError::Refused(format!("its header {} cannot be sent", quoted(name)));
    let name: HeaderName = name.parse().map_err(|_| refused())?;
    let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| refused())?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Has a request bring `token` along.
fn carry(headers: &mut HeaderMap, token: Option<&Hidden>) -> Result<(), HttpError> {
    let Some(token) = token else {
        return Ok(());
    };
    let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
    let mut value = value.map_err(|_| HttpError::Malformed("its token is no header".to_owned()))?;
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
    Ok(())
}

fn uri(text: &str) -> Result<http::Uri, HttpError> {
    text.parse()
        .map_err(|_| HttpError::Malformed("its address is not one of HTTP".to_owned()))
}

/// An error with its causes.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    quoted(&text)
}
