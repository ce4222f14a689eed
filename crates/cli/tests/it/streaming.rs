//! What a client hears of a model's answer, and when: each piece as it comes, why it ended, what
//! it used, what the session is called.

use serde_json::{Value, json};
use testkit::model::{End, Gate, ModelReply, Piece, RecordingModel, Say, Speech, text};
use testkit::script::{Script, say, stop};
use testkit::{AcpClient, Program, Update};

use crate::support::{binary, serve};

/// A reply that says something and ends for `end`.
fn ending(speech: Speech, words: &str, end: End) -> ModelReply {
    let said = speech.said(&[text(words)]) + &speech.end(end);
    ModelReply::Pieces(vec![Piece::of(said)])
}

/// The updates of one kind, as they were sent.
fn of_kind(updates: &[Update], kind: &str) -> Vec<Value> {
    let wanted = updates.iter().filter(|update| update.kind == kind);
    wanted.map(|update| update.update.clone()).collect()
}

#[tokio::test]
async fn d_02_each_piece_reaches_the_client_before_the_model_says_the_next() {
    for speech in Speech::ALL {
        let said = [
            (Say::Thought("I must"), "agent_thought_chunk", "I must"),
            (Say::Thought(" think."), "agent_thought_chunk", " think."),
            (text("Now I"), "agent_message_chunk", "Now I"),
            (text(" know"), "agent_message_chunk", " know"),
            (text("."), "agent_message_chunk", "."),
        ];
        let says: Vec<Say> = said.iter().map(|(say, ..)| say.clone()).collect();
        let mut bytes = speech.streamed(&says);
        let close = bytes.pop().unwrap();
        let seen = Gate::default();
        let mut pieces = Vec::new();
        for piece in bytes {
            pieces.extend([Piece::of(piece), Piece::Waits(seen.clone())]);
        }
        pieces.push(Piece::of(close + &speech.end(End::Turn)));
        let model = RecordingModel::speaking(speech, vec![ModelReply::Pieces(pieces)]).await;
        let server = Program::serve_in(model.home(binary())).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        let prompt = client.start_prompt(&session, "go").await;
        for (_, kind, words) in &said {
            // The model goes on only once this has come, so waiting for more would be for ever.
            let is_it = |update: &Update| update.kind == *kind && update.text() == Some(words);
            client.updates_until(is_it).await;
            seen.open();
        }
        let answer = client.finish_prompt(&session, &prompt).await.unwrap();
        assert_eq!(answer.stop_reason, "end_turn", "{speech:?}");
        assert_eq!((&*answer.text, &*answer.thoughts), ("", ""), "{speech:?}");
    }
}

#[tokio::test]
async fn d_03_why_the_model_stopped_is_why_the_turn_did_in_the_words_of_acp() {
    let script = Script::new()
        .call([say("too lo"), stop("max_tokens")])
        .call([say("I'd rather not."), stop("refusal")])
        .call([say("fine")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    for (words, reason) in [
        ("too lo", "max_tokens"),
        ("I'd rather not.", "refusal"),
        ("fine", "end_turn"),
    ] {
        let answer = client.prompt(&session, "go").await;
        assert_eq!((&*answer.text, &*answer.stop_reason), (words, reason));
    }
}

#[tokio::test]
async fn d_09_each_provider_s_own_reason_to_stop_becomes_the_one_of_acp() {
    for speech in Speech::ALL {
        let mut ends = vec![(End::Length, "max_tokens"), (End::Turn, "end_turn")];
        if speech != Speech::Ollama {
            ends.insert(1, (End::Refusal, "refusal"));
        }
        let replies = ends.iter().map(|(end, _)| ending(speech, "so", *end));
        let model = RecordingModel::speaking(speech, replies.collect()).await;
        let server = Program::serve_in(model.home(binary())).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        for (_, reason) in ends {
            let answer = client.prompt(&session, "go").await;
            let got = (&*answer.text, &*answer.stop_reason);
            assert_eq!(got, ("so", reason), "{speech:?}");
            let events = server.home().events(&session);
            assert_eq!(events.last().unwrap()["stopReason"], reason, "{speech:?}");
        }
    }
}

#[tokio::test]
async fn d_09_usage_says_how_full_the_window_is_and_what_the_session_has_cost() {
    for speech in Speech::ALL {
        let model = RecordingModel::speaking(speech, vec![]).await;
        let home = model
            .home(binary())
            .env("FASTNESS_LIMITS_CONTEXT_WINDOW", 30_000);
        let server = Program::serve_in(home).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        let mut told = Vec::new();
        for _ in 0..2 {
            let answer = client.prompt(&session, "go").await;
            told.extend(of_kind(&answer.updates, "usage_update"));
        }
        assert_eq!(told.len(), 2, "{speech:?}: {told:?}");
        for update in &told {
            // A hundred tokens were read and seven written.
            assert_eq!(update["used"], 107, "{speech:?}");
            assert_eq!(update["size"], 30_000, "{speech:?}");
        }
        let costs = [&told[0]["cost"], &told[1]["cost"]];
        if matches!(speech, Speech::Anthropic | Speech::OpenAi) {
            let [once, twice] = costs.map(|cost| cost["amount"].as_f64().unwrap());
            assert!(once > 0.0 && (twice - 2.0 * once).abs() < 1e-12, "{told:?}");
            assert_eq!(told[0]["cost"]["currency"], "USD");
        } else {
            assert_eq!(costs, [&Value::Null, &Value::Null], "{speech:?}");
        }
        // Whoever comes later hears the same.
        let mut other = AcpClient::connect_ws(&server).await;
        let replayed = other.load_session(&session).await.unwrap();
        assert_eq!(of_kind(&replayed, "usage_update"), told, "{speech:?}");
    }
}

#[tokio::test]
async fn d_09_a_session_is_named_after_the_first_line_of_its_first_prompt_and_everyone_is_told() {
    let server = serve(Script::says("yes")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let mut other = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    other.load_session(&session).await.unwrap();
    let answer = client
        .prompt(&session, "Mend the fence\n  behind the barn")
        .await;
    let title = json!("Mend the fence");
    let told = of_kind(&answer.updates, "session_info_update");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["title"], title);
    let is_title = |update: &Update| update.kind == "session_info_update";
    let heard = other.updates_until(is_title).await.pop().unwrap();
    assert_eq!(heard.update["title"], title);
    // A second prompt does not rename it, and the list shows the name.
    let answer = client.prompt(&session, "And the gate").await;
    let told = of_kind(&answer.updates, "session_info_update");
    assert!(told.is_empty(), "{told:?}");
    let list = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"][0]["title"], title, "{list}");
}
