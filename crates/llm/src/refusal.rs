//! What a model server's error means, whatever words it uses.

use serde_json::Value;

use crate::error::ModelError;

/// Phrases by which servers say that a request does not fit into the context window: Anthropic's
/// two, OpenAI's two and its rate limit that only a shorter request can meet, vLLM's and most
/// gateways', llama.cpp's, LM Studio's, Ollama's, Groq's, Google's, TGI's, xAI's, and what smaller
/// servers say.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "context_length_exceeded",
    "exceeds the context window",
    "tokens must be reduced",
    "maximum context length",
    "exceed_context_size_error",
    "exceeds the available context size",
    "greater than the context length",
    "exceeds context length",
    "exceeds maximum context",
    "input is too long",
    "context length exceeded",
    "context window exceeded",
    "context size exceeded",
    "context_window_exceeded",
    "exceeds the context length",
    "exceeds the context size",
    "exceeds the model's context",
    "exceeds the model's maximum",
    "exceeds the maximum number of tokens",
    "longer than the model's context",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "maximum prompt length",
    "`max_new_tokens` must be <=",
    "too many tokens in the prompt",
];

/// What an answer that is not a stream means.
pub(crate) fn of_answer(status: u16, body: &str) -> ModelError {
    let said: Option<Value> = serde_json::from_str(body).ok();
    let message = said.as_ref().and_then(message_in);
    if (200..300).contains(&status) {
        return match message {
            Some(message) => failed(None, &message, body),
            None => ModelError::Unusable {
                what: "the answer is not a stream of events",
            },
        };
    }
    // A page for browsers says nothing that the status does not.
    let is_plain = !body.trim_start().starts_with(['<', '{', '[']);
    let message = message.or_else(|| is_plain.then(|| body.to_owned()));
    failed(Some(status), &message.unwrap_or_default(), body)
}

/// What an error in mid-stream means: a text, or an object with a message and a type or code.
pub(crate) fn in_stream(error: &Value) -> ModelError {
    let names = ["code", "status", "type"];
    let status = names.iter().find_map(|name| status_of(&error[*name]));
    let message = error.as_str().or_else(|| error["message"].as_str());
    failed(status, message.unwrap_or_default(), &error.to_string())
}

fn failed(status: Option<u16>, message: &str, body: &str) -> ModelError {
    let body = body.to_ascii_lowercase();
    let is_refusal = matches!(status, None | Some(400 | 413 | 422 | 429 | 500));
    if status == Some(413) || (is_refusal && TOO_LONG.iter().any(|phrase| body.contains(phrase))) {
        return ModelError::ContextTooLong;
    }
    ModelError::failed(status, message)
}

/// The message in a server's error, in one of the forms that servers use.
fn message_in(body: &Value) -> Option<String> {
    let body = body
        .as_array()
        .and_then(|list| list.first())
        .unwrap_or(body);
    let error = &body["error"];
    let forms = [&error["message"], error, &body["message"], &body["detail"]];
    forms.into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// The HTTP status that an error would have had before the answer began.
fn status_of(code: &Value) -> Option<u16> {
    if let Some(number) = code.as_u64() {
        let number = u16::try_from(number).ok()?;
        return (400..600).contains(&number).then_some(number);
    }
    Some(match code.as_str()? {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" => 429,
        "api_error" | "server_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{in_stream, of_answer};
    use crate::error::ModelError;

    #[test]
    fn every_providers_way_of_saying_too_long_is_understood() {
        let bodies = [
            // Anthropic
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}"#,
            // OpenAI
            r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            // vLLM
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}"#,
            // llama.cpp
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
        ];
        let plain = [
            "context length exceeded",
            "context window exceeded",
            "input length exceeds the context length",
            "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
            "Please reduce the length of the messages or completion.",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
        ];
        for message in plain {
            let body = json!({"error": {"message": message}}).to_string();
            assert_eq!(of_answer(400, &body), ModelError::ContextTooLong, "{body}");
        }
        for body in bodies {
            assert_eq!(of_answer(400, body), ModelError::ContextTooLong, "{body}");
        }
        assert_eq!(of_answer(413, ""), ModelError::ContextTooLong);
        let rate = r#"{"error":{"message":"Request too large. The input or output tokens must be reduced in order to run successfully.","code":"rate_limit_exceeded"}}"#;
        assert_eq!(of_answer(429, rate), ModelError::ContextTooLong);
        let failed = json!({"code": "context_length_exceeded", "message": "Too long."});
        assert_eq!(in_stream(&failed), ModelError::ContextTooLong);
    }

    #[test]
    fn what_only_mentions_the_context_is_an_error_like_others() {
        let body = r#"{"error":{"message":"The maximum context length is a secret"}}"#;
        assert!(matches!(of_answer(401, body), ModelError::Failed { .. }));
    }

    #[test]
    fn an_error_in_mid_stream_has_the_status_it_would_have_had() {
        let shown = |error| in_stream(&error).to_string();
        assert_eq!(
            shown(json!({"type": "overloaded_error", "message": "Overloaded"})),
            "the model's server answered 529: Overloaded"
        );
        assert_eq!(
            shown(json!({"code": "server_error", "message": "Try again."})),
            "the model's server answered 500: Try again"
        );
        assert_eq!(
            shown(json!("llama runner died")),
            "the model's server reported an error: llama runner died"
        );
    }
}
