//! What is peculiar to `ollama:`.

use domain::Limits;
use llm::{ModelSettings, choose};

use crate::formats::OLLAMA;
use crate::server::{Server, plain};
use crate::support::{ask, chunks, request, settings};

#[tokio::test]
async fn context_is_asked_for_so_that_nothing_is_cut_off_in_silence() {
    for (window, asked) in [(None, 32_768), (Some(8_000), 8_000)] {
        let server = Server::start(vec![OLLAMA.answer(OLLAMA.hello)]).await;
        let provider = choose(ModelSettings {
            context_window: window,
            ..settings("ollama:mock", &server.base, Limits::default())
        });
        let provider = provider.await.unwrap().provider;
        assert_eq!(provider.context_window(), asked);
        chunks(provider.open().as_mut(), request()).await;
        let (_, body) = server.requests().remove(0);
        assert_eq!(body["options"]["num_ctx"], asked);
    }
}

#[tokio::test]
async fn a_model_without_thoughts_and_tools_answers_all_the_same() {
    let json = "content-type: application/json\r\n";
    let refused = |what: &str| {
        let body = format!(r#"{{"error":"\"mock\" does not support {what}"}}"#);
        plain("400 Bad Request", json, &body)
    };
    let hello = OLLAMA.answer(OLLAMA.hello);
    let replies = vec![refused("thinking"), refused("tools"), hello];
    let server = Server::start(replies).await;
    let shown = ask(&OLLAMA, &server).await;
    assert!(shown.ends_with("stop EndTurn\n"), "{shown}");
    let asked: Vec<[bool; 2]> = server
        .requests()
        .iter()
        .map(|(_, body)| ["think", "tools"].map(|name| body.get(name).is_some()))
        .collect();
    assert_eq!(asked, [[true, true], [false, true], [false, false]]);
}

#[tokio::test]
async fn a_model_that_is_not_there_is_named() {
    let body = r#"{"error":"model 'mock' not found"}"#;
    let server = Server::start(vec![plain("404 Not Found", "", body)]).await;
    let told = "error the model's server answered 404: model 'mock' not found\n";
    assert_eq!(ask(&OLLAMA, &server).await, told);
}
