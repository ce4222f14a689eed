//! The other end of a pipe, played line by line by a test.

use client::{Client, ClientError, ClientSettings, Pipe, Transport};
use domain::{Limits, SessionId};
use serde_json::{Value, json};

/// A session id as our servers make them.
pub(crate) const SESSION: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn session() -> SessionId {
    SESSION.parse().unwrap()
}

pub(crate) fn settings() -> ClientSettings {
    ClientSettings {
        limits: Limits::default(),
        name: "test",
        version: "0",
    }
}

/// What the test does as the server.
pub(crate) struct Server {
    pipe: Pipe,
}

impl Server {
    /// Both ends, before any handshake.
    pub(crate) fn and_transport() -> (Self, Transport) {
        let (here, there) = Pipe::pair(4);
        (Self { pipe: there }, Transport::in_process(here))
    }

    /// The one who answers at this end.
    pub(crate) fn over(pipe: Pipe) -> Self {
        Self { pipe }
    }

    /// Both ends after the handshake.
    pub(crate) async fn and_client() -> (Self, Client) {
        let (mut server, transport) = Self::and_transport();
        let (client, ()) = tokio::join!(Client::connect(transport, settings()), async {
            let initialize = server.request("initialize").await;
            server
                .reply(&initialize, json!({"protocolVersion": 1}))
                .await;
        });
        (server, client.unwrap())
    }

    /// The next frame, which must be this request; its id comes back.
    pub(crate) async fn request(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method);
        message
    }

    pub(crate) async fn next(&mut self) -> Value {
        let frame = self.pipe.incoming.recv().await.expect("the client left");
        serde_json::from_str(&frame).unwrap()
    }

    /// Whether the client closed its end; whatever it sent before is dropped.
    pub(crate) async fn is_left(&mut self) -> bool {
        while self.pipe.incoming.recv().await.is_some() {}
        true
    }

    pub(crate) async fn reply(&self, request: &Value, result: Value) {
        self.message(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
    }

    pub(crate) async fn refuse(&self, request: &Value, error: Value) {
        self.message(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            .await;
    }

    pub(crate) async fn update(&self, update: Value) {
        let params = json!({"sessionId": SESSION, "update": update});
        self.message(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
            .await;
    }

    pub(crate) async fn say(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}))
            .await;
    }

    pub(crate) async fn message(&self, message: Value) {
        self.raw(&message.to_string()).await;
    }

    pub(crate) async fn raw(&self, frame: &str) {
        self.pipe.outgoing.send(frame.to_owned()).await.unwrap();
    }
}

/// The error with its cause, as a person would read it.
pub(crate) fn whole(error: &ClientError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
