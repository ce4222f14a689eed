//! What is peculiar to `openai-chat:`, which many servers speak in their own ways.

use crate::formats::OPENAI_CHAT;
use crate::server::{Server, plain};
use crate::support::{ask, check};

#[tokio::test]
async fn servers_with_habits_of_their_own_are_understood() {
    // No index, no id, `stop` as the reason, arguments as an object, null everywhere.
    let habits = [
        r#"{"error":null,"usage":null,"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"name":"list","arguments":{"path":"src"}}}]}}]}"#,
        r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"name":"list","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":null,"finish_reason":"stop"}]}"#,
    ];
    let expected = "tool list {\"path\":\"src\"}\ntool list {}\nstop ToolUse\n";
    check(&OPENAI_CHAT, OPENAI_CHAT.answer(&habits), expected).await;
    let parts = [
        r#"{"choices":[{"delta":{"reasoning":"So.","content":[{"type":"text","text":"Yes"}]}}]}"#,
        "[DONE]",
    ];
    let expected = "thought So.\ntext Yes\nstop EndTurn\n";
    check(&OPENAI_CHAT, OPENAI_CHAT.answer(&parts), expected).await;
}

#[tokio::test]
async fn the_reason_for_the_end_is_told() {
    let ended = |reason: &str| {
        let event =
            format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"{reason}"}}]}}"#);
        OPENAI_CHAT.answer(&[event.as_str(), "[DONE]"])
    };
    let reasons = [
        ("length", "MaxTokens"),
        ("content_filter", "Refusal"),
        ("something new", "EndTurn"),
    ];
    for (reason, stop) in reasons {
        let expected = format!("text x\nstop {stop}\n");
        check(&OPENAI_CHAT, ended(reason), &expected).await;
    }
    let refused = [
        r#"{"choices":[{"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    let expected = "text I will not.\nstop Refusal\n";
    check(&OPENAI_CHAT, OPENAI_CHAT.answer(&refused), expected).await;
}

#[tokio::test]
async fn a_call_beside_a_refusal_does_not_make_it_less_of_one() {
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"list","arguments":"{}"}}]}}]}"#;
    let filtered = r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;
    let answer = OPENAI_CHAT.answer(&[call, filtered, "[DONE]"]);
    check(&OPENAI_CHAT, answer, "tool list {}\nstop Refusal\n").await;
    let refused = r#"{"choices":[{"delta":{"refusal":"No."},"finish_reason":"tool_calls"}]}"#;
    let answer = OPENAI_CHAT.answer(&[call, refused, "[DONE]"]);
    let told = "text No.\ntool list {}\nstop Refusal\n";
    check(&OPENAI_CHAT, answer, told).await;
}

#[tokio::test]
async fn a_whole_document_is_no_stream() {
    let json = "content-type: application/json\r\n";
    let whole = plain("200 OK", json, r#"{"choices":[]}"#);
    let told =
        "error the model's server sent something unusable: the answer is not a stream of events\n";
    check(&OPENAI_CHAT, whole, told).await;
    let error = plain("200 OK", json, r#"{"error":{"message":"no such model"}}"#);
    let told = "error the model's server reported an error: no such model\n";
    check(&OPENAI_CHAT, error, told).await;
}

#[tokio::test]
async fn an_empty_purse_is_not_tried_again() {
    let quota = r#"{"error":{"message":"You have no credit.","code":"insufficient_quota"}}"#;
    let server = Server::start(vec![plain("429 Too Many Requests", "", quota)]).await;
    let told = "error the model's server answered 429: You have no credit\n";
    assert_eq!(ask(&OPENAI_CHAT, &server).await, told);
    assert_eq!(server.requests().len(), 1);
}
