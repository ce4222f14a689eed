//! One request and its response over one connection, driven in the task of whoever waits: dropping
//! the future leaves nothing behind.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Body as _;
use hyper::body::Incoming as HyperBody;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use url::Url;

use crate::answer::{End, Response};
use crate::body::{self, Decoder, Room};
use crate::connect::Connection;
use crate::error::{FetchError, Phase};
use crate::limits::Limits;
use crate::target::Target;

/// Read at once; a buffer that grows by need would be small for most of a short connection.
const READ_BYTES: usize = 64 << 10;

type HyperConnection = http1::Connection<TokioIo<Connection>, Full<Bytes>>;

/// A request as one hop sends it.
pub(crate) struct Outgoing<'a> {
    pub(crate) target: &'a Target,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    pub(crate) user_agent: &'a HeaderValue,
}

/// A response whose head has come. Its body is read by [`finish`](Self::finish), or never.
pub(crate) struct Incoming {
    response: http::Response<HyperBody>,
    driver: Driver,
}

/// Sends a request and waits for the head of the response.
///
/// # Errors
/// If the head does not come, is too large, or is not HTTP.
pub(crate) async fn start(
    connection: Connection,
    outgoing: Outgoing<'_>,
    limits: &Limits,
) -> Result<Incoming, FetchError> {
    let is_to_proxy = connection.names_whole_url();
    let has_proxy_login = connection.proxy_authorization().is_some();
    let request = request(&outgoing, &connection)?;
    let mut builder = http1::Builder::new();
    builder
        .max_headers(limits.head_fields_max)
        .max_header_size(limits.head_bytes_max)
        .read_buf_exact_size(Some(limits.head_bytes_max.max(READ_BYTES)));
    let handshake = builder.handshake(TokioIo::new(connection)).await;
    let (mut sender, connection) = handshake.map_err(failed)?;
    let mut driver = Driver {
        connection: Some(Box::pin(connection)),
    };
    let limit = limits.idle;
    let head = timeout(limit, driver.beside(sender.send_request(request))).await;
    let phase = Phase::Head;
    let response = head
        .map_err(|_| FetchError::Timeout { phase, limit })?
        .map_err(failed)?;
    if is_to_proxy && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        let is_sent = has_proxy_login;
        return Err(FetchError::ProxyLogin { is_sent });
    }
    Ok(Incoming { response, driver })
}

impl Incoming {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the body up to the limit.
    ///
    /// # Errors
    /// If it stalls, breaks off, or is encoded in a way that is not supported.
    pub(crate) async fn finish(
        self,
        url: Url,
        redirects: Vec<Url>,
        limits: &Limits,
    ) -> Result<Response, FetchError> {
        let (head, mut body) = self.response.into_parts();
        let mut driver = self.driver;
        let encoding = body::encoding(&head.headers)?;
        let announced = body.size_hint().exact();
        let mut decoder = Decoder::new(encoding, announced, limits.body_bytes_max);
        let limit = limits.idle;
        let end = loop {
            let frame = timeout(limit, driver.beside(body.frame())).await;
            let phase = Phase::Body;
            let frame = frame.map_err(|_| FetchError::Timeout { phase, limit })?;
            let received_bytes = decoder.len();
            let broken = || FetchError::BrokenBody { received_bytes };
            let Some(frame) = frame else {
                break decoder.finish().map_err(|_| broken())?;
            };
            let Ok(piece) = frame.map_err(|_| broken())?.into_data() else {
                continue;
            };
            match decoder.push(&piece).map_err(|_| broken())? {
                Room::Left => {}
                Room::None => break End::CutAtLimit,
            }
        };
        Ok(Response {
            status: head.status,
            url,
            headers: head.headers,
            body: decoder.into_bytes(),
            end,
            redirects,
        })
    }
}

/// The connection's side of the work, done while somebody waits for the other side.
struct Driver {
    connection: Option<Pin<Box<HyperConnection>>>,
}

impl Driver {
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Some(connection) = &mut self.connection {
                match connection.as_mut().poll(cx) {
                    // Its error reaches the work by itself.
                    Poll::Ready(_) => self.connection = None,
                    Poll::Pending => {}
                }
            }
            work.as_mut().poll(cx)
        })
        .await
    }
}

fn request(
    outgoing: &Outgoing<'_>,
    connection: &Connection,
) -> Result<http::Request<Full<Bytes>>, FetchError> {
    let target = outgoing.target;
    let uri = if connection.names_whole_url() {
        target.url().as_str()
    } else {
        target.path_and_query()
    };
    let mut request = http::Request::builder()
        .method(outgoing.method)
        .uri(uri)
        .header(header::HOST, target.authority())
        .body(Full::new(outgoing.body.clone()))
        .map_err(|error| FetchError::Response(error.into()))?;
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, outgoing.user_agent.clone());
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    let encodings = HeaderValue::from_static(body::ACCEPTED);
    headers.insert(header::ACCEPT_ENCODING, encodings);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if let Some(authorization) = connection.proxy_authorization() {
        headers.insert(header::PROXY_AUTHORIZATION, authorization.clone());
    }
    for name in outgoing.headers.keys() {
        headers.remove(name);
        for value in outgoing.headers.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    Ok(request)
}

fn failed(error: hyper::Error) -> FetchError {
    if error.is_parse_too_large() {
        FetchError::HeadTooLarge
    } else {
        FetchError::Response(error.into())
    }
}
