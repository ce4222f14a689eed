//! `fastness fetch`: what the guard lets through, what it refuses, and how the program ends.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::Output;

use serde_json::Value;
use testkit::Home;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{binary, echo};

fn home() -> Home {
    Home::new(binary(), echo())
}

async fn fetch_in(home: &Home, arguments: &[&OsStr]) -> Output {
    home.command("fetch")
        .args(arguments)
        .output()
        .await
        .unwrap()
}

async fn fetch(arguments: &[&str]) -> Output {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    fetch_in(&home(), &arguments).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A server on this machine that answers every request with `answer`, and reports what it was sent.
pub(crate) async fn site(answer: &'static str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let (report, reports) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let request = request_of(&mut socket).await;
            report.send(request).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (authority, reports)
}

/// A request with its body.
async fn request_of(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => break,
        }
    }
    let head = String::from_utf8(request).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}

pub(crate) const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n\
    <title>A page</title><nav><a href=/>home</a></nav>\
    <main><h1>Hello</h1><p>See <a href=more>more</a>.</p><script>no()</script></main>";

#[tokio::test]
async fn a_page_that_was_opened_on_purpose_is_printed_as_markdown() {
    let (site, mut reports) = site(PAGE).await;
    let url = format!("http://{site}/a/b");
    let output = fetch(&["--allow", &site, &url]).await;
    let expected = format!("# Hello\n\nSee [more](http://{site}/a/more).\n");
    assert_eq!(
        (text(&output.stdout), output.status.code()),
        (expected, Some(0))
    );
    let request = reports.recv().await.unwrap();
    assert!(request.starts_with("GET /a/b HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nuser-agent: fastness/"), "{request}");

    let output = fetch(&["--json", "--limit", "7", &url, "--allow", &site]).await;
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["title"], "A page");
    assert_eq!(
        (&object["status"], &object["url"]),
        (&200.into(), &url.into())
    );
    assert_eq!(
        (&object["text"], &object["nextOffset"]),
        (&"# Hello".into(), &7.into())
    );
}

#[tokio::test]
async fn this_machine_is_refused_and_nothing_is_sent_to_it() {
    let (site, mut reports) = site(PAGE).await;
    let port = site.rsplit(':').next().unwrap();
    let elsewhere = format!("localhost:{port}");
    for allowed in [
        &["--allow", "127.0.0.1:1"][..],
        &["--allow", &elsewhere],
        &[],
    ] {
        let url = format!("http://{site}/");
        let output = fetch(&[allowed, &[&url]].concat()).await;
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(3), 0),
            "{said}"
        );
        assert!(
            said.starts_with("error: blocked ") && said.contains("hint: "),
            "{said}"
        );
    }
    assert!(reports.try_recv().is_err(), "somebody was there");
}

#[tokio::test]
async fn a_redirect_to_a_closed_place_is_refused() {
    let answer = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/\r\n\r\n";
    let (site, _reports) = site(answer).await;
    let output = fetch(&["--allow", &site, &format!("http://{site}/")]).await;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("blocked address: it is a cloud metadata service (redirect 1)"),
        "{said}"
    );
}

#[tokio::test]
async fn every_shared_vector_ends_as_it_says() {
    let vectors = include_str!("../../../netguard/tests/vectors/ssrf.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let home = home();
    for vector in &vectors {
        let url = vector["url"].as_str().unwrap();
        let mut arguments: Vec<OsString> = vec!["--check".into(), url.into()];
        if let Some(answers) = vector["resolves_to"].as_array() {
            let answers: Vec<&str> = answers.iter().map(|ip| ip.as_str().unwrap()).collect();
            let host = vector["whatwg_host"].as_str().unwrap_or_default();
            arguments.extend([
                "--resolve".into(),
                format!("{host}={}", answers.join(",")).into(),
            ]);
        }
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let output = fetch_in(&home, &arguments).await;
        let said = text(&output.stdout);
        let is_open = vector["expect"] == "allow";
        let expected = if is_open { Some(0) } else { Some(3) };
        assert_eq!(output.status.code(), expected, "{vector}: {said}");
        assert_eq!(said == "allowed\n", is_open, "{vector}: {said}");
        for answer in vector["resolves_to"].as_array().into_iter().flatten() {
            let is_told = said.contains(answer.as_str().unwrap());
            assert!(!is_told, "{said}");
        }
    }
}

#[tokio::test]
async fn what_is_no_url_is_a_refusal_and_never_wrong_usage() {
    for url in [
        "",
        " ",
        "-",
        "--no-such-flag",
        "-x",
        "example.com",
        "http://",
        "\u{7f}",
        "ü",
    ] {
        for check in [&["--check"][..], &[]] {
            let output = fetch(&[check, &[url]].concat()).await;
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{url:?}: {said}");
        }
    }
    let broken = OsString::from_vec(b"http://\xff.example/".to_vec());
    let output = fetch_in(&home(), &["--check".as_ref(), &broken]).await;
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test]
async fn answers_can_be_supplied_for_any_host_and_are_judged() {
    let cases = [
        ("Example.COM.=93.184.215.14", "https://example.com/", 0),
        ("bücher.example=93.184.215.14", "https://BÜCHER.example/", 0),
        (
            "a.example=2606:4700::1111,[2606:4700::1]",
            "https://a.example/",
            0,
        ),
        ("a.example=93.184.215.14,10.0.0.1", "https://a.example/", 3),
        ("a.example=", "https://a.example/", 3),
        ("no such=host=10.0.0.1", "https://93.184.215.14/", 0),
        ("-=10.0.0.1", "https://93.184.215.14/", 0),
        ("a.example=10.0.0", "https://a.example/", 2),
        ("a.example", "https://a.example/", 2),
    ];
    for (answer, url, code) in cases {
        let output = fetch(&["--check", "--resolve", answer, url]).await;
        let said = text(&[output.stdout, output.stderr].concat());
        assert_eq!(output.status.code(), Some(code), "{answer}: {said}");
    }
}

#[tokio::test]
async fn proxies_in_the_environment_are_ignored() {
    let (proxy, mut asked) = site("HTTP/1.1 200 OK\r\n\r\nfrom the proxy").await;
    let (site, _reports) = site("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\ndirect").await;
    let mut home = home();
    for name in [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ] {
        home = home.env(name, format!("http://{proxy}"));
    }
    let url = format!("http://{site}/");
    let arguments = ["--allow", &site, &url].map(OsStr::new);
    let output = fetch_in(&home, &arguments).await;
    assert_eq!(text(&output.stdout), "direct\n");
    assert!(asked.try_recv().is_err(), "the proxy was asked");
}

#[tokio::test]
async fn failures_are_told_apart_from_refusals() {
    let (missing, _reports) =
        site("HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\n\r\ngone").await;
    let output = fetch(&["--allow", &missing, &format!("http://{missing}/")]).await;
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("gone\n", Some(1))
    );
    assert!(text(&output.stderr).contains("the server answered 404 Not Found"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap().to_string();
    drop(listener);
    let output = fetch(&["--allow", &nobody, &format!("http://{nobody}/")]).await;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the server could not be reached"), "{said}");

    for wrong in [
        &[][..],
        &["--allow", "nowhere", "http://a.example/"],
        &["http://a.b/", "http://c.d/"],
    ] {
        assert_eq!(fetch(wrong).await.status.code(), Some(2), "{wrong:?}");
    }
    let metadata = fetch(&["--allow", "169.254.169.254:80", "http://169.254.169.254/"]).await;
    assert_eq!(metadata.status.code(), Some(2));
    assert!(text(&metadata.stderr).contains("no exception opens"));
}
