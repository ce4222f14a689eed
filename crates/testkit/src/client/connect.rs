//! The ways a test client reaches an agent.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use super::AcpClient;
use super::transport::{Pipe, Transport};
use crate::home::Home;
use crate::program::{DEADLINE, Program};

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
