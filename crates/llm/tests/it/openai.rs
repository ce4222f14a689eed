//! What is peculiar to `openai:`.

use domain::Limits;
use domain::event::Usage;
use llm::{Chunk, Message, ToolOutcome};
use serde_json::json;

use crate::formats::{Format, OPENAI};
use crate::server::{Server, plain};
use crate::support::{ask, check, chunks, conversation, open, request};

const SOL: Format = Format {
    spec: "openai:gpt-6-sol",
    ..OPENAI
};

#[tokio::test]
async fn the_reason_for_the_end_is_told() {
    let word = OPENAI.first_word[0];
    let filtered = r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#;
    let answer = OPENAI.answer(&[word, filtered]);
    check(&OPENAI, answer, "text Hi\nstop Refusal\n").await;
    let refused = r#"{"type":"response.refusal.delta","output_index":0,"delta":"I will not."}"#;
    let completed = r#"{"type":"response.completed","response":{}}"#;
    let answer = OPENAI.answer(&[refused, completed]);
    check(&OPENAI, answer, "text I will not.\nstop Refusal\n").await;
    // A call beside it does not make it less of a refusal.
    let call = r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"list","arguments":"{}"}}"#;
    let told = "text I will not.\ntool list {}\nstop Refusal\n";
    let answer = OPENAI.answer(&[refused, call, completed]);
    check(&OPENAI, answer, told).await;
    let told = "tool list {}\nstop Refusal\n";
    check(&OPENAI, OPENAI.answer(&[call, filtered]), told).await;
}

#[tokio::test]
async fn errors_come_in_two_shapes() {
    let errors = [
        r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down.","param":null,"sequence_number":3}"#,
        r#"{"type":"error","error":{"code":"rate_limit_exceeded","message":"Slow down."}}"#,
    ];
    for error in errors {
        let answer = OPENAI.answer(&[OPENAI.first_word[0], error]);
        let told = "text Hi\nerror the model's server answered 429: Slow down\n";
        check(&OPENAI, answer, told).await;
    }
    let failed = r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"Down."},"usage":{"input_tokens":9,"output_tokens":2}}}"#;
    let told = "usage 9 2 0\nerror the model's server answered 500: Down\n";
    check(&OPENAI, OPENAI.answer(&[failed]), told).await;
    let too_long = r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Too long."}}}"#;
    let told = "error the conversation is longer than the model can read\n";
    check(&OPENAI, OPENAI.answer(&[too_long]), told).await;
}

#[tokio::test]
async fn parts_of_a_summary_are_paragraphs_of_one_thought() {
    let part = r#"{"type":"response.reasoning_summary_part.added","output_index":0}"#;
    let thought =
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm."}"#;
    let completed = r#"{"type":"response.completed","response":{}}"#;
    let answer = OPENAI.answer(&[part, thought, part, thought, completed]);
    let told = "thought Hm.\nthought \n\n\nthought Hm.\nstop EndTurn\n";
    check(&OPENAI, answer, told).await;
}

#[tokio::test]
async fn sealed_reasoning_comes_back_with_the_results_of_its_calls_and_nothing_is_stored() {
    let sealed = json!({ "type": "reasoning", "id": "rs_1",
        "summary": [{ "type": "summary_text", "text": "Look." }], "encrypted_content": "c2Vh" });
    let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": sealed });
    let done = done.to_string();
    let thinking = [
        done.as_str(),
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"read","arguments":"{\"path\":\"a\"}","status":"completed"}}"#,
        r#"{"type":"response.completed","response":{"output":[{"type":"reasoning"},{"type":"function_call","name":"read","arguments":"{\"path\":\"a\"}"}]}}"#,
    ];
    let replies = vec![OPENAI.answer(&thinking), OPENAI.answer(OPENAI.hello)];
    let server = Server::start(replies).await;
    let mut model = open(&SOL, &server.base, Limits::default()).await;
    let first = chunks(model.as_mut(), request()).await;
    let [Ok(Chunk::ToolCall(call)), Ok(Chunk::Stop(_))] = first.as_slice() else {
        panic!("one call, once: {first:?}")
    };
    let mut messages = request().messages.to_vec();
    messages.push(Message::Assistant {
        text: String::new(),
        calls: vec![call.clone()],
    });
    messages.push(Message::ToolResults(vec![ToolOutcome {
        call: call.id.clone(),
        name: call.name.clone(),
        text: "A".to_owned(),
        failed: false,
        images: Vec::new(),
    }]));
    chunks(model.as_mut(), conversation(messages)).await;
    let (_, body) = server.requests().remove(1);
    assert_eq!(body["store"], false);
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(
        body["input"].as_array().unwrap()[1..],
        [
            sealed,
            json!({ "type": "function_call", "call_id": call.id, "name": "read",
                "arguments": "{\"path\":\"a\"}" }),
            json!({ "type": "function_call_output", "call_id": call.id, "output": "A" }),
        ]
    );
}

#[tokio::test]
async fn an_organisation_that_may_not_see_reasoning_is_answered_without() {
    let refused = r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries.","type":"invalid_request_error","param":"reasoning.summary","code":"unsupported_value"}}"#;
    let replies = vec![
        plain(
            "400 Bad Request",
            "content-type: application/json\r\n",
            refused,
        ),
        OPENAI.answer(OPENAI.hello),
    ];
    let server = Server::start(replies).await;
    let shown = ask(&SOL, &server).await;
    assert!(shown.ends_with("stop EndTurn\n"), "{shown}");
    let requests = server.requests();
    assert!(requests[0].1.get("reasoning").is_some());
    assert!(requests[1].1.get("reasoning").is_none());
}

#[tokio::test]
async fn a_server_that_does_not_know_cache_keys_is_asked_without_from_then_on() {
    let refused = r#"{"error":{"message":"Unsupported parameter: 'prompt_cache_key'","type":"invalid_request_error"}}"#;
    let json = "content-type: application/json\r\n";
    let replies = vec![
        plain("400 Bad Request", json, refused),
        OPENAI.answer(OPENAI.hello),
    ];
    let server = Server::start(replies).await;
    let mut model = open(&SOL, &server.base, Limits::default()).await;
    for _ in 0..2 {
        let answer = chunks(model.as_mut(), request()).await;
        assert!(matches!(answer.last(), Some(Ok(Chunk::Stop(_)))));
    }
    let requests = server.requests();
    let asked = requests.iter().map(|(_, body)| {
        let has = |name: &str| body.get(name).is_some();
        (has("prompt_cache_key"), has("reasoning"))
    });
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked, [(true, true), (false, true), (false, true)]);
}

#[tokio::test]
async fn usage_tells_what_was_thought_and_what_it_cost() {
    let server = Server::start(vec![OPENAI.answer(OPENAI.hello)]).await;
    let mut model = open(&SOL, &server.base, Limits::default()).await;
    let answer = chunks(model.as_mut(), request()).await;
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 5,
        cached_tokens: 64,
        cache_write_tokens: 0,
        thought_tokens: 2,
        cost_nano_usd: Some(36 * 2_000 + 64 * 200 + 5 * 10_000),
    };
    assert!(answer.contains(&Ok(Chunk::Usage(usage))), "{answer:?}");
}
