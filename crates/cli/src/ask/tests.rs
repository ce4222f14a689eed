//! Asking over a pipe to a server that the test plays.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use clap::Parser;
use client::{Client, ClientSettings, Pipe, Transport};
use domain::Limits;
use serde_json::{Value, json};

use super::screen::{Audience, Reader, Screen, Sinks};
use super::{Asking, Facts, Stop, Verdict, verdict};
use crate::args::{Cli, Command};
use crate::render::{Exit, Palette, exit_of};
use crate::settings::{Environment, Settings};

const SESSION: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn the_answer_is_printed_without_the_greeting() {
    let outcome = check("fastness ask hello", |mut server| async move {
        server
            .answer("session/new", json!({"sessionId": SESSION}))
            .await;
        let prompt = server.next().await;
        server
            .update(json!({"sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "I am offline"},
                "_meta": {"fastness": {"greeting": true}}}))
            .await;
        server.say("hi ").await;
        server.say("there").await;
        server
            .reply(&prompt, json!({"stopReason": "end_turn"}))
            .await;
        server
    });
    assert_eq!(outcome.await, (Exit::Success, "hi there\n".to_owned()));
}

#[tokio::test]
async fn json_is_one_object_with_session_text_stop_reason_and_usage() {
    let (exit, out) = check("fastness ask hello --json", |mut server| async move {
        server
            .answer("session/new", json!({"sessionId": SESSION}))
            .await;
        let prompt = server.next().await;
        server.say("hi").await;
        let meta = json!({"fastness": {"usage": {"inputTokens": 1}}});
        server
            .reply(&prompt, json!({"stopReason": "max_tokens", "_meta": meta}))
            .await;
        server
    })
    .await;
    assert_eq!(exit, Exit::Failure);
    let expected = json!({"sessionId": SESSION, "text": "hi", "messages": ["hi"],
        "stopReason": "max_tokens", "usage": {"inputTokens": 1}});
    let mut object = serde_json::from_str::<Value>(&out).unwrap();
    let error = object.as_object_mut().unwrap().remove("error").unwrap();
    assert_eq!(error["kind"], "max_tokens");
    assert_eq!(object, expected);
    assert_eq!(out.lines().count(), 1);
}

#[tokio::test]
async fn a_tool_that_no_rule_allows_is_denied_and_if_all_are_the_exit_code_is_3() {
    let story = |answer: &'static str| {
        move |mut server: Server| async move {
            server
                .answer("session/new", json!({"sessionId": SESSION}))
                .await;
            let prompt = server.next().await;
            assert_eq!(server.ask_to_write().await, answer);
            let (status, outcome) = match answer {
                "yes" => ("completed", "completed"),
                _ => ("failed", "denied"),
            };
            server
                .update(
                    json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
                    "status": status, "rawOutput": {"status": outcome}}),
                )
                .await;
            server.say("so it is").await;
            server
                .reply(&prompt, json!({"stopReason": "end_turn"}))
                .await;
            server
        }
    };
    let (exit, _) = check("fastness ask x", story("no")).await;
    assert_eq!(exit, Exit::Refused);
    let (exit, _) = check("fastness ask x --allow write(b*)", story("no")).await;
    assert_eq!(exit, Exit::Refused);
    let (exit, _) = check("fastness ask x --allow write(a*)", story("yes")).await;
    assert_eq!(exit, Exit::Success);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_cancelled_and_fails() {
    let (exit, out) = check("fastness ask hello --timeout 5", |mut server| async move {
        server
            .answer("session/new", json!({"sessionId": SESSION}))
            .await;
        let prompt = server.next().await;
        server.say("well").await;
        assert_eq!(server.next().await["method"], "session/cancel");
        server
            .reply(&prompt, json!({"stopReason": "cancelled"}))
            .await;
        server
    })
    .await;
    assert_eq!((exit, out.as_str()), (Exit::Failure, "well\n"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_cancel_is_left_behind() {
    let (exit, _) = check("fastness ask hello --timeout 5", |mut server| async move {
        server
            .answer("session/new", json!({"sessionId": SESSION}))
            .await;
        server.next().await;
        assert_eq!(server.next().await["method"], "session/cancel");
        server
    })
    .await;
    assert_eq!(exit, Exit::Failure);
}

#[tokio::test]
async fn a_named_session_is_continued_in_its_own_directory() {
    let line = format!("fastness ask more --session {SESSION}");
    let (exit, out) = check(&line, |mut server| async move {
        let error = json!({"code": -32602, "message": "the session works elsewhere"});
        let request = server.request("session/resume").await;
        server.refuse(&request, error).await;
        let listed = json!([{"sessionId": SESSION, "cwd": "/elsewhere"}]);
        server
            .answer("session/list", json!({"sessions": listed}))
            .await;
        let request = server.request("session/resume").await;
        assert_eq!(request["params"]["cwd"], "/elsewhere");
        server.reply(&request, json!({})).await;
        let prompt = server.request("session/prompt").await;
        server.say("more").await;
        server
            .reply(&prompt, json!({"stopReason": "end_turn"}))
            .await;
        server
    })
    .await;
    assert_eq!((exit, out.as_str()), (Exit::Success, "more\n"));
}

#[tokio::test]
async fn a_session_that_is_busy_is_left_alone() {
    let line = format!("fastness ask more --session {SESSION}");
    let (exit, out) = check(&line, |mut server| async move {
        let turn = json!({"turn": {"id": 1, "state": "running"}});
        server
            .answer("session/resume", json!({"_meta": {"fastness": turn}}))
            .await;
        server
    })
    .await;
    assert_eq!((exit, out.as_str()), (Exit::Failure, ""));
}

#[test]
fn exit_codes_follow_from_how_the_turn_ended() {
    let facts = |is_all_denied, has_text| Facts {
        is_all_denied,
        has_text,
    };
    let empty = verdict(None, "end_turn", facts(false, false));
    assert_eq!(empty, Verdict::Empty);
    for (stop, reason, is_all_denied, expected) in [
        (None, "end_turn", false, Verdict::Good),
        (None, "end_turn", true, Verdict::AllDenied),
        (None, "max_tokens", false, Verdict::Cut),
        (None, "max_turn_requests", false, Verdict::Cut),
        (None, "refusal", false, Verdict::Stopped),
        (None, "cancelled", true, Verdict::Stopped),
        (Some(Stop::Timeout), "cancelled", true, Verdict::TimedOut),
        (Some(Stop::Timeout), "end_turn", false, Verdict::TimedOut),
        (
            Some(Stop::Interrupt),
            "cancelled",
            false,
            Verdict::Interrupted,
        ),
        (
            Some(Stop::OutputClosed),
            "cancelled",
            false,
            Verdict::Unheard,
        ),
    ] {
        assert_eq!(
            verdict(stop, reason, facts(is_all_denied, true)),
            expected,
            "{reason}"
        );
    }
}

/// Runs the command against the server of `story`; gives the exit code and what stdout got.
async fn check<F: Future<Output = Server>>(
    line: &str,
    story: impl FnOnce(Server) -> F,
) -> (Exit, String) {
    let cli = Cli::try_parse_from(line.split(' ')).unwrap();
    let settings = Settings::resolve(&cli, Environment::of(&[("HOME", "/home/me")])).unwrap();
    let Command::Ask(args) = cli.command else {
        panic!("not ask");
    };
    let paper = Paper::default();
    let out = if args.json {
        Reader::Collected
    } else {
        Reader::Program
    };
    let sinks = Sinks {
        out: Box::new(paper.clone()),
        err: Box::new(io::sink()),
        audience: Audience {
            out,
            err: Reader::Program,
        },
    };
    let mut screen = Screen::new(sinks, Palette::default(), 1_000);
    let (here, there) = Pipe::pair(8);
    let asking = async {
        let client_settings = ClientSettings {
            limits: Limits::default(),
            name: "test",
            version: "0",
        };
        let client = Client::connect(Transport::in_process(here), client_settings)
            .await
            .unwrap();
        let mut asking = Asking::begin(&client, &args, &settings, &args.prompt).await?;
        // Tests run without a person, whatever terminal they were started from.
        asking.keyboard = None;
        asking.tell(&mut screen).await
    };
    let serving = async {
        let mut server = Server(there);
        server
            .answer("initialize", json!({"protocolVersion": 1}))
            .await;
        story(server).await
    };
    let (outcome, _server) = tokio::join!(asking, serving);
    let exit = outcome.unwrap_or_else(|error| exit_of(&error));
    (exit, paper.read())
}

struct Server(Pipe);

impl Server {
    async fn next(&mut self) -> Value {
        let frame = self.0.incoming.recv().await.unwrap();
        serde_json::from_str(&frame).unwrap()
    }

    async fn request(&mut self, method: &str) -> Value {
        let request = self.next().await;
        assert_eq!(request["method"], method);
        request
    }

    async fn answer(&mut self, method: &str, result: Value) {
        let request = self.request(method).await;
        self.reply(&request, result).await;
    }

    async fn reply(&self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
    }

    async fn refuse(&self, request: &Value, error: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            .await;
    }

    async fn update(&self, update: Value) {
        let params = json!({"sessionId": SESSION, "update": update});
        self.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
            .await;
    }

    async fn say(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}))
            .await;
    }

    /// Proposes to write a file, asks for permission, and gives the option that was chosen. As our
    /// server does, the question itself names neither the tool nor its input.
    async fn ask_to_write(&mut self) -> String {
        self.update(
            json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "write",
            "title": "write a.txt", "rawInput": {"path": "a.txt", "content": "x"}}),
        )
        .await;
        let options = json!([
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]);
        let params = json!({"sessionId": SESSION, "options": options,
            "toolCall": {"toolCallId": "c1", "title": "write a.txt"}});
        self.send(
            json!({"jsonrpc": "2.0", "id": "q1", "method": "session/request_permission",
            "params": params}),
        )
        .await;
        let answer = self.next().await;
        assert_eq!(answer["id"], "q1");
        let option = &answer["result"]["outcome"]["optionId"];
        option.as_str().unwrap_or("cancelled").to_owned()
    }

    async fn send(&self, message: Value) {
        self.0.outgoing.send(message.to_string()).await.unwrap();
    }
}

/// A sink whose content the test can read.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn read(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
