//! `ask_user`: the agent asks the person, in a form or as a choice, and goes on with the answer.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, RpcError, wait_for};

use crate::support::{binary, serve, serve_with, stored};

/// A model that asks `input` and repeats what it was told.
fn asking(input: Value) -> Script {
    Script::new()
        .call([tool("ask_user", input)])
        .call([say("told: ${result}")])
}

fn colours() -> Value {
    json!({"question": "Which colour?", "options": ["red", "blue"]})
}

/// A client that shows forms.
pub(crate) async fn with_forms(server: &Program, reply: Reply) -> AcpClient {
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialed.unwrap().in_directory(server.home().workspace());
    let forms = json!({"elicitation": {"form": {}}});
    client.initialize_with(forms).await;
    client.on_request("elicitation/create", reply);
    client
}

pub(crate) fn accept(content: Value) -> Reply {
    Reply::Result(json!({"action": "accept", "content": content}))
}

pub(crate) fn event(home: &Home, session: &str, kind: &str) -> Value {
    let events = home.events(session);
    let found = events.into_iter().find(|event| event["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

#[tokio::test]
async fn d_05_a_client_with_forms_shows_one_and_the_answer_is_the_tools_result() {
    let server = serve(asking(json!({"question": "What is it called?"}))).await;
    let mut client = with_forms(&server, accept(json!({"answer": "Rosebud"}))).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.text, "told: Rosebud");
    let [asked] = client.requests() else {
        panic!("{:?}", client.requests());
    };
    let used = event(server.home(), &session, "tool.use");
    let form = json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "Answer", "minLength": 1}},
        "required": ["answer"],
    });
    let expected = json!({
        "mode": "form", "sessionId": session, "toolCallId": used["callId"],
        "message": "What is it called?", "requestedSchema": form,
    });
    assert_eq!(asked.params, expected);
    let kinds = stored(server.home(), &session);
    let at = |kind: &str| kinds.iter().position(|stored| stored == kind).unwrap();
    assert_eq!(at("question.asked"), at("tool.use") + 1);
    assert_eq!(at("tool.result"), at("question.answered") + 1);
    assert!(
        !kinds.contains(&"permission.asked".to_owned()),
        "asking needs no permission"
    );
    let answered = event(server.home(), &session, "question.answered");
    assert_eq!(
        (&answered["outcome"], &answered["text"], &answered["by"]),
        (&json!("answered"), &json!("Rosebud"), &json!("local"))
    );
}

#[tokio::test]
async fn d_05_in_a_form_a_person_chooses_or_says_something_else() {
    for (content, told) in [
        (json!({"answer": "blue"}), "told: blue"),
        (json!({"answer": "blue", "other": "  "}), "told: blue"),
        (json!({"answer": "blue", "other": "green"}), "told: green"),
        (json!({"answer": 7}), "told: 7"),
    ] {
        let server = serve(asking(colours())).await;
        let mut client = with_forms(&server, accept(content)).await;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "go").await.text, told);
        let fields = &client.requests()[0].params["requestedSchema"]["properties"];
        assert_eq!(fields["answer"]["enum"], json!(["red", "blue"]));
    }
}

#[tokio::test]
async fn d_05_a_client_without_forms_is_offered_the_answers_as_options() {
    let server = serve(asking(colours())).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Option("answer_2".to_owned()));
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "told: blue");
    let asked = &client.requests()[0].params;
    assert_eq!(asked["toolCall"]["title"], "Which colour?");
    let options = asked["options"].as_array().unwrap();
    let shown: Vec<_> = options.iter().map(|o| (&o["name"], &o["kind"])).collect();
    assert_eq!(
        json!(shown),
        json!([
            ["red", "allow_once"],
            ["blue", "allow_once"],
            ["I'll answer in the chat", "allow_once"],
            ["Don't answer", "reject_once"],
        ])
    );
}

#[tokio::test]
async fn d_05_what_needs_words_is_answered_in_the_chat() {
    let server = serve(asking(json!({"question": "What is it called?"}))).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert!(
        answer.text.contains("will answer in the chat"),
        "{}",
        answer.text
    );
    let answered = event(server.home(), &session, "question.answered");
    assert_eq!(answered["outcome"], "later");
    let next = client.prompt(&session, "Rosebud").await;
    assert_eq!(next.stop_reason, "end_turn");
}

#[tokio::test]
async fn d_05_whoever_declines_is_not_asked_again_and_the_turn_goes_on() {
    let decline = || Reply::Result(json!({"action": "decline"}));
    let cancel = || Reply::Result(json!({"action": "cancel"}));
    for reply in [decline(), cancel(), accept(json!({})), accept(Value::Null)] {
        let server = serve(asking(colours())).await;
        let mut client = with_forms(&server, reply).await;
        let session = client.new_session().await;
        let answer = client.prompt(&session, "go").await;
        assert!(
            answer.text.contains("declined to answer"),
            "{}",
            answer.text
        );
        assert_eq!(client.requests().len(), 1);
        let result = event(server.home(), &session, "tool.result");
        assert_eq!(result["status"], "denied");
    }
}

#[tokio::test]
async fn d_05_a_client_that_cannot_ask_leaves_it_to_others_and_the_last_ends_it() {
    let failing = || Reply::Error(RpcError::new(-32603, "no window"));
    let odd = || Reply::Result(json!({"action": "_later"}));
    for reply in [failing(), odd(), Reply::Result(json!({"answer": "x"}))] {
        let server = serve(asking(colours())).await;
        let mut client = with_forms(&server, reply).await;
        let session = client.new_session().await;
        let answer = client.prompt(&session, "go").await;
        assert!(
            answer.text.contains("The user could not be asked"),
            "{}",
            answer.text
        );
    }
}

#[tokio::test]
async fn d_05_of_two_clients_the_first_answer_counts_and_the_other_is_told() {
    let server = serve(asking(colours())).await;
    let mut first = with_forms(&server, Reply::Hold).await;
    let session = first.new_session().await;
    let mut second = AcpClient::connect_ws(&server).await;
    second.on_permission(Choice::Hold);
    second.load_session(&session).await.unwrap();
    let running = first.start_prompt(&session, "go").await;
    let form = first.next_request().await;
    let choice = second.next_request().await;
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": "answer_1"}});
    second.answer(&choice, Ok(chosen)).await;
    let cancelled = first.next_notification("$/cancel_request").await;
    assert_eq!(cancelled["requestId"], form.id);
    // Too late: it changes nothing.
    first
        .answer(
            &form,
            Ok(json!({"action": "accept", "content": {"answer": "blue"}})),
        )
        .await;
    let answer = first.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.text, "told: red");
}

#[tokio::test]
async fn d_05_an_open_question_is_asked_again_of_whoever_attaches() {
    let server = serve(asking(colours())).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client.next_request().await;
    drop(client);
    let mut later = with_forms(&server, Reply::Hold).await;
    later.load_session(&session).await.unwrap();
    let asked = later.next_request().await;
    assert_eq!(asked.params["message"], "Which colour?");
    later
        .answer(
            &asked,
            Ok(json!({"action": "accept", "content": {"answer": "red"}})),
        )
        .await;
    let home = server.home();
    wait_for("the turn to end", || {
        stored(home, &session).contains(&"result".to_owned())
    })
    .await;
    assert_eq!(event(home, &session, "tool.result")["text"], "red");
}

#[tokio::test]
async fn d_05_a_cancelled_turn_takes_its_question_back() {
    let server = serve(asking(colours())).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let asked = client.next_request().await;
    client.cancel(&session).await;
    let taken_back = client.next_notification("$/cancel_request").await;
    assert_eq!(taken_back["requestId"], asked.id);
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
    let home = server.home();
    assert_eq!(
        event(home, &session, "question.answered")["outcome"],
        "cancelled"
    );
    assert_eq!(event(home, &session, "tool.result")["status"], "cancelled");
}

#[tokio::test]
async fn d_05_a_question_that_nobody_answers_ends_in_time() {
    let limits = [("FASTNESS_LIMITS_PERMISSION_MS", "100")];
    let server = serve_with(asking(colours()), &limits).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert!(
        answer.text.contains("The user did not answer in time"),
        "{}",
        answer.text
    );
    let answered = event(server.home(), &session, "question.answered");
    assert_eq!(answered["outcome"], "expired");
}

#[tokio::test]
async fn d_05_a_server_killed_while_it_asks_goes_on_without_the_question() {
    let mut server = serve(asking(colours())).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client.next_request().await;
    server.kill9().await;
    let server = server.restart().await;
    let mut client = with_forms(&server, accept(json!({"answer": "red"}))).await;
    client.load_session(&session).await.unwrap();
    let home = server.home();
    assert_eq!(
        event(home, &session, "question.answered")["outcome"],
        "cancelled"
    );
    assert_eq!(event(home, &session, "tool.result")["status"], "not_run");
    let answer = client.prompt(&session, "again").await;
    assert_eq!(answer.text, "told: red", "the next turn asks anew");
    assert_eq!(client.requests().len(), 1);
}

#[tokio::test]
async fn d_05_hostile_questions_are_not_asked_or_asked_in_plain_words() {
    let many: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    for input in [
        json!({"question": "x".repeat(1_000_000)}),
        json!({"question": "Which?", "options": many}),
        json!({"question": "Which?", "options": ["y".repeat(100_000)]}),
        json!({"question": ["no", "text"]}),
        json!({"question": "\u{1b}[2J\u{7} \n"}),
    ] {
        let server = serve(asking(input)).await;
        let mut client = with_forms(&server, Reply::Hold).await;
        let session = client.new_session().await;
        client.prompt(&session, "go").await;
        assert!(client.requests().is_empty(), "nobody is asked that");
        let result = event(server.home(), &session, "tool.result");
        assert_eq!(result["status"], "failed");
    }
    let input = json!({"question": "\u{1b}[31mWhich\u{202e} \u{0}one?", "options": ["a\u{1b}[2J"]});
    let server = serve(asking(input)).await;
    let mut client = with_forms(&server, accept(json!({"answer": "a"}))).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let asked = &client.requests()[0].params;
    assert_eq!(asked["message"], "Which one?");
    assert_eq!(
        asked["requestedSchema"]["properties"]["answer"]["enum"],
        json!(["a"])
    );
}

#[tokio::test]
async fn d_05_a_sub_agent_asks_the_agent_that_called_it_and_not_the_person() {
    let agent = asking(colours());
    let script = Script::new()
        .call([tool("task", json!({"prompt": "work"}))])
        .call([say("${result}")])
        .agent("general", agent);
    let server = serve(script).await;
    let mut client = with_forms(&server, Reply::Hold).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert!(
        answer.text.contains("no tool called ask_user"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn d_05_ask_without_a_terminal_answers_no_question_in_a_persons_place() {
    let home = Home::new(binary(), asking(colours()));
    let output = home
        .command("ask")
        .args(["go", "--allow", "*"])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("told: ") && said.contains("The user cannot be asked: there is no terminal."),
        "{said}"
    );
    assert!(!said.contains("red"), "{said}");
}
