//! What the Responses API is told, word for word.

use std::sync::Arc;

use domain::CallId;
use serde_json::{Value, json};

use super::body;
use crate::dialect::{Asked, Extra};
use crate::memory::{Memory, Piece};
use crate::model::{Message, ModelRequest, ToolCall, ToolOutcome, ToolSpec};

fn conversation() -> ModelRequest {
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "QUJD" });
    let words = json!({ "type": "text", "text": "read a" });
    let messages = vec![
        Message::User {
            text: "read a".to_owned(),
            blocks: vec![words, image],
        },
        Message::Assistant {
            text: "Let me see.".to_owned(),
            calls: vec![ToolCall {
                id: CallId::new("abc"),
                name: "read".to_owned(),
                input: json!({ "path": "a" }),
            }],
        },
        Message::ToolResults(vec![ToolOutcome {
            call: CallId::new("abc"),
            name: "read".to_owned(),
            text: "no such file".to_owned(),
            failed: true,
            images: Vec::new(),
        }]),
    ];
    ModelRequest {
        system: "Be brief.".to_owned(),
        messages: Arc::new(messages),
        tools: Arc::new([ToolSpec {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            input_schema: json!({ "type": "object" }).into(),
        }]),
    }
}

fn sent(asked: &Asked<'_>) -> Value {
    serde_json::from_slice(&body(asked)).unwrap()
}

#[test]
fn a_conversation_with_tools_is_told_in_items_and_nothing_is_stored() {
    let request = conversation();
    let call = json!({ "type": "function_call", "call_id": "abc", "name": "read",
        "arguments": "{\"path\":\"a\"}" });
    let memory = Memory::default();
    let mut asked = Asked::of("mock", &request, &memory);
    asked.extras = asked.extras.without(Extra::CacheKey);
    assert_eq!(
        sent(&asked),
        json!({
            "model": "mock",
            "stream": true,
            "store": false,
            "max_output_tokens": 1_000,
            "instructions": "Be brief.",
            "input": [
                { "type": "message", "role": "user", "content": [
                    { "type": "input_text", "text": "read a" },
                    { "type": "input_image", "image_url": "data:image/png;base64,QUJD" } ] },
                { "type": "message", "role": "assistant", "content": [
                    { "type": "output_text", "text": "Let me see." } ] },
                call,
                { "type": "function_call_output", "call_id": "abc",
                  "output": "The tool did not succeed: no such file" },
            ],
            "tools": [{ "type": "function", "name": "read", "description": "Reads.",
                "parameters": { "type": "object" }, "strict": false }],
            "parallel_tool_calls": true,
        })
    );
}

#[test]
fn sealed_reasoning_goes_back_before_the_call_it_led_to() {
    let request = conversation();
    let sealed = json!({ "type": "reasoning", "id": "rs_1", "summary": [],
        "encrypted_content": "x" });
    let mut memory = Memory::default();
    memory.remember(vec![
        Piece::Sealed(sealed.clone()),
        Piece::Call(CallId::new("abc")),
    ]);
    let sent = sent(&Asked::of("gpt-6-sol", &request, &memory));
    assert_eq!(sent["input"][1], sealed);
    assert_eq!(sent["input"][2]["type"], "function_call");
    assert_eq!(sent["reasoning"], json!({ "summary": "auto" }));
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
}

#[test]
fn what_a_model_refused_is_left_out() {
    let request = conversation();
    let memory = Memory::default();
    let mut asked = Asked::of("gpt-6-sol", &request, &memory);
    asked.extras = asked.extras.without(Extra::Thoughts);
    let sent = sent(&asked);
    assert_eq!(sent.get("reasoning"), None);
    assert_eq!(sent.get("include"), None);
}

#[test]
fn a_conversation_keeps_its_cache_key_as_it_grows_and_another_has_another() {
    let memory = Memory::default();
    let key = |request: &ModelRequest| {
        let sent = sent(&Asked::of("mock", request, &memory));
        sent["prompt_cache_key"].as_str().unwrap().to_owned()
    };
    let whole = conversation();
    let mut begun = conversation();
    Arc::make_mut(&mut begun.messages).truncate(1);
    assert_eq!(key(&begun), key(&whole));
    // OpenAI takes up to 64 characters.
    assert!(key(&whole).len() <= 64);
    let mut other = conversation();
    Arc::make_mut(&mut other.messages)[0] = Message::User {
        text: "read b".to_owned(),
        blocks: Vec::new(),
    };
    assert_ne!(key(&other), key(&whole));
}
