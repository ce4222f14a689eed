//! The web page at `/`: built from `page/` at the root of the repository, checked in, embedded here.
//!
//! Anybody may have it; it holds nothing secret and can do nothing without a token. A name beneath `/assets` holds a hash
//! of its content, and exists if the page itself names it.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::answer::refusal;

/// Where files with a hash in their name are.
const ASSETS: &str = "/assets/{name}";

/// Nothing but what came from here, and nothing from inside of a document. Pictures that a session holds are `data:`.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
);

/// A name with a hash never means anything else.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The page itself is asked for anew each time, and answered in a line if it is the same.
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// A file of the page, as it is and packed.
struct File {
    plain: &'static [u8],
    packed: &'static [u8],
    kind: HeaderValue,
}

/// One file of the build.
macro_rules! file {
    ($name:literal, $kind:literal) => {
        File {
            plain: include_bytes!(concat!("../../page/dist/", $name)),
            packed: include_bytes!(concat!("../../page/dist/", $name, ".gz")),
            kind: HeaderValue::from_static($kind),
        }
    };
}

const PAGE: File = file!("index.html", "text/html; charset=utf-8");
const SCRIPT: File = file!("page.js", "text/javascript; charset=utf-8");
const STYLE: File = file!("page.css", "text/css; charset=utf-8");
const ICON: File = file!("icon.svg", "image/svg+xml");

/// The routes that lead here.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(page))
        .route(ASSETS, get(asset))
}

async fn page(headers: HeaderMap) -> Response {
    let tag = tag(PAGE.plain);
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|tags| tags.to_str().ok())
        .any(|tags| tags.contains(&tag));
    let mut response = if is_known {
        guarded(StatusCode::NOT_MODIFIED.into_response())
    } else {
        give(&PAGE, &headers)
    };
    let answered = response.headers_mut();
    answered.insert(header::CACHE_CONTROL, ASK_AGAIN);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answered.insert(header::ETAG, tag);
    }
    response
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(file) = named(&name) else {
        return refusal(StatusCode::NOT_FOUND, "not_found", "there is nothing here");
    };
    let mut response = give(&file, &headers);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, FOREVER);
    response
}

/// The file that the page means by `name`.
fn named(name: &str) -> Option<File> {
    let quoted = format!("\"/assets/{name}\"");
    let is_ours = std::str::from_utf8(PAGE.plain).is_ok_and(|page| page.contains(&quoted));
    if !is_ours {
        return None;
    }
    match name.rsplit_once('.')?.1 {
        "js" => Some(SCRIPT),
        "css" => Some(STYLE),
        "svg" => Some(ICON),
        _ => None,
    }
}

fn give(file: &File, headers: &HeaderMap) -> Response {
    let mut response = if takes_gzip(headers) {
        let mut packed = file.packed.into_response();
        let gzip = HeaderValue::from_static("gzip");
        packed.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        packed
    } else {
        file.plain.into_response()
    };
    let given = response.headers_mut();
    given.insert(header::CONTENT_TYPE, file.kind.clone());
    given.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    guarded(response)
}

/// What a browser is told about everything that is given here.
fn guarded(mut response: Response) -> Response {
    let rules = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            HeaderValue::from_static("same-origin"),
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    response.headers_mut().extend(rules);
    response
}

/// Whether a client reads gzip: it names it, and not with a weight of nothing.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let mut codings = named.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refuses = matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !refuses
    })
}

/// A name for some bytes (FNV-1a): it only has to differ between builds.
fn tag(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}
