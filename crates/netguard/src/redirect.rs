//! Rule 5: what a response says about where to go next. Only the status and Location are asked;
//! `Refresh`, `Link`, early hints and pages that move on by themselves are never followed.

use http::{HeaderMap, Method, StatusCode, header};

use crate::refusal::{RedirectFault, Refusal, UrlFault};
use crate::target::{Target, check_characters};

/// The target of a redirect, if the response is one.
///
/// # Errors
/// If it is one that is not followed.
pub(crate) fn next(
    from: &Target,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Target>, Refusal> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let mut locations = headers.get_all(header::LOCATION).iter();
    let Some(location) = locations.next() else {
        return Ok(None);
    };
    let unreadable = Refusal::Redirect(RedirectFault::Location);
    if locations.next().is_some() {
        return Err(unreadable);
    }
    let location = std::str::from_utf8(location.as_bytes()).map_err(|_| unreadable)?;
    let target = Target::parse(&absolute(from, location)?)?;
    if from.is_secure() && !target.is_secure() {
        return Err(Refusal::Redirect(RedirectFault::Downgrade));
    }
    Ok(Some(target))
}

/// The method after a redirect: what browsers do, and a body is never sent on after a change of
/// origin.
pub(crate) fn method(status: StatusCode, method: &Method, keeps_body: bool) -> Method {
    let is_safe = matches!(*method, Method::GET | Method::HEAD);
    let turns_to_get = match status.as_u16() {
        303 => true,
        301 | 302 => *method == Method::POST,
        _ => !keeps_body,
    };
    if turns_to_get && !is_safe {
        Method::GET
    } else {
        method.clone()
    }
}

/// The text of the URL that `location` means. A location with a scheme is taken as it is, because
/// parsers read `http:/host` in a relative and in an absolute way.
fn absolute(from: &Target, location: &str) -> Result<String, Refusal> {
    check_characters(location).map_err(Refusal::Url)?;
    if has_scheme(location) {
        return Ok(location.to_owned());
    }
    if location.starts_with("//") {
        return Ok(format!("{}:{location}", from.url().scheme()));
    }
    let joined = from.url().join(location);
    let joined = joined.map_err(|_| Refusal::Url(UrlFault::Malformed))?;
    Ok(joined.into())
}

fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else {
        return false;
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_part)
}
