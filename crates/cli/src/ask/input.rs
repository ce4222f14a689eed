//! What is asked: the argument, and stdin where it was asked for. A pipe that is only there is not
//! read: in a script or an editor's task it may never end.

use std::io::{self, Read};

use anyhow::Context;

use crate::args::AskArgs;
use crate::render::Failure;

/// The prompt: the argument, stdin for `-`, or with `--stdin` the one followed by the other.
///
/// # Errors
/// If stdin cannot be read or is not text, or if there is nothing to ask or too much.
pub(super) fn prompt(args: &AskArgs, bytes_max: usize) -> anyhow::Result<String> {
    let stdin = || read(io::stdin().lock(), bytes_max);
    let text = match (args.prompt.as_str(), args.stdin) {
        ("-", _) => stdin()?,
        (prompt, true) => joined(prompt, &stdin()?),
        (prompt, false) => prompt.to_owned(),
    };
    checked(text, bytes_max)
}

/// The question first: it says what the rest is for.
fn joined(prompt: &str, context: &str) -> String {
    format!("{prompt}\n\n{}", context.trim_end())
}

fn read(stdin: impl Read, bytes_max: usize) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    stdin
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .context("the prompt could not be read from stdin")?;
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::usage("the prompt on stdin is not UTF-8"))?;
    Ok(text)
}

fn checked(text: String, bytes_max: usize) -> anyhow::Result<String> {
    if text.len() > bytes_max {
        let sentence = format!("the prompt is longer than {bytes_max} bytes");
        return Err(Failure::usage(sentence).into());
    }
    if text.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty").into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{checked, joined, read};
    use crate::render::{Exit, exit_of};

    #[test]
    fn context_follows_the_question_after_a_blank_line() {
        assert_eq!(joined("why?", "+ a\n- b\n\n"), "why?\n\n+ a\n- b");
    }

    #[test]
    fn a_prompt_must_say_something_that_fits_and_is_text() {
        for wrong in ["", "  \n", "too long"] {
            let error = checked(wrong.to_owned(), 3).unwrap_err();
            assert_eq!(exit_of(&error), Exit::Usage);
        }
        assert_eq!(checked("ok".to_owned(), 3).unwrap(), "ok");
        assert!(read(&b"\xff"[..], 10).is_err());
        assert_eq!(read(&b"0123456789"[..], 3).unwrap().len(), 4);
    }
}
