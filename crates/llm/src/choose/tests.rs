//! Stories about the choice of a model.

use std::time::Duration;

use egress::{RootSources, Roots};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{Choice, ChooseError, ModelSettings, choose, choose_among};
use crate::probe::LocalServer;
use crate::secret::Key;

#[tokio::test]
async fn what_was_asked_for_is_taken_at_once() {
    let settings = |spec: &str| ModelSettings {
        spec: Some(spec.to_owned()),
        spec_from: Some("--model".to_owned()),
        openai_base: Some("http://127.0.0.1:9/v1".to_owned()),
        openai_key: Some("sk-x".into()),
        anthropic_key: Some("a".into()),
        ..ModelSettings::default()
    };
    let start = Instant::now();
    for (spec, label) in [
        ("offline", "offline assistant, not an AI model"),
        ("anthropic:claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("openai:gpt-6-sol", "openai:gpt-6-sol"),
        ("openai-chat:mock", "openai-chat:mock"),
        ("openai-chat:a:b/c", "openai-chat:a:b/c"),
        ("ollama:qwen3:4b", "ollama:qwen3:4b"),
    ] {
        let choice = choose(settings(spec)).await.unwrap();
        assert_eq!(choice.provider.label(), label);
        assert_eq!(choice.why, "set by --model");
    }
    assert!(start.elapsed() < Duration::from_millis(50));
}

#[tokio::test]
async fn a_wrong_spec_is_answered_with_the_forms_there_are() {
    for spec in ["gpt-5", "magic:x", "script:", "openai-chat:", ":"] {
        let error = refused(spec).await;
        assert!(
            error.contains("openai-chat:NAME, ollama:NAME, script:FILE or offline"),
            "{error}"
        );
        assert!(error.contains(spec), "{error}");
    }
    for (spec, needs) in [
        (
            "anthropic:claude",
            "anthropic needs ANTHROPIC_API_KEY or `fastness login anthropic`, or ANTHROPIC_BASE_URL",
        ),
        (
            "openai:gpt",
            "openai needs OPENAI_API_KEY or `fastness login openai`, or OPENAI_BASE_URL",
        ),
        (
            "openai-chat:gpt",
            "openai needs OPENAI_API_KEY or `fastness login openai`, or OPENAI_BASE_URL",
        ),
    ] {
        let error = refused(spec).await;
        assert!(error.starts_with(needs), "{error}");
    }
    assert!(
        refused("script:no-such-file")
            .await
            .contains("cannot be read")
    );
    let wrong_base = choose(ModelSettings {
        spec: Some("openai-chat:mock".to_owned()),
        openai_base: Some("localhost:4000".to_owned()),
        ..ModelSettings::default()
    });
    let error = wrong_base.await.err().unwrap().to_string();
    assert_eq!(error, "OPENAI_BASE_URL is not an http or https URL");
}

#[tokio::test]
async fn a_key_is_enough_anthropics_comes_first_and_an_empty_one_is_none() {
    let key = |secret: &str, source: &str| Key {
        secret: secret.into(),
        source: source.to_owned(),
    };
    let chosen = |anthropic: &'static str, openai: &'static str| async move {
        let settings = ModelSettings {
            spec: Some(" ".to_owned()),
            openai_key: Some(key(openai, "OPENAI_API_KEY is set")),
            anthropic_key: Some(key(anthropic, "ANTHROPIC_API_KEY is set")),
            ..ModelSettings::default()
        };
        let choice = choose_among(settings, &[]).await.unwrap();
        (choice.provider.label().to_owned(), choice.why)
    };
    let told = |label: &str, why: &str| (label.to_owned(), why.to_owned());
    assert_eq!(
        chosen("a", "sk-x").await,
        told("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY is set")
    );
    assert_eq!(
        chosen("", "sk-x").await,
        told("openai:gpt-6-sol", "OPENAI_API_KEY is set")
    );
    assert_eq!(
        chosen(" ", "").await,
        told(
            "offline assistant, not an AI model",
            "no Anthropic or OpenAI key and no local model server found"
        )
    );
}

#[tokio::test]
async fn a_file_of_authorities_must_hold_some() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    for text in ["", "not a certificate"] {
        std::fs::write(&file, text).unwrap();
        let error = choose(ModelSettings {
            spec: Some("offline".to_owned()),
            roots: Roots::new(RootSources {
                ca_file: Some(file.clone()),
                ..RootSources::default()
            }),
            ..ModelSettings::default()
        });
        let error = error.await.err().unwrap().to_string();
        assert!(error.ends_with("ca.pem holds no certificates in PEM that can be read"));
    }
}

#[tokio::test]
async fn local_servers_are_found_by_what_they_answer_in_their_order() {
    let ollama = answer(r#"{"models":[{"name":"nomic-embed"},{"name":"qwen3:4b"}]}"#).await;
    let studio = answer(r#"{"object":"list","data":[{"id":"gemma"}]}"#).await;
    let vllm = answer(r#"{"data":[{"id":"llama","owned_by":"vllm"}]}"#).await;
    let other = answer("<html>not a model server</html>").await;
    let cases = [
        (
            vec![("vLLM", vllm), ("Ollama", ollama)],
            Some(("llama (vLLM)", "vLLM")),
        ),
        (
            vec![("Ollama", ollama), ("vLLM", vllm)],
            Some(("ollama:qwen3:4b", "Ollama")),
        ),
        (
            vec![("Ollama", other), ("LM Studio", studio)],
            Some(("gemma (LM Studio)", "LM Studio")),
        ),
        (
            vec![("llama.cpp", vllm), ("vLLM", studio), ("Ollama", studio)],
            None,
        ),
    ];
    for (servers, expected) in cases {
        let choice = among(&servers).await;
        match expected {
            Some((label, name)) => {
                assert_eq!(choice.provider.label(), label);
                assert_eq!(choice.why, format!("{name} answers on this machine"));
            }
            None => assert!(
                choice.provider.label().starts_with("offline"),
                "{servers:?}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_hang_cost_300_ms_together() {
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = hanging.local_addr().unwrap().port();
    let start = Instant::now();
    let choice = among(&[("Ollama", port), ("LM Studio", port), ("vLLM", port)]).await;
    assert!(choice.provider.label().starts_with("offline"));
    assert_eq!(start.elapsed().as_millis(), 300);
}

#[tokio::test]
async fn a_closed_port_costs_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let start = Instant::now();
    among(&[("Ollama", port), ("vLLM", port)]).await;
    assert!(start.elapsed() < Duration::from_millis(250));
}

async fn among(servers: &[(&str, u16)]) -> Choice {
    let servers: Vec<LocalServer> = servers
        .iter()
        .map(|(name, port)| LocalServer::at(name, *port))
        .collect();
    choose_among(ModelSettings::default(), &servers)
        .await
        .unwrap()
}

async fn refused(spec: &str) -> String {
    let settings = ModelSettings {
        spec: Some(spec.to_owned()),
        ..ModelSettings::default()
    };
    let error: ChooseError = choose(settings).await.err().unwrap();
    error.to_string()
}

/// A server on this machine that answers every request with `body`.
async fn answer(body: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = socket.read(&mut request).await;
            let answer = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    port
}
