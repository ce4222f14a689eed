//! Where an authorization server sends the person's browser when it is done: a listener on this machine.
//!
//! Anybody on the machine, and any page that the person looks at, can reach it. So only an answer
//! that knows the secret of this login counts; everything else is turned away and changes nothing.

use std::net::Ipv4Addr;
use std::time::Duration;

use domain::limits::{MCP_LOGIN_VISIT_BYTES_MAX, MCP_LOGIN_VISITORS_MAX, MCP_LOGIN_WAIT};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::LoginError;

/// How long one visitor may take to say what it wants.
const VISIT_WAIT: Duration = Duration::from_secs(5);

const PATH: &str = "/callback";

/// A listener that waits for one answer.
#[derive(Debug)]
pub(crate) struct Redirect {
    listener: TcpListener,
    port: u16,
}

/// What the person's browser brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Callback {
    pub(crate) code: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) description: Option<String>,
}

impl Redirect {
    /// Listens on this machine, at `port` if one was set.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) async fn open(port: Option<u16>) -> Result<Self, LoginError> {
        let place = (Ipv4Addr::LOCALHOST, port.unwrap_or(0));
        let failed = |error| LoginError::Failed(format!("nobody can come back here: {error}"));
        let listener = TcpListener::bind(place).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address that people are sent back to.
    pub(crate) fn uri(&self) -> String {
        format!("http://{}:{}{PATH}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// Waits for the answer that knows `state`.
    ///
    /// # Errors
    /// If none comes in time.
    pub(crate) async fn answer(&self, state: &str) -> Result<Callback, LoginError> {
        let waiting = self.wait(state);
        timeout(MCP_LOGIN_WAIT, waiting)
            .await
            .unwrap_or(Err(LoginError::TooSlow))
    }

    async fn wait(&self, state: &str) -> Result<Callback, LoginError> {
        let mut visits = JoinSet::new();
        loop {
            // Browsers open connections that they do not use, so no visitor waits for another.
            tokio::select! {
                visitor = self.listener.accept(), if visits.len() < MCP_LOGIN_VISITORS_MAX => {
                    if let Ok((stream, _)) = visitor {
                        let state = state.to_owned();
                        visits.spawn(async move {
                            timeout(VISIT_WAIT, visit(stream, &state)).await.ok().flatten()
                        });
                    }
                }
                Some(visited) = visits.join_next() => {
                    if let Ok(Some(callback)) = visited {
                        return Ok(callback);
                    }
                }
            }
        }
    }
}

/// Hears a visitor out and sends it away, with an answer if it brought one.
async fn visit(mut stream: TcpStream, state: &str) -> Option<Callback> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read_buf(&mut head).await.ok()?;
        if read == 0 || head.len() > MCP_LOGIN_VISIT_BYTES_MAX {
            return None;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let callback = read(line, state);
    let (status, text) = match &callback {
        Some(_) => (
            "200 OK",
            "Fastness has heard from you. You may close this page.",
        ),
        None => ("404 Not Found", "There is nothing here."),
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}"
    );
    // Whether the page is shown changes nothing.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    callback
}

/// The answer in a request line, if it knows `state`.
fn read(line: &[u8], state: &str) -> Option<Callback> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.strip_prefix("GET ")?.split(' ');
    let query = words.next()?.strip_prefix(PATH)?.strip_prefix('?')?;
    let (mut callback, mut is_known) = (Callback::default(), false);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let slot = match &*name {
            "state" => {
                is_known = value.as_bytes().ct_eq(state.as_bytes()).into();
                continue;
            }
            "code" => &mut callback.code,
            "iss" => &mut callback.issuer,
            "error" => &mut callback.error,
            "error_description" => &mut callback.description,
            _ => continue,
        };
        *slot = Some(value.into_owned());
    }
    is_known.then_some(callback)
}

#[cfg(test)]
mod tests {
    use super::{Callback, read};

    #[test]
    fn only_an_answer_that_knows_the_state_counts() {
        let code = Some("c 1".to_owned());
        let good = Callback {
            code,
            ..Callback::default()
        };
        let line = b"GET /callback?code=c+1&state=s HTTP/1.1";
        assert_eq!(read(line, "s"), Some(good));
        for bad in [
            "GET /callback?code=c&state=t HTTP/1.1",
            "GET /callback?code=c HTTP/1.1",
            "GET /callback HTTP/1.1",
            "GET /other?code=c&state=s HTTP/1.1",
            "POST /callback?code=c&state=s HTTP/1.1",
            "",
        ] {
            assert_eq!(read(bad.as_bytes(), "s"), None, "{bad}");
        }
    }
}
