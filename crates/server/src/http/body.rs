//! Reading a request's body: content type, then size, then time, and only then what it says.
//!
//! [`read`] gives the bytes and [`object`] what they mean. Every refusal is an answer; a client
//! that is still sending gets it too, because the socket's farewell reads on for a while.

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use domain::Limits;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::refusal;

/// Room made for a body before its bytes are there; a larger one grows as it comes, so that a
/// promised length alone costs nothing.
const ROOM_BYTES: usize = 64 * 1024;

/// The body of a JSON request of at most `bytes_max` bytes, or the answer to give instead.
pub(crate) async fn read(
    limits: &Limits,
    request: Request,
    bytes_max: usize,
) -> Result<Bytes, Response> {
    check_content_type(request.headers())?;
    let promised = request.body().size_hint();
    if promised.lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let room = promised.exact().map_or(0, |bytes| bytes as usize);
    let mut body = BytesMut::with_capacity(room.min(ROOM_BYTES));
    let mut pieces = request.into_body().into_data_stream();
    let reading = async {
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| cut_off())?;
            if piece.len() > bytes_max - body.len() {
                return Err(too_large(bytes_max));
            }
            body.extend_from_slice(&piece);
        }
        Ok(())
    };
    match tokio::time::timeout(limits.body, reading).await {
        Ok(read) => read.map(|()| body.freeze()),
        Err(_) => Err(too_slow()),
    }
}

/// What a JSON body says, if it is an object of the shape of `T`.
pub(crate) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    let not_json = || {
        let message = "the body is not JSON";
        refusal(StatusCode::BAD_REQUEST, "invalid_json", message)
    };
    if let Err(error) = wire::rpc::check_size(body) {
        let too_deep = error.code == wire::rpc::code::PARSE;
        return Err(if too_deep {
            not_json()
        } else {
            misshapen("the body holds too many values")
        });
    }
    let value: Value = serde_json::from_slice(body).map_err(|_| not_json())?;
    if !value.is_object() {
        return Err(misshapen("the body must be a JSON object"));
    }
    serde_json::from_value(value).map_err(|error| misshapen(&error.to_string()))
}

/// The answer to a body that is JSON but not what the route takes.
pub(crate) fn misshapen(message: &str) -> Response {
    refusal(StatusCode::BAD_REQUEST, "invalid_request", message)
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Response> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let only = types.next().filter(|_| types.next().is_none());
    let essence = only
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    let is_plain = headers
        .get(header::CONTENT_ENCODING)
        .is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_plain && essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(refusal(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "send the body as application/json, not compressed",
    ))
}

fn too_large(bytes_max: usize) -> Response {
    refusal(
        StatusCode::PAYLOAD_TOO_LARGE,
        "payload_too_large",
        &format!("the body may have {bytes_max} bytes"),
    )
}

fn cut_off() -> Response {
    misshapen("the body ended before it was complete")
}

fn too_slow() -> Response {
    refusal(
        StatusCode::REQUEST_TIMEOUT,
        "request_timeout",
        "the body did not come in time",
    )
}
