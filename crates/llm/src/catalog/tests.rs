//! Stories about switching models while the program runs.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Catalog, Models};
use crate::choose::{ChooseError, ModelSettings, choose};

async fn models(settings: ModelSettings) -> Arc<Models> {
    choose(settings).await.unwrap().models
}

fn specs(models: &Models) -> Vec<String> {
    models.options().into_iter().map(|one| one.spec).collect()
}

#[tokio::test]
async fn the_own_model_comes_first_then_those_whose_key_is_set_each_once() {
    let models = models(ModelSettings {
        spec: Some("openai:gpt-6-luna".to_owned()),
        openai_key: Some("k".into()),
        ..ModelSettings::default()
    })
    .await;
    let expected = [
        "openai:gpt-6-luna",
        "openai:gpt-6-sol",
        "openai:gpt-6-astra",
    ];
    assert_eq!(specs(&models), expected);
}

#[tokio::test]
async fn another_model_opens_within_the_same_settings() {
    let models = models(ModelSettings {
        spec: Some("offline".to_owned()),
        anthropic_key: Some("k".into()),
        context_window: Some(5_000),
        ..ModelSettings::default()
    })
    .await;
    let other = models.provider("anthropic:claude-opus-5-5").unwrap();
    assert_eq!(other.label(), "anthropic:claude-opus-5-5");
    assert_eq!(other.context_window(), 5_000);
    assert_eq!(other.open().context_window(), 5_000);
    let missing = models.provider("openai:gpt-6-sol").err();
    assert!(matches!(missing, Some(ChooseError::NoKey { .. })));
}

#[tokio::test]
async fn a_client_gets_only_what_is_on_offer_and_never_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("demo.json");
    std::fs::write(&file, r#"[[{"text":"hi"}]]"#).unwrap();
    let spec = format!("script:{}", file.display());
    let models = models(ModelSettings {
        spec: Some(spec.clone()),
        ..ModelSettings::default()
    })
    .await;
    assert_eq!(specs(&models), ["script:demo.json"]);
    let own = models.offered("script:demo.json").unwrap();
    assert_eq!(own.label(), "script:demo.json");
    for refused in [spec.as_str(), "offline", "openai-chat:x"] {
        let error = models.offered(refused).err();
        assert!(matches!(error, Some(ChooseError::NotOffered)), "{refused}");
    }
    // The operator's own words may name a file.
    assert!(models.provider(&spec).is_ok());
}

#[tokio::test]
async fn ollamas_models_are_on_offer_once_it_was_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let models = models(ModelSettings {
        spec: Some("offline".to_owned()),
        ollama_host: Some(host),
        ..ModelSettings::default()
    })
    .await;
    let offline = "offline assistant, not an AI model";
    assert_eq!(specs(&models), [offline]);
    let ((), ()) = tokio::join!(models.refresh(), async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 512]).await;
        let list =
            r#"{"models":[{"name":"qwen3:4b"},{"name":"nomic-embed-text"},{"name":"gemma4"}]}"#;
        let answer = format!("HTTP/1.0 200 OK\r\n\r\n{list}");
        socket.write_all(answer.as_bytes()).await.unwrap();
    });
    assert_eq!(
        specs(&models),
        [offline, "ollama:qwen3:4b", "ollama:gemma4"]
    );
    drop(listener);
    models.refresh().await;
    assert_eq!(specs(&models), [offline]);
}
