//! What goes wrong between a provider and the real program, in every wire format, as a client
//! sees it.

use serde_json::{Value, json};
use testkit::model::{End, Gate, ModelReply, Piece, RecordingModel, Say, Speech, text};
use testkit::{AcpClient, Program, RpcError, Update};

use crate::support::{binary, stored};

/// A client with a session of a server whose model speaks `speech` and does `replies`.
struct Story {
    speech: Speech,
    model: RecordingModel,
    server: Program,
    client: AcpClient,
    session: String,
}

impl Story {
    async fn begin(speech: Speech, replies: Vec<ModelReply>) -> Self {
        let model = RecordingModel::speaking(speech, replies).await;
        let server = Program::serve_in(model.home(binary())).await;
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        Self {
            speech,
            model,
            server,
            client,
            session,
        }
    }

    /// The answer to a prompt that nothing went wrong with, as far as the client knows.
    async fn answered(&mut self, words: &str) {
        let answer = self.client.prompt(&self.session, "hello").await;
        assert_eq!(answer.text, words, "{:?}", self.speech);
        assert_eq!(answer.stop_reason, "end_turn", "{:?}", self.speech);
    }

    /// The error that a prompt ends with.
    async fn failed(&mut self) -> RpcError {
        let failed = self.client.try_prompt(&self.session, "hello").await;
        let error = failed.unwrap_err();
        assert_eq!(error.code, -32603, "{:?}", self.speech);
        assert_eq!(error.data["kind"], "model_error", "{:?}", self.speech);
        assert!(!error.message.contains("127.0.0.1"), "{error}");
        self.client.take_updates(&self.session);
        error
    }

    fn asked(&self, times: usize) {
        assert_eq!(self.model.requests().len(), times, "{:?}", self.speech);
    }

    /// The stored text of the model, message by message.
    fn kept(&self) -> Vec<Value> {
        let events = self.server.home().events(&self.session).into_iter();
        let messages = events.filter(|event| event["type"] == "assistant.message");
        messages.map(|event| event["text"].clone()).collect()
    }
}

fn says(words: &str) -> ModelReply {
    ModelReply::Says(vec![text(words)])
}

#[tokio::test]
async fn f42_a_429_without_retry_after_and_a_reset_before_the_first_byte_are_not_noticed() {
    for speech in Speech::ALL {
        let busy = ModelReply::Refuses(429, "", "{}");
        let replies = vec![busy, ModelReply::Resets, says("Here I am.")];
        let mut story = Story::begin(speech, replies).await;
        story.answered("Here I am.").await;
        story.asked(3);
        // Nor are they in what the model reads next.
        story.answered("answer 4").await;
        let asked = story.model.requests().remove(3).to_string();
        assert_eq!(asked.matches("Here I am.").count(), 1, "{asked}");
    }
}

#[tokio::test]
async fn f42_a_reset_after_the_first_byte_ends_the_turn_and_is_not_tried_again() {
    for speech in Speech::ALL {
        let seen = Gate::default();
        let begun = Piece::of(&speech.streamed(&[text("Once upon")])[0]);
        let torn = vec![begun, Piece::Waits(seen.clone()), Piece::Resets];
        let mut story = Story::begin(speech, vec![ModelReply::Pieces(torn)]).await;
        let (client, session) = (&mut story.client, &story.session);
        let prompt = client.start_prompt(session, "tell me").await;
        client.updates_until(is_text("Once upon")).await;
        seen.open();
        let error = client.finish_prompt(session, &prompt).await.unwrap_err();
        assert_eq!(error.data["kind"], "model_error", "{speech:?}: {error}");
        story.asked(1);
        assert_eq!(story.kept(), ["Once upon"], "{speech:?}");
        story.answered("answer 2").await;
    }
}

fn is_text(words: &'static str) -> impl FnMut(&Update) -> bool {
    move |update| update.text() == Some(words)
}

#[tokio::test]
async fn f42_tries_that_are_used_up_end_the_turn_and_the_next_prompt_has_new_ones() {
    for speech in Speech::ALL {
        let broken = ModelReply::Refuses(500, "retry-after: 0\r\n", "{\"error\":\"broken\"}");
        let replies = vec![broken.clone(), broken.clone(), broken.clone(), broken];
        let mut story = Story::begin(speech, replies).await;
        let error = story.failed().await;
        assert_eq!(error.data["retryable"], true, "{speech:?}: {error}");
        assert!(error.message.contains("500"), "{speech:?}: {error}");
        story.asked(4);
        assert!(story.kept().is_empty(), "{speech:?}");
        story.answered("answer 5").await;
    }
}

#[tokio::test]
async fn f42_half_a_character_at_a_packet_border_is_put_together() {
    for speech in Speech::ALL {
        // In each of its two, three or four bytes.
        for (character, at) in [("ß", 1), ("☕", 1), ("☕", 2), ("🦀", 1), ("🦀", 3)] {
            let words = format!("vor{character}nach");
            let mut pieces = speech.streamed(&[text("Also: "), text(&words)]);
            let close = pieces.pop().unwrap();
            let (first, second) = (pieces[0].as_bytes(), pieces[1].as_bytes());
            let border = pieces[1].find(character).unwrap() + at;
            let seen = Gate::default();
            let answer = vec![
                Piece::Bytes([first, &second[..border]].concat()),
                Piece::Waits(seen.clone()),
                Piece::Bytes(second[border..].to_vec()),
                Piece::of(close + &speech.end(End::Turn)),
            ];
            let mut story = Story::begin(speech, vec![ModelReply::Pieces(answer)]).await;
            let (client, session) = (&mut story.client, &story.session);
            let prompt = client.start_prompt(session, "how?").await;
            // With these words the program has the half character, too.
            client.updates_until(is_text("Also: ")).await;
            seen.open();
            let answer = client.finish_prompt(session, &prompt).await.unwrap();
            assert_eq!(answer.text, words, "{speech:?} {at}");
            assert_eq!(story.kept(), [format!("Also: {words}")], "{speech:?} {at}");
        }
    }
}

#[tokio::test]
async fn f42_an_end_that_never_comes_does_not_hold_up_the_turn() {
    for speech in Speech::ALL {
        let said = speech.said(&[text("That is all.")]) + &speech.unfinished_end();
        let hanging = vec![Piece::of(said), Piece::Hangs];
        let mut story = Story::begin(speech, vec![ModelReply::Pieces(hanging)]).await;
        story.answered("That is all.").await;
        story.answered("answer 2").await;
        story.asked(2);
        let kinds = stored(story.server.home(), &story.session);
        let ends = kinds.iter().filter(|kind| *kind == "result").count();
        assert_eq!(ends, 2, "{speech:?}");
    }
}

#[tokio::test]
async fn f42_two_calls_whose_inputs_come_in_turns_run_with_their_own() {
    for speech in Speech::ALL {
        let calls = [
            ("read", r#"{"path":"a.txt"}"#),
            ("read", r#"{"path":"b.txt"}"#),
        ];
        let mixed = Piece::of(speech.interleaved(calls) + &speech.end(End::Calls));
        let replies = vec![ModelReply::Pieces(vec![mixed]), says("Both.")];
        let mut story = Story::begin(speech, replies).await;
        story.server.home().write("a.txt", "the first file");
        story.server.home().write("b.txt", "the second file");
        story.answered("Both.").await;
        let events = story.server.home().events(&story.session);
        let used = events.iter().filter(|event| event["type"] == "tool.use");
        let paths: Vec<&Value> = used.map(|used| &used["input"]["path"]).collect();
        assert_eq!(paths, [&json!("a.txt"), &json!("b.txt")], "{speech:?}");
        let asked = story.model.requests().remove(1).to_string();
        let (first, second) = (asked.find("the first file"), asked.find("the second file"));
        assert!(first.is_some() && first < second, "{speech:?}: {asked}");
    }
}

#[tokio::test]
async fn f42_an_empty_answer_ends_the_turn_and_an_empty_body_is_an_error() {
    for speech in Speech::ALL {
        let wordless = ModelReply::Says(vec![]);
        let nothing = ModelReply::Pieces(vec![]);
        let thoughtful = ModelReply::Says(vec![Say::Thought("Hm.")]);
        let mut story = Story::begin(speech, vec![wordless, nothing, thoughtful]).await;
        story.answered("").await;
        story.asked(1);
        let error = story.failed().await;
        assert!(error.message.contains("empty"), "{speech:?}: {error}");
        // It had begun, so it was not tried again.
        story.asked(2);
        story.answered("").await;
        assert!(story.kept().is_empty(), "{speech:?}");
        story.answered("answer 4").await;
    }
}
