//! What a server wants the session's model to answer, and what it is told.
#![expect(deprecated, reason = "servers of older eras ask for it")]

use domain::CallId;
use domain::limits::{MCP_SAMPLE_BYTES_MAX, MCP_SAMPLE_TOKENS_MAX};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorCode, ErrorData, Role, SamplingMessage,
    SamplingMessageContentBlock,
};
use tools::asks::{NotSampled, SampleRequest, Sampled, Speaker};

use crate::error::quoted;

/// What JSON-RPC calls a wish that the person has refused.
const REFUSED: ErrorCode = ErrorCode(-1);

/// The model as a server hears of it: which one it is, is the person's affair.
const MODEL: &str = "fastness";

/// What `server` wants while `call` runs.
///
/// # Errors
/// If it is more than text, or too much of it.
pub(crate) fn wish(
    server: &str,
    call: CallId,
    params: CreateMessageRequestParams,
) -> Result<SampleRequest, ErrorData> {
    let wrong = |why: &'static str| ErrorData::invalid_params(why, None);
    if params.tools.is_some_and(|tools| !tools.is_empty()) {
        return Err(wrong("the model is asked without tools here"));
    }
    let system = params.system_prompt.unwrap_or_default();
    let mut bytes = system.len();
    let mut messages = Vec::with_capacity(params.messages.len().min(64));
    for message in params.messages {
        let speaker = match message.role {
            Role::User => Speaker::Person,
            Role::Assistant => Speaker::Model,
        };
        let mut said = String::new();
        for block in message.content.into_vec() {
            let SamplingMessageContentBlock::Text(text) = block else {
                return Err(wrong("the model is asked in text only here"));
            };
            said.push_str(&text.text);
        }
        bytes += said.len();
        messages.push((speaker, said));
        if bytes > MCP_SAMPLE_BYTES_MAX {
            return Err(wrong("that is more than the model is asked to read here"));
        }
    }
    match messages.is_empty() {
        true => Err(wrong("there is nothing to answer")),
        false => Ok(SampleRequest {
            call,
            server: quoted(server),
            system,
            messages,
            tokens_max: params.max_tokens.clamp(1, MCP_SAMPLE_TOKENS_MAX),
        }),
    }
}

/// What the server is told.
///
/// # Errors
/// If the model did not answer.
pub(crate) fn told(sampled: Result<Sampled, NotSampled>) -> Result<CreateMessageResult, ErrorData> {
    match sampled {
        Ok(Sampled { text, is_cut }) => {
            let text = SamplingMessageContentBlock::text(text);
            let message = SamplingMessage::new(Role::Assistant, text);
            let stop = match is_cut {
                true => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
                false => CreateMessageResult::STOP_REASON_END_TURN,
            };
            let told = CreateMessageResult::new(message, MODEL.to_owned());
            Ok(told.with_stop_reason(stop))
        }
        Err(NotSampled::Denied) => Err(refused()),
        Err(NotSampled::Failed) => Err(ErrorData::internal_error("the model did not answer", None)),
    }
}

/// The answer to a wish that nobody has allowed.
pub(crate) fn refused() -> ErrorData {
    ErrorData::new(
        REFUSED,
        "the user has not allowed the model to be asked",
        None,
    )
}

#[cfg(test)]
mod tests {
    use domain::CallId;
    use domain::limits::MCP_SAMPLE_TOKENS_MAX;
    use rmcp::model::CreateMessageRequestParams;
    use serde_json::{Value, json};
    use tools::asks::Speaker;

    use super::wish;

    fn params(messages: Value) -> CreateMessageRequestParams {
        let params = json!({"messages": messages, "maxTokens": 1_000_000, "systemPrompt": "s"});
        serde_json::from_value(params).unwrap()
    }

    #[test]
    fn a_server_gets_no_more_of_the_model_than_text_and_so_many_tokens() {
        let text = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let asked = params(json!([text("user", "a"), text("assistant", "b")]));
        let asked = wish("s", CallId::random(), asked).unwrap();
        assert_eq!(asked.tokens_max, MCP_SAMPLE_TOKENS_MAX);
        let said = [
            (Speaker::Person, "a".to_owned()),
            (Speaker::Model, "b".to_owned()),
        ];
        assert_eq!(asked.messages, said);
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        for wrong in [
            json!([]),
            json!([{"role": "user", "content": image}]),
            json!([text("user", &"x".repeat(1 << 20))]),
        ] {
            assert!(wish("s", CallId::random(), params(wrong)).is_err());
        }
    }
}
