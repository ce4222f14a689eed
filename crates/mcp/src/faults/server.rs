//! What the misbehaving servers have in common: the protocol, and HTTP by hand.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The answer of a server of an older era to `message`, but for calls of tools.
pub(crate) fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }),
        "tools/list" => json!({"tools": [tool("echo"), tool("hang")]}),
        "tools/call" => return None,
        method => {
            let message = format!("there is no {method}");
            let error = json!({"code": -32601, "message": message});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

pub(crate) fn result(id: &Value, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}})
}

/// The tool that a message calls.
pub(crate) fn called(message: &Value) -> Option<&str> {
    (message["method"] == "tools/call").then_some(message["params"]["name"].as_str()?)
}

/// One HTTP request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) session: Option<String>,
}

/// One connection of a client.
pub(crate) struct Connection {
    pub(crate) reader: BufReader<OwnedReadHalf>,
    pub(crate) writer: OwnedWriteHalf,
}

impl Connection {
    /// The next request, or none if the client has gone.
    pub(crate) async fn request(&mut self) -> Option<Request> {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.ok()?;
        let mut words = line.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut length, mut session) = (0, None);
        loop {
            let mut header = String::new();
            self.reader.read_line(&mut header).await.ok()?;
            let header = header.trim_end();
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(": ")?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).await.ok()?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Some(Request {
            method,
            path,
            body,
            session,
        })
    }

    pub(crate) async fn respond(&mut self, status: &str, kind: &str, body: &str) {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nmcp-session-id: one\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.send(&head).await;
        self.send(body).await;
    }

    /// The head of a stream of events that lasts as long as the connection.
    pub(crate) async fn begin_events(&mut self) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        self.send(head).await;
    }

    pub(crate) async fn event(&mut self, kind: &str, data: &str) {
        self.send(&format!("event: {kind}\ndata: {data}\n\n")).await;
    }

    pub(crate) async fn send(&mut self, text: &str) {
        // A client may leave when it likes.
        let _ = self.writer.write_all(text.as_bytes()).await;
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        let stream = self.reader.into_inner().reunite(self.writer).unwrap();
        #[expect(deprecated, reason = "it does not wait: nothing is left to send")]
        stream.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
}

/// Listens, and has each connection served by `serve` in a task of its own; gives the address.
pub(crate) async fn listen<S, F>(serve: S) -> String
where
    S: Fn(Connection) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(connection(stream)));
        }
    });
    format!("http://{address}")
}

fn connection(stream: TcpStream) -> Connection {
    let (reader, writer) = stream.into_split();
    Connection {
        reader: BufReader::new(reader),
        writer,
    }
}
