//! The column `http_post` of `tests/data/jsonrpc.json`: the same messages, each as a POST.
//!
//! What is no message is refused by the answer to the POST; what is one gets 202, and whatever
//! there is to say about it comes on a stream.

use serde_json::{Value, json};
use testkit::raw::{self, HttpAnswer};
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice, Program, RawRemote};

use crate::support::{echo, serve, stored};
use crate::vectors_jsonrpc::cases::{Outcome, cases};
use crate::vectors_jsonrpc::{list_behind, refused};

/// Posts `body` with these headers (each with its line end) and the default token.
async fn post(server: &Program, headers: &str, body: impl AsRef<[u8]>) -> HttpAnswer {
    let body = body.as_ref();
    let headers = format!("{headers}content-length: {}\r\n", body.len());
    let head = raw::authorized(server, "POST", "/acp", &headers);
    raw::request(server, [head.as_bytes(), body].concat()).await
}

/// How the POST of a frame is answered that is refused as such: an array is a batch.
fn status_of(frame: &str, code: i64) -> Option<u16> {
    match code {
        -32600 if frame.trim_start().starts_with('[') => Some(501),
        -32600 | -32700 => Some(400),
        _ => None,
    }
}

#[tokio::test]
async fn every_post_gets_the_answer_that_the_vectors_demand() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server).await;
    for (number, case) in cases().into_iter().enumerate() {
        // An id is used once, so that no answer can be taken for another's.
        let fill = |text: &str| text.replace('$', &(1_000 + number).to_string());
        let frame = fill(&case.frame);
        let shown: String = format!("{}: {frame}", case.id).chars().take(120).collect();
        let before = client.received().len();
        let answer = client.post(&frame).await;
        let streamed = list_behind(&mut client, before).await;
        let without = post(&server, "content-type: application/json\r\n", &frame).await;
        let expected = match case.outcome {
            Outcome::Nothing => None,
            Outcome::Refused(code, id) => Some((code, Outcome::Refused(code, fill(&id)))),
        };
        let Some((code, expected)) = expected else {
            assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{shown}");
            assert!(streamed.is_empty(), "{shown}: {streamed:?}");
            assert_eq!(without.status, 400, "{shown}: {without}");
            continue;
        };
        let Some(status) = status_of(&frame, code) else {
            assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{shown}");
            assert_eq!(streamed.len(), 1, "{shown}: {streamed:?}");
            assert_eq!(refused(&streamed[0]), expected, "{shown}");
            assert_eq!(without.status, 400, "{shown}: {without}");
            continue;
        };
        // Whether it names a connection does not matter: nobody can tell whose it is.
        for answer in [answer, without] {
            assert_eq!(answer.status, status, "{shown}: {answer}");
            assert_eq!(answer.header("content-type"), Some("application/json"));
            assert_eq!(refused(&answer.body), expected, "{shown}");
        }
        assert!(streamed.is_empty(), "{shown}: {streamed:?}");
    }
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn a_post_that_is_not_utf8_is_not_json() {
    let server = serve(echo()).await;
    for body in [
        &b"\xff"[..],
        b"{\"a\":\"\xc3\"}",
        b"\xed\xa0\x80",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xf0\x9f\x98\",\"method\":\"m\"}",
        b"\0",
        b"\xff\xfe{\0}\0",
    ] {
        let answer = post(&server, "content-type: application/json\r\n", body).await;
        assert_eq!(answer.status, 400, "{body:?}: {answer}");
        assert_eq!(
            refused(&answer.body),
            Outcome::Refused(-32700, "null".into())
        );
    }
}

#[tokio::test]
async fn of_a_posted_batch_nothing_is_carried_out() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server).await;
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": {"cwd": server.home().workspace(), "mcpServers": []}});
    let answer = client.post(&json!([new, new]).to_string()).await;
    assert_eq!(answer.status, 501, "{answer}");
    assert!(answer.body.contains("batch"), "{answer}");
    let mut silent = new;
    silent.as_object_mut().unwrap().remove("id");
    assert_eq!(client.post(&silent.to_string()).await.status, 202);
    let listed = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"], json!([]));
}

#[tokio::test]
async fn what_a_posted_string_may_hold_reaches_the_journal_unharmed() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    // Line breaks of every kind: none of them may end an event of the stream.
    let odd =
        "nul \u{0} cr \r lf \n both \r\n\r\n ls \u{2028} ps \u{2029} nel \u{85} data: x\nid: y";
    let answer = client.prompt(&session, odd).await;
    assert_eq!(answer.text, format!("you said {odd}"));
    let events = server.home().events(&session);
    let prompt = events.iter().find(|event| event["type"] == "user.message");
    assert_eq!(prompt.unwrap()["text"], odd);
}

#[tokio::test]
async fn a_posted_answer_to_another_clients_question_does_nothing() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a", "content": "x"}))])
        .call([say("done")]);
    let server = serve(script).await;
    let mut owner = AcpClient::connect_http(&server).await;
    let mut other = AcpClient::connect_http(&server).await;
    owner.on_permission(Choice::Hold);
    let session = owner.new_session().await;
    let prompt = owner.start_prompt(&session, "write").await;
    let question = owner.next_request().await;
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    let forged = json!({"jsonrpc": "2.0", "id": question.id, "result": allow}).to_string();
    assert_eq!(other.post(&forged).await.status, 202);
    let before = other.received().len();
    assert!(list_behind(&mut other, before).await.is_empty());
    assert_eq!(server.home().read("a"), None, "nobody has allowed it");
    let reject = json!({"outcome": {"outcome": "selected", "optionId": "reject_once"}});
    owner.answer(&question, Ok(reject)).await;
    owner.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(server.home().read("a"), None, "the owner's answer counted");
}

#[tokio::test]
async fn nothing_is_posted_before_initialize_and_it_comes_once() {
    let server = serve(echo()).await;
    let message = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let new = message(
        1,
        "session/new",
        json!({"cwd": server.home().workspace(), "mcpServers": []}),
    );
    let json = "content-type: application/json\r\n";
    let early = post(&server, json, new.to_string()).await;
    assert_eq!(early.status, 400, "envelope-17: {early}");
    assert_eq!(early.header("acp-connection-id"), None, "{early}");
    let remote = RawRemote::open(&server).await;
    let hello = message(2, "initialize", json!({"protocolVersion": 1}));
    let again = remote.post(&server, "", &hello).await;
    assert_eq!(again.status, 400, "envelope-18: {again}");
    // The connection is as good as before.
    let mut stream = remote.stream(&server, "").await;
    assert_eq!(remote.post(&server, "", &new).await.status, 202);
    let made = stream.until(|message| message["id"] == 1).await;
    let session = made["result"]["sessionId"].as_str().unwrap();
    assert_eq!(stored(server.home(), session), ["session.created"]);
}

#[tokio::test]
async fn a_refused_initialize_says_why_and_opens_nothing() {
    let server = serve(echo()).await;
    for params in ["{}", r#"{"protocolVersion":"x"}"#, "[]"] {
        let hello =
            format!(r#"{{"jsonrpc":"2.0","id":3,"method":"initialize","params":{params}}}"#);
        let answer = post(&server, "content-type: application/json\r\n", &hello).await;
        assert_eq!(
            refused(&answer.body),
            Outcome::Refused(-32602, "3".into()),
            "{params}: {answer}"
        );
        let named = answer.header("acp-connection-id");
        assert_eq!(named, None, "nothing can be done with it: {answer}");
    }
}

#[tokio::test]
async fn a_posted_id_in_use_is_refused_and_its_first_user_unaffected() {
    let server = serve(Script::new().call([stream("x", 40, 10)])).await;
    let remote = RawRemote::open(&server).await;
    let mut main = remote.stream(&server, "").await;
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": new});
    remote.post(&server, "", &new).await;
    let made = main.until(|message| message["id"] == 1).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let named = format!("acp-session-id: {session}\r\n");
    let mut own = remote.stream(&server, &named).await;
    let prompt = json!({"jsonrpc": "2.0", "id": "ab", "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    remote.post(&server, "", &prompt).await;
    let list = json!({"jsonrpc": "2.0", "id": "ab", "method": "session/list"});
    assert_eq!(remote.post(&server, "", &list).await.status, 202);
    let refused = main.until(|message| message["id"] == "ab").await;
    assert_eq!(refused["error"]["code"], -32600, "id-12: {refused}");
    assert!(refused.to_string().contains("duplicate id"), "{refused}");
    let answer = own.until(|message| message["id"] == "ab").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn the_same_id_on_two_http_connections_gets_two_answers() {
    let server = serve(echo()).await;
    let mut one = AcpClient::connect_http(&server).await;
    let mut two = AcpClient::connect_http(&server).await;
    let (a, b) = (one.new_session().await, two.new_session().await);
    let mut prompts = Vec::new();
    for (client, session, text) in [(&mut one, &a, "one"), (&mut two, &b, "two")] {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        prompts.push(client.start_as(json!(77), "session/prompt", prompt).await);
    }
    let second = two.finish_prompt(&b, &prompts[1]).await.unwrap();
    let first = one.finish_prompt(&a, &prompts[0]).await.unwrap();
    assert_eq!(
        (first.text.as_str(), second.text.as_str()),
        ("you said one", "you said two")
    );
}

#[tokio::test]
async fn json_may_be_spelt_in_any_way_and_nothing_else_is_taken() {
    let server = serve(echo()).await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1}})
    .to_string();
    for good in [
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        "application/json ; boundary=x",
    ] {
        let headers = format!("content-type: {good}\r\n");
        let answer = post(&server, &headers, &hello).await;
        assert_eq!(answer.status, 200, "http-02 {good}: {answer}");
        assert!(answer.header("acp-connection-id").is_some(), "{answer}");
    }
    for other in [
        "",
        "content-type:\r\n",
        "content-type: text/plain\r\n",
        "content-type: text/plain; application/json\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: multipart/form-data; boundary=application/json\r\n",
        "content-type: application/jsonx\r\n",
        "content-type: application/json\r\ncontent-type: text/plain\r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
    ] {
        let answer = post(&server, other, &hello).await;
        assert_eq!(answer.status, 415, "{other:?}: {answer}");
    }
}

#[tokio::test]
async fn a_post_over_the_limit_is_refused_and_one_of_the_limit_is_served() {
    let server = serve(echo()).await;
    let remote = RawRemote::open(&server).await;
    let mut main = remote.stream(&server, "").await;
    let (head, tail) = (
        r#"{"jsonrpc":"2.0","id":"big","method":"m","params":{"x":""#,
        r#""}}"#,
    );
    let limit = 16 * 1024 * 1024;
    let named = format!(
        "content-type: application/json\r\nacp-connection-id: {}\r\n",
        remote.connection
    );
    let of = |bytes: usize| [head, &"x".repeat(bytes - head.len() - tail.len()), tail].concat();
    assert_eq!(post(&server, &named, of(limit)).await.status, 202);
    let answer = main.until(|message| message["id"] == "big").await;
    assert_eq!(answer["error"]["code"], -32601);
    // The length alone is enough: not one byte of it was sent.
    let announced = format!("{named}content-length: {}\r\n", limit + 1);
    let head = raw::authorized(&server, "POST", "/acp", &announced);
    let refused = raw::request(&server, head).await;
    assert_eq!(refused.status, 413, "{refused}");
}
