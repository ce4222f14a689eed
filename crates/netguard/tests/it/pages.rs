//! What people and models get to read: pages as Markdown, text as it is, the rest by name.

use std::time::{Duration, Instant};

use http::HeaderMap;
use netguard::page::{Kind, Page};
use netguard::{End, Response};

fn response(content_type: &str, body: impl Into<Vec<u8>>) -> Response {
    let mut headers = HeaderMap::new();
    if !content_type.is_empty() {
        headers.insert("content-type", content_type.parse().unwrap());
    }
    Response {
        status: http::StatusCode::OK,
        url: url::Url::parse("https://site.example/2026/03/post.html").unwrap(),
        headers,
        body: body.into().into(),
        end: End::Whole,
        redirects: Vec::new(),
    }
}

fn read(content_type: &str, body: impl Into<Vec<u8>>) -> Page {
    Page::read(&response(content_type, body))
}

#[test]
fn pages_become_the_markdown_that_stands_beside_them() {
    macro_rules! pages {
        ($($name:literal)*) => {
            [$((
                $name,
                include_str!(concat!("../pages/", $name, ".html")),
                include_str!(concat!("../pages/", $name, ".md")),
            )),*]
        };
    }
    for (name, html, markdown) in pages!["blog" "reference" "links" "soup" "wiki" "app"] {
        let page = read("text/html; charset=utf-8", html);
        assert_eq!(page.text, markdown.trim_end(), "{name}");
        assert_eq!((page.kind, page.end), (Kind::Html, End::Whole));
        for gone in [
            "<script",
            "dataLayer",
            "Ignore all previous",
            "hidden too",
            "decoration",
        ] {
            assert!(!page.text.contains(gone), "{name}: {gone}");
        }
    }
}

#[test]
fn the_title_is_the_pages_own_or_its_first_heading() {
    let titles = [
        ("<title> A\n title </title><h1>x</h1>", Some("A title")),
        ("<title>R&amp;D</title>", Some("R&D")),
        ("<h1>Only a <em>heading</em></h1>", Some("Only a heading")),
        (
            "<meta property=og:title content='For others'><p>x",
            Some("For others"),
        ),
        (
            "<svg><title>icon</title></svg><title>Real</title>",
            Some("Real"),
        ),
        ("<p>nothing</p>", None),
    ];
    for (html, title) in titles {
        assert_eq!(read("text/html", html).title.as_deref(), title, "{html}");
    }
}

#[test]
fn what_is_hidden_from_people_is_hidden_from_models() {
    let ways = [
        "<p hidden>secret</p>",
        "<p style='display: none'>secret</p>",
        "<p style='color:red;DISPLAY:NONE !important'>secret</p>",
        "<p style='visibility:hidden'>secret</p>",
        "<p style='opacity:0'>secret</p>",
        "<p style='font-size:0px'>secret</p>",
        "<p style='position:absolute;left:-9999px'>secret</p>",
        "<p aria-hidden=true>secret</p>",
        "<span class='sr-only'>secret</span>",
        "<div hidden><div><p>secret</p></div></div>",
        "<template><p>secret</p></template>",
        "<noscript><p>secret</p></noscript>",
        "<!-- secret -->",
        "<script>secret</script><style>secret</style>",
        "<input type=hidden value=secret><textarea>secret</textarea>",
        "<select><option>secret</option></select><button>secret</button>",
        "<iframe>secret</iframe><object>secret</object><svg><text>secret</text></svg>",
        "<p title=secret data-x=secret>x</p><img alt='' src=/secret.png>",
        "<dialog>secret</dialog>",
    ];
    for way in ways {
        let text = read("text/html", format!("<p>seen</p>{way}<p>also seen</p>")).text;
        assert!(
            text.contains("seen") && text.contains("also seen"),
            "{way}: {text}"
        );
        assert!(!text.contains("secret"), "{way}: {text}");
    }
    let smuggled: String = "hi"
        .chars()
        .map(|c| char::from_u32(0xe0000 + c as u32).unwrap())
        .collect();
    assert_eq!(
        read(
            "text/html",
            format!("<p>a{smuggled}b\u{202e}c\u{200b}d</p>")
        )
        .text,
        "abcd"
    );
}

#[test]
fn links_and_images_are_absolute_and_lead_to_the_web() {
    let html = "<base href='//cdn.example/a/'><p><a href='b?c=1&amp;d'>x</a> <a href='#e'>y</a> \
                <a href='javascript:x'>z</a> <img src=p.png alt='a [p]'></p>";
    let expected = "[x](https://cdn.example/a/b?c=1&d) [y](https://cdn.example/a/#e) z \
                    ![a \\[p\\]](https://cdn.example/a/p.png)";
    assert_eq!(read("text/html", html).text, expected);
    let odd = "<base href='file:///etc/'><a href='x'>x</a>";
    assert_eq!(
        read("text/html", odd).text,
        "[x](https://site.example/2026/03/x)"
    );
}

#[test]
fn text_and_json_stay_as_they_are() {
    let json = "{\"a\": [1, 2],\n  \"b\": \"<p>\"}\n";
    let types = [
        "application/json",
        "application/ld+json; charset=utf-8",
        "text/plain",
        "text/csv",
        "application/xml",
        "image/svg+xml",
        "text/javascript",
        "",
    ];
    for content_type in types {
        let page = read(content_type, json);
        assert_eq!(
            (page.kind, page.text.as_str()),
            (Kind::Text, json),
            "{content_type}"
        );
        assert_eq!((page.charset, page.is_lossy), (Some("UTF-8"), false));
    }
    assert_eq!(read("", "\n <!DOCTYPE HTML><p>x").kind, Kind::Html);
}

#[test]
fn what_is_not_text_is_named_with_its_size() {
    let pdf = read(
        "application/pdf",
        [&b"%PDF-1.7"[..], &[0; 1_234_559]].concat(),
    );
    let said =
        "This is a PDF document (application/pdf, 1.2 MB). Its content cannot be shown as text.";
    assert_eq!(
        (pdf.text.as_str(), pdf.kind, pdf.charset),
        (said, Kind::Binary, None)
    );
    let cases: [(&str, &[u8], &str); 5] = [
        (
            "",
            b"\x89PNG\r\n\x1a\n....",
            "an image (image/png, 12 bytes)",
        ),
        (
            "application/octet-stream",
            b"%PDF-1.4 \x00",
            "a PDF document (application/pdf, 10 bytes)",
        ),
        (
            "text/plain",
            b"\x00\x01\x02",
            "a binary file (text/plain, 3 bytes)",
        ),
        ("video/mp4", b"x", "a video (video/mp4, 1 bytes)"),
        (
            "application/x-thing",
            b"x",
            "a binary file (application/x-thing, 1 bytes)",
        ),
    ];
    for (content_type, body, said) in cases {
        let page = read(content_type, body);
        assert!(page.text.contains(said), "{}", page.text);
    }
}

/// Type, body, text, and the charset that it was read in.
const CHARSETS: &[(&str, &[u8], &str, &str)] = &[
    (
        "text/plain; charset=iso-8859-1",
        b"caf\xe9 \x80",
        "café €",
        "windows-1252",
    ),
    (
        "text/plain; charset=\"Shift_JIS\"",
        b"\x93\xfa\x96\x7b",
        "日本",
        "Shift_JIS",
    ),
    (
        "text/plain; charset=gbk",
        b"\xd6\xd0\xce\xc4",
        "中文",
        "GBK",
    ),
    (
        "text/plain; charset=koi8-r",
        b"\xed\xc9\xd2",
        "Мир",
        "KOI8-R",
    ),
    (
        "text/plain; charset=utf-8",
        b"\xff\xfeh\0i\0",
        "hi",
        "UTF-16LE",
    ),
    (
        "text/plain; charset=koi8-r",
        b"\xef\xbb\xbf\xc3\xa9",
        "é",
        "UTF-8",
    ),
    (
        "text/html",
        b"<meta charset='windows-1251'><p>\xcc\xe8\xf0",
        "Мир",
        "windows-1251",
    ),
    (
        "text/html",
        b"<META http-equiv=Content-Type content=\"text/html; charset=euc-kr\"><p>\xc7\xd1",
        "한",
        "EUC-KR",
    ),
    (
        "text/html; charset=nonsense",
        b"<meta charset=nope><p>\xc3\xa9",
        "é",
        "UTF-8",
    ),
    (
        "text/html",
        b"<meta charset=utf-16><p>plain",
        "plain",
        "UTF-8",
    ),
];

#[test]
pub(crate) fn charsets_are_read_from_the_mark_the_server_the_page_and_the_bytes_in_this_order() {
    for (content_type, body, text, charset) in CHARSETS {
        let page = read(content_type, *body);
        let read = (page.text.as_str(), page.charset);
        assert_eq!(read, (*text, Some(*charset)), "{content_type}");
        assert!(!page.is_lossy);
    }
}

#[test]
fn a_charset_that_nobody_names_is_guessed() {
    // Enough text to guess by.
    let russian = "Съешь ещё этих мягких французских булок, да выпей чаю. ".repeat(5);
    let bytes: Vec<u8> = russian.chars().map(in_windows_1251).collect();
    let page = read("text/plain", bytes);
    assert_eq!((page.charset, page.text), (Some("windows-1251"), russian));
}

fn in_windows_1251(c: char) -> u8 {
    match c {
        'А'..='я' => u8::try_from(c as u32 - 'А' as u32).unwrap() + 0xc0,
        'ё' => 0xb8,
        other => u8::try_from(other).unwrap(),
    }
}

#[test]
pub(crate) fn bytes_that_do_not_fit_are_replaced_and_it_is_said() {
    for body in [&b"a\xffb\xc3"[..], b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"] {
        let page = read("text/plain; charset=utf-8", body);
        assert!(page.is_lossy && page.text.contains('\u{fffd}'), "{page:?}");
    }
    // UTF-7 is not a charset of the web; its text stays as it was sent.
    let page = read("text/plain; charset=utf-7", "+ADw-script+AD4-");
    assert_eq!(page.text, "+ADw-script+AD4-");
}

#[test]
fn a_long_page_is_read_in_windows_that_join_without_a_gap() {
    let lines: Vec<String> = (0..500).map(|n| format!("line {n} – ünïcödé")).collect();
    let page = read("text/plain; charset=utf-8", lines.join("\n"));
    let (mut offset, mut joined, mut count) = (Some(0), String::new(), 0);
    while let Some(from) = offset {
        let window = page.window(from, 1_000);
        assert!(window.text.chars().count() <= 1_000);
        assert!(
            window.next_offset.is_none() || window.text.ends_with('\n'),
            "cut inside a line"
        );
        joined.push_str(window.text);
        (offset, count) = (window.next_offset, count + 1);
    }
    assert_eq!(joined, page.text);
    assert!(count > 8, "{count}");
    assert_eq!(page.window(1_000_000, 10).text, "");
    assert_eq!(page.window(0, 1_000_000).next_offset, None);
    let unbroken = read("text/plain", "ü".repeat(5_000));
    assert_eq!(unbroken.window(1, 100).next_offset, Some(101));
}

/// Pages that break converters: each is much of one bad idea, enough for what is quadratic or recursive to show.
fn monsters() -> Vec<(&'static str, String)> {
    let deep = |tag: &str| format!("<{tag}>").repeat(30_000);
    let mut many_attributes = String::from("<p ");
    for n in 0..20_000 {
        many_attributes.push_str(&format!("a{n}=x class=y "));
    }
    many_attributes.push_str(">text</p>");
    vec![
        ("deep divs", format!("{}text", deep("div"))),
        ("deep bold", format!("{}text", deep("b"))),
        ("deep lists", format!("{}text", deep("ul><li"))),
        ("deep quotes", format!("{}text<br>text", deep("blockquote"))),
        ("deep tables", format!("{}text", deep("table><tr><td"))),
        ("deep links", format!("{}text", deep("a href=x><table><td"))),
        ("deep strangers", format!("{}text", deep("x-y"))),
        (
            "ends without starts",
            format!("{}{}", deep("i"), "</p></b></x>".repeat(30_000)),
        ),
        (
            "open formatting",
            format!("{}{}", deep("u class=q"), "<p>x".repeat(30_000)),
        ),
        ("attributes", many_attributes),
        ("one long word", format!("<p>{}", "a".repeat(300_000))),
        ("only marks", format!("<p>{}", "*_`[]<\\".repeat(30_000))),
        ("backticks", format!("<pre>{}</pre>", "`".repeat(200_000))),
        (
            "breaks in quotes",
            format!("{}{}", "<blockquote>".repeat(100), "x<br>".repeat(30_000)),
        ),
        (
            "wide table",
            format!(
                "<table><tr>{}<tr>{}",
                "<td>x".repeat(10_000),
                "<td>y".repeat(10_000)
            ),
        ),
        (
            "wide spans",
            format!(
                "<table>{}",
                "<tr><td colspan=999999999>x<td>y".repeat(2_000)
            ),
        ),
        ("endless comment", format!("<!--{}", "-".repeat(300_000))),
        ("endless tag", format!("<a {}", "=".repeat(300_000))),
        ("entities", "&notanentity&amp&#x110000;&#0;".repeat(10_000)),
        ("nothing but starts", "<".repeat(300_000)),
    ]
}

#[test]
fn no_page_takes_long_or_much_or_the_stack() {
    // As small as the stack of a worker thread.
    let story = || {
        for (name, html) in monsters() {
            let started = Instant::now();
            let size = html.len();
            let page = read("text/html", html);
            assert!(
                page.text.len() <= size * 4 + (13 << 20),
                "{name}: {}",
                page.text.len()
            );
            // Generous, for machines that are busy and builds that are not optimised.
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "{name}: {:?}",
                started.elapsed()
            );
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(story).unwrap().join().unwrap();
}

#[test]
fn the_time_for_a_page_grows_with_its_size_and_no_faster() {
    let time_of = |kibibytes: usize| {
        let html = "<div>".repeat((kibibytes << 10) / 5);
        let started = Instant::now();
        let page = read("text/html", html);
        assert_eq!(page.text, "");
        started.elapsed()
    };
    let (little, much) = (time_of(200), time_of(2_000));
    // What is quadratic would take a hundred times as long; the rest is for busy machines.
    assert!(much < little * 40, "{little:?} became {much:?}");
}

#[test]
fn a_page_with_more_parts_than_are_kept_is_cut_and_says_so() {
    let page = read(
        "text/html",
        format!("<p>start</p>{}<p>end</p>", "<i>x</i>".repeat(500_000)),
    );
    assert_eq!(page.end, End::CutAtLimit);
    assert!(page.text.starts_with("start") && !page.text.contains("end"));
}
