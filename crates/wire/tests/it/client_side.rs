//! Requests for a client's own files and terminals, each as ACP writes it, and their results.

use domain::CallId;
use serde_json::{Value, json};
use wire::acp::client_side::{
    ClientRequest, TerminalEnd, created_terminal, done, file_text, terminal_end, terminal_text,
    terminal_update,
};
use wire::rpc::RequestId;

use crate::{SESSION, raw, session, value};

/// The method and the parameters of a request, which must be one the official types take.
fn sent(request: &ClientRequest) -> (String, Value) {
    let frame = value(&request.to_frame(&RequestId::string("r"), session()));
    assert_eq!(
        (&frame["jsonrpc"], &frame["id"]),
        (&json!("2.0"), &json!("r"))
    );
    let method = frame["method"].as_str().unwrap().to_owned();
    assert_eq!(method, request.method());
    (method, frame["params"].clone())
}

#[test]
fn requests_are_written_as_acp_has_them() {
    let read = |line, limit| ClientRequest::ReadTextFile {
        path: "/w/a".into(),
        line,
        limit,
    };
    assert_eq!(
        sent(&read(Some(2), Some(7))),
        (
            "fs/read_text_file".into(),
            json!({"sessionId": SESSION, "path": "/w/a", "line": 2, "limit": 7})
        )
    );
    assert_eq!(
        sent(&read(None, None)).1,
        json!({"sessionId": SESSION, "path": "/w/a"})
    );
    let write = ClientRequest::WriteTextFile {
        path: "/w/a".into(),
        content: "x\u{2028}\n".into(),
    };
    assert_eq!(
        sent(&write),
        (
            "fs/write_text_file".into(),
            json!({"sessionId": SESSION, "path": "/w/a", "content": "x\u{2028}\n"})
        )
    );
    let create = ClientRequest::CreateTerminal {
        command: "bash".into(),
        args: vec!["-c".into(), "ls".into()],
        cwd: "/w".into(),
        output_byte_limit: 9,
    };
    assert_eq!(
        sent(&create),
        (
            "terminal/create".into(),
            json!({"sessionId": SESSION, "command": "bash", "args": ["-c", "ls"], "cwd": "/w",
                "outputByteLimit": 9})
        )
    );
    let terminal = || "t".to_owned();
    let about = [
        (ClientRequest::TerminalOutput(terminal()), "terminal/output"),
        (
            ClientRequest::WaitForExit(terminal()),
            "terminal/wait_for_exit",
        ),
        (ClientRequest::KillTerminal(terminal()), "terminal/kill"),
        (
            ClientRequest::ReleaseTerminal(terminal()),
            "terminal/release",
        ),
    ];
    for (request, method) in about {
        let params = json!({"sessionId": SESSION, "terminalId": "t"});
        assert_eq!(sent(&request), (method.to_owned(), params));
    }
}

#[test]
fn results_are_read_and_what_is_none_is_not() {
    assert_eq!(
        file_text(&raw(r#"{"content":"a\n"}"#)).as_deref(),
        Some("a\n")
    );
    assert_eq!(file_text(&raw(r#"{"text":"a"}"#)), None);
    assert_eq!(file_text(&raw("null")), None);
    assert_eq!(
        created_terminal(&raw(r#"{"terminalId":"t"}"#)).as_deref(),
        Some("t")
    );
    let long = json!({"terminalId": "t".repeat(257)}).to_string();
    assert_eq!(created_terminal(&raw(&long)), None);
    let output = terminal_text(&raw(r#"{"output":"o","truncated":true}"#)).unwrap();
    assert_eq!((output.text.as_str(), output.truncated), ("o", true));
    assert_eq!(terminal_text(&raw("{}")), None);
    let end = |json| terminal_end(&raw(json)).unwrap();
    let (code, signal) = (Some(3), None);
    assert_eq!(end(r#"{"exitCode":3}"#), TerminalEnd { code, signal });
    let (code, signal) = (None, Some("SIGKILL".to_owned()));
    assert_eq!(
        end(r#"{"exitCode":null,"signal":"SIGKILL"}"#),
        TerminalEnd { code, signal }
    );
    for nothing in ["null", "{}", r#"{"_meta":{}}"#] {
        assert_eq!(done(&raw(nothing)), Some(()));
    }
}

#[test]
fn a_running_terminal_is_shown_without_a_cursor() {
    let frame = terminal_update(session(), &CallId::new("c"), "t").unwrap();
    assert_eq!(
        value(&frame)["params"],
        json!({"sessionId": SESSION, "update": {"sessionUpdate": "tool_call_update",
            "toolCallId": "c", "status": "in_progress",
            "content": [{"type": "terminal", "terminalId": "t"}]}})
    );
}
