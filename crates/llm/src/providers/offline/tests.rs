//! Stories about the offline assistant: a prompt in; a tool call or words out.

use std::sync::Arc;

use domain::CallId;
use serde_json::Value;

use super::request::FORMS;
use super::{OfflineProvider, reply};
use crate::model::{Chunk, Message, ModelRequest, ModelStop, Provider, ToolOutcome, ToolSpec};

#[test]
fn plain_requests_and_slash_forms_become_calls_of_real_tools() {
    let cases = [
        ("read README.md", r#"read {"path":"README.md"}"#),
        ("/read README.md", r#"read {"path":"README.md"}"#),
        (
            "Please read the file src/main.rs",
            r#"read {"path":"src/main.rs"}"#,
        ),
        (
            "can you show me notes.txt, please?",
            r#"read {"path":"notes.txt"}"#,
        ),
        ("read \"my notes.txt\"", r#"read {"path":"my notes.txt"}"#),
        ("summarise README.md", r#"read {"path":"README.md"}"#),
        ("Summarize `docs/a.md`", r#"read {"path":"docs/a.md"}"#),
        ("list", r"list {}"),
        ("/list", r"list {}"),
        ("list files", r"list {}"),
        ("list the files in src", r#"list {"path":"src"}"#),
        ("list crates/llm", r#"list {"path":"crates/llm"}"#),
        ("find main", r#"glob {"pattern":"**/*main*"}"#),
        ("find *.rs", r#"glob {"pattern":"**/*.rs"}"#),
        ("search TODO: later", r#"grep {"pattern":"TODO: later"}"#),
        (
            "search for fn main()",
            r#"grep {"pattern":"fn main\\(\\)"}"#,
        ),
        (
            "run cargo test --workspace",
            r#"bash {"command":"cargo test --workspace"}"#,
        ),
        (
            "/run echo \"a b\" c",
            r#"bash {"command":"echo \"a b\" c"}"#,
        ),
        (
            "fetch https://example.com/a?b=c",
            r#"web_fetch {"url":"https://example.com/a?b=c"}"#,
        ),
        (
            "edit a.txt replace old words with new words",
            r#"read {"path":"a.txt"}"#,
        ),
        (
            "edit a.txt replace \"x with y\" with \"z\"",
            r#"read {"path":"a.txt"}"#,
        ),
        ("edit a.txt replace b with \"\"", r#"read {"path":"a.txt"}"#),
        (
            "write a.txt hello there",
            r#"write {"path":"a.txt","content":"hello there"}"#,
        ),
        (
            "write a.txt\nline 1\n  line 2",
            r#"write {"path":"a.txt","content":"line 1\n  line 2"}"#,
        ),
    ];
    for (prompt, expected) in cases {
        assert_eq!(
            show(&reply(&ask(prompt, ALL))),
            format!("{expected} ToolUse"),
            "{prompt}"
        );
    }
}

#[test]
fn a_sentence_for_a_model_gets_an_honest_answer_and_three_ways_to_add_one() {
    let prompts = [
        "why is the sky blue?",
        "read the docs about tokio and tell me what you think",
        "run",
        "",
    ];
    for prompt in prompts {
        let answer = show(&reply(&ask(prompt, ALL)));
        assert!(answer.ends_with(" EndTurn"), "{answer}");
        if prompt == "run" {
            assert!(answer.contains("The form is: `run COMMAND`"), "{answer}");
            continue;
        }
        assert!(answer.contains("not an AI model"), "{answer}");
        for way in [
            "ollama pull",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
        ] {
            assert!(answer.contains(way), "{answer}");
        }
    }
}

#[test]
fn help_and_greetings_say_what_works_here() {
    for prompt in ["what can you do?", "help", "/help", "What can you do"] {
        let answer = show(&reply(&ask(prompt, &["read", "write"])));
        assert!(answer.contains("- `read FILE`: show a file"), "{answer}");
        assert!(answer.contains("Not available here, for want of their tools: `list [DIR]`"));
    }
    let hello = show(&reply(&ask("Hello!", &["read"])));
    assert!(
        hello.starts_with("Hello! I am the offline assistant"),
        "{hello}"
    );
    assert!(
        hello.contains("`summarise FILE`") && !hello.contains("`run COMMAND`"),
        "{hello}"
    );
}

#[test]
fn a_missing_tool_is_named_with_what_there_is_instead() {
    let answer = show(&reply(&ask("run ls", &["read"])));
    assert_eq!(
        answer,
        "I cannot do that here: the tool `bash` is not available. What I can do here: \
         `read FILE`, `summarise FILE`. EndTurn"
    );
    let answer = show(&reply(&ask("run ls", &[])));
    assert!(answer.contains("No tool is available here"), "{answer}");
}

#[test]
fn results_are_shown_and_long_ones_are_cut() {
    let answer = show(&reply(&after("read a.txt", "hello\nworld\n", false)));
    assert_eq!(answer, "Here is `a.txt`:\n\n```\nhello\nworld\n``` EndTurn");
    let long = "line\n".repeat(1_000);
    let answer = show(&reply(&after("read a.txt", &long, false)));
    assert!(answer.contains("… and 940 more lines."), "{answer}");
    let wide = show(&reply(&after("run x", &"é".repeat(9_000), false)));
    assert!(
        wide.len() < 7_000 && wide.contains("… and 1 more line."),
        "{wide}"
    );
    let fenced = show(&reply(&after("read a.md", "```\ncode\n```", false)));
    assert!(fenced.contains("````\n```\ncode\n```\n````"), "{fenced}");
    let empty = show(&reply(&after("find nothing", "", false)));
    assert_eq!(empty, "No file has a name like `nothing`. EndTurn");
}

#[test]
fn a_failed_tool_is_reported_as_failed() {
    let answer = show(&reply(&after("read a.txt", "no such file", true)));
    assert_eq!(
        answer,
        "The tool `read` did not succeed:\n\n```\nno such file\n``` EndTurn"
    );
}

#[test]
fn a_summary_is_made_of_the_texts_own_words() {
    let text = "# Title\n\n![badge](x)\n\nFirst words\nof prose.\n\nMore.\n\n## Part\n\n\
                ```sh\n# not a heading\n```\n\n### Deeper\n";
    let answer = show(&reply(&after("summarise a.md", text, false)));
    assert!(
        answer.starts_with(
            "**`a.md`** has 16 lines and 18 words. Its title is “Title”.\n\nIt begins:\n\n\
         > First words of prose.\n\nIts headings:\n\n- Title\n  - Part\n    - Deeper\n"
        ),
        "{answer}"
    );
    let again = show(&reply(&after("summarise a.md", text, false)));
    assert_eq!(answer, again);
    let empty = show(&reply(&after("summarise a.md", "\n", false)));
    assert_eq!(empty, "`a.md` is empty. EndTurn");
}

#[test]
fn words_come_one_by_one_and_no_chunk_is_empty() {
    let chunks = reply(&ask("hello", ALL));
    assert!(chunks.len() > 20);
    for chunk in &chunks {
        assert_ne!(chunk, &Chunk::Text(String::new()));
    }
    assert_eq!(chunks.last(), Some(&Chunk::Stop(ModelStop::EndTurn)));
    assert_eq!(
        OfflineProvider.label(),
        "offline assistant, not an AI model"
    );
}

const ALL: &[&str] = &[
    "read",
    "write",
    "edit",
    "list",
    "glob",
    "grep",
    "bash",
    "web_fetch",
];

fn ask(prompt: &str, tools: &[&str]) -> ModelRequest {
    assert!(
        ALL.iter()
            .all(|tool| FORMS.iter().any(|form| form.tool == *tool))
    );
    let tool = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        input_schema: Value::Null.into(),
    };
    ModelRequest {
        system: String::new(),
        messages: Arc::new(vec![Message::User {
            text: prompt.to_owned(),
            blocks: vec![],
        }]),
        tools: tools.iter().map(tool).collect(),
    }
}

fn after(prompt: &str, result: &str, failed: bool) -> ModelRequest {
    let mut request = ask(prompt, ALL);
    let outcome = ToolOutcome {
        call: CallId::new("call"),
        name: "tool".to_owned(),
        text: result.to_owned(),
        failed,
        images: Vec::new(),
    };
    Arc::make_mut(&mut request.messages).push(Message::ToolResults(vec![outcome]));
    request
}

/// The whole reply on one line: words or calls, then why it stopped.
fn show(chunks: &[Chunk]) -> String {
    let mut line = String::new();
    for chunk in chunks {
        match chunk {
            Chunk::Text(text) => line += text,
            Chunk::ToolCall(call) => line += &format!("{} {}", call.name, call.input),
            Chunk::Stop(stop) => line += &format!(" {stop:?}"),
            Chunk::Thought(_) | Chunk::Usage(_) => panic!("unexpected {chunk:?}"),
        }
    }
    line
}
