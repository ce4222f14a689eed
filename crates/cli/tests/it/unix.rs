//! The Unix socket: who gets in without a token, and where it may stand.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Uid;
use serde_json::Value;
use testkit::tunnel::websocket_over;
use testkit::{AcpClient, Home, Program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::support::{binary, echo};

/// Where the socket of a home stands, in a directory of its own.
fn socket_of(home: &Home) -> PathBuf {
    home.data_dir().with_file_name("run").join("socket")
}

fn home_with_socket() -> Home {
    let home = Home::new(binary(), echo());
    let path = socket_of(&home);
    home.arg("--unix").arg(path.display().to_string())
}

async fn serve_with_socket() -> Program {
    Program::serve_in(home_with_socket()).await
}

/// What a server says that does not start, and its exit code.
async fn refused(home: &Home) -> (Option<i32>, String) {
    let mut command = home.command("serve");
    let output = command.args(["--listen", "127.0.0.1:0"]).output();
    let output = tokio::time::timeout(testkit::program::DEADLINE, output)
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// One plain request on a connection of its own.
async fn ask(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

async fn dial(server: &Program, headers: &[(&'static str, String)]) -> Result<AcpClient, u16> {
    let stream = UnixStream::connect(socket_of(server.home())).await.unwrap();
    let dialled = websocket_over(stream, "ws://anything/acp", headers).await;
    dialled
        .map(|client| client.in_directory(server.home().workspace()))
        .map_err(|error| error.status.unwrap())
}

#[tokio::test]
async fn the_same_user_needs_no_token_and_is_local() {
    let server = serve_with_socket().await;
    let mut client = dial(&server, &[]).await.unwrap();
    client.initialize().await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
    // It is the principal of the default token: each finds the other's sessions.
    let mut other = AcpClient::connect_ws(&server).await;
    other.load_session(&session).await.unwrap();
    let health = "GET /health HTTP/1.1\r\nhost: whatever\r\nconnection: close\r\n\r\n";
    let answer = ask(&socket_of(server.home()), health).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let nothing = health.replace("/health", "/nothing");
    let answer = ask(&socket_of(server.home()), &nothing).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn a_page_is_refused_on_the_unix_socket_too() {
    let server = serve_with_socket().await;
    let origin = [("origin", "http://evil.example".to_owned())];
    assert_eq!(dial(&server, &origin).await.err(), Some(403));
    let answer = ask(
        &socket_of(server.home()),
        "GET /acp HTTP/1.1\r\nsec-fetch-site: cross-site\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn the_socket_is_private_announced_and_removed() {
    let mut server = serve_with_socket().await;
    let path = socket_of(server.home());
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&path), 0o600);
    let announced = std::fs::read(server.home().data_dir().join("server.json")).unwrap();
    let announced: Value = serde_json::from_slice(&announced).unwrap();
    assert_eq!(announced["unix"], path.display().to_string());
    assert_eq!(server.terminate().await.code(), Some(0));
    assert!(!path.exists());
}

/// Says what another user hears. A thread of this process becomes that user; it must be root's.
fn ask_as_another_user(path: PathBuf) -> String {
    use std::io::{Read, Write};
    let asking = std::thread::spawn(move || {
        let nobody = Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    asking.join().unwrap()
}

#[tokio::test]
async fn another_user_is_refused_even_if_the_files_let_him_through() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not shown: only root can become another user");
        return;
    }
    let server = serve_with_socket().await;
    let path = socket_of(server.home());
    // As if somebody had opened what we closed.
    for (opened, mode) in [
        (path.parent().unwrap().parent().unwrap(), 0o755),
        (path.parent().unwrap(), 0o755),
        (path.as_path(), 0o666),
    ] {
        std::fs::set_permissions(opened, PermissionsExt::from_mode(mode)).unwrap();
    }
    let asking = path.clone();
    let answer = tokio::task::spawn_blocking(move || ask_as_another_user(asking))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("forbidden_peer"), "{answer}");
    dial(&server, &[]).await.unwrap().initialize().await;
}

#[tokio::test]
async fn a_socket_that_a_dead_server_left_is_replaced() {
    let mut server = serve_with_socket().await;
    let path = socket_of(server.home());
    server.kill9().await;
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
    let left = path.symlink_metadata().unwrap().ino();
    let server = Program::serve_in(server.into_home()).await;
    dial(&server, &[]).await.unwrap().initialize().await;
    assert!(path.exists(), "{left}");
}

#[tokio::test]
async fn a_socket_in_use_stops_the_second_server_which_says_who_has_it() {
    let server = serve_with_socket().await;
    let path = socket_of(server.home());
    let second = Home::new(binary(), echo())
        .arg("--unix")
        .arg(path.display().to_string());
    let (code, said) = refused(&second).await;
    assert_eq!(code, Some(1), "{said}");
    let pid = server.pid().unwrap();
    assert!(said.contains(&format!("in use by process {pid}")), "{said}");
    dial(&server, &[]).await.unwrap().initialize().await;
}

#[tokio::test]
async fn what_is_no_socket_of_ours_is_left_alone() {
    let home = home_with_socket();
    let path = socket_of(&home);
    let directory = path.parent().unwrap();
    std::fs::create_dir(directory).unwrap();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();

    std::fs::write(&path, "precious").unwrap();
    let (code, said) = refused(&home).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not a socket"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    // A link is not followed, wherever it leads.
    let target = directory.join("target");
    std::fs::rename(&path, &target).unwrap();
    for leads_to in [target.clone(), directory.join("nowhere")] {
        std::os::unix::fs::symlink(&leads_to, &path).unwrap();
        let (code, said) = refused(&home).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("is not a socket"), "{said}");
        assert!(path.is_symlink());
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    assert!(!directory.join("nowhere").exists());
}

#[tokio::test]
async fn a_directory_that_others_can_enter_is_refused() {
    let home = home_with_socket();
    let path = socket_of(&home);
    let directory = path.parent().unwrap();
    std::fs::create_dir(directory).unwrap();
    for open in [0o755, 0o710, 0o701] {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(open)).unwrap();
        let (code, said) = refused(&home).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("open to others"), "{said}");
        assert!(!path.exists());
    }
}
