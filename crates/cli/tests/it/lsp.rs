//! Language servers through the real program: a real one answers, and one of ours does everything
//! that a server should not.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Peer, Program, wait_for};

use crate::hooks::configure;
use crate::support::binary;

/// The server of ours.
const SERVER: &str = include_str!("../data/language_server.py");

/// Puts the server of ours where `home` finds it for Python.
pub(crate) fn with_language_server(home: Home) -> Home {
    let programs = home.user_dir().join("bin");
    std::fs::create_dir_all(&programs).unwrap();
    let program = programs.join("pylsp");
    std::fs::write(&program, SERVER).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    home.env("PATH", path)
}

/// A model that makes these calls of `lsp`, one after the other.
fn asking(calls: impl IntoIterator<Item = Value>) -> Script {
    testkit::system::need("python3");
    let script = calls.into_iter().fold(Script::new(), |script, input| {
        script.call([tool("lsp", input)])
    });
    script.call([say("done")])
}

fn at(operation: &str, line: u32, column: u32) -> Value {
    json!({"operation": operation, "path": "main.py", "line": line, "column": column})
}

/// A home with `main.py` and the language server of ours in this mood; there is little patience with
/// one that hangs.
fn home(script: Script, mood: &str) -> Home {
    let home = with_language_server(Home::new(binary(), script));
    home.write("main.py", "x = 1\ny = x\n");
    home.write("mood", mood);
    let patience_ms = match mood.starts_with("hang") {
        true => 2_000,
        false => 15_000,
    };
    home.env("FASTNESS_LIMITS_LSP_MS", patience_ms)
}

/// The same, with the program in it.
async fn serve(script: Script, mood: &str) -> Program {
    Program::serve_in(home(script, mood)).await
}

/// What became of the calls of a session: how each ended, and what was told.
fn results(server: &Program, session: &str) -> Vec<(String, String)> {
    let events = server.home().events(session);
    let results = events.iter().filter(|event| event["type"] == "tool.result");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    results
        .map(|result| (text(&result["status"]), text(&result["text"])))
        .collect()
}

async fn play(server: &Program) -> Vec<(String, String)> {
    let mut client = AcpClient::connect_ws(server).await;
    client.on_permission(Choice::AllowAlways);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    results(server, &session)
}

fn starts(server: &Program) -> Vec<u32> {
    let text = server.home().read("starts").unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Whether any process but `server` was started with a name of its home in its arguments.
fn has_workers(server: &Program) -> bool {
    let home = server.home().workspace();
    let home = home.parent().unwrap().to_str().unwrap().to_owned();
    let own = server.pid().map(|pid| pid.to_string());
    let mut processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.any(|process| {
        let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let is_server = process.file_name().to_str() == own.as_deref();
        !is_server && String::from_utf8_lossy(&arguments).contains(&home)
    })
}

const MAIN: &str = "from other import double\n\n\ndef main():\n    print(double(2))\n";
const OTHER: &str = "def double(n):\n    \"\"\"Twice n.\"\"\"\n    return 2 * n\n";

#[tokio::test]
async fn d_05_lsp_tells_what_a_real_language_server_knows() {
    let installed = testkit::peers::ensure(Peer::Pylsp);
    let ask = |operation: &str, path: &str, line, column| json!({"operation": operation, "path": path, "line": line, "column": column});
    let broken = "import os\n\n\ndef f():\n    return undefined_name\n";
    let script = Script::new()
        .call([tool("lsp", ask("definitions", "main.py", 5, 11))])
        .call([tool("lsp", ask("references", "other.py", 1, 5))])
        .call([tool("lsp", ask("hover", "main.py", 5, 11))])
        .call([tool(
            "lsp",
            json!({"operation": "symbols", "path": "other.py"}),
        )])
        .call([tool(
            "lsp",
            json!({"operation": "diagnostics", "path": "main.py"}),
        )])
        .call([tool("write", json!({"path": "main.py", "content": broken}))])
        .call([tool(
            "lsp",
            json!({"operation": "diagnostics", "path": "main.py"}),
        )])
        .call([say("done")]);
    let home = Home::new(binary(), script).env(
        "PATH",
        format!("{}:/usr/bin:/bin", installed.join("bin").display()),
    );
    home.write("main.py", MAIN);
    home.write("other.py", OTHER);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::AllowAlways);
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    let results = results(&server, &session);
    for (status, text) in &results {
        assert_eq!(status, "completed", "{text}");
    }
    let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[0], "other.py:1:5: def double(n):\n");
    assert!(
        texts[1].contains("main.py:5:11: print(double(2))\n"),
        "{}",
        texts[1]
    );
    assert!(
        texts[1].contains("other.py:1:5: def double(n):\n"),
        "{}",
        texts[1]
    );
    assert!(texts[2].contains("Twice n."), "{}", texts[2]);
    assert!(
        texts[3].contains("other.py:1:1: function double\n"),
        "{}",
        texts[3]
    );
    assert_eq!(texts[4], "[no diagnostics]", "nothing is wrong yet");
    assert!(texts[6].contains("main.py:5:"), "{}", texts[6]);
    assert!(
        texts[6].contains("undefined name 'undefined_name'"),
        "{}",
        texts[6]
    );
    let other = server.home().workspace().join("other.py");
    let located = done.updates.iter().any(|update| {
        update.kind == "tool_call_update"
            && update.update["locations"] == json!([{"path": other, "line": 1}])
    });
    assert!(located, "clients are told where it is");
}

#[tokio::test]
async fn d_05_lsp_tells_what_the_server_for_typescript_knows_also_of_files_that_a_command_made() {
    let installed = testkit::peers::ensure(Peer::TypeScriptServer);
    let used = json!({"operation": "definitions", "path": "main.ts", "line": 2, "column": 13});
    let wrong = json!({"operation": "diagnostics", "path": "main.ts"});
    let make = "printf 'export function twice(n: number) { return 2 * n }\\n' > other.ts";
    let script = Script::new()
        .call([tool("lsp", wrong)])
        .call([say("started")])
        .call([tool("bash", json!({"command": make}))])
        .call([tool("lsp", used)])
        .call([say("done")]);
    // It needs `node`, which is somewhere on our own path.
    let own = std::env::var_os("PATH").unwrap().into_string().unwrap();
    let path = format!("{}:{own}", installed.join("bin").display());
    let home = Home::new(binary(), script).env("PATH", path);
    home.write("tsconfig.json", "{}");
    home.write(
        "main.ts",
        "import { twice } from \"./other\"\nconsole.log(twice(2))\n",
    );
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::AllowAlways);
    let session = client.new_session().await;
    for prompt in ["start", "go on"] {
        client.prompt(&session, prompt).await;
    }
    let told = results(&server, &session);
    for (status, text) in &told {
        assert_eq!(status, "completed", "{text}");
    }
    assert!(told[0].1.contains("./other"), "{}", told[0].1);
    assert!(told[2].1.starts_with("other.ts:1:17:"), "{}", told[2].1);
}

#[tokio::test]
async fn d_05_lsp_asks_once_and_starts_its_server_once() {
    let calls = [
        at("definitions", 2, 5),
        at("references", 1, 1),
        at("hover", 1, 1),
    ];
    let server = serve(asking(calls), "good").await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::AllowAlways);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(client.requests().len(), 1, "always is for the session");
    let results = results(&server, &session);
    assert_eq!(
        results[0],
        ("completed".into(), "main.py:2:5: y = x\n".into())
    );
    assert_eq!(results[2], ("completed".into(), "x = 1\ny = x\n".into()));
    assert_eq!(starts(&server).len(), 1);
    client
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    wait_for("the end of the language server", || !has_workers(&server)).await;
}

#[tokio::test]
async fn d_05_lsp_counts_characters_whatever_the_server_counts_and_sees_what_was_written() {
    let text = "a = '😀ß'; b = a\n";
    for mood in ["good", "utf-8"] {
        let write = |content: &str| json!({"path": "main.py", "content": content});
        let script = Script::new()
            .call([tool("write", write(text))])
            .call([tool("lsp", at("definitions", 1, 15))])
            .call([tool(
                "lsp",
                json!({"operation": "definitions", "path": "main.py", "line": 1}),
            )])
            .call([tool("write", write("new = 1\n"))])
            .call([tool("lsp", at("hover", 1, 1))])
            .call([say("done")]);
        let server = serve(script, mood).await;
        let results = play(&server).await;
        let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts[1], format!("main.py:1:15: {text}"), "{mood}");
        assert_eq!(texts[2], format!("main.py:1:1: {text}"), "{mood}");
        assert_eq!(texts[4], "new = 1\n", "{mood}: the document as it is now");
    }
}

#[tokio::test]
async fn d_05_lsp_without_a_server_says_what_to_install() {
    let path = |path: &str| json!({"operation": "symbols", "path": path});
    let home = Home::new(binary(), asking([path("a.go"), path("notes.txt")]));
    home.write("a.go", "package a\n");
    home.write("notes.txt", "");
    let server = Program::serve_in(home.env("PATH", "/usr/bin:/bin")).await;
    let results = play(&server).await;
    assert_eq!(results[0].0, "failed");
    assert!(
        results[0].1.contains("gopls") && results[0].1.contains("go install"),
        "{results:?}"
    );
    assert_eq!(results[1].0, "failed");
    assert!(
        results[1].1.contains("No language server is known"),
        "{results:?}"
    );
}

#[tokio::test]
async fn d_05_whatever_a_language_server_does_the_call_fails_with_a_reason_and_the_session_goes_on()
{
    for (mood, reason) in [
        ("hang", "did not answer within 2 s"),
        ("hang at start", "did not answer within 2 s"),
        ("die", "out of cheese"),
        ("flood", "does not stop talking"),
        ("ask endlessly", "reads nothing of what it is told"),
        ("large", "100000000 bytes"),
        ("garbage", "not the language server protocol"),
        ("not json", "not the language server protocol"),
        ("wrong form", "not the language server protocol"),
        ("refuse", "refused: no "),
        ("few", "does not offer definitions"),
    ] {
        let server = serve(asking([at("definitions", 1, 1)]), mood).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::AllowAlways);
        let session = client.new_session().await;
        let done = client.prompt(&session, "go").await;
        assert_eq!(done.text, "done", "{mood}");
        let (status, text) = &results(&server, &session)[0];
        assert_eq!(status, "failed", "{mood}: {text}");
        assert!(text.contains(reason), "{mood}: {text}");
        assert!(
            text.len() < 1_000 && !text.contains('\x1b'),
            "{mood}: {text}"
        );
    }
}

#[tokio::test]
async fn d_05_answers_that_nobody_asked_for_and_questions_of_the_server_change_nothing() {
    let server = serve(asking([at("definitions", 1, 1)]), "wrong ids").await;
    let expected = ("completed".to_owned(), "main.py:1:1: x = 1\n".to_owned());
    assert_eq!(play(&server).await, std::slice::from_ref(&expected));
    let server = serve(asking([at("definitions", 1, 1)]), "ask back").await;
    assert_eq!(play(&server).await, [expected]);
    let reply = |number| -> Value {
        let text = server.home().read(&format!("reply{number}")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(reply(0)["result"]["applied"], false, "it edits nothing");
    assert_eq!(reply(1)["error"]["code"], -32601);
}

#[tokio::test]
async fn d_05_places_that_a_server_makes_up_are_named_and_not_read() {
    let server = serve(asking([at("definitions", 1, 1)]), "lies").await;
    let home = server.home();
    std::fs::write(home.user_dir().join("secret"), "s3cret").unwrap();
    std::os::unix::fs::symlink(home.user_dir(), home.workspace().join("link")).unwrap();
    let token = std::fs::read_to_string(home.data_dir().join("token")).unwrap();
    let results = play(&server).await;
    let (status, text) = &results[0];
    assert_eq!(status, "completed", "{text}");
    assert!(text.contains("/etc/passwd:1:1:\n"), "{text}");
    assert!(text.contains("link/secret:1:1:\n"), "{text}");
    for never in ["root:", "s3cret", token.trim(), "\x1b", "\0"] {
        assert!(!text.contains(never), "{text}");
    }
}

#[tokio::test]
async fn d_05_many_places_are_cut_and_a_server_that_always_fails_is_given_up() {
    let server = serve(asking([at("references", 1, 1)]), "many").await;
    let (_, text) = &play(&server).await[0];
    assert!(text.ends_with("[cut: 49800 more]\n"), "{text}");
    assert!(text.len() < 40_000);

    let server = serve(asking((0..7).map(|_| at("references", 1, 1))), "die").await;
    let results = play(&server).await;
    let given_up = |(status, text): &&(String, String)| {
        assert_eq!(status, "failed", "{text}");
        text.contains("is not started again")
    };
    assert_eq!(results.iter().filter(given_up).count(), 2, "{results:?}");
    assert_eq!(starts(&server).len(), 5);
}

#[tokio::test]
async fn d_05_nothing_of_a_language_server_outlives_a_server_that_is_killed() {
    for layer in ["auto", "landlock"] {
        let script = asking([at("definitions", 1, 1)]);
        let home = with_language_server(Home::new(binary(), script));
        home.write("main.py", "x = 1\n");
        home.write("mood", "children");
        let home = home.env("FASTNESS_SANDBOX_MODE", layer);
        let mut server = Program::serve_in(home).await;
        let results = play(&server).await;
        assert_eq!(results[0].0, "completed", "{layer}: {results:?}");
        let child = server.home().workspace().join("child");
        wait_for("the child of the language server", || is_filled(&child)).await;
        assert!(has_workers(&server), "{layer}");
        server.kill9().await;
        wait_for("the end of all of it", || !has_workers(&server)).await;
    }
}

#[tokio::test]
async fn d_05_a_server_that_hangs_holds_no_turn_and_is_started_anew() {
    let script = Script::new()
        .call([tool("lsp", at("definitions", 1, 1))])
        .call([tool("lsp", at("definitions", 1, 1))])
        .call([tool("bash", json!({"command": "echo good > mood"}))])
        .call([tool("lsp", at("definitions", 1, 1))])
        .call([say("done")]);
    let home = home(script, "hang");
    // Nobody answers questions while the test waits for the start.
    configure(&home, "[permissions]\nallow = [\"lsp\", \"bash\"]\n");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::AllowAlways);
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    wait_for("its start", || !starts(&server).is_empty()).await;
    client.cancel(&session).await;
    let done = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(done.stop_reason, "cancelled");
    client.prompt(&session, "again").await;
    let results = results(&server, &session);
    let statuses: Vec<&str> = results.iter().map(|(status, _)| status.as_str()).collect();
    assert_eq!(
        statuses,
        ["cancelled", "failed", "completed", "completed"],
        "{results:?}"
    );
}

fn is_filled(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.len() > 0)
}

#[tokio::test]
async fn d_05_a_server_of_the_operator_s_own_is_used_and_one_can_be_turned_off() {
    let symbols = |path: &str| json!({"operation": "symbols", "path": path});
    let script = asking([symbols("main.py"), symbols("main.go")]);
    let home = Home::new(binary(), script);
    home.write("main.py", "x = 1\n");
    home.write("main.go", "package main\n");
    // Neither on the path nor in anything that a sandbox shows.
    let program = home.user_dir().join(".own/bin/mine");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, SERVER).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    configure(
        &home,
        &format!("[lsp]\npython = [{program:?}, \"--mine\"]\ngo = []\n"),
    );
    let server = Program::serve_in(home.env("PATH", "/usr/bin:/bin")).await;
    let told = play(&server).await;
    assert_eq!(told[0].0, "completed", "{}", told[0].1);
    assert_eq!(told[1].0, "failed");
    assert!(told[1].1.contains("the settings say so"), "{}", told[1].1);
}

#[tokio::test]
async fn d_05_a_server_is_found_through_a_link_to_a_directory_that_is_not_shown() {
    let home = Home::new(binary(), asking([at("definitions", 1, 1)]));
    home.write("main.py", "x = 1\n");
    let (real, link) = (
        home.user_dir().join(".own/real"),
        home.user_dir().join(".own/link"),
    );
    std::fs::create_dir_all(&real).unwrap();
    std::fs::write(real.join("pylsp"), SERVER).unwrap();
    std::fs::set_permissions(real.join("pylsp"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("real", &link).unwrap();
    let path = format!("{}:/usr/bin:/bin", link.display());
    let server = Program::serve_in(home.env("PATH", path)).await;
    let told = play(&server).await;
    assert_eq!(told[0].0, "completed", "{}", told[0].1);
}

#[tokio::test]
async fn d_05_a_server_is_told_which_files_tools_and_commands_have_changed() {
    let script = Script::new()
        .call([tool("lsp", at("definitions", 1, 1))])
        .call([tool(
            "write",
            json!({"path": "by_tool.py", "content": "y = 2\n"}),
        )])
        .call([tool(
            "bash",
            json!({"command": "rm gone.py; echo 'z = 33' > main.py"}),
        )])
        .call([tool("lsp", at("definitions", 1, 1))])
        .call([say("done")]);
    let server = serve(script, "good").await;
    server.home().write("gone.py", "");
    let told = play(&server).await;
    assert!(
        told.iter().all(|(status, _)| status == "completed"),
        "{told:?}"
    );
    let changes = server.home().read("changes").unwrap();
    for change in ["by_tool.py 1", "main.py 2", "gone.py 3"] {
        assert!(
            changes.lines().any(|line| line == change),
            "{change}: {changes}"
        );
    }
}

#[tokio::test]
async fn d_05_problems_that_a_server_told_of_stand_until_it_tells_of_others() {
    let problems = json!({"operation": "diagnostics", "path": "main.py"});
    let script = asking([problems.clone(), problems]);
    let server = serve(script, "says it once").await;
    let told = play(&server).await;
    assert_eq!(told[0].0, "completed", "{}", told[0].1);
    assert!(told[0].1.contains("old"), "{}", told[0].1);
    assert_eq!(told[1], told[0]);
    assert_eq!(starts(&server).len(), 1);
}
