//! The ways a test client reaches an agent.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use super::AcpClient;
use super::streamable::Streamable;
use super::transcript::Speaker;
use super::transport::{Pipe, Transport};
use crate::home::Home;
use crate::program::{DEADLINE, Program};
use crate::raw::HttpAnswer;

/// Why a WebSocket could not be opened.
#[derive(Debug)]
pub struct DialError {
    /// The HTTP status, if the server answered.
    pub status: Option<u16>,
    /// What happened.
    pub message: String,
}

impl AcpClient {
    /// Connects to a server over WebSocket with its default token, and initializes.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn connect_ws(server: &Program) -> Self {
        let mut client = match Self::dial_ws(&server.acp_url(), Some(server.token())).await {
            Ok(client) => client.in_directory(server.home().workspace()),
            Err(error) => panic!("no connection: {error:?}; it said:\n{}", server.stderr()),
        };
        client.initialize().await;
        client
    }

    /// Opens a WebSocket and says nothing yet.
    ///
    /// # Errors
    /// If the server refuses, with its status.
    pub async fn dial_ws(url: &str, token: Option<&str>) -> Result<Self, DialError> {
        let mut request = url.into_client_request().map_err(DialError::from)?;
        if let Some(token) = token {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|error| DialError::from(SocketError::from(error)))?;
            request.headers_mut().insert("authorization", bearer);
        }
        let opened = timeout(DEADLINE, tokio_tungstenite::connect_async(request)).await;
        let (socket, response) = opened.map_err(|_| DialError {
            status: None,
            message: "no answer in time".into(),
        })??;
        let named = response.headers().get("acp-connection-id");
        let mut client = Self::new(Transport::Socket(Box::new(socket)));
        client.connection_id = named.and_then(|id| Some(id.to_str().ok()?.to_owned()));
        Ok(client)
    }

    /// Connects to a server over Streamable HTTP with its default token, and initializes.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn connect_http(server: &Program) -> Self {
        let mut client = Self::dial_http(server, server.token());
        client.initialize().await;
        client
    }

    /// A client over Streamable HTTP that says nothing yet.
    #[must_use]
    pub fn dial_http(server: &Program, token: &str) -> Self {
        let url = format!("{}/acp", server.url());
        let http = Streamable::new(url, token.to_owned());
        Self::new(Transport::Http(Box::new(http))).in_directory(server.home().workspace())
    }

    /// From now on opens a session's stream over HTTP only once a message of it has come.
    ///
    /// # Panics
    /// If it does not speak Streamable HTTP.
    #[must_use]
    pub fn opening_streams_late(mut self) -> Self {
        self.http().is_late = true;
        self
    }

    /// Cuts the streams over HTTP, as a bad network does.
    ///
    /// # Panics
    /// If it does not speak Streamable HTTP.
    pub fn cut_streams(&mut self) {
        self.http().cut();
    }

    /// Takes up the streams over HTTP after the last event that came.
    ///
    /// # Panics
    /// If it does not speak Streamable HTTP, or the server refuses.
    pub async fn take_up_streams(&mut self) {
        self.http().take_up().await;
    }

    /// Posts any text as one message; gives the answer to the request itself, whatever it is.
    ///
    /// # Panics
    /// If it does not speak Streamable HTTP, or there is no answer.
    pub async fn post(&mut self, text: &str) -> HttpAnswer {
        self.transcript.add(Speaker::Client, text);
        self.expect_answer(text);
        match self.http().post(text).await {
            Some(answer) => answer,
            None => self.fail("the POST was not answered"),
        }
    }

    /// The connection's id over HTTP.
    ///
    /// # Panics
    /// If it does not speak Streamable HTTP, or not yet.
    pub fn http_connection(&mut self) -> String {
        match &self.http().connection {
            Some(connection) => connection.clone(),
            None => panic!("it is not initialized"),
        }
    }

    fn http(&mut self) -> &mut Streamable {
        match &mut self.transport {
            Transport::Http(http) => http,
            Transport::Socket(_) | Transport::Pipe(_) => panic!("it does not speak HTTP"),
        }
    }

    /// Starts `fastness acp` in `home` and initializes.
    ///
    /// # Panics
    /// If it does not start or refuses.
    pub async fn spawn_stdio(home: &Home) -> Self {
        let mut client = Self::spawn(home, "acp", &[]);
        client.initialize().await;
        client
    }

    /// Starts `fastness COMMAND ARGUMENTS…` in `home` and says nothing yet.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn spawn(home: &Home, command: &str, arguments: &[&str]) -> Self {
        let mut command = home.command(command);
        let mut process = command
            .args(arguments)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", home.binary().display()));
        let streams = (
            process.stdin.take(),
            process.stdout.take(),
            process.stderr.take(),
        );
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            panic!("the agent's streams are piped");
        };
        let pipe = Pipe::new(stdout, stdin, Some(process));
        let client = Self::new(Transport::Pipe(Box::new(pipe))).in_directory(home.workspace());
        client.stderr.keep(stderr);
        client
    }

    /// Speaks through any pair of streams, one message per line.
    #[must_use]
    pub fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::new(Transport::Pipe(Box::new(Pipe::new(reader, writer, None))))
    }
}

impl From<SocketError> for DialError {
    fn from(error: SocketError) -> Self {
        let status = if let SocketError::Http(response) = &error {
            Some(response.status().as_u16())
        } else {
            None
        };
        Self {
            status,
            message: error.to_string(),
        }
    }
}
