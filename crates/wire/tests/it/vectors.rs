//! The shared table of JSON-RPC vectors, driven from its file.

use serde_json::Value;
use wire::rpc::{Incoming, code, parse};

use crate::value;

/// Vectors about a connection's state, which the server keeps.
const OF_THE_SERVER: [&str; 5] = [
    "envelope-16",
    "envelope-17",
    "envelope-18",
    "id-12",
    "id-13",
];

#[test]
fn every_vector_is_met() {
    let vectors = value(include_str!("../data/jsonrpc.json"));
    let mut met = 0;
    for vector in vectors.as_array().unwrap() {
        let (id, input) = (text(vector, "id"), text(vector, "input"));
        // Those of a transport are driven through the program.
        let is_ours = ["parse", "envelope", "id"].contains(&text(vector, "cat"));
        if !is_ours || OF_THE_SERVER.contains(&id) {
            continue;
        }
        let frames = frames(id, input);
        assert!(!frames.is_empty(), "{id} is not driven");
        for frame in frames {
            let shown: String = frame.chars().take(80).collect();
            assert_eq!(outcome(&frame), expected(id), "{id}: {shown}");
            met += 1;
        }
    }
    assert!(met >= 33, "only {met} frames were driven");
}

/// The frames that a vector stands for; many describe theirs in words.
fn frames(id: &str, input: &str) -> Vec<String> {
    let with_id = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
    let call = |more: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m",{more}}}"#);
    match id {
        "parse-08" => input.split(" / ").map(str::to_owned).collect(),
        "parse-11" => vec!["[".repeat(128) + &"]".repeat(128)],
        "parse-15" => vec!["{\"a\":\"\u{1}\"}".to_owned()],
        "envelope-02" => vec![format!("[{0},{0}]", with_id("1"))],
        "envelope-08" => ["\"str\"", "5", "null"]
            .map(|params| call(&format!("\"params\":{params}")))
            .into(),
        "envelope-12" => vec![
            call("\"id\":2"),
            call("\"method\":\"n\""),
            call("\"i\\u0064\":1"),
        ],
        "envelope-14" => vec![call("\"result\":{}")],
        "envelope-15" => {
            let both = r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#;
            vec![both.to_owned()]
        }
        "id-09" => ["true", "[]", "{}"].map(with_id).into(),
        "id-10" => vec![with_id(&format!("\"{}\"", "x".repeat(1_000_000)))],
        _ if id.starts_with("id-") => vec![with_id(input.strip_prefix("id: ").unwrap())],
        _ => vec![input.to_owned()],
    }
}

/// What the table asks for, in the words of [`outcome`].
fn expected(id: &str) -> &'static str {
    match id {
        // Legal JSON, so not a parse error; the object is no message.
        "parse-14" | "envelope-01" | "envelope-02" | "envelope-03" | "id-09" | "id-10" => {
            "-32600 id:null"
        }
        "envelope-07" | "envelope-08" => "-32600 id:1",
        "envelope-12" => "-32600",
        "envelope-14" => "response",
        "envelope-15" => "ignored",
        _ if id.starts_with("parse-") => "-32700 id:null",
        _ => "echoed",
    }
}

fn outcome(frame: &str) -> &'static str {
    match parse(frame.as_bytes()) {
        Ok(Incoming::Request { id, .. }) if frame.contains(id.as_json()) => "echoed",
        Ok(Incoming::Request { .. }) => "not echoed",
        Ok(Incoming::Notification { .. }) => "notification",
        Ok(Incoming::Response { .. }) => "response",
        Ok(Incoming::Ignored(_)) => "ignored",
        Err(refusal) => match (refusal.error.code, refusal.id.as_json()) {
            (code::PARSE, "null") => "-32700 id:null",
            // A repeated key leaves the id open.
            (code::INVALID_REQUEST, _) if refusal.error.message.contains("twice") => "-32600",
            (code::INVALID_REQUEST, "null") => "-32600 id:null",
            (code::INVALID_REQUEST, "1") => "-32600 id:1",
            _ => "another refusal",
        },
    }
}

fn text<'a>(vector: &'a Value, key: &str) -> &'a str {
    vector[key].as_str().unwrap()
}
