//! Stopping a turn in each of its phases, by cancel and by `kill -9`.
//!
//! The model is a server that hangs where it should, so a [`Phase`] is known to be reached and not
//! only likely to be.

use serde_json::{Value, json};
use testkit::model::{ModelReply, RecordingModel, Say, Speech, text};
use testkit::{AcpClient, Choice, Home, Program, Reply, RequestId, Update, wait_for};

use crate::support::{FORCED, binary, next_but_looks, stored};

/// What the model reads first when it is to summarise.
const SUMMARISE: &str = "You write the summary";

/// Leaves a line each time it runs, and then waits for ever.
const EFFECT: &str = r#"{"command":"echo x >> ran; until [ -e never ]; do sleep 0.05; done"}"#;

/// Tokens of a window that [`BIG`] does not fit into.
const WINDOW: u64 = 20_000;
const BIG: &str = "big.txt";

/// How a turn is brought into the phase in which it is stopped.
struct Phase {
    name: &'static str,
    /// What the model does before and in it; afterwards it answers.
    replies: Vec<ModelReply>,
    /// All but the last end by themselves.
    prompts: &'static [&'static str],
    reached: Reached,
    /// What became of its calls if the server died in it.
    left: &'static [&'static str],
}

/// How one knows that a turn is in its phase.
enum Reached {
    /// The model was asked this often, and does not answer.
    Asked(usize),
    /// The client was shown this.
    Shown(&'static str),
    /// The client was asked this often, and does not answer.
    Holds(usize),
    /// The command has begun.
    Effect,
    /// The model was asked for a summary, and does not answer.
    Summary,
}

fn phases() -> Vec<Phase> {
    let phase = |name, replies, prompts, reached, left| Phase {
        name,
        replies,
        prompts,
        reached,
        left,
    };
    let calls = |calls: &[(&'static str, &'static str)]| {
        let calls = calls.iter().map(|(name, input)| Say::Tool(name, input));
        ModelReply::Says(calls.collect())
    };
    let says = || ModelReply::Says(vec![text("what was answered before that")]);
    let silent = || ModelReply::Hangs(vec![]);
    let speaking = ModelReply::Hangs(vec![text("x")]);
    let (a, b) = (("read", r#"{"path":"a"}"#), ("read", r#"{"path":"b"}"#));
    let c = ("write", r#"{"path":"c","content":"x"}"#);
    let d = ("write", r#"{"path":"d","content":"x"}"#);
    let big = calls(&[("read", r#"{"path":"big.txt"}"#)]);
    let effect = calls(&[("bash", EFFECT)]);
    let go: &[&str] = &["go"];
    vec![
        phase("waiting", vec![silent()], go, Reached::Asked(1), &[]),
        phase("streaming", vec![speaking], go, Reached::Shown("x"), &[]),
        phase(
            "tool",
            vec![calls(&[a, b, c])],
            go,
            Reached::Holds(3),
            &["unknown", "unknown", "not_run"],
        ),
        phase("effect", vec![effect], go, Reached::Effect, &["unknown"]),
        phase(
            "permission",
            vec![calls(&[c, d])],
            go,
            Reached::Holds(1),
            &["not_run", "not_run"],
        ),
        phase(
            "compaction",
            vec![says(), silent()],
            &["the first instruction", "/compact"],
            Reached::Summary,
            &[],
        ),
        phase(
            "compaction in mid-turn",
            vec![says(), big, silent()],
            &["the first instruction", "go"],
            Reached::Summary,
            &["completed"],
        ),
    ]
}

impl Phase {
    async fn serve(&self) -> (RecordingModel, Program) {
        let model = RecordingModel::speaking(Speech::OpenAiChat, self.replies.clone()).await;
        let home = model
            .home(binary())
            .env("FASTNESS_LIMITS_CONTEXT_WINDOW", WINDOW);
        home.write(
            BIG,
            &"a line of some sixty characters that says very little\n".repeat(1_500),
        );
        (model, Program::serve_in(home).await)
    }

    /// A client with a session whose turn is in this phase.
    async fn enter(
        &self,
        model: &RecordingModel,
        server: &Program,
    ) -> (AcpClient, String, RequestId) {
        let mut client = self.client(server).await;
        let session = client.new_session().await;
        let (last, before) = self.prompts.split_last().unwrap();
        for prompt in before {
            client.prompt(&session, prompt).await;
        }
        let prompt = client.start_prompt(&session, last).await;
        self.reach(&mut client, model, server.home()).await;
        (client, session, prompt)
    }

    /// One whose files are used where that matters, and whose user answers nothing.
    async fn client(&self, server: &Program) -> AcpClient {
        let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
        let mut client = dialled.unwrap().in_directory(server.home().workspace());
        let has_files = matches!(self.reached, Reached::Holds(_));
        let files = json!({"fs": {"readTextFile": has_files, "writeTextFile": has_files}});
        client.initialize_with(files).await;
        client.on_permission(Choice::Hold);
        client.on_request("fs/read_text_file", Reply::Hold);
        client.on_request("fs/write_text_file", Reply::Hold);
        client
    }

    async fn reach(&self, client: &mut AcpClient, model: &RecordingModel, home: &Home) {
        match self.reached {
            Reached::Asked(times) => {
                wait_for(self.name, || model.requests().len() == times).await;
            }
            Reached::Shown(words) => {
                let is_shown = |update: &Update| update.text() == Some(words);
                client.updates_until(is_shown).await;
            }
            Reached::Holds(times) => {
                for _ in 0..times {
                    next_but_looks(client, &["/c", "/d"]).await;
                }
            }
            Reached::Effect => {
                let asked = client.next_request().await;
                let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
                client.answer(&asked, Ok(allow)).await;
                wait_for(self.name, || home.read("ran").is_some()).await;
            }
            Reached::Summary => {
                let is_summary = |request: &Value| request.to_string().contains(SUMMARISE);
                wait_for(self.name, || {
                    model.requests().last().is_some_and(is_summary)
                })
                .await;
            }
        }
    }

    /// What the command has left behind, if this is the phase of one.
    fn traces(&self) -> Option<String> {
        matches!(self.reached, Reached::Effect).then(|| "x\n".to_owned())
    }
}

/// The outcomes of all calls: exactly one each.
fn outcomes(home: &Home, session: &str) -> Vec<String> {
    let events = home.events(session);
    let uses = events.iter().filter(|event| event["type"] == "tool.use");
    let outcome = |used: &Value| {
        let results = events
            .iter()
            .filter(|event| event["type"] == "tool.result" && event["callId"] == used["callId"]);
        let results: Vec<&Value> = results.collect();
        assert_eq!(results.len(), 1, "outcomes of {used}");
        results[0]["status"].as_str().unwrap().to_owned()
    };
    uses.map(outcome).collect()
}

/// The session goes on: the model answers the next prompt.
async fn goes_on(client: &mut AcpClient, session: &str, model: &RecordingModel, phase: &Phase) {
    client.take_updates(session);
    let next = client.prompt(session, "again").await;
    let answer = format!("answer {}", model.requests().len());
    assert_eq!(next.text, answer, "{}", phase.name);
}

#[tokio::test]
async fn d_03_a_turn_can_be_cancelled_in_every_phase_and_leaves_nothing_open() {
    for phase in phases() {
        let name = phase.name;
        let (model, mut server) = phase.serve().await;
        let (mut client, session, prompt) = phase.enter(&model, &server).await;
        client.cancel(&session).await;
        let answer = client.wait(&prompt).await.unwrap();
        assert_eq!(answer["stopReason"], "cancelled", "{name}");
        for (outcome, died) in outcomes(server.home(), &session).iter().zip(phase.left) {
            let expected = match *died {
                "completed" => "completed",
                _ => "cancelled",
            };
            assert_eq!(outcome, expected, "{name}");
        }
        assert_eq!(outcomes(server.home(), &session).len(), phase.left.len());
        let kinds = stored(server.home(), &session);
        assert!(!kinds.contains(&"compaction".to_owned()), "{name}");
        goes_on(&mut client, &session, &model, &phase).await;
        assert_eq!(server.home().read("ran"), phase.traces(), "{name}");
        // Each phase heard of it by itself; nobody had to end it by force.
        let log = server.whole_log().await;
        assert!(!log.contains(FORCED), "{name}: {log}");
    }
}

#[tokio::test]
async fn d_11_a_turn_that_died_in_any_phase_is_not_repeated_and_the_session_goes_on() {
    for phase in phases() {
        let name = phase.name;
        let (model, mut server) = phase.serve().await;
        let (client, session, _) = phase.enter(&model, &server).await;
        server.kill9().await;
        drop(client);
        let before = model.requests().len();
        let server = Program::serve_in(server.into_home()).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.load_session(&session).await.unwrap();
        assert_eq!(outcomes(server.home(), &session), phase.left, "{name}");
        goes_on(&mut client, &session, &model, &phase).await;
        // Nothing ran again, neither by itself nor because the model was misled.
        assert_eq!(outcomes(server.home(), &session), phase.left, "{name}");
        assert_eq!(server.home().read("ran"), phase.traces(), "{name}");
        let kinds = stored(server.home(), &session);
        assert!(kinds.contains(&"turn.interrupted".to_owned()), "{name}");
        let asked = json!(model.requests().split_off(before)).to_string();
        for left in phase.left {
            let told = match *left {
                "unknown" => "It is unknown whether this call ran. Check before you repeat it.",
                "not_run" => "This call was not run.",
                _ => continue,
            };
            assert!(asked.contains(told), "{name}: {asked}");
        }
    }
}
