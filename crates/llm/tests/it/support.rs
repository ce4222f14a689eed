//! Asking a model once and telling what it said, one line per chunk.

use std::sync::Arc;

use domain::Limits;
use futures_util::StreamExt;
use llm::{
    Chunk, Message, Model, ModelError, ModelRequest, ModelSettings, Provider, ToolSpec, choose,
};
use serde_json::json;

use crate::formats::Format;
use crate::server::{Act, Server};

/// The key that every provider is given; it must never be seen again but in a header.
pub(crate) const KEY: &str = "sk-test";

/// Asks a server that answers with `reply`, and compares.
pub(crate) async fn check(format: &Format, reply: Vec<Act>, expected: &str) {
    let server = Server::start(vec![reply]).await;
    assert_eq!(ask(format, &server).await, expected, "{}", format.spec);
}

/// Asks once.
pub(crate) async fn ask(format: &Format, server: &Server) -> String {
    show(open(format, &server.base, Limits::default()).await.as_mut()).await
}

/// Settings under which every form speaks to `base`.
pub(crate) fn settings(spec: &str, base: &str, limits: Limits) -> ModelSettings {
    with_key(spec, base, limits, KEY)
}

/// As [`settings`], with another key.
pub(crate) fn with_key(spec: &str, base: &str, limits: Limits, key: &str) -> ModelSettings {
    ModelSettings {
        spec: Some(spec.to_owned()),
        anthropic_key: Some(key.into()),
        anthropic_base: Some(base.to_owned()),
        openai_key: Some(key.into()),
        openai_base: Some(base.to_owned()),
        ollama_host: Some(base.to_owned()),
        limits,
        ..ModelSettings::default()
    }
}

pub(crate) async fn provider(format: &Format, base: &str, limits: Limits) -> Arc<dyn Provider> {
    let settings = settings(format.spec, base, limits);
    choose(settings).await.unwrap().provider
}

pub(crate) async fn open(format: &Format, base: &str, limits: Limits) -> Box<dyn Model> {
    provider(format, base, limits).await.open()
}

/// A small conversation.
pub(crate) fn request() -> ModelRequest {
    let hello = Message::User {
        text: "hello".to_owned(),
        blocks: vec![],
    };
    conversation(vec![hello])
}

pub(crate) fn conversation(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: "Be kind.".to_owned(),
        messages: Arc::new(messages),
        tools: Arc::new([ToolSpec {
            name: "read".to_owned(),
            description: "Reads a file.".to_owned(),
            input_schema: json!({ "type": "object" }).into(),
        }]),
    }
}

pub(crate) async fn failure(model: &mut dyn Model) -> ModelError {
    let mut stream = model.stream(request());
    stream.next().await.unwrap().unwrap_err()
}

/// The chunks of one call, one line each; of its counts the last, before the end.
pub(crate) async fn show(model: &mut dyn Model) -> String {
    let (mut lines, mut counted) = (String::new(), String::new());
    for chunk in chunks(model, request()).await {
        if let Ok(Chunk::Usage(usage)) = &chunk {
            counted = format!(
                "usage {} {} {}\n",
                usage.input_tokens, usage.output_tokens, usage.cached_tokens
            );
        }
        lines += &match chunk {
            Ok(Chunk::Text(text)) => format!("text {text}\n"),
            Ok(Chunk::Thought(text)) => format!("thought {text}\n"),
            Ok(Chunk::ToolCall(call)) => format!("tool {} {}\n", call.name, call.input),
            Ok(Chunk::Usage(_)) => String::new(),
            Ok(Chunk::Stop(stop)) => format!("{counted}stop {stop:?}\n"),
            Err(error) => format!("{counted}error {error}\n"),
        };
    }
    lines
}

/// Everything that comes of one call.
pub(crate) async fn chunks(
    model: &mut dyn Model,
    request: ModelRequest,
) -> Vec<Result<Chunk, ModelError>> {
    model.stream(request).collect().await
}
