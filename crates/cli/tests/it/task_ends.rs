//! How sub-agents end: done, cancelled, killed, deleted; and that nothing of them stays.

use serde_json::{Value, json};
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Choice, Home, Program, wait_for};
use tokio::time::{Duration, Instant};

use crate::commands::{STUBBORN, lives, stubborn};
use crate::metrics::{Numbers, until};
use crate::support::{serve, stored};
use crate::tasks::{child_of, giving};

/// A model whose sub-agent runs `command` on the server.
fn running(command: &str) -> Script {
    let worker = Script::new().call([tool("bash", json!({"command": command}))]);
    giving([json!({"prompt": "work"})]).agent("general", worker)
}

/// A client with a session whose sub-agent is at work.
async fn at_work(server: &Program) -> (AcpClient, String, testkit::RequestId) {
    let mut client = AcpClient::connect_ws(server).await;
    let session = client.new_session().await;
    // Nobody is asked, so that nobody has to listen.
    let bypass = json!({"sessionId": session, "modeId": "bypass"});
    client.call("session/set_mode", bypass).await.unwrap();
    let prompt = client.start_prompt(&session, "go").await;
    (client, session, prompt)
}

async fn child(home: &Home, session: &str) -> String {
    wait_for("a child", || child_of(home, session).is_some()).await;
    child_of(home, session).unwrap()
}

fn result_of(home: &Home, session: &str) -> Vec<String> {
    let events = home.events(session).into_iter();
    let results = events.filter(|event| event["type"] == "tool.result");
    results
        .map(|event| event["status"].as_str().unwrap().to_owned())
        .collect()
}

fn is_there(home: &Home, session: &str) -> bool {
    home.data_dir().join("sessions").join(session).exists()
}

#[tokio::test]
async fn f_34_cancelling_reaches_the_sub_agent_and_all_that_it_started_within_a_second() {
    let server = serve(running(&format!("{STUBBORN} while :; do sleep 1; done"))).await;
    let (mut client, session, prompt) = at_work(&server).await;
    let home = server.home();
    wait_for("the command", || stubborn(home).is_some()).await;
    let pid = stubborn(home).unwrap();
    assert!(lives(&pid));
    let child = child(home, &session).await;
    let asked = Instant::now();
    client.cancel(&session).await;
    let answer = client.wait(&prompt).await.unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    wait_for("its end", || !lives(&pid)).await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(result_of(home, &session), ["cancelled"]);
    wait_for("the child to leave", || {
        stored(home, &child).last().map(String::as_str) == Some("session.closed")
    })
    .await;
    assert_eq!(result_of(home, &child), ["cancelled"]);
}

#[tokio::test]
async fn d_11_a_task_that_died_with_the_server_is_neither_forgotten_nor_repeated() {
    let mut server = serve(running(&format!("{STUBBORN} while :; do sleep 1; done"))).await;
    let (client, session, _) = at_work(&server).await;
    wait_for("the command", || stubborn(server.home()).is_some()).await;
    let pid = stubborn(server.home()).unwrap();
    let child = child(server.home(), &session).await;
    server.kill9().await;
    drop(client);
    wait_for("the command to end", || !lives(&pid)).await;
    std::fs::remove_file(server.home().workspace().join("child")).unwrap();
    let home = server.into_home();
    home.set_script(Script::says("next"));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    assert_eq!(client.prompt(&session, "again").await.text, "next");
    client.load_session(&child).await.unwrap();
    let home = server.home();
    assert_eq!(result_of(home, &session), ["unknown"]);
    assert_eq!(result_of(home, &child), ["unknown"]);
    assert!(stored(home, &child).contains(&"turn.interrupted".to_owned()));
    assert_eq!(home.read("child"), None, "it ran again");
}

#[tokio::test]
async fn d_11_a_task_that_waited_for_a_person_when_the_server_died_may_have_run() {
    let worker = Script::new().call([tool("write", json!({"path": "a", "content": "x"}))]);
    let script = giving([json!({"prompt": "work"})]).agent("general", worker);
    let mut server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Hold);
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    let task = client.next_request().await;
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    client.answer(&task, Ok(allow)).await;
    client.next_request().await;
    let child = child(server.home(), &session).await;
    server.kill9().await;
    drop(client);
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.load_session(&child).await.unwrap();
    let home = server.home();
    assert_eq!(result_of(home, &session), ["unknown"], "the task had begun");
    assert_eq!(result_of(home, &child), ["not_run"]);
    assert_eq!(home.read("a"), None);
}

#[tokio::test]
async fn a_08_a_sub_agent_leaves_memory_with_its_task_and_nothing_of_it_stays() {
    let server = serve(
        giving([json!({"prompt": "a"}), json!({"prompt": "b"})])
            .agent("general", Script::says("done")),
    )
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let before = Numbers::of(&server).await;
    for _ in 0..5 {
        client.prompt(&session, "go").await;
        client
            .call(
                "_fastness/session/rewind",
                json!({"sessionId": session, "to": 0}),
            )
            .await
            .ok();
    }
    until(&server, "the sub-agents to leave", |numbers| {
        numbers.get("sessions{state=\"idle\"}") == before.get("sessions{state=\"idle\"}")
            && numbers.get("sessions{state=\"running\"}") == 0.0
            && numbers.get("attachments") == before.get("attachments")
    })
    .await;
    assert!(child_of(server.home(), &session).is_some());
}

#[tokio::test]
async fn a_sub_agent_ends_with_the_turn_that_called_it_also_while_others_look_on() {
    let worker = Script::new().call([stream("x", 10_000, 10)]);
    let script = giving([json!({"prompt": "work"})]).agent("general", worker);
    let server = serve(script).await;
    let (mut client, session, prompt) = at_work(&server).await;
    let child = child(server.home(), &session).await;
    let mut other = AcpClient::connect_ws(&server).await;
    other.load_session(&child).await.unwrap();
    client.cancel(&session).await;
    client.wait(&prompt).await.unwrap();
    wait_for("the end of its turn", || {
        stored(server.home(), &child).contains(&"result".to_owned())
    })
    .await;
    let events = server.home().events(&child);
    let end = events.iter().find(|event| event["type"] == "result");
    assert_eq!(end.unwrap()["stopReason"], "cancelled");
    // Whoever looks on still can.
    assert!(!stored(server.home(), &child).contains(&"session.closed".to_owned()));
    other.load_session(&child).await.unwrap();
}

#[tokio::test]
async fn who_reads_of_a_sub_agent_in_its_callers_journal_can_enter_it_at_once() {
    let worker = Script::new().call([say("x"), pause(60_000)]);
    let script = giving([json!({"prompt": "work"})]).agent("general", worker);
    let server = serve(script).await;
    let mut other = AcpClient::connect_ws(&server).await;
    let (mut client, session, prompt) = at_work(&server).await;
    // Without a pause: it is named there before it is made.
    let deadline = Instant::now() + Duration::from_secs(30);
    let child = loop {
        if let Some(child) = child_of(server.home(), &session) {
            break child;
        }
        assert!(Instant::now() < deadline, "no task was given");
        tokio::task::yield_now().await;
    };
    other.load_session(&child).await.unwrap();
    client.cancel(&session).await;
    let answer = client.wait(&prompt).await.unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    assert_eq!(result_of(server.home(), &session), ["cancelled"]);
}

#[tokio::test]
async fn cancelling_a_sub_agent_itself_leaves_its_caller_at_work() {
    let worker = Script::new().call([stream("x", 10_000, 10)]);
    let script = giving([json!({"prompt": "work"})]).agent("general", worker);
    let server = serve(script).await;
    let (mut client, session, prompt) = at_work(&server).await;
    let child = child(server.home(), &session).await;
    let mut other = AcpClient::connect_ws(&server).await;
    other.load_session(&child).await.unwrap();
    other.cancel(&child).await;
    let answer = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.stop_reason, "end_turn");
    assert!(answer.text.contains("it was cancelled"), "{}", answer.text);
    assert_eq!(result_of(server.home(), &session), ["failed"]);
}

#[tokio::test]
async fn deleting_a_session_deletes_its_sub_agents_running_or_not() {
    let worker = Script::new().call([say("x"), pause(60_000)]);
    let script = Script::new()
        .call([tool("task", json!({"agent": "general", "prompt": "first"}))])
        .call([tool("task", json!({"prompt": "second"}))])
        .agent("general", worker);
    let server = serve(script).await;
    let (mut client, session, prompt) = at_work(&server).await;
    let first = child(server.home(), &session).await;
    client.cancel(&session).await;
    client.wait(&prompt).await.unwrap();
    client.start_prompt(&session, "go").await;
    wait_for("the second child", || {
        child_of(server.home(), &session).is_some_and(|newest| newest != first)
    })
    .await;
    let second = child_of(server.home(), &session).unwrap();
    let delete = json!({"sessionId": session});
    client.call("session/delete", delete).await.unwrap();
    for gone in [&session, &first, &second] {
        assert!(!is_there(server.home(), gone), "{gone}");
    }
}

#[tokio::test]
async fn the_command_line_lists_deletes_and_forks_sub_agents() {
    let script = giving([json!({"prompt": "look"})]).agent("general", Script::says("seen"));
    let mut server = serve(script).await;
    let (mut client, session, prompt) = at_work(&server).await;
    client.finish_prompt(&session, &prompt).await.unwrap();
    let child = child(server.home(), &session).await;
    drop(client);
    server.terminate().await;
    let home = server.into_home();
    let sessions = async |arguments: &[&str]| {
        let mut command = home.clean(home.binary());
        command.arg("sessions").args(arguments);
        command.arg("--data-dir").arg(home.data_dir());
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!sessions(&["list"]).await.contains(&child));
    let listed = sessions(&["list", "--agents"]).await;
    let (above, below) = (listed.find(&session), listed.find(&child));
    assert!(above.is_some() && above < below, "{listed}");
    assert!(listed.contains("└ general: look"), "{listed}");
    let rows: Value =
        serde_json::from_str(&sessions(&["list", "--agents", "--json"]).await).unwrap();
    let parents: Vec<&Value> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["parent"])
        .collect();
    assert_eq!(parents, [&Value::Null, &json!(session)]);
    let shown = sessions(&["show", &session]).await;
    assert!(
        shown.contains(&format!("the agent general works in session {child}")),
        "{shown}"
    );
    // A fork is nobody's sub-agent: people can go on with it.
    let head = home.events(&child).len().to_string();
    let fork = sessions(&["fork", &child, "--at", &head]).await;
    sessions(&["delete", &session, "--yes"]).await;
    assert!(!is_there(&home, &session) && !is_there(&home, &child));
    home.set_script(Script::says("going on"));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(fork.trim()).await.unwrap();
    assert_eq!(
        client.prompt(fork.trim(), "and now?").await.text,
        "going on"
    );
}
