//! What the doctor finds in healthy and in broken surroundings.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Check, State, data_dir, disk, server, table};
use crate::render::Palette;

#[test]
fn the_data_directory_must_be_writable_and_closed_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let set_mode = |mode| {
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
    };
    set_mode(0o700);
    assert_eq!(data_dir(directory.path()).state, State::Fine);
    assert_eq!(data_dir(&directory.path().join("a/b")).state, State::Noted);
    set_mode(0o755);
    let open = data_dir(directory.path());
    assert_eq!(open.state, State::Broken);
    assert!(open.advice.unwrap().starts_with("close it: chmod 700 "));
    assert_eq!(data_dir(Path::new("/dev/null")).state, State::Broken);
}

#[test]
fn too_little_space_is_broken() {
    let limits = |disk_free_min| Limits {
        disk_free_min,
        ..Limits::default()
    };
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(disk(directory.path(), &limits(0)).state, State::Fine);
    assert_eq!(
        disk(&directory.path().join("new"), &limits(u64::MAX)).state,
        State::Broken
    );
}

#[tokio::test]
async fn a_server_is_running_only_if_it_answers() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(server(directory.path()).await.finding, "not running");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let file = json!({"pid": 1, "url": url, "unix": null}).to_string();
    std::fs::write(directory.path().join("server.json"), file).unwrap();
    let (found, ()) = tokio::join!(server(directory.path()), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut request).await.unwrap();
        }
        assert!(request.starts_with(b"GET /health "));
        stream
            .write_all(b"HTTP/1.1 200 OK\r\n\r\n{}")
            .await
            .unwrap();
    });
    assert_eq!(found.finding, format!("running at {url}"));
    assert_eq!(found.state, State::Fine);

    drop(listener);
    let gone = server(directory.path()).await;
    assert_eq!(gone.state, State::Noted);
    assert!(gone.finding.contains("does not answer"), "{}", gone.finding);
}

#[test]
fn the_table_is_aligned_and_says_what_to_do() {
    let checks = [
        Check::new("model", State::Fine, "offline"),
        Check::new("data directory", State::Broken, "closed").advice("open it"),
    ];
    let expected = "✔ model           offline\n\
                    ✘ data directory  closed\n                  → open it\n";
    assert_eq!(table(&checks, Palette::default()), expected);
}
