//! HTTP/2 by prior knowledge: the same door as HTTP/1.1, and floods that only HTTP/2 knows.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use testkit::raw::{address, connect};
use testkit::{AcpClient, Program};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{echo, serve, serve_with};

/// A client of HTTP/2 on a stream that speaks it.
pub(crate) async fn connect_over<S>(stream: S) -> SendRequest<Bytes>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// The status of one request without a body; its answer is protected as any other is.
pub(crate) async fn status(
    client: &mut SendRequest<Bytes>,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
) -> u16 {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    let (answer, _) = client.send_request(request, true).unwrap();
    let answer = timeout(testkit::program::DEADLINE, answer).await.unwrap();
    let answer = answer.unwrap();
    // The library itself refuses headers that are too long.
    if answer.status() != 431 {
        let headers = answer.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
        assert!(headers.contains_key("cache-control"));
        assert!(answer.status() != 405 || headers.contains_key("allow"));
    }
    answer.status().as_u16()
}

async fn h2c(server: &Program) -> SendRequest<Bytes> {
    connect_over(connect(server).await).await
}

#[tokio::test]
async fn http_2_reaches_the_same_routes_through_the_same_door() {
    let server = serve(echo()).await;
    let mut client = h2c(&server).await;
    let url = |path: &str| format!("{}{path}", server.url());
    let bearer = format!("Bearer {}", server.token());
    let token = [("authorization", bearer.as_str())];
    assert_eq!(status(&mut client, "GET", &url("/health"), &[]).await, 200);
    assert_eq!(status(&mut client, "GET", &url("/acp"), &[]).await, 401);
    assert_eq!(status(&mut client, "POST", &url("/acp"), &[]).await, 401);
    assert_eq!(status(&mut client, "GET", &url("/no"), &token).await, 404);
    let origin = [token[0], ("origin", "http://evil.example")];
    assert_eq!(status(&mut client, "GET", &url("/no"), &origin).await, 403);
}

#[tokio::test]
async fn a_foreign_authority_is_refused_on_http_2_as_well() {
    let server = serve(echo()).await;
    let mut client = h2c(&server).await;
    let bearer = format!("Bearer {}", server.token());
    let token = ("authorization", bearer.as_str());
    let (_, port) = address(&server).rsplit_once(':').unwrap();
    for method in ["GET", "POST", "DELETE", "OPTIONS"] {
        for authority in [
            "evil.example",
            "127.0.0.1:1",
            &format!("evil.example:{port}"),
        ] {
            let url = format!("http://{authority}/acp");
            let refused = status(&mut client, method, &url, &[token]).await;
            assert_eq!(refused, 403, "host-12 {method} {authority}");
        }
        // Two names that disagree: one of them lies.
        let url = format!("{}/acp", server.url());
        let host = ("host", "evil.example");
        let refused = status(&mut client, method, &url, &[token, host]).await;
        assert_eq!(refused, 403, "host-13 {method}");
    }
}

#[tokio::test]
async fn headers_that_are_too_long_get_431_on_http_2_as_well() {
    let server = serve(echo()).await;
    let mut client = h2c(&server).await;
    let long = "y".repeat(40_000);
    let url = format!("{}/health", server.url());
    let refused = status(&mut client, "GET", &url, &[("x", &long)]).await;
    assert_eq!(refused, 431);
    assert_eq!(status(&mut client, "GET", &url, &[]).await, 200);
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_KEEP_ALIVE_MS", "300")]).await;
    let stream = connect(&server).await;
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let ended = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let url = format!("{}/health", server.url());
    assert_eq!(status(&mut client, "GET", &url, &[]).await, 200);
    // Its end is what is waited for; how it ends does not matter.
    let _ = timeout(testkit::program::DEADLINE, ended).await.unwrap();
}

/// One HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ENHANCE_YOUR_CALM: u32 = 11;

/// `GET / HTTP/2` to this authority, compressed by the static table alone.
fn head(authority: &str) -> Vec<u8> {
    let mut head = vec![0x82, 0x86, 0x84, 0x41];
    head.push(u8::try_from(authority.len()).unwrap());
    head.extend(authority.as_bytes());
    head
}

/// Sends the frames that `make` gives for each stream, as fast as they are taken, and gives the
/// reason with which the server ended the connection.
async fn flood(server: &Program, make: impl Fn(u32) -> Vec<u8>) -> Option<u32> {
    let mut stream: TcpStream = connect(server).await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let sending = async {
        for number in 0..50_000 {
            // The server may have closed, as it should.
            if writer.write_all(&make(2 * number + 1)).await.is_err() {
                break;
            }
        }
        // Held open, so that the end is the server's doing.
        writer
    };
    let hearing = async {
        loop {
            let mut header = [0; 9];
            reader.read_exact(&mut header).await.ok()?;
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let mut payload = vec![0; length as usize];
            reader.read_exact(&mut payload).await.ok()?;
            if header[3] == GOAWAY {
                return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
    };
    let both = async {
        let mut sending = std::pin::pin!(sending);
        let mut hearing = std::pin::pin!(hearing);
        let mut held = None;
        loop {
            tokio::select! {
                reason = &mut hearing => return reason,
                writer = &mut sending, if held.is_none() => held = Some(writer),
            }
        }
    };
    timeout(Duration::from_secs(60), both).await.unwrap()
}

/// Floods the server and looks at what it costs others.
async fn survives(make: impl Fn(&str, u32) -> Vec<u8>) {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let before = server.resident_bytes();
    let authority = address(&server).to_owned();
    let reason = flood(&server, |stream| make(&authority, stream)).await;
    assert_eq!(reason, Some(ENHANCE_YOUR_CALM));
    let grown = server.resident_bytes_peak().saturating_sub(before);
    assert!(grown < 32 * 1024 * 1024, "{grown}");
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn rapid_resets_end_the_connection_and_cost_others_nothing() {
    survives(|authority, stream| {
        let flags = END_STREAM | END_HEADERS;
        let mut frames = frame(HEADERS, flags, stream, &head(authority));
        frames.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        frames
    })
    .await;
}

#[tokio::test]
async fn headers_without_end_end_the_connection_and_cost_others_nothing() {
    survives(|authority, stream| {
        if stream == 1 {
            frame(HEADERS, END_STREAM, 1, &head(authority))
        } else {
            // A literal header that is never stored, again and again.
            frame(CONTINUATION, 0, 1, &b"\0\x01x\x01y".repeat(100))
        }
    })
    .await;
}

#[tokio::test]
async fn resets_that_the_server_is_tricked_into_end_the_connection() {
    survives(|authority, stream| {
        let mut frames = frame(HEADERS, END_HEADERS, stream, &head(authority));
        // A window that grows too large is an error, which the server answers with a reset.
        frames.extend(frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]));
        frames
    })
    .await;
}
