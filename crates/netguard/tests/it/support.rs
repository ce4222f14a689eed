//! Resolvers, dialers and clocks that do as a story says.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use netguard::{BoxFuture, Dialer, JudgedAddr, OwnAddresses, Resolver, Stream};
use netguard::{Guard, GuardBuilder, Policy};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf};

/// An address that is public and stays so.
pub(crate) const PUBLIC: &str = "93.184.215.14";

/// A resolver that is a function of the name and of how often it was asked before.
pub(crate) struct Answers<F> {
    pub(crate) asked: Arc<AtomicUsize>,
    answer: F,
}

impl<F> Answers<F>
where
    F: Fn(&str, usize) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
{
    pub(crate) fn new(answer: F) -> Self {
        Self {
            asked: Arc::default(),
            answer,
        }
    }
}

impl<F> Resolver for Answers<F>
where
    F: Fn(&str, usize) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
{
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let count = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = (self.answer)(name, count);
        Box::pin(async move { answer })
    }
}

/// Answers every name with one public address.
pub(crate) fn public() -> impl Resolver {
    Answers::new(|_, _| Ok(ips(&[PUBLIC])))
}

pub(crate) fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A machine without addresses of its own.
pub(crate) struct NoOwn;

impl OwnAddresses for NoOwn {
    fn contains(&self, _: IpAddr) -> bool {
        false
    }
}

/// A guard on a machine without addresses, over these.
pub(crate) fn guard(policy: Policy, resolver: impl Resolver, dialer: impl Dialer) -> Guard {
    builder(policy, resolver, dialer).build().unwrap()
}

pub(crate) fn builder(
    policy: Policy,
    resolver: impl Resolver,
    dialer: impl Dialer,
) -> GuardBuilder {
    Guard::builder(policy)
        .resolver(resolver)
        .dialer(dialer)
        .own_addresses(NoOwn)
}

/// What a server does with the text of a request.
type Serve = dyn Fn(SocketAddr, &str) -> io::Result<String> + Send + Sync;

/// A dialer that reaches servers which exist only in memory, and writes down what it is asked.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) dialled: Arc<Mutex<Vec<SocketAddr>>>,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    serve: Arc<Serve>,
}

impl Servers {
    /// An error instead of an answer refuses the connection.
    pub(crate) fn new(
        serve: impl Fn(SocketAddr, &str) -> io::Result<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            dialled: Arc::default(),
            requests: Arc::default(),
            serve: Arc::new(serve),
        }
    }

    /// Servers that answer `body` with 200.
    pub(crate) fn saying(body: &'static str) -> Self {
        Self::new(move |_, _| Ok(ok(body)))
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.dialled.lock().unwrap().clone()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Dialer for Servers {
    fn dial(&self, address: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        let address = address.socket_addr();
        self.dialled.lock().unwrap().push(address);
        Box::pin(async move {
            (self.serve)(address, "")?;
            let line = Line {
                servers: self.clone(),
                address,
                request: Vec::new(),
                answer: None,
                reader: None,
            };
            Ok(Box::new(line) as Box<dyn Stream>)
        })
    }
}

/// A connection to such a server.
struct Line {
    servers: Servers,
    address: SocketAddr,
    request: Vec<u8>,
    answer: Option<io::Cursor<Vec<u8>>>,
    reader: Option<Waker>,
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.request.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(&self.request).into_owned();
        if self.answer.is_none() && is_complete(&text) {
            let answer = (self.servers.serve)(self.address, &text);
            self.servers.requests.lock().unwrap().push(text);
            self.answer = Some(io::Cursor::new(answer.unwrap_or_default().into_bytes()));
            self.reader.take().into_iter().for_each(Waker::wake);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.answer {
            Some(answer) => Pin::new(answer).poll_read(cx, buffer),
            None => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Whether head and body of a request are there.
fn is_complete(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}

/// A response with this body.
pub(crate) fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A redirect to there.
pub(crate) fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 6\r\n\r\nsecret")
}

/// A dialer whose connections end at a task of the story, in memory, so that time can be paused.
pub(crate) struct Pipes<F> {
    serve: F,
}

impl<F, T> Pipes<F>
where
    F: Fn(DuplexStream) -> T + Send + Sync + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    pub(crate) fn to(serve: F) -> Self {
        Self { serve }
    }
}

impl<F, T> Dialer for Pipes<F>
where
    F: Fn(DuplexStream) -> T + Send + Sync + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    fn dial(&self, _: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        let (near, far) = tokio::io::duplex(16 << 10);
        tokio::spawn((self.serve)(far));
        Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
    }
}

/// Reads the head of a request.
pub(crate) async fn head_of(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}
