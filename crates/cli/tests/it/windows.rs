//! How much a model reads, where only its server knows: asked for once, and harmless if it fails.

use serde_json::{Value, json};
use testkit::model::{ModelReply, RecordingModel, Speech, text};
use testkit::{AcpClient, Home, Program};

use crate::support::binary;

/// The window that the session's usage names after one prompt, and the home it was in.
async fn window_of(home: Home) -> (Value, Program) {
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let events = server.home().events(&session);
    let usage = events.iter().find(|event| event["type"] == "usage");
    (usage.unwrap()["contextWindow"].clone(), server)
}

fn list(entry: Value) -> Vec<(&'static str, Value)> {
    let other = json!({"id": "other", "max_model_len": 77_777});
    vec![("GET /v1/models", json!({"data": [other, entry]}))]
}

#[tokio::test]
async fn window_of_an_unknown_model_is_asked_of_its_server() {
    let props = json!({"default_generation_settings": {"n_ctx": 10_240}});
    let loaded = json!({"id": "recording", "loaded_context_length": 9_216,
        "max_context_length": 131_072});
    let trained = json!({"model_info": {"general.architecture": "qwen2",
        "qwen2.context_length": 32_768}});
    let cases = [
        (
            list(json!({"id": "recording", "max_model_len": 8_192})),
            8_192,
        ),
        (
            list(json!({"id": "recording", "context_length": 40_960})),
            40_960,
        ),
        (
            list(json!({"id": "recording", "context_window": 65_536})),
            65_536,
        ),
        (vec![("GET /props", props)], 10_240),
        (
            vec![("GET /api/v0/models", json!({"data": [loaded]}))],
            9_216,
        ),
        (vec![("POST /api/show", trained)], 32_768),
        // A number that cannot be is not believed, and nothing else is known.
        (
            list(json!({"id": "recording", "max_model_len": 3})),
            128_000,
        ),
        (Vec::new(), 128_000),
    ];
    for (facts, window) in cases {
        let model = RecordingModel::telling(Speech::OpenAiChat, Vec::new(), facts.clone()).await;
        let (told, _server) = window_of(model.home(binary())).await;
        assert_eq!(told, window, "{facts:?}");
        let sent = model.requests()[0]["max_tokens"].as_u64().unwrap();
        assert!(sent > 1_000 && sent < window, "{sent} of {window}");
    }
}

#[tokio::test]
async fn ollama_is_asked_what_its_model_reads() {
    let shown = |parameters: &str, trained: u64| json!({"parameters": parameters, "model_info": {"llama.context_length": trained}});
    let set = "stop \"<|im_end|>\"\nnum_ctx                        16384";
    for (answer, window) in [
        (shown("", 8_192), 8_192),
        (shown("", 131_072), 32_768),
        (shown(set, 131_072), 16_384),
        (json!({"error": "model not found"}), 32_768),
    ] {
        let facts = vec![("POST /api/show", answer)];
        let model = RecordingModel::telling(Speech::Ollama, Vec::new(), facts).await;
        let (told, _server) = window_of(model.home(binary())).await;
        assert_eq!(told, window);
        let options = &model.requests()[0]["options"];
        assert_eq!(options["num_ctx"], window);
        let predicted = options["num_predict"].as_u64().unwrap();
        assert!(predicted > 1_000 && predicted < window, "{options}");
    }
}

#[tokio::test]
async fn server_is_asked_for_its_window_once() {
    let facts = list(json!({"id": "recording", "max_model_len": 8_192}));
    let model = RecordingModel::telling(Speech::OpenAiChat, Vec::new(), facts).await;
    let (_, server) = window_of(model.home(binary())).await;
    let mut client = AcpClient::connect_ws(&server).await;
    for _ in 0..2 {
        let session = client.new_session().await;
        client.prompt(&session, "again").await;
    }
    assert_eq!(model.looked_up(), ["GET /v1/models"]);
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn known_or_set_windows_are_not_asked_for() {
    for (speech, window) in [
        (Speech::Anthropic, None),
        (Speech::OpenAiChat, Some("5000")),
    ] {
        let model = RecordingModel::speaking(speech, Vec::new()).await;
        let mut home = model.home(binary());
        if let Some(window) = window {
            home = home.env("FASTNESS_MODELS_CONTEXT_WINDOW", window);
        }
        window_of(home).await;
        assert_eq!(model.looked_up(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn silent_lookup_delays_only_the_first_turn() {
    // Two seconds for each of these would be ten; the model itself answers at once.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let model = RecordingModel::start().await;
    let behind = model.url().trim_start_matches("http://").to_owned();
    let looks = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&looks);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (behind, counted) = (behind.clone(), std::sync::Arc::clone(&counted));
            tokio::spawn(async move {
                let mut first = [0; 4];
                socket.peek(&mut first).await.unwrap();
                if &first == b"GET " {
                    counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    // Says nothing for as long as it is waited for.
                    let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
                    return;
                }
                let mut behind = tokio::net::TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut socket, &mut behind).await;
            });
        }
    });
    let home = model.home(binary());
    let home = home.env("OPENAI_BASE_URL", format!("http://{address}/v1"));
    let (told, server) = window_of(home).await;
    assert_eq!(told, 128_000);
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "again").await;
    assert_eq!(looks.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn server_that_refuses_an_output_limit_is_asked_without() {
    let said = "{\"error\":{\"message\":\"Unsupported parameter: 'max_tokens' is not supported with this model.\"}}";
    let replies = vec![
        ModelReply::Refuses(400, "", said),
        ModelReply::Says(vec![text("well")]),
    ];
    let model = RecordingModel::speaking(Speech::OpenAiChat, replies).await;
    let server = Program::serve_in(model.home(binary())).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "well");
    client.prompt(&session, "again").await;
    let limits: Vec<bool> = model
        .requests()
        .iter()
        .map(|request| request.get("max_tokens").is_some())
        .collect();
    assert_eq!(limits, [true, false, false]);
}

#[tokio::test]
async fn key_for_another_server_takes_its_first_model() {
    let models = json!({"data": [{"id": "text-embed"}, {"id": "local-coder"}]});
    let facts = vec![("GET /v1/models", models)];
    let model = RecordingModel::telling(Speech::OpenAiChat, Vec::new(), facts).await;
    let home = model.home(binary()).without_model();
    let (told, code) = crate::project::run(&home, "doctor", &[]).await;
    assert!(
        told.contains("openai-chat:local-coder (it is the first that OPENAI_BASE_URL lists)"),
        "{told}"
    );
    assert!(!told.contains("openai:"), "{told}");
    assert_eq!(code, Some(0), "{told}");
    let silent = RecordingModel::start().await;
    let home = silent.home(binary()).without_model();
    let (told, code) = crate::project::run(&home, "doctor", &[]).await;
    assert!(
        told.contains("name one with --model openai-chat:NAME"),
        "{told}"
    );
    assert!(!told.contains("openai:"), "{told}");
    assert_eq!(code, Some(1), "{told}");
}
