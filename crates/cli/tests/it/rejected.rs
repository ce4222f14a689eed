//! Reject means not run, for every tool that a model is offered: no file, no process, no connection,
//! and nothing of what it would have read. The same calls do all that when they are allowed.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};
use tokio::sync::mpsc;

use crate::fetch::{PAGE, site};
use crate::hooks::configure;
use crate::lsp::with_language_server;
use crate::support::binary;

/// Tools that run unasked.
const FREE: [&str; 6] = ["read", "list", "glob", "grep", "todo", "skill"];

/// A call of each tool, and a rule that is about it.
fn table(site: &str) -> Vec<(&'static str, Value, String)> {
    let row = |tool, input, rule: &str| (tool, input, rule.to_owned());
    vec![
        row("read", json!({"path": "secret.txt"}), "read(secret.txt)"),
        row("read", json!({"path": "n.ipynb"}), "read(*.ipynb)"),
        row("list", json!({"path": "kept"}), "list(kept)"),
        row(
            "glob",
            json!({"pattern": "*", "path": "kept"}),
            "glob(kept/**)",
        ),
        row("grep", json!({"pattern": "s3cret"}), "grep(secret.txt)"),
        row(
            "todo",
            json!({"items": [{"content": "x", "status": "pending"}]}),
            "todo",
        ),
        row("skill", json!({"name": "review"}), "skill(review)"),
        row(
            "slash_command",
            json!({"name": "/fix"}),
            "slash_command(fix)",
        ),
        row(
            "write",
            json!({"path": "new/made", "content": "x"}),
            "write(new/**)",
        ),
        row(
            "edit",
            json!({"path": "secret.txt", "old": "s3cret", "new": "gone"}),
            "edit(secret.txt)",
        ),
        row(
            "notebook_edit",
            json!({"path": "n.ipynb", "cellId": "0", "source": "2"}),
            "notebook_edit(*.ipynb)",
        ),
        row(
            "bash",
            json!({"command": "touch ran; echo s3cret"}),
            "bash(touch *)",
        ),
        row(
            "web_fetch",
            json!({"url": format!("http://{site}/")}),
            "web_fetch(domain:127.0.0.1)",
        ),
        row("web_search", json!({"query": "rust"}), "web_search(ru*)"),
        row(
            "lsp",
            json!({"operation": "symbols", "path": "code.py"}),
            "lsp(*.py)",
        ),
        row("task", json!({"prompt": "work"}), "task(general)"),
        row("ask_user", json!({"question": "Who are you?"}), "ask_user"),
    ]
}

const NOTEBOOK: &str = r#"{"cells": [{"cell_type": "code", "source": ["s3cret"]}]}"#;

/// A home in which each call of the table has something to do.
fn home(site: &str) -> Home {
    let script = table(site)
        .into_iter()
        .fold(Script::new(), |script, (name, input, _)| {
            script.call([tool(name, input)])
        });
    let agent = Script::new()
        .call([tool("write", json!({"path": "by-agent", "content": ""}))])
        .call([say("done")]);
    let script = script.call([say("done")]).agent("general", agent);
    let home = with_language_server(Home::new(binary(), script))
        .env("FASTNESS_NETWORK_ALLOW", site)
        .env("FASTNESS_SEARCH_PROVIDER", "searxng")
        .env("FASTNESS_SEARCH_URL", format!("http://{site}"));
    furnish(&home);
    home
}

pub(crate) fn furnish(home: &Home) {
    for directory in ["kept", ".claude/skills/review", ".claude/commands"] {
        std::fs::create_dir_all(home.workspace().join(directory)).unwrap();
    }
    home.write("secret.txt", "s3cret");
    home.write("kept/s3cret-name", "");
    home.write("n.ipynb", NOTEBOOK);
    home.write("code.py", "s3cret = 1\n");
    let skill = "---\ndescription: Reviews\n---\ns3cret";
    home.write(".claude/skills/review/SKILL.md", skill);
    home.write(".claude/commands/fix.md", "s3cret");
}

/// What became of a turn in which every call of the table was made.
struct Story {
    server: Program,
    session: String,
    asked: usize,
    connections: usize,
}

impl Story {
    async fn tell(rules: &str, mode: &str, choice: Choice) -> Self {
        let (site, mut reports) = site(PAGE).await;
        let home = home(&site);
        configure(&home, rules);
        let server = Program::serve_in(home).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(choice);
        let session = client.new_session().await;
        let mode = json!({"sessionId": session, "modeId": mode});
        client.call("session/set_mode", mode).await.unwrap();
        client.prompt(&session, "go").await;
        let (asked, connections) = (client.requests().len(), count(&mut reports));
        Self {
            server,
            session,
            asked,
            connections,
        }
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let mut events = self.server.home().events(&self.session);
        events.retain(|event| event["type"] == kind);
        events
    }

    /// Each tool with how its call ended and what came of it.
    fn outcomes(&self) -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (uses, results) = (self.events("tool.use"), self.events("tool.result"));
        let pairs = uses.iter().zip(&results);
        pairs
            .map(|(used, result)| {
                assert_eq!(used["callId"], result["callId"]);
                (
                    text(&used["name"]),
                    text(&result["status"]),
                    text(&result["text"]),
                )
            })
            .collect()
    }

    /// Nothing was written, nothing ran, nobody was called.
    fn assert_nothing_happened(&self) {
        let home = self.server.home();
        assert_eq!(home.read("secret.txt").as_deref(), Some("s3cret"));
        assert_eq!(home.read("n.ipynb").as_deref(), Some(NOTEBOOK));
        assert_eq!((home.read("ran"), home.read("by-agent")), (None, None));
        assert_eq!(home.read("starts"), None, "a language server ran");
        assert!(self.events("child.linked").is_empty());
        assert!(!home.workspace().join("new").exists());
        assert_eq!(self.connections, 0, "somebody was there");
        let answers = self.events("question.answered");
        assert!(answers.iter().all(|answer| answer["outcome"] == "declined"));
        assert!(self.events("hook.event").is_empty());
    }
}

fn count(reports: &mut mpsc::Receiver<String>) -> usize {
    std::iter::from_fn(|| reports.try_recv().ok()).count()
}

#[tokio::test]
async fn d_04_what_a_rule_denies_does_not_run_whatever_the_tool_and_the_mode() {
    let rules: Vec<String> = table("127.0.0.1:1")
        .into_iter()
        .map(|(.., rule)| rule)
        .collect();
    let rules = format!("[permissions]\nallow = [\"*\"]\ndeny = {}\n", json!(rules));
    for mode in ["default", "bypass"] {
        let story = Story::tell(&rules, mode, Choice::Allow).await;
        assert_eq!(story.asked, 0, "nobody is asked");
        story.assert_nothing_happened();
        assert!(story.events("plan.updated").is_empty());
        let outcomes = story.outcomes();
        assert_eq!(outcomes.len(), table("").len());
        for (tool, status, text) in outcomes {
            assert_eq!(status, "denied", "{tool}: {text}");
            assert!(text.contains("of the operator denies it"), "{tool}: {text}");
            assert!(!text.contains("s3cret"), "{tool}: {text}");
        }
    }
}

#[tokio::test]
async fn d_04_what_a_person_rejects_does_not_run_whatever_the_tool() {
    let story = Story::tell("", "default", Choice::Reject).await;
    story.assert_nothing_happened();
    let outcomes = story.outcomes();
    let asking = outcomes
        .iter()
        .filter(|(tool, ..)| !FREE.contains(&tool.as_str()));
    assert_eq!(story.asked, asking.clone().count());
    for (tool, status, _) in asking {
        assert_eq!(status, "denied", "{tool}");
    }
    let questions = story.events("permission.answered");
    assert!(questions.iter().all(|answer| answer["outcome"] == "denied"));
}

#[tokio::test]
async fn d_04_the_same_calls_do_what_they_say_once_they_are_allowed() {
    let story = Story::tell("", "default", Choice::Allow).await;
    let home = story.server.home();
    assert_eq!(home.read("new/made").as_deref(), Some("x"));
    assert_eq!(home.read("ran").as_deref(), Some(""));
    assert_eq!(home.read("by-agent").as_deref(), Some(""));
    assert_eq!(home.read("secret.txt").as_deref(), Some("gone"));
    assert!(home.read("n.ipynb").unwrap().contains('2'));
    assert_eq!(story.connections, 2, "one fetch, one search");
    assert_eq!(story.events("plan.updated").len(), 1);
    let outcomes = story.outcomes();
    assert_eq!(outcomes.len(), table("").len());
    for (tool, status, text) in outcomes {
        // The page that is found is no answer of a search engine.
        let expected = if tool == "web_search" {
            "failed"
        } else {
            "completed"
        };
        assert_eq!(status, expected, "{tool}: {text}");
        let reads = [
            "read",
            "list",
            "glob",
            "grep",
            "skill",
            "slash_command",
            "bash",
            "lsp",
        ];
        let is_told = !reads.contains(&tool.as_str()) || text.contains("s3cret");
        assert!(is_told, "{tool}: {text}");
    }
}

#[test]
fn d_04_every_tool_that_there_is_has_its_row() {
    let rows = table("");
    for name in tools::names() {
        let has_row = rows.iter().any(|(row, ..)| *row == name);
        assert!(has_row, "{name} has no row");
    }
}
