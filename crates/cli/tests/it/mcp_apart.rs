//! Two sessions whose clients name the same tool server with keys of their own: what one has, the other has not.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Program};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::mcp::home_with;

/// A server over HTTP that gives whoever comes one tool, named after the key they came with, which says that
/// key.
pub(crate) async fn keyed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    format!("http://{address}/mcp")
}

async fn serve(socket: TcpStream) -> Option<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let (mut first, mut length, mut key) = (String::new(), 0, "nobody".to_owned());
        socket.read_line(&mut first).await.ok().filter(|n| *n > 0)?;
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "x-key" => value.trim().clone_into(&mut key),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.ok()?;
        let answer = match first.starts_with("POST") {
            true => answer(&serde_json::from_slice(&body).ok()?, &key),
            false => None,
        };
        let (status, body) = match answer {
            Some(answer) => ("200 OK", answer.to_string()),
            None if first.starts_with("GET") => ("405 Method Not Allowed", String::new()),
            None => ("202 Accepted", String::new()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let written = socket.write_all((head + &body).as_bytes()).await;
        written.ok()?;
    }
}

/// What is answered to somebody with this key; nothing to what is only told.
fn answer(asked: &Value, key: &str) -> Option<Value> {
    let id = asked.get("id")?;
    let result = match asked["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "keyed", "version": "1"}}),
        "tools/list" => {
            json!({"tools": [{"name": format!("who_{key}"), "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": format!("you are {key}")}]}),
        _ => {
            let unknown = json!({"code": -32601, "message": "unknown"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": unknown}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

#[tokio::test]
async fn sessions_that_name_one_server_with_keys_of_their_own_share_neither_keys_nor_tools() {
    let url = keyed().await;
    let mut script = Script::new();
    for key in ["one", "two"] {
        script = script
            .call([tool(&format!("mcp__far__who_{key}"), json!({}))])
            .call([say("${result}")]);
    }
    let server = Program::serve_in(home_with(script)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let mut sessions = Vec::new();
    for key in ["one", "two"] {
        let far = json!({"type": "http", "name": "far", "url": url,
            "headers": [{"name": "X-Key", "value": key}]});
        let params = json!({"cwd": server.home().workspace(), "mcpServers": [far]});
        let made = client.call("session/new", params).await.unwrap();
        sessions.push(made["sessionId"].as_str().unwrap().to_owned());
    }
    let [one, two] = &sessions[..] else {
        unreachable!("two were made")
    };
    assert_eq!(client.prompt(one, "go").await.text, "you are one");
    let foreign = client.prompt(two, "go").await.text;
    assert!(foreign.contains("There is no tool"), "{foreign}");
    let foreign = client.prompt(one, "go on").await.text;
    assert!(foreign.contains("There is no tool"), "{foreign}");
    assert_eq!(client.prompt(two, "go on").await.text, "you are two");
    let log = server.stderr();
    assert!(!log.contains("X-Key") && !log.contains("x-key"), "{log}");
}
