//! Every provider through the real program: streaming, tools, usage, images, faults.

use domain::event::ToolStatus;
use serde_json::{Value, json};
use testkit::model::{ModelReply, RecordingModel, Say, Speech, text};
use testkit::{AcpClient, Program, RpcError};

use crate::support::{binary, stored};

/// A server whose model speaks `speech` and does `replies`; deadlines are short.
async fn serve(speech: Speech, replies: Vec<ModelReply>) -> (RecordingModel, Program) {
    let model = RecordingModel::speaking(speech, replies).await;
    let home = model
        .home(binary())
        .env("FASTNESS_LIMITS_MODEL_FIRST_BYTE_MS", 1_500)
        .env("FASTNESS_LIMITS_MODEL_BETWEEN_CHUNKS_MS", 700);
    (model, Program::serve_in(home).await)
}

fn says(words: &str) -> ModelReply {
    ModelReply::Says(vec![text(words)])
}

#[tokio::test]
async fn d_09_each_provider_thinks_reads_a_file_and_answers() {
    for speech in Speech::ALL {
        let looks = ModelReply::Says(vec![
            Say::Thought("I must look."),
            text("Let me see."),
            Say::Tool("read", r#"{"path":"a.txt"}"#),
            Say::Tool("read", r#"{"path":"b.txt"}"#),
        ]);
        let (model, server) = serve(speech, vec![looks, says("Found it.")]).await;
        server.home().write("a.txt", "the first file");
        server.home().write("b.txt", "the second file");
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        let answer = client.prompt(&session, "what is in the files?").await;
        assert_eq!(answer.thoughts, "I must look.", "{speech:?}");
        assert_eq!(answer.text, "Let me see.Found it.");
        assert_eq!(answer.stop_reason, "end_turn");
        let usage = &answer.result["_meta"]["fastness"]["usage"];
        let counted = [&usage["inputTokens"], &usage["outputTokens"]];
        assert_eq!(counted, [&json!(200), &json!(14)], "{speech:?}");
        let is_priced = matches!(speech, Speech::Anthropic | Speech::OpenAi);
        assert_eq!(usage["costNanoUsd"].is_u64(), is_priced, "{usage}");

        // The model was told of both results, in order, with what it had sealed.
        let asked = model.requests().remove(1).to_string();
        let first = asked.find("the first file").unwrap();
        assert!(first < asked.find("the second file").unwrap(), "{asked}");
        assert_eq!(asked.contains("sealed"), is_priced, "{asked}");
        let outcomes: Vec<Value> = server.home().events(&session);
        let completed = json!(ToolStatus::Completed);
        let results = outcomes
            .iter()
            .filter(|event| event["type"] == "tool.result");
        assert!(results.clone().all(|event| event["status"] == completed));
        assert_eq!(results.count(), 2);
    }
}

#[tokio::test]
async fn d_09_an_input_that_is_not_json_fails_that_call_and_the_turn_goes_on() {
    for speech in Speech::ALL {
        let broken = ModelReply::Says(vec![Say::Tool("read", "{path: a.txt")]);
        let (model, server) = serve(speech, vec![broken, says("I see.")]).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "read").await.text, "I see.");
        let events = server.home().events(&session);
        let result = events.iter().find(|event| event["type"] == "tool.result");
        assert_eq!(result.unwrap()["status"], "failed", "{speech:?}");
        assert_eq!(model.requests().len(), 2);
    }
}

#[tokio::test]
async fn an_image_in_a_prompt_reaches_each_provider_in_its_own_shape() {
    for speech in Speech::ALL {
        let (model, server) = serve(speech, vec![]).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        // Longer than what stands in a line of the journal.
        let data = "QUJD".repeat(100_000);
        let prompt = json!([
            {"type": "text", "text": "what is this?"},
            {"type": "image", "mimeType": "image/png", "data": data},
        ]);
        let params = json!({"sessionId": session, "prompt": prompt});
        client.call("session/prompt", params).await.unwrap();
        let asked = model.requests().remove(0);
        let shown = match speech {
            Speech::Anthropic => &asked["messages"][0]["content"][1]["source"]["data"],
            Speech::OpenAi => &asked["input"][0]["content"][1]["image_url"],
            Speech::OpenAiChat => &asked["messages"][1]["content"][1]["image_url"]["url"],
            Speech::Ollama => &asked["messages"][1]["images"][0],
        };
        assert!(shown.as_str().unwrap().ends_with(&data), "{speech:?}");

        // The next prompt, after a restart, still shows it.
        drop(client);
        let server = server.restart().await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.load_session(&session).await.unwrap();
        client.prompt(&session, "and now?").await;
        let again = model.requests().remove(1).to_string();
        assert!(again.contains(&data), "{speech:?}");
    }
}

#[tokio::test]
async fn f42_a_provider_that_recovers_in_time_is_not_noticed() {
    for speech in Speech::ALL {
        let busy = ModelReply::Refuses(429, "retry-after: 0\r\n", "{}");
        let broken = ModelReply::Refuses(529, "retry-after: 0\r\n", "overloaded");
        let lost = ModelReply::BreaksOff(vec![]);
        let replies = vec![busy, broken, lost, says("Here I am.")];
        let (model, server) = serve(speech, replies).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "hello").await.text, "Here I am.");
        assert_eq!(model.requests().len(), 4, "{speech:?}");
    }
}

#[tokio::test]
async fn f42_a_broken_provider_ends_the_turn_with_a_typed_error_and_partial_text_stays() {
    let begun = || vec![text("Once upon")];
    let faults = [
        (ModelReply::Hangs(vec![]), "model_timeout", ""),
        (ModelReply::Hangs(begun()), "model_timeout", "Once upon"),
        (ModelReply::BreaksOff(begun()), "model_error", "Once upon"),
        (ModelReply::Babbles(begun()), "model_error", "Once upon"),
        (ModelReply::Refuses(400, "", "no"), "model_error", ""),
    ];
    let mut stories = tokio::task::JoinSet::new();
    for speech in Speech::ALL {
        let faults = faults.clone();
        stories.spawn(async move {
            let replies = faults.iter().map(|(reply, ..)| reply.clone());
            let (model, server) = serve(speech, replies.collect()).await;
            let mut client = AcpClient::connect_ws(&server).await;
            let session = client.new_session().await;
            for (reply, kind, partial) in &faults {
                let error = client.try_prompt(&session, "go on").await.unwrap_err();
                check_fault(&error, kind, &format!("{speech:?} {reply:?}"));
                client.take_updates(&session);
                let events = server.home().events(&session);
                let told = events.iter().rev().take(3);
                let told: Vec<&Value> = told.collect();
                assert_eq!(told[0]["type"], "result");
                assert_eq!(told[0]["error"]["kind"], *kind);
                let kept = told
                    .iter()
                    .find(|event| event["type"] == "assistant.message");
                let kept = kept.map_or("", |event| event["text"].as_str().unwrap());
                assert_eq!(kept, *partial, "{speech:?} {reply:?}");
            }
            let answer = client.prompt(&session, "still there?").await;
            assert_eq!(answer.text, "answer 6", "{speech:?}");
            assert_eq!(model.requests().len(), 6);
            // What was said before it broke is part of the conversation.
            let asked = model.requests().remove(5).to_string();
            assert!(asked.contains("Once upon"), "{asked}");
            assert!(stored(server.home(), &session).ends_with(&["result".to_owned()]));
        });
    }
    while let Some(story) = stories.join_next().await {
        story.unwrap();
    }
}

fn check_fault(error: &RpcError, kind: &str, story: &str) {
    assert_eq!(error.code, -32603, "{story}");
    assert_eq!(error.data["kind"], kind, "{story}: {error}");
    // The only refusal among the faults is one of the request itself.
    let may_pass = !story.contains("Refuses");
    assert_eq!(error.data["retryable"], may_pass, "{story}");
    assert!(!error.message.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_20_two_hundred_prompts_share_a_few_upstream_connections_whatever_the_provider() {
    for speech in [Speech::Anthropic, Speech::OpenAi, Speech::Ollama] {
        let model = RecordingModel::speaking(speech, vec![]).await;
        let server = Program::serve_in(model.home(binary())).await;
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = AcpClient::connect_ws(&server).await;
            let session = client.new_session().await;
            clients.push((client, session));
        }
        for round in 0..20 {
            let mut prompts = Vec::new();
            for (client, session) in &mut clients {
                let words = format!("round {round}");
                prompts.push(client.start_prompt(session, &words).await);
            }
            for ((client, session), prompt) in clients.iter_mut().zip(&prompts) {
                client.finish_prompt(session, prompt).await.unwrap();
            }
        }
        assert_eq!(model.requests().len(), 200);
        // One more may be the look for Ollama's models.
        let connections = model.connections();
        assert!(connections <= 21, "{speech:?}: {connections} connections");
    }
}

#[tokio::test]
async fn the_greeting_and_the_doctor_say_which_model_and_why() {
    let model = RecordingModel::speaking(Speech::Anthropic, vec![]).await;
    let home = model.home(binary());
    let doctor = home.command("doctor").output().await.unwrap();
    let told = String::from_utf8(doctor.stdout).unwrap();
    let line = "anthropic:claude-sonnet-5-5 (set by --model)";
    assert!(told.contains(line), "{told}");
    assert!(told.contains("other models"), "{told}");
    assert!(told.contains("anthropic:claude-opus-5-5"), "{told}");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "hello").await;
    let greeting = answer.updates.iter().find(|update| update.is_greeting());
    assert!(greeting.unwrap().text().unwrap().contains(line));
}

#[tokio::test]
async fn d_05_an_image_that_a_tool_found_is_shown_to_a_model_that_sees() {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0";
    const DATA: &str = "iVBORw0KGgoA";
    for speech in Speech::ALL {
        let looks = ModelReply::Says(vec![
            Say::Tool("read", r#"{"path":"a.txt"}"#),
            Say::Tool("read", r#"{"path":"a.png"}"#),
        ]);
        let blind = ModelReply::Refuses(400, "", "this model does not support image input");
        let replies = vec![looks, says("Seen."), blind, says("Blind.")];
        let (model, server) = serve(speech, replies).await;
        server.home().write("a.txt", "words");
        std::fs::write(server.home().workspace().join("a.png"), PNG).unwrap();
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "look").await.text, "Seen.");
        let asked = model.requests().remove(1);
        let shown = match speech {
            Speech::Anthropic => {
                &asked["messages"][2]["content"][1]["content"][1]["source"]["data"]
            }
            Speech::OpenAi => &asked["input"][4]["output"][1]["image_url"],
            Speech::OpenAiChat => &asked["messages"][5]["content"][1]["image_url"]["url"],
            Speech::Ollama => &asked["messages"][4]["images"][0],
        };
        let is_shown = shown.as_str().is_some_and(|shown| shown.ends_with(DATA));
        assert!(is_shown, "{speech:?}: {asked}");
        // One that turns out not to see is asked again without, and not bothered any more.
        assert_eq!(client.prompt(&session, "again").await.text, "Blind.");
        let asked = model.requests().remove(3).to_string();
        assert!(
            !asked.contains(DATA) && asked.contains("cannot see images"),
            "{asked}"
        );
    }
}

#[tokio::test]
async fn d_09_a_session_changes_its_provider_and_the_other_one_knows_all_that_was_said() {
    let looks = ModelReply::Says(vec![Say::Tool("read", r#"{"path":"a.txt"}"#)]);
    let chat = RecordingModel::speaking(Speech::OpenAiChat, vec![looks, says("I am chat.")]).await;
    let claude = RecordingModel::speaking(Speech::Anthropic, vec![says("I am claude.")]).await;
    let server = Program::serve_in(claude.beside(chat.home(binary()))).await;
    server.home().write("a.txt", "the file");
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "first").await.text, "I am chat.");
    let choose = |model: &str| json!({"sessionId": session, "configId": "model", "value": model});
    let other = choose(Speech::Anthropic.model());
    client
        .call("session/set_config_option", other)
        .await
        .unwrap();
    assert_eq!(client.prompt(&session, "second").await.text, "I am claude.");
    let told = claude.requests().remove(0);
    let (tools, told) = (told["tools"].to_string(), told["messages"].to_string());
    assert!(tools.contains("\"read\""), "{tools}");
    for words in ["first", "tool_use", "the file", "I am chat.", "second"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // Back again, after a restart: the choice is the session's.
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "third").await;
    assert_eq!(claude.requests().len(), 2);
    let own = choose(Speech::OpenAiChat.model());
    client.call("session/set_config_option", own).await.unwrap();
    client.prompt(&session, "fourth").await;
    let told = chat.requests().pop().unwrap()["messages"].to_string();
    for words in ["first", "I am chat.", "I am claude.", "third", "fourth"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
