//! The frames of the table and their neighbours, each with what must come back.
//!
//! Over any transport that carries frames the answer is the same, so all of them drive this list.

/// One frame and what comes back for it.
pub(crate) struct Case {
    /// The vector it is, or is near to.
    pub(crate) id: &'static str,
    /// What is sent, with `$` for an id of its own.
    pub(crate) frame: String,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// An error with this code, for the request with this id as it was written.
    Refused(i64, String),
    /// Nothing at all.
    Nothing,
}

/// All of them.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |outcome: fn() -> Outcome, group: Vec<(&'static str, String)>| {
        cases.extend(group.into_iter().map(|(id, frame)| Case {
            id,
            frame,
            outcome: outcome(),
        }));
    };
    add(|| Outcome::Refused(-32700, "null".to_owned()), not_json());
    add(|| Outcome::Refused(-32600, "null".to_owned()), nameless());
    add(|| Outcome::Refused(-32600, "$".to_owned()), named());
    add(|| Outcome::Refused(-32601, "$".to_owned()), unknown());
    add(|| Outcome::Nothing, unanswered());
    cases.extend(echoed_ids());
    cases
}

/// Not JSON, or too deep.
fn not_json() -> Vec<(&'static str, String)> {
    let plain = [
        ("parse-02", ""),
        ("parse-02", " "),
        ("parse-02", "\t \t"),
        ("parse-04", "{} trailing"),
        ("parse-04", "{},"),
        ("parse-04", "{}]"),
        ("parse-04", "/**/{}"),
        ("parse-05", r#"{"a":1}{"b":2}"#),
        ("parse-05", "1 2"),
        ("parse-06", "[1,2"),
        ("parse-06", "{"),
        ("parse-06", r#"{"a""#),
        ("parse-06", r#"{"a":"#),
        ("parse-06", r#"{"jsonrpc":"2.0","id":$,"method":"m"#),
        ("parse-06", "tru"),
        ("parse-06", r#"{"a":1,}"#),
        ("parse-06", "[1,]"),
        ("parse-06", "{'a':1}"),
        ("parse-06", "{a:1}"),
        ("parse-08", "NaN"),
        ("parse-08", "Infinity"),
        ("parse-08", "-Infinity"),
        ("parse-08", "0x1"),
        ("parse-08", "01"),
        ("parse-08", "-01"),
        ("parse-08", "+1"),
        ("parse-08", ".5"),
        ("parse-08", "1."),
        ("parse-08", "1e"),
        ("parse-08", "-"),
        ("parse-08", r#"{"jsonrpc":"2.0","id":01,"method":"m"}"#),
        ("parse-10", "\u{feff}{}"),
        ("parse-15", "{\"a\":\"\u{1}\"}"),
        ("parse-15", "{\"a\":\"\t\"}"),
        ("parse-15", "{\"a\u{1f}\":1}"),
        ("parse-15", r#"{"a":"\x41"}"#),
        ("parse-15", r#"{"a":"\u12"}"#),
    ];
    let mut frames: Vec<_> = plain.map(|(id, frame)| (id, frame.to_owned())).into();
    let deep = |open: &str, close: &str, depth: usize| open.repeat(depth) + &close.repeat(depth);
    frames.push(("parse-10", format!("\u{feff}{}", call("$", ""))));
    frames.push(("parse-11", deep("[", "]", 128)));
    frames.push(("parse-11", deep("[", "]", 100_000)));
    frames.push(("parse-11", "[".repeat(100_000)));
    let objects = r#"{"a":"#.repeat(127) + "{}" + &"}".repeat(127);
    frames.push(("parse-11", objects));
    // The message itself is the first level: its parameters may have 126 more.
    let params = format!(r#","params":{}"#, deep("[", "]", 127));
    frames.push(("parse-11", call("$", &params)));
    let meta = format!(r#","params":{{"_meta":{}}}"#, deep("[", "]", 126));
    frames.push(("parse-11", call("$", &meta)));
    frames
}

/// JSON, but no message, and nothing that says whose.
fn nameless() -> Vec<(&'static str, String)> {
    let plain = [
        ("envelope-01", "[]"),
        ("envelope-01", " [ ] "),
        ("envelope-03", "[1,2,3]"),
        ("envelope-03", "[[]]"),
        ("envelope-03", "5"),
        ("envelope-03", "\"text\""),
        ("envelope-03", "null"),
        ("envelope-03", "{}"),
        ("envelope-03", r#"{"foo":1}"#),
        (
            "envelope-12",
            r#"{"jsonrpc":"2.0","id":$,"id":2,"method":"m"}"#,
        ),
        (
            "envelope-12",
            r#"{"jsonrpc":"2.0","id":$,"i\u0064":1,"method":"m"}"#,
        ),
    ];
    let mut frames: Vec<_> = plain.map(|(id, frame)| (id, frame.to_owned())).into();
    frames.push(("parse-14", r#"{"a":"\u0000"}"#.to_owned()));
    frames.push(("envelope-02", format!("[{0},{0}]", call("$", ""))));
    frames.push(("parse-11", "[".repeat(127) + &"]".repeat(127)));
    let ids = [
        "true", "false", "[]", "[1]", "{}", "1.5", "1.0", "1e3", "1E400", "-1e-400", "-0.0",
    ];
    frames.extend(ids.map(|id| ("id-09", call(id, ""))));
    let surrogates = [r#""\ud800""#, r#""\udc00\ud800""#];
    frames.extend(surrogates.map(|id| ("id-11", call(id, ""))));
    for length in [257, 1_000, 1_000_000] {
        frames.push(("id-10", call(&format!("\"{}\"", "x".repeat(length)), "")));
    }
    frames.push(("id-10", call(&"1".repeat(1_000), "")));
    frames
}

/// JSON with a usable id, but no message.
fn named() -> Vec<(&'static str, String)> {
    let plain = [
        ("envelope-07", r#"{"jsonrpc":"2.0","id":$,"method":5}"#),
        ("envelope-07", r#"{"jsonrpc":"2.0","id":$,"method":null}"#),
        ("envelope-07", r#"{"jsonrpc":"2.0","id":$,"method":{}}"#),
        (
            "envelope-07",
            r#"{"jsonrpc":"2.0","id":$,"method":"\ud800"}"#,
        ),
        ("envelope-07", r#"{"jsonrpc":"2.0","id":$}"#),
        ("envelope-07", r#"{"id":$,"method":"m"}"#),
        ("envelope-07", r#"{"jsonrpc":"1.0","id":$,"method":"m"}"#),
        ("envelope-07", r#"{"jsonrpc":2.0,"id":$,"method":"m"}"#),
        (
            "envelope-12",
            r#"{"jsonrpc":"2.0","id":$,"method":"m","method":"n"}"#,
        ),
        (
            "envelope-12",
            r#"{"jsonrpc":"2.0","id":$,"method":"m","params":{},"params":{}}"#,
        ),
        (
            "envelope-12",
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":$,"method":"m"}"#,
        ),
    ];
    let mut frames: Vec<_> = plain.map(|(id, frame)| (id, frame.to_owned())).into();
    let params = ["\"str\"", "5", "null", "true", "1e400"];
    frames
        .extend(params.map(|params| ("envelope-08", call("$", &format!(r#","params":{params}"#)))));
    frames
}

/// Fine but for a method that nobody has.
fn unknown() -> Vec<(&'static str, String)> {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    vec![
        (
            "parse-11",
            call("$", &format!(r#","params":{}"#, deep(126))),
        ),
        (
            "parse-11",
            call(
                "$",
                &format!(r#","params":{{"a":"{}"}}"#, "[".repeat(1_000)),
            ),
        ),
        (
            "parse-08",
            call(
                "$",
                r#","params":{"a":1e400,"b":-0,"c":123456789012345678901234567890}"#,
            ),
        ),
        ("envelope-08", call("$", r#","params":[]"#)),
        ("envelope-12", call("$", r#","extra":1,"extra":2"#)),
        (
            "envelope-07",
            r#"{"jsonrpc":"2.0","id":$,"method":""}"#.to_owned(),
        ),
        (
            "envelope-07",
            " {\t\"jsonrpc\" : \"2.0\", \"id\" : $ , \"method\":\"m\" } ".to_owned(),
        ),
    ]
}

/// Responses to nothing that was asked, and notifications that nobody knows.
fn unanswered() -> Vec<(&'static str, String)> {
    let plain = [
        (
            "envelope-14",
            r#"{"jsonrpc":"2.0","id":$,"method":"m","result":{}}"#,
        ),
        (
            "envelope-14",
            r#"{"jsonrpc":"2.0","id":$,"method":"m","error":{"code":1,"message":""}}"#,
        ),
        (
            "envelope-14",
            r#"{"jsonrpc":"2.0","id":$,"method":"m","result":null}"#,
        ),
        (
            "envelope-15",
            r#"{"jsonrpc":"2.0","id":$,"result":1,"error":{"code":1,"message":""}}"#,
        ),
        (
            "envelope-15",
            r#"{"jsonrpc":"2.0","id":$,"result":1,"result":2}"#,
        ),
        (
            "envelope-15",
            r#"{"jsonrpc":"2.0","id":$,"error":"no object"}"#,
        ),
        ("envelope-15", r#"{"jsonrpc":"2.0","result":1}"#),
        ("envelope-15", r#"{"id":$,"result":1}"#),
        (
            "envelope-16",
            r#"{"jsonrpc":"2.0","id":"never asked","result":{}}"#,
        ),
        (
            "envelope-16",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
        ),
        ("envelope-16", r#"{"jsonrpc":"2.0","method":"m"}"#),
        (
            "envelope-16",
            r#"{"jsonrpc":"2.0","method":"session/list","params":{}}"#,
        ),
        (
            "envelope-16",
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":5}}"#,
        ),
        (
            "envelope-08",
            r#"{"jsonrpc":"2.0","method":"m","params":5}"#,
        ),
        (
            "envelope-08",
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":"x"}"#,
        ),
        (
            "envelope-08",
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":null}"#,
        ),
        (
            "envelope-08",
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":[1]}"#,
        ),
        (
            "envelope-08",
            r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":1e400}"#,
        ),
    ];
    plain.map(|(id, frame)| (id, frame.to_owned())).into()
}

/// Every id that is one comes back as it was written.
fn echoed_ids() -> Vec<Case> {
    let long = format!("\"{}\"", "x".repeat(256));
    let ids = [
        ("id-02", "\"a\""),
        ("id-02", "\"☃ 中文\""),
        ("id-03", "\"\""),
        ("id-06", "9223372036854775807"),
        ("id-06", "9223372036854775808"),
        ("id-06", "-9223372036854775808"),
        ("id-06", "18446744073709551616"),
        ("id-06", "123456789012345678901234567890"),
        ("id-06", "0"),
        ("id-06", "-0"),
        ("id-06", "-1"),
        ("id-06", "null"),
        ("id-10", long.as_str()),
        ("id-11", r#""\u0000\n\"""#),
        ("id-11", r#""\u0061\/""#),
        ("id-11", r#""\ud83d\ude00""#),
    ];
    let case = |(vector, id): (&'static str, &str)| Case {
        id: vector,
        frame: call(id, ""),
        outcome: Outcome::Refused(-32601, id.to_owned()),
    };
    ids.map(case).into()
}

/// A request with parts of the test's choice; the method is one that nobody has.
fn call(id: &str, more: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"{more}}}"#)
}
