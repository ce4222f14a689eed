//! The client against an agent that a test plays itself, line by line.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::{AcpClient, Choice, Reply, RpcError};

/// The agent's end of a connection.
struct Agent {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Agent {
    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn tell(&mut self, text: &str) {
        self.say(json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s",
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}}))
            .await;
    }
}

fn pair() -> (AcpClient, Agent) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(near);
    let client = AcpClient::over(reader, writer);
    let (reader, writer) = tokio::io::split(far);
    let reader = BufReader::new(reader);
    (client, Agent { reader, writer })
}

/// What the client says when `story` fails.
async fn complaint(story: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(story).await.unwrap_err().into_panic();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[tokio::test]
async fn a_prompt_gives_its_text_and_its_end() {
    let (mut client, mut agent) = pair();
    let id = client.start_prompt("s", "hello").await;
    let heard = agent.hear().await;
    assert_eq!(heard["params"]["prompt"][0]["text"], "hello");
    agent.tell("one ").await;
    agent.tell("two").await;
    agent
        .say(json!({"jsonrpc": "2.0", "id": heard["id"], "result": {"stopReason": "end_turn"}}))
        .await;
    let answer = client.finish_prompt("s", &id).await.unwrap();
    assert_eq!(answer.text, "one two");
    assert_eq!(answer.stop_reason, "end_turn");
    assert_eq!(answer.kinds(), ["agent_message_chunk"]);
}

#[tokio::test]
async fn questions_are_answered_as_the_test_said() {
    let (mut client, mut agent) = pair();
    client.on_permission(Choice::Reject);
    client.on_request(
        "fs/read_text_file",
        Reply::Result(json!({"content": "text"})),
    );
    let options = json!([{"optionId": "a", "name": "A", "kind": "allow_once"}, {"optionId": "r", "name": "R", "kind": "reject_once"}]);
    agent
        .say(
            json!({"jsonrpc": "2.0", "id": "q1", "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}}),
        )
        .await;
    agent.say(json!({"jsonrpc": "2.0", "id": "q2", "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/a"}})).await;
    agent.say(json!({"jsonrpc": "2.0", "id": "q3", "method": "terminal/kill", "params": {"sessionId": "s", "terminalId": "t"}})).await;
    agent.tell("done").await;
    assert_eq!(client.next_update().await.text(), Some("done"));
    assert_eq!(agent.hear().await["result"]["outcome"]["optionId"], "r");
    assert_eq!(agent.hear().await["result"]["content"], "text");
    assert_eq!(agent.hear().await["error"]["code"], -32601);
    assert_eq!(client.requests().len(), 3);
}

#[tokio::test]
async fn a_held_question_is_answered_later() {
    let (mut client, mut agent) = pair();
    client.on_permission(Choice::Hold);
    agent
        .say(
            json!({"jsonrpc": "2.0", "id": "q", "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": []}}),
        )
        .await;
    let question = client.next_request().await;
    client.answer(&question, Err(RpcError::new(1, "no"))).await;
    assert_eq!(agent.hear().await["error"]["message"], "no");
}

#[tokio::test]
async fn a_message_that_is_not_acp_fails_the_test_that_receives_it() {
    let said = complaint(async {
        let (mut client, mut agent) = pair();
        agent
            .say(json!({"jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": "s", "update": {"sessionUpdate": "novelty"}}}))
            .await;
        client.next_update().await;
    })
    .await;
    assert!(
        said.contains("not valid ACP v1") && said.contains("novelty"),
        "{said}"
    );
}

#[tokio::test]
async fn a_second_answer_to_one_request_fails_the_test() {
    let said = complaint(async {
        let (mut client, mut agent) = pair();
        let id = client
            .start("session/close", json!({"sessionId": "s"}))
            .await;
        for _ in 0..2 {
            agent
                .say(json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
                .await;
        }
        client.wait(&id).await.unwrap();
        client.next_update().await;
    })
    .await;
    assert!(said.contains("answered twice"), "{said}");
}

#[tokio::test]
async fn an_answer_to_nothing_is_a_stray_and_an_end_is_seen() {
    let (mut client, mut agent) = pair();
    client.raw("{").await;
    agent.say(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "parse error"}})).await;
    assert_eq!(client.next_stray().await["error"]["code"], -32700);
    drop(agent);
    assert_eq!(client.closed().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_ends_at_the_deadline_with_what_was_said() {
    let said = complaint(async {
        let (mut client, _agent) = pair();
        let _ = client.call("session/list", json!({})).await;
    });
    let said = tokio::time::timeout(Duration::from_secs(60), said)
        .await
        .unwrap();
    assert!(
        said.contains("did not come in time") && said.contains("→ {"),
        "{said}"
    );
}
