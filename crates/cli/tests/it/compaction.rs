//! A conversation that outgrows its model, as the model sees it.

use serde_json::{Value, json};
use testkit::model::{ModelReply, RecordingModel, Say, Speech, text};
use testkit::script::{Script, fail, say};
use testkit::{AcpClient, Program, Update};

use crate::support::{binary, serve_with, stored};

/// What must never be forgotten.
const FIRST: &str = "Always answer in Esperanto.";

/// Something long to say, about 500 tokens.
fn long(number: usize) -> String {
    format!("prompt {number}: {}", "and so on ".repeat(200))
}

fn summaries(server: &Program, session: &str) -> Vec<Value> {
    let events = server.home().events(session).into_iter();
    let is_summary = |event: &Value| event["type"] == "compaction" && event["kind"] == "summary";
    events.filter(is_summary).collect()
}

/// The messages of a request, without the system prompt.
fn messages(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().unwrap().iter();
    let is_said = |message: &&Value| message["role"] != "system";
    messages.filter(is_said).cloned().collect()
}

#[tokio::test]
async fn d_08_a_long_conversation_compacts_twice_and_still_knows_its_first_instruction() {
    let model = RecordingModel::start().await;
    let home = model
        .home(binary())
        .env("FASTNESS_LIMITS_CONTEXT_WINDOW", 6_000);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, FIRST).await;
    let mut number = 0;
    while summaries(&server, &session).len() < 2 {
        number += 1;
        assert!(number < 60, "it never compacts");
        client.prompt(&session, &long(number)).await;
    }
    client.prompt(&session, "the last one").await;
    let request = model.requests().pop().unwrap();
    let shown = messages(&request);
    assert!(shown[0]["content"].as_str().unwrap().contains(FIRST));
    assert!(shown.len() < number, "{} messages are left", shown.len());
    assert_eq!(shown.last().unwrap()["content"], "the last one");
    // The journal has everything, and a client that comes now is shown everything.
    let events = server.home().events(&session);
    let prompts = events
        .iter()
        .filter(|event| event["type"] == "user.message");
    assert_eq!(prompts.count(), number + 2);
    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = other.load_session(&session).await.unwrap();
    let said = testkit::client::text_of(&replayed, "user_message_chunk");
    assert!(said.starts_with(FIRST) && said.contains("prompt 1:"));
    let told = replayed
        .iter()
        .any(|update| update.kind == "compaction_update");
    assert!(!told, "a client that did not ask was told of compaction");

    // After a restart the model is shown the same, and the new prompt behind it.
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "and after the restart").await;
    let again = messages(&model.requests().pop().unwrap());
    assert_eq!(again[..shown.len()], shown[..]);
    assert_eq!(again.len(), shown.len() + 2);
}

#[tokio::test]
async fn d_08_a_client_that_shows_compaction_is_told_of_it_and_told_again() {
    let script = Script::new()
        .call([say("first answer")])
        .call([say("THE SUMMARY")])
        .call([say("after")]);
    let server = serve_with(script, &[("FASTNESS_LIMITS_CONTEXT_WINDOW", "9000")]).await;
    let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialled.unwrap().in_directory(server.home().workspace());
    client
        .initialize_with(json!({"session": {"compaction": {}}}))
        .await;
    let session = client.new_session().await;
    client.prompt(&session, FIRST).await;
    let answer = client.prompt(&session, "/compact the language").await;
    assert!(answer.text.starts_with("Compacted the conversation"));
    let told = |updates: &[Update]| -> Vec<Value> {
        let told = updates
            .iter()
            .filter(|update| update.kind == "compaction_update");
        told.map(|update| update.update.clone()).collect()
    };
    let update = &told(&answer.updates)[0];
    assert_eq!(update["status"], "completed");
    let summary = update["summary"][0]["text"].as_str().unwrap();
    assert!(summary.starts_with("THE SUMMARY"));
    assert_eq!(client.prompt(&session, "go on").await.text, "after");
    let replayed = client.load_session(&session).await.unwrap();
    assert_eq!(&told(&replayed)[..], std::slice::from_ref(update));
}

#[tokio::test]
async fn d_08_a_summary_that_fails_leaves_the_session_as_it_was() {
    let script = Script::new()
        .call([say("first answer")])
        .call([fail(500, "broken")])
        .call([say("after")]);
    let server = serve_with(script, &[]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, FIRST).await;
    let failed = client.try_prompt(&session, "/compact").await.unwrap_err();
    assert_eq!(failed.data["kind"], "model_error");
    assert!(!stored(server.home(), &session).contains(&"compaction".to_owned()));
    assert_eq!(client.prompt(&session, "go on").await.text, "after");
}

#[tokio::test]
async fn d_08_old_output_of_tools_is_left_out_first_and_stays_in_the_journal() {
    const LEFT_OUT: &str = "[This output was left out to save space.";
    let names = ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt"];
    let inputs = [
        r#"{"path":"1.txt"}"#,
        r#"{"path":"2.txt"}"#,
        r#"{"path":"3.txt"}"#,
        r#"{"path":"4.txt"}"#,
        r#"{"path":"5.txt"}"#,
    ];
    let turn = |input| {
        let reads = ModelReply::Says(vec![Say::Tool("read", input)]);
        [reads, ModelReply::Says(vec![text("read")])]
    };
    let replies = inputs.into_iter().flat_map(turn).collect();
    let model = RecordingModel::speaking(Speech::OpenAiChat, replies).await;
    let home = model
        .home(binary())
        .env("FASTNESS_LIMITS_CONTEXT_WINDOW", 100_000);
    for name in names {
        // About 25,000 tokens each.
        home.write(
            name,
            &format!("{name} {}\n", "and so on ".repeat(9)).repeat(1_030),
        );
    }
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    for name in names {
        client.prompt(&session, &format!("read {name}")).await;
    }
    let events = server.home().events(&session);
    let compactions = events.iter().filter(|event| event["type"] == "compaction");
    let kinds: Vec<&Value> = compactions.map(|event| &event["kind"]).collect();
    assert_eq!(kinds, ["pruned"], "it is not summarised, too");
    // The newest 40,000 tokens of output, rounded up to whole ones, are as they were.
    let request = model.requests().pop().unwrap();
    let results = messages(&request).into_iter();
    let results = results.filter(|message| message["role"] == "tool");
    let results: Vec<String> = results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results.len(), names.len());
    for (number, (result, name)) in results.iter().zip(names).enumerate() {
        let is_old = number < 3;
        assert_eq!(result.starts_with(LEFT_OUT), is_old, "{name}");
        assert_eq!(result.contains(name), !is_old, "{name}");
    }
    // The journal has everything, and a client that comes now is shown everything.
    let kept = events.iter().filter(|event| event["type"] == "tool.result");
    for (result, name) in kept.zip(names) {
        assert!(result["text"].as_str().unwrap().contains(name), "{name}");
    }
    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = json!(
        other
            .load_session(&session)
            .await
            .unwrap()
            .iter()
            .map(|update| &update.update)
            .collect::<Vec<_>>()
    );
    assert!(replayed.to_string().contains("1.txt and so on"));

    // After a restart the model is shown the same.
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "and now?").await;
    let again = messages(&model.requests().pop().unwrap());
    let shown = messages(&request);
    assert_eq!(again[..shown.len()], shown[..]);
}
