//! Messages of ours as frames, each a single line.

use serde::Serialize;
use serde_json::value::RawValue;

use super::error::RpcError;
use super::id::RequestId;
use crate::text::{push_string, single_line};

/// The answer to a request that went well.
///
/// # Errors
/// If `result` cannot be JSON.
pub fn response<T: Serialize + ?Sized>(id: &RequestId, result: &T) -> serde_json::Result<String> {
    let json = serde_json::to_string(result)?;
    Ok(assemble(&[
        r#"{"jsonrpc":"2.0","id":"#,
        id.as_json(),
        r#","result":"#,
        &json,
        "}",
    ]))
}

/// The answer to a request that did not.
#[must_use]
pub fn error_response(id: &RequestId, error: &RpcError) -> String {
    let mut message = String::with_capacity(error.message.len() + 2);
    push_string(&mut message, &error.message);
    let code = error.code.to_string();
    let data = error.data.as_ref().map(|data| format!(r#","data":{data}"#));
    assemble(&[
        r#"{"jsonrpc":"2.0","id":"#,
        id.as_json(),
        r#","error":{"code":"#,
        &code,
        r#","message":"#,
        &message,
        data.as_deref().unwrap_or_default(),
        "}}",
    ])
}

/// A request of ours.
///
/// # Errors
/// If `params` cannot be JSON.
pub fn request<T: Serialize + ?Sized>(
    id: &RequestId,
    method: &str,
    params: &T,
) -> serde_json::Result<String> {
    call(Some(id), method, params)
}

/// A notification of ours.
///
/// # Errors
/// If `params` cannot be JSON.
pub fn notification<T: Serialize + ?Sized>(method: &str, params: &T) -> serde_json::Result<String> {
    call(None, method, params)
}

#[derive(Serialize)]
struct Call<'a, T: ?Sized> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    method: &'a str,
    params: &'a T,
}

fn call<T: Serialize + ?Sized>(
    id: Option<&RequestId>,
    method: &str,
    params: &T,
) -> serde_json::Result<String> {
    let id = id
        .map(|id| serde_json::from_str(id.as_json()))
        .transpose()?;
    serde_json::to_string(&Call {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
    .map(single_line)
}

fn assemble(parts: &[&str]) -> String {
    single_line(parts.concat())
}
