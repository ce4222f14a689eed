//! Redirects are followed by hand: each hop through all rules, and nothing of the caller goes along
//! to another origin.

use netguard::{Network, Policy, RedirectFault, Refusal, Request, UrlFault};

use crate::support::{Servers, guard, ok, public, redirect};

/// Fetches a page that redirects to `location`.
async fn refusal(from: &str, location: &str) -> (Option<Refusal>, usize) {
    let location = location.to_owned();
    let servers = Servers::new(move |_, _| Ok(redirect(302, &location)));
    let guard = guard(Policy::default(), public(), servers.clone());
    let failed = guard.get(from).await.unwrap_err();
    assert!(!failed.to_string().contains("secret"), "{failed}");
    (failed.refusal(), servers.dialled().len())
}

#[tokio::test]
pub(crate) async fn a_redirect_to_a_closed_place_is_refused_before_anybody_is_dialled() {
    let cases = [
        ("http://127.0.0.1/", Refusal::Address(Network::Loopback)),
        ("//127.0.0.1/", Refusal::Address(Network::Loopback)),
        ("http://2130706433/", Refusal::Address(Network::Loopback)),
        (
            "http://[::ffff:10.0.0.1]/",
            Refusal::Address(Network::Private),
        ),
        (
            "http://169.254.169.254/latest/",
            Refusal::Address(Network::Metadata),
        ),
        ("http://example.com:6379/", Refusal::Port(6379)),
        ("file:///etc/passwd", Refusal::Url(UrlFault::Scheme)),
        ("gopher://example.com/", Refusal::Url(UrlFault::Scheme)),
        ("data:text/html,x", Refusal::Url(UrlFault::Scheme)),
        ("javascript:alert(1)", Refusal::Url(UrlFault::Scheme)),
        ("http:/127.0.0.1/", Refusal::Url(UrlFault::Scheme)),
        ("http:127.0.0.1", Refusal::Url(UrlFault::Scheme)),
        ("///127.0.0.1/", Refusal::Url(UrlFault::NoHost)),
        ("/\\127.0.0.1/", Refusal::Url(UrlFault::Backslash)),
        ("http://user@example.com/", Refusal::Url(UrlFault::UserInfo)),
        ("/a b", Refusal::Url(UrlFault::Space)),
        ("/a\tb", Refusal::Url(UrlFault::ControlCharacter)),
    ];
    for (location, expected) in cases {
        let (refused, dialled) = refusal("http://a.example/", location).await;
        assert_eq!((refused, dialled), (Some(expected), 1), "{location:?}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_scheme_goes_through_all_rules() {
    // The way back, from https to http, is shown in `tls.rs`.
    let (refused, _) = refusal("http://a.example/", "https://127.0.0.1/").await;
    assert_eq!(refused, Some(Refusal::Address(Network::Loopback)));
}

#[tokio::test]
pub(crate) async fn a_loop_ends_at_the_limit() {
    let (refused, dialled) = refusal("http://a.example/", "/").await;
    assert_eq!(refused, Some(Refusal::Redirect(RedirectFault::TooMany)));
    assert_eq!(dialled, 6, "the first and five redirects");
}

#[tokio::test]
async fn relative_redirects_lead_where_browsers_go() {
    let cases = [
        ("b", "http://a.example/x/b"),
        ("../b?q#f", "http://a.example/b?q"),
        ("?q", "http://a.example/x/y?q"),
        ("//b.example:8080", "http://b.example:8080/"),
        (
            "HTTPS-looking/path",
            "http://a.example/x/HTTPS-looking/path",
        ),
        ("/ü", "http://a.example/%C3%BC"),
        ("/p:q", "http://a.example/p:q"),
    ];
    for (location, expected) in cases {
        let servers = Servers::new(move |_, request| {
            let is_first = request.starts_with("GET /x/y HTTP");
            Ok(if is_first {
                redirect(302, location)
            } else {
                ok("there")
            })
        });
        let guard = guard(Policy::default(), public(), servers);
        let response = guard.get("http://a.example/x/y#here").await.unwrap();
        assert_eq!(response.url.as_str(), expected, "{location}");
        assert_eq!(response.redirects[0].as_str(), "http://a.example/x/y");
    }
}

/// Posts with a secret header; the requests that were sent.
async fn post(status: u16, hops: &'static [&'static str]) -> Vec<String> {
    let servers = Servers::new(move |_, request| {
        let at = hops
            .iter()
            .position(|hop| request.starts_with(&asks_for(hop)));
        let next = at.map_or(hops.first(), |at| hops.get(at + 1));
        Ok(next.map_or_else(|| ok("end"), |next| redirect(status, next)))
    });
    let guard = guard(Policy::default(), public(), servers.clone());
    let mut request = Request::get("http://a.example/start");
    request.method = http::Method::POST;
    request.body = "the body".into();
    let headers = &mut request.headers;
    headers.insert("authorization", "Bearer secret".parse().unwrap());
    headers.insert("content-type", "text/plain".parse().unwrap());
    headers.insert("x-mine", "secret".parse().unwrap());
    guard.fetch(request).await.unwrap();
    let mut requests = servers.requests();
    assert!(requests.remove(0).ends_with("\r\n\r\nthe body"));
    requests
}

/// How a request for the path of `url` begins after the method.
fn asks_for(url: &str) -> String {
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    let path = if url.starts_with('/') {
        url.to_owned()
    } else {
        format!("/{path}")
    };
    format!("GET {path} ")
}

#[tokio::test]
pub(crate) async fn after_303_and_after_301_or_302_of_a_post_comes_a_get_without_a_body() {
    for status in [301, 302, 303] {
        let requests = post(status, &["/next"]).await;
        let [next] = requests.as_slice() else {
            panic!("{requests:?}");
        };
        assert!(next.starts_with("GET /next HTTP/1.1\r\n"), "{next}");
        assert!(
            next.ends_with("\r\n\r\n") && !next.contains("content-type"),
            "{next}"
        );
        assert!(
            next.contains("x-mine: secret"),
            "the origin is the same: {next}"
        );
    }
}

#[tokio::test]
pub(crate) async fn a_307_keeps_method_and_body_at_home_and_drops_everything_abroad() {
    let servers = Servers::new(|_, request| {
        let is_first = request.starts_with("POST /start");
        Ok(if is_first {
            redirect(307, "/again")
        } else {
            ok("end")
        })
    });
    let guard = guard(Policy::default(), public(), servers.clone());
    let mut request = Request::get("http://a.example/start");
    request.method = http::Method::POST;
    request.body = "the body".into();
    guard.fetch(request).await.unwrap();
    let again = &servers.requests()[1];
    assert!(
        again.starts_with("POST /again") && again.ends_with("the body"),
        "{again}"
    );

    for status in [307, 308] {
        let requests = post(status, &["http://b.example/abroad"]).await;
        assert!(requests[0].starts_with("GET /abroad"), "{requests:?}");
        assert!(!requests[0].contains("secret") && !requests[0].contains("the body"));
    }
}

#[tokio::test]
pub(crate) async fn what_was_dropped_abroad_does_not_come_back_at_home() {
    let hops = &["http://b.example/abroad", "http://a.example/home"];
    let requests = post(302, hops).await;
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests.iter().all(|request| !request.contains("secret")));
    let other_port = post(302, &["http://a.example:8080/port"]).await;
    assert!(
        !other_port[0].contains("secret"),
        "another port is another origin"
    );
}

#[tokio::test]
pub(crate) async fn nothing_but_status_and_location_moves_on() {
    let hints = [
        "HTTP/1.1 200 OK\r\nrefresh: 0; url=http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nlink: <http://127.0.0.1/>; rel=preload\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: <http://127.0.0.1/>; rel=preload\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 300 Choices\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n",
    ];
    for answer in hints {
        let servers = Servers::new(move |_, _| Ok(answer.to_owned()));
        let guard = guard(Policy::default(), public(), servers.clone());
        guard.get("http://a.example/").await.unwrap();
        assert_eq!(servers.dialled().len(), 1, "{answer}");
    }
}

#[tokio::test]
pub(crate) async fn a_location_that_cannot_be_read_is_a_typed_refusal() {
    let two = "HTTP/1.1 302 Found\r\nlocation: /a\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n";
    let servers = Servers::new(move |_, _| Ok(two.to_owned()));
    let guarded = guard(Policy::default(), public(), servers);
    let refused = guarded
        .get("http://a.example/")
        .await
        .unwrap_err()
        .refusal();
    assert_eq!(refused, Some(Refusal::Redirect(RedirectFault::Location)));
    let long = format!("/{}", "a".repeat(40_000));
    let (refused, _) = refusal("http://a.example/", &long).await;
    assert_eq!(refused, Some(Refusal::Url(UrlFault::TooLong)));
}

#[tokio::test]
async fn callers_cannot_set_what_governs_the_connection() {
    for name in [
        "host",
        "connection",
        "transfer-encoding",
        "content-length",
        "upgrade",
        "te",
    ] {
        let servers = Servers::saying("x");
        let guard = guard(Policy::default(), public(), servers.clone());
        let mut request = Request::get("http://a.example/");
        let name = http::HeaderName::from_static(name);
        request
            .headers
            .insert(name.clone(), "evil.example".parse().unwrap());
        let refused = guard.fetch(request).await.unwrap_err();
        assert!(refused.to_string().contains(name.as_str()), "{refused}");
        assert!(servers.dialled().is_empty());
    }
}
