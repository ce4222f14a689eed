//! `ask_user`: a question of the agent's to the person, who answers in their client.
//!
//! It does not run: [`question`](Tool::question) says what to ask, the session asks it, and the
//! answer is the call's outcome. What comes to run here is a call that nothing can be asked by.

use domain::event::ToolKind;
use domain::limits::{QUESTION_BYTES_MAX, QUESTION_OPTION_BYTES_MAX, QUESTION_OPTIONS_MAX};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, PersonQuestion, RunsHere, Shown, Tool, one_line, parse_input};
use crate::plain::plain;
use crate::roots::Roots;

/// Characters of a question in a title: what fits a line.
const TITLE_CHARS_MAX: usize = 120;

pub(crate) struct AskUser;

#[derive(Deserialize)]
struct Input {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

impl Tool for AskUser {
    fn name(&self) -> &'static str {
        "ask_user"
    }

    fn description(&self) -> &'static str {
        "Asks the user a question and waits for the answer. Use it only for decisions that you cannot \
         make yourself, not for permission: permission is requested for you."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "One complete question"},
                "options": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": QUESTION_OPTIONS_MAX,
                    "description": "Short answers to choose from; the user may also answer freely",
                },
            },
            "required": ["question"],
        })
    }

    fn show(&self, input: &Value, _: &Roots) -> Shown {
        let asked = input.get("question").and_then(Value::as_str);
        let asked = one_line(&harmless(asked.unwrap_or_default()));
        let title: String = asked.chars().take(TITLE_CHARS_MAX).collect();
        let more = match asked.len() > title.len() {
            true => "…",
            false => "",
        };
        Shown {
            title: format!("Question: {title}{more}"),
            kind: ToolKind::Other,
            locations: Vec::new(),
            content: Vec::new(),
        }
    }

    fn asks_person(&self) -> bool {
        true
    }

    fn question(&self, input: &Value) -> Option<PersonQuestion> {
        read(input.clone()).ok()
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }
}

impl RunsHere for AskUser {
    fn run(&self, input: Value, _: &Roots) -> Outcome {
        match read(input) {
            Err(outcome) => outcome,
            Ok(_) => Outcome::failed("The user cannot be asked here."),
        }
    }
}

/// The question as a person is shown it, or what is wrong with it.
#[expect(
    clippy::result_large_err,
    reason = "an outcome is moved once, to the end of its call"
)]
fn read(input: Value) -> Result<PersonQuestion, Outcome> {
    let Input { question, options } = parse_input("ask_user", input)?;
    let wrong = |what: String| Err(Outcome::failed(what));
    if question.len() > QUESTION_BYTES_MAX {
        return wrong(format!(
            "A question has at most {QUESTION_BYTES_MAX} bytes; ask something shorter."
        ));
    }
    if options.len() > QUESTION_OPTIONS_MAX {
        return wrong(format!(
            "A question offers at most {QUESTION_OPTIONS_MAX} answers; offer fewer, or none."
        ));
    }
    if options
        .iter()
        .any(|option| option.len() > QUESTION_OPTION_BYTES_MAX)
    {
        return wrong(format!(
            "An offered answer has at most {QUESTION_OPTION_BYTES_MAX} bytes; put the rest into \
             the question."
        ));
    }
    let question = harmless(&question).trim().to_owned();
    if question.is_empty() {
        return wrong("The question is empty.".to_owned());
    }
    let mut offered: Vec<String> = Vec::with_capacity(options.len());
    for option in options {
        let option = one_line(&harmless(&option));
        if !option.is_empty() && !offered.contains(&option) {
            offered.push(option);
        }
    }
    Ok(PersonQuestion {
        question,
        options: offered,
    })
}

/// Text without what drives a terminal, and without marks where that was.
fn harmless(text: &str) -> String {
    plain(text.as_bytes()).replace(char::REPLACEMENT_CHARACTER, "")
}

#[cfg(test)]
mod tests {
    use domain::limits::{QUESTION_BYTES_MAX, QUESTION_OPTIONS_MAX};
    use serde_json::json;

    use super::{AskUser, read};
    use crate::builtin::Tool as _;

    #[test]
    fn d_05_a_question_is_asked_in_plain_words() {
        let input = json!({
            "question": "\u{1b}[31mWhich\u{7} one?\u{202e}\n\nSay.",
            "options": ["a\nb", "a b", "\u{1b}[2J", "c"],
        });
        let asked = AskUser.question(&input).unwrap();
        let is_plain = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n');
        assert!(asked.question.starts_with("Which"), "{}", asked.question);
        assert!(is_plain(&asked.question), "{}", asked.question);
        assert!(!asked.question.contains('\u{202e}'));
        assert_eq!(asked.options, ["a b", "c"]);
    }

    #[test]
    fn d_05_what_nobody_can_be_asked_is_not_asked() {
        let many = vec!["a"; QUESTION_OPTIONS_MAX + 1];
        for (input, why) in [
            (json!({"question": " \u{7}\n"}), "empty"),
            (
                json!({"question": "x".repeat(QUESTION_BYTES_MAX + 1)}),
                "at most",
            ),
            (json!({"question": "x", "options": many}), "fewer"),
            (
                json!({"question": "x", "options": ["y".repeat(1000)]}),
                "bytes",
            ),
            (json!({"question": ["7"]}), "not valid"),
            (json!({}), "not valid"),
        ] {
            let outcome = read(input.clone()).unwrap_err();
            assert!(outcome.text.contains(why), "{input}: {}", outcome.text);
            assert_eq!(AskUser.question(&input), None);
        }
    }
}
