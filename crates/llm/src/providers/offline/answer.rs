//! The offline assistant's words.

use std::fmt::Write;

use super::request::{FORMS, Form, Request};
use super::summary::{counted, summarise};

/// Lines of a result shown in an answer; the tool call itself holds all of it.
const SHOWN_LINES_MAX: usize = 60;

/// Bytes of a result shown in an answer.
const SHOWN_BYTES_MAX: usize = 6_000;

const HOW_TO_ADD_A_MODEL: &str = "\
To talk with a real model, do one of these and start Fastness again:

1. **On this machine, free:** install Ollama and run `ollama pull qwen3`. Fastness finds it by \
itself (LM Studio, llama.cpp and vLLM too).
2. **Anthropic:** `export ANTHROPIC_API_KEY=…`
3. **OpenAI:** `export OPENAI_API_KEY=…`
4. **Any compatible server:** `export OPENAI_BASE_URL=http://HOST:PORT/v1` and add \
`--model openai-chat:NAME`";

/// The answer to a request that takes no tool.
pub(super) fn without_tool(asked: &Request<'_>, tools: &[&str]) -> String {
    match asked {
        Request::Greeting => format!(
            "Hello! I am the offline assistant of Fastness, not an AI model: I follow a few \
             fixed forms and can use real tools with them. {}\n\nSay `help` for all of them and \
             for how to add a model.",
            examples(tools)
        ),
        Request::Help => help(tools),
        Request::Incomplete { usage } => {
            format!("I need a little more for that. The form is: `{usage}`.")
        }
        Request::Other
        | Request::Read { .. }
        | Request::Summarise { .. }
        | Request::List { .. }
        | Request::Find { .. }
        | Request::Search { .. }
        | Request::Write { .. }
        | Request::Edit { .. }
        | Request::Run { .. }
        | Request::Fetch { .. } => format!(
            "That needs a language model, and none is set up: I am the offline assistant of \
             Fastness, not an AI model. {}\n\n{HOW_TO_ADD_A_MODEL}",
            examples(tools)
        ),
    }
}

/// The answer when the tool that a request needs is not offered.
pub(super) fn tool_is_missing(name: &str, tools: &[&str]) -> String {
    let known = usages(FORMS.iter().filter(|form| tools.contains(&form.tool)));
    let instead = if known.is_empty() {
        "No tool is available here, so I can only explain: say `help`.".to_owned()
    } else {
        format!("What I can do here: {known}.")
    };
    format!("I cannot do that here: the tool `{name}` is not available. {instead}")
}

/// The text of a file without the numbers that `read` puts before its lines.
fn without_numbers(result: &str) -> String {
    let lines = result
        .split_inclusive('\n')
        .map(|line| match line.split_once('\t') {
            Some((number, rest)) if number.parse::<u64>().is_ok() => rest,
            Some(_) | None => line,
        });
    lines.collect()
}

/// The answer once the tool has succeeded with `result`.
pub(super) fn after(asked: &Request<'_>, result: &str) -> String {
    let is_numbered = matches!(asked, Request::Read { .. } | Request::Summarise { .. });
    let bare = is_numbered.then(|| without_numbers(result));
    let result = bare.as_deref().unwrap_or(result);
    match asked {
        Request::Summarise { path } => summarise(path, result),
        Request::Read { path } if result.trim().is_empty() => format!("`{path}` is empty."),
        Request::Read { path } => format!("Here is `{path}`:\n\n{}", shown(result)),
        Request::List { path } => match result.trim() {
            "" => format!("`{}` is empty.", path.unwrap_or(".")),
            _ => format!(
                "In `{}` there is:\n\n{}",
                path.unwrap_or("."),
                shown(result)
            ),
        },
        Request::Find { word } => match result.trim() {
            "" => format!("No file has a name like `{word}`."),
            _ => format!("Files named like `{word}`:\n\n{}", shown(result)),
        },
        Request::Search { text } => match result.trim() {
            "" => format!("No line contains `{text}`."),
            _ => format!("Lines with `{text}`:\n\n{}", shown(result)),
        },
        Request::Write { path, .. } => format!("Done: `{path}` is written."),
        Request::Edit { path, old, new } => {
            format!("Done: in `{path}`, `{old}` is now `{new}`.")
        }
        Request::Run { command } => match result.trim() {
            "" => format!("`{command}` ran and printed nothing."),
            _ => format!("`{command}` printed:\n\n{}", shown(result)),
        },
        Request::Fetch { .. } => format!("The page says:\n\n{}", shown(result)),
        Request::Help | Request::Greeting | Request::Incomplete { .. } | Request::Other => {
            format!("The tool answered:\n\n{}", shown(result))
        }
    }
}

/// The answer once the tool has failed, was refused, or did not run.
pub(super) fn failed(asked: &Request<'_>, result: &str) -> String {
    let what = match asked.tool() {
        Some((name, _)) => format!("The tool `{name}` did not succeed"),
        None => "The tool did not succeed".to_owned(),
    };
    match result.trim() {
        "" => format!("{what}."),
        reason => format!("{what}:\n\n{}", shown(reason)),
    }
}

fn help(tools: &[&str]) -> String {
    let mut help = "I am the offline assistant of Fastness, not an AI model. I understand these \
                    forms, with or without a leading `/`, and carry them out with real tools:\n"
        .to_owned();
    let (here, elsewhere): (Vec<&Form>, Vec<&Form>) =
        FORMS.iter().partition(|form| tools.contains(&form.tool));
    for form in &here {
        let _ = write!(help, "\n- `{}`: {}", form.usage, form.purpose);
    }
    if here.is_empty() {
        help.push_str("\n- none, because no tool is available here");
    }
    if !elsewhere.is_empty() {
        let known = usages(elsewhere.into_iter());
        let _ = write!(
            help,
            "\n\nNot available here, for want of their tools: {known}."
        );
    }
    let _ = write!(help, "\n\n{HOW_TO_ADD_A_MODEL}");
    help
}

fn examples(tools: &[&str]) -> String {
    let known = usages(
        FORMS
            .iter()
            .filter(|form| tools.contains(&form.tool))
            .take(4),
    );
    if known.is_empty() {
        "No tool is available here, so I can do little.".to_owned()
    } else {
        format!("Try {known}.")
    }
}

fn usages<'a>(forms: impl Iterator<Item = &'a Form>) -> String {
    let usages: Vec<String> = forms.map(|form| format!("`{}`", form.usage)).collect();
    usages.join(", ")
}

/// A result as a code block, cut to a size that people read.
fn shown(result: &str) -> String {
    let result = result.trim_end().trim_start_matches('\n');
    let mut cut = result.len();
    if let Some((at, _)) = result.match_indices('\n').nth(SHOWN_LINES_MAX - 1) {
        cut = at;
    }
    if cut > SHOWN_BYTES_MAX {
        let line_end = result[..result.floor_char_boundary(SHOWN_BYTES_MAX)].rfind('\n');
        cut = line_end.unwrap_or(result.floor_char_boundary(SHOWN_BYTES_MAX));
    }
    let (kept, left) = result.split_at(cut);
    let fence = if kept.contains("```") { "````" } else { "```" };
    let mut shown = format!("{fence}\n{kept}\n{fence}");
    if !left.trim().is_empty() {
        let lines = left.trim_start_matches('\n').lines().count();
        let _ = write!(shown, "\n\n… and {}.", counted(lines, "more line"));
    }
    shown
}
