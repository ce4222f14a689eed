//! What `openai-chat` makes of a server's answers, whole, in pieces, broken, late or refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{FailureKind, Limits};
use futures_util::StreamExt;
use llm::{
    Chunk, Message, Model, ModelError, ModelRequest, ModelSettings, Provider, ToolSpec, choose,
};
use serde_json::json;

use crate::server::{Act, Server, chunk, events, events_in_pieces, plain, stream_end, stream_head};

const HELLO: &[&str] = &[
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"Grüß"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":" dich ☕"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}}"#,
    "[DONE]",
];

const HELLO_SHOWN: &str = "thought Hm.\ntext Grüß\ntext  dich ☕\nusage 100 5 64\nstop EndTurn\n";

const FIRST_WORD: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";

#[tokio::test]
async fn an_answer_streams_wherever_its_bytes_are_cut() {
    for size in [1, 2, 3, 7, 64, 100_000] {
        check(events_in_pieces(HELLO, size), HELLO_SHOWN).await;
    }
}

#[tokio::test]
async fn the_request_says_who_asks_what_with_which_tools() {
    let server = Server::start(vec![events(HELLO)]).await;
    ask(&server).await;
    let (head, body) = server.requests().remove(0);
    assert!(
        head.starts_with("post /v1/chat/completions http/1.1"),
        "{head}"
    );
    assert!(head.contains("authorization: bearer sk-test"), "{head}");
    assert!(head.contains("accept: text/event-stream"), "{head}");
    assert_eq!(body["model"], "mock");
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["messages"][1]["content"], "hello");
    assert_eq!(body["tools"][0]["function"]["name"], "read");
}

#[tokio::test]
async fn tool_calls_in_pieces_come_out_whole_and_in_order() {
    let pieces = [
        r#"{"choices":[{"delta":{"content":"Let me see."}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"list","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"a.txt\"}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ];
    let expected = "text Let me see.\ntool read {\"path\":\"a.txt\"}\ntool list {}\nstop ToolUse\n";
    for size in [5, 100_000] {
        check(events_in_pieces(&pieces, size), expected).await;
    }
}

#[tokio::test]
async fn servers_with_habits_of_their_own_are_understood() {
    // No index, no id, `stop` as the reason, arguments as an object, null everywhere.
    let habits = [
        r#"{"error":null,"usage":null,"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"name":"list","arguments":{"path":"src"}}}]}}]}"#,
        r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"name":"list","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":null,"finish_reason":"stop"}]}"#,
    ];
    let expected = "tool list {\"path\":\"src\"}\ntool list {}\nstop ToolUse\n";
    check(events(&habits), expected).await;
    let parts = [
        r#"{"choices":[{"delta":{"reasoning":"So.","content":[{"type":"text","text":"Yes"}]}}]}"#,
        "[DONE]",
    ];
    check(events(&parts), "thought So.\ntext Yes\nstop EndTurn\n").await;
    let broken_input = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"list","arguments":"{path:"}}]},"finish_reason":"tool_calls"}]}"#,
    ];
    check(
        events(&broken_input),
        "tool list \"{path:\"\nstop ToolUse\n",
    )
    .await;
}

#[tokio::test]
async fn the_reason_for_the_end_is_told() {
    let ended = |reason: &str| {
        let event =
            format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"{reason}"}}]}}"#);
        events(&[event.as_str(), "[DONE]"])
    };
    check(ended("length"), "text x\nstop MaxTokens\n").await;
    check(ended("content_filter"), "text x\nstop Refusal\n").await;
    check(ended("something new"), "text x\nstop EndTurn\n").await;
    let refused = [
        r#"{"choices":[{"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    check(events(&refused), "text I will not.\nstop Refusal\n").await;
    let cut_call = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{\"pa"}}]},"finish_reason":"length"}]}"#,
        "[DONE]",
    ];
    check(events(&cut_call), "stop MaxTokens\n").await;
}

#[tokio::test]
async fn an_error_in_mid_stream_ends_the_answer_with_that_error() {
    let mut acts = vec![stream_head(), chunk(FIRST_WORD)];
    acts.push(chunk(
        b"data: {\"error\":{\"message\":\"upstream died\",\"code\":502}}\n\n",
    ));
    acts.push(stream_end());
    check(
        acts,
        "text Hi\nerror the model's server answered 502: upstream died\n",
    )
    .await;
}

#[tokio::test]
async fn a_cut_stream_is_never_a_silent_end() {
    let broke_off = "text Hi\nerror the model's answer broke off before its end\n";
    check(
        vec![stream_head(), chunk(FIRST_WORD), Act::Close],
        broke_off,
    )
    .await;
    check(
        vec![stream_head(), chunk(FIRST_WORD), stream_end()],
        broke_off,
    )
    .await;
    let in_mid_event = chunk(b"data: {\"choices\":[{\"del");
    let acts = vec![stream_head(), chunk(FIRST_WORD), in_mid_event, stream_end()];
    check(acts, broke_off).await;
    // Once the reason for the end has come, the answer is whole.
    let mut acts = events(&[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#]);
    acts.pop();
    acts.push(Act::Close);
    check(acts, "text x\nstop EndTurn\n").await;
}

#[tokio::test]
async fn an_unusable_answer_says_what_is_wrong_with_it() {
    let unusable = "error the model's server sent something unusable: ";
    check(
        events(&["{not json"]),
        &format!("{unusable}an event is not the JSON of a chat completion\n"),
    )
    .await;
    check(
        vec![stream_head(), stream_end()],
        &format!("{unusable}the answer is empty\n"),
    )
    .await;
    check(
        events(&["[DONE]"]),
        &format!("{unusable}the answer is empty\n"),
    )
    .await;
    check(
        plain("200 OK", "", ""),
        &format!("{unusable}the answer is empty\n"),
    )
    .await;
    let json = "content-type: application/json\r\n";
    let whole = plain("200 OK", json, r#"{"choices":[]}"#);
    check(
        whole,
        &format!("{unusable}the answer is not a stream of events\n"),
    )
    .await;
    let error = plain("200 OK", json, r#"{"error":{"message":"no such model"}}"#);
    check(
        error,
        "error the model's server reported an error: no such model\n",
    )
    .await;
}

#[tokio::test]
async fn a_refusal_is_told_once_in_the_servers_words_without_the_key() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-test. See https://example.com.","code":"invalid_api_key"}}"#;
    let server = Server::start(vec![plain("401 Unauthorized", "", body)]).await;
    assert_eq!(
        ask(&server).await,
        "error the model's server answered 401: Incorrect API key provided: (key) See (link)\n"
    );
    assert_eq!(server.requests().len(), 1);
    let page = plain("404 Not Found", "", "<html>nginx</html>");
    check(page, "error the model's server answered with status 404\n").await;
    let elsewhere = plain("302 Found", "location: http://127.0.0.1:1/\r\n", "");
    check(
        elsewhere,
        "error the model's server answered with status 302\n",
    )
    .await;
    let quota = r#"{"error":{"message":"You have no credit.","code":"insufficient_quota"}}"#;
    check(
        plain("429 Too Many Requests", "", quota),
        "error the model's server answered 429: You have no credit\n",
    )
    .await;
}

#[tokio::test]
async fn a_busy_server_is_asked_again_after_the_time_it_wishes() {
    let busy = plain("429 Too Many Requests", "retry-after: 0.2\r\n", "{}");
    let server = Server::start(vec![busy.clone(), busy, events(HELLO)]).await;
    let start = Instant::now();
    assert_eq!(ask(&server).await, HELLO_SHOWN);
    assert!(start.elapsed() >= Duration::from_millis(400));
    assert_eq!(server.requests().len(), 3);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_that_stays_broken_is_asked_four_times() {
    let broken = plain("503 Service Unavailable", "retry-after: 0\r\n", "loading");
    let server = Server::start(vec![broken]).await;
    let error = "error the model's server answered 503: loading\n";
    assert_eq!(ask(&server).await, error);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_connection_lost_before_the_answer_is_tried_again_and_after_it_never() {
    let server = Server::start(vec![vec![Act::Close], events(HELLO)]).await;
    assert_eq!(ask(&server).await, HELLO_SHOWN);
    assert_eq!(server.requests().len(), 2);
    let cut = vec![stream_head(), chunk(FIRST_WORD), Act::Close];
    let server = Server::start(vec![cut, events(HELLO)]).await;
    ask(&server).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn silence_before_the_first_byte_ends_at_its_deadline() {
    for silent in [vec![Act::Hang], vec![stream_head(), Act::Hang]] {
        let server = Server::start(vec![silent]).await;
        let limits = Limits {
            model_first_byte: Duration::from_millis(150),
            ..Limits::default()
        };
        let mut model = open(&server.base, limits).await;
        let error = failure(model.as_mut()).await;
        assert_eq!(error.to_turn_error().kind, FailureKind::ModelTimeout);
        assert_eq!(
            error.to_string(),
            "the model did not begin to answer within 0.15 s"
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn silence_between_chunks_ends_at_its_deadline() {
    let server = Server::start(vec![vec![stream_head(), chunk(FIRST_WORD), Act::Hang]]).await;
    let limits = Limits {
        model_between_chunks: Duration::from_millis(150),
        ..Limits::default()
    };
    let shown = show(open(&server.base, limits).await.as_mut()).await;
    assert_eq!(
        shown,
        "text Hi\nerror the model stopped in mid-answer and did not go on within 0.15 s\n"
    );
}

#[tokio::test]
async fn an_answer_without_end_ends_at_the_deadline_of_the_call() {
    let Act::Write(word) = chunk(FIRST_WORD) else {
        panic!("a chunk is written")
    };
    let drip = Act::Drip(word, Duration::from_millis(20));
    let server = Server::start(vec![vec![stream_head(), drip]]).await;
    let limits = Limits {
        model_call: Duration::from_millis(300),
        ..Limits::default()
    };
    let shown = show(open(&server.base, limits).await.as_mut()).await;
    assert!(shown.starts_with("text Hi\ntext Hi\n"), "{shown}");
    assert!(
        shown.ends_with("error the model did not finish its answer within 0.3 s\n"),
        "{shown}"
    );
}

#[tokio::test]
async fn calls_share_one_connection() {
    let server = Server::start(vec![events_in_pieces(HELLO, 50)]).await;
    let provider = provider(&server.base, Limits::default()).await;
    for _ in 0..5 {
        assert_eq!(show(provider.open().as_mut()).await, HELLO_SHOWN);
    }
    assert_eq!(server.requests().len(), 5);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_call() {
    let mut server = Server::start(vec![vec![stream_head(), chunk(FIRST_WORD), Act::Hang]]).await;
    let mut model = open(&server.base, Limits::default()).await;
    let mut stream = model.stream(request());
    assert_eq!(stream.next().await, Some(Ok(Chunk::Text("Hi".to_owned()))));
    drop(stream);
    server.client_gone().await;
}

#[tokio::test]
async fn nobody_there_is_an_error_that_names_no_address() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = failure(open(&base, Limits::default()).await.as_mut()).await;
    assert_eq!(error, ModelError::Unreachable { tries: 4 });
    let error = error.to_turn_error();
    assert_eq!(error.kind, FailureKind::ModelError);
    assert_eq!(
        error.message,
        "the model's server could not be reached (tried 4 times)"
    );
}

async fn check(reply: Vec<Act>, expected: &str) {
    let server = Server::start(vec![reply]).await;
    assert_eq!(ask(&server).await, expected);
}

async fn ask(server: &Server) -> String {
    show(open(&server.base, Limits::default()).await.as_mut()).await
}

async fn provider(base: &str, limits: Limits) -> Arc<dyn Provider> {
    let settings = ModelSettings {
        spec: Some("openai-chat:mock".to_owned()),
        openai_key: Some("sk-test".into()),
        openai_base: Some(base.to_owned()),
        limits,
        ..ModelSettings::default()
    };
    choose(settings).await.unwrap().provider
}

async fn open(base: &str, limits: Limits) -> Box<dyn Model> {
    provider(base, limits).await.open()
}

fn request() -> ModelRequest {
    ModelRequest {
        system: "Be kind.".to_owned(),
        messages: Arc::new(vec![Message::User {
            text: "hello".to_owned(),
            blocks: vec![],
        }]),
        tools: Arc::new([ToolSpec {
            name: "read".to_owned(),
            description: "Reads a file.".to_owned(),
            input_schema: json!({ "type": "object" }),
        }]),
    }
}

async fn failure(model: &mut dyn Model) -> ModelError {
    let mut stream = model.stream(request());
    stream.next().await.unwrap().unwrap_err()
}

/// The chunks of one call, one line each.
async fn show(model: &mut dyn Model) -> String {
    let mut stream = model.stream(request());
    let mut lines = String::new();
    while let Some(chunk) = stream.next().await {
        lines += &match chunk {
            Ok(Chunk::Text(text)) => format!("text {text}\n"),
            Ok(Chunk::Thought(text)) => format!("thought {text}\n"),
            Ok(Chunk::ToolCall(call)) => format!("tool {} {}\n", call.name, call.input),
            Ok(Chunk::Usage(usage)) => format!(
                "usage {} {} {}\n",
                usage.input_tokens, usage.output_tokens, usage.cached_tokens
            ),
            Ok(Chunk::Stop(stop)) => format!("stop {stop:?}\n"),
            Err(error) => format!("error {error}\n"),
        };
    }
    lines
}
