//! The JSON-RPC engine: what is taken, what is refused and with which id, what is sent.

use std::collections::HashSet;

use domain::limits::{JSON_VALUES_MAX, RPC_ID_BYTES_MAX};
use domain::{FailureKind, TurnError};
use serde_json::json;
use wire::rpc::{
    Incoming, RequestId, RpcError, error_response, notification, parse, request, response,
};

use crate::{raw, value};

/// Says in one line what became of a frame.
fn read(frame: &str) -> String {
    match parse(frame.as_bytes()) {
        Ok(Incoming::Request { id, method, params }) => {
            let params = params.map_or("-".to_owned(), |params| params.get().to_owned());
            format!("request {id} {method} {params}")
        }
        Ok(Incoming::Notification { method, params }) => {
            let params = params.map_or("-".to_owned(), |params| params.get().to_owned());
            format!("notification {method} {params}")
        }
        Ok(Incoming::Response { id, outcome }) => match outcome {
            Ok(result) => format!("result {id} {}", result.get()),
            Err(error) => format!("error {id} {}", error.code),
        },
        Ok(Incoming::Ignored(reason)) => format!("ignored: {reason}"),
        Err(refusal) => format!("refused {} {}", refusal.id, refusal.error.code),
    }
}

fn check(table: &[(&str, &str)]) {
    for (frame, expected) in table {
        assert_eq!(read(frame), *expected, "{frame}");
    }
}

#[test]
fn requests_notifications_and_responses_are_told_apart() {
    check(&[
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a" : 1}}"#,
            r#"request 1 m {"a" : 1}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            "request null m -",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","params":[]}"#,
            "notification m []",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","result":null}"#,
            "result \"a\" null",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"no","data":[1]}}"#,
            "error \"a\" -1",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"more\":{\"id\":1}}\r\n",
            "notification m -",
        ),
    ]);
}

#[test]
fn a_message_with_a_result_is_never_run_and_never_answered() {
    let both = "ignored: the response has both a result and an error";
    check(&[
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
            "result 1 {}",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}"#,
            both,
        ),
        (
            r#"{"jsonrpc":"2.0","result":1}"#,
            "ignored: the response has no id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"result":1}"#,
            "ignored: the id of the response is no id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            "ignored: the error of the response is no error object",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
            "ignored: a key of the response stands twice",
        ),
        (
            r#"{"id":1,"result":1}"#,
            "ignored: the response is not JSON-RPC 2.0",
        ),
    ]);
}

#[test]
fn a_refusal_carries_the_id_if_there_is_one_to_carry() {
    check(&[
        (
            r#"{"jsonrpc":"2.0","id":"x","method":5}"#,
            "refused \"x\" -32600",
        ),
        (r#"{"jsonrpc":"2.0","id":7}"#, "refused 7 -32600"),
        (r#"{"id":7,"method":"m"}"#, "refused 7 -32600"),
        (
            r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#,
            "refused 7 -32600",
        ),
        (r#"{"jsonrpc":2.0,"id":7,"method":"m"}"#, "refused 7 -32600"),
        (
            r#"{"jsonrpc":"2.0","id":7,"id":7,"method":"m"}"#,
            "refused null -32600",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"m","method":"m"}"#,
            "refused 7 -32600",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"params":{},"params":{},"method":"m"}"#,
            "refused 7 -32600",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#,
            "refused null -32600",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#,
            "refused null -32600",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"\ud800","method":"m"}"#,
            "refused null -32600",
        ),
        ("{}", "refused null -32600"),
        ("5", "refused null -32600"),
        ("null", "refused null -32600"),
    ]);
}

#[test]
fn bad_syntax_is_found_before_anything_else_is_judged() {
    check(&[
        (r#"{"id":1,"id":2,"#, "refused null -32700"),
        (r#"[{"jsonrpc":"2.0"},]"#, "refused null -32700"),
        (
            r#"{"jsonrpc":"2.0","id":true,"method":"m","params":{"a":01}}"#,
            "refused null -32700",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#,
            "refused null -32700",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","x":tru}"#,
            "refused null -32700",
        ),
        ("   ", "refused null -32700"),
        ("\u{a0}{}", "refused null -32700"),
    ]);
    let invalid_utf8 = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}";
    assert_eq!(parse(invalid_utf8).unwrap_err().error.code, -32_700);
}

/// A request whose parameters make the whole text `depth` deep.
fn nested(depth: usize, inner: &str) -> String {
    let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{open}{inner}{close}}}"#)
}

#[test]
fn nesting_of_127_is_taken_and_of_128_refused_also_inside_parameters() {
    assert!(read(&nested(127, "")).starts_with("request 1 m "));
    assert_eq!(read(&nested(128, "")), "refused null -32700");
    assert_eq!(read(&nested(100_000, "")), "refused null -32700");
    assert!(read(&("[".repeat(127) + &"]".repeat(127))).starts_with("refused null -32600"));
    // Brackets in strings are text, also after escaped quotes and backslashes.
    for text in [r#""[[[[\"[[[[""#, r#""\\","[[{{""#, r#""\u005b[""#] {
        assert!(
            read(&nested(127, text)).starts_with("request 1 m "),
            "{text}"
        );
    }
}

#[test]
fn a_frame_with_more_values_than_memory_should_hold_is_refused() {
    let zeros = |count: usize| nested(2, &vec!["0"; count].join(","));
    assert!(read(&zeros(JSON_VALUES_MAX / 2)).starts_with("request"));
    assert_eq!(read(&zeros(JSON_VALUES_MAX + 2)), "refused null -32012");
    let commas = format!("\"{}\"", ",".repeat(JSON_VALUES_MAX + 2));
    assert!(read(&nested(2, &commas)).starts_with("request"));
}

#[test]
fn ids_are_compared_by_meaning_and_echoed_as_written() {
    let id = |json: &str| RequestId::from_json(json).unwrap();
    assert_eq!(id(r#""a""#), id(r#""\u0061""#));
    assert_eq!(id(r#""a""#), RequestId::string("a"));
    assert_eq!(id("-0"), RequestId::integer(0));
    assert_eq!(id("null"), RequestId::null());
    assert_ne!(id("1"), id(r#""1""#));
    assert_ne!(id("null"), id(r#""null""#));
    let distinct: HashSet<RequestId> = [r#""a""#, r#""\u0061""#, "1", r#""1""#].map(id).into();
    assert_eq!(distinct.len(), 3);
    for written in [
        "9223372036854775807",
        "-0",
        "123456789012345678901234567890",
    ] {
        assert_eq!(serde_json::to_string(&id(written)).unwrap(), written);
    }
    let written = r#""\u0000\n\"\/""#;
    let answer = response(&id(written), &json!({})).unwrap();
    assert_eq!(
        answer,
        format!(r#"{{"jsonrpc":"2.0","id":{written},"result":{{}}}}"#)
    );
    assert_eq!(id(written).as_str(), Some("\0\n\"/"));
}

#[test]
fn an_id_is_short() {
    let quoted = |length: usize| format!("\"{}\"", "x".repeat(length));
    assert!(RequestId::from_json(&quoted(RPC_ID_BYTES_MAX)).is_ok());
    assert!(RequestId::from_json(&quoted(RPC_ID_BYTES_MAX + 1)).is_err());
    assert!(RequestId::from_json(&"1".repeat(RPC_ID_BYTES_MAX + 1)).is_err());
    for wrong in [
        "", "-", "01", "1.0", "1e2", "true", "[]", "{}", "+1", "\"", "nul",
    ] {
        assert!(RequestId::from_json(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn frames_are_single_lines_even_around_raw_text() {
    let params = raw("{\n \"a\":\r\n [1, 2]}");
    for frame in [
        request(&RequestId::integer(1), "m\n", &params).unwrap(),
        notification("m", &params).unwrap(),
        response(&RequestId::string("line\nend"), &params).unwrap(),
        error_response(&RequestId::null(), &RpcError::invalid_params("a\nb")),
    ] {
        assert!(!frame.contains(['\n', '\r']), "{frame}");
        assert!(value(&frame)["jsonrpc"] == "2.0");
    }
}

#[test]
fn errors_carry_the_codes_and_data_of_the_contract() {
    let failure = TurnError::new(FailureKind::ModelTimeout, "the model did not answer");
    let shown =
        |error: RpcError| value(&error_response(&RequestId::integer(1), &error))["error"].take();
    let table = [
        (RpcError::parse(), -32_700, json!(null)),
        (RpcError::invalid_request("x"), -32_600, json!(null)),
        (RpcError::method_not_found("x"), -32_601, json!(null)),
        (RpcError::invalid_params("x"), -32_602, json!(null)),
        (RpcError::internal(), -32_603, json!(null)),
        (RpcError::cancelled(), -32_800, json!(null)),
        (RpcError::auth_required(), -32_000, json!(null)),
        (RpcError::session_not_found(), -32_002, json!(null)),
        (RpcError::busy(), -32_010, json!(null)),
        (
            RpcError::rate_limited(250),
            -32_011,
            json!({"retryAfterMs": 250}),
        ),
        (
            RpcError::limit("prompts"),
            -32_012,
            json!({"limit": "prompts"}),
        ),
        (RpcError::scope(), -32_013, json!(null)),
        (
            RpcError::turn_failed(&failure).with_request_id("r1"),
            -32_603,
            json!({"kind": "model_timeout", "retryable": true, "requestId": "r1"}),
        ),
        (
            RpcError::turn_failed(&failure.clone().retryable(false)),
            -32_603,
            json!({"kind": "model_timeout", "retryable": false}),
        ),
    ];
    for (error, code, data) in table {
        let shown = shown(error);
        assert_eq!(shown["code"], code);
        assert_eq!(shown["data"], data, "{code}");
        assert!(!shown["message"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_long_method_name_is_not_echoed_whole() {
    let error = RpcError::method_not_found(&"é".repeat(1_000_000));
    assert!(error.message.len() < 100);
}

#[test]
fn notification_with_wrong_params_is_never_answered() {
    for params in ["1", "\"x\"", "null", "true", "-0.5e3"] {
        let frame = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
        let taken = parse(frame.as_bytes());
        assert!(matches!(taken, Ok(Incoming::Ignored(_))), "{params}");
    }
}
