//! What is peculiar to `anthropic:`.

use domain::Limits;
use domain::event::Usage;
use llm::{Chunk, Message, ToolOutcome, choose};
use serde_json::json;

use crate::formats::{ANTHROPIC, Format};
use crate::server::{Server, plain, stream_end};
use crate::support::{KEY, ask, check, chunks, conversation, open, request, settings};

#[tokio::test]
async fn every_reason_for_the_end_is_told() {
    let reasons = [
        ("end_turn", "EndTurn"),
        ("stop_sequence", "EndTurn"),
        ("pause_turn", "EndTurn"),
        ("max_tokens", "MaxTokens"),
        ("model_context_window_exceeded", "MaxTokens"),
        ("refusal", "Refusal"),
        ("something new", "EndTurn"),
    ];
    for (reason, stop) in reasons {
        let end = json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
        let end = end.to_string();
        let mut events = ANTHROPIC.first_word.to_vec();
        events.extend([end.as_str(), r#"{"type":"message_stop"}"#]);
        let expected = format!("text Hi\nusage 6 0 0\nstop {stop}\n");
        check(&ANTHROPIC, ANTHROPIC.answer(&events), &expected).await;
    }
}

#[tokio::test]
async fn the_version_is_in_every_request() {
    let server = Server::start(vec![ANTHROPIC.answer(ANTHROPIC.hello)]).await;
    ask(&ANTHROPIC, &server).await;
    let (head, _) = server.requests().remove(0);
    assert!(head.contains("anthropic-version: 2023-06-01"), "{head}");
}

#[tokio::test]
async fn sealed_thoughts_come_back_with_the_results_of_their_calls() {
    let thinking = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":10}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Look."}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"cmVk"}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"read","input":{"path":"a"}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let replies = vec![
        ANTHROPIC.answer(&thinking),
        ANTHROPIC.answer(ANTHROPIC.hello),
    ];
    let server = Server::start(replies).await;
    let mut model = open(&CLAUDE, &server.base, Limits::default()).await;
    let first = chunks(model.as_mut(), request()).await;
    let call = first.iter().find_map(|chunk| match chunk {
        Ok(Chunk::ToolCall(call)) => Some(call.clone()),
        _ => None,
    });
    let call = call.unwrap();
    assert_eq!(call.input, json!({ "path": "a" }));
    let mut messages = request().messages.to_vec();
    messages.push(Message::Assistant {
        text: String::new(),
        calls: vec![call.clone()],
    });
    messages.push(Message::ToolResults(vec![ToolOutcome {
        call: call.id.clone(),
        name: call.name,
        text: "A".to_owned(),
        failed: false,
        images: Vec::new(),
    }]));
    chunks(model.as_mut(), conversation(messages)).await;
    let (_, body) = server.requests().remove(1);
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(body["thinking"]["type"], "adaptive");
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            { "type": "thinking", "thinking": "Look.", "signature": "c2ln" },
            { "type": "redacted_thinking", "data": "cmVk" },
            { "type": "tool_use", "id": call.id, "name": "read", "input": { "path": "a" } },
        ])
    );
    assert_eq!(
        body["messages"][2]["content"],
        json!([{ "type": "tool_result", "tool_use_id": call.id, "content": "A",
            "cache_control": mark }])
    );
}

/// A model that is known to think and to have a price.
const CLAUDE: Format = Format {
    spec: "anthropic:claude-sonnet-5-5",
    ..ANTHROPIC
};

#[tokio::test]
async fn a_model_that_refuses_to_think_is_asked_without_from_then_on() {
    let refused = r#"{"type":"error","error":{"type":"invalid_request_error","message":"adaptive thinking is not supported on this model"}}"#;
    let replies = vec![
        plain(
            "400 Bad Request",
            "content-type: application/json\r\n",
            refused,
        ),
        ANTHROPIC.answer(ANTHROPIC.hello),
    ];
    let server = Server::start(replies).await;
    let mut model = open(&CLAUDE, &server.base, Limits::default()).await;
    for _ in 0..2 {
        let answer = chunks(model.as_mut(), request()).await;
        assert!(matches!(answer.last(), Some(Ok(Chunk::Stop(_)))));
    }
    let asked: Vec<bool> = server
        .requests()
        .iter()
        .map(|(_, body)| body.get("thinking").is_some())
        .collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn usage_tells_what_the_cache_saved_and_what_it_cost() {
    let server = Server::start(vec![ANTHROPIC.answer(ANTHROPIC.hello)]).await;
    let mut model = open(&CLAUDE, &server.base, Limits::default()).await;
    let answer = chunks(model.as_mut(), request()).await;
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 5,
        cached_tokens: 64,
        cache_write_tokens: 30,
        thought_tokens: 0,
        // 6 tokens at 2 $, 64 at 0.2 $, 30 at 2.5 $, 5 at 10 $ per million
        cost_nano_usd: Some(6 * 2_000 + 64 * 200 + 30 * 2_500 + 5 * 10_000),
    };
    assert!(answer.contains(&Ok(Chunk::Usage(usage))), "{answer:?}");
    // A model without a published price has none.
    let mut model = open(&ANTHROPIC, &server.base, Limits::default()).await;
    let answer = chunks(model.as_mut(), request()).await;
    let unpriced = Usage {
        cost_nano_usd: None,
        ..usage
    };
    assert!(answer.contains(&Ok(Chunk::Usage(unpriced))));
}

#[tokio::test]
async fn what_the_input_cost_is_known_before_the_answer_and_told_though_it_breaks_off() {
    let head = ANTHROPIC.hello[0];
    let begun = ANTHROPIC.begun(&[head, ANTHROPIC.error], vec![stream_end()]);
    let server = Server::start(vec![begun]).await;
    let mut model = open(&CLAUDE, &server.base, Limits::default()).await;
    let answer = chunks(model.as_mut(), request()).await;
    let [Ok(Chunk::Usage(usage)), Err(_)] = answer.as_slice() else {
        panic!("a count and an error: {answer:?}")
    };
    assert_eq!((usage.input_tokens, usage.output_tokens), (100, 1));
    let cost = 6 * 2_000 + 64 * 200 + 30 * 2_500 + 10_000;
    assert_eq!(usage.cost_nano_usd, Some(cost));
}

#[tokio::test]
async fn a_session_learns_how_long_its_tokens_are() {
    let counted = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":3000,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let server = Server::start(vec![ANTHROPIC.answer(&counted)]).await;
    let mut model = open(&CLAUDE, &server.base, Limits::default()).await;
    let mut long = request();
    long.system = "x".repeat(6_000);
    let weight = long.weight();
    assert_eq!(model.input_tokens(&long), weight / 4);
    assert_eq!(model.context_window(), 1_000_000);
    chunks(model.as_mut(), long.clone()).await;
    assert_eq!(model.input_tokens(&long), 3_000);
}

#[tokio::test]
async fn a_base_may_have_its_version_or_not() {
    for base in ["", "/", "/v1", "/v1/"] {
        let server = Server::start(vec![ANTHROPIC.answer(ANTHROPIC.hello)]).await;
        let base = format!("{}{base}", server.base);
        let settings = settings("anthropic:mock", &base, Limits::default());
        let mut model = choose(settings).await.unwrap().provider.open();
        chunks(model.as_mut(), request()).await;
        let (head, _) = server.requests().remove(0);
        assert!(head.starts_with("post /v1/messages "), "{head}");
        assert!(head.contains(KEY), "{head}");
    }
}
