//! The listening side under stress: no descriptors left, stalled readers, and leaving.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, pidfd_getfd, pidfd_open, prlimit,
};
use testkit::raw::{address, authorized, connect, ended, read_answer, request};
use testkit::{AcpClient, Home, Program};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::identity::token;
use crate::support::{binary, echo, serve, serve_with};

/// Processor time that a process has used so far.
fn cpu_time(server: &Program) -> Duration {
    let path = format!("/proc/{}/stat", server.pid().unwrap());
    let stat = std::fs::read_to_string(path).unwrap();
    // The fields after the name, which may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split(' ').collect();
    let ticks: u64 = fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn set_descriptors(server: &Program, most: u64) {
    let pid = Pid::from_raw(server.pid().unwrap().cast_signed());
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(4_096),
    };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

#[tokio::test]
async fn f_20_a_flood_of_sockets_stops_no_session_and_passes() {
    let home = Home::new(binary(), echo()).under(&["prlimit", "--nofile=64"]);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let mut flood = Vec::new();
    for _ in 0..500 {
        flood.push(connect(&server).await);
    }
    // Sessions need files for what they store; the flood has left some.
    for n in 0..5 {
        let answer = client.prompt(&session, &n.to_string()).await;
        assert_eq!(answer.text, format!("you said {n}"));
    }
    client.new_session().await;
    drop(flood);
    let mut late = AcpClient::connect_ws(&server).await;
    late.load_session(&session).await.unwrap();
}

#[tokio::test]
async fn f_20_without_descriptors_accepting_rests_and_recovers() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "before").await;
    let room = 20;
    set_descriptors(&server, u64::try_from(server.open_files()).unwrap() + room);
    let mut flood: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        flood.push(connect(&server).await);
    }
    testkit::wait_for("the shortage is told", || {
        server.stderr().contains("could not be accepted")
    })
    .await;
    let before = cpu_time(&server);
    let period = Duration::from_secs(2);
    // The time itself is what is measured over.
    tokio::time::sleep(period).await;
    let used = cpu_time(&server) - before;
    assert!(used < period / 5, "{used:?}");
    let complaints = server.stderr().matches("could not be accepted").count();
    assert!(complaints <= 2, "{complaints}");
    drop(flood.drain(..90));
    assert_eq!(client.prompt(&session, "now").await.text, "you said now");
    let mut late = AcpClient::connect_ws(&server).await;
    late.load_session(&session).await.unwrap();
}

#[tokio::test]
async fn exhausted_descriptors_are_named_and_the_session_goes_on() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "before").await;
    // No file can be opened; those that are open stay.
    set_descriptors(&server, 3);
    let long = "x".repeat(2 * domain::limits::BLOB_BYTES_MIN);
    let blocks = serde_json::json!([{"type": "text", "text": long}]);
    let params = serde_json::json!({"sessionId": session, "prompt": blocks});
    let refused = client.call("session/prompt", params).await.unwrap_err();
    assert_eq!(refused.data["kind"], "open_files_exhausted", "{refused}");
    assert!(refused.message.contains("too many files"), "{refused}");
    let new = serde_json::json!({"cwd": server.home().workspace(), "mcpServers": []});
    let refused = client.call("session/new", new).await.unwrap_err();
    assert_eq!(refused.data["kind"], "open_files_exhausted", "{refused}");
    set_descriptors(&server, 1_024);
    let answer = client.prompt(&session, "after").await;
    assert_eq!(answer.text, "you said after");
    let mut late = AcpClient::connect_ws(&server).await;
    late.load_session(&session).await.unwrap();
}

/// The server's own end of a connection, by the address of the other.
fn accepted_socket(server: &Program, client: SocketAddr) -> Option<OwnedFd> {
    let pid = server.pid().unwrap();
    let process = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).unwrap();
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let numbers = files.filter_map(|file| file.unwrap().file_name().to_str()?.parse().ok());
    let mut sockets =
        numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
    sockets.find(|socket| {
        let peer = rustix::net::getpeername(socket).ok().flatten();
        peer.is_some_and(|peer| SocketAddr::try_from(peer) == Ok(client))
    })
}

#[tokio::test]
async fn no_answer_waits_for_the_clients_acknowledgement() {
    let server = serve(echo()).await;
    let client = connect(&server).await;
    let address = client.local_addr().unwrap();
    testkit::wait_for("the socket sends at once", || {
        accepted_socket(&server, address)
            .is_some_and(|socket| rustix::net::sockopt::tcp_nodelay(socket) == Ok(true))
    })
    .await;
}

#[tokio::test]
async fn a_named_token_cannot_take_all_the_room() {
    let settings = [("FASTNESS_LIMITS_CONNECTIONS_PER_TOKEN_MAX", "2")];
    let server = serve_with(echo(), &settings).await;
    let guest = token(server.home(), &["guest"]).await;
    let other = token(server.home(), &["other"]).await;
    let dial = async |token: &str| AcpClient::dial_ws(&server.acp_url(), Some(token)).await;
    let first = dial(&guest).await.unwrap();
    let _second = dial(&guest).await.unwrap();
    let refused = dial(&guest).await.err();
    assert_eq!(refused.and_then(|error| error.status), Some(503));
    let answer = request(
        &server,
        format!(
            "GET /acp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {guest}\r\n{}\r\n",
            address(&server),
            testkit::raw::UPGRADE
        ),
    )
    .await;
    assert!(answer.body.contains("\"overloaded\""), "{answer}");
    dial(&other).await.unwrap().initialize().await;
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(dial(server.token()).await.unwrap());
    }
    first.leave().await;
    let deadline = tokio::time::Instant::now() + testkit::program::DEADLINE;
    while dial(&guest).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "no room was made");
    }
}

#[tokio::test]
async fn late_headers_are_answered_with_408() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_HANDSHAKE_MS", "300")]).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /acp HTTP/1.1\r\nho").await.unwrap();
    let answer = read_answer(&mut stream).await.unwrap();
    assert_eq!(answer.status, 408);
    assert!(answer.body.contains("\"request_timeout\""), "{answer}");
    ended(&mut stream).await;

    // Also on a connection that was of use before.
    let mut stream = connect(&server).await;
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(&server));
    stream.write_all(health.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut stream).await.unwrap().status, 200);
    stream.write_all(b"GET").await.unwrap();
    assert_eq!(read_answer(&mut stream).await.unwrap().status, 408);
    ended(&mut stream).await;
}

#[tokio::test]
async fn a_kept_connection_outlives_the_time_for_headers() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_HANDSHAKE_MS", "300")]).await;
    let mut stream = connect(&server).await;
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(&server));
    for _ in 0..3 {
        stream.write_all(health.as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream).await.unwrap().status, 200);
        // Longer than the time for headers: nothing may happen meanwhile.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn kept_connections_do_not_hold_the_server_back_when_it_leaves() {
    let mut server = serve(echo()).await;
    let mut kept = Vec::new();
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(&server));
    for _ in 0..5 {
        let mut stream = connect(&server).await;
        stream.write_all(health.as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream).await.unwrap().status, 200);
        kept.push(stream);
    }
    // Also those that have said nothing yet, or only half of something.
    let silent = connect(&server).await;
    let mut halfway = connect(&server).await;
    halfway.write_all(b"GET /acp HT").await.unwrap();
    let mut http2 = connect(&server).await;
    http2
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let asked = tokio::time::Instant::now();
    assert_eq!(server.terminate().await.code(), Some(0));
    let took = asked.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    for mut stream in kept.into_iter().chain([silent, halfway, http2]) {
        ended(&mut stream).await;
    }
}

#[tokio::test]
async fn a_reader_that_stops_in_the_middle_of_an_answer_is_dropped() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_STALL_MS", "500")]).await;
    let text = "x".repeat(1_900_000);
    let body = format!("{{\"text\":\"{text}\"}}");
    let headers = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    let asked = authorized(&server, "POST", "/echo", &headers) + &body;
    let before = server.open_files();
    let mut stalled = Vec::new();
    for _ in 0..5 {
        // A small window, so that the answer does not vanish in the system's buffers.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let address = address(&server).parse().unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        for _ in 0..3 {
            // Pipelined; the server stops taking them when it cannot answer.
            let sent = tokio::time::timeout(
                Duration::from_millis(200),
                stream.write_all(asked.as_bytes()),
            );
            let _ = sent.await;
        }
        stalled.push(stream);
    }
    testkit::wait_for("the stalled connections are gone", || {
        server.open_files() <= before + 1
    })
    .await;
}
