//! The real providers, asked one short question each; only where their key is in the environment.

use domain::Limits;
use llm::{Chunk, ModelSettings, choose};

use crate::support::{chunks, request};

/// Asks `spec`; without a key there is nothing to show, and the test says so.
#[expect(
    clippy::print_stdout,
    reason = "whoever runs it must see what was not shown"
)]
async fn ask(spec: &str, key: &str, settings: impl Fn(String) -> ModelSettings) {
    let Some(value) = std::env::vars().find_map(|(name, value)| (name == key).then_some(value))
    else {
        println!("not asked: {key} is not set");
        return;
    };
    let settings = ModelSettings {
        spec: Some(spec.to_owned()),
        limits: Limits::default(),
        ..settings(value)
    };
    let mut model = choose(settings).await.unwrap().provider.open();
    let answer = chunks(model.as_mut(), request()).await;
    let has_text = answer.iter().any(|one| matches!(one, Ok(Chunk::Text(_))));
    let has_usage = answer.iter().any(|one| matches!(one, Ok(Chunk::Usage(_))));
    assert!(has_text && has_usage, "{answer:?}");
}

#[tokio::test]
async fn live_anthropic_answers() {
    ask("anthropic:claude-haiku-5-5", "ANTHROPIC_API_KEY", |key| {
        ModelSettings {
            anthropic_key: Some(key.into()),
            ..ModelSettings::default()
        }
    })
    .await;
}

#[tokio::test]
async fn live_openai_answers() {
    for spec in ["openai:gpt-6-luna", "openai-chat:gpt-5.4-mini"] {
        ask(spec, "OPENAI_API_KEY", |key| ModelSettings {
            openai_key: Some(key.into()),
            ..ModelSettings::default()
        })
        .await;
    }
}

#[tokio::test]
async fn live_ollama_answers() {
    let names = std::env::vars().find(|(name, _)| name == "FASTNESS_LIVE_OLLAMA_MODEL");
    let Some((_, name)) = names else {
        println!("not asked: FASTNESS_LIVE_OLLAMA_MODEL is not set");
        return;
    };
    ask(
        &format!("ollama:{name}"),
        "FASTNESS_LIVE_OLLAMA_MODEL",
        |_| ModelSettings::default(),
    )
    .await;
}
