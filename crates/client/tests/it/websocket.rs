//! The WebSocket transport against small local servers.

use std::time::Duration;

use client::{Client, ClientError, Transport, TransportError};
use domain::Limits;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use crate::server::{SESSION, session, settings, whole};

#[tokio::test]
async fn a_client_connects_with_its_token_and_says_goodbye() {
    let (listener, url) = listen().await;
    let limits = Limits::default();
    let talk = async {
        let transport = Transport::open(&url, Some("secret"), &limits).await?;
        let client = Client::connect(transport, settings()).await.unwrap();
        let attached = client
            .new_session(std::path::Path::new("/w"))
            .await
            .unwrap();
        assert_eq!(attached.session, session());
        client.close().await;
        Ok::<_, TransportError>(())
    };
    let serve = async {
        let mut socket = accept(&listener, |request| {
            assert_eq!(request.uri().path(), "/acp");
            assert_eq!(request.headers()["authorization"], "Bearer secret");
        })
        .await;
        answer(&mut socket, json!({"protocolVersion": 1})).await;
        // Pings and binary frames mean life, not messages.
        socket.send(Message::Ping("x".into())).await.unwrap();
        socket.send(Message::binary("{}".as_bytes())).await.unwrap();
        answer(&mut socket, json!({"sessionId": SESSION})).await;
        let mut ponged = false;
        while let Some(Ok(message)) = socket.next().await {
            ponged |= message.is_pong();
            if message.is_close() {
                return ponged;
            }
        }
        false
    };
    let (talked, said_goodbye) = tokio::join!(talk, serve);
    talked.unwrap();
    assert!(said_goodbye);
}

#[tokio::test]
async fn b_03_a_close_code_is_part_of_the_error() {
    let (listener, url) = listen().await;
    let limits = Limits::default();
    let talk = async {
        let transport = Transport::open(&url, None, &limits).await.unwrap();
        let client = Client::connect(transport, settings()).await.unwrap();
        let mut stream = client.prompt(session(), "hello").await.unwrap();
        stream.next().await.unwrap().unwrap_err()
    };
    let serve = async {
        let mut socket = accept(&listener, |_| {}).await;
        answer(&mut socket, json!({"protocolVersion": 1})).await;
        socket.next().await.unwrap().unwrap();
        let frame = CloseFrame {
            code: CloseCode::Away,
            reason: "draining".into(),
        };
        socket.close(Some(frame)).await.unwrap();
        socket
    };
    let (error, _socket) = tokio::join!(talk, serve);
    assert!(whole(&error).contains("lost during session/prompt"));
    assert!(whole(&error).ends_with("the server closed the connection (code 1001: draining)"));
}

#[tokio::test]
async fn a_client_that_waits_sends_pings() {
    let (listener, url) = listen().await;
    let limits = Limits {
        ping: Duration::from_millis(5),
        ..Limits::default()
    };
    let talk = async {
        let transport = Transport::open(&url, None, &limits).await.unwrap();
        let client = Client::connect(transport, settings()).await.unwrap();
        let mut stream = client.prompt(session(), "hello").await.unwrap();
        stream.next().await.unwrap().unwrap_err()
    };
    let serve = async {
        let mut socket = accept(&listener, |_| {}).await;
        answer(&mut socket, json!({"protocolVersion": 1})).await;
        let mut pings = 0;
        while pings < 3 {
            pings += usize::from(socket.next().await.unwrap().unwrap().is_ping());
        }
    };
    let (error, ()) = tokio::join!(talk, serve);
    assert!(whole(&error).contains("lost during session/prompt"));
}

#[tokio::test]
async fn connecting_fails_clearly() {
    let limits = Limits {
        client_connect: Duration::from_millis(50),
        ..Limits::default()
    };
    for (answer, expected) in [
        (
            "HTTP/1.1 401 Unauthorized\r\n\r\n",
            "did not accept the token",
        ),
        ("HTTP/1.1 503 Busy\r\n\r\n", "with HTTP status 503"),
        ("", "did not answer within 0.05 s"),
    ] {
        let (listener, url) = listen().await;
        let (outcome, _stream) = tokio::join!(Transport::open(&url, None, &limits), async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        });
        let error = ClientError::Connect(outcome.err().unwrap());
        assert!(whole(&error).contains(expected), "{}", whole(&error));
        assert!(whole(&error).contains(&url.replace("http", "ws")));
    }
    let (listener, url) = listen().await;
    drop(listener);
    let refused = Transport::open(&url, None, &limits).await.err().unwrap();
    assert!(matches!(refused, TransportError::Unreachable { .. }));
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[expect(clippy::result_large_err, reason = "the library's callback type")]
async fn accept(listener: &TcpListener, check: fn(&Request)) -> WebSocketStream<TcpStream> {
    let (stream, _) = listener.accept().await.unwrap();
    let checked = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        check(request);
        Ok(response)
    };
    accept_hdr_async(stream, checked).await.unwrap()
}

/// Answers the next request with `result`.
async fn answer(socket: &mut WebSocketStream<TcpStream>, result: Value) {
    loop {
        let message = socket.next().await.unwrap().unwrap();
        if let Message::Text(text) = message {
            let request: Value = serde_json::from_str(&text).unwrap();
            let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            socket.send(Message::text(reply.to_string())).await.unwrap();
            return;
        }
    }
}
