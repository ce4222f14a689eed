//! What the server gives of the page, to whom, and with which rules; and that it is what the source gives.

use std::path::Path;

use testkit::Program;
use testkit::raw::{HttpAnswer, address, request};

use crate::support::{echo, serve};

async fn get(server: &Program, path: &str, headers: &str) -> HttpAnswer {
    let host = address(server);
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n");
    request(server, head).await
}

#[tokio::test]
async fn the_page_needs_no_token_and_comes_with_strict_rules() {
    let server = serve(echo()).await;
    let page = get(&server, "/", "").await;
    assert_eq!(page.status, 200, "{page}");
    let policy = page.header("content-security-policy").unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let tag = page.header("etag").unwrap();
    let again = get(&server, "/", &format!("if-none-match: {tag}\r\n")).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""), "{again}");

    let names = page
        .body
        .split('"')
        .filter(|part| part.starts_with("/assets/"));
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), 3, "{}", page.body);
    for name in names {
        let asset = get(&server, name, "").await;
        assert_eq!(asset.status, 200, "{name}");
        let kept = asset.header("cache-control").unwrap();
        assert!(kept.contains("immutable"), "{name}: {kept}");
        assert_eq!(asset.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(asset.header("content-encoding"), None);
    }
    for name in [
        "/assets/page.js",
        "/assets/",
        "/assets/../token",
        "/assets/x\".js",
    ] {
        let nothing = get(&server, name, "").await;
        assert!(
            matches!(nothing.status, 400 | 401 | 404),
            "{name}: {nothing}"
        );
    }
}

#[tokio::test]
async fn links_from_anywhere_lead_to_the_page_and_nothing_else_of_it_is_given_to_strangers() {
    let server = serve(echo()).await;
    let cross = "sec-fetch-site: cross-site\r\n";
    let goes = format!("{cross}sec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n");
    let framed = format!("{cross}sec-fetch-mode: navigate\r\nsec-fetch-dest: iframe\r\n");
    let page = get(&server, "/", "").await;
    let script = page.body.split('"').find(|part| part.ends_with(".js"));
    let script = script.unwrap();
    for (path, headers, expected) in [
        ("/", goes.as_str(), 200),
        ("/", cross, 403),
        ("/", framed.as_str(), 403),
        ("/", "origin: http://evil.example\r\n", 403),
        (script, goes.as_str(), 403),
        (script, cross, 403),
        ("/api/v1/sessions", goes.as_str(), 403),
    ] {
        let answer = get(&server, path, headers).await;
        assert_eq!(answer.status, expected, "{path} {headers}: {answer}");
    }
    let foreign = "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(request(&server, foreign.to_owned()).await.status, 403);
    let host = address(&server);
    let posted = format!(
        "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(request(&server, posted).await.status, 405);
}

/// Runs `scripts/page.sh WHAT`.
fn page_script(what: &str) {
    testkit::system::need("node");
    testkit::system::need("npm");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/page.sh");
    #[expect(
        clippy::disallowed_methods,
        reason = "the builder is a script of this repository"
    )]
    let output = std::process::Command::new(script).arg(what).output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_embedded_page_is_what_its_source_gives() {
    page_script("check");
}

#[test]
fn the_rules_of_the_page_hold() {
    page_script("test");
}
