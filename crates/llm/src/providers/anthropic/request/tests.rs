//! What Anthropic is told, word for word.

use std::sync::Arc;

use domain::CallId;
use serde_json::{Value, json};

use super::body;
use crate::dialect::{Asked, Extra};
use crate::memory::{Memory, Piece};
use crate::model::{Message, ModelRequest, ToolCall, ToolOutcome, ToolSpec};

fn sent(model: &str, messages: Vec<Message>, memory: &Memory) -> Value {
    let request = request(messages);
    serde_json::from_slice(&body(&Asked::of(model, &request, memory))).unwrap()
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "Does it.".to_owned(),
        input_schema: json!({ "type": "object" }).into(),
    };
    ModelRequest {
        system: "Be brief.".to_owned(),
        messages: Arc::new(messages),
        tools: Arc::new([tool("list"), tool("read")]),
    }
}

fn user(text: &str) -> Message {
    Message::User {
        text: text.to_owned(),
        blocks: vec![],
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: "read".to_owned(),
        input: json!({ "path": "a" }),
    }
}

fn looking(text: &str) -> Message {
    Message::Assistant {
        text: text.to_owned(),
        calls: vec![call("abc")],
    }
}

fn result(failed: bool) -> Message {
    Message::ToolResults(vec![ToolOutcome {
        call: CallId::new("abc"),
        name: "read".to_owned(),
        text: "no such file".to_owned(),
        failed,
        images: Vec::new(),
    }])
}

#[test]
fn system_last_tool_and_last_user_message_are_marked_for_the_cache() {
    let mark = json!({ "type": "ephemeral" });
    let memory = Memory::default();
    let sent = sent(
        "mock",
        vec![user("read a"), looking(" "), result(true)],
        &memory,
    );
    assert_eq!(
        sent,
        json!({
            "model": "mock",
            "max_tokens": 1_000,
            "stream": true,
            "system": [{ "type": "text", "text": "Be brief.", "cache_control": mark }],
            "tools": [
                { "name": "list", "description": "Does it.", "input_schema": { "type": "object" } },
                { "name": "read", "description": "Does it.", "input_schema": { "type": "object" },
                  "cache_control": mark },
            ],
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "read a" }] },
                { "role": "assistant", "content": [
                    { "type": "tool_use", "id": "abc", "name": "read", "input": { "path": "a" } } ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "abc", "content": "no such file",
                      "is_error": true, "cache_control": mark } ] },
            ],
        })
    );
}

#[test]
fn sealed_thoughts_go_back_as_they_came_in_their_place() {
    let sealed = json!({ "type": "thinking", "thinking": "Hm.", "signature": "s1" });
    let mut memory = Memory::default();
    memory.remember(vec![
        Piece::Sealed(sealed.clone()),
        Piece::Text("Let me see.".into()),
        Piece::Sealed(json!({ "type": "redacted_thinking", "data": "r" })),
        Piece::Call(CallId::new("abc")),
    ]);
    let name = "claude-haiku-4-5";
    let conversation = vec![user("read a"), looking("Let me see."), result(false)];
    let sent_now = sent(name, conversation.clone(), &memory);
    assert_eq!(
        sent_now["messages"][1]["content"],
        json!([
            sealed,
            { "type": "text", "text": "Let me see." },
            { "type": "redacted_thinking", "data": "r" },
            { "type": "tool_use", "id": "abc", "name": "read", "input": { "path": "a" } },
        ])
    );
    assert_eq!(sent_now["thinking"]["type"], "enabled");
    // A model that has forgotten must not think in the middle of the loop.
    let forgotten = sent(name, conversation, &Memory::default());
    assert_eq!(forgotten.get("thinking"), None);
}

#[test]
fn messages_of_one_role_are_joined_and_images_shown() {
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "QUJD" });
    let words = json!({ "type": "text", "text": "and this?" });
    let shown = Message::User {
        text: "and this?".to_owned(),
        blocks: vec![words, image],
    };
    let sent = sent("mock", vec![user("what?"), shown], &Memory::default());
    assert_eq!(
        sent["messages"],
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "what?" },
            { "type": "text", "text": "and this?" },
            { "type": "image",
              "source": { "type": "base64", "media_type": "image/png", "data": "QUJD" },
              "cache_control": { "type": "ephemeral" } },
        ]}])
    );
}

#[test]
fn what_a_model_refused_is_left_out() {
    let request = request(vec![user("hello")]);
    let memory = Memory::default();
    let mut asked = Asked::of("claude-sonnet-5-5", &request, &memory);
    let sent: Value = serde_json::from_slice(&body(&asked)).unwrap();
    let wanted = json!({ "type": "adaptive", "display": "summarized" });
    assert_eq!(sent["thinking"], wanted);
    asked.extras = asked.extras.without(Extra::Thoughts);
    let sent: Value = serde_json::from_slice(&body(&asked)).unwrap();
    assert_eq!(sent.get("thinking"), None);
}

#[test]
fn an_input_that_was_not_json_is_wrapped() {
    let call = ToolCall {
        input: json!("{path:"),
        ..call("abc")
    };
    let looking = Message::Assistant {
        text: String::new(),
        calls: vec![call],
    };
    let conversation = vec![user("read"), looking, result(true)];
    let sent = sent("mock", conversation, &Memory::default());
    let input = &sent["messages"][1]["content"][0]["input"];
    assert_eq!(*input, json!({ "input": "{path:" }));
}
