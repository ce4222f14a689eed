//! Every case of `tests/data/jsonrpc.json`, and more of the same kinds, over WebSocket and stdio.
//! The column `http_post` is driven by `remote_vectors`.
//!
//! A case is one frame and what comes back for it. Between two cases a request is sent that is
//! always answered, so that "nothing comes back" is seen and not waited for.

pub(crate) mod cases;

use serde_json::{Value, json};
use testkit::script::{Script, stream};
use testkit::{AcpClient, Home, RawSocket};

use self::cases::{Outcome, cases};
use crate::support::{binary, echo, serve, two_clients};

const VECTORS: &str = include_str!("../data/jsonrpc.json");

/// Cases that are stories of their own, and the tests that tell them.
const STORIES: &[(&str, &str)] = &[
    (
        "parse-14",
        "what_a_string_may_hold_reaches_the_journal_unharmed",
    ),
    ("envelope-02", "of_a_batch_nothing_is_carried_out"),
    (
        "envelope-16",
        "an_answer_to_another_clients_question_does_nothing",
    ),
    (
        "envelope-17",
        "nothing_is_served_before_initialize_and_it_comes_once",
    ),
    (
        "envelope-18",
        "nothing_is_served_before_initialize_and_it_comes_once",
    ),
    (
        "id-12",
        "an_id_in_use_is_refused_and_its_first_user_unaffected",
    ),
    ("id-13", "the_same_id_on_two_connections_gets_two_answers"),
    ("ws-01", "text_that_is_not_utf8_closes_with_1007"),
    ("ws-02", "a_message_may_be_cut_anywhere"),
    (
        "ws-05",
        "a_message_over_the_limit_is_refused_before_it_is_kept",
    ),
    ("ws-11", "frames_against_the_rules_close_with_1002"),
    ("ws-12", "a_flood_of_pings_costs_no_memory"),
    (
        "ws-13",
        "b_18_f_24_a_peer_that_stops_ponging_is_dropped_and_its_session_kept",
    ),
    ("ws-15", "compression_is_not_negotiated"),
    (
        "ws-16",
        "a_close_frame_in_mid_turn_is_echoed_and_the_turn_goes_on",
    ),
    ("ws-17", "a_reset_in_mid_frame_frees_everything"),
    (
        "ws-18",
        "f_44_sigterm_under_load_loses_nothing_that_was_acknowledged",
    ),
    (
        "stdio-01",
        "a_line_of_100_megabytes_is_refused_in_bounded_memory",
    ),
    ("stdio-02", "lines_may_end_as_on_windows"),
    (
        "stdio-04",
        "a_line_that_is_not_utf8_is_answered_and_the_next_one_served",
    ),
    (
        "stdio-05",
        "the_end_of_input_in_mid_message_is_an_orderly_end",
    ),
    ("stdio-06", "a_closed_output_is_an_orderly_end"),
];

/// The same for the column `http_post`, where it says more than "n/a" and the case is no frame.
const POST_STORIES: &[(&str, &str)] = &[
    (
        "parse-14",
        "what_a_posted_string_may_hold_reaches_the_journal_unharmed",
    ),
    ("envelope-02", "of_a_posted_batch_nothing_is_carried_out"),
    (
        "envelope-16",
        "a_posted_answer_to_another_clients_question_does_nothing",
    ),
    (
        "envelope-17",
        "nothing_is_posted_before_initialize_and_it_comes_once",
    ),
    (
        "envelope-18",
        "nothing_is_posted_before_initialize_and_it_comes_once",
    ),
    (
        "id-12",
        "a_posted_id_in_use_is_refused_and_its_first_user_unaffected",
    ),
    (
        "id-13",
        "the_same_id_on_two_http_connections_gets_two_answers",
    ),
    (
        "http-02",
        "json_may_be_spelt_in_any_way_and_nothing_else_is_taken",
    ),
    ("http-03", "requests_that_lead_nowhere_are_told_so"),
    ("http-04", "requests_that_lead_nowhere_are_told_so"),
    (
        "http-05",
        "a_first_message_opens_a_connection_and_delete_ends_it",
    ),
    (
        "http-07",
        "a_session_in_the_header_is_the_session_of_the_message",
    ),
    ("http-12", "f_30_headers_that_never_finish_are_given_up"),
    ("http-13", "an_idle_keep_alive_connection_is_closed"),
    (
        "http-14",
        "too_many_or_too_long_headers_are_refused_with_431",
    ),
    (
        "http-17",
        "requests_that_two_parsers_read_differently_are_refused",
    ),
    (
        "http-18",
        "rapid_resets_end_the_connection_and_cost_others_nothing",
    ),
    (
        "http-18",
        "headers_without_end_end_the_connection_and_cost_others_nothing",
    ),
    (
        "http-18",
        "resets_that_the_server_is_tricked_into_end_the_connection",
    ),
    ("http-21", "an_expectation_does_not_hang"),
];

const SOURCES: &[&str] = &[
    include_str!("faults.rs"),
    include_str!("hostile.rs"),
    include_str!("http2.rs"),
    include_str!("liveness.rs"),
    include_str!("remote_vectors.rs"),
    include_str!("streamable.rs"),
    include_str!("vectors_frames.rs"),
    include_str!("vectors_http.rs"),
    include_str!("vectors_jsonrpc.rs"),
];

#[test]
fn every_case_of_the_file_is_driven_by_a_test_that_exists() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let driven = cases();
    for vector in vectors.as_array().unwrap() {
        let id = vector["id"].as_str().unwrap();
        let is_frame = driven.iter().any(|case| case.id == id);
        for (column, stories) in [("ws_or_stdio", STORIES), ("http_post", POST_STORIES)] {
            let is_story = stories.iter().any(|(story, _)| *story == id);
            let is_driven = is_frame || is_story;
            assert_eq!(
                is_driven,
                vector[column] != "n/a",
                "{id}: {column} is driven where it says something"
            );
        }
    }
    for (id, test) in STORIES.iter().chain(POST_STORIES) {
        let declared = format!("async fn {test}(");
        let exists = SOURCES.iter().any(|source| source.contains(&declared));
        assert!(exists, "{id}: there is no test {test}");
        let is_case = vectors.as_array().unwrap().iter().any(|v| v["id"] == *id);
        assert!(is_case, "{id} is no case");
    }
}

#[tokio::test]
async fn every_frame_over_websocket_gets_the_answer_that_the_vectors_demand() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    drive(&mut client).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn every_frame_over_stdio_gets_the_answer_that_the_vectors_demand() {
    let home = Home::new(binary(), echo());
    let mut client = AcpClient::spawn_stdio(&home).await;
    drive(&mut client).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

async fn drive(client: &mut AcpClient) {
    for (number, case) in cases().into_iter().enumerate() {
        // An id is used once, so that no answer can be taken for another's.
        let fill = |text: &str| text.replace('$', &(1_000 + number).to_string());
        let frame = fill(&case.frame);
        let shown: String = frame.chars().take(120).collect();
        let answers = answers_to(client, &frame).await;
        let outcome = match answers.as_slice() {
            [] => Outcome::Nothing,
            [answer] => refused(answer),
            several => panic!("{}: {shown}: {several:?}", case.id),
        };
        let expected = match case.outcome {
            Outcome::Refused(code, id) => Outcome::Refused(code, fill(&id)),
            Outcome::Nothing => Outcome::Nothing,
        };
        assert_eq!(outcome, expected, "{}: {shown}", case.id);
    }
}

/// What the agent says between `frame` and the answer to a request behind it.
async fn answers_to(client: &mut AcpClient, frame: &str) -> Vec<String> {
    let before = client.received().len();
    client.raw(frame).await;
    list_behind(client, before).await
}

/// Sends a request that is always answered; gives what was said after the first `before` messages
/// and is not its answer.
pub(crate) async fn list_behind(client: &mut AcpClient, before: usize) -> Vec<String> {
    let id = json!(format!("behind {before}"));
    let request = client.start_as(id.clone(), "session/list", json!({})).await;
    client.wait(&request).await.unwrap();
    let (behind, said) = (id.to_string(), client.received());
    let said = said[before..].iter();
    said.filter(|text| !text.contains(&behind))
        .map(ToString::to_string)
        .collect()
}

/// An error answer by its code and its id, the id as it was written.
pub(crate) fn refused(answer: &str) -> Outcome {
    let parsed: Value = serde_json::from_str(answer).unwrap();
    let code = parsed["error"]["code"].as_i64().unwrap_or(0);
    let after = answer.split_once(r#""id":"#).unwrap().1;
    let id = after.split_once(r#","error":"#).unwrap().0;
    Outcome::Refused(code, id.to_owned())
}

#[tokio::test]
async fn of_a_batch_nothing_is_carried_out() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": {"cwd": server.home().workspace(), "mcpServers": []}});
    let answers = answers_to(&mut client, &json!([new, new]).to_string()).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(
        refused(&answers[0]),
        Outcome::Refused(-32600, "null".into())
    );
    assert!(answers[0].contains("batch"), "{answers:?}");
    let silent = json!({"jsonrpc": "2.0", "method": "session/new",
        "params": {"cwd": server.home().workspace(), "mcpServers": []}});
    assert!(
        answers_to(&mut client, &silent.to_string())
            .await
            .is_empty()
    );
    let listed = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"], json!([]));
}

#[tokio::test]
async fn what_a_string_may_hold_reaches_the_journal_unharmed() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let odd = "nul \u{0} line \u{2028} next \u{85} del \u{7f} quote \" slash \\ \u{10ffff} end";
    let answer = client.prompt(&session, odd).await;
    assert_eq!(answer.text, format!("you said {odd}"));
    let events = server.home().events(&session);
    let prompt = events.iter().find(|event| event["type"] == "user.message");
    assert_eq!(prompt.unwrap()["text"], odd);
    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = other.load_session(&session).await.unwrap();
    assert_eq!(
        testkit::client::text_of(&replayed, "agent_message_chunk"),
        format!("you said {odd}")
    );
}

#[tokio::test]
async fn an_answer_to_another_clients_question_does_nothing() {
    let script = Script::new()
        .call([testkit::script::tool(
            "write",
            json!({"path": "a", "content": "x"}),
        )])
        .call([testkit::script::say("done")]);
    let server = serve(script).await;
    let (mut owner, mut other) = two_clients(&server).await;
    owner.on_permission(testkit::Choice::Hold);
    let session = owner.new_session().await;
    let prompt = owner.start_prompt(&session, "write").await;
    let question = owner.next_request().await;
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    let forged = json!({"jsonrpc": "2.0", "id": question.id, "result": allow});
    assert!(answers_to(&mut other, &forged.to_string()).await.is_empty());
    assert_eq!(server.home().read("a"), None, "nobody has allowed it");
    let reject = json!({"outcome": {"outcome": "selected", "optionId": "reject_once"}});
    owner.answer(&question, Ok(reject)).await;
    owner.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(server.home().read("a"), None, "the owner's answer counted");
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_its_first_user_unaffected() {
    let server = serve(Script::new().call([stream("x", 40, 10)])).await;
    let mut socket = RawSocket::initialized(&server).await;
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    let session = socket.call("session/new", new).await["result"]["sessionId"].clone();
    let prompt = json!({"jsonrpc": "2.0", "id": "ab", "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    socket.text(&prompt.to_string()).await;
    // Written in another way, it is the same id all the same.
    for same in [r#""ab""#, r#""a\u0062""#] {
        let list = format!(r#"{{"jsonrpc":"2.0","id":{same},"method":"session/list"}}"#);
        socket.text(&list).await;
    }
    let (mut refused, mut chunks) = (0, 0);
    let answer = loop {
        let message = socket.message().await;
        if message["method"] == "session/update" {
            chunks += 1;
        } else if message["id"] == "ab" && message["error"]["code"] == -32600 {
            assert!(message.to_string().contains("duplicate id"), "{message}");
            refused += 1;
        } else if message["id"] == "ab" {
            break message;
        }
    };
    assert_eq!(refused, 2);
    assert!(chunks >= 40, "{chunks}");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn the_same_id_on_two_connections_gets_two_answers() {
    let server = serve(echo()).await;
    let (mut one, mut two) = two_clients(&server).await;
    let (a, b) = (one.new_session().await, two.new_session().await);
    for (client, session, text) in [(&mut one, &a, "one"), (&mut two, &b, "two")] {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        client.start_as(json!(77), "session/prompt", prompt).await;
    }
    for (client, session, text) in [(&mut two, &b, "two"), (&mut one, &a, "one")] {
        let updates = client
            .updates_until(|update| update.kind == "agent_message_chunk" && !update.is_greeting())
            .await;
        assert!(updates.iter().all(|update| update.session == *session));
        let said = testkit::client::text_of(&updates, "agent_message_chunk");
        assert_eq!(said, format!("you said {text}"));
    }
}
