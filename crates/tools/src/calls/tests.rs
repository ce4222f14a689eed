//! Calls as models write them, against a toolbox on a small directory.

use serde_json::{Value, json};

use super::written::Written;
use crate::builtin;
use crate::roots::Roots;
use crate::toolbox::Toolbox;

fn toolbox() -> Toolbox {
    let roots = Roots::new(std::env::temp_dir(), Vec::new(), Vec::new());
    let shell = crate::shell::Shell::of_test(&["-"], &[], &std::env::temp_dir());
    Toolbox::new(roots).with_shell(Some(shell))
}

fn resolved(name: &str, input: Value) -> (String, Value) {
    let toolbox = toolbox();
    let call = toolbox.resolve(name, input);
    let again = toolbox.resolve(&call.name, call.input.clone());
    assert_eq!(call, again, "resolving twice changes something");
    (call.name, call.input)
}

fn problem(name: &str, input: Value) -> String {
    let call = toolbox().resolve(name, input);
    toolbox()
        .invalid(&call.name, &call.input)
        .unwrap_or_default()
}

#[test]
fn names_of_other_agents_mean_our_tools() {
    let names = [
        ("ls", "list"),
        ("LS", "list"),
        ("list_directory", "list"),
        ("cat", "read"),
        ("read_file", "read"),
        ("ReadFile", "read"),
        ("Read", "read"),
        ("view", "read"),
        ("write_file", "write"),
        ("create_file", "write"),
        ("str_replace", "edit"),
        ("edit_file", "edit"),
        ("replace_in_file", "edit"),
        ("shell", "bash"),
        ("Bash", "bash"),
        ("run_terminal_cmd", "bash"),
        ("execute_command", "bash"),
        ("functions.shell", "bash"),
        ("functions.read", "read"),
        ("default_api.read_file", "read"),
        ("default_api:bash", "bash"),
        ("Tools.Read_File", "read"),
        ("grep_search", "grep"),
        ("file_search", "glob"),
        ("TodoWrite", "todo"),
        ("ask-user", "ask_user"),
        ("`bash`", "bash"),
        ("read()", "read"),
    ];
    for (name, ours) in names {
        assert_eq!(resolved(name, json!({})).0, ours, "{name}");
    }
    for unknown in [
        "apply_patch",
        "fly",
        "",
        "reader of files",
        "mcp__x__read_file",
    ] {
        assert_eq!(resolved(unknown, json!({})).0, unknown);
    }
}

#[test]
fn an_alias_of_a_tool_that_is_left_out_means_nothing() {
    let only: std::sync::Arc<[String]> = std::sync::Arc::from(["read".to_owned()]);
    let toolbox = toolbox().with_only(Some(only));
    for name in ["shell", "bash", "functions.bash", "BASH", "write_file"] {
        assert_eq!(toolbox.resolve(name, json!({})).name, name);
        assert!(toolbox.missing(name).is_some(), "{name}");
    }
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest_and_the_list() {
    let toolbox = toolbox();
    let told = toolbox.missing("raed").unwrap();
    let said =
        "There is no tool called raed. Did you mean read? The tools are: read, write, edit, ";
    assert!(told.starts_with(said), "{told}");
    assert!(told.contains("bash"), "{told}");
    let told = toolbox.missing("apply_patch").unwrap();
    assert!(told.contains("Did you mean edit?"), "{told}");
    let told = toolbox.missing("quux").unwrap();
    assert!(
        told.starts_with("There is no tool called quux. The tools are: "),
        "{told}"
    );
    let long = toolbox.missing(&"x".repeat(10_000)).unwrap();
    assert!(long.len() < 2_000);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of names")]
fn fields_by_other_names_are_the_tool_s_own() {
    let cases = [
        ("read", json!({"file_path": "a"}), json!({"path": "a"})),
        (
            "read",
            json!({"filePath": "a", "start_line": 3, "end_line": 5}),
            json!({"path": "a", "offset": 3, "limit": 3}),
        ),
        (
            "read",
            json!({"path": "a", "view_range": [2, 4]}),
            json!({"path": "a", "offset": 2, "limit": 3}),
        ),
        (
            "edit",
            json!({"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": "True"}),
            json!({"path": "a", "old": "b", "new": "c", "replaceAll": true}),
        ),
        (
            "edit",
            json!({"path": "a", "oldStr": "b", "newStr": "c"}),
            json!({"path": "a", "old": "b", "new": "c"}),
        ),
        ("bash", json!({"cmd": "ls"}), json!({"command": "ls"})),
        (
            "bash",
            json!({"command": ["bash", "-lc", "ls -l"], "workdir": "x"}),
            json!({"command": "ls -l", "cwd": "x"}),
        ),
        (
            "bash",
            json!({"command": ["grep", "a b", "it's"]}),
            json!({"command": "grep 'a b' 'it'\\''s'"}),
        ),
        (
            "bash",
            json!({"command": "x", "timeout": 30}),
            json!({"command": "x", "timeoutMs": 30_000}),
        ),
        (
            "bash",
            json!({"command": "x", "timeout": 60_000}),
            json!({"command": "x", "timeoutMs": 60_000}),
        ),
        (
            "grep",
            json!({"query": "x", "include": "*.py"}),
            json!({"pattern": "x", "glob": "*.py"}),
        ),
        ("list", json!({"directory": "d"}), json!({"path": "d"})),
        (
            "write",
            json!({"filename": "a", "contents": "x"}),
            json!({"path": "a", "content": "x"}),
        ),
        (
            "todo",
            json!({"todos": {"text": "a", "status": "done"}}),
            json!({"items": [{"content": "a", "status": "completed"}]}),
        ),
        // Of two names for one field, the right one counts.
        (
            "read",
            json!({"file_path": "evil", "path": "good"}),
            json!({"path": "good"}),
        ),
        (
            "bash",
            json!({"command": "good", "cmd": "evil"}),
            json!({"command": "good"}),
        ),
    ];
    for (name, input, expected) in cases {
        assert_eq!(resolved(name, input.clone()).1, expected, "{name} {input}");
    }
    let editor = json!({"command": "str_replace", "path": "a", "old_str": "b", "new_str": "c"});
    let expected = (
        "edit".to_owned(),
        json!({"path": "a", "old": "b", "new": "c"}),
    );
    assert_eq!(resolved("str_replace_editor", editor), expected);
    let view = json!({"command": "view", "path": "a"});
    assert_eq!(resolved("str_replace_based_edit_tool", view).0, "read");
}

#[test]
fn harmless_variants_of_json_are_accepted() {
    let expected = json!({"path": "a", "offset": 5});
    let inputs = [
        json!({"path": "a", "offset": "5"}),
        json!({"path": "a", "offset": 5.0}),
        json!({"path": "a", "offset": 5, "limit": null}),
        json!({"path": "a", "offset": 5, "limit": ""}),
        json!({"path": "a", "offset": 5, "limit": 0}),
        json!("```json\n{\"path\": \"a\", \"offset\": 5}\n```"),
        json!("```\n{\"path\": \"a\", \"offset\": 5}\n```"),
        json!("{\"path\": \"a\", \"offset\": 5,}"),
        json!("\"{\\\"path\\\": \\\"a\\\", \\\"offset\\\": 5}\""),
        json!({"input": {"path": "a", "offset": 5}}),
        json!({"arguments": "{\"path\": \"a\", \"offset\": \"5\"}"}),
        json!([{"path": "a", "offset": 5}]),
    ];
    for input in inputs {
        assert_eq!(resolved("read", input.clone()).1, expected, "{input}");
        assert_eq!(problem("read", input), "");
    }
    let python =
        json!("{\"path\": \"a\", \"old\": \"x\n\ty\", \"new\": \"True\", \"replaceAll\": True}");
    let expected = json!({"path": "a", "old": "x\n\ty", "new": "True", "replaceAll": true});
    assert_eq!(resolved("edit", python).1, expected);
    // What was cut off is not completed.
    for cut in [
        "{\"path\": \"a",
        "{\"path\": \"a\"",
        "```json\n{\"path\": \"a\"}",
    ] {
        assert_eq!(resolved("read", json!(cut)).1, json!(cut));
    }
}

#[test]
fn what_is_wrong_with_an_input_names_the_field_and_what_belongs_there() {
    let edit = |replace_all: Value| json!({"path": "a", "old": "b", "new": "c", "replaceAll": replace_all});
    let cases = [
        (
            "edit",
            edit(json!("maybe")),
            "The input of edit is not valid: `replaceAll` must be true or false, got `maybe`.",
        ),
        (
            "edit",
            edit(json!(1)),
            "The input of edit is not valid: `replaceAll` must be true or false, got `1`.",
        ),
        (
            "edit",
            json!({"path": "a", "old": "b"}),
            "The input of edit is not valid: `new` is missing; it must be text.",
        ),
        (
            "read",
            json!({"path": "a", "limit": "many"}),
            "The input of read is not valid: `limit` must be a whole number from 1 on, got `many`.",
        ),
        (
            "read",
            json!({"path": "a", "offset": -3}),
            "The input of read is not valid: `offset` must be a whole number from 1 on, got `-3`.",
        ),
        (
            "write",
            json!({"path": "a", "content": {"b": 1}}),
            "The input of write is not valid: `content` must be text, got an object.",
        ),
        (
            "todo",
            json!({"items": [{"content": "x", "status": "later"}]}),
            "The input of todo is not valid: `items[0].status` must be one of `pending`, `in_progress`, `completed`, got `later`.",
        ),
        (
            "read",
            json!("no json"),
            "The input of read is not valid: it must be a JSON object such as {\"path\": …}, got `no json`.",
        ),
    ];
    for (name, input, expected) in cases {
        assert_eq!(problem(name, input), expected);
    }
}

#[test]
fn a_call_that_is_the_whole_answer_is_a_call() {
    let forms = [
        "{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}",
        "```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```",
        "```\n{\"tool\": \"read\", \"parameters\": {\"path\": \"a\"}}\n```",
        "[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]",
        "{\"name\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"a\\\"}\"}",
        "{\"type\": \"function\", \"function\": {\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}}",
        "{\"tool_calls\": [{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]}",
        "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}",
        "<think>Hm. {x}</think>\n<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>",
        "<tools>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tools>",
        "<function=read>{\"path\": \"a\"}</function>",
        "<function=read>\n<parameter=path>\na\n</parameter>\n</function>",
        "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
        "[TOOL_CALLS][{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]",
        "[TOOL_CALLS] read[ARGS]{\"path\": \"a\"}",
        "[TOOL_CALLS]read{\"path\": \"a\"}",
    ];
    for form in forms {
        let Written::Calls(calls) = toolbox().written_calls(form) else {
            panic!("no call in {form}");
        };
        assert_eq!(calls.len(), 1, "{form}");
        let call = toolbox().resolve(&calls[0].name, calls[0].input.clone());
        assert_eq!(
            (call.name.as_str(), call.input),
            ("read", json!({"path": "a"})),
            "{form}"
        );
    }
    let two = "<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\n\
               <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>";
    assert!(matches!(toolbox().written_calls(two), Written::Calls(calls) if calls.len() == 2));
}

#[test]
fn an_answer_that_quotes_a_call_is_text() {
    let call = "{\"name\": \"bash\", \"arguments\": {\"command\": \"rm x\"}}";
    let texts = [
        format!("The file says {call}."),
        format!("{call}\nis what the file says."),
        format!("<tool_call>{call}</tool_call> is how Qwen calls."),
        format!("To call, write `<tool_call>{call}</tool_call>`"),
        format!("Example:\n```\n<tool_call>{call}</tool_call>\n```\nDone."),
        "{\"name\": \"fastness\", \"arguments\": {}}".to_owned(),
        "{\"name\": \"read\", \"version\": 1}".to_owned(),
        "{\"name\": \"read\", \"arguments\": {}, \"license\": \"MIT\"}".to_owned(),
        "{\"name\": \"read\", \"arguments\": {\"path\": \"a".to_owned(),
        "[]".to_owned(),
        String::new(),
        "x".repeat(2_000_000),
    ];
    for text in texts {
        assert_eq!(toolbox().written_calls(&text), Written::Text, "{text:.200}");
    }
    for ending in [
        format!("I will remove it.\n```json\n{call}\n```"),
        format!("I will remove it.\n<tool_call>\n{call}\n</tool_call>"),
    ] {
        let written = toolbox().written_calls(&ending);
        assert!(matches!(written, Written::Ending(_)), "{ending}");
    }
}

#[test]
fn every_parameter_of_every_tool_is_described() {
    fn check(tool: &str, schema: &Value) {
        let properties = schema["properties"].as_object();
        for (name, schema) in properties.into_iter().flatten() {
            let said = schema["description"].as_str().unwrap_or_default();
            assert!(said.len() > 3, "{tool}: `{name}` has no description");
            check(tool, schema);
            check(tool, &schema["items"]);
        }
    }
    for tool in builtin::ALL {
        check(tool.name(), &tool.input_schema());
    }
}
