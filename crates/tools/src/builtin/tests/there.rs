//! Tools that run with a client: what they ask of it, and what they make of its answers.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::event::ToolStatus;
use domain::limits::TOOL_RESULT_LINES_MAX;
use domain::{CallId, EventSeq, Permit};
use serde_json::{Value, json};

use super::workspace;
use crate::builtin::Outcome;
use crate::client_side::fake::Fake;
use crate::client_side::{
    ClientError, ClientSeat, Offers, TerminalExit, TerminalId, TerminalOutput,
};
use crate::roots::Roots;
use crate::toolbox::Toolbox;

/// What a client was asked.
type Asked = Arc<Mutex<Vec<String>>>;

fn toolbox(root: &Path, client: Fake) -> (Toolbox, Asked) {
    let roots = Roots::new(root.to_owned(), Vec::new(), vec![root.join("private")]);
    let asked = Arc::clone(&client.asked);
    let seat = ClientSeat::new(Arc::new(client), Duration::ZERO);
    (Toolbox::new(roots).with_client(Some(seat)), asked)
}

async fn call(toolbox: &Toolbox, name: &str, input: Value) -> Outcome {
    let permit = Permit::granted(CallId::new("c"), EventSeq(1));
    toolbox.run(permit, name, input).await
}

/// Runs one call; gives its outcome and what the client was asked.
async fn run(root: &Path, client: Fake, name: &str, input: Value) -> (Outcome, Vec<String>) {
    let (toolbox, asked) = toolbox(root, client);
    let outcome = call(&toolbox, name, input).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

fn with_text(text: &str) -> Fake {
    Fake {
        file: Ok(text.to_owned()),
        ..Fake::default()
    }
}

fn names(client: Option<Fake>) -> Vec<&'static str> {
    let seat = client.map(|client| ClientSeat::new(Arc::new(client), Duration::ZERO));
    let roots = Roots::new("/w".into(), Vec::new(), Vec::new());
    let toolbox = Toolbox::new(roots).with_client(seat);
    toolbox.tools().map(crate::Tool::name).collect()
}

#[test]
fn commands_are_for_models_whose_client_has_terminals() {
    assert_eq!(
        names(None),
        [
            "read",
            "write",
            "edit",
            "notebook_edit",
            "list",
            "glob",
            "grep",
            "todo",
            "ask_user",
        ]
    );
    assert_eq!(
        names(Some(Fake::default())),
        [
            "read",
            "write",
            "edit",
            "notebook_edit",
            "list",
            "glob",
            "grep",
            "bash",
            "todo",
            "ask_user",
        ]
    );
    let files_only = Offers {
        terminal: false,
        ..Fake::default().offers
    };
    let client = Fake {
        offers: files_only,
        ..Fake::default()
    };
    assert_eq!(
        names(Some(client)),
        [
            "read",
            "write",
            "edit",
            "notebook_edit",
            "list",
            "glob",
            "grep",
            "todo",
            "ask_user",
        ]
    );
}

#[tokio::test]
async fn what_a_client_does_not_offer_runs_on_the_server() {
    let workspace = workspace();
    let client = Fake {
        offers: Offers {
            read_text_file: false,
            ..Fake::default().offers
        },
        ..Fake::default()
    };
    let (outcome, asked) = run(workspace.path(), client, "read", json!({"path": "a.txt"})).await;
    assert_eq!(outcome.text, "1\tone\n2\ttwo\n3\tthree\n");
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn a_read_asks_for_the_wanted_lines_and_one_more() {
    let workspace = workspace();
    let root = workspace.path();
    let path = root.join("a.txt").display().to_string();
    let input = json!({"path": "./sub/../a.txt", "offset": 2, "limit": 2});
    let (outcome, asked) = run(root, with_text("2\n3\n4\n"), "read", input).await;
    assert_eq!(
        outcome,
        Outcome::completed("2\t2\n3\t3\n[lines 2–3; read on with offset 4]")
    );
    assert_eq!(asked, [format!("read {path} Some(2) Some(3)")]);

    let long = "x\n".repeat(TOOL_RESULT_LINES_MAX + 1);
    let (outcome, asked) = run(root, with_text(&long), "read", json!({"path": path})).await;
    assert!(
        outcome
            .text
            .ends_with("[lines 1–2000; read on with offset 2001]")
    );
    assert_eq!(outcome.text.lines().count(), TOOL_RESULT_LINES_MAX + 1);
    assert_eq!(asked, [format!("read {path} None Some(2001)")]);
}

#[tokio::test]
async fn a_client_is_asked_for_nothing_outside_the_roots() {
    let workspace = workspace();
    let root = workspace.path();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, root.join(name)).unwrap();
    link("/", "out");
    link("private/token", "inside");
    link("private/new", "dangling");
    link("private", "door");
    let outside = [
        "../x",
        "/etc/passwd",
        "sub/../../x",
        "out/etc/passwd",
        "out/nowhere/at/all",
        "private/token",
        "./sub/../private/new",
        "inside",
        "dangling",
        "door/new",
        "door/new/deeper",
    ];
    for path in outside {
        for tool in [
            "read",
            "write",
            "edit",
            "notebook_edit",
            "list",
            "glob",
            "grep",
        ] {
            let input = json!({"path": path, "content": "x"});
            let (outcome, asked) = run(root, Fake::default(), tool, input).await;
            assert_eq!(outcome.status, ToolStatus::Failed, "{tool} {path}");
            assert!(asked.is_empty(), "{tool} {path}: {asked:?}");
        }
        let input = json!({"command": "ls", "cwd": path});
        let (outcome, asked) = run(root, Fake::default(), "bash", input).await;
        assert_eq!(outcome.status, ToolStatus::Failed, "bash in {path}");
        assert!(asked.is_empty(), "bash in {path}: {asked:?}");
    }
}

#[tokio::test]
async fn a_file_need_not_be_on_the_servers_disk() {
    let elsewhere = Path::new("/nowhere/on/this/machine");
    let input = json!({"path": "src/new.rs", "content": "x"});
    let client = Fake {
        offers: Offers {
            read_text_file: false,
            ..Fake::default().offers
        },
        ..Fake::default()
    };
    let (outcome, asked) = run(elsewhere, client, "write", input).await;
    assert_eq!(outcome, Outcome::completed("Wrote src/new.rs (1 bytes)."));
    assert_eq!(asked, ["write /nowhere/on/this/machine/src/new.rs x"]);
}

#[tokio::test]
async fn a_write_that_may_have_happened_is_not_called_failed() {
    let refused = ClientError::Peer {
        code: -32002,
        message: "nf".to_owned(),
        data: Some(json!({"uri": "x"})),
    };
    let timeout = ClientError::Timeout {
        method: "fs/write_text_file",
        waited: Duration::from_secs(30),
    };
    let stories = [
        (
            refused,
            ToolStatus::Failed,
            r#"a could not be written: the client answered with error -32002: nf {"uri":"x"}."#,
        ),
        (
            timeout,
            ToolStatus::Unknown,
            "a could not be written: the client did not answer fs/write_text_file within 30 s.",
        ),
        (
            ClientError::Gone,
            ToolStatus::Unknown,
            "a could not be written: client gone.",
        ),
    ];
    for (error, status, text) in stories {
        let client = Fake {
            file: Err(error),
            ..Fake::default()
        };
        let input = json!({"path": "a", "content": "x"});
        let (outcome, _) = run(Path::new("/nowhere"), client, "write", input).await;
        assert_eq!((outcome.status, outcome.text.as_str()), (status, text));
    }
}

#[tokio::test]
async fn a_command_runs_in_a_terminal_that_is_shown_and_given_back() {
    let client = Fake {
        output: printed("hello\n"),
        ..Fake::default()
    };
    let input = json!({"command": "echo hello"});
    let (outcome, asked) = run(Path::new("/nowhere"), client, "bash", input).await;
    assert_eq!(outcome, Outcome::completed("hello\n"));
    assert_eq!(
        asked,
        [
            "create bash -c echo hello in /nowhere",
            "show t in c",
            "wait t",
            "output t",
            "release t"
        ]
    );
}

#[tokio::test]
async fn how_a_command_ended_is_told() {
    let ended = |code, signal: Option<&str>| TerminalExit {
        code,
        signal: signal.map(str::to_owned),
    };
    let stories = [
        (
            ended(Some(0), None),
            "",
            "[no output]",
            ToolStatus::Completed,
        ),
        (
            ended(Some(3), None),
            "no",
            "[exit code 3]\nno",
            ToolStatus::Failed,
        ),
        (
            ended(None, Some("SIGTERM")),
            "",
            "[ended by SIGTERM]",
            ToolStatus::Failed,
        ),
        (
            ended(None, None),
            "x\n",
            "[ended]\nx\n",
            ToolStatus::Completed,
        ),
    ];
    for (exit, output, text, status) in stories {
        let client = Fake {
            exit: Some(Ok(exit)),
            output: printed(output),
            ..Fake::default()
        };
        let input = json!({"command": "true"});
        let (outcome, _) = run(Path::new("/nowhere"), client, "bash", input).await;
        assert_eq!((outcome.text.as_str(), outcome.status), (text, status));
    }
}

#[tokio::test]
async fn of_a_long_output_the_end_is_told() {
    let lines: String = (1..=TOOL_RESULT_LINES_MAX + 5)
        .map(|line| format!("{line}\n"))
        .collect();
    let client = Fake {
        output: printed(&lines),
        ..Fake::default()
    };
    let input = json!({"command": "seq"});
    let (outcome, _) = run(Path::new("/nowhere"), client, "bash", input).await;
    let note = "[cut: only the end of the output is shown]\n6\n";
    assert!(outcome.text.starts_with(note), "{}", &outcome.text[..99]);
    assert!(outcome.text.ends_with("2005\n"));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_killed_and_what_it_printed_is_told() {
    let client = Fake {
        exit: None,
        output: printed("half"),
        ..Fake::default()
    };
    let input = json!({"command": "sleep 9", "timeoutMs": 1500, "cwd": "sub"});
    let (outcome, asked) = run(Path::new("/nowhere"), client, "bash", input).await;
    assert_eq!(
        outcome,
        Outcome::failed("[timed out: stopped after 1.5 s]\nhalf")
    );
    assert_eq!(asked[0], "create bash -c sleep 9 in /nowhere/sub");
    assert_eq!(asked[2..], ["wait t", "kill t", "output t", "release t"]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_whose_call_is_dropped_is_let_go() {
    let client = Fake {
        exit: None,
        ..Fake::default()
    };
    let (toolbox, asked) = toolbox(Path::new("/nowhere"), client);
    let running = call(&toolbox, "bash", json!({"command": "sleep 9"}));
    let dropped = tokio::time::timeout(Duration::from_secs(1), running).await;
    assert!(dropped.is_err());
    assert_eq!(asked.lock().unwrap()[2..], ["wait t", "let go t"]);
}

#[tokio::test]
async fn a_client_that_leaves_during_a_command_leaves_its_end_unknown() {
    let client = Fake {
        exit: Some(Err(ClientError::Gone)),
        ..Fake::default()
    };
    let input = json!({"command": "true"});
    let (outcome, asked) = run(Path::new("/nowhere"), client, "bash", input.clone()).await;
    assert_eq!(outcome.status, ToolStatus::Unknown);
    assert!(outcome.text.contains("client gone"), "{}", outcome.text);
    assert_eq!(asked[2..], ["wait t", "let go t"]);

    let client = Fake {
        created: Err::<TerminalId, _>(ClientError::TooMany),
        ..Fake::default()
    };
    let (outcome, asked) = run(Path::new("/nowhere"), client, "bash", input).await;
    assert_eq!((outcome.status, asked.len()), (ToolStatus::Failed, 1));
}

#[tokio::test]
async fn a_person_sees_all_of_a_command_before_it_runs() {
    let (toolbox, _) = toolbox(Path::new("/w"), Fake::default());
    let (two, long) = (
        json!({"command": "ls\nrm -r x"}),
        json!({"command": "x".repeat(1_001)}),
    );
    assert_eq!(toolbox.show("bash", &two).await.title, "ls ↵ rm -r x");
    assert!(toolbox.show("bash", &long).await.title.ends_with('…'));
}

fn printed(text: &str) -> TerminalOutput {
    TerminalOutput {
        text: text.to_owned(),
        truncated: false,
    }
}

#[tokio::test]
async fn an_edit_works_on_what_the_client_sees_and_only_if_that_was_read() {
    let workspace = workspace();
    let edit = json!({"path": "a.txt", "old": "unsaved", "new": "edited"});
    let client = with_text("one\nunsaved\n");
    let (toolbox, asked) = toolbox(workspace.path(), client);
    let outcome = call(&toolbox, "edit", edit.clone()).await;
    assert!(outcome.text.contains("was not read"), "{}", outcome.text);
    call(&toolbox, "read", json!({"path": "a.txt"})).await;
    let outcome = call(&toolbox, "edit", edit.clone()).await;
    assert_eq!(outcome.text, "Edited a.txt in 1 place, first in line 2.");
    assert_eq!(outcome.blocks[0]["newText"], "one\nedited\n");
    let path = workspace.path().join("a.txt");
    let written = format!("write {} one\nedited\n", path.display());
    assert_eq!(asked.lock().unwrap().last(), Some(&written));
    // The client still has the old text: not what was written.
    let outcome = call(&toolbox, "edit", edit).await;
    assert!(
        outcome.text.contains("has changed since"),
        "{}",
        outcome.text
    );
    let on_disk = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        on_disk, "one\ntwo\nthree\n",
        "the server's disk is not touched"
    );
}

#[tokio::test]
async fn an_edit_needs_a_client_that_reads_and_writes() {
    let workspace = workspace();
    let client = Fake {
        offers: Offers {
            write_text_file: false,
            ..Fake::default().offers
        },
        ..with_text("one\ntwo\nthree\n")
    };
    let (toolbox, asked) = toolbox(workspace.path(), client);
    call(&toolbox, "read", json!({"path": "a.txt"})).await;
    let edit = json!({"path": "a.txt", "old": "two", "new": "2"});
    let outcome = call(&toolbox, "edit", edit).await;
    assert_eq!(outcome.status, ToolStatus::Completed, "{}", outcome.text);
    assert_eq!(asked.lock().unwrap().len(), 1, "only the read");
    let on_disk = std::fs::read_to_string(workspace.path().join("a.txt")).unwrap();
    assert_eq!(on_disk, "one\n2\nthree\n");
}

#[tokio::test]
async fn a_write_is_shown_as_a_change_of_the_text_that_the_client_has() {
    let workspace = workspace();
    std::fs::write(workspace.path().join("a.txt"), "saved\n").unwrap();
    let (toolbox, asked) = toolbox(workspace.path(), with_text("unsaved\n"));
    let write = json!({"path": "a.txt", "content": "new\n"});
    let shown = toolbox.show("write", &write).await;
    assert_eq!(shown.content[0]["oldText"], "unsaved\n");
    let outcome = call(&toolbox, "write", write.clone()).await;
    assert_eq!(outcome.blocks[0]["oldText"], "unsaved\n");
    let last = asked.lock().unwrap().last().cloned().unwrap();
    assert!(last.starts_with("write "), "{last}");
    // The client still has the old text: not what was written.
    let outcome = call(&toolbox, "write", write).await;
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(
        outcome.text.contains("has changed since"),
        "{}",
        outcome.text
    );
}

#[tokio::test]
async fn a_write_is_shown_without_a_change_if_the_client_does_not_say_what_is_there() {
    let workspace = workspace();
    std::fs::write(workspace.path().join("a.txt"), "saved\n").unwrap();
    let client = Fake {
        file: Err(ClientError::Peer {
            code: -32_002,
            message: "nf".to_owned(),
            data: None,
        }),
        ..Fake::default()
    };
    let (toolbox, _) = toolbox(workspace.path(), client);
    let write = |path| json!({"path": path, "content": "new\n"});
    let shown = toolbox.show("write", &write("a.txt")).await;
    assert!(shown.content.is_empty(), "{:?}", shown.content);
    let shown = toolbox.show("write", &write("b.txt")).await;
    assert_eq!(shown.content[0]["newText"], "new\n", "it is new");
    assert!(shown.content[0].get("oldText").is_none_or(Value::is_null));
}
