//! The cases of `tests/data/auth.json` about Host and Origin, on every method.

use crate::support::{echo, serve};
use crate::vectors_auth::{METHODS, knock, upgrade};

/// Hosts that are not ours: the case, the header, and the answer.
pub(crate) const FOREIGN_HOSTS: &[(&str, &str, u16)] = &[
    ("host-02", "host: evil.example\r\n", 403),
    ("host-02", "host: evil.example:<P>\r\n", 403),
    ("host-03", "host: 127.0.0.1.evil.example:<P>\r\n", 403),
    ("host-03", "host: 127.0.0.1evil.example:<P>\r\n", 403),
    ("host-04", "host: localhost.evil.example\r\n", 403),
    ("host-04", "host: xlocalhost:<P>\r\n", 403),
    ("host-08", "host: 127.0.0.1:1\r\n", 403),
    ("host-08", "host: 127.0.0.1:<P>0\r\n", 403),
    ("host-08", "host: localhost\r\n", 403),
    ("host-09", "", 400),
    ("host-09", "host:\r\n", 400),
    (
        "host-10",
        "host: 127.0.0.1:<P>\r\nhost: evil.example\r\n",
        400,
    ),
    (
        "host-10",
        "host: 127.0.0.1:<P>\r\nhost: 127.0.0.1:<P>\r\n",
        400,
    ),
    ("host-14", "host: 127.0.0.1:<P>\0\r\n", 400),
    ("host-14", "host: 127.0.0.1:<P> evil.example\r\n", 400),
    ("host-14", "host: user@127.0.0.1:<P>\r\n", 400),
    ("host-16", "host: localhost.:<P>\r\n", 403),
    ("host-16", "host: 127.0.0.1.:<P>\r\n", 403),
    ("host-16", "host: 2130706433:<P>\r\n", 403),
    ("host-16", "host: 0.0.0.0:<P>\r\n", 403),
];

/// Origins that may not call us: the case and the headers.
pub(crate) const FOREIGN_ORIGINS: &[(&str, &str)] = &[
    ("origin-02", "origin: http://evil.example:<P>\r\n"),
    ("origin-02", "origin: http://127.0.0.1.evil.example:<P>\r\n"),
    ("origin-03", "origin: null\r\n"),
    ("origin-03", "origin:\r\n"),
    ("origin-03", "origin: file://\r\n"),
    ("origin-05", "origin: http://localhost:3000\r\n"),
    ("origin-05", "origin: http://localhost\r\n"),
    ("origin-05", "origin: http://127.0.0.1:<P>0\r\n"),
    ("origin-09", "origin: chrome-extension://abcd\r\n"),
    ("origin-09", "origin: vscode-webview://abcd\r\n"),
    (
        "origin-10",
        "origin: http://127.0.0.1:<P>\r\norigin: http://evil.example\r\n",
    ),
    (
        "origin-10",
        "origin: http://127.0.0.1:<P> http://evil.example\r\n",
    ),
    ("cors-07", "sec-fetch-site: cross-site\r\n"),
    (
        "cors-07",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
    ),
];

#[tokio::test]
async fn foreign_hosts_are_refused_on_every_method() {
    let server = serve(echo()).await;
    for (id, hosts, expected) in FOREIGN_HOSTS {
        let headers = format!("{hosts}authorization: Bearer <T>\r\n");
        let refused = upgrade(&server, "/acp", &headers).await;
        assert_eq!(refused.status, *expected, "{id} {hosts:?}: {refused}");
        for method in METHODS {
            let refused = knock(&server, method, "/acp", &headers).await;
            assert_eq!(
                refused.status, *expected,
                "{id} {method} {hosts:?}: {refused}"
            );
        }
        // The host is judged first: without a token it is the same answer.
        let refused = knock(&server, "POST", "/acp", hosts).await;
        assert_eq!(refused.status, *expected, "{id} {hosts:?}: {refused}");
    }
    // An absolute target names a host as well; both must be ours.
    let absolute = "http://evil.example/acp";
    let headers = "host: 127.0.0.1:<P>\r\nauthorization: Bearer <T>\r\n";
    let refused = upgrade(&server, absolute, headers).await;
    assert!([400, 403].contains(&refused.status), "{refused}");
    for ours in [
        "LOCALHOST:<P>",
        "[::1]:<P>",
        "127.0.0.1:<P>",
        "localhost:<P>",
    ] {
        let headers = format!("host: {ours}\r\nauthorization: Bearer <T>\r\n");
        assert_eq!(
            upgrade(&server, "/acp", &headers).await.status,
            101,
            "{ours}"
        );
    }
}

#[tokio::test]
async fn foreign_origins_are_refused_on_every_method() {
    let server = serve(echo()).await;
    for (id, origin) in FOREIGN_ORIGINS {
        let headers = format!("host: 127.0.0.1:<P>\r\nauthorization: Bearer <T>\r\n{origin}");
        let refused = upgrade(&server, "/acp", &headers).await;
        assert!(
            [400, 403].contains(&refused.status),
            "{id} {origin:?}: {refused}"
        );
        let lists_origin = refused
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("access-control"));
        assert!(!lists_origin, "{id} {origin:?}: {refused}");
        for method in METHODS {
            let refused = knock(&server, method, "/acp", &headers).await;
            assert!(
                [400, 403].contains(&refused.status),
                "{id} {method} {origin:?}: {refused}"
            );
        }
    }
}
